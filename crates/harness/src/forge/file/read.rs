//! A chain file and its index, mapped.

use std::{fs::File, path::Path, sync::Arc};

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use lightship_chain::{BlockHash, Height, ShieldedPool, TreeSizes, TxId, parse::Block};
use lightship_source::simulated::{Address, TreeNode};
use memmap2::Mmap;

use super::{
    About, Direction, Event, INDEX_FORMAT, Made, PLACE_BYTES, ROW_BYTES, SIDE_ROW_BYTES, Trees,
    array, index, index_folder, long_number, node_position, number,
};

/// What the index says of a block of the best chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Where its bytes begin in the chain file.
    pub offset: u64,
    /// How many they are.
    pub length: u32,
    /// Seconds since 1970, UTC.
    pub time: u32,
    /// Transactions in it.
    pub transactions: u32,
    /// At its end.
    pub sizes: TreeSizes,
    /// Its hash.
    pub hash: BlockHash,
}

/// A block of a side branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SideBlock {
    /// Its height.
    pub height: Height,
    /// Its hash.
    pub hash: BlockHash,
    /// The block it stands on.
    pub previous: BlockHash,
    /// The consensus serialization.
    pub bytes: Bytes,
}

/// A chain on disk. Holds no block in memory; the system keeps in its cache what is looked at.
///
/// The files must not be changed while they are mapped.
#[derive(Clone, Debug)]
pub struct ChainFile {
    about: Arc<About>,
    trees: Trees,
    chain: Bytes,
    rows: Bytes,
    values: Bytes,
    hashes: Bytes,
    transactions: Bytes,
    addresses: Bytes,
    side: Bytes,
    nodes: [Bytes; 3],
}

impl ChainFile {
    /// Opens a chain file; its index must be there and belong to it.
    ///
    /// # Errors
    ///
    /// If it is no chain file, or its index is missing or of another state of the file.
    pub fn open(path: &Path) -> Result<ChainFile> {
        let folder = index_folder(path);
        let made = std::fs::read(folder.join("made")).with_context(|| {
            format!(
                "{} has no index: run `lightship-harness index` on it",
                path.display()
            )
        })?;
        let made: Made = serde_json::from_slice(&made).context("the index is unreadable")?;
        let chain = map(path)?;
        ensure!(
            made.format == INDEX_FORMAT && made.chain_bytes == chain.len() as u64,
            "the index of {} is of another version or state of it: run `lightship-harness index` on it",
            path.display()
        );
        let (about, _) = About::decode(&chain)?;
        let [sapling, orchard, ironwood] =
            ShieldedPool::ALL.map(|pool| map(&folder.join(pool.name())));
        Ok(ChainFile {
            about: Arc::new(about),
            trees: made.trees,
            chain,
            rows: map(&folder.join("rows"))?,
            values: map(&folder.join("values"))?,
            hashes: map(&folder.join("hashes"))?,
            transactions: map(&folder.join("transactions"))?,
            addresses: map(&folder.join("addresses"))?,
            side: map(&folder.join("side"))?,
            nodes: [sapling?, orchard?, ironwood?],
        })
    }

    /// Opens a chain file, and makes its index (with stand-in trees) if it has none that fits.
    ///
    /// # Errors
    ///
    /// If it is no chain file, or the disk says so.
    pub fn open_or_index(path: &Path) -> Result<ChainFile> {
        ChainFile::open(path).or_else(|_| {
            index(path, Trees::StandIn)?;
            ChainFile::open(path)
        })
    }

    /// What the file says of itself.
    pub fn about(&self) -> &About {
        &self.about
    }

    /// How its trees are hashed.
    pub fn trees(&self) -> Trees {
        self.trees
    }

    /// Blocks of the best chain.
    pub fn blocks(&self) -> u32 {
        (self.rows.len() / ROW_BYTES) as u32
    }

    /// What is known of the best chain's block at `height`.
    pub fn row(&self, height: Height) -> Option<Row> {
        let at = height.get() as usize * ROW_BYTES;
        let row = self.rows.get(at..at + ROW_BYTES)?;
        Some(Row {
            offset: long_number(row, 0),
            length: number(row, 8),
            time: number(row, 12),
            transactions: number(row, 16),
            sizes: TreeSizes {
                sapling: number(row, 20),
                orchard: number(row, 24),
                ironwood: number(row, 28),
            },
            hash: BlockHash::from_internal(array(row, 32)),
        })
    }

    /// The best chain's block at `height`: a piece of the mapped file.
    pub fn block(&self, height: Height) -> Option<Bytes> {
        let row = self.row(height)?;
        self.slice(row.offset, row.length)
    }

    fn slice(&self, offset: u64, length: u32) -> Option<Bytes> {
        let start = usize::try_from(offset).ok()?;
        let end = start.checked_add(length as usize)?;
        (end <= self.chain.len()).then(|| self.chain.slice(start..end))
    }

    /// The sum of all unspent outputs at the end of the block, in zatoshi.
    pub fn transparent_zat(&self, height: Height) -> u64 {
        long_number(&self.values, height.get() as usize * 8)
    }

    /// The best chain's block of that hash.
    pub fn height_of(&self, hash: &BlockHash) -> Option<Height> {
        let heights = self.hashes.as_chunks::<4>().0;
        let at = heights.partition_point(|height| self.hash_of(height) < *hash.as_internal());
        let height = heights.get(at)?;
        (self.hash_of(height) == *hash.as_internal())
            .then(|| Height::try_from(u64::from(u32::from_le_bytes(*height))).ok())
            .flatten()
    }

    fn hash_of(&self, height: &[u8; 4]) -> [u8; 32] {
        array(
            &self.rows,
            u32::from_le_bytes(*height) as usize * ROW_BYTES + 32,
        )
    }

    /// Where a transaction lies in the best chain: height, and position in the block.
    pub fn place_of(&self, id: &TxId) -> Option<(Height, u32)> {
        let prefix = array::<8>(id.as_internal(), 0);
        self.places(&prefix).find(|(height, position)| {
            self.id_at(*height, *position)
                .is_some_and(|found| found == *id)
        })
    }

    /// Where transactions lie whose ids begin so.
    fn places(&self, prefix: &[u8; 8]) -> impl Iterator<Item = (Height, u32)> {
        let places = self.transactions.as_chunks::<PLACE_BYTES>().0;
        let first = places.partition_point(|place| place[..8] < prefix[..]);
        places[first..]
            .iter()
            .take_while(move |place| place[..8] == prefix[..])
            .filter_map(|place| {
                let height = Height::try_from(u64::from(number(place, 8))).ok()?;
                Some((height, number(place, 12)))
            })
    }

    /// The id of a transaction.
    pub fn id_at(&self, height: Height, position: u32) -> Option<TxId> {
        let block = self.block(height)?;
        let block = Block::parse(&block).ok()?;
        let transaction = block.transactions().nth(position as usize)?;
        Some(transaction.id())
    }

    /// All that happened to an address, or to outputs without one, from the block at `from` on, in chain order.
    pub fn events(
        &self,
        address: Option<Address>,
        from: Height,
    ) -> impl DoubleEndedIterator<Item = Event> {
        let events = self.addresses.as_chunks::<{ Event::BYTES }>().0;
        let wanted = Event::account(&Event::key(address));
        let first = events.partition_point(|event| {
            (Event::account(event), number(event, 24)) < (wanted, from.get())
        });
        let end = first + events[first..].partition_point(|event| Event::account(event) == wanted);
        events[first..end].iter().map(|event| Event::decode(event))
    }

    /// The event of an output, if it is there.
    pub fn output(
        &self,
        address: Option<Address>,
        height: Height,
        position: u32,
        index: u32,
    ) -> Option<Event> {
        let wanted = Event {
            address,
            direction: Direction::Paid,
            height,
            position,
            index,
            other_height: 0,
            value_zat: 0,
            output_id: [0; 8],
        };
        let wanted = Event::order(&wanted.encode());
        let events = self.addresses.as_chunks::<{ Event::BYTES }>().0;
        let at = events
            .binary_search_by(|event| Event::order(event).cmp(&wanted))
            .ok()?;
        Some(Event::decode(&events[at]))
    }

    /// The tree node `index` of `level` (leaves: 0), once its last leaf is in the tree.
    pub fn node(&self, pool: ShieldedPool, level: u8, index: u32) -> Option<TreeNode> {
        let at = usize::try_from(node_position(level, index))
            .ok()?
            .checked_mul(32)?;
        self.nodes[pool as usize].get(at..at + 32)?.try_into().ok()
    }

    /// Blocks of side branches, each after its parent.
    pub fn side_blocks(&self) -> impl Iterator<Item = SideBlock> {
        let rows = self.side.as_chunks::<SIDE_ROW_BYTES>().0;
        rows.iter().filter_map(|row| {
            Some(SideBlock {
                height: Height::try_from(u64::from(number(row, 12))).ok()?,
                hash: BlockHash::from_internal(array(row, 16)),
                previous: BlockHash::from_internal(array(row, 48)),
                bytes: self.slice(long_number(row, 0), number(row, 8))?,
            })
        })
    }
}

#[expect(
    unsafe_code,
    reason = "mapping a file is the one way to read a chain larger than memory without copies"
)]
pub(crate) fn map(path: &Path) -> Result<Bytes> {
    let file = File::open(path).with_context(|| format!("opening {}", path.display()))?;
    if file.metadata()?.len() == 0 {
        return Ok(Bytes::new());
    }
    // SAFETY: the type's documentation forbids changing the files while they are mapped, and all reads are of plain bytes.
    let map = unsafe { Mmap::map(&file) }.with_context(|| format!("mapping {}", path.display()))?;
    Ok(Bytes::from_owner(map))
}
