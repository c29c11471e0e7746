//! The server itself: info, health, reflection, metrics, limits, deadlines, and the way down.

use std::{net::SocketAddr, time::Duration};

use lightship_serve::{
    Limits, Settings,
    proto::{ChainSpec, Duration as Interval, Empty},
};
use lightship_source::simulated::{Fault, Rule};
use tonic::{Code, Request, transport::Channel};
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};

use crate::stage::{Setup, Stage, code, collect, id, range, until, within};

fn channel(server: SocketAddr) -> impl Future<Output = Channel> + use<> {
    let endpoint = Channel::from_shared(format!("http://{server}")).unwrap();
    async move { endpoint.connect().await.unwrap() }
}

#[tokio::test(flavor = "multi_thread")]
async fn info_is_a_model_of_the_node_and_the_tip() {
    let mut stage = Stage::new(4).await;
    let mut client = stage.client().await;
    for _ in 0..8 {
        let height = stage.tip().height;
        let info = client.get_lightd_info(Empty {}).await.unwrap().into_inner();
        let activations = stage.chain.activations();
        assert_eq!(info.block_height, u64::from(height));
        assert_eq!(
            info.consensus_branch_id,
            format!("{:08x}", activations.branch_id(height))
        );
        let pending = activations
            .announced()
            .into_iter()
            .find(|upgrade| upgrade.height > height)
            .unwrap();
        assert_eq!(
            (info.upgrade_name, info.upgrade_height),
            (pending.name, u64::from(pending.height))
        );
        assert_eq!(info.lightwallet_protocol_version, "v0.5.0");
        assert_eq!(info.sapling_activation_height, 2);
        assert_eq!(info.zcashd_subversion, "/Zebra:7.0.0/");
        assert!(info.taddr_support && info.estimated_height >= info.block_height);
        assert!(["test", "regtest"].contains(&&info.chain_name[..]));
        assert!(info.version.starts_with('v') && info.vendor == "Lightship");
        assert!(info.donation_address.is_empty() && info.build_user.is_empty());
        let state = client.get_latest_tree_state(Empty {}).await.unwrap();
        assert_eq!(state.into_inner().network, info.chain_name);
        stage.mine();
        stage.follow();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ping_is_for_experiments() {
    let stage = Stage::new(3).await;
    let mut client = stage.client().await;
    let ask = |interval_us| Interval { interval_us };
    assert_eq!(code(client.ping(ask(1)).await), Code::Unimplemented);
    let mut setup = Setup::whole(3);
    setup.settings.ping = true;
    let stage = Stage::with(setup).await;
    let mut client = stage.client().await;
    let pong = client.ping(ask(10)).await.unwrap().into_inner();
    assert_eq!((pong.entry, pong.exit), (1, 0));
    for wrong in [-1, 10_000_001, i64::MAX, i64::MIN] {
        assert_eq!(code(client.ping(ask(wrong)).await), Code::InvalidArgument);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_old_method_or_another_service_is_unimplemented() {
    let stage = Stage::new(3).await;
    let mut grpc = tonic::client::Grpc::new(channel(stage.grpc).await);
    for path in [
        "/cash.z.wallet.sdk.rpc.CompactTxStreamer/GetZECPrice",
        "/cash.z.wallet.sdk.rpc.DarksideStreamer/Reset",
        "/x/y",
    ] {
        grpc.ready().await.unwrap();
        let codec: tonic_prost::ProstCodec<Empty, Empty> = Default::default();
        let answer = grpc
            .unary(Request::new(Empty {}), path.parse().unwrap(), codec)
            .await;
        assert_eq!(code(answer), Code::Unimplemented);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn readiness_follows_the_node_and_the_distance_to_its_tip() {
    let mut setup = Setup::whole(30);
    setup.indexed = Some(10);
    setup.settings.readiness.max_distance_blocks = 5;
    setup.settings.readiness.max_silence = Duration::from_millis(500);
    let mut stage = Stage::with(setup).await;
    let server = stage.grpc;
    let health = |service: &'static str| {
        let channel = channel(server);
        async move {
            let mut client = HealthClient::new(channel.await);
            let request = HealthCheckRequest {
                service: service.into(),
            };
            client.check(request).await.unwrap().into_inner().status
        }
    };
    let (serving, not_serving) = (1, 2);
    until(async || stage.get("/readyz").await.1.contains("20 blocks behind")).await;
    until(async || health("").await == not_serving).await;
    assert_eq!(stage.get("/livez").await.0, 200);
    stage.index_through(30);
    until(async || stage.get("/readyz").await.0 == 200).await;
    until(async || health("").await == serving).await;
    until(async || health("cash.z.wallet.sdk.rpc.CompactTxStreamer").await == serving).await;
    stage.node.faults().add(Fault::Refuse);
    until(async || {
        stage.get("/readyz").await == (503, "not ready: the node has not answered for 0 s\n".into())
    })
    .await;
    until(async || health("").await == not_serving).await;
    assert_eq!(stage.get("/livez").await.0, 200);
    stage.node.faults().clear();
    until(async || stage.get("/readyz").await.0 == 200).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_somebody_has_to_look_at_is_said_and_wallets_are_served_on() {
    let stage = Stage::with(Setup {
        differs: Some("the sapling tree is not the source's"),
        ..Setup::whole(12)
    })
    .await;
    until(async || {
        let said = stage.get("/readyz").await;
        said == (
            200,
            "ready, but the sapling tree is not the source's\n".into(),
        )
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_know_methods_and_codes_and_nothing_of_clients() {
    let stage = Stage::new(12).await;
    let mut client = stage.client().await;
    let marker = vec![0xab; 32];
    let filter = lightship_serve::proto::TxFilter {
        hash: marker.clone().into(),
        ..Default::default()
    };
    assert_eq!(code(client.get_transaction(filter).await), Code::NotFound);
    collect(client.get_block_range(range(0, 12)).await).await;
    let (status, text) = stage.get("/metrics").await;
    assert_eq!(status, 200);
    assert!(
        text.contains(r#"lightship_serve_calls_total{method="GetTransaction",code="NOT_FOUND"}"#),
        "{text}"
    );
    assert!(text.contains(r#"method="GetBlockRange",code="OK""#));
    assert!(!text.contains("abababab") && !text.contains("127.0.0.1"));
    assert_eq!(stage.get("/other").await.0, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn reflection_shows_the_service_in_both_versions() {
    use tonic_reflection::pb::{v1, v1alpha};
    let stage = Stage::new(3).await;
    let mut client =
        v1::server_reflection_client::ServerReflectionClient::new(channel(stage.grpc).await);
    let request = v1::ServerReflectionRequest {
        host: String::new(),
        message_request: Some(v1::server_reflection_request::MessageRequest::ListServices(
            String::new(),
        )),
    };
    let answer = client
        .server_reflection_info(tokio_stream::iter([request]))
        .await
        .unwrap();
    let (answers, _) = collect(Ok(answer)).await;
    let text = format!("{answers:?}");
    assert!(text.contains("cash.z.wallet.sdk.rpc.CompactTxStreamer"));
    assert!(text.contains("grpc.health.v1.Health"));
    let mut client =
        v1alpha::server_reflection_client::ServerReflectionClient::new(channel(stage.grpc).await);
    let request = v1alpha::ServerReflectionRequest {
        host: String::new(),
        message_request: Some(
            v1alpha::server_reflection_request::MessageRequest::FileContainingSymbol(
                "cash.z.wallet.sdk.rpc.CompactTxStreamer".into(),
            ),
        ),
    };
    let answer = client
        .server_reflection_info(tokio_stream::iter([request]))
        .await
        .unwrap();
    let (answers, _) = collect(Ok(answer)).await;
    // All twenty methods, the four that are routed by hand included.
    let text = format!("{answers:?}");
    assert!(!text.contains("ErrorResponse"));
}

fn with_limits(limits: Limits) -> Setup {
    Setup {
        settings: Settings {
            limits,
            ..Setup::whole(20).settings
        },
        ..Setup::whole(20)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_stream_too_many_fails_at_once_and_short_calls_do_not_care() {
    let stage = Stage::with(with_limits(Limits {
        streams: 5,
        streams_per_connection: 3,
        ..Limits::default()
    }))
    .await;
    let mut one = stage.client().await;
    let mut held = Vec::new();
    for _ in 0..3 {
        held.push(one.get_mempool_stream(Empty {}).await.unwrap());
    }
    assert_eq!(
        code(one.get_mempool_stream(Empty {}).await),
        Code::ResourceExhausted
    );
    assert_eq!(
        code(one.get_block_range(range(1, 2)).await),
        Code::ResourceExhausted
    );
    assert_eq!(code(one.get_latest_block(ChainSpec {}).await), Code::Ok);
    let mut other = stage.client().await;
    for _ in 0..2 {
        held.push(other.get_mempool_stream(Empty {}).await.unwrap());
    }
    assert_eq!(
        code(other.get_block_range(range(1, 2)).await),
        Code::ResourceExhausted
    );
    drop(held);
    until(async || {
        collect(stage.client().await.get_block_range(range(1, 2)).await)
            .await
            .1
            == Code::Ok
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deadline_ends_calls_and_streams() {
    let stage = Stage::new(20).await;
    let mut client = stage.client().await;
    let mut request = Request::new(Empty {});
    request.set_timeout(Duration::from_millis(200));
    let mut stream = client
        .get_mempool_stream(request)
        .await
        .unwrap()
        .into_inner();
    let ended = within(stream.message()).await.unwrap_err();
    assert_eq!(ended.code(), Code::DeadlineExceeded);
    stage
        .node
        .faults()
        .add(Rule::new(Fault::Hang).of_method("z_gettreestate"));
    let mut request = Request::new(id(3));
    request.set_timeout(Duration::from_millis(200));
    // Whoever of the two notices first.
    let ended = code(within(client.get_tree_state(request)).await);
    assert!(matches!(ended, Code::DeadlineExceeded | Code::Cancelled));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_way_down_ends_long_answers_with_unavailable() {
    let mut stage = Stage::new(20).await;
    let mut client = stage.client().await;
    let mut streams = Vec::new();
    for _ in 0..5 {
        streams.push(
            client
                .get_mempool_stream(Empty {})
                .await
                .unwrap()
                .into_inner(),
        );
    }
    stage
        .node
        .faults()
        .add(Rule::new(Fault::Slow(Duration::from_millis(300))).of_method("z_gettreestate"));
    let short = {
        let mut client = client.clone();
        tokio::spawn(async move { client.get_tree_state(id(3)).await })
    };
    tokio::time::sleep(Duration::from_millis(100)).await;
    stage.begin_stop();
    for mut stream in streams {
        let ended = within(stream.message()).await.unwrap_err();
        assert_eq!(ended.code(), Code::Unavailable);
    }
    assert_eq!(
        code(within(short).await.unwrap()),
        Code::Ok,
        "short calls finish"
    );
    assert!(stage.stop().await < Duration::from_secs(2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_does_not_end_does_not_hold_up_the_way_down() {
    let mut setup = Setup::whole(20);
    setup.settings.shutdown_grace = Duration::from_millis(500);
    let stage = Stage::with(setup).await;
    let mut client = stage.client().await;
    stage
        .node
        .faults()
        .add(Rule::new(Fault::Hang).of_method("z_gettreestate"));
    let hanging = tokio::spawn(async move { client.get_tree_state(id(3)).await });
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(stage.stop().await < Duration::from_millis(1_500));
    assert_eq!(code(within(hanging).await.unwrap()), Code::Unavailable);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_takes_nothing_loses_its_stream() {
    use lightship_chain::build::Recipe;
    let mut stage = Stage::with(with_limits(Limits {
        stall: Duration::from_millis(300),
        streams_per_connection: 1,
        ..Limits::default()
    }))
    .await;
    for _ in 0..20 {
        let version = stage.chain.newest_version();
        let recipe = Recipe::new(version).with_sapling(0, 1_000);
        let transaction = stage.chain.transaction(recipe).unwrap();
        stage.mine_of(&[transaction]);
    }
    stage.follow();
    let mut client = stage.client().await;
    let mut stalled = client
        .get_block_range(range(0, 40))
        .await
        .unwrap()
        .into_inner();
    within(stalled.message()).await.unwrap().unwrap();
    // Its place is free again without its doing.
    let mut again = client.clone();
    until(|| {
        let mut client = again.clone();
        async move { code(client.get_block_range(range(1, 2)).await) == Code::Ok }
    })
    .await;
    let ended = loop {
        match within(stalled.message()).await {
            Ok(Some(_)) => {}
            Ok(None) => break Code::Ok,
            Err(status) => break status.code(),
        }
    };
    assert_ne!(ended, Code::Ok);
    // A stream that is quiet because nothing happens is left alone.
    let mut quiet = again
        .get_mempool_stream(Empty {})
        .await
        .unwrap()
        .into_inner();
    let silent = tokio::time::timeout(Duration::from_millis(900), quiet.message()).await;
    assert!(silent.is_err());
}
