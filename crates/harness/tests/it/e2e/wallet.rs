//! A wallet that is not ours: `zcash_client_backend`'s own synchronization, with `zcash_client_sqlite` behind it.

use std::{
    collections::BTreeMap,
    convert::Infallible,
    ops::RangeInclusive,
    path::Path,
    sync::Mutex,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use lightship_harness::{
    lightship::{Lightship, Options},
    recorded::{self, ACTIVATIONS, Notes},
};
use rand_chacha::ChaCha8Rng;
use rand_core::SeedableRng;
use secrecy::SecretVec;
use tonic::transport::Channel;
use zcash_client_backend::{
    data_api::{
        AccountBirthday, WalletWrite,
        chain::{BlockCache, BlockSource, error},
        scanning::ScanRange,
    },
    proto::{
        compact_formats::CompactBlock,
        service::{BlockId, compact_tx_streamer_client::CompactTxStreamerClient},
    },
    sync,
};
use zcash_client_sqlite::{WalletDb, util::SystemClock, wallet::init::WalletMigrator};
use zcash_keys::{
    encoding::AddressCodec,
    keys::{UnifiedAddressRequest, UnifiedSpendingKey},
};
use zcash_protocol::{consensus::BlockHeight, local_consensus::LocalNetwork};

use super::{
    alone,
    equal::{client, reaches},
    node_is_at_hand,
};

/// Below the length of the chain, so that a synchronization takes several ranges.
const BATCH_BLOCKS: u32 = 1000;

fn network() -> LocalNetwork {
    let height = |height: Option<u32>| height.map(BlockHeight::from_u32);
    let first = height(Some(1));
    LocalNetwork {
        overwinter: first,
        sapling: first,
        blossom: first,
        heartwood: first,
        canopy: first,
        nu5: height(ACTIVATIONS.nu5),
        nu6: height(ACTIVATIONS.nu6),
        nu6_1: height(ACTIVATIONS.nu6_1),
        nu6_2: height(ACTIVATIONS.nu6_2),
        nu6_3: height(ACTIVATIONS.nu6_3),
        nu7: None,
    }
}

#[test]
fn the_miners_addresses_are_those_of_its_seed() {
    let key =
        UnifiedSpendingKey::from_seed(&network(), &recorded::SEED, zip32::AccountId::ZERO).unwrap();
    let viewing = key.to_unified_full_viewing_key();
    let (unified, _) = viewing
        .default_address(UnifiedAddressRequest::ORCHARD)
        .unwrap();
    assert_eq!(unified.encode(&network()), recorded::UNIFIED_ADDRESS);
    let (_, sapling) = viewing.sapling().unwrap().default_address();
    assert_eq!(sapling.encode(&network()), recorded::SAPLING_ADDRESS);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wallet_finds_the_miners_notes_in_every_pool_also_after_a_reorg() {
    let _turn = alone().await;
    if !node_is_at_hand() {
        return;
    }
    let node = recorded::node().unwrap();
    let mut server = Lightship::start(Options::beside(&node)).unwrap();
    let mut ours = client(&mut server).await;
    reaches(&mut server, &mut ours, node.tip().unwrap()).await;
    let wallet = Wallet::create(&server.grpc_url()).await;

    let start = Instant::now();
    wallet.synchronize().await;
    eprintln!(
        "synchronized {} blocks in {:?}",
        recorded::TIP,
        start.elapsed()
    );
    assert_eq!(wallet.notes(), recorded::notes());

    // The last note was mined eleven blocks from the tip; the branch that replaces it has none.
    let lowest = node.hash_at(recorded::TIP - 10).unwrap();
    node.invalidate(lowest).unwrap();
    node.generate(20).unwrap();
    reaches(&mut server, &mut ours, node.tip().unwrap()).await;
    wallet.synchronize().await;
    let fewer = Notes {
        ironwood: recorded::notes().ironwood - 1,
        ..recorded::notes()
    };
    assert_eq!(wallet.notes(), fewer);
}

/// The wallet's database, and the server it asks.
struct Wallet {
    folder: tempfile::TempDir,
    server: CompactTxStreamerClient<Channel>,
}

type Database = WalletDb<rusqlite::Connection, LocalNetwork, SystemClock, ChaCha8Rng>;

impl Wallet {
    /// A new wallet of the miner's seed, born with the chain.
    async fn create(url: &str) -> Wallet {
        let mut server = CompactTxStreamerClient::connect(url.to_owned())
            .await
            .unwrap();
        let folder = tempfile::tempdir().unwrap();
        let genesis = BlockId {
            height: 0,
            hash: Vec::new(),
        };
        let state = server.get_tree_state(genesis).await.unwrap().into_inner();
        let birthday = AccountBirthday::from_treestate(state, None).unwrap();
        let mut database = open(folder.path());
        WalletMigrator::new()
            .init_or_migrate(&mut database)
            .unwrap();
        let seed = SecretVec::new(recorded::SEED.to_vec());
        database
            .create_account("miner", &seed, &birthday, None)
            .unwrap();
        Wallet { folder, server }
    }

    /// Runs the wallet's own synchronization until it has nothing left to do.
    async fn synchronize(&self) {
        let cache = Cache::default();
        let mut database = open(self.folder.path());
        let mut server = self.server.clone();
        let network = network();
        let work = sync::run(&mut server, &network, &cache, &mut database, BATCH_BLOCKS);
        tokio::time::timeout(Duration::from_secs(300), work)
            .await
            .unwrap()
            .unwrap();
    }

    /// What it has found and not lost again.
    fn notes(&self) -> Notes {
        let connection = rusqlite::Connection::open(file(self.folder.path())).unwrap();
        let count = |pool: &str| {
            let query = format!(
                "SELECT COUNT(*) FROM {pool}_received_notes AS notes \
                 JOIN transactions ON transactions.id_tx = notes.transaction_id \
                 WHERE transactions.mined_height IS NOT NULL"
            );
            connection.query_row(&query, [], |row| row.get(0)).unwrap()
        };
        Notes {
            sapling: count("sapling"),
            orchard: count("orchard"),
            ironwood: count("ironwood"),
        }
    }
}

fn file(folder: &Path) -> std::path::PathBuf {
    folder.join("wallet.sqlite")
}

fn open(folder: &Path) -> Database {
    let rng = ChaCha8Rng::seed_from_u64(1);
    WalletDb::for_path(file(folder), network(), SystemClock, rng).unwrap()
}

/// Where the wallet keeps blocks between fetching and scanning.
#[derive(Default)]
struct Cache(Mutex<BTreeMap<u32, CompactBlock>>);

fn heights(range: &ScanRange) -> RangeInclusive<u32> {
    let range = range.block_range();
    u32::from(range.start)..=u32::from(range.end) - 1
}

impl BlockSource for Cache {
    type Error = Infallible;

    fn with_blocks<F, W>(
        &self,
        from: Option<BlockHeight>,
        limit: Option<usize>,
        mut visit: F,
    ) -> Result<(), error::Error<W, Infallible>>
    where
        F: FnMut(CompactBlock) -> Result<(), error::Error<W, Infallible>>,
    {
        let blocks = self.0.lock().unwrap();
        blocks
            .range(from.map_or(0, u32::from)..)
            .take(limit.unwrap_or(usize::MAX))
            .try_for_each(|(_, block)| visit(block.clone()))
    }
}

#[async_trait]
impl BlockCache for Cache {
    fn get_tip_height(&self, range: Option<&ScanRange>) -> Result<Option<BlockHeight>, Infallible> {
        let range = range.map_or(0..=u32::MAX, heights);
        let blocks = self.0.lock().unwrap();
        Ok(blocks
            .range(range)
            .next_back()
            .map(|(height, _)| BlockHeight::from_u32(*height)))
    }

    async fn read(&self, range: &ScanRange) -> Result<Vec<CompactBlock>, Infallible> {
        let blocks = self.0.lock().unwrap();
        Ok(blocks
            .range(heights(range))
            .map(|(_, block)| block.clone())
            .collect())
    }

    async fn insert(&self, blocks: Vec<CompactBlock>) -> Result<(), Infallible> {
        let mut cached = self.0.lock().unwrap();
        cached.extend(blocks.into_iter().map(|block| (block.height as u32, block)));
        Ok(())
    }

    async fn delete(&self, range: ScanRange) -> Result<(), Infallible> {
        let deleted = heights(&range);
        self.0
            .lock()
            .unwrap()
            .retain(|height, _| !deleted.contains(height));
        Ok(())
    }
}
