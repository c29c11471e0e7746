//! Transparent addresses: history, balance, unspent outputs.

use std::time::Duration;

use lightship_serve::proto::{
    Address, AddressList, BlockId, BlockRange, GetAddressUtxosArg, TransparentAddressBlockFilter,
    TxFilter,
};
use lightship_source::simulated::{Fault, Rule};
use tonic::Code;

use crate::stage::{MINER, PAYEE, Setup, Stage, address, code, collect, id, until, within};

const TIP: u32 = 30;

fn filter(address: String, start: Option<u64>, end: Option<u64>) -> TransparentAddressBlockFilter {
    TransparentAddressBlockFilter {
        address,
        range: Some(BlockRange {
            start: start.map(id),
            end: end.map(id),
            pool_types: Vec::new(),
        }),
    }
}

fn list(addresses: &[&str]) -> AddressList {
    AddressList {
        addresses: addresses.iter().map(|each| (*each).to_owned()).collect(),
    }
}

fn utxos(addresses: &[&str], start_height: u64, max_entries: u32) -> GetAddressUtxosArg {
    GetAddressUtxosArg {
        addresses: list(addresses).addresses,
        start_height,
        max_entries,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn history_lies_in_the_range_asked_for_and_in_chain_order() {
    let stage = Stage::new(TIP).await;
    let mut client = stage.client().await;
    // Each block has a coinbase that pays the miner, and from 10 on a payment that spends the one below it.
    let expected = |start: u64, end: u64| {
        let mut ids = Vec::new();
        for height in start.max(1)..=end.min(u64::from(TIP)) {
            let block = &stage.blocks[height as usize];
            ids.push((height, block.transactions[0]));
            if height >= 10 {
                ids.push((height, block.transactions[1]));
            }
        }
        ids
    };
    let tip = u64::from(TIP);
    for (start, end, first, last) in [
        (Some(0), None, 0, tip),
        (Some(1), Some(0), 1, tip),
        (Some(5), Some(12), 5, 12),
        (Some(12), Some(12), 12, 12),
        (Some(tip), Some(tip), tip, tip),
        (Some(tip), Some(tip + 10), tip, tip),
        (Some(tip + 1), Some(tip + 10), tip + 1, tip + 10),
        (Some(tip + 1), None, tip + 1, tip),
        (Some(3), Some((1 << 31) - 1), 3, tip),
    ] {
        for old_name in [false, true] {
            let request = filter(address(MINER), start, end);
            let answer = if old_name {
                client.get_taddress_txids(request).await
            } else {
                client.get_taddress_transactions(request).await
            };
            let (sent, ended) = collect(answer).await;
            assert_eq!(ended, Code::Ok);
            let sent: Vec<_> = sent
                .iter()
                .map(|tx| {
                    let (read, _) = lightship_chain::parse::Transaction::parse(&tx.data).unwrap();
                    (tx.height, read.id())
                })
                .collect();
            assert_eq!(sent, expected(first, last), "{start:?}-{end:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn history_that_cannot_be_asked_for_says_why() {
    let stage = Stage::new(TIP).await;
    let mut client = stage.client().await;
    let good = address(MINER);
    let mut no_range = filter(good.clone(), None, None);
    no_range.range = None;
    // Heights were once taken for 0 where only a hash was, and all of the history was sent.
    let by_hash = |start: bool| {
        let mut request = filter(good.clone(), Some(1), Some(5));
        let range = request.range.as_mut().unwrap();
        let end = if start {
            &mut range.start
        } else {
            &mut range.end
        };
        *end = Some(BlockId {
            height: 0,
            hash: stage.blocks[5].id.hash.as_internal().to_vec().into(),
        });
        request
    };
    for request in [
        no_range,
        by_hash(true),
        by_hash(false),
        filter(good.clone(), None, Some(5)),
        filter(good.clone(), Some(6), Some(5)),
        filter(good.clone(), Some(1 << 32), None),
        filter(good.clone(), Some(1), Some(1 << 31)),
        filter("t1".into(), Some(1), None),
        filter(String::new(), Some(1), None),
        filter(format!("{good}x"), Some(1), None),
        // An address of the main network.
        filter("t1Hsc1LR8yKnbbe3twRp88p6vFfC5t7DLbs".into(), Some(1), None),
    ] {
        assert_eq!(
            code(client.get_taddress_transactions(request.clone()).await),
            Code::InvalidArgument,
            "{request:?}"
        );
        assert_eq!(
            code(client.get_taddress_txids(request).await),
            Code::InvalidArgument
        );
    }
    assert_eq!(stage.node.faults().calls_of("getaddresstxids"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_balance_is_of_a_set_of_addresses() {
    let stage = Stage::new(TIP).await;
    let mut client = stage.client().await;
    let (a, b) = (address(MINER), address(PAYEE));
    // Of 30 coinbases 21 were spent; each payment makes its height and 1.
    let miner = (i64::from(TIP) - 21) * 1_000;
    let payee: i64 = (10..=i64::from(TIP)).map(|height| height + 1).sum();
    for (addresses, expected) in [
        (&[][..], 0),
        (&[&a[..]], miner),
        (&[&b], payee),
        (&[&a, &a], miner),
        (&[&a, &b, &a], miner + payee),
        (&[&address([99; 20])], 0),
    ] {
        let unary = client.get_taddress_balance(list(addresses)).await.unwrap();
        assert_eq!(unary.into_inner().value_zat, expected);
        let messages: Vec<Address> = addresses
            .iter()
            .map(|each| Address {
                address: (*each).to_owned(),
            })
            .collect();
        let streamed = client
            .get_taddress_balance_stream(tokio_stream::iter(messages))
            .await
            .unwrap();
        assert_eq!(streamed.into_inner().value_zat, expected);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_and_streams_of_addresses_have_one_bound() {
    let stage = Stage::new(TIP).await;
    let mut client = stage.client().await;
    let good = address(MINER);
    for (count, expected) in [(10_000, Code::Ok), (10_001, Code::InvalidArgument)] {
        let many = vec![&good[..]; count];
        assert_eq!(
            code(client.get_taddress_balance(list(&many)).await),
            expected
        );
        assert_eq!(
            code(client.get_address_utxos(utxos(&many, 0, 1)).await),
            expected
        );
        let (_, ended) = collect(client.get_address_utxos_stream(utxos(&many, 0, 1)).await).await;
        assert_eq!(ended, expected);
        let messages: Vec<Address> = list(&many)
            .addresses
            .into_iter()
            .map(|address| Address { address })
            .collect();
        let streamed = client.get_taddress_balance_stream(tokio_stream::iter(messages));
        assert_eq!(code(streamed.await), expected);
    }
    let bad = [&good[..], "t1bad"];
    assert_eq!(
        code(client.get_taddress_balance(list(&bad)).await),
        Code::InvalidArgument
    );
    assert_eq!(
        code(client.get_address_utxos(utxos(&bad, 0, 0)).await),
        Code::InvalidArgument
    );
    // A stream fails at its first bad message, though it never ends.
    let endless = tokio_stream::iter(std::iter::repeat_with(|| Address {
        address: "t1bad".into(),
    }));
    assert_eq!(
        code(client.get_taddress_balance_stream(endless).await),
        Code::InvalidArgument
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn unspent_outputs_come_in_chain_order_and_within_bounds() {
    let stage = Stage::new(TIP).await;
    let mut client = stage.client().await;
    let (a, b) = (address(MINER), address(PAYEE));
    // Height, then position, then output: a coinbase before the payment of its block.
    let model: Vec<(u64, String, i32, i64)> = (1..=u64::from(TIP))
        .flat_map(|height| {
            let spent = (9..u64::from(TIP)).contains(&height);
            let mut outputs = Vec::new();
            if !spent {
                outputs.push((height, a.clone(), 0, 1_000));
            }
            if height >= 10 {
                outputs.push((height, b.clone(), 0, height as i64));
                outputs.push((height, b.clone(), 1, 1));
            }
            outputs
        })
        .collect();
    for start in [0, 1, 9, 10, 20, u64::from(TIP), u64::from(TIP) + 1] {
        for max in [0, 1, 2, 7, 1_000] {
            let mut expected: Vec<_> = model.iter().filter(|utxo| utxo.0 >= start).collect();
            if max > 0 {
                expected.truncate(max as usize);
            }
            let request = utxos(&[&a, &b, &a], start, max);
            let (sent, ended) =
                collect(client.get_address_utxos_stream(request.clone()).await).await;
            assert_eq!(ended, Code::Ok);
            let got: Vec<_> = sent
                .iter()
                .map(|utxo| {
                    (
                        utxo.height,
                        utxo.address.clone(),
                        utxo.index,
                        utxo.value_zat,
                    )
                })
                .collect();
            assert_eq!(got.iter().collect::<Vec<_>>(), expected, "{start}, {max}");
            let listed = client
                .get_address_utxos(request)
                .await
                .unwrap()
                .into_inner();
            assert!(listed.address_utxos == sent);
        }
    }
    let (sent, _) = collect(client.get_address_utxos_stream(utxos(&[], 0, 0)).await).await;
    assert!(sent.is_empty());
    assert_eq!(
        code(client.get_address_utxos(utxos(&[&a], 1 << 33, 0)).await),
        Code::InvalidArgument
    );
}

/// Each asker held a part of the memory while it waited for the node, all together held all of it, and then none was left for the answers: of 256
/// callers at once most were told `RESOURCE_EXHAUSTED`.
#[tokio::test(flavor = "multi_thread")]
async fn many_who_wait_for_the_node_are_each_answered_however_little_memory_there_is() {
    let mut setup = Setup::whole(TIP);
    setup.settings.limits.held_bytes = 96 << 10;
    let stage = Stage::with(setup).await;
    let slow = |method| Rule::new(Fault::Slow(Duration::from_millis(10))).of_method(method);
    for method in ["getaddressutxos", "getaddresstxids", "getrawtransaction"] {
        stage.node.faults().add(slow(method));
    }
    let (miner, payee) = (address(MINER), address(PAYEE));
    let last = &stage.blocks[TIP as usize].transactions;
    let known = TxFilter {
        hash: last[1].as_internal().to_vec().into(),
        ..TxFilter::default()
    };
    let mut asking = Vec::new();
    for _ in 0..40 {
        let (mut wallet, known) = (stage.client().await, known.clone());
        let request = utxos(&[&miner, &payee], 0, 0);
        let history = filter(payee.clone(), Some(10), None);
        asking.push(tokio::spawn(async move {
            let unspent = wallet.get_address_utxos(request.clone()).await?;
            let (streamed, end) = collect(wallet.get_address_utxos_stream(request).await).await;
            let (paid, history) = collect(wallet.get_taddress_transactions(history).await).await;
            let found = wallet.get_transaction(known).await?.into_inner();
            assert_eq!((end, history), (Code::Ok, Code::Ok));
            assert!(unspent.into_inner().address_utxos == streamed);
            assert_eq!(u64::from(TIP), found.height);
            Ok::<_, tonic::Status>((streamed.len(), paid.len()))
        }));
    }
    // Of 30 coinbases 9 are unspent; 21 payments have two outputs each.
    for answered in asking {
        let answered = within(answered).await.unwrap().unwrap();
        assert_eq!(answered, (9 + 42, 21));
    }
}

/// While some wait for a node that does not answer, what the node has answered, and what needs no node, is sent.
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_is_ready_finds_its_part_while_all_others_wait() {
    let mut setup = Setup::whole(TIP);
    setup.settings.limits.held_bytes = 512 << 10;
    let stage = Stage::with(setup).await;
    let mut wallet = stage.client().await;
    let hang = Rule::new(Fault::Hang).of_method("getaddressutxos");
    stage.node.faults().add(hang);
    let mut asking = Vec::new();
    for _ in 0..40 {
        let mut wallet = stage.client().await;
        let request = utxos(&[&address(MINER)], 0, 0);
        asking.push(tokio::spawn(async move {
            code(wallet.get_address_utxos(request).await)
        }));
    }
    until(async || stage.node.faults().calls_of("getaddressutxos") >= 1).await;
    // In a view that is made for this call, so it needs memory.
    let all = BlockRange {
        start: Some(id(10)),
        end: Some(id(u64::from(TIP))),
        pool_types: vec![1, 2, 3, 4],
    };
    for _ in 0..10 {
        let (blocks, end) = collect(wallet.get_block_range(all.clone()).await).await;
        assert_eq!((blocks.len(), end), (21, Code::Ok));
    }
    assert!(asking.iter().all(|asking| !asking.is_finished()));
    stage.node.faults().clear();
    for waiting in asking {
        waiting.abort();
    }
}
