//! A simulated node with the demo chain, on a JSON-RPC port of its own: something for any indexer to stand beside.
//!
//! `cargo run --release -p lightship-source --features simulated --example simulated_node -- 127.0.0.1:18232 5000 10 NU6.3`: address, blocks,
//! seconds between ticks (0: the chain stands still), and the newest upgrade of the chain (for indexers that know no later one).

#![expect(clippy::print_stdout, reason = "a program that tells what it does")]

use std::{
    error::Error,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use lightship_chain::Upgrade;
use lightship_source::simulated::{
    demo::{DemoChain, Settings, activations},
    http,
};
use tokio::net::TcpListener;

fn now() -> u32 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |elapsed| elapsed.as_secs() as u32)
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let argument = |nth: usize, default: &str| {
        let given = arguments.get(nth);
        given.map_or(default, String::as_str).to_owned()
    };
    let address = argument(0, "127.0.0.1:18232");
    let blocks = argument(1, "5000").parse()?;
    let tick = Duration::from_secs(argument(2, "10").parse()?);

    let newest = argument(3, "NU7");
    let newest = Upgrade::ALL
        .into_iter()
        .find(|upgrade| upgrade.name() == newest)
        .ok_or("no such upgrade")?;

    let settings = Settings {
        seed: 1,
        blocks,
        now: now(),
        spacing_seconds: 75,
    };
    let upgrades = activations(blocks).up_to(newest);
    let mut demo = DemoChain::with_activations(settings, upgrades)?;
    let node = demo.node().clone();
    for hint in demo.hints().addresses {
        println!("{}  {}", hint.address, hint.what);
    }
    for hint in demo.hints().transactions {
        println!("{}  {} at {}", hint.id, hint.kind, hint.height);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind(&address).await?;
        println!("listening on {address}");
        let server = http::serve(node.clone(), listener, http::Settings::default());
        let life = async {
            while !tick.is_zero() {
                tokio::time::sleep(tick).await;
                match demo.tick(now()) {
                    Ok(event) => println!("{event:?}  {:?}", node.faults().calls_by_method()),
                    Err(error) => println!("the chain stands still: {error}"),
                }
            }
            std::future::pending::<()>().await;
        };
        tokio::select! {
            served = server => served?,
            () = life => {}
        }
        Ok(())
    })
}
