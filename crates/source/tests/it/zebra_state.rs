//! The state of a Zebra node, written here as Zebra writes it.
//!
//! What a real node writes is held against its JSON-RPC by the judge's tests; here is what no real node does at will: formats of other
//! versions, other nodes' folders, holes, files that go away.

use std::{
    cell::RefCell,
    fs,
    num::NonZeroUsize,
    ops::ControlFlow,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use lightship_chain::{
    BlockHash, BlockId, Height, HeightRange, Network, RawBlock, ShieldedPool, TreeSizes,
    parse::{self, Header},
};
use lightship_source::{
    BlockSource, Error,
    contract::{self, Fixture},
    rpc::{Credentials, Endpoint, RpcSource},
    simulated::SimulatedNode,
    zebra_state::ZebraStateSource,
};
use rocksdb::{DB, Options};
use tempfile::TempDir;

use crate::contract::Servers;

/// Longer than the source goes without a look at the database.
const A_LOOK: Duration = Duration::from_millis(600);

/// A node's database, open for writing as the node has it.
struct Made {
    root: TempDir,
    db: DB,
    next: u32,
    sizes: TreeSizes,
}

const TABLES: [&str; 9] = [
    "default",
    "hash_by_height",
    "height_by_hash",
    "block_header_by_height",
    "tx_by_loc",
    "hash_by_tx_loc",
    "sapling_note_commitment_tree",
    "orchard_note_commitment_tree",
    "ironwood_note_commitment_tree",
];

fn trees_of(pool: ShieldedPool) -> &'static str {
    match pool {
        ShieldedPool::Sapling => TABLES[6],
        ShieldedPool::Orchard => TABLES[7],
        ShieldedPool::Ironwood => TABLES[8],
    }
}

/// One byte, or 251 and two: as bincode writes small numbers.
fn tree(size: u32) -> Vec<u8> {
    match size.checked_sub(1) {
        None => vec![0, 0],
        Some(last @ 0..=250) => vec![1, last as u8, 0, 0],
        Some(last) => [
            &[1, 251],
            &u16::try_from(last).unwrap().to_le_bytes()[..],
            &[0; 40],
        ]
        .concat(),
    }
}

impl Made {
    fn new(version: &str) -> Made {
        let root = TempDir::new().unwrap();
        let folder = Made::folder_in(root.path());
        fs::create_dir_all(&folder).unwrap();
        let mut options = Options::default();
        options.create_if_missing(true);
        options.create_missing_column_families(true);
        let db = DB::open_cf(&options, &folder, TABLES).unwrap();
        fs::write(folder.join("version"), version).unwrap();
        Made {
            root,
            db,
            next: 0,
            sizes: TreeSizes::ZERO,
        }
    }

    fn folder_in(root: &Path) -> PathBuf {
        root.join("state/v29/regtest")
    }

    fn path(&self) -> &Path {
        self.root.path()
    }

    fn put(&self, table: &str, key: &[u8], value: &[u8]) {
        self.db
            .put_cf(self.db.cf_handle(table).unwrap(), key, value)
            .unwrap();
    }

    fn delete(&self, table: &str, key: &[u8]) {
        self.db
            .delete_cf(self.db.cf_handle(table).unwrap(), key)
            .unwrap();
    }

    fn add(&mut self, bytes: &[u8]) {
        let height = &self.next.to_be_bytes()[1..];
        let (header, header_bytes) = Header::parse(bytes).unwrap();
        let block = parse::Block::parse(bytes).unwrap();
        for (index, transaction) in (0u16..).zip(block.transactions()) {
            let place = [height, &index.to_be_bytes()].concat();
            self.put("tx_by_loc", &place, transaction.bytes());
            self.put("hash_by_tx_loc", &place, transaction.id().as_internal());
            self.sizes.sapling += transaction.sapling_outputs().len() as u32;
            self.sizes.orchard += transaction.orchard_actions().len() as u32;
            self.sizes.ironwood += transaction.ironwood_actions().len() as u32;
        }
        for pool in ShieldedPool::ALL {
            let size = self.sizes.of(pool);
            let before = self
                .db
                .get_cf(self.db.cf_handle(trees_of(pool)).unwrap(), height)
                .unwrap();
            // Zebra leaves out trees that did not change.
            if before != Some(tree(size)) {
                self.put(trees_of(pool), height, &tree(size));
            }
        }
        self.put("block_header_by_height", height, &bytes[..header_bytes]);
        self.put("height_by_hash", header.hash().as_internal(), height);
        self.put("hash_by_height", height, header.hash().as_internal());
        self.next += 1;
    }

    /// The blocks of the node's best chain below `end`.
    fn of(node: &SimulatedNode, end: u32) -> Made {
        let mut made = Made::new("29.0.0");
        made.add_from(node, end);
        made
    }

    fn add_from(&mut self, node: &SimulatedNode, end: u32) {
        while self.next < end
            && let Some(block) = node.best_at(Height::new(self.next))
        {
            self.add(&block);
        }
    }
}

fn open(made: &Made, rpc: Option<RpcSource>) -> Result<ZebraStateSource, Error> {
    ZebraStateSource::open(made.path(), Some(Network::Regtest), rpc)
}

/// A node where nobody listens.
fn away() -> RpcSource {
    let mut endpoint = Endpoint::new("127.0.0.1:9", Credentials::None).unwrap();
    endpoint.patience = Duration::from_millis(10);
    endpoint.max_in_flight = NonZeroUsize::MIN;
    RpcSource::new(endpoint)
}

fn range(first: u32, last: u32) -> HeightRange {
    HeightRange::new(Height::new(first), Height::new(last)).unwrap()
}

/// The heights lent of a range, and how it ended.
fn lent(source: &dyn BlockSource, range: HeightRange) -> (Vec<u32>, Result<(), Error>) {
    let mut heights = Vec::new();
    let ended = source.blocks(range, &mut |height, block| {
        assert!(matches!(block, RawBlock::Parts { .. }), "from the disk");
        heights.push(height.get());
        ControlFlow::Continue(())
    });
    (heights, ended)
}

#[test]
fn the_state_of_a_node_and_the_node_are_a_source() {
    let servers = Servers::default();
    let made = RefCell::new(Vec::new());
    for end in [1, 15, 25] {
        contract::block_source(|node| {
            let state = Made::of(node, end);
            let source = open(&state, Some(RpcSource::new(servers.serve(node))));
            made.borrow_mut().push(state);
            source.unwrap()
        });
    }
}

#[test]
fn a_whole_state_alone_is_a_source() {
    let made = RefCell::new(Vec::new());
    contract::block_source(|node| {
        let state = Made::of(node, 25);
        let source = open(&state, None);
        made.borrow_mut().push(state);
        source.unwrap()
    });
}

/// A young chain has nothing but its first block on disk.
#[test]
fn a_source_with_little_on_disk_follows_its_node() {
    let servers = Servers::default();
    let made = RefCell::new(Vec::new());
    contract::following(|node| {
        let state = Made::of(node, 1);
        let source = open(&state, Some(RpcSource::new(servers.serve(node))));
        made.borrow_mut().push(state);
        source.unwrap()
    });
}

#[test]
fn with_the_node_away_there_is_the_final_part_and_no_tip() {
    let fixture = Fixture::new();
    let made = Made::of(&fixture.node, 20);
    let source = open(&made, Some(away())).unwrap();
    let last = fixture.blocks[19].id;
    assert_eq!(source.genesis().unwrap(), fixture.blocks[0].id.hash);
    assert_eq!(source.final_tip().unwrap(), Some(last));
    assert!(!source.sees_final_only());
    assert!(source.tip().unwrap_err().is_transient());
    let (heights, ended) = lent(&source, range(7, 22));
    assert_eq!(heights, Vec::from_iter(7..=19));
    assert!(matches!(ended, Err(Error::Unreachable { .. })), "{ended:?}");
    assert_eq!(source.hash_at(last.height).unwrap(), Some(last.hash));
    assert!(source.hash_at(Height::new(20)).unwrap_err().is_transient());
    assert!(source.block(last.hash, &mut |_| ()).unwrap());
    assert!(source.tree_sizes(last.hash).unwrap().is_some());

    let alone = open(&made, None).unwrap();
    assert!(alone.sees_final_only());
    assert_eq!(alone.tip().unwrap(), Some(last));
}

#[test]
fn what_the_node_writes_meanwhile_is_seen() {
    let fixture = Fixture::new();
    let mut made = Made::of(&fixture.node, 5);
    let source = open(&made, None).unwrap();
    let seen = source.tip().unwrap();
    assert_eq!(seen, Some(fixture.blocks[4].id));
    thread::scope(|scope| {
        let waiter = scope.spawn(|| source.wait(seen, Duration::from_secs(60)));
        made.add_from(&fixture.node, 9);
        waiter.join().unwrap().unwrap();
    });
    let tip = || source.tip().unwrap().map(|id: BlockId| id.height.get());
    thread::sleep(A_LOOK);
    assert_eq!(tip(), Some(8));
    // Files are made, merged and removed under the reader.
    for end in 10..=25 {
        made.add_from(&fixture.node, end);
        for table in TABLES {
            let table = made.db.cf_handle(table).unwrap();
            made.db.flush_cf(table).unwrap();
            made.db
                .compact_range_cf(table, None::<&[u8]>, None::<&[u8]>);
        }
        let last = tip().unwrap();
        let (heights, ended) = lent(&source, range(0, last));
        ended.unwrap();
        assert_eq!(heights.len() as u32, last + 1);
    }
    thread::sleep(A_LOOK);
    assert_eq!(tip(), Some(24));
}

#[test]
fn a_state_that_was_replaced_is_opened_anew() {
    let fixture = Fixture::new();
    let mut made = Made::of(&fixture.node, 20);
    let servers = Servers::default();
    let rpc = RpcSource::new(servers.serve(&fixture.node));
    let source = open(&made, Some(rpc)).unwrap();
    assert_eq!(source.final_tip().unwrap(), Some(fixture.blocks[19].id));
    assert_eq!(source.tip().unwrap(), Some(fixture.tip()));
    // The operator starts the node's state from the beginning.
    let fresh = Made::of(&fixture.node, 3);
    let folder = Made::folder_in(made.path());
    fs::remove_dir_all(&folder).unwrap();
    fs::rename(Made::folder_in(fresh.path()), &folder).unwrap();
    made.next = fresh.next;
    thread::sleep(A_LOOK);
    assert_eq!(source.final_tip().unwrap(), Some(fixture.blocks[2].id));
    assert_eq!(source.tip().unwrap(), Some(fixture.tip()));
    assert_eq!(lent(&source, range(0, 2)).0, [0, 1, 2]);
}

#[test]
fn the_state_of_another_node_is_refused() {
    let ours = Fixture::new();
    let servers = Servers::default();
    let other = SimulatedNode::from_blocks(
        lightship_chain::build::Activations::new(&[]),
        [lightship_chain::build::regtest_genesis().bytes],
    )
    .unwrap();
    let made = Made::of(&ours.node, 10);
    let source = open(&made, Some(RpcSource::new(servers.serve(&other)))).unwrap();
    for refused in [source.genesis().map(|_| ()), source.tip().map(|_| ())] {
        let Err(error @ Error::State { .. }) = refused else {
            panic!("{refused:?}")
        };
        assert!(!error.is_transient());
        let text = error.to_string();
        assert!(
            text.contains("--zebra-state must name the state of the node"),
            "{text}"
        );
    }
    // By its first block, before any node is asked.
    let refused = ZebraStateSource::open(&Made::folder_in(made.path()), Some(Network::Main), None);
    let text = refused.err().unwrap().to_string();
    assert!(text.contains("not of network main"), "{text}");
}

#[test]
fn what_is_no_state_is_refused_with_the_remedy() {
    let folder = TempDir::new().unwrap();
    let refused = |path: &Path| {
        let error = ZebraStateSource::open(path, None, None).err().unwrap();
        assert!(matches!(error, Error::State { .. }), "{error:?}");
        error.to_string()
    };
    assert!(refused(folder.path()).contains("state.cache_dir"));
    let made = Made::new("30.0.0");
    let text = refused(made.path());
    assert!(
        text.contains("30.0.0") && text.contains("newer lightship"),
        "{text}"
    );
    // Another program's database.
    let mut options = Options::default();
    options.create_if_missing(true);
    drop(DB::open(&options, folder.path()).unwrap());
    fs::write(folder.path().join("version"), "29.0.0").unwrap();
    let text = refused(folder.path());
    assert!(text.contains("no column family hash_by_height"), "{text}");
}

#[test]
fn holes_and_garbage_are_errors_that_name_the_place() {
    let fixture = Fixture::new();
    let height = |height: u8| [0, 0, height];
    let place = |height: u8, index: u8| [0, 0, height, 0, index];
    type Spoil = Box<dyn Fn(&Made)>;
    let cases: [(Spoil, &str); 6] = [
        (
            Box::new(move |made| made.delete("block_header_by_height", &height(13))),
            "no whole block 13",
        ),
        (
            Box::new(move |made| made.delete("tx_by_loc", &place(13, 0))),
            "no whole block 13",
        ),
        (
            Box::new(move |made| made.delete("tx_by_loc", &place(13, 1))),
            "no whole block 13",
        ),
        (
            Box::new(move |made| made.delete("hash_by_tx_loc", &place(13, 1))),
            "no whole block 13",
        ),
        (
            Box::new(move |made| made.put("hash_by_tx_loc", &place(13, 1), &[1; 31])),
            "hash_by_tx_loc at 00000d0001",
        ),
        (
            Box::new(move |made| made.put("tx_by_loc", &[0, 0, 13, 0, 0, 9], &[1; 31])),
            "tx_by_loc at 00000d000009",
        ),
    ];
    for (spoil, told) in cases {
        let made = Made::of(&fixture.node, 25);
        spoil(&made);
        let source = open(&made, None).unwrap();
        let (heights, ended) = lent(&source, range(10, 20));
        let error = ended.unwrap_err();
        assert!(matches!(error, Error::State { .. }), "{error:?}");
        assert!(error.to_string().contains(told), "{error}");
        assert_eq!(heights, [10, 11, 12], "{told}");
    }
    let made = Made::of(&fixture.node, 25);
    made.put("hash_by_height", &height(25), &[7; 5]);
    made.put(trees_of(ShieldedPool::Orchard), &height(13), &[9]);
    made.put("height_by_hash", &[5; 32], &[1]);
    let refused = open(&made, None).err().unwrap().to_string();
    assert!(refused.contains("hash_by_height at 000019"), "{refused}");
    made.delete("hash_by_height", &height(25));
    let source = open(&made, None).unwrap();
    let hash = fixture.blocks[13].id.hash;
    let error = source.tree_sizes(hash).unwrap_err().to_string();
    assert!(
        error.contains("orchard_note_commitment_tree at 00000d"),
        "{error}"
    );
    let unknown = BlockHash::from_internal([5; 32]);
    assert!(source.block(unknown, &mut |_| ()).is_err());
}
