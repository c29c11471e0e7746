//! Transactions of versions 1 to 6.
//!
//! Spec: protocol §7.1 "Transaction Encoding and Consensus"; ZIP 202 (version 3), ZIP 243 (4), ZIP 225 (5), ZIP 229 (6).

use super::{
    ActionBundle, Actions, Error, Inputs, Outputs, Result, SaplingOutputs, SaplingSpends,
    action::elements,
    reader::Reader,
    sapling::{OUTPUT_V4_BYTES, OUTPUT_V5_BYTES, SPEND_V4_BYTES, SPEND_V5_BYTES},
    txid,
};
use crate::TxId;

const OVERWINTERED: u32 = 1 << 31;
const GROUP_V3: u32 = 0x03c4_8270;
const GROUP_V4: u32 = 0x892f_2085;
const GROUP_V5: u32 = 0x26a7_270a;
const GROUP_V6: u32 = 0xd884_b698;

const JOINSPLIT_PHGR13_BYTES: usize = 1802;
const JOINSPLIT_GROTH16_BYTES: usize = 1698;
const PROOF_BYTES: usize = 192;
const SIGNATURE_BYTES: usize = 64;

/// The smallest transaction: version 4, no inputs 1, no outputs 1, lock time 4.
pub(super) const TRANSACTION_LEAST_BYTES: usize = 10;

/// The layout of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// Transparent.
    V1,
    /// With JoinSplits: 2, and every greater number without the overwintered flag.
    V2,
    /// [Overwinter onwards] With an expiry height.
    V3,
    /// [Sapling onwards]
    V4,
    /// [NU5 onwards] With Orchard actions.
    V5,
    /// [NU6.3 onwards] With Ironwood actions.
    V6,
}

/// A view of one transaction.
#[derive(Clone, Copy, Debug)]
pub struct Transaction<'a> {
    bytes: &'a [u8],
    version: Version,
    inputs: Inputs<'a>,
    outputs: Outputs<'a>,
    joinsplits: usize,
    sapling: Sapling<'a>,
    orchard: ActionBundle<'a>,
    ironwood: ActionBundle<'a>,
}

/// The Sapling parts of a transaction.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sapling<'a> {
    pub(super) spends: SaplingSpends<'a>,
    pub(super) outputs: SaplingOutputs<'a>,
    /// Version 5 onwards, where there is a spend or an output: the bytes that ids commit to.
    pub(super) value_balance: Option<&'a [u8; 8]>,
    /// Version 5 onwards, where there is a spend.
    pub(super) anchor: Option<&'a [u8; 32]>,
}

impl<'a> Transaction<'a> {
    /// The transaction at the start of `bytes`, and how many bytes it takes.
    ///
    /// # Errors
    ///
    /// Any [`Error`] but `Trailing` and `TooLarge`.
    pub fn parse(bytes: &'a [u8]) -> Result<(Transaction<'a>, usize)> {
        let mut reader = Reader::new(bytes);
        let transaction = Transaction::read(&mut reader)?;
        Ok((transaction, transaction.bytes.len()))
    }

    pub(super) fn read(reader: &mut Reader<'a>) -> Result<Transaction<'a>> {
        let start = *reader;
        let version = read_version(reader)?;
        if version >= Version::V5 {
            // Consensus branch id, lock time, expiry height.
            reader.take(12, "branch id, lock time and expiry height")?;
        }
        let inputs = Inputs::read(reader)?;
        let outputs = Outputs::read(reader)?;
        let mut transaction = Transaction {
            bytes: &[],
            version,
            inputs,
            outputs,
            joinsplits: 0,
            sapling: Sapling::EMPTY,
            orchard: ActionBundle::default(),
            ironwood: ActionBundle::default(),
        };
        match version {
            Version::V1 | Version::V2 | Version::V3 => transaction.read_sprout(reader)?,
            Version::V4 => transaction.read_v4(reader)?,
            Version::V5 | Version::V6 => {
                transaction.sapling = Sapling::read_v5(reader)?;
                transaction.orchard = ActionBundle::read(reader, "Orchard actions")?;
                if version == Version::V6 {
                    transaction.ironwood = ActionBundle::read(reader, "Ironwood actions")?;
                }
            }
        }
        transaction.bytes = reader.since(start);
        Ok(transaction)
    }

    fn read_sprout(&mut self, reader: &mut Reader<'a>) -> Result<()> {
        reader.take(4, "lock time")?;
        if self.version == Version::V3 {
            reader.take(4, "expiry height")?;
        }
        if self.version >= Version::V2 {
            self.read_joinsplits(reader, JOINSPLIT_PHGR13_BYTES)?;
        }
        Ok(())
    }

    fn read_v4(&mut self, reader: &mut Reader<'a>) -> Result<()> {
        reader.take(16, "lock time, expiry height and value balance")?;
        let count = reader.count(SPEND_V4_BYTES, "Sapling spends")?;
        let spends = elements(reader, count, "Sapling spends")?;
        let count = reader.count(OUTPUT_V4_BYTES, "Sapling outputs")?;
        let outputs = elements(reader, count, "Sapling outputs")?;
        self.read_joinsplits(reader, JOINSPLIT_GROTH16_BYTES)?;
        if !spends.is_empty() || !outputs.is_empty() {
            reader.take(SIGNATURE_BYTES, "binding signature")?;
        }
        self.sapling.spends = SaplingSpends::V4(spends);
        self.sapling.outputs = SaplingOutputs::V4(outputs);
        Ok(())
    }

    fn read_joinsplits(&mut self, reader: &mut Reader<'a>, bytes: usize) -> Result<()> {
        self.joinsplits = reader.count(bytes, "JoinSplits")?;
        if self.joinsplits > 0 {
            reader.take(self.joinsplits * bytes, "JoinSplits")?;
            reader.take(32 + SIGNATURE_BYTES, "JoinSplit key and signature")?;
        }
        Ok(())
    }

    /// The layout.
    pub fn version(&self) -> Version {
        self.version
    }

    /// The name. Hashes: the whole encoding up to version 4, the parts with effects from version 5 on.
    pub fn id(&self) -> TxId {
        txid::id(self)
    }

    /// The transparent inputs, in order; a coinbase's null input among them.
    pub fn inputs(&self) -> Inputs<'a> {
        self.inputs
    }

    /// The transparent outputs, in order.
    pub fn outputs(&self) -> Outputs<'a> {
        self.outputs
    }

    /// How many JoinSplits there are. Nothing else of Sprout is looked at.
    pub fn joinsplits(&self) -> usize {
        self.joinsplits
    }

    /// The Sapling spends, in order.
    pub fn sapling_spends(&self) -> SaplingSpends<'a> {
        self.sapling.spends
    }

    /// The Sapling outputs, in order.
    pub fn sapling_outputs(&self) -> SaplingOutputs<'a> {
        self.sapling.outputs
    }

    /// The Orchard actions, in order.
    pub fn orchard_actions(&self) -> Actions<'a> {
        self.orchard.actions()
    }

    /// The Ironwood actions, in order.
    pub fn ironwood_actions(&self) -> Actions<'a> {
        self.ironwood.actions()
    }

    /// Whether this is a coinbase: one input, and that the null one.
    pub fn is_coinbase(&self) -> bool {
        let mut inputs = self.inputs;
        inputs.len() == 1 && inputs.next().is_some_and(|input| input.is_null())
    }

    /// The serialization.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    pub(super) fn sapling(&self) -> &Sapling<'a> {
        &self.sapling
    }

    pub(super) fn orchard(&self) -> &ActionBundle<'a> {
        &self.orchard
    }

    pub(super) fn ironwood(&self) -> &ActionBundle<'a> {
        &self.ironwood
    }
}

impl<'a> Sapling<'a> {
    const EMPTY: Sapling<'static> = Sapling {
        spends: SaplingSpends::V5(&[]),
        outputs: SaplingOutputs::V5(&[]),
        value_balance: None,
        anchor: None,
    };

    fn read_v5(reader: &mut Reader<'a>) -> Result<Sapling<'a>> {
        let count = reader.count(SPEND_V5_BYTES, "Sapling spends")?;
        let spends = elements(reader, count, "Sapling spends")?;
        let count = reader.count(OUTPUT_V5_BYTES, "Sapling outputs")?;
        let outputs = elements(reader, count, "Sapling outputs")?;
        let mut sapling = Sapling {
            spends: SaplingSpends::V5(spends),
            outputs: SaplingOutputs::V5(outputs),
            ..Sapling::EMPTY
        };
        if spends.is_empty() && outputs.is_empty() {
            return Ok(sapling);
        }
        sapling.value_balance = Some(reader.array("Sapling value balance")?);
        if !spends.is_empty() {
            sapling.anchor = Some(reader.array("Sapling anchor")?);
        }
        let spends = spends.len() * (PROOF_BYTES + SIGNATURE_BYTES);
        reader.take(spends, "Sapling spend proofs and signatures")?;
        reader.take(outputs.len() * PROOF_BYTES, "Sapling output proofs")?;
        reader.take(SIGNATURE_BYTES, "binding signature")?;
        Ok(sapling)
    }
}

/// The header word and, where there is one, the version group id.
fn read_version(reader: &mut Reader<'_>) -> Result<Version> {
    let offset = reader.offset();
    let header = reader.u32("transaction version")?;
    let version = header & !OVERWINTERED;
    let mut group = 0;
    if header & OVERWINTERED != 0 {
        group = reader.u32("version group id")?;
    }
    match (header & OVERWINTERED != 0, version, group) {
        (false, 1, _) => Ok(Version::V1),
        (false, 2.., _) => Ok(Version::V2),
        (true, 3, GROUP_V3) => Ok(Version::V3),
        (true, 4, GROUP_V4) => Ok(Version::V4),
        (true, 5, GROUP_V5) => Ok(Version::V5),
        (true, 6, GROUP_V6) => Ok(Version::V6),
        _ => Err(Error::UnknownVersion {
            offset,
            version,
            header,
            group,
        }),
    }
}
