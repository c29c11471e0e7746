//! `GetTransaction` and `SendTransaction`.

use lightship_chain::{
    TxId,
    build::{Input, Output, Recipe},
};
use lightship_serve::proto::{BlockId, RawTransaction, TxFilter};
use lightship_source::simulated::Fault;
use tonic::Code;

use crate::stage::{PAYEE, Stage, code, until};

fn by_id(id: TxId) -> TxFilter {
    TxFilter {
        block: None,
        index: 0,
        hash: id.as_internal().to_vec().into(),
    }
}

/// A payment from the coinbase at `height`, for the next block.
fn payment(stage: &mut Stage, height: usize) -> lightship_chain::build::Built {
    let coinbase = stage.blocks[height].transactions[0];
    let version = stage.chain.newest_version();
    let recipe = Recipe::new(version)
        .with_input(Input::spend(coinbase, 0))
        .with_output(Output::to_public_key_hash(5, &PAYEE));
    stage.chain.transaction(recipe).unwrap()
}

fn raw(bytes: &[u8]) -> RawTransaction {
    RawTransaction {
        data: bytes.to_vec().into(),
        height: 9,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_height_says_where_a_transaction_lies() {
    let mut stage = Stage::new(20).await;
    let mut client = stage.client().await;
    let tx = payment(&mut stage, 20);
    let height_of = async |client: &mut crate::stage::Client| {
        let got = client.get_transaction(by_id(tx.id)).await?.into_inner();
        assert_eq!(got.data[..], tx.bytes[..]);
        Ok::<_, tonic::Status>(got.height)
    };
    let unknown = height_of(&mut client).await.unwrap_err();
    assert_eq!(unknown.code(), Code::NotFound);
    assert!(unknown.message().contains("Transaction not found"));
    let sent = client
        .send_transaction(raw(&tx.bytes))
        .await
        .unwrap()
        .into_inner();
    assert_eq!(
        (sent.error_code, sent.error_message),
        (0, tx.id.to_string())
    );
    assert_eq!(height_of(&mut client).await.unwrap(), 0);
    stage.mine_of(std::slice::from_ref(&tx));
    stage.follow();
    assert_eq!(height_of(&mut client).await.unwrap(), 21);
    // Replaced by a block without it: only a side branch has it, unless the node takes it back into its mempool.
    stage.reorg(1, 1, 77);
    stage.follow();
    let height = height_of(&mut client).await.unwrap();
    assert!(height == 0 || height == u64::MAX);
    // A lookup by place is offered nowhere; a hash beside it counts.
    let mut filter = by_id(tx.id);
    filter.block = Some(BlockId::default());
    filter.index = 3;
    assert_eq!(code(client.get_transaction(filter.clone()).await), Code::Ok);
    for bytes in [0, 31, 33, 64] {
        filter.hash = vec![1; bytes].into();
        assert_eq!(
            code(client.get_transaction(filter.clone()).await),
            Code::InvalidArgument
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_nodes_verdict_is_passed_on_word_for_word() {
    let mut stage = Stage::new(20).await;
    let mut client = stage.client().await;
    let tx = payment(&mut stage, 20);
    let mut send = async |bytes: &[u8]| {
        let sent = client
            .send_transaction(raw(bytes))
            .await
            .unwrap()
            .into_inner();
        (sent.error_code, sent.error_message)
    };
    assert_eq!(
        send(b"garbage").await,
        (-22, "transaction deserialization failed".into())
    );
    assert_eq!(send(&tx.bytes).await.0, 0);
    let (code, words) = send(&tx.bytes).await;
    assert!(
        code != 0 && words.contains("transaction already exists in mempool"),
        "{words}"
    );
    stage.node.faults().add(Fault::Code {
        code: -26,
        message: "66: min relay fee not met".into(),
    });
    // The simulated node's own errors come as errors of the call where it is asked directly.
    let sent = client.send_transaction(raw(&tx.bytes)).await;
    assert_eq!(code_of(sent), Code::Unavailable);
}

fn code_of<T>(answer: Result<tonic::Response<T>, tonic::Status>) -> Code {
    code(answer)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_too_large_for_a_block_never_reaches_the_node() {
    let stage = Stage::new(12).await;
    let mut client = stage.client().await;
    let asked = || stage.node.faults().calls_of("sendrawtransaction");
    for bytes in [0, 2_000_001, 4 << 19] {
        let sent = client.send_transaction(raw(&vec![0; bytes])).await;
        assert_eq!(code(sent), Code::InvalidArgument, "{bytes}");
    }
    // Above what one message may be, the transport refuses.
    let sent = client.send_transaction(raw(&vec![0; 5 << 20])).await;
    assert_eq!(code(sent), Code::OutOfRange);
    assert_eq!(asked(), 0);
    for bytes in [1, 2_000_000] {
        let sent = client.send_transaction(raw(&vec![0; bytes])).await.unwrap();
        assert_eq!(sent.into_inner().error_code, -22);
    }
    assert_eq!(asked(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_submission_goes_through_without_its_sender() {
    let mut stage = Stage::new(20).await;
    let mut client = stage.client().await;
    let tx = payment(&mut stage, 20);
    stage.node.faults().add(
        lightship_source::simulated::Rule::new(Fault::Slow(std::time::Duration::from_millis(300)))
            .of_method("sendrawtransaction"),
    );
    let mut request = tonic::Request::new(raw(&tx.bytes));
    request.set_timeout(std::time::Duration::from_millis(100));
    let sent = client.send_transaction(request).await;
    assert!(matches!(
        code(sent),
        Code::DeadlineExceeded | Code::Cancelled
    ));
    let node = stage.node.clone();
    until(|| {
        let there = node
            .mempool_transactions()
            .iter()
            .any(|each| each.id == tx.id);
        async move { there }
    })
    .await;
}
