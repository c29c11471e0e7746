//! The mempool's two methods.

use std::time::Duration;

use lightship_chain::{
    PoolSet, TxId,
    build::{Built, Input, Output, Recipe},
    compact::transaction,
};
use lightship_serve::proto::{CompactTx, Empty, GetMempoolTxRequest, RawTransaction};
use lightship_source::{
    Node,
    simulated::{Fault, Rule},
};
use prost::Message as _;
use tonic::{Code, Streaming};

use crate::stage::{Client, PAYEE, Setup, Stage, code, collect, numbers, until, within};

/// One transaction of each kind: transparent only, Sapling only, of all pools.
fn three(stage: &mut Stage) -> Vec<Built> {
    let version = stage.chain.newest_version();
    let coinbase = stage.blocks[15].transactions[0];
    let transparent = || {
        Recipe::new(version)
            .with_input(Input::spend(coinbase, 0))
            .with_output(Output::to_public_key_hash(5, &PAYEE))
    };
    let recipes = [
        transparent(),
        Recipe::new(version).with_sapling(1, 1),
        transparent()
            .with_sapling(1, 1)
            .with_orchard(1)
            .with_ironwood(2),
    ];
    let built: Vec<Built> = recipes
        .into_iter()
        .map(|recipe| stage.chain.transaction(recipe).unwrap())
        .collect();
    for tx in &built {
        stage.node.mempool_add(tx.bytes.clone()).unwrap();
    }
    built
}

fn excluding(suffixes: &[&[u8]]) -> GetMempoolTxRequest {
    GetMempoolTxRequest {
        exclude_txid_suffixes: suffixes
            .iter()
            .map(|suffix| suffix.to_vec().into())
            .collect(),
        pool_types: vec![1, 2, 3, 4],
    }
}

async fn ids(client: &mut Client, request: GetMempoolTxRequest) -> Vec<TxId> {
    let (sent, ended) = collect(client.get_mempool_tx(request).await).await;
    assert_eq!(ended, Code::Ok);
    sent.iter().map(id_of).collect()
}

fn id_of(tx: &CompactTx) -> TxId {
    TxId::from_internal(tx.txid[..].try_into().unwrap())
}

async fn shows(stage: &Stage, count: usize) {
    let client = stage.client().await;
    until(|| {
        let mut client = client.clone();
        async move { ids(&mut client, excluding(&[])).await.len() == count }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn compact_transactions_hold_the_parts_of_the_pools_asked_for() {
    let mut stage = Stage::new(20).await;
    let mut client = stage.client().await;
    assert_eq!(ids(&mut client, excluding(&[])).await, []);
    let mut built = three(&mut stage);
    shows(&stage, 3).await;
    built.sort_by_key(|tx| tx.id.to_display_order());
    for pools in PoolSet::subsets() {
        let asked = if pools.is_empty() {
            PoolSet::SHIELDED
        } else {
            pools
        };
        let expected: Vec<Vec<u8>> = built
            .iter()
            .filter_map(|tx| transaction(&tx.bytes, asked).unwrap().1)
            .collect();
        let request = GetMempoolTxRequest {
            exclude_txid_suffixes: Vec::new(),
            pool_types: numbers(pools),
        };
        let (sent, _) = collect(client.get_mempool_tx(request).await).await;
        let sent: Vec<Vec<u8>> = sent.iter().map(CompactTx::encode_to_vec).collect();
        assert!(sent == expected, "{pools:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn suffixes_exclude_what_they_name_alone() {
    let mut stage = Stage::new(20).await;
    let mut client = stage.client().await;
    let built = three(&mut stage);
    shows(&stage, 3).await;
    let id = built[1].id;
    let whole = id.as_internal();
    for suffix in [&whole[..], &whole[20..]] {
        let left = ids(&mut client, excluding(&[suffix])).await;
        assert!(left.len() == 2 && !left.contains(&id));
    }
    assert_eq!(ids(&mut client, excluding(&[&[], &[0; 32]])).await.len(), 3);
    let other = client.clone();
    let refused = |request: GetMempoolTxRequest| {
        let mut client = other.clone();
        async move { code(client.get_mempool_tx(request).await) }
    };
    assert_eq!(refused(excluding(&[&[0; 33]])).await, Code::InvalidArgument);
    let many = vec![&[1u8][..]; 20_001];
    assert_eq!(refused(excluding(&many)).await, Code::InvalidArgument);
    assert_eq!(ids(&mut client, excluding(&many[1..])).await.len(), 3);
    for pools in [vec![0], vec![5], vec![50], vec![2, -1]] {
        let request = GetMempoolTxRequest {
            exclude_txid_suffixes: Vec::new(),
            pool_types: pools,
        };
        assert_eq!(refused(request).await, Code::InvalidArgument);
    }
}

/// The next message's id; `None` at a good end.
async fn next(stream: &mut Streaming<RawTransaction>, all: &[Built]) -> Option<TxId> {
    let message = within(stream.message()).await.unwrap()?;
    assert_eq!(message.height, 0);
    let tx = all.iter().find(|tx| tx.bytes == message.data[..]).unwrap();
    Some(tx.id)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_shows_what_is_there_then_each_newcomer_and_ends_with_the_tip() {
    let mut stage = Stage::new(20).await;
    let mut client = stage.client().await;
    // Headers come at once, also while there is nothing to say.
    let mut stream = within(client.get_mempool_stream(Empty {}))
        .await
        .unwrap()
        .into_inner();
    let built = three(&mut stage);
    let mut seen = Vec::new();
    for _ in 0..3 {
        seen.push(next(&mut stream, &built).await.unwrap());
    }
    seen.sort();
    let mut expected: Vec<TxId> = built.iter().map(|tx| tx.id).collect();
    expected.sort();
    assert_eq!(seen, expected);
    // One that left and comes back under the same tip is not news.
    stage.node.mempool_remove(built[0].id);
    shows(&stage, 2).await;
    stage.node.mempool_add(built[0].bytes.clone()).unwrap();
    shows(&stage, 3).await;
    let silent = tokio::time::timeout(Duration::from_millis(300), stream.message()).await;
    assert!(silent.is_err(), "{silent:?}");
    // A later subscriber sees it as there.
    let mut late = client
        .get_mempool_stream(Empty {})
        .await
        .unwrap()
        .into_inner();
    let mut seen = Vec::new();
    for _ in 0..3 {
        seen.push(next(&mut late, &built).await.unwrap());
    }
    seen.sort();
    assert_eq!(seen, expected);
    // A block with one of them ends both streams well; what it holds is not shown under it.
    stage.mine_of(&built[1..2]);
    stage.follow();
    assert_eq!(next(&mut stream, &built).await, None);
    assert_eq!(next(&mut late, &built).await, None);
    let mut after = client
        .get_mempool_stream(Empty {})
        .await
        .unwrap()
        .into_inner();
    let mut seen = vec![
        next(&mut after, &built).await.unwrap(),
        next(&mut after, &built).await.unwrap(),
    ];
    seen.sort();
    expected.retain(|id| *id != built[1].id);
    assert_eq!(seen, expected);
    // Another block at the same height is another tip.
    stage.reorg(1, 1, 3);
    stage.follow();
    while within(after.message()).await.unwrap().is_some() {}
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waits_is_visible_without_a_gap_when_a_block_comes() {
    let mut stage = Stage::new(20).await;
    let mut client = stage.client().await;
    let built = three(&mut stage);
    shows(&stage, 3).await;
    // The node forgets its mempool with the block, as nodes do.
    for tx in &built {
        stage.node.mempool_remove(tx.id);
    }
    stage.mine_of(&[]);
    stage.follow();
    for _ in 0..20 {
        assert_eq!(ids(&mut client, excluding(&[])).await.len(), 3);
        let filter = lightship_serve::proto::TxFilter {
            hash: built[0].id.as_internal().to_vec().into(),
            ..Default::default()
        };
        assert_eq!(
            client
                .get_transaction(filter)
                .await
                .unwrap()
                .into_inner()
                .height,
            0
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_leaves_ends_a_stream_badly() {
    let mut stage = Stage::new(20).await;
    let mut client = stage.client().await;
    let built = three(&mut stage);
    let mut stream = client
        .get_mempool_stream(Empty {})
        .await
        .unwrap()
        .into_inner();
    for _ in 0..3 {
        next(&mut stream, &built).await.unwrap();
    }
    stage.node.faults().add(Fault::Refuse);
    let ended = within(stream.message()).await.unwrap_err();
    assert_eq!(ended.code(), Code::Unavailable);
    assert_eq!(
        code(client.get_mempool_stream(Empty {}).await),
        Code::Unavailable
    );
    assert_eq!(
        code(client.get_mempool_tx(excluding(&[])).await),
        Code::Unavailable
    );
    stage.node.faults().clear();
    until(|| {
        let mut client = client.clone();
        async move { code(client.get_mempool_tx(excluding(&[])).await) == Code::Ok }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_transaction_is_fetched_once() {
    let mut stage = Stage::new(20).await;
    three(&mut stage);
    shows(&stage, 3).await;
    let fetched = stage.node.faults().calls_of("getrawtransaction");
    stage.mine_of(&[]);
    stage.follow();
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(fetched, 3);
    assert_eq!(stage.node.faults().calls_of("getrawtransaction"), 3);
}

/// Nobody looks by the clock while a test lasts.
async fn unhurried() -> Stage {
    let mut setup = Setup::whole(20);
    setup.settings.mempool_poll = Duration::from_secs(3_600);
    let stage = Stage::with(setup).await;
    // The first look, and the one that a tip of before may have led to.
    shows(&stage, 0).await;
    stage
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_is_heard_of_is_looked_at_before_the_poll_is_due() {
    let mut stage = unhurried().await;
    let mut client = stage.client().await;
    let built = three(&mut stage);
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(ids(&mut client, excluding(&[])).await, []);
    stage.mempool_changed.notify_one();
    shows(&stage, built.len()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_change_the_list_is_looked_at_twice_since_it_may_come_late() {
    let mut stage = unhurried().await;
    let built = three(&mut stage);
    // The first look finds nothing, as if the list were not there yet.
    let late = Rule::new(Fault::Warming)
        .of_method("getrawmempool")
        .times(1);
    stage.node.faults().add(late);
    stage.mempool_changed.notify_one();
    shows(&stage, built.len()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_changes_costs_the_node_a_bounded_number_of_looks() {
    let stage = unhurried().await;
    let looks = || stage.node.faults().calls_of("getrawmempool");
    let (before, began) = (looks(), std::time::Instant::now());
    while began.elapsed() < Duration::from_millis(500) {
        stage.mempool_changed.notify_one();
        tokio::task::yield_now().await;
    }
    let most = began.elapsed().as_millis() as u64 / 20 + 2;
    let looked = looks() - before;
    assert!((1..=most).contains(&looked), "{looked} of at most {most}");
}

/// The first look under a new tip fails, the next finds the same transactions as before the block. The copy once stayed under the old tip then, until the
/// mempool changed, and whoever asked for a stream was told for so long that the node is away.
#[tokio::test(flavor = "multi_thread")]
async fn a_look_that_fails_at_a_new_tip_is_made_good_by_the_next() {
    let mut stage = unhurried().await;
    let mut client = stage.client().await;
    let built = three(&mut stage);
    stage.mempool_changed.notify_one();
    shows(&stage, built.len()).await;
    // The second look after a change is over.
    tokio::time::sleep(Duration::from_millis(400)).await;
    let looked = stage.node.faults().calls_of("getrawmempool");
    let late = Rule::new(Fault::Warming)
        .of_method("getrawmempool")
        .times(1);
    stage.node.faults().add(late);
    stage.mine_of(&[]);
    stage.follow();
    until(|| async { stage.node.faults().calls_of("getrawmempool") > looked }).await;
    stage.mempool_changed.notify_one();
    let mut stream = within(client.get_mempool_stream(Empty {}))
        .await
        .unwrap()
        .into_inner();
    for _ in &built {
        next(&mut stream, &built).await.unwrap();
    }
}

/// What had come in when a question about another failed was once not shown before the mempool changed again.
#[tokio::test(flavor = "multi_thread")]
async fn a_newcomer_is_shown_although_the_question_about_the_next_one_failed() {
    let mut stage = unhurried().await;
    let built = three(&mut stage);
    let listed = Node::mempool(&stage.node).await.unwrap();
    let but_the_first = Rule::new(Fault::Warming)
        .of_method("getrawtransaction")
        .after(1);
    stage.node.faults().add(but_the_first);
    stage.mempool_changed.notify_one();
    // By two looks: a second one follows a change.
    let asked = || stage.node.faults().calls_of("getrawtransaction");
    until(|| async { asked() >= built.len() as u64 }).await;
    for id in &listed[1..] {
        stage.node.mempool_remove(*id);
    }
    stage.node.faults().clear();
    stage.mempool_changed.notify_one();
    shows(&stage, 1).await;
}

/// A reorg of two blocks mines what waited in the lower of them. That it is mined was once not seen, for only the tip was looked into, and the transaction was
/// kept for some seconds as one that the node had forgotten.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_new_branch_has_mined_below_its_tip_does_not_wait_any_more() {
    let mut stage = Stage::new(20).await;
    let mut client = stage.client().await;
    let built = three(&mut stage);
    shows(&stage, 3).await;
    stage.reorg_with(2, 2, 3, &built[1..2]);
    stage.follow();
    let mut stream = within(client.get_mempool_stream(Empty {}))
        .await
        .unwrap()
        .into_inner();
    let mut seen = vec![
        next(&mut stream, &built).await.unwrap(),
        next(&mut stream, &built).await.unwrap(),
    ];
    seen.sort();
    let mut expected = vec![built[0].id, built[2].id];
    expected.sort();
    assert_eq!(seen, expected);
    assert_eq!(ids(&mut client, excluding(&[])).await.len(), 2);
}
