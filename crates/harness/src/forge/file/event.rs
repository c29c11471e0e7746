//! What happened to a transparent address.

use lightship_chain::Height;
use lightship_source::simulated::Address;

use super::{array, long_number, number};

/// Whether an address is paid or spends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Direction {
    /// An output pays to it.
    Paid,
    /// An input spends what an output paid to it.
    Spends,
}

/// One output or input of an address.
///
/// ```text
/// at  width
///  0      1  0: hash of a key, 1: hash of a script, 2: no standard address (and a hash of zeros)
///  1      1  0: paid, 1: spends
///  2      2  0
///  4     20  the hash
/// 24      4  height of the block
/// 28      4  position of the transaction in it
/// 32      4  position of the output or input in that
/// 36      4  of an output: height of the block that spends it, 2^32 - 1 if none; of an input: height of the output's block
/// 40      8  value in zatoshi
/// 48      8  first bytes of the id of the output's transaction
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// `None` for an output without a standard address.
    pub address: Option<Address>,
    /// Paid or spends.
    pub direction: Direction,
    /// Of the block.
    pub height: Height,
    /// Of the transaction in the block.
    pub position: u32,
    /// Of the output or input in the transaction.
    pub index: u32,
    /// The other end: where the output is spent (`u32::MAX`: nowhere), or where the output spent was made.
    pub other_height: u32,
    /// In zatoshi.
    pub value_zat: u64,
    /// The output's transaction, by the beginning of its id.
    pub output_id: [u8; 8],
}

impl Event {
    pub(super) const BYTES: usize = 56;
    /// What events are found by: kind and hash of the address.
    pub(super) const KEY_BYTES: usize = 24;
    /// Bytes 0 to 36, as far as they order events.
    const ORDER_BYTES: usize = 36;

    /// The key of an address, as events begin, direction left at 0.
    pub(super) fn key(address: Option<Address>) -> [u8; Event::KEY_BYTES] {
        let (kind, hash) = match address {
            Some(Address::PublicKeyHash(hash)) => (0, hash),
            Some(Address::ScriptHash(hash)) => (1, hash),
            None => (2, [0; 20]),
        };
        let mut key = [0; Event::KEY_BYTES];
        key[0] = kind;
        key[4..].copy_from_slice(&hash);
        key
    }

    /// Whose event it is, in the order of events: hash, kind.
    pub(super) fn account(bytes: &[u8]) -> ([u8; 20], u8) {
        (array(bytes, 4), bytes[0])
    }

    /// What sorts events: hash and kind of the address, height, position, direction, index. Heights compare as numbers.
    pub(super) fn order(bytes: &[u8]) -> [u8; Event::ORDER_BYTES] {
        let mut order = [0; Event::ORDER_BYTES];
        order[20] = bytes[0];
        order[..20].copy_from_slice(&bytes[4..24]);
        order[21..25].copy_from_slice(&number(bytes, 24).to_be_bytes());
        order[25..29].copy_from_slice(&number(bytes, 28).to_be_bytes());
        order[29] = bytes[1];
        order[30..34].copy_from_slice(&number(bytes, 32).to_be_bytes());
        order
    }

    pub(super) fn encode(&self) -> [u8; Event::BYTES] {
        let mut bytes = [0; Event::BYTES];
        bytes[..Event::KEY_BYTES].copy_from_slice(&Event::key(self.address));
        bytes[1] = self.direction as u8;
        bytes[24..28].copy_from_slice(&self.height.get().to_le_bytes());
        bytes[28..32].copy_from_slice(&self.position.to_le_bytes());
        bytes[32..36].copy_from_slice(&self.index.to_le_bytes());
        bytes[36..40].copy_from_slice(&self.other_height.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.value_zat.to_le_bytes());
        bytes[48..].copy_from_slice(&self.output_id);
        bytes
    }

    pub(super) fn decode(bytes: &[u8]) -> Event {
        let hash = array(bytes, 4);
        Event {
            address: match bytes.first() {
                Some(0) => Some(Address::PublicKeyHash(hash)),
                Some(1) => Some(Address::ScriptHash(hash)),
                _ => None,
            },
            direction: if bytes.get(1) == Some(&0) {
                Direction::Paid
            } else {
                Direction::Spends
            },
            height: Height::try_from(u64::from(number(bytes, 24))).unwrap_or(Height::MAX),
            position: number(bytes, 28),
            index: number(bytes, 32),
            other_height: number(bytes, 36),
            value_zat: long_number(bytes, 40),
            output_id: array(bytes, 48),
        }
    }

    /// Where the output is spent, if it is an output and is.
    pub fn spent_at(&self) -> Option<Height> {
        let spent = self.direction == Direction::Paid && self.other_height != u32::MAX;
        spent
            .then(|| Height::try_from(u64::from(self.other_height)).ok())
            .flatten()
    }

    /// Whether the output is unspent when the chain has `blocks` blocks.
    pub fn unspent_among(&self, blocks: u32) -> bool {
        self.direction == Direction::Paid
            && self.height.get() < blocks
            && self.other_height >= blocks
    }
}
