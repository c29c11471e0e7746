//! Transparent addresses: histories and balances.

use anyhow::Result;
use tonic::Code;

use super::{Cases, HUGE, INVALID, World, at, ranges::request};
use crate::{
    conform::{
        case::{Case, Expectation, call, call_stream},
        chain::{Chain, address::Prefixes},
        wire::Call,
    },
    proto::{
        Address, AddressList, Balance, BlockRange, RawTransaction, TransparentAddressBlockFilter,
    },
};

/// Addresses that one request may hold.
pub(super) const MOST_ADDRESSES: usize = 10_000;
/// A longer history is not asked for whole: each row of it costs a call.
const MOST_ROWS: usize = 3_000;

pub(super) fn cases(world: &World) -> Result<Vec<Case>> {
    let mut list = Vec::new();
    for method in ["GetTaddressTransactions", "GetTaddressTxids"] {
        let mut cases = Cases {
            method,
            list: &mut list,
        };
        if world.chain.complete {
            histories(world, &mut cases);
        }
        bad_filters(world, &mut cases);
    }
    for method in ["GetTaddressBalance", "GetTaddressBalanceStream"] {
        let mut cases = Cases {
            method,
            list: &mut list,
        };
        balances(world, &mut cases);
    }
    Ok(list)
}

/// Addresses of the chain from the busiest to the quietest: the ends, and some between.
pub(super) fn sample(chain: &Chain) -> Vec<(String, &'static str)> {
    let mut by_rows: Vec<_> = chain.ledger.touched.iter().collect();
    by_rows.sort_by_key(|(address, rows)| (std::cmp::Reverse(rows.len()), *address));
    let count = by_rows.len();
    let mut sample = Vec::new();
    let names = [
        (0, "the busiest"),
        (1, "the second busiest"),
        (2, "the third busiest"),
        (count / 4, "a busy one"),
        (count / 2, "one of the middle"),
        (count * 3 / 4, "a quiet one"),
        (count.saturating_sub(1), "the quietest"),
    ];
    for (nth, name) in names {
        if let Some((address, _)) = by_rows.get(nth)
            && !sample.iter().any(|(known, _)| known == *address)
        {
            sample.push(((*address).clone(), name));
        }
    }
    sample
}

/// Valid, and never paid.
pub(super) fn unused(prefixes: Prefixes) -> [(String, &'static str); 2] {
    [
        (prefixes.of_key(&[0x5a; 20]), "an unused one"),
        (
            prefixes.of_script_hash(&[0x5a; 20]),
            "an unused one of a script",
        ),
    ]
}

/// Strings that are no transparent address of this network.
pub(super) fn malformed(prefixes: Prefixes) -> Vec<(String, &'static str)> {
    let good = prefixes.of_key(&[7; 20]);
    let foreign = if prefixes == Prefixes::MAIN {
        Prefixes::TEST
    } else {
        Prefixes::MAIN
    };
    let mut typo = good.clone();
    typo.replace_range(12..13, if &good[12..13] == "a" { "b" } else { "a" });
    vec![
        (String::new(), "an empty string"),
        ("t1".into(), "two letters"),
        (typo, "a wrong checksum"),
        (good[..34].into(), "a letter too few"),
        (format!("{good}1"), "a letter too many"),
        (format!(" {good}"), "a blank before"),
        (foreign.of_key(&[7; 20]), "another network's"),
        (foreign.of_script_hash(&[7; 20]), "another network's script"),
        (
            "tex1s2rt77ggv6q989lr49rkgzmh5slsksa9khdgte".into(),
            "a TEX address",
        ),
        (
            "zs1z7rejlpsa98s2rrrfkwmaxu53e4ue0ulcrw0h4x5g8jl04tak0d3mm47vdtahatqrlkngh9sly".into(),
            "a Sapling address",
        ),
        (crate::recorded::UNIFIED_ADDRESS.into(), "a unified address"),
        ("tümlaut".into(), "letters beyond ASCII"),
        ("t".repeat(100_000), "a very long string"),
    ]
}

fn rows(chain: &Chain, address: &str, first: u32, last: u32) -> Vec<RawTransaction> {
    let places = chain.ledger.touched.get(address).into_iter().flatten();
    places
        .filter(|(height, _)| (first..=last).contains(height))
        .filter_map(|(height, index)| {
            Some(RawTransaction {
                data: chain.at(*height)?.raw.get(*index as usize)?.clone(),
                height: (*height).into(),
            })
        })
        .collect()
}

fn filter(address: &str, start: Option<u64>, end: Option<u64>) -> TransparentAddressBlockFilter {
    TransparentAddressBlockFilter {
        address: address.to_owned(),
        range: Some(BlockRange {
            start: start.map(at),
            end: end.map(at),
            pool_types: Vec::new(),
        }),
    }
}

fn histories(world: &World, cases: &mut Cases<'_>) {
    let chain = &world.chain;
    let method = cases.method;
    let tip = u64::from(chain.tip);
    let all = |address: &str| rows(chain, address, 0, chain.tip);
    for (address, name) in sample(chain).into_iter().chain(unused(chain.prefixes)) {
        let whole = all(&address);
        if whole.len() <= MOST_ROWS {
            cases.add(
                "HISTORY-1",
                format!("all of {name}"),
                call(method, &filter(&address, Some(1), Some(tip))),
                Expectation::messages(&whole),
            );
        }
        // Zero as an end is no height: it stands for the tip.
        let (low, high) = ((chain.settled / 3).max(1), (chain.settled / 2).max(1));
        cases.add(
            "HISTORY-1",
            format!("{name}, {low} to {high}"),
            call(
                method,
                &filter(&address, Some(low.into()), Some(high.into())),
            ),
            Expectation::messages(&rows(chain, &address, low, high)),
        );
    }
    // An address with a row at the tip shows whether ends are cut where they should be.
    let at_tip = chain
        .ledger
        .touched
        .iter()
        .find(|(_, rows)| rows.iter().any(|(height, _)| *height == chain.tip))
        .map(|(address, _)| address.clone());
    let (address, name) = match at_tip {
        Some(address) => (address, "one paid in the tip"),
        None => match sample(chain).into_iter().next() {
            Some((address, _)) => (address, "the busiest"),
            None => return,
        },
    };
    let low = chain.tip.saturating_sub(30).max(1);
    let near = u64::from(low);
    let ends = [
        (near, "tip - 30"),
        (tip - 1, "tip - 1"),
        (tip, "tip"),
        (tip + 1, "tip + 1"),
        (tip + 10, "tip + 10"),
        ((1 << 31) - 1, "2^31 - 1"),
    ];
    for (start, start_name) in ends {
        for (end, end_name) in [(None, "nothing"), (Some(0), "0")]
            .into_iter()
            .chain(ends.map(|(end, name)| (Some(end), name)))
        {
            let request = call(method, &filter(&address, Some(start), end));
            let name = format!("{name}, {start_name} to {end_name}");
            let last = match end {
                None | Some(0) => chain.tip,
                Some(end) if end < start => {
                    cases.add("HISTORY-4", name, request, Expectation::refused(INVALID));
                    continue;
                }
                Some(end) => u32::try_from(end.min(tip)).unwrap_or(chain.tip),
            };
            let first = u32::try_from(start).unwrap_or(u32::MAX);
            let rule = if start > tip {
                "HISTORY-3"
            } else {
                "HISTORY-2"
            };
            cases.add(
                rule,
                name,
                request,
                Expectation::messages(&rows(chain, &address, first, last)),
            );
        }
    }
    let start = chain.tip.saturating_sub(30);
    let mut with_pools = filter(&address, Some(start.max(1).into()), Some(tip));
    with_pools.range = Some(request(start.max(1).into(), tip, vec![2]));
    cases.add(
        "HISTORY-1",
        format!("{name}, pools are ignored"),
        call(method, &with_pools),
        Expectation::messages(&rows(chain, &address, start.max(1), chain.tip)),
    );
    if let Some((quiet, name)) = sample(chain).pop() {
        cases.add(
            "HISTORY-1",
            format!("{name}, from 0"),
            call(method, &filter(&quiet, Some(0), Some(tip))),
            Expectation::messages(&all(&quiet)),
        );
    }
}

fn bad_filters(world: &World, cases: &mut Cases<'_>) {
    let method = cases.method;
    let [(good, _), _] = unused(world.chain.prefixes);
    let mut refuse = |rule, name: String, request: &TransparentAddressBlockFilter| {
        cases.add(
            rule,
            name,
            call(method, request),
            Expectation::refused(INVALID),
        );
    };
    for (address, what) in malformed(world.chain.prefixes) {
        refuse(
            "ADDRESS-1",
            what.to_owned(),
            &filter(&address, Some(1), Some(2)),
        );
    }
    let none = TransparentAddressBlockFilter {
        address: good.clone(),
        range: None,
    };
    refuse("HISTORY-5", "no range".into(), &none);
    refuse(
        "HISTORY-5",
        "no start".into(),
        &filter(&good, None, Some(2)),
    );
    refuse(
        "HISTORY-5",
        "neither start nor end".into(),
        &filter(&good, None, None),
    );
    refuse(
        "HISTORY-4",
        "2 to 1".into(),
        &filter(&good, Some(2), Some(1)),
    );
    for (height, name) in HUGE {
        refuse(
            "RANGE-10",
            format!("start {name}"),
            &filter(&good, Some(height), None),
        );
        refuse(
            "RANGE-10",
            format!("end {name}"),
            &filter(&good, Some(1), Some(height)),
        );
    }
}

/// The request of either balance method.
fn balance_of(method: &'static str, addresses: &[String]) -> Call {
    if method == "GetTaddressBalance" {
        let addresses = addresses.to_vec();
        return call(method, &AddressList { addresses });
    }
    let messages: Vec<Address> = addresses
        .iter()
        .map(|address| Address {
            address: address.clone(),
        })
        .collect();
    call_stream(method, &messages)
}

fn balances(world: &World, cases: &mut Cases<'_>) {
    let chain = &world.chain;
    let method = cases.method;
    let mut lists: Vec<(&str, String, Vec<String>)> = Vec::new();
    let sampled = sample(chain);
    let addresses: Vec<String> = sampled.iter().map(|(address, _)| address.clone()).collect();
    for (address, name) in &sampled {
        lists.push(("BALANCE-1", (*name).to_owned(), vec![address.clone()]));
    }
    if let [first, second, ..] = &addresses[..] {
        lists.push((
            "BALANCE-2",
            "one address twice".into(),
            vec![first.clone(), first.clone()],
        ));
        lists.push((
            "BALANCE-2",
            "the first again at the end".into(),
            vec![first.clone(), second.clone(), first.clone()],
        ));
        lists.push((
            "BALANCE-2",
            "one address 500 times".into(),
            vec![first.clone(); 500],
        ));
    }
    lists.push(("BALANCE-1", "some together".into(), addresses.clone()));
    lists.push((
        "BALANCE-1",
        "all together".into(),
        chain.ledger.touched.keys().take(1_000).cloned().collect(),
    ));
    for (address, name) in unused(chain.prefixes) {
        lists.push(("BALANCE-1", name.into(), vec![address]));
    }
    lists.push(("BALANCE-3", "no address".into(), Vec::new()));
    let many = |count: u32| -> Vec<String> {
        (0..count)
            .map(|nth| {
                let mut hash = [0x33; 20];
                hash[..4].copy_from_slice(&nth.to_le_bytes());
                chain.prefixes.of_key(&hash)
            })
            .collect()
    };
    let most = MOST_ADDRESSES as u32;
    lists.push(("ADDRESS-2", "10000 unused addresses".into(), many(most)));
    if chain.complete {
        for (rule, name, list) in lists {
            let balance = Balance {
                value_zat: chain.ledger.balance(&list),
            };
            cases.add(
                rule,
                name,
                balance_of(method, &list),
                Expectation::message(&balance),
            );
        }
    }
    cases.add(
        "ADDRESS-2",
        "10001 addresses",
        balance_of(method, &many(most + 1)),
        Expectation::refused(&[Code::InvalidArgument]),
    );
    for (address, what) in malformed(chain.prefixes) {
        let [(good, _), _] = unused(chain.prefixes);
        cases.add(
            "ADDRESS-1",
            what,
            balance_of(method, std::slice::from_ref(&address)),
            Expectation::refused(INVALID),
        );
        cases.add(
            "ADDRESS-1",
            format!("{what}, after a good one"),
            balance_of(method, &[good, address]),
            Expectation::refused(INVALID),
        );
    }
}
