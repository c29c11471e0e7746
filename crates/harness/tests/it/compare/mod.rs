//! `compare`: two servers that say the same, and one that lies, by every method.

mod server;

use std::sync::Arc;

use lightship_harness::{
    conform::{
        self,
        compare::{Options, Report, run},
    },
    proto::{
        Address, Balance, BlockId, BlockRange, CompactBlock, CompactTx, GetAddressUtxosReply,
        GetAddressUtxosReplyList, LightdInfo, PingResponse, RawTransaction, SendResponse,
        SubtreeRoot, TreeState,
    },
};
use lightship_source::simulated::{
    SimulatedNode,
    demo::{DemoChain, Settings},
    http::{self, Running},
};
use prost::Message;
use server::{Answer, Says, Server};

const INVALID_ARGUMENT: i32 = 3;
const NOT_FOUND: i32 = 5;

/// A short chain, as a node and over its port.
fn node() -> (SimulatedNode, Running) {
    let settings = Settings {
        seed: 3,
        blocks: 120,
        now: 1_750_000_000,
        spacing_seconds: 75,
    };
    let node = DemoChain::new(settings).unwrap().node().clone();
    let running = Running::start(node.clone(), http::Settings::default()).unwrap();
    (node, running)
}

fn block(height: u64) -> CompactBlock {
    let tx = CompactTx {
        index: 1,
        txid: height.to_le_bytes().to_vec(),
        ..CompactTx::default()
    };
    CompactBlock {
        height,
        vtx: vec![CompactTx::default(), tx],
        ..CompactBlock::default()
    }
}

/// Something of the right kind for every method. That it is not what conforms is nothing to `compare`.
fn plain(node: &SimulatedNode, method: &str, request: &[u8]) -> Answer {
    let one = |message: Vec<u8>| (vec![message], 0, String::new());
    let tip = node.best().unwrap();
    match method {
        "GetLatestBlock" => one(BlockId {
            height: tip.height.get().into(),
            hash: tip.hash.as_internal().to_vec(),
        }
        .encode_to_vec()),
        "GetBlock" | "GetBlockNullifiers" => {
            let asked = BlockId::decode(request).unwrap_or_default();
            match asked.height {
                0 => (Vec::new(), INVALID_ARGUMENT, "a height, please".to_owned()),
                height => one(block(height).encode_to_vec()),
            }
        }
        "GetBlockRange" | "GetBlockRangeNullifiers" => {
            let asked = BlockRange::decode(request).unwrap_or_default();
            let height = |end: Option<BlockId>| end.unwrap_or_default().height.min(120);
            let (first, last) = (height(asked.start), height(asked.end));
            let blocks = first.min(last)..=first.max(last);
            let blocks = blocks.map(|height| block(height).encode_to_vec());
            (blocks.collect(), 0, String::new())
        }
        "GetTransaction" => (
            Vec::new(),
            NOT_FOUND,
            "Transaction not found: nowhere".to_owned(),
        ),
        "SendTransaction" => one(SendResponse {
            error_code: -22,
            error_message: "no".to_owned(),
        }
        .encode_to_vec()),
        "GetTaddressTxids" | "GetTaddressTransactions" | "GetMempoolStream" => {
            let tx = |byte: u8| {
                RawTransaction {
                    data: vec![byte; 5],
                    height: 9,
                }
                .encode_to_vec()
            };
            (vec![tx(1), tx(2)], 0, String::new())
        }
        "GetTaddressBalance" | "GetTaddressBalanceStream" => {
            let asked = Address::decode(request).map_or(0, |address| address.address.len());
            one(Balance {
                value_zat: asked as i64,
            }
            .encode_to_vec())
        }
        "GetMempoolTx" => {
            let tx = |byte: u8| {
                CompactTx {
                    txid: vec![byte; 32],
                    ..CompactTx::default()
                }
                .encode_to_vec()
            };
            (vec![tx(1), tx(2), tx(3)], 0, String::new())
        }
        "GetTreeState" | "GetLatestTreeState" => one(TreeState {
            height: 7,
            ..TreeState::default()
        }
        .encode_to_vec()),
        "GetSubtreeRoots" => one(SubtreeRoot::default().encode_to_vec()),
        "GetAddressUtxos" => one(GetAddressUtxosReplyList {
            address_utxos: vec![GetAddressUtxosReply::default()],
        }
        .encode_to_vec()),
        "GetAddressUtxosStream" => one(GetAddressUtxosReply::default().encode_to_vec()),
        "GetLightdInfo" => one(LightdInfo {
            version: "1".to_owned(),
            vendor: "plain".to_owned(),
            ..LightdInfo::default()
        }
        .encode_to_vec()),
        "Ping" => one(PingResponse { entry: 1, exit: 0 }.encode_to_vec()),
        _ => (Vec::new(), 12, "what?".to_owned()),
    }
}

fn honest(node: &SimulatedNode) -> Says {
    let node = node.clone();
    Arc::new(move |method, request| plain(&node, method, request))
}

/// Says what the honest one says, after `change`.
fn lying(
    node: &SimulatedNode,
    change: impl Fn(&str, &[u8], &mut Answer) + Send + Sync + 'static,
) -> Says {
    let node = node.clone();
    Arc::new(move |method, request| {
        let mut answer = plain(&node, method, request);
        change(method, request, &mut answer);
        answer
    })
}

fn compare(a: Says, b: Says, node: &Running, change: impl Fn(&mut Options)) -> Report {
    let (a, b) = (Server::start(a), Server::start(b));
    let mut options = Options::new(a.url(), b.url(), node.url());
    change(&mut options);
    run(&options).unwrap()
}

/// For each method, what is put behind the first message of its answer, and the field that becomes wrong by it. A later value wins.
const LIES: [(&str, &[u8], &str); 19] = [
    ("GetBlock", &[0x10, 0x63], "height"),
    ("GetBlockNullifiers", &[0x28, 0x63], "time"),
    ("GetBlockRange", &[0x1a, 1, 7], "hash"),
    ("GetBlockRangeNullifiers", &[0x3a, 0], "vtx"),
    ("SendTransaction", &[0x08, 0x01], "errorCode"),
    ("GetTaddressTxids", &[0x10, 0x63], "height"),
    ("GetTaddressTransactions", &[0x0a, 1, 7], "data"),
    ("GetTaddressBalance", &[0x08, 0x63], "valueZat"),
    ("GetTaddressBalanceStream", &[0x08, 0x63], "valueZat"),
    ("GetMempoolTx", &[0x12, 1, 7], "txid"),
    ("GetMempoolStream", &[0x0a, 1, 7], "data"),
    ("GetTreeState", &[0x2a, 1, 0x61], "saplingTree"),
    ("GetLatestTreeState", &[0x20, 0x63], "time"),
    ("GetSubtreeRoots", &[0x12, 1, 7], "rootHash"),
    ("GetAddressUtxos", &[0x0a, 2, 0x28, 9], "addressUtxos"),
    ("GetAddressUtxosStream", &[0x28, 9], "height"),
    ("GetLightdInfo", &[0x22, 1, 0x61], "chainName"),
    ("Ping", &[0xf8, 0x07, 1], "(unknown fields)"),
    ("GetLatestBlock", &[0x08, 0x63], "height"),
];

#[test]
fn servers_that_say_the_same_are_equal_in_every_method() {
    let (node, running) = node();
    let report = compare(honest(&node), honest(&node), &running, |_| ());
    assert_eq!(report.different().count(), 0, "{report}");
    let json = report.to_json();
    assert_eq!(json["digest_a"], json["digest_b"]);
    for method in json["methods"].as_array().unwrap() {
        assert!(method["asked"].as_u64().unwrap() > 0, "{method}");
        assert_eq!(method["asked"], method["equal"], "{method}");
    }
    // The same seed asks the same and is told the same.
    let again = compare(honest(&node), honest(&node), &running, |_| ());
    assert_eq!(again.digests(), report.digests());
    let other = compare(honest(&node), honest(&node), &running, |options| {
        options.seed = 2;
    });
    assert_ne!(other.digests(), report.digests());
}

#[test]
fn a_lie_in_any_method_is_found_and_its_field_named() {
    let (node, running) = node();
    let liar = lying(&node, |method, request, (messages, code, _)| {
        let lie = LIES.iter().find(|(of, ..)| *of == method);
        // About its tip it lies only where it is asked with a strange field: else it would be waited for. The mempool is asked for
        // again after a while whenever it differs, so one lie about it will do.
        let quiet = match method {
            "GetLatestBlock" => request.is_empty(),
            "GetMempoolTx" => !request.is_empty(),
            _ => false,
        };
        if quiet {
            return;
        }
        if method == "GetTransaction" {
            *code = INVALID_ARGUMENT;
        }
        if let (Some((_, bytes, _)), Some(first)) = (lie, messages.first_mut()) {
            first.extend_from_slice(bytes);
        }
    });
    let report = compare(honest(&node), liar, &running, |_| ());
    let lies = LIES.iter().map(|(method, _, field)| (*method, *field));
    for (method, field) in lies.chain([("GetTransaction", "(code)")]) {
        let told = report.different().any(|asked| {
            let named = |kind: String| kind == field || kind.starts_with(&format!("{field}["));
            asked.method == method
                && asked
                    .differences
                    .iter()
                    .any(|difference| named(difference.kind()))
        });
        assert!(told, "{method} {field}\n{report}");
    }
    assert_ne!(report.digests()[0], report.digests()[1]);
}

#[test]
fn a_lie_about_one_field_of_one_answer_is_the_only_difference() {
    let (node, running) = node();
    let liar = lying(&node, |method, request, (messages, ..)| {
        // Height 5 and no more.
        if method == "GetBlock" && request == [0x08, 5] {
            let mut block = CompactBlock::decode(&messages[0][..]).unwrap();
            block.vtx[1].txid[0] ^= 1;
            messages[0] = block.encode_to_vec();
        }
    });
    let report = compare(honest(&node), liar, &running, |_| ());
    let different: Vec<_> = report.different().collect();
    assert_eq!(different.len(), 1, "{report}");
    assert_eq!(different[0].method, "GetBlock");
    let [difference] = &different[0].differences[..] else {
        panic!("{report}");
    };
    assert_eq!(difference.field, "[0].vtx[1].txid");
    assert!(difference.a.starts_with("05") && difference.b.starts_with("04"));
    // It may be known, by its rule, its method or its name.
    let rule = different[0].rule;
    for known in [rule, "GetBlock: *"] {
        assert!(report.compare(known).unexpected.is_empty());
    }
    assert_eq!(report.compare("PING-1").unexpected.len(), 1);
    assert_eq!(report.compare("PING-1").gone, ["PING-1"]);
}

#[test]
fn what_is_looked_past_is_named_and_strict_looks_past_nothing() {
    let (node, running) = node();
    let other = || {
        lying(&node, |method, request, (messages, _, words)| {
            if method == "GetBlock" {
                *words = "another way to put it".to_owned();
            }
            // Strictly, each of these is asked for again after a while: one will do.
            if method == "GetMempoolTx" && request.is_empty() {
                messages.reverse();
            }
            if method == "GetLightdInfo" {
                let mut info = LightdInfo::decode(&messages[0][..]).unwrap();
                info.vendor = "somebody else".to_owned();
                messages[0] = info.encode_to_vec();
            }
        })
    };
    let report = compare(honest(&node), other(), &running, |_| ());
    assert_eq!(report.different().count(), 0, "{report}");
    let past = &report.to_json()["looked_past"];
    for name in ["words", "mempool-order", "self-description"] {
        assert!(past[name].as_u64().unwrap() > 0, "{name}: {past}");
    }
    assert_eq!(
        (&past["too-large"], &past["ping-counts"]),
        (&0.into(), &0.into())
    );
    assert_eq!(report.digests()[0], report.digests()[1]);
    let strict = compare(honest(&node), other(), &running, |options| {
        options.strict = true;
    });
    let methods: std::collections::BTreeSet<&str> = strict
        .different()
        .map(|asked| asked.method.as_str())
        .collect();
    let expected = ["GetBlock", "GetLightdInfo", "GetMempoolTx"];
    assert_eq!(methods, expected.into());
}

/// A wallet tells a transaction that expired from a server in trouble by these words.
#[test]
fn words_that_a_wallet_reads_are_not_looked_past() {
    let (node, running) = node();
    let other = lying(&node, |method, _, (_, _, words)| {
        if method == "GetTransaction" {
            *words = "No such mempool or main chain transaction".to_owned();
        }
    });
    let report = compare(honest(&node), other, &running, |options| {
        options.only = Some("GetTransaction".to_owned());
    });
    assert!(report.different().count() > 0);
    let fields = report.different().flat_map(|asked| &asked.differences);
    for difference in fields {
        assert_eq!(difference.field, "(words)");
    }
}

#[test]
fn every_allowance_is_explained() {
    let page = include_str!("../../../../../docs/differences.md");
    for allowance in lightship_harness::conform::compare::allowance::ALL {
        let row = format!("| `{}` |", allowance.name());
        assert!(page.contains(&row), "{row} is not in docs/differences.md");
    }
}

/// Nothing that was asked is nothing that is equal, or right.
#[test]
fn a_method_that_nobody_knows_is_no_success() {
    let (node, running) = node();
    let server = Server::start(honest(&node));
    let only = Some("GetBlokc".to_owned());
    let mut options = Options::new(server.url(), server.url(), running.url());
    options.only.clone_from(&only);
    let mut judged = conform::Options::new(server.url(), running.url());
    judged.only = only;
    for said in [run(&options).err(), conform::run(&judged).err()] {
        let said = said.unwrap().to_string();
        assert!(said.contains("GetBlokc"), "{said}");
    }
}

/// A refusal comes at once, holds no block that does not link and no transaction that does not wait; so does an answer of nothing. Cases that only look
/// at what came once passed by both.
#[test]
fn a_server_that_answers_nothing_passes_no_case_about_what_it_should_send() {
    let (node, running) = node();
    for (method, code) in [("GetBlockRange", 0), ("GetMempoolStream", 14)] {
        let empty = lying(&node, move |asked, _, answer| {
            if asked == method {
                *answer = (Vec::new(), code, String::new());
            }
        });
        let server = Server::start(empty);
        let mut options = conform::Options::new(server.url(), running.url());
        options.only = Some(method.to_owned());
        let report = conform::run(&options).unwrap();
        let about = ["RANGE-9", "LIMIT-2", "MEMPOOL-4", "MEMPOOL-5"];
        let of = |case: &&conform::Judged| case.method == method && about.contains(&case.rule);
        let fooled = report.cases.iter().filter(of);
        let fooled: Vec<_> = fooled.filter(|case| case.problem.is_none()).collect();
        assert!(report.cases.iter().filter(of).count() >= 3, "{report}");
        assert!(fooled.is_empty(), "{fooled:#?}");
    }
}
