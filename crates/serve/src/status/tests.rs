use super::*;

/// One of each, with when it happens, in the order of the enum.
fn samples() -> Vec<(Refusal, &'static str)> {
    let at = Height::new(3_500_000);
    let above = Height::new(3_500_001);
    vec![
        (
            Refusal::Missing {
                field: "range.start",
            },
            "a field without a sensible default is not set",
        ),
        (
            Refusal::HashLength {
                field: "hash",
                found: 31,
            },
            "a block hash or transaction id of another length than 32",
        ),
        (
            Refusal::HeightTooLarge {
                height: 4_294_967_301,
            },
            "a height above 2^31 - 1, anywhere",
        ),
        (
            Refusal::EmptyBlockId,
            "`GetBlock`, `GetBlockNullifiers`: height 0 and no hash",
        ),
        (
            Refusal::RangeByHash { field: "start" },
            "an end of a range with a hash and height 0",
        ),
        (
            Refusal::RangeReversed {
                start: above,
                end: at,
            },
            "address history: start above end (block ranges may go downwards)",
        ),
        (
            Refusal::UnknownPool { value: 5 },
            "`poolTypes` with 0 or an unknown number",
        ),
        (
            Refusal::UnknownShieldedPool { value: 3 },
            "`GetSubtreeRoots`: unknown `shieldedProtocol`",
        ),
        (
            Refusal::SubtreeIndex { start: 65_536 },
            "`GetSubtreeRoots`: `startIndex` above 65535",
        ),
        (
            Refusal::Address {
                problem: "its checksum does not hold",
            },
            "an address that is malformed, of another network, shielded, unified or TEX",
        ),
        (
            Refusal::TooManyEntries {
                field: "addresses",
                limit: 10_000,
            },
            "more addresses or exclude suffixes than the limit",
        ),
        (
            Refusal::SuffixLength { found: 33 },
            "`GetMempoolTx`: an exclude suffix above 32 bytes",
        ),
        (
            Refusal::TransactionTooLarge {
                found: 2_000_001,
                limit: 2_000_000,
            },
            "`SendTransaction`: more bytes than a block may have",
        ),
        (
            Refusal::PingInterval {
                limit_us: 10_000_000,
            },
            "`Ping`, where it is switched on: a negative or too long sleep",
        ),
        (
            Refusal::Malformed {
                what: "not the protobuf message of this method",
            },
            "the request is not one whole message, or not of the type that the method takes",
        ),
        (
            Refusal::RequestTooLarge { limit: 4_194_304 },
            "a request message above 4 MiB",
        ),
        (
            Refusal::AboveTip {
                height: above,
                tip: at,
            },
            "a block above the served tip; a range that reaches above it ends so, after its blocks",
        ),
        (
            Refusal::BlockNotFound,
            "a block hash that is not on the best chain, in either byte order",
        ),
        (
            Refusal::TransactionNotFound,
            "`GetTransaction`: the node knows no such transaction",
        ),
        (
            Refusal::Replaced,
            "a reorg replaced what the call was reading",
        ),
        (
            Refusal::NotReady,
            "the first moments of an empty store whose node has not been reached",
        ),
        (
            Refusal::NodeAway,
            "an answer that only the node can give, while it is away, starting, busy, or talking nonsense",
        ),
        (
            Refusal::Stopping,
            "the server was told to stop; long answers end so, and no new ones begin",
        ),
        (
            Refusal::TooManyStreams {
                whose: "on this connection",
            },
            "more long answers at once than the limits for a connection, for a client, or for the server",
        ),
        (
            Refusal::TooManyCalls,
            "more other calls at once that wait for the node, or for the rest of their request, than the limit",
        ),
        (
            Refusal::TooMuchHeld,
            "requests and answers that are not done hold all the memory that they may; default-view ranges of sealed blocks need none",
        ),
        (
            Refusal::AnswerTooLarge {
                limit: 4_194_304,
                remedy: "maxEntries, or call GetAddressUtxosStream",
            },
            "`GetAddressUtxos`: more than a default client receives; address methods: more than is read of the node",
        ),
        (
            Refusal::DeadlineExceeded,
            "the wallet's `grpc-timeout` has passed, also in the middle of a stream",
        ),
        (
            Refusal::RequestLate { seconds: 30 },
            "the request message was not whole in time",
        ),
        (
            Refusal::NotOffered { what: "Ping" },
            "`Ping` unless switched on; unknown methods; address methods on a node without an address index",
        ),
        (
            Refusal::Damaged,
            "bytes in the index do not hold together, or a fault of the program",
        ),
        (
            Refusal::Unreadable { height: at },
            "a block not in the index yet that this version cannot parse (an upgrade it does not know)",
        ),
    ]
}

fn code_name(code: Code) -> &'static str {
    match code {
        Code::InvalidArgument => "INVALID_ARGUMENT",
        Code::OutOfRange => "OUT_OF_RANGE",
        Code::NotFound => "NOT_FOUND",
        Code::Aborted => "ABORTED",
        Code::Unavailable => "UNAVAILABLE",
        Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
        Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
        Code::Unimplemented => "UNIMPLEMENTED",
        Code::Internal => "INTERNAL",
        _ => panic!("{code:?} is never produced on purpose"),
    }
}

#[test]
fn the_page_for_people_shows_this_table() {
    let page = include_str!("../../../../docs/status-codes.md");
    let shown: Vec<&str> = page
        .lines()
        .filter(|line| line.starts_with("| `"))
        .collect();
    let table: Vec<String> = samples()
        .into_iter()
        .map(|(refusal, when)| format!("| `{}` | {when} | {refusal} |", code_name(refusal.code())))
        .collect();
    assert_eq!(
        shown,
        table,
        "docs/status-codes.md should read:\n{}",
        table.join("\n")
    );
}

#[test]
fn a_message_survives_the_trailers() {
    for (refusal, _) in samples() {
        let trailers = refusal.trailers();
        let status = Status::from_header_map(&trailers).unwrap();
        assert_eq!(
            (status.code(), status.message()),
            (refusal.code(), refusal.to_string().as_str())
        );
    }
}

/// An answer above the bound on what is read of the node was once RESOURCE_EXHAUSTED for every method, as if the wallet had asked for too much.
#[test]
fn a_node_that_says_too_much_is_the_wallets_fault_only_where_it_could_ask_for_less() {
    let too_large = || lightship_source::Error::TooLarge {
        method: "z_gettreestate".into(),
        limit_bytes: 64 << 20,
    };
    assert_eq!(Refusal::from(too_large()).code(), Code::Unavailable);
    assert_eq!(narrower(too_large()).code(), Code::ResourceExhausted);
    let away = || lightship_source::Error::Warming {
        node: String::new(),
        message: String::new(),
    };
    assert_eq!(narrower(away()), Refusal::from(away()));
}

#[test]
fn the_nodes_address_stays_here() {
    let refusal = Refusal::from(lightship_source::Error::Unreachable {
        node: "10.0.0.7:8232".into(),
        reason: "refused".into(),
    });
    assert_eq!(refusal.code(), Code::Unavailable);
    assert!(!refusal.to_string().contains("10.0.0.7"));
}
