//! Faults that servers like this one have had, each as a wallet would meet it. `docs/faults.md` lists all of them, wherever their tests are.

#![expect(deprecated, reason = "one of them is, and wallets still call it")]

use std::time::Duration;

use lightship_chain::{
    ShieldedPool, TxId,
    build::{Built, Input, Output, Recipe},
};
use lightship_serve::{
    Limits, Settings,
    proto::{
        Address, AddressList, BlockId, ChainSpec, Empty, GetAddressUtxosArg, GetMempoolTxRequest,
        GetSubtreeRootsArg, RawTransaction, TransparentAddressBlockFilter, TxFilter,
    },
};
use lightship_source::Node as _;
use tonic::Code;

use crate::stage::{Client, MINER, PAYEE, Setup, Stage, address, code, collect, id, range, within};

/// The height a transaction is said to be at.
async fn height_of(client: &mut Client, id: TxId) -> Result<u64, Code> {
    let filter = TxFilter {
        hash: id.as_internal().to_vec().into(),
        ..TxFilter::default()
    };
    match client.get_transaction(filter).await {
        Ok(found) => Ok(found.into_inner().height),
        Err(status) => Err(status.code()),
    }
}

/// The node's verdict on a transaction.
async fn send(client: &mut Client, tx: &Built) -> (i32, String) {
    let offered = RawTransaction {
        data: tx.bytes.clone().into(),
        height: 0,
    };
    let sent = client.send_transaction(offered).await.unwrap().into_inner();
    (sent.error_code, sent.error_message)
}

/// A payment from the coinbase at `height`.
fn payment(stage: &mut Stage, height: usize) -> Built {
    let coinbase = stage.blocks[height].transactions[0];
    let recipe = Recipe::new(stage.chain.newest_version())
        .with_input(Input::spend(coinbase, 0))
        .with_output(Output::to_public_key_hash(5, &PAYEE));
    stage.chain.transaction(recipe).unwrap()
}

/// A server that had only a block or two showed a made-up tip, or waited for the first shielded block before it said anything.
#[tokio::test(flavor = "multi_thread")]
async fn a_chain_is_served_from_its_first_block_on() {
    // Sapling begins at 2, Orchard at 6, Ironwood at 9.
    let mut stage = Stage::new(0).await;
    let mut client = stage.client().await;
    for tip in 0..12 {
        let latest = client.get_latest_block(ChainSpec {}).await.unwrap();
        assert_eq!(latest.into_inner().height, tip);
        let (blocks, ended) = collect(client.get_block_range(range(0, tip)).await).await;
        assert_eq!((blocks.len() as u64, ended), (tip + 1, Code::Ok));
        let info = client.get_lightd_info(Empty {}).await.unwrap().into_inner();
        assert_eq!(info.block_height, tip);
        assert_eq!(info.sapling_activation_height, 2);
        let state = client.get_latest_tree_state(Empty {}).await.unwrap();
        let state = state.into_inner();
        assert_eq!(state.height, tip);
        let active = [
            !state.sapling_tree.is_empty(),
            !state.orchard_tree.is_empty(),
            !state.ironwood_tree.is_empty(),
        ];
        assert_eq!(active, [tip >= 2, tip >= 6, tip >= 9], "{tip}");
        stage.mine();
        stage.follow();
    }
}

/// A wallet that got no answer sends again. It was told that its payment had failed, while that was being mined.
#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_that_is_sent_again_is_recognised_wherever_it_lies() {
    let mut stage = Stage::new(20).await;
    let mut client = stage.client().await;
    let tx = payment(&mut stage, 20);
    assert_eq!(send(&mut client, &tx).await, (0, tx.id.to_string()));
    for _ in 0..3 {
        let (code, words) = send(&mut client, &tx).await;
        assert!(code != 0 && words.contains("already exists"), "{words}");
    }
    stage.mine_of(std::slice::from_ref(&tx));
    stage.follow();
    let (code, words) = send(&mut client, &tx).await;
    assert!(code != 0 && words.contains("already"), "{code}: {words}");
    assert_eq!(height_of(&mut client, tx.id).await, Ok(21));
}

/// One that waits was shown at the tip's height, as if it were confirmed; one that was mined anew kept its old height.
#[tokio::test(flavor = "multi_thread")]
async fn the_height_of_a_transaction_goes_with_it_from_branch_to_branch() {
    let mut stage = Stage::new(20).await;
    let mut client = stage.client().await;
    // Notes, not coins: the blocks of the branches below do not spend the same.
    let recipe = Recipe::new(stage.chain.newest_version()).with_sapling(1, 1);
    let tx = stage.chain.transaction(recipe).unwrap();
    assert_eq!(height_of(&mut client, tx.id).await, Err(Code::NotFound));
    stage.node.mempool_add(tx.bytes.clone()).unwrap();
    assert_eq!(height_of(&mut client, tx.id).await, Ok(0));
    stage.mine_of(std::slice::from_ref(&tx));
    stage.follow();
    assert_eq!(height_of(&mut client, tx.id).await, Ok(21));
    // Its block goes, and the node takes it back.
    stage.reorg(1, 0, 0);
    stage.node.mempool_add(tx.bytes.clone()).unwrap();
    stage.follow();
    assert_eq!(height_of(&mut client, tx.id).await, Ok(0));
    // Another branch goes on without it, then takes it in.
    stage.reorg(0, 2, 5);
    stage.follow();
    assert_eq!(height_of(&mut client, tx.id).await, Ok(0));
    stage.mine_of(std::slice::from_ref(&tx));
    stage.follow();
    assert_eq!(height_of(&mut client, tx.id).await, Ok(23));
    // Left on a side branch for good, it is on no height of this chain.
    stage.reorg(1, 3, 6);
    stage.node.mempool_remove(tx.id);
    stage.follow();
    let left = height_of(&mut client, tx.id).await;
    assert!(
        left == Ok(u64::MAX) || left == Err(Code::NotFound),
        "{left:?}"
    );
}

/// A descending range was read as the branch changed, and went on with the blocks of the other one.
#[tokio::test(flavor = "multi_thread")]
async fn a_descending_range_is_of_one_branch() {
    let mut stage = Stage::new(12).await;
    for _ in 12..60 {
        let recipe = Recipe::new(stage.chain.newest_version()).with_sapling(0, 1_000);
        let tx = stage.chain.transaction(recipe).unwrap();
        stage.mine_of(&[tx]);
    }
    stage.follow();
    let old: Vec<_> = stage.blocks.iter().map(|block| block.id.hash).collect();
    let mut client = stage.client().await;
    let mut stream = client
        .get_block_range(range(60, 0))
        .await
        .unwrap()
        .into_inner();
    within(stream.message()).await.unwrap().unwrap();
    tokio::time::sleep(Duration::from_millis(200)).await;
    // The fork lies far below what the transport can have taken by now.
    stage.reorg(55, 56, 5);
    stage.follow();
    let mut next = 59;
    let ended = loop {
        match within(stream.message()).await {
            Ok(Some(block)) => {
                assert_eq!(block.height, next);
                assert_eq!(block.hash[..], old[next as usize].as_internal()[..]);
                next = next.saturating_sub(1);
            }
            Ok(None) => break Code::Ok,
            Err(status) => break status.code(),
        }
    };
    // Either the old branch to its end or an end that tells.
    assert!(
        ended == Code::Aborted || (ended == Code::Ok && next == 0),
        "{ended:?} before {next}"
    );
}

/// A root stayed listed with the block that had completed it, after that block was gone.
#[tokio::test(flavor = "multi_thread")]
async fn a_subtree_that_is_completed_again_is_listed_once_with_its_new_block() {
    let mut stage = Stage::new(10).await;
    let mut client = stage.client().await;
    // 65,536 notes make a subtree: the eleventh block of 6,000 outputs completes it.
    let crowd = |stage: &mut Stage, outputs| {
        let recipe = Recipe::new(stage.chain.newest_version()).with_sapling(0, outputs);
        stage.chain.transaction(recipe).unwrap()
    };
    for _ in 0..11 {
        let tx = crowd(&mut stage, 6_000);
        stage.mine_of(&[tx]);
    }
    stage.follow();
    let mut roots = async || {
        let answer = client.get_subtree_roots(GetSubtreeRootsArg::default());
        let (roots, ended) = collect(answer.await).await;
        assert_eq!(ended, Code::Ok);
        roots
    };
    let first = roots().await;
    assert_eq!(first.len(), 1);
    assert_eq!(first[0].completing_block_height, 21);
    stage.reorg(2, 0, 0);
    stage.follow();
    assert_eq!(roots().await.len(), 0);
    // Smaller blocks: it takes more of them.
    let parent = stage.tip();
    let time = stage.blocks.last().unwrap().time;
    stage.chain = stage.chain.branch(parent, time, 9);
    for _ in 0..6 {
        let tx = crowd(&mut stage, 3_000);
        stage.mine_of(&[tx]);
    }
    stage.follow();
    let again = roots().await;
    let expected = stage
        .node
        .subtree_roots(ShieldedPool::Sapling, 0, None)
        .await
        .unwrap();
    assert_eq!((again.len(), expected.len()), (1, 1));
    assert_eq!(again[0].root_hash[..], expected[0].root[..]);
    assert_ne!(again[0].root_hash, first[0].root_hash);
    let height = again[0].completing_block_height;
    assert!(height > 21, "{height}");
    let block = stage.blocks[height as usize].id.hash;
    assert_eq!(
        again[0].completing_block_hash[..],
        block.to_display_order()[..]
    );
}

/// Rows of a replaced branch stayed in histories and balances.
#[tokio::test(flavor = "multi_thread")]
async fn histories_and_balances_go_with_the_branch() {
    let mut stage = Stage::new(20).await;
    let mut client = stage.client().await;
    for (depth, count) in [(3, 0), (5, 7), (4, 2)] {
        stage.reorg(depth, count, depth as u64);
        stage.follow();
        let tip = u64::from(stage.tip().height);
        let expected: Vec<(u64, TxId)> = (1..=tip)
            .flat_map(|height| {
                let ids = &stage.blocks[height as usize].transactions;
                // From 10 on the first payment of a block spends the coinbase below it.
                ids.iter()
                    .take(if height < 10 { 1 } else { 2 })
                    .map(move |id| (height, *id))
            })
            .collect();
        let request = TransparentAddressBlockFilter {
            address: address(MINER),
            range: Some(range(1, 0)),
        };
        let (sent, ended) = collect(client.get_taddress_transactions(request).await).await;
        assert_eq!(ended, Code::Ok);
        let sent: Vec<(u64, TxId)> = sent
            .iter()
            .map(|tx| {
                let (read, _) = lightship_chain::parse::Transaction::parse(&tx.data).unwrap();
                (tx.height, read.id())
            })
            .collect();
        assert_eq!(sent, expected, "after {depth} were replaced by {count}");
        let list = AddressList {
            addresses: vec![address(MINER)],
        };
        let balance = client.get_taddress_balance(list).await.unwrap();
        assert_eq!(
            balance.into_inner().value_zat,
            (tip as i64 - (tip as i64 - 9)) * 1_000
        );
    }
}

/// The balances of a list were asked for one by one, and a payment between two of them counted twice or not at all.
#[tokio::test(flavor = "multi_thread")]
async fn a_list_of_addresses_is_one_question_to_the_node() {
    let stage = Stage::new(20).await;
    let mut client = stage.client().await;
    let list = AddressList {
        addresses: (0..100).map(|each| address([each; 20])).collect(),
    };
    client.get_taddress_balance(list.clone()).await.unwrap();
    assert_eq!(stage.node.faults().calls_of("getaddressbalance"), 1);
    let utxos = GetAddressUtxosArg {
        addresses: list.addresses,
        ..GetAddressUtxosArg::default()
    };
    client.get_address_utxos(utxos).await.unwrap();
    assert_eq!(stage.node.faults().calls_of("getaddressutxos"), 1);
}

/// A stream of addresses that never ended was held open for ever, and what it had sent so far with it.
#[tokio::test(flavor = "multi_thread")]
async fn an_address_stream_that_falls_silent_is_ended() {
    let mut setup = Setup::whole(20);
    setup.settings.limits = Limits {
        address_patience: Duration::from_millis(200),
        ..Limits::default()
    };
    let stage = Stage::with(setup).await;
    let mut client = stage.client().await;
    use tokio_stream::StreamExt as _;
    let some = tokio_stream::iter((0..3).map(|each| Address {
        address: address([each; 20]),
    }));
    let silent = some.chain(tokio_stream::pending());
    let ended = within(client.get_taddress_balance_stream(silent)).await;
    assert_eq!(code(ended), Code::DeadlineExceeded);
    assert_eq!(stage.node.faults().calls_of("getaddressbalance"), 0);
}

/// Long and malformed names were copied, sorted and passed on before anybody looked at them.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_malformed_is_refused_and_the_node_not_asked() {
    let stage = Stage::with(Setup {
        settings: Settings {
            // The keeper's own questions would be counted too.
            mempool_poll: Duration::from_secs(3_600),
            ..Settings::default()
        },
        ..Setup::whole(20)
    })
    .await;
    let mut client = stage.client().await;
    let ask = client.get_mempool_tx(GetMempoolTxRequest::default()).await;
    assert_eq!(code(ask), Code::Ok);
    client.get_lightd_info(Empty {}).await.unwrap();
    // Nor do questions count that are asked now and then whatever wallets do.
    let asked = || {
        let mut calls = stage.node.faults().calls_by_method();
        calls.remove("getblockchaininfo");
        calls
    };
    let before = asked();
    let long = |bytes: usize| BlockId {
        height: 0,
        hash: vec![7; bytes].into(),
    };
    let refused = Code::InvalidArgument;
    for bytes in [1, 31, 33, 64, 1 << 20, (4 << 20) - 64] {
        assert_eq!(code(client.get_block(long(bytes)).await), refused);
        assert_eq!(
            code(client.get_block_nullifiers(long(bytes)).await),
            refused
        );
        assert_eq!(code(client.get_tree_state(long(bytes)).await), refused);
        let filter = TxFilter {
            hash: vec![7; bytes].into(),
            ..TxFilter::default()
        };
        assert_eq!(code(client.get_transaction(filter).await), refused);
        let mut both = range(1, 2);
        both.start = Some(long(bytes));
        assert_eq!(collect(client.get_block_range(both).await).await.1, refused);
    }
    let suffixes = |count: usize, bytes: usize| GetMempoolTxRequest {
        exclude_txid_suffixes: vec![vec![7; bytes].into(); count],
        pool_types: Vec::new(),
    };
    for (count, bytes) in [(1, 33), (1, 4_000_000), (1_000_000, 1), (20_001, 32)] {
        let answer = client.get_mempool_tx(suffixes(count, bytes)).await;
        assert_eq!(collect(answer).await.1, refused, "{count} of {bytes}");
    }
    let mut pools = range(1, 2);
    pools.pool_types = vec![9; 1_000];
    assert_eq!(
        collect(client.get_block_range(pools).await).await.1,
        refused
    );
    let nobody = AddressList {
        addresses: vec!["t".repeat(100_000); 40],
    };
    assert_eq!(code(client.get_taddress_balance(nobody).await), refused);
    assert_eq!(asked(), before, "the node was asked");
    // A well-formed name of nothing, all zeros, is a block nobody has.
    let zeros = BlockId {
        height: 0,
        hash: vec![0; 32].into(),
    };
    assert_eq!(code(client.get_block(zeros.clone()).await), Code::NotFound);
    assert_eq!(code(client.get_tree_state(zeros).await), Code::NotFound);
    assert_eq!(code(client.get_tree_state(id(0)).await), Code::Ok);
}
