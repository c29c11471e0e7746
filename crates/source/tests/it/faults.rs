//! Everything that can go wrong between a transport and a node, over both transports.

use std::{
    fs,
    net::TcpListener,
    sync::Mutex,
    time::{Duration, Instant},
};

use bytes::Bytes;
use lightship_chain::{BlockId, Height};
use lightship_source::{
    BlockSource, Error, Node, Result,
    rpc::{Credentials, Endpoint, RpcNode, RpcSource},
};
use serde_json::json;

use crate::script::{Act, Asked, Reply, Script, quick};

const HASH: &str = "029f11d80ef9765602235e1bc9727e3eb6ba20839319f761fee920d63401e327";

fn good() -> Act {
    Act::Answer(Box::new(|question| {
        Reply::Result(match question["method"].as_str().unwrap() {
            "getbestblockheightandhash" => json!({ "height": 7, "hash": HASH }),
            "getblockhash" => json!(HASH),
            "getrawmempool" => json!([HASH]),
            "sendrawtransaction" => json!(HASH),
            method => panic!("{method} was not expected"),
        })
    }))
}

fn zcashd(error: (i64, &str)) -> String {
    json!({ "result": null, "error": { "code": error.0, "message": error.1 }, "id": 0 }).to_string()
}

/// The same question over both transports.
fn hash_both_ways(endpoint: &Endpoint) -> [Result<()>; 2] {
    let height = Height::GENESIS;
    let blocking = RpcSource::new(endpoint.clone()).hash_at(height);
    let node = RpcNode::new(endpoint.clone());
    [blocking, on_runtime(node.hash_at(height))]
        .map(|result| result.map(|hash| assert_eq!(hash, Some(HASH.parse().unwrap()))))
}

pub(crate) fn on_runtime<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
        .block_on(future)
}

/// A node that goes through `acts` for each transport anew and then answers well.
fn at_first(acts: fn(&Asked, usize) -> Option<Act>) -> impl Fn(&Asked) -> Act + Send + Sync {
    let start = Mutex::new(0);
    move |asked| {
        let mut start = start.lock().unwrap();
        match acts(asked, asked.number - *start) {
            Some(act) => act,
            None => {
                *start = asked.number + 1;
                good()
            }
        }
    }
}

#[test]
fn a_node_that_is_not_there_is_unreachable() {
    // Bound, never listening to anyone: freed at once, so the port refuses.
    let address = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    for result in hash_both_ways(&quick(&address.to_string(), Credentials::None)) {
        let error = result.unwrap_err();
        assert!(matches!(&error, Error::Unreachable { .. }), "{error}");
        assert!(error.is_transient() && !error.is_credentials());
        assert!(error.to_string().contains(&address.to_string()), "{error}");
    }
}

#[test]
fn a_node_that_hangs_times_out() {
    let script = Script::new(|_| Act::Hang);
    let started = Instant::now();
    for result in hash_both_ways(&script.endpoint()) {
        let error = result.unwrap_err();
        assert!(matches!(&error, Error::Timeout { .. }), "{error}");
        assert!(error.is_transient());
        assert!(error.to_string().contains("getblockhash"), "{error}");
    }
    // Each waited once.
    assert!(started.elapsed() < Duration::from_secs(2));
    assert_eq!(script.asked(), 2);
}

#[test]
fn a_passing_fault_is_not_seen() {
    let closes = at_first(|_, n| (n == 0).then_some(Act::Close));
    let cuts = at_first(|_, n| (n == 0).then_some(Act::Cut(zcashd((-8, "no")), 5)));
    let busy = at_first(|_, n| {
        (n < 2).then(|| Act::Http(429, "text/plain", "Too many connections.".to_owned()))
    });
    let queue = at_first(|_, n| {
        (n < 2).then(|| Act::Http(500, "text/plain", "Work queue depth exceeded".to_owned()))
    });
    let warming = at_first(|_, n| {
        (n < 2).then(|| {
            Act::Http(
                500,
                "application/json",
                zcashd((-28, "Loading block index...")),
            )
        })
    });
    let gateway = at_first(|_, n| {
        (n == 0).then(|| Act::Http(502, "text/html", "<html>Bad gateway</html>".to_owned()))
    });
    for script in [
        Script::new(closes),
        Script::new(cuts),
        Script::new(busy),
        Script::new(queue),
        Script::new(warming),
        Script::new(gateway),
    ] {
        for result in hash_both_ways(&script.endpoint()) {
            result.unwrap();
        }
        assert!(script.asked() > 2);
    }
}

#[test]
fn a_lasting_fault_is_named_and_never_a_missing_block() {
    type Case = (fn() -> Act, fn(&Error) -> bool, bool);
    let cases: [Case; 13] = [
        (
            || Act::Close,
            |e| matches!(e, Error::Unreachable { .. }),
            true,
        ),
        (
            || Act::Cut(zcashd((-8, "no")), 5),
            |e| matches!(e, Error::Unreachable { .. }),
            true,
        ),
        (
            || Act::Bytes(b"SSH-2.0-OpenSSH\r\n".to_vec()),
            |e| matches!(e, Error::Unreachable { .. }),
            true,
        ),
        (
            || Act::Http(401, "text/html", String::new()),
            |e| matches!(e, Error::Unauthorized { .. }),
            false,
        ),
        (
            || Act::Http(403, "text/html", String::new()),
            |e| matches!(e, Error::Unauthorized { .. }),
            false,
        ),
        (
            || Act::Http(429, "text/plain", "Too many".to_owned()),
            |e| matches!(e, Error::Busy { .. }),
            true,
        ),
        (
            || Act::Http(500, "text/plain", "Work queue depth exceeded".to_owned()),
            |e| matches!(e, Error::Busy { .. }),
            true,
        ),
        (
            || Act::Http(500, "text/html", "<html>oops</html>".to_owned()),
            |e| matches!(e, Error::Http { status: 500, .. }),
            true,
        ),
        (
            || Act::Http(404, "text/html", "<html>no such page</html>".to_owned()),
            |e| matches!(e, Error::Http { status: 404, .. }),
            false,
        ),
        (
            || Act::Http(200, "text/html", "<html>welcome</html>".to_owned()),
            |e| matches!(e, Error::Shape { .. }),
            true,
        ),
        (
            || Act::Http(200, "application/json", "{\"result\":\"02".to_owned()),
            |e| matches!(e, Error::Shape { .. }),
            true,
        ),
        (
            || Act::Http(500, "application/json", zcashd((-28, "Rescanning..."))),
            |e| matches!(e, Error::Warming { .. }),
            true,
        ),
        (
            || Act::Http(200, "application/json", zcashd((-32603, "internal"))),
            |e| matches!(e, Error::Rpc { code: -32603, .. } | Error::Shape { .. }),
            false,
        ),
    ];
    for (number, (act, is, transient)) in cases.into_iter().enumerate() {
        let script = Script::new(move |_| act());
        for result in hash_both_ways(&script.endpoint()) {
            let error = result.unwrap_err();
            assert!(is(&error), "case {number}: {error:?}");
            if !matches!(error, Error::Shape { .. }) {
                assert_eq!(error.is_transient(), transient, "case {number}: {error}");
            }
        }
    }
}

#[test]
fn an_answer_to_someone_elses_question_is_refused() {
    let script = Script::answering(|_, _| {
        Reply::Object(json!({ "jsonrpc": "2.0", "id": 4711, "result": HASH }))
    });
    for result in hash_both_ways(&script.endpoint()) {
        let error = result.unwrap_err();
        assert!(
            matches!(&error, Error::Shape { what, .. } if what.contains("4711")),
            "{error}"
        );
    }
}

#[test]
fn an_answer_past_the_bound_is_not_read() {
    let script = Script::new(|_| Act::Http(200, "application/json", " ".repeat(300_000)));
    let mut endpoint = script.endpoint();
    endpoint.max_answer_bytes = 100_000;
    for result in hash_both_ways(&endpoint) {
        let error = result.unwrap_err();
        assert!(
            matches!(
                &error,
                Error::TooLarge {
                    limit_bytes: 100_000,
                    ..
                }
            ),
            "{error}"
        );
    }
    // The same without an announced length.
    let script = Script::new(|_| {
        let head = "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n".to_owned();
        Act::Bytes((head + &" ".repeat(300_000)).into_bytes())
    });
    let mut endpoint = script.endpoint();
    endpoint.max_answer_bytes = 100_000;
    for result in hash_both_ways(&endpoint) {
        let error = result.unwrap_err();
        assert!(matches!(&error, Error::TooLarge { .. }), "{error}");
    }
}

/// Zebra closes the connection without a word on a wrong cookie, and writes a new cookie at each start.
#[test]
fn a_cookie_that_changed_is_read_again() {
    use base64::{Engine, engine::general_purpose::STANDARD};
    for deny in [|| Act::Close, || Act::Http(401, "text/html", String::new())] {
        let folder = tempfile::tempdir().unwrap();
        let cookie = folder.path().join(".cookie");
        let path = cookie.clone();
        let script = Script::new(move |asked| {
            // What the node takes is always what lies in the file.
            let want = format!("Basic {}", STANDARD.encode(fs::read(&path).unwrap()));
            if asked.authorization.as_deref() == Some(&want) {
                good()
            } else {
                deny()
            }
        });
        let endpoint = script.endpoint_with(Credentials::Cookie(cookie.clone()));
        let source = RpcSource::new(endpoint.clone());
        let node = RpcNode::new(endpoint);
        on_runtime(async {
            for secret in ["__cookie__:one", "__cookie__:two", "__cookie__:three"] {
                fs::write(&cookie, secret).unwrap();
                assert!(source.hash_at(Height::GENESIS).unwrap().is_some());
                assert!(node.hash_at(Height::GENESIS).await.unwrap().is_some());
                // Certainly not acted on, so it may be sent again too.
                assert!(node.submit(Bytes::from_static(b"x")).await.is_ok());
            }
        });
    }
}

#[test]
fn a_wrong_secret_is_named_by_its_file_and_never_shown() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("secret");
    fs::write(&file, "name:marker-4711").unwrap();
    for deny in [|| Act::Close, || Act::Http(401, "text/html", String::new())] {
        for credentials in [
            Credentials::Cookie(file.clone()),
            Credentials::UserPassword {
                user: "alice".to_owned(),
                password_file: file.clone(),
            },
        ] {
            let script = Script::new(move |_| deny());
            let endpoint = script.endpoint_with(credentials);
            for result in hash_both_ways(&endpoint) {
                let error = result.unwrap_err();
                assert!(matches!(&error, Error::Unauthorized { .. }), "{error}");
                assert!(error.is_credentials() && !error.is_transient());
                let text = format!("{error} {error:?} {endpoint:?}");
                assert!(text.contains(file.to_str().unwrap()), "{text}");
                assert!(!text.contains("marker-4711"), "{text}");
            }
        }
    }
}

#[test]
fn a_cookie_that_is_not_there_yet_is_waited_for() {
    let script = Script::new(|_| good());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(".cookie");
    for result in hash_both_ways(&script.endpoint_with(Credentials::Cookie(path.clone()))) {
        let error = result.unwrap_err();
        assert!(error.is_transient() && !error.is_credentials(), "{error:?}");
        assert!(
            error.to_string().contains(path.to_str().unwrap()),
            "{error}"
        );
    }
    assert_eq!(script.asked(), 0);
}

#[test]
fn a_node_that_took_the_secret_before_is_away_not_unwilling() {
    let folder = tempfile::tempdir().unwrap();
    let cookie = folder.path().join("cookie");
    fs::write(&cookie, "a:b").unwrap();
    let script = Script::new(|asked| {
        if asked.number == 0 {
            good()
        } else {
            Act::Close
        }
    });
    let source = RpcSource::new(script.endpoint_with(Credentials::Cookie(cookie)));
    source.hash_at(Height::GENESIS).unwrap();
    let error = source.hash_at(Height::GENESIS).unwrap_err();
    assert!(matches!(&error, Error::Unreachable { .. }), "{error}");
}

/// Sending twice is not always harmless: a wallet would be told that its payment was refused.
#[test]
fn a_transaction_is_not_sent_again_after_the_node_may_have_taken_it() {
    for act in [|| Act::Close, || Act::Cut(zcashd((-25, "no")), 5)] {
        let script = Script::new(move |_| act());
        let node = RpcNode::new(script.endpoint());
        let error = on_runtime(node.submit(Bytes::from_static(b"transaction"))).unwrap_err();
        assert!(matches!(&error, Error::Unreachable { .. }), "{error}");
        assert_eq!(script.asked(), 1);
    }
    let script = Script::new(at_first(|_, n| {
        (n < 2).then(|| Act::Http(429, "text/plain", "Too many".to_owned()))
    }));
    let node = RpcNode::new(script.endpoint());
    on_runtime(node.submit(Bytes::from_static(b"transaction"))).unwrap();
    assert_eq!(script.asked(), 3);
}

#[test]
fn an_abandoned_question_frees_its_place() {
    let script = Script::new(|asked| if asked.number < 3 { Act::Hang } else { good() });
    let mut endpoint = script.endpoint();
    endpoint.max_in_flight = std::num::NonZeroUsize::new(1).unwrap();
    let node = RpcNode::new(endpoint);
    on_runtime(async {
        for _ in 0..3 {
            let short = Duration::from_millis(50);
            let question = node.hash_at(Height::GENESIS);
            assert!(tokio::time::timeout(short, question).await.is_err());
        }
        node.hash_at(Height::GENESIS).await.unwrap();
    });
}

#[test]
fn waiting_ends_with_a_new_tip_or_with_patience() {
    let script = Script::new(|asked| {
        let height = if asked.number < 5 { 7 } else { 3 };
        Act::Answer(Box::new(move |_| {
            Reply::Result(json!({ "height": height, "hash": HASH }))
        }))
    });
    let source = RpcSource::new(script.endpoint());
    let seen = source.tip().unwrap();
    assert_eq!(
        seen,
        Some(BlockId {
            height: Height::new(7),
            hash: HASH.parse().unwrap()
        })
    );
    source.wait(seen, Duration::from_secs(10)).unwrap();
    let lower = source.tip().unwrap();
    assert_eq!(lower.unwrap().height, Height::new(3));
    let started = Instant::now();
    source.wait(lower, Duration::from_millis(50)).unwrap();
    assert!(started.elapsed() >= Duration::from_millis(50));
    source.wait(None, Duration::from_secs(10)).unwrap();
}
