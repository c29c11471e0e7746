//! What one client may have: streams and connections, counted by network, also behind a proxy that names its clients.

use std::net::{IpAddr, SocketAddr};

use lightship_serve::{
    Clients,
    proto::{ChainSpec, Empty, RawTransaction},
};
use tokio::{
    io::AsyncReadExt as _,
    net::{TcpSocket, TcpStream},
};
use tonic::{Code, Request, Response, Status, Streaming};

use crate::stage::{Client, Setup, Stage, code, until, within};

async fn stage(clients: Clients) -> Stage {
    let mut setup = Setup::whole(3);
    setup.settings.clients = clients;
    Stage::with(setup).await
}

/// A long call of somebody behind a proxy.
async fn stream_of(
    wallet: &Client,
    forwarded: Option<&'static str>,
) -> Result<Response<Streaming<RawTransaction>>, Status> {
    let mut request = Request::new(Empty {});
    if let Some(forwarded) = forwarded {
        let value = forwarded.parse().unwrap();
        request.metadata_mut().insert("x-forwarded-for", value);
    }
    wallet.clone().get_mempool_stream(request).await
}

#[tokio::test(flavor = "multi_thread")]
async fn behind_a_trusted_proxy_each_client_has_its_own_streams() {
    let stage = stage(Clients {
        streams: 2,
        proxies: vec!["127.0.0.0/8".parse().unwrap()],
        ..Clients::default()
    })
    .await;
    let proxy = stage.client().await;
    let mut held = Vec::new();
    for forwarded in ["198.51.100.1, 203.0.113.7", "203.0.113.8:4711"] {
        held.push(stream_of(&proxy, Some(forwarded)).await.unwrap());
    }
    // A neighbour is the same client, on whatever connection, and whatever it claims to stand for.
    let other_connection = stage.client().await;
    for forwarded in ["203.0.113.9", "192.0.2.1, 203.0.113.9"] {
        let refused = stream_of(&other_connection, Some(forwarded))
            .await
            .unwrap_err();
        assert_eq!(refused.code(), Code::ResourceExhausted);
        assert!(!refused.message().contains("203"), "{refused}");
    }
    // Others have theirs, short calls do not count, and who is not named is not counted.
    held.push(stream_of(&proxy, Some("198.51.100.1")).await.unwrap());
    let mut short = proxy.clone();
    assert_eq!(code(short.get_latest_block(ChainSpec {}).await), Code::Ok);
    for _ in 0..5 {
        held.push(stream_of(&proxy, None).await.unwrap());
    }
    let (_, metrics) = stage.get("/metrics").await;
    assert!(!metrics.contains("203.0.113") && !metrics.contains("198.51"));
    drop(held);
    until(async || stream_of(&proxy, Some("203.0.113.9")).await.is_ok()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_cannot_speak_for_others() {
    let stage = stage(Clients {
        streams: 1,
        private: true,
        ..Clients::default()
    })
    .await;
    let client = stage.client().await;
    let _held = stream_of(&client, Some("203.0.113.7")).await.unwrap();
    let refused = stream_of(&client, Some("198.51.100.1")).await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted);
}

async fn connect_from(address: [u8; 4], server: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket
        .bind(SocketAddr::new(IpAddr::from(address), 0))
        .unwrap();
    socket.connect(server).await.unwrap()
}

/// Whether the server hangs up on a connection that has said nothing yet.
async fn is_hung_up(stream: &mut TcpStream) -> bool {
    let patience = std::time::Duration::from_millis(300);
    let mut byte = [0];
    tokio::time::timeout(patience, stream.read(&mut byte))
        .await
        .is_ok()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_with_too_many_connections_is_hung_up_on_and_its_neighbours_are_not() {
    let stage = stage(Clients {
        connections: 3,
        private: true,
        ..Clients::default()
    })
    .await;
    let server = stage.grpc;
    let mut held = Vec::new();
    for last in 1..=3 {
        let mut stream = connect_from([127, 0, 9, last], server).await;
        assert!(!is_hung_up(&mut stream).await);
        held.push(stream);
    }
    assert!(is_hung_up(&mut connect_from([127, 0, 9, 4], server).await).await);
    assert!(!is_hung_up(&mut connect_from([127, 0, 8, 1], server).await).await);
    drop(held);
    until(async || !is_hung_up(&mut connect_from([127, 0, 9, 4], server).await).await).await;
    let mut wallet = stage.client().await;
    assert_eq!(
        code(within(wallet.get_latest_block(ChainSpec {})).await),
        Code::Ok
    );
}
