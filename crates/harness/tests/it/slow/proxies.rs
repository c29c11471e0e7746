//! Plaintext behind a proxy that ends TLS: the proxies operators use speak HTTP/2 without it to the server behind them.

use std::{fs, net::SocketAddr, path::Path, process::Command, time::Duration};

use lightship_chain::Upgrade;
use lightship_harness::{
    grpc::{self, Client},
    process::{Process, free_address},
    proto::{Empty, RawTransaction},
};
use tonic::Code;

use super::{Laboratory, PATIENCE};

/// What is told to the proxy: that it takes clients at `front`, and that the server is at `back`.
fn nginx(folder: &Path, front: SocketAddr, back: &str) -> Option<Command> {
    let program = found(&["/usr/sbin/nginx", "/usr/bin/nginx"])?;
    let text = format!(
        "daemon off; error_log stderr; pid {0}/pid; events {{}}\n\
         http {{ access_log off; client_body_temp_path {0}/body; proxy_temp_path {0}/proxy; fastcgi_temp_path {0}/fast;\n\
         uwsgi_temp_path {0}/uwsgi; scgi_temp_path {0}/scgi;\n\
         server {{ listen {front} http2; client_max_body_size 8m;\n\
         location / {{ grpc_pass grpc://{back}; grpc_read_timeout 120s; }} }} }}\n",
        folder.display()
    );
    let config = folder.join("nginx.conf");
    fs::write(&config, text).unwrap();
    let mut command = Command::new(program);
    command.arg("-p").arg(folder).arg("-c").arg(config);
    Some(command)
}

fn haproxy(folder: &Path, front: SocketAddr, back: &str) -> Option<Command> {
    let program = found(&["/usr/sbin/haproxy", "/usr/bin/haproxy"])?;
    let text = format!(
        "defaults\n mode http\n timeout connect 5s\n timeout client 120s\n timeout server 120s\n\
         listen wallets\n bind {front} proto h2\n server one {back} proto h2\n"
    );
    let config = folder.join("haproxy.cfg");
    fs::write(&config, text).unwrap();
    let mut command = Command::new(program);
    command.arg("-db").arg("-f").arg(config);
    Some(command)
}

fn found(places: &[&'static str]) -> Option<&'static str> {
    places
        .iter()
        .copied()
        .find(|place| Path::new(place).exists())
}

/// A server in plaintext could not be reached by a proxy, or lost the status at the end of a stream on the way.
#[tokio::test(flavor = "multi_thread")]
async fn ranges_trailers_and_large_messages_come_through_a_proxy() {
    let folder = tempfile::tempdir().unwrap();
    let mut laboratory = Laboratory::new(Upgrade::Nu6_3, 200, 100);
    let mut direct = laboratory.client().await;
    let tip = u64::from(laboratory.tip.id.height);
    let expected = direct.blocks(0, tip).await.unwrap();
    let url = laboratory.server.grpc_url();
    let back = url.trim_start_matches("http://");
    for (name, configure) in [
        (
            "nginx",
            nginx as fn(&Path, SocketAddr, &str) -> Option<Command>,
        ),
        ("haproxy", haproxy),
    ] {
        let front = free_address().unwrap();
        let Some(mut command) = configure(folder.path(), front, back) else {
            eprintln!("SKIPPED: no {name} on this machine");
            continue;
        };
        let proxy = Process::start(&mut command, &folder.path().join(name)).unwrap();
        let begun = std::time::Instant::now();
        let mut client = loop {
            match Client::connect(&format!("http://{front}")).await {
                Ok(client) => break client,
                Err(error) => {
                    assert!(
                        begun.elapsed() < PATIENCE,
                        "{error:#}\n{}",
                        proxy.log_tail()
                    );
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
        };
        let blocks = client.blocks(0, tip).await;
        let blocks =
            blocks.unwrap_or_else(|status| panic!("{name}: {status:?}\n{}", proxy.log_tail()));
        assert!(blocks == expected, "{name}");
        // The status comes after the blocks, in trailers.
        let mut above = client
            .stream("GetBlockRange", grpc::range(tip, tip + 1))
            .await
            .unwrap();
        assert!(above.message().await.unwrap().is_some());
        let ended = above.message().await.unwrap_err();
        assert_eq!(ended.code(), Code::OutOfRange, "{name}");
        // An answer that is an error from its first byte has no blocks before it.
        let gone = client.block_range(tip + 1, tip + 2).await;
        let code = match gone {
            Err(status) => status.code(),
            Ok(mut stream) => stream.message().await.unwrap_err().code(),
        };
        assert_eq!(code, Code::OutOfRange, "{name}");
        // The largest transaction there can be, which is none.
        let offered = RawTransaction {
            data: vec![0; 2_000_000],
            height: 0,
        };
        client
            .unary("SendTransaction", offered)
            .await
            .unwrap_or_else(|status| panic!("{name}: {status:?}"));
        // Headers of a stream that has nothing to say yet.
        let open = client.stream("GetMempoolStream", Empty {});
        let open = tokio::time::timeout(PATIENCE, open).await.unwrap().unwrap();
        drop(open);
    }
}
