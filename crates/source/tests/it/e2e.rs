//! Against a running node, named by `LIGHTSHIP_NODE` (`host:port`) and, if it wants one, `LIGHTSHIP_NODE_COOKIE` (a path).
//! `LIGHTSHIP_NODE_ADDRESS` may name a transparent address that has been paid. Only reads, so any node of any network will do;
//! a young regtest chain is enough.

use std::{collections::HashMap, env, ops::ControlFlow, time::Duration};

use bytes::Bytes;
use lightship_chain::{BlockHash, Height, HeightRange, RawBlock, ShieldedPool, TxId, parse};
use lightship_source::{
    BlockSource, Error, Node, Place, Submitted,
    rpc::{Credentials, Endpoint, RpcNode, RpcSource},
};

use crate::faults::on_runtime;

fn endpoint() -> Option<Endpoint> {
    let Ok(address) = env::var("LIGHTSHIP_NODE") else {
        eprintln!("skipped: LIGHTSHIP_NODE names no node");
        return None;
    };
    let credentials = env::var_os("LIGHTSHIP_NODE_COOKIE")
        .map_or(Credentials::None, |path| Credentials::Cookie(path.into()));
    Some(Endpoint::new(&address, credentials).unwrap())
}

fn whole(block: RawBlock<'_>) -> Vec<u8> {
    match block {
        RawBlock::Whole(bytes) => bytes.to_vec(),
        RawBlock::Parts { .. } => panic!("JSON-RPC lends whole blocks"),
    }
}

#[test]
fn blocks_by_height_are_linked_and_are_the_blocks_by_hash() {
    let Some(endpoint) = endpoint() else { return };
    let source = RpcSource::new(endpoint);
    let tip = source.tip().unwrap().unwrap();
    let last = tip.height.min(Height::new(1_000));
    let range = HeightRange::new(Height::GENESIS, last).unwrap();
    let (mut expected, mut previous) = (Height::GENESIS, BlockHash::ZERO);
    source
        .blocks(range, &mut |height, block| {
            assert_eq!(height, expected);
            let bytes = whole(block);
            let (header, _) = parse::Header::parse(&bytes).unwrap();
            assert_eq!(header.previous(), previous);
            previous = header.hash();
            if height.get() % 100 == 0 {
                assert_eq!(source.hash_at(height).unwrap(), Some(previous));
                let mut same = None;
                assert!(
                    source
                        .block(previous, &mut |block| same = Some(whole(block)))
                        .unwrap()
                );
                assert_eq!(same.unwrap(), bytes);
            }
            expected = height.next().unwrap();
            ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!(expected, last.next().unwrap());
    assert_eq!(
        source.genesis().unwrap(),
        source.hash_at(Height::GENESIS).unwrap().unwrap()
    );
}

#[test]
fn what_the_node_does_not_know_is_none() {
    let Some(endpoint) = endpoint() else { return };
    let source = RpcSource::new(endpoint.clone());
    let node = RpcNode::new(endpoint);
    let unknown = BlockHash::from_internal([7; 32]);
    let tip = source.tip().unwrap().unwrap();
    let above = tip.height.checked_add(100).unwrap();
    assert_eq!(source.hash_at(above).unwrap(), None);
    assert_eq!(source.hash_at(Height::MAX).unwrap(), None);
    assert!(
        !source
            .block(unknown, &mut |_| panic!("it knows none"))
            .unwrap()
    );
    assert_eq!(source.tree_sizes(unknown).unwrap(), None);
    let error = source
        .blocks(HeightRange::new(tip.height, above).unwrap(), &mut |_, _| {
            ControlFlow::Continue(())
        })
        .unwrap_err();
    assert!(matches!(error, Error::AboveTip { height } if height > tip.height));
    source.wait(Some(tip), Duration::from_millis(300)).unwrap();
    source.wait(None, Duration::from_secs(60)).unwrap();
    on_runtime(async {
        assert_eq!(node.hash_at(above).await.unwrap(), None);
        assert_eq!(node.block(unknown).await.unwrap(), None);
        assert_eq!(node.tree_state(unknown).await.unwrap(), None);
        assert_eq!(node.tree_sizes(unknown).await.unwrap(), None);
        let id = TxId::from_internal([7; 32]);
        assert_eq!(node.transaction(id).await.unwrap(), None);
        let nonsense = node.submit(Bytes::from_static(b"nonsense")).await.unwrap();
        assert!(
            matches!(nonsense, Submitted::Rejected { code: -22, .. }),
            "{nonsense:?}"
        );
    });
}

#[test]
fn the_tip_is_described_the_same_by_every_method() {
    let Some(endpoint) = endpoint() else { return };
    let source = RpcSource::new(endpoint.clone());
    let node = RpcNode::new(endpoint);
    on_runtime(async {
        let info = node.info().await.unwrap();
        eprintln!("{info:?}");
        assert_eq!(info.genesis, Some(source.genesis().unwrap()));
        assert!(info.upgrades.is_sorted_by_key(|upgrade| upgrade.height));
        let tip = info.tip;
        assert_eq!(node.hash_at(tip.height).await.unwrap(), Some(tip.hash));

        let trees = node.tree_state(tip.hash).await.unwrap().unwrap();
        assert_eq!(trees.id, tip);
        assert!(
            [&trees.sapling, &trees.orchard, &trees.ironwood]
                .into_iter()
                .flatten()
                .all(|tree| tree.len() >= 6)
        );
        let sizes = node.tree_sizes(tip.hash).await.unwrap().unwrap();
        assert_eq!(source.tree_sizes(tip.hash).unwrap(), Some(sizes));
        for pool in ShieldedPool::ALL {
            let roots = node.subtree_roots(pool, 0, None).await.unwrap();
            assert_eq!(roots.len(), (sizes.of(pool) >> 16) as usize);
        }
        node.mempool().await.unwrap();

        let bytes = node.block(tip.hash).await.unwrap().unwrap();
        let (header, used) = parse::Header::parse(&bytes).unwrap();
        assert_eq!((header.hash(), header.time()), (tip.hash, trees.time));
        // The first transaction follows the count, which is one byte on a quiet chain.
        if bytes[used] < 0xfd {
            let (transaction, _) = parse::Transaction::parse(&bytes[used + 1..]).unwrap();
            let found = node.transaction(transaction.id()).await.unwrap().unwrap();
            assert_eq!(found.bytes, transaction.bytes());
            assert_eq!(found.place, Place::Mined(tip.height));
        }
    });
}

#[test]
fn addresses_are_sets_and_ranges_are_exact() {
    let Some(endpoint) = endpoint() else { return };
    let Ok(address) = env::var("LIGHTSHIP_NODE_ADDRESS") else {
        eprintln!("skipped: LIGHTSHIP_NODE_ADDRESS names no address");
        return;
    };
    let node = RpcNode::new(endpoint);
    on_runtime(async {
        let tip = node.info().await.unwrap().tip.height;
        let twice = vec![address.clone(), address.clone()];
        let balance = node.address_balance(twice.clone()).await.unwrap();
        assert_eq!(
            node.address_balance(vec![address.clone()]).await.unwrap(),
            balance
        );

        let utxos = node.address_utxos(twice.clone(), None, None).await.unwrap();
        assert_eq!(
            utxos.iter().map(|utxo| utxo.value_zat).sum::<i64>(),
            balance
        );
        assert!(utxos.is_sorted_by_key(|utxo| utxo.height));
        let start = utxos[utxos.len() / 2].height;
        let upper = node
            .address_utxos(twice, Some(start), Some(2))
            .await
            .unwrap();
        let expected: Vec<_> = utxos
            .iter()
            .filter(|utxo| utxo.height >= start)
            .take(2)
            .cloned()
            .collect();
        assert_eq!(upper, expected);

        let all = HeightRange::new(Height::GENESIS, tip).unwrap();
        let ids = node
            .address_transactions(address.clone(), all)
            .await
            .unwrap();
        let places: HashMap<_, _> = ids.iter().zip(0..).collect();
        assert_eq!(places.len(), ids.len());
        assert!(utxos.iter().all(|utxo| places.contains_key(&utxo.txid)));
        let above = HeightRange::new(tip.next().unwrap(), Height::MAX).unwrap();
        let none = node.address_transactions(address, above).await.unwrap();
        assert_eq!(none, []);
        let error = node
            .address_balance(vec!["nonsense".to_owned()])
            .await
            .unwrap_err();
        assert!(matches!(error, Error::Rpc { code: -5, .. }), "{error:?}");
    });
}
