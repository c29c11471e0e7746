use std::{
    io::{Read, Write},
    net::TcpStream,
};

use lightship_chain::{
    Upgrade,
    build::{Activations, ChainBuilder, Coinbase, regtest_genesis},
};

use super::*;
use crate::simulated::Rule;

fn node() -> SimulatedNode {
    let activations = Activations::all_at(Upgrade::Nu7, 1);
    let mut chain = ChainBuilder::on_regtest(1, activations.clone());
    let node = SimulatedNode::from_blocks(activations, [regtest_genesis().bytes]).unwrap();
    node.mine(&mut chain, Coinbase::default()).unwrap();
    node
}

fn start(settings: Settings) -> (SimulatedNode, Running) {
    let node = node();
    let running = Running::start(node.clone(), settings).unwrap();
    (node, running)
}

/// Sends one request and reads until the node closes. The whole answer, head included.
fn exchange(running: &Running, headers: &str, body: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect(running.address())?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    write!(
        stream,
        "POST / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{headers}content-length: {}\r\n\r\n{body}",
        body.len()
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

fn post(running: &Running, body: &str) -> String {
    exchange(running, "", body).unwrap()
}

fn reply(running: &Running, body: &str) -> Value {
    let answer = post(running, body);
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    serde_json::from_str(body).unwrap()
}

const COUNT: &str = r#"{"jsonrpc":"2.0","id":1,"method":"getblockcount","params":[]}"#;

#[test]
fn old_and_new_envelopes_are_answered_in_their_own_form() {
    let (_, running) = start(Settings::default());
    assert_eq!(
        reply(&running, COUNT),
        json!({"jsonrpc": "2.0", "id": 1, "result": 1})
    );
    assert_eq!(
        reply(
            &running,
            r#"{"id":"x","method":"getblockcount","params":[]}"#
        ),
        json!({"id": "x", "result": 1, "error": null})
    );
    assert_eq!(
        reply(
            &running,
            r#"{"jsonrpc":"1.0","id":"x","method":"nosuch","params":[]}"#
        ),
        json!({"jsonrpc": "1.0", "id": "x", "result": null,
            "error": {"code": -32601, "message": "Method not found"}})
    );
    let code = |body: &str| reply(&running, body)["error"]["code"].clone();
    assert_eq!(code(r#"{"id":1,"method":"getblockcount"}"#), -32600);
    assert_eq!(code("[]"), -32600);
    assert_eq!(code(r#"{"jsonrpc":"#), -32700);
    let empty = post(&running, r#"{"jsonrpc":"2.0","method":"getblockcount"}"#);
    assert!(empty.ends_with("\r\n\r\n"), "{empty}");
    assert!(post(&running, "42").starts_with("HTTP/1.1 400"));
}

#[test]
fn a_batch_is_answered_in_order() {
    let (_, running) = start(Settings::default());
    let batch = format!(
        r#"[{COUNT},{{"jsonrpc":"2.0","id":2,"method":"nosuch"}},{{"id":3,"method":"getblockcount","params":[]}},{{"jsonrpc":"2.0","id":4,"method":"getblock","params":["0",0]}}]"#
    );
    let replies = reply(&running, &batch);
    assert_eq!(replies[0]["result"], 1);
    assert_eq!(replies[1]["error"]["code"], -32601);
    assert_eq!(replies[2]["error"]["code"], -32600);
    assert!(
        replies[3]["result"]
            .as_str()
            .unwrap()
            .starts_with("04000000")
    );
}

#[test]
fn a_stranger_is_closed_out_or_told() {
    let login = Some("__cookie__:secret".to_owned());
    let (_, closed) = start(Settings {
        login: login.clone(),
        ..Settings::default()
    });
    let header =
        |login: &str| format!("authorization: Basic {}\r\n", BASE64_STANDARD.encode(login));
    assert_eq!(exchange(&closed, "", COUNT).unwrap_or_default(), "");
    assert_eq!(
        exchange(&closed, &header("__cookie__:wrong"), COUNT).unwrap_or_default(),
        ""
    );
    let answer = exchange(&closed, &header("anyone:secret"), COUNT).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let (_, told) = start(Settings {
        login,
        stranger: Stranger::Unauthorized,
        ..Settings::default()
    });
    assert!(post(&told, COUNT).starts_with("HTTP/1.1 401"));
}

#[test]
fn other_methods_and_content_types_are_refused() {
    let (_, running) = start(Settings::default());
    let form = exchange(
        &running,
        "content-type: application/x-www-form-urlencoded\r\n",
        COUNT,
    );
    assert!(form.unwrap().starts_with("HTTP/1.1 415"));
    let mut stream = TcpStream::connect(running.address()).unwrap();
    write!(
        stream,
        "GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 405"), "{answer}");
}

#[test]
fn faults_are_seen_on_the_wire() {
    let (node, running) = start(Settings::default());
    let once = |fault: Fault| {
        node.faults().add(Rule::new(fault).times(1));
        exchange(&running, "", COUNT)
    };
    for status in [401, 403, 429, 500, 503] {
        let answer = once(Fault::Status(status)).unwrap();
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status}")),
            "{answer}"
        );
    }
    assert!(once(Fault::Html).unwrap().contains("text/html"));
    assert!(once(Fault::Warming).unwrap().contains("-28"));
    assert!(once(Fault::WrongShape).unwrap().contains("unexpected"));
    let coded = Fault::Code {
        code: -8,
        message: "no".to_owned(),
    };
    assert!(once(coded).unwrap().contains("-8"));
    let whole = post(&running, COUNT);
    let cut = once(Fault::Cut).unwrap();
    let promise = "content-length: 35";
    assert!(whole.contains(promise) && cut.contains(promise), "{whole}");
    assert!(cut.len() < whole.len());
    let truncated = once(Fault::Truncated).unwrap();
    assert!(truncated.contains("content-length: 17"), "{truncated}");
    assert_eq!(once(Fault::Refuse).unwrap_or_default(), "");
    assert!(post(&running, COUNT).starts_with("HTTP/1.1 200"));
    assert_eq!(node.faults().calls_of("getblockcount"), 14);
}

#[test]
fn a_node_that_refuses_closes_its_port_and_opens_it_again() {
    let (node, running) = start(Settings::default());
    let mut kept = TcpStream::connect(running.address()).unwrap();
    kept.set_read_timeout(Some(Duration::from_secs(10)))
        .unwrap();
    // The connection is taken before the port closes.
    post(&running, COUNT);
    node.faults().add(Fault::Refuse);
    let mut rest = Vec::new();
    let _ = kept.read_to_end(&mut rest);
    assert!(rest.is_empty());
    let mut refused = false;
    for _ in 0..100 {
        refused = TcpStream::connect(running.address()).is_err();
        if refused {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(refused);
    node.faults().clear();
    let mut answered = false;
    for _ in 0..100 {
        answered = exchange(&running, "", COUNT).is_ok_and(|answer| answer.contains("200"));
        if answered {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(answered);
}

#[test]
fn a_call_that_hangs_is_answered_when_the_fault_ends() {
    let (node, running) = start(Settings::default());
    node.faults().add(Fault::Hang);
    let start = std::time::Instant::now();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| post(&running, COUNT));
        std::thread::sleep(Duration::from_millis(100));
        assert!(!waiting.is_finished());
        node.faults().clear();
        assert!(waiting.join().unwrap().contains("200"));
    });
    assert!(start.elapsed() >= Duration::from_millis(100));
}

#[test]
fn a_wrong_answer_looks_like_a_right_one() {
    let (node, running) = start(Settings::default());
    let block = r#"{"jsonrpc":"2.0","id":1,"method":"getblock","params":["1",0]}"#;
    let right = [reply(&running, COUNT), reply(&running, block)];
    node.faults().add(Fault::WrongAnswer);
    let wrong = [reply(&running, COUNT), reply(&running, block)];
    for (right, wrong) in right.iter().zip(&wrong) {
        assert_ne!(wrong["result"], right["result"]);
        assert!(wrong["error"].is_null());
    }
    let text = |value: &Value| value["result"].as_str().unwrap().to_owned();
    let (right, wrong) = (text(&right[1]), text(&wrong[1]));
    let different = right.bytes().zip(wrong.bytes()).filter(|(a, b)| a != b);
    assert_eq!((different.count(), wrong.len()), (1, right.len()));
}
