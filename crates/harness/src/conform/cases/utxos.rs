//! `GetAddressUtxos` and `GetAddressUtxosStream`.

use anyhow::Result;

use super::{
    Cases, HUGE, INVALID, World,
    addresses::{MOST_ADDRESSES, malformed, sample, unused},
};
use crate::{
    conform::case::{Case, Expectation, call},
    proto::{GetAddressUtxosArg, GetAddressUtxosReply, GetAddressUtxosReplyList},
};

/// Above this, the answer in one message is more than wallets take.
const MOST_ENTRIES: usize = 20_000;

pub(super) fn cases(world: &World) -> Result<Vec<Case>> {
    let mut list = Vec::new();
    for method in ["GetAddressUtxos", "GetAddressUtxosStream"] {
        let mut cases = Cases {
            method,
            list: &mut list,
        };
        if world.chain.complete {
            found(world, &mut cases);
        }
        refused(world, &mut cases);
    }
    Ok(list)
}

fn ask(addresses: &[String], start_height: u64, max_entries: u32) -> GetAddressUtxosArg {
    GetAddressUtxosArg {
        addresses: addresses.to_vec(),
        start_height,
        max_entries,
    }
}

fn expected(method: &str, utxos: Vec<GetAddressUtxosReply>) -> Expectation {
    if method == "GetAddressUtxosStream" {
        return Expectation::messages(&utxos);
    }
    Expectation::message(&GetAddressUtxosReplyList {
        address_utxos: utxos,
    })
}

fn found(world: &World, cases: &mut Cases<'_>) {
    let chain = &world.chain;
    let method = cases.method;
    let mut add = |rule, name: String, addresses: &[String], start: u64, most: u32| {
        let utxos = chain.ledger.utxos(addresses, start, most);
        if utxos.len() <= MOST_ENTRIES {
            let request = call(method, &ask(addresses, start, most));
            cases.add(rule, name, request, expected(method, utxos));
        }
    };
    let sampled = sample(chain);
    let mut addresses: Vec<String> = sampled.iter().map(|(address, _)| address.clone()).collect();
    for (address, name) in &sampled {
        add(
            "UTXO-1",
            format!("all of {name}"),
            std::slice::from_ref(address),
            0,
            0,
        );
    }
    for (address, name) in unused(chain.prefixes) {
        add("UTXO-1", name.to_owned(), &[address], 0, 0);
    }
    add("UTXO-1", "some together".into(), &addresses, 0, 0);
    let backwards: Vec<String> = addresses.iter().rev().cloned().collect();
    add(
        "UTXO-1",
        "some together, named the other way round".into(),
        &backwards,
        0,
        0,
    );
    let every: Vec<String> = chain.ledger.touched.keys().take(1_000).cloned().collect();
    add("UTXO-1", "all together".into(), &every, 0, 0);
    let tip = u64::from(chain.tip);
    let middle = u64::from(chain.settled / 2);
    for (start, start_name) in [
        (0, "0"),
        (1, "1"),
        (middle, "the middle"),
        (tip - 1, "tip - 1"),
        (tip, "the tip"),
        (tip + 1, "tip + 1"),
        ((1 << 31) - 1, "2^31 - 1"),
    ] {
        for most in [1, 2, 3, 10, 50_000] {
            let name = format!("some together from {start_name}, at most {most}");
            add("UTXO-2", name, &addresses, start, most);
        }
        if start > 0 {
            let name = format!("some together from {start_name}");
            add("UTXO-2", name, &addresses, start, 0);
        }
    }
    // The page after the first three starts where those end.
    let page = chain.ledger.utxos(&addresses, 0, 3);
    if let Some(last) = page.last() {
        add(
            "UTXO-2",
            "the page after the first three".into(),
            &addresses,
            last.height,
            3,
        );
    }
    if let Some(first) = addresses.first().cloned() {
        let twice = [first.clone(), first.clone()];
        add("UTXO-3", "one address twice".into(), &twice, 0, 0);
        add(
            "UTXO-3",
            "one address twice, at most 5".into(),
            &twice,
            0,
            5,
        );
        addresses.push(first);
        add(
            "UTXO-3",
            "the first again at the end".into(),
            &addresses,
            0,
            0,
        );
    }
    add("UTXO-4", "no address".into(), &[], 0, 0);
}

fn refused(world: &World, cases: &mut Cases<'_>) {
    let method = cases.method;
    let prefixes = world.chain.prefixes;
    let [(good, _), _] = unused(prefixes);
    let mut refuse = |rule, name: String, request: &GetAddressUtxosArg| {
        cases.add(
            rule,
            name,
            call(method, request),
            Expectation::refused(INVALID),
        );
    };
    for (address, what) in malformed(prefixes) {
        let one = ask(std::slice::from_ref(&address), 0, 0);
        refuse("ADDRESS-1", what.to_owned(), &one);
        let name = format!("{what}, after a good one");
        refuse("ADDRESS-1", name, &ask(&[good.clone(), address], 0, 0));
    }
    let many = vec![good.clone(); MOST_ADDRESSES + 1];
    refuse("ADDRESS-2", "10001 addresses".into(), &ask(&many, 0, 0));
    for (height, name) in HUGE {
        let request = ask(std::slice::from_ref(&good), height, 0);
        refuse("RANGE-10", format!("start {name}"), &request);
    }
}
