//! What the node says of itself.

use serde_json::{Map, Value, json};

use super::{Answered, zec};
use crate::simulated::{BUILD, SUBVERSION, chain::Chain, query::zatoshi};

/// Every block here has the easiest target.
pub(super) const DIFFICULTY: f64 = 1.0;

impl Chain {
    pub(super) fn get_info(&self) -> Answered {
        let tip = self.tip_or_error()?;
        Ok(json!({
            "version": 7_000_000,
            "build": BUILD,
            "subversion": SUBVERSION,
            "protocolversion": 170_150,
            "blocks": tip.id.height.get(),
            "connections": 0,
            "difficulty": DIFFICULTY,
            "testnet": self.network_name() == "test",
            "paytxfee": 0.0,
            "relayfee": 0.000_001,
            "errors": "no errors",
            "errorstimestamp": tip.time,
        }))
    }

    pub(super) fn get_blockchain_info(&self) -> Answered {
        let tip = self.tip_or_error()?;
        let height = tip.id.height;
        let transparent = zatoshi(self.ledger.total_zat());
        let pool = |id: &str, amount: i64| json!({"id": id, "chainValue": zec(amount), "chainValueZat": amount, "monitored": amount != 0});
        let upgrades: Map<String, Value> = self
            .activations
            .announced()
            .into_iter()
            .map(|upgrade| {
                let status = if upgrade.height <= height {
                    "active"
                } else {
                    "pending"
                };
                let body = json!({
                    "name": upgrade.name,
                    "activationheight": upgrade.height.get(),
                    "status": status,
                });
                (format!("{:08x}", upgrade.branch_id), body)
            })
            .collect();
        let next = height.next().unwrap_or(height);
        Ok(json!({
            "chain": self.network_name(),
            "blocks": height.get(),
            "headers": height.get(),
            "difficulty": DIFFICULTY,
            "verificationprogress": 1.0,
            "chainwork": 0,
            "pruned": false,
            "size_on_disk": self.best_bytes(),
            "commitments": 0,
            "bestblockhash": tip.id.hash.to_string(),
            "estimatedheight": height.get(),
            "chainSupply": {
                "chainValue": zec(transparent),
                "chainValueZat": transparent,
                "monitored": transparent != 0,
            },
            "valuePools": [
                pool("transparent", transparent),
                pool("sprout", 0),
                pool("sapling", 0),
                pool("orchard", 0),
                pool("lockbox", 0),
                pool("ironwood", 0),
            ],
            "upgrades": upgrades,
            "consensus": {
                "chaintip": format!("{:08x}", self.activations.branch_id(height)),
                "nextblock": format!("{:08x}", self.activations.branch_id(next)),
            },
        }))
    }

    pub(super) fn get_mining_info(&self) -> Answered {
        let tip = self.tip_or_error()?;
        Ok(json!({
            "blocks": tip.id.height.get(),
            "currentblocksize": tip.bytes.len(),
            "currentblocktx": tip.index().len() - 1,
            "networksolps": 0,
            "networkhashps": 0,
            "chain": self.network_name(),
            "testnet": self.network_name() == "test",
        }))
    }
}

pub(super) fn get_network_info() -> Value {
    json!({
        "version": 7_000_000,
        "subversion": SUBVERSION,
        "protocolversion": 170_150,
        "localservices": "0000000000000001",
        "timeoffset": 0,
        "connections": 0,
        "networks": [
            {"name": "ipv4", "limited": false, "reachable": true, "proxy": "", "proxy_randomize_credentials": false},
            {"name": "ipv6", "limited": false, "reachable": true, "proxy": "", "proxy_randomize_credentials": false},
            {"name": "onion", "limited": false, "reachable": false, "proxy": "", "proxy_randomize_credentials": false},
        ],
        "relayfee": 0.000_001,
        "localaddresses": [],
        "warnings": "",
    })
}
