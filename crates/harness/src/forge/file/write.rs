//! Writing a chain file, and finding out what its index needs to know: one pass over the blocks, then sorting by heaps.

use std::{
    fs::File,
    io::{BufWriter, Read, Write},
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::{Context, Result, ensure};
use lightship_chain::{
    Height, ShieldedPool, TreeSizes, TxId,
    parse::{Block, Header, Transaction},
};
use lightship_source::simulated::{Address, TreeHash};

use super::{
    About, Direction, Event, INDEX_FORMAT, MOST_BLOCK_BYTES, Made, PLACE_BYTES, ROW_BYTES,
    SIDE_BIT, SIDE_ROW_BYTES, Trees, array, index_folder, long_number, number,
    spool::{Spool, sort_records},
    trees::TreeWriter,
};

/// What was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Blocks of the best chain.
    pub blocks: u32,
    /// Blocks of side branches.
    pub side_blocks: u32,
    /// Transactions of the best chain.
    pub transactions: u64,
    /// Notes of the best chain.
    pub sizes: TreeSizes,
    /// Length of the chain file.
    pub bytes: u64,
}

/// Writes a chain file and its index.
pub struct ChainWriter {
    file: BufWriter<File>,
    end: u64,
    index: IndexBuilder,
}

impl ChainWriter {
    /// Begins a chain file, in the place of what was there.
    ///
    /// # Errors
    ///
    /// If this build cannot hash trees so, or the disk says so.
    pub fn create(path: &Path, about: &About, trees: Trees) -> Result<ChainWriter> {
        let file = File::create(path).with_context(|| format!("creating {}", path.display()))?;
        let mut file = BufWriter::with_capacity(1 << 20, file);
        let head = about.encode()?;
        file.write_all(&head)?;
        Ok(ChainWriter {
            file,
            end: head.len() as u64,
            index: IndexBuilder::new(path, trees, trees.hash()?)?,
        })
    }

    /// Appends the next block of the best chain. `ids` are those of its transactions, in order.
    ///
    /// # Errors
    ///
    /// If the bytes are no block, or the disk says so.
    pub fn best(&mut self, bytes: &[u8], ids: &[TxId]) -> Result<()> {
        let offset = self.record(self.index.blocks, bytes)?;
        self.index.best(offset, bytes, ids)
    }

    /// Appends a block of a side branch.
    ///
    /// # Errors
    ///
    /// If the bytes are no block, or the disk says so.
    pub fn side(&mut self, height: Height, bytes: &[u8]) -> Result<()> {
        let offset = self.record(height.get() | SIDE_BIT, bytes)?;
        self.index.side(offset, height.get(), bytes)
    }

    fn record(&mut self, tagged_height: u32, bytes: &[u8]) -> Result<u64> {
        self.file
            .write_all(&u32::try_from(bytes.len())?.to_le_bytes())?;
        self.file.write_all(&tagged_height.to_le_bytes())?;
        self.file.write_all(bytes)?;
        let offset = self.end + 8;
        self.end = offset + bytes.len() as u64;
        Ok(offset)
    }

    /// Writes what is left, and the parts of the index that need to know everything.
    ///
    /// # Errors
    ///
    /// If the disk says so.
    pub fn finish(mut self) -> Result<Summary> {
        self.file.flush()?;
        self.index.finish(self.end)
    }
}

/// Makes the index of a chain file anew. Gives what the chain holds.
///
/// # Errors
///
/// If the file is no chain file, or the disk says so.
pub fn index(path: &Path, trees: Trees) -> Result<Summary> {
    let file = File::open(path).with_context(|| format!("opening {}", path.display()))?;
    let length = file.metadata()?.len();
    let mut file = std::io::BufReader::with_capacity(1 << 20, file);
    let mut head = vec![0; 12];
    file.read_exact(&mut head).context("not a chain file")?;
    let rest = u64::from(number(&head, 8).saturating_sub(12).min(1 << 20));
    file.by_ref().take(rest).read_to_end(&mut head)?;
    let (_, mut end) = About::decode(&head)?;
    let mut index = IndexBuilder::new(path, trees, trees.hash()?)?;
    let mut block = Vec::new();
    while (end as u64) < length {
        let mut record = [0; 8];
        file.read_exact(&mut record)?;
        let (size, height) = (number(&record, 0), number(&record, 4));
        ensure!(
            size <= MOST_BLOCK_BYTES,
            "a record of {size} bytes at {end}"
        );
        block.resize(size as usize, 0);
        file.read_exact(&mut block)
            .with_context(|| format!("the record at {end} is cut off"))?;
        let offset = end as u64 + 8;
        if height & SIDE_BIT != 0 {
            index.side(offset, height & !SIDE_BIT, &block)?;
        } else {
            ensure!(height == index.blocks, "block {height} is out of order");
            let ids: Vec<TxId> = Block::parse(&block)?
                .transactions()
                .map(|transaction| transaction.id())
                .collect();
            index.best(offset, &block, &ids)?;
        }
        end += 8 + size as usize;
    }
    index.finish(length)
}

/// An output put aside: as [`Event`] begins, after the outpoint `[12]`.
const OUTPUT_BYTES: usize = 12 + Event::KEY_BYTES + 4 + 4 + 8;
/// An input put aside: the outpoint `[12]`, height, position, index.
const INPUT_BYTES: usize = 24;
const OUTPOINT_BYTES: usize = 12;

struct IndexBuilder {
    folder: PathBuf,
    trees: Trees,
    hash: Arc<dyn TreeHash>,
    rows: BufWriter<File>,
    side: BufWriter<File>,
    notes: [TreeWriter; 3],
    places: Spool,
    outputs: Spool,
    inputs: Spool,
    sizes: TreeSizes,
    blocks: u32,
    side_blocks: u32,
    transactions: u64,
}

impl IndexBuilder {
    fn new(chain: &Path, trees: Trees, hash: Arc<dyn TreeHash>) -> Result<IndexBuilder> {
        let folder = index_folder(chain);
        std::fs::create_dir_all(&folder)
            .with_context(|| format!("creating {}", folder.display()))?;
        // Until the index is whole again it is none.
        match std::fs::remove_file(folder.join("made")) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
        let [sapling, orchard, ironwood] =
            ShieldedPool::ALL.map(|pool| TreeWriter::new(&folder, pool));
        Ok(IndexBuilder {
            trees,
            hash,
            rows: create(&folder, "rows")?,
            side: create(&folder, "side")?,
            notes: [sapling?, orchard?, ironwood?],
            places: Spool::new(PLACE_BYTES, &folder)?,
            outputs: Spool::new(OUTPUT_BYTES, &folder)?,
            inputs: Spool::new(INPUT_BYTES, &folder)?,
            sizes: TreeSizes::ZERO,
            blocks: 0,
            side_blocks: 0,
            transactions: 0,
            folder,
        })
    }

    fn best(&mut self, offset: u64, bytes: &[u8], ids: &[TxId]) -> Result<()> {
        let block = Block::parse(bytes)?;
        let header = block.header();
        let height = self.blocks;
        for ((position, transaction), id) in (0..).zip(block.transactions()).zip(ids) {
            let mut place = [0; PLACE_BYTES];
            place[..8].copy_from_slice(&id.as_internal()[..8]);
            place[8..12].copy_from_slice(&height.to_le_bytes());
            place[12..].copy_from_slice(&u32::to_le_bytes(position));
            self.places.put(place[0], &place)?;
            self.transparent(height, position, id, &transaction)?;
            self.append_notes(&transaction)?;
        }
        let mut row = [0; ROW_BYTES];
        row[..8].copy_from_slice(&offset.to_le_bytes());
        let numbers = [
            u32::try_from(bytes.len())?,
            header.time(),
            u32::try_from(ids.len())?,
            self.sizes.sapling,
            self.sizes.orchard,
            self.sizes.ironwood,
        ];
        for (field, number) in row[8..32].as_chunks_mut::<4>().0.iter_mut().zip(numbers) {
            *field = number.to_le_bytes();
        }
        row[32..].copy_from_slice(header.hash().as_internal());
        self.rows.write_all(&row)?;
        self.blocks += 1;
        self.transactions += ids.len() as u64;
        Ok(())
    }

    fn transparent(
        &mut self,
        height: u32,
        position: u32,
        id: &TxId,
        transaction: &Transaction<'_>,
    ) -> Result<()> {
        for (index, output) in (0u32..).zip(transaction.outputs()) {
            let mut record = [0; OUTPUT_BYTES];
            record[..8].copy_from_slice(&id.as_internal()[..8]);
            record[8..12].copy_from_slice(&index.to_le_bytes());
            record[12..36].copy_from_slice(&Event::key(Address::of_script(output.script())));
            record[36..40].copy_from_slice(&height.to_le_bytes());
            record[40..44].copy_from_slice(&position.to_le_bytes());
            record[44..].copy_from_slice(&output.value().to_le_bytes());
            self.outputs.put(record[0], &record)?;
        }
        for (index, input) in (0u32..).zip(transaction.inputs()) {
            if input.is_null() {
                continue;
            }
            let mut record = [0; INPUT_BYTES];
            record[..8].copy_from_slice(&input.prevout_id()[..8]);
            record[8..12].copy_from_slice(&input.prevout_index().to_le_bytes());
            record[12..16].copy_from_slice(&height.to_le_bytes());
            record[16..20].copy_from_slice(&position.to_le_bytes());
            record[20..].copy_from_slice(&index.to_le_bytes());
            self.inputs.put(record[0], &record)?;
        }
        Ok(())
    }

    fn append_notes(&mut self, transaction: &Transaction<'_>) -> Result<()> {
        let added = TreeSizes {
            sapling: u32::try_from(transaction.sapling_outputs().len())?,
            orchard: u32::try_from(transaction.orchard_actions().len())?,
            ironwood: u32::try_from(transaction.ironwood_actions().len())?,
        };
        self.sizes = self.sizes.checked_add(added).context("too many notes")?;
        let [sapling, orchard, ironwood] = &mut self.notes;
        for output in transaction.sapling_outputs() {
            sapling.append(&*self.hash, *output.cmu())?;
        }
        for action in transaction.orchard_actions() {
            orchard.append(&*self.hash, *action.cmx())?;
        }
        for action in transaction.ironwood_actions() {
            ironwood.append(&*self.hash, *action.cmx())?;
        }
        Ok(())
    }

    fn side(&mut self, offset: u64, height: u32, bytes: &[u8]) -> Result<()> {
        let (header, _) = Header::parse(bytes)?;
        let mut row = [0; SIDE_ROW_BYTES];
        row[..8].copy_from_slice(&offset.to_le_bytes());
        row[8..12].copy_from_slice(&u32::try_from(bytes.len())?.to_le_bytes());
        row[12..16].copy_from_slice(&height.to_le_bytes());
        row[16..48].copy_from_slice(header.hash().as_internal());
        row[48..].copy_from_slice(header.previous().as_internal());
        self.side.write_all(&row)?;
        self.side_blocks += 1;
        Ok(())
    }

    fn finish(mut self, chain_bytes: u64) -> Result<Summary> {
        self.rows.flush()?;
        self.side.flush()?;
        for tree in self.notes {
            tree.finish()?;
        }
        write_hashes(&self.folder)?;
        let mut sorted = create(&self.folder, "transactions")?;
        for heap in 0..=255 {
            let mut places = self.places.take(heap)?;
            sort_records(&mut places, |place: &[u8; PLACE_BYTES]| {
                (array::<8>(place, 0), number(place, 8), number(place, 12))
            });
            sorted.write_all(&places)?;
        }
        sorted.flush()?;
        drop(self.places);
        write_addresses(&self.folder, self.outputs, self.inputs, self.blocks)?;
        let made = Made {
            format: INDEX_FORMAT,
            chain_bytes,
            trees: self.trees,
        };
        std::fs::write(self.folder.join("made"), serde_json::to_vec(&made)?)?;
        Ok(Summary {
            blocks: self.blocks,
            side_blocks: self.side_blocks,
            transactions: self.transactions,
            sizes: self.sizes,
            bytes: chain_bytes,
        })
    }
}

/// Heights in the order of their blocks' hashes.
fn write_hashes(folder: &Path) -> Result<()> {
    let mut rows = std::io::BufReader::with_capacity(1 << 18, File::open(folder.join("rows"))?);
    let mut order = Vec::new();
    let mut row = [0; ROW_BYTES];
    for height in 0u32.. {
        match rows.read_exact(&mut row) {
            Ok(()) => order.push((array::<12>(&row, 32), height)),
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => break,
            Err(error) => return Err(error.into()),
        }
    }
    order.sort_unstable();
    let mut hashes = create(folder, "hashes")?;
    for (_, height) in order {
        hashes.write_all(&height.to_le_bytes())?;
    }
    Ok(hashes.flush()?)
}

/// Joins inputs with the outputs they spend, and sorts both by address.
fn write_addresses(
    folder: &Path,
    mut outputs: Spool,
    mut inputs: Spool,
    blocks: u32,
) -> Result<()> {
    let mut events = Spool::new(Event::BYTES, folder)?;
    // What each block adds to the sum of unspent outputs. Wraps as the sum may; only the sum is looked at.
    let mut added_zat = vec![0u64; blocks as usize];
    for heap in 0..=255 {
        let mut made = outputs.take(heap)?;
        let mut spent = inputs.take(heap)?;
        sort_records(&mut made, |output: &[u8; OUTPUT_BYTES]| {
            array::<OUTPOINT_BYTES>(output, 0)
        });
        sort_records(&mut spent, |input: &[u8; INPUT_BYTES]| {
            (array::<OUTPOINT_BYTES>(input, 0), number(input, 12))
        });
        let mut spends = spent.as_chunks::<INPUT_BYTES>().0.iter().peekable();
        for output in made.as_chunks::<OUTPUT_BYTES>().0 {
            let outpoint = &output[..OUTPOINT_BYTES];
            while spends
                .next_if(|input| input[..OUTPOINT_BYTES] < *outpoint)
                .is_some()
            {}
            let spend = spends.next_if(|input| input[..OUTPOINT_BYTES] == *outpoint);
            let mut event = output_event(output);
            let value = event.value_zat;
            if let Some(sum) = added_zat.get_mut(event.height.get() as usize) {
                *sum = sum.wrapping_add(value);
            }
            if let Some(input) = spend {
                let made_at = event.height.get();
                let spent_at = number(input, 12);
                event.other_height = spent_at;
                put_event(&mut events, &event)?;
                event.direction = Direction::Spends;
                event.height = height(spent_at);
                event.position = number(input, 16);
                event.index = number(input, 20);
                event.other_height = made_at;
                if let Some(sum) = added_zat.get_mut(spent_at as usize) {
                    *sum = sum.wrapping_sub(value);
                }
            }
            put_event(&mut events, &event)?;
        }
    }
    drop((outputs, inputs));
    let mut sorted = create(folder, "addresses")?;
    for heap in 0..=255 {
        let mut bytes = events.take(heap)?;
        sort_records(&mut bytes, |event: &[u8; Event::BYTES]| Event::order(event));
        sorted.write_all(&bytes)?;
    }
    sorted.flush()?;
    let mut values = create(folder, "values")?;
    let mut sum: u64 = 0;
    for added in added_zat {
        sum = sum.wrapping_add(added);
        values.write_all(&sum.to_le_bytes())?;
    }
    Ok(values.flush()?)
}

/// Heaps follow the hash, so that they lie in the order of addresses.
fn put_event(events: &mut Spool, event: &Event) -> Result<()> {
    let bytes = event.encode();
    events.put(bytes[4], &bytes)
}

fn output_event(output: &[u8; OUTPUT_BYTES]) -> Event {
    let mut bytes = [0; Event::BYTES];
    bytes[..24].copy_from_slice(&output[12..36]);
    bytes[24..32].copy_from_slice(&output[36..44]);
    bytes[32..36].copy_from_slice(&output[8..12]);
    bytes[36..40].copy_from_slice(&u32::MAX.to_le_bytes());
    bytes[40..48].copy_from_slice(&long_number(output, 44).to_le_bytes());
    bytes[48..].copy_from_slice(&output[..8]);
    Event::decode(&bytes)
}

fn height(number: u32) -> Height {
    Height::try_from(u64::from(number)).unwrap_or(Height::MAX)
}

fn create(folder: &Path, name: &str) -> Result<BufWriter<File>> {
    let path = folder.join(name);
    let file = File::create(&path).with_context(|| format!("creating {}", path.display()))?;
    Ok(BufWriter::with_capacity(1 << 18, file))
}
