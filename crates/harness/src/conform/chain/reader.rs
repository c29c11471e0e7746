//! A plain reader of blocks and transactions, for the model alone.
//!
//! In: a raw block. Out: its header's facts, and each transaction as the fullest `CompactTx` there is (ids are set by the caller). It shares
//! nothing with the parser that is judged: it copies, and it knows each layout once, as the tables of the specifications have it.
//!
//! Spec: protocol §7.1 "Transaction Encoding and Consensus"; ZIP 225 (version 5); ZIP 229 (version 6).

use anyhow::{Context, Result, bail, ensure};
use sha2::{Digest, Sha256};

use crate::proto::{
    CompactOrchardAction, CompactSaplingOutput, CompactSaplingSpend, CompactTx, CompactTxIn, TxOut,
};

/// How much of a note's ciphertext is in a compact output.
const CIPHERTEXT_BYTES: usize = 52;

/// A block's header and transactions.
#[derive(Debug)]
pub(super) struct Read {
    pub(super) hash: [u8; 32],
    pub(super) previous: [u8; 32],
    pub(super) merkle_root: [u8; 32],
    pub(super) time: u32,
    pub(super) transactions: Vec<ReadTransaction>,
}

/// One transaction.
#[derive(Debug)]
pub(super) struct ReadTransaction {
    pub(super) version: u32,
    pub(super) coinbase: bool,
    pub(super) bytes: Vec<u8>,
    pub(super) compact: CompactTx,
}

/// SHA-256 of the SHA-256.
pub(super) fn twice(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(Sha256::digest(bytes)).into()
}

/// Reads a whole block.
pub(super) fn block(bytes: &[u8]) -> Result<Read> {
    let mut reader = Reader { bytes, at: 0 };
    reader.skip(4)?;
    let previous = reader.array()?;
    let merkle_root = reader.array()?;
    reader.skip(32)?;
    let time = reader.u32()?;
    reader.skip(4 + 32)?;
    let solution = reader.count()?;
    reader.skip(solution)?;
    let hash = twice(&bytes[..reader.at]);
    let count = reader.count()?;
    let mut transactions = Vec::new();
    for _ in 0..count {
        transactions.push(read(&mut reader)?);
    }
    ensure!(reader.at == bytes.len(), "bytes follow the block");
    Ok(Read {
        hash,
        previous,
        merkle_root,
        time,
        transactions,
    })
}

/// Reads a transaction that is not in a block.
pub(super) fn transaction(bytes: &[u8]) -> Result<ReadTransaction> {
    let mut reader = Reader { bytes, at: 0 };
    let found = read(&mut reader)?;
    ensure!(reader.at == bytes.len(), "bytes follow the transaction");
    Ok(found)
}

fn read(reader: &mut Reader<'_>) -> Result<ReadTransaction> {
    let from = reader.at;
    let word = reader.u32()?;
    let version = word & 0x7fff_ffff;
    if word >> 31 == 1 {
        let group = reader.u32()?;
        let known = matches!(
            (version, group),
            (3, 0x03c4_8270) | (4, 0x892f_2085) | (5, 0x26a7_270a) | (6, 0xd884_b698)
        );
        ensure!(known, "transaction version {version}, group {group:08x}");
    }
    let mut compact = CompactTx::default();
    let coinbase = match version {
        5 | 6 if word >> 31 == 1 => {
            reader.skip(4 + 4 + 4)?;
            let coinbase = transparent(reader, &mut compact)?;
            sapling(reader, &mut compact)?;
            compact.actions = actions(reader)?;
            if version == 6 {
                compact.ironwood_actions = actions(reader)?;
            }
            coinbase
        }
        _ => {
            let coinbase = transparent(reader, &mut compact)?;
            reader.skip(4)?;
            before_nu5(reader, word, &mut compact)?;
            coinbase
        }
    };
    Ok(ReadTransaction {
        version,
        coinbase,
        bytes: reader.bytes[from..reader.at].to_vec(),
        compact,
    })
}

/// What follows the lock time in versions 1 to 4.
fn before_nu5(reader: &mut Reader<'_>, word: u32, compact: &mut CompactTx) -> Result<()> {
    let version = word & 0x7fff_ffff;
    let overwintered = word >> 31 == 1;
    if overwintered {
        reader.skip(4)?;
    }
    let mut shielded = 0;
    if overwintered && version == 4 {
        reader.skip(8)?;
        for _ in 0..reader.count()? {
            reader.skip(64)?;
            let nf = reader.vec(32)?;
            reader.skip(32 + 192 + 64)?;
            compact.spends.push(CompactSaplingSpend { nf });
        }
        for _ in 0..reader.count()? {
            compact.outputs.push(output(reader)?);
            reader.skip(192)?;
        }
        shielded = compact.spends.len() + compact.outputs.len();
    }
    if version >= 2 {
        let joinsplit = if overwintered && version == 4 {
            1698
        } else {
            1802
        };
        let count = reader.count()?;
        for _ in 0..count {
            reader.skip(joinsplit)?;
        }
        if count > 0 {
            reader.skip(32 + 64)?;
        }
    }
    if shielded > 0 {
        reader.skip(64)?;
    }
    Ok(())
}

/// Inputs and outputs; whether it is a coinbase, whose input is none.
fn transparent(reader: &mut Reader<'_>, compact: &mut CompactTx) -> Result<bool> {
    for _ in 0..reader.count()? {
        let prevout_txid = reader.vec(32)?;
        let prevout_index = reader.u32()?;
        let script = reader.count()?;
        reader.skip(script + 4)?;
        compact.vin.push(CompactTxIn {
            prevout_txid,
            prevout_index,
        });
    }
    for _ in 0..reader.count()? {
        let value = reader.u64()?;
        let script = reader.count()?;
        compact.vout.push(TxOut {
            value,
            script_pub_key: reader.vec(script)?,
        });
    }
    let coinbase = matches!(
        &compact.vin[..],
        [only] if only.prevout_index == u32::MAX && only.prevout_txid == [0; 32]
    );
    if coinbase {
        compact.vin.clear();
    }
    Ok(coinbase)
}

/// cv, cmu, ephemeral key, ciphertexts: an output up to its proof.
fn output(reader: &mut Reader<'_>) -> Result<CompactSaplingOutput> {
    reader.skip(32)?;
    let cmu = reader.vec(32)?;
    let ephemeral_key = reader.vec(32)?;
    let ciphertext = reader.vec(CIPHERTEXT_BYTES)?;
    reader.skip(580 - CIPHERTEXT_BYTES + 80)?;
    Ok(CompactSaplingOutput {
        cmu,
        ephemeral_key,
        ciphertext,
    })
}

/// The Sapling part from version 5 on.
fn sapling(reader: &mut Reader<'_>, compact: &mut CompactTx) -> Result<()> {
    let spends = reader.count()?;
    for _ in 0..spends {
        reader.skip(32)?;
        let nf = reader.vec(32)?;
        reader.skip(32)?;
        compact.spends.push(CompactSaplingSpend { nf });
    }
    let outputs = reader.count()?;
    for _ in 0..outputs {
        compact.outputs.push(output(reader)?);
    }
    if spends + outputs > 0 {
        reader.skip(8)?;
    }
    if spends > 0 {
        reader.skip(32)?;
    }
    reader.skip((192 + 64) * spends)?;
    reader.skip(192 * outputs)?;
    if spends + outputs > 0 {
        reader.skip(64)?;
    }
    Ok(())
}

/// The Orchard part, or the Ironwood part, which has the same shape.
fn actions(reader: &mut Reader<'_>) -> Result<Vec<CompactOrchardAction>> {
    let count = reader.count()?;
    let mut actions = Vec::new();
    for _ in 0..count {
        reader.skip(32)?;
        let nullifier = reader.vec(32)?;
        reader.skip(32)?;
        let cmx = reader.vec(32)?;
        let ephemeral_key = reader.vec(32)?;
        let ciphertext = reader.vec(CIPHERTEXT_BYTES)?;
        reader.skip(580 - CIPHERTEXT_BYTES + 80)?;
        actions.push(CompactOrchardAction {
            nullifier,
            cmx,
            ephemeral_key,
            ciphertext,
        });
    }
    if count > 0 {
        reader.skip(1 + 8 + 32)?;
        let proofs = reader.count()?;
        reader.skip(proofs)?;
        reader.skip(64 * count + 64)?;
    }
    Ok(actions)
}

/// A place in bytes that may end too early.
struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        let end = self.at.checked_add(count).context("a length")?;
        let taken = self.bytes.get(self.at..end).context("it ends too early")?;
        self.at = end;
        Ok(taken)
    }

    fn skip(&mut self, count: usize) -> Result<()> {
        self.take(count).map(drop)
    }

    fn vec(&mut self, count: usize) -> Result<Vec<u8>> {
        self.take(count).map(<[u8]>::to_vec)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        Ok(self.take(N)?.try_into()?)
    }

    fn u32(&mut self) -> Result<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// A CompactSize, as a number of things that are still to come.
    fn count(&mut self) -> Result<usize> {
        let number = match self.array::<1>()?[0] {
            0xfd => u16::from_le_bytes(self.array()?).into(),
            0xfe => self.u32()?.into(),
            0xff => self.u64()?,
            small => u64::from(small),
        };
        match usize::try_from(number) {
            Ok(count) if count <= self.bytes.len() => Ok(count),
            _ => bail!("a count of {number}"),
        }
    }
}
