//! One opened secondary.
//!
//! In: the database's folder. Out: its end, and blocks in pieces as they lie there. Every read is bounded by what it asks for, and every answer
//! of RocksDB that is a failure names the folder. When to open anew, and whether the chain is the right one, is left to the source.

use std::{
    fs, io,
    ops::{ControlFlow, Range},
    path::{Path, PathBuf},
    sync::Arc,
};

use lightship_chain::{
    BlockHash, BlockId, Height, HeightRange, RawBlock, RawTransaction, ShieldedPool, TreeSizes,
    TxId,
};
use rocksdb::{
    ColumnFamily, ColumnFamilyDescriptor, DB, DBRawIterator, LogLevel, Options, ReadOptions,
};
use tempfile::TempDir;

use super::{folder::wrong, layout};
use crate::{Error, Result};

/// What an iterator reads ahead, in bytes: few large reads, also on spinning disks.
const READ_AHEAD_BYTES: usize = 1 << 20;
/// One block in so many has its transaction ids hashed from the transactions instead of taken from the database.
const HASHED_EVERY: u32 = 64;

/// Zebra's database as a RocksDB secondary.
pub(super) struct Database {
    db: DB,
    folder: PathBuf,
    /// Tells one database from another in the same place.
    identity: Vec<u8>,
}

impl Database {
    /// Opens the database in `folder`.
    ///
    /// # Errors
    ///
    /// [`Error::State`] if it lacks a table; [`Error::Database`] if RocksDB cannot open it, as happens when the node
    /// removes a file in the same moment.
    pub(super) fn open(folder: &Path) -> Result<Database> {
        let fails = |error: rocksdb::Error| failed(folder, error);
        let mut options = Options::default();
        // A secondary that keeps every file open can read on when the node has removed it.
        options.set_max_open_files(-1);
        options.set_log_level(LogLevel::Warn);
        options.set_keep_log_file_num(1);
        let tables = DB::list_cf(&options, folder).map_err(fails)?;
        if let Some(missing) = layout::NEEDED
            .iter()
            .find(|needed| !tables.iter().any(|table| table == *needed))
        {
            return Err(wrong(
                folder,
                format!("has no column family {missing}, so it is no Zebra state"),
            ));
        }
        let trees = ShieldedPool::ALL
            .map(layout::trees_of)
            .into_iter()
            .filter(|trees| tables.iter().any(|table| table == trees));
        let opened = ["default"]
            .into_iter()
            .chain(layout::NEEDED)
            .chain(trees)
            .map(|name| ColumnFamilyDescriptor::new(name, options.clone()));
        let own = TempDir::with_prefix("lightship-zebra-state-")
            .map_err(|error| io_failed(&std::env::temp_dir(), error))?;
        let db = DB::open_cf_descriptors_as_secondary(&options, folder, own.path(), opened)
            .map_err(fails)?;
        // All it holds is the log, which stays open without a name: nothing is left behind, however this process ends.
        drop(own);
        Ok(Database {
            db,
            folder: folder.to_owned(),
            identity: identity(folder)?,
        })
    }

    /// Whether another database lies in its place by now.
    pub(super) fn was_replaced(&self) -> bool {
        identity(&self.folder).map_or(true, |found| found != self.identity)
    }

    /// Sees what the node has written since. Iterators keep what they see.
    pub(super) fn catch_up(&self) -> Result<()> {
        self.db
            .try_catch_up_with_primary()
            .map_err(|error| self.failed(error))
    }

    /// The highest block.
    pub(super) fn end(&self) -> Result<Option<BlockId>> {
        let mut hashes = self.db.raw_iterator_cf(self.table(layout::HASH_BY_HEIGHT)?);
        hashes.seek_to_last();
        let Some((key, value)) = hashes.item() else {
            return self.checked(&hashes).map(|()| None);
        };
        match (layout::height(key), layout::hash(value)) {
            (Some(height), Some(hash)) => Ok(Some(BlockId {
                height,
                hash: BlockHash::from_internal(hash),
            })),
            _ => Err(self.garbled(layout::HASH_BY_HEIGHT, key)),
        }
    }

    pub(super) fn hash_at(&self, height: Height) -> Result<Option<BlockHash>> {
        let Some(key) = layout::height_key(height) else {
            return Ok(None);
        };
        let found = self.get(layout::HASH_BY_HEIGHT, &key, layout::hash)?;
        Ok(found.map(BlockHash::from_internal))
    }

    pub(super) fn height_of(&self, hash: BlockHash) -> Result<Option<Height>> {
        self.get(layout::HEIGHT_BY_HASH, hash.as_internal(), layout::height)
    }

    /// At the end of the block at `height`. `None` if the database does not keep the trees of a pool.
    pub(super) fn tree_sizes(&self, height: Height) -> Result<Option<TreeSizes>> {
        let Some(key) = layout::height_key(height) else {
            return Ok(None);
        };
        let mut sizes = TreeSizes::ZERO;
        for pool in ShieldedPool::ALL {
            let name = layout::trees_of(pool);
            let Some(table) = self.db.cf_handle(name) else {
                return Ok(None);
            };
            // Written where it changed, and at genesis.
            let mut trees = self.db.raw_iterator_cf(table);
            trees.seek_for_prev(key);
            let Some((at, tree)) = trees.item() else {
                self.checked(&trees)?;
                return Ok(None);
            };
            let size = layout::tree_size(tree).ok_or_else(|| self.garbled(name, at))?;
            match pool {
                ShieldedPool::Sapling => sizes.sapling = size,
                ShieldedPool::Orchard => sizes.orchard = size,
                ShieldedPool::Ironwood => sizes.ironwood = size,
            }
        }
        Ok(Some(sizes))
    }

    /// Lends the blocks of `range`, all of which must be there, lowest first.
    ///
    /// # Errors
    ///
    /// [`Error::Database`] if reading fails: what was lent is good, and the rest may be had after opening anew.
    pub(super) fn scan(
        &self,
        range: HeightRange,
        visit: &mut dyn FnMut(Height, RawBlock<'_>) -> ControlFlow<()>,
    ) -> Result<()> {
        let mut headers = self.iterate(layout::HEADER_BY_HEIGHT, range)?;
        let mut transactions = Transactions {
            bytes: self.iterate(layout::TRANSACTION_BY_PLACE, range)?,
            ids: self.iterate(layout::ID_BY_PLACE, range)?,
            buffer: Vec::new(),
            places: Vec::new(),
        };
        for height in range.iter() {
            let missing = || {
                wrong(
                    &self.folder,
                    format!(
                        "has no whole block {height}, and blocks above it: is the node pruned, or the folder a copy that was cut short?"
                    ),
                )
            };
            let key = layout::height_key(height).ok_or_else(missing)?;
            let header = match headers.item() {
                Some((found, header)) if *found == key => header,
                _ => {
                    self.checked(&headers)?;
                    return Err(missing());
                }
            };
            let take_ids = !height.get().is_multiple_of(HASHED_EVERY);
            if !self.gather(&mut transactions, key)? {
                return Err(missing());
            }
            let transactions = transactions.lend(take_ids);
            let block = RawBlock::Parts {
                header,
                transactions: &transactions,
            };
            if visit(height, block).is_break() {
                return Ok(());
            }
            headers.next();
        }
        Ok(())
    }

    /// Copies the transactions at the heights of `key` together, for an iterator forgets what it showed. Returns whether there were any, all with their ids.
    fn gather(&self, all: &mut Transactions<'_>, key: [u8; 3]) -> Result<bool> {
        all.buffer.clear();
        all.places.clear();
        while let Some((at, bytes)) = all.bytes.item() {
            let (found, index) =
                layout::place(at).ok_or_else(|| self.garbled(layout::TRANSACTION_BY_PLACE, at))?;
            if found != key {
                break;
            }
            let id = match all.ids.item() {
                Some((same, id)) if same == at => {
                    layout::hash(id).ok_or_else(|| self.garbled(layout::ID_BY_PLACE, same))?
                }
                _ => {
                    self.checked(&all.ids)?;
                    return Ok(false);
                }
            };
            if usize::from(index) != all.places.len() {
                return Ok(false);
            }
            let from = all.buffer.len();
            all.buffer.extend_from_slice(bytes);
            all.places
                .push((TxId::from_internal(id), from..all.buffer.len()));
            all.bytes.next();
            all.ids.next();
        }
        self.checked(&all.bytes)?;
        Ok(!all.places.is_empty())
    }

    fn iterate(&self, table: &'static str, range: HeightRange) -> Result<DBRawIterator<'_>> {
        let mut options = ReadOptions::default();
        let Some(from) = layout::height_key(range.first()) else {
            return Err(wrong(&self.folder, "holds no such height"));
        };
        options.set_iterate_range(from.to_vec()..layout::key_above(range.last()));
        // Each block is read once: what wallets make the system keep in memory is worth more.
        options.fill_cache(false);
        options.set_readahead_size(READ_AHEAD_BYTES);
        let mut iterator = self.db.raw_iterator_cf_opt(self.table(table)?, options);
        iterator.seek_to_first();
        Ok(iterator)
    }

    fn get<T>(
        &self,
        table: &'static str,
        key: &[u8],
        read: impl FnOnce(&[u8]) -> Option<T>,
    ) -> Result<Option<T>> {
        let found = self
            .db
            .get_pinned_cf(self.table(table)?, key)
            .map_err(|error| self.failed(error))?;
        found
            .map(|value| read(&value).ok_or_else(|| self.garbled(table, key)))
            .transpose()
    }

    fn table(&self, name: &'static str) -> Result<&ColumnFamily> {
        self.db
            .cf_handle(name)
            .ok_or_else(|| wrong(&self.folder, format!("has no column family {name}")))
    }

    /// Why an iterator shows nothing: it is at its end, or reading failed.
    fn checked(&self, iterator: &DBRawIterator<'_>) -> Result<()> {
        iterator.status().map_err(|error| self.failed(error))
    }

    fn failed(&self, error: rocksdb::Error) -> Error {
        failed(&self.folder, error)
    }

    fn garbled(&self, table: &str, key: &[u8]) -> Error {
        wrong(
            &self.folder,
            format!(
                "holds in {table} at {} what no Zebra writes",
                const_hex::encode(key)
            ),
        )
    }
}

/// The transactions of one block after the other.
struct Transactions<'a> {
    bytes: DBRawIterator<'a>,
    ids: DBRawIterator<'a>,
    buffer: Vec<u8>,
    /// In the buffer.
    places: Vec<(TxId, Range<usize>)>,
}

impl Transactions<'_> {
    fn lend(&self, take_ids: bool) -> Vec<RawTransaction<'_>> {
        self.places
            .iter()
            .map(|(id, place)| RawTransaction {
                id: take_ids.then_some(*id),
                bytes: &self.buffer[place.clone()],
            })
            .collect()
    }
}

fn failed(folder: &Path, error: rocksdb::Error) -> Error {
    Error::Database {
        path: folder.to_owned(),
        reason: error.into_string(),
    }
}

fn io_failed(path: &Path, error: io::Error) -> Error {
    Error::Io {
        path: path.to_owned(),
        source: Arc::new(error),
    }
}

fn identity(folder: &Path) -> Result<Vec<u8>> {
    let path = folder.join("IDENTITY");
    fs::read(&path).map_err(|error| io_failed(&path, error))
}
