//! Transparent addresses.

use lightship_chain::{Height, HeightRange};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Answered, Params, RpcError, hex};
use crate::simulated::{address::Address, chain::Chain};

/// Zebra's bound on one answer.
const MOST_ENTRIES: usize = 100_000;

/// One object, or one address alone.
#[derive(Deserialize)]
#[serde(untagged)]
enum Request {
    One(String),
    Many(Many),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Many {
    addresses: Vec<String>,
    #[serde(default)]
    start: Option<u32>,
    #[serde(default)]
    end: Option<u32>,
    #[serde(default)]
    chain_info: bool,
    #[serde(default)]
    start_height: u32,
    #[serde(default)]
    max_entries: u32,
}

impl Chain {
    fn request(&self, params: &Params<'_>) -> Result<(Vec<Address>, Many), RpcError> {
        let many = match params.required(0, "request")? {
            Request::Many(many) => many,
            Request::One(address) => Many {
                addresses: vec![address],
                start: None,
                end: None,
                chain_info: false,
                start_height: 0,
                max_entries: 0,
            },
        };
        Ok((self.addresses(&many.addresses)?, many))
    }

    pub(super) fn get_address_tx_ids(&self, params: &Params<'_>) -> Answered {
        let (addresses, request) = self.request(params)?;
        let tip = self.tip_or_error()?.id.height;
        let clamp = |height: u32| Height::try_from(height).map_or(tip, |height| height.min(tip));
        let start = clamp(request.start.unwrap_or(0));
        let end = match request.end {
            None | Some(0) => tip,
            Some(end) => clamp(end),
        };
        let range = HeightRange::new(start, end).ok_or_else(|| {
            RpcError::new(
                -1,
                format!("start {start} must be less than or equal to end {end}"),
            )
        })?;
        let ids = self.transactions_of(&addresses, range);
        bounded(ids.len())?;
        Ok(ids
            .iter()
            .map(|id| Value::from(id.to_string()))
            .collect::<Vec<_>>()
            .into())
    }

    pub(super) fn get_address_utxos(&self, params: &Params<'_>) -> Answered {
        let (addresses, request) = self.request(params)?;
        bounded(request.max_entries as usize)?;
        let start = Height::try_from(request.start_height)
            .map_err(|error| RpcError::new(-8, error.to_string()))?;
        let unspent = self.utxos_of(&addresses, start, Some(request.max_entries));
        bounded(unspent.len())?;
        let utxos: Vec<_> = unspent
            .iter()
            .map(|utxo| {
                json!({
                    "address": utxo.address,
                    "txid": utxo.txid.to_string(),
                    "outputIndex": utxo.index,
                    "script": hex(&utxo.script),
                    "satoshis": utxo.value_zat,
                    "height": utxo.height.get(),
                })
            })
            .collect();
        if !request.chain_info {
            return Ok(utxos.into());
        }
        let tip = self.tip_or_error()?.id;
        Ok(json!({"utxos": utxos, "hash": tip.hash.to_string(), "height": tip.height.get()}))
    }

    pub(super) fn get_address_balance(&self, params: &Params<'_>) -> Answered {
        let (addresses, _) = self.request(params)?;
        let (balance, received) = self.balance_of(&addresses);
        Ok(json!({"balance": balance, "received": received}))
    }

    pub(super) fn validate_address(&self, params: &Params<'_>) -> Answered {
        let text: String = params.required(0, "address")?;
        Ok(match Address::decode(&text, self.network) {
            None => json!({"isvalid": false}),
            Some(address) => json!({
                "isvalid": true,
                "address": text,
                "isscript": matches!(address, Address::ScriptHash(_)),
            }),
        })
    }
}

fn bounded(entries: usize) -> Result<(), RpcError> {
    if entries <= MOST_ENTRIES {
        return Ok(());
    }
    Err(RpcError::new(
        -8,
        format!("more than {MOST_ENTRIES} entries: narrow the range"),
    ))
}
