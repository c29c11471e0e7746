//! A database as Zebra's, of the blocks of any node.

use std::{fs, ops::ControlFlow, path::Path};

use lightship_chain::{
    Height, HeightRange, RawBlock,
    parse::{Block, Header},
};
use lightship_source::{
    BlockSource,
    rpc::{Credentials, Endpoint, RpcSource},
};
use rocksdb::{
    BlockBasedOptions, DB, DBCompressionType, Options, WaitForCompactOptions, WriteBatch,
};

use crate::{HEADERS, IDS, TRANSACTIONS, key};

const HASHES: &str = "hash_by_height";
const HEIGHTS: &str = "height_by_hash";

/// Writes into `folder` all blocks that the node at URL `node` has, one after the other, and compacts what was written.
pub(crate) fn database(node: &str, folder: &Path) {
    let source = RpcSource::new(Endpoint::new(node, Credentials::None).unwrap());
    let tip = source.tip().unwrap().unwrap().height;
    // As a zebrad 7.0.0 says of itself in its OPTIONS file.
    let mut options = Options::default();
    options.create_if_missing(true);
    options.create_missing_column_families(true);
    options.set_compression_type(DBCompressionType::Lz4);
    options.optimize_level_style_compaction(128 << 20);
    let mut tables = BlockBasedOptions::default();
    tables.set_ribbon_filter(9.9);
    options.set_block_based_table_factory(&tables);
    let names = ["default", HASHES, HEIGHTS, HEADERS, TRANSACTIONS, IDS];
    fs::create_dir_all(folder).unwrap();
    let db = DB::open_cf(&options, folder, names).unwrap();
    let table = |name| db.cf_handle(name).unwrap();
    let range = HeightRange::new(Height::GENESIS, tip).unwrap();
    source
        .blocks(range, &mut |height, block| {
            let RawBlock::Whole(bytes) = block else {
                panic!("JSON-RPC gives whole blocks");
            };
            let (header, header_bytes) = Header::parse(bytes).unwrap();
            let height = key(height.get());
            let mut batch = WriteBatch::default();
            batch.put_cf(table(HEADERS), &height, &bytes[..header_bytes]);
            batch.put_cf(table(HASHES), &height, header.hash().as_internal());
            batch.put_cf(table(HEIGHTS), header.hash().as_internal(), &height);
            let block = Block::parse(bytes).unwrap();
            for (index, transaction) in (0_u16..).zip(block.transactions()) {
                let place = [&height[..], &index.to_be_bytes()].concat();
                batch.put_cf(table(TRANSACTIONS), &place, transaction.bytes());
                batch.put_cf(table(IDS), &place, transaction.id().as_internal());
            }
            db.write(batch).unwrap();
            ControlFlow::Continue(())
        })
        .unwrap();
    for name in names {
        db.flush_cf(table(name)).unwrap();
        db.compact_range_cf(table(name), None::<&[u8]>, None::<&[u8]>);
    }
    db.wait_for_compact(&WaitForCompactOptions::default())
        .unwrap();
    fs::write(folder.join("version"), "29.0.0").unwrap();
    println!("{} blocks in {}", tip.get() + 1, folder.display());
}
