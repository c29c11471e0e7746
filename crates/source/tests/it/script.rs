//! A node made of a script: real sockets, and an answer a question.

use std::{
    io::{BufRead, BufReader, Write},
    net::{Shutdown, TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use lightship_source::rpc::{Credentials, Endpoint};
use serde_json::{Value, json};

/// What the node does with one HTTP request.
pub(crate) enum Act {
    /// Answers each question by this rule, alone or in a batch.
    Answer(Box<dyn Fn(&Value) -> Reply>),
    /// Status, content type, body.
    Http(u16, &'static str, String),
    /// Says nothing and keeps the connection open.
    Hang,
    /// Closes the connection without a word.
    Close,
    /// Announces a body, sends the first bytes of it, and closes.
    Cut(String, usize),
    /// Sends these bytes as they are, and closes.
    Bytes(Vec<u8>),
}

/// The answer to one question.
pub(crate) enum Reply {
    Result(Value),
    Error(i64, &'static str),
    /// Sent instead of the whole answer object.
    Object(Value),
}

/// One HTTP request, as the node sees it.
pub(crate) struct Asked {
    pub(crate) number: usize,
    pub(crate) authorization: Option<String>,
    pub(crate) body: Value,
}

impl Asked {
    /// The method of the first question.
    pub(crate) fn method(&self) -> &str {
        let first = self.body.get(0).unwrap_or(&self.body);
        first["method"].as_str().unwrap()
    }
}

type Rule = dyn Fn(&Asked) -> Act + Send + Sync;

pub(crate) struct Script {
    address: String,
    asked: Arc<AtomicUsize>,
    methods: Arc<Mutex<Vec<String>>>,
}

impl Script {
    pub(crate) fn new(rule: impl Fn(&Asked) -> Act + Send + Sync + 'static) -> Script {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let asked = Arc::new(AtomicUsize::new(0));
        let methods = Arc::new(Mutex::new(Vec::new()));
        let rule: Arc<Rule> = Arc::new(rule);
        let (counter, names) = (asked.clone(), methods.clone());
        // Ends with the process: a test binary lives for seconds.
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (rule, counter, names) = (rule.clone(), counter.clone(), names.clone());
                thread::spawn(move || serve(stream.unwrap(), &*rule, &counter, &names));
            }
        });
        Script {
            address,
            asked,
            methods,
        }
    }

    /// A node that answers every question by method and parameters.
    pub(crate) fn answering(rule: fn(&str, &Value) -> Reply) -> Script {
        Script::new(move |_| {
            Act::Answer(Box::new(move |question| {
                rule(question["method"].as_str().unwrap(), &question["params"])
            }))
        })
    }

    /// How many HTTP requests came.
    pub(crate) fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }

    /// The method of each, in order of arrival.
    pub(crate) fn methods(&self) -> Vec<String> {
        self.methods.lock().unwrap().clone()
    }

    pub(crate) fn endpoint(&self) -> Endpoint {
        self.endpoint_with(Credentials::None)
    }

    /// With bounds short enough for a test.
    pub(crate) fn endpoint_with(&self, credentials: Credentials) -> Endpoint {
        quick(&self.address, credentials)
    }
}

pub(crate) fn quick(address: &str, credentials: Credentials) -> Endpoint {
    let mut endpoint = Endpoint::new(address, credentials).unwrap();
    endpoint.timeout = Duration::from_millis(400);
    endpoint.patience = Duration::from_millis(500);
    endpoint.poll = Duration::from_millis(10);
    endpoint
}

fn serve(
    stream: TcpStream,
    rule: &Rule,
    counter: &AtomicUsize,
    names: &Mutex<Vec<String>>,
) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut writer = stream;
    loop {
        let asked = read(&mut reader, counter)?;
        names.lock().unwrap().push(asked.method().to_owned());
        let (head, body) = match rule(&asked) {
            Act::Answer(rule) => {
                let body = match &asked.body {
                    Value::Array(questions) => questions.iter().map(|q| answer(q, &rule)).collect(),
                    question => answer(question, &rule),
                };
                let body = body.to_string();
                (head(200, "application/json", body.len()), body)
            }
            Act::Http(status, kind, body) => (head(status, kind, body.len()), body),
            Act::Hang => {
                thread::sleep(Duration::from_secs(60));
                return None;
            }
            Act::Close => return writer.shutdown(Shutdown::Both).ok(),
            Act::Cut(body, len) => {
                let head = head(200, "application/json", body.len());
                writer.write_all(head.as_bytes()).ok()?;
                writer.write_all(&body.as_bytes()[..len]).ok()?;
                return writer.shutdown(Shutdown::Both).ok();
            }
            Act::Bytes(bytes) => {
                writer.write_all(&bytes).ok()?;
                return writer.shutdown(Shutdown::Both).ok();
            }
        };
        writer.write_all((head + &body).as_bytes()).ok()?;
    }
}

fn read(reader: &mut impl BufRead, counter: &AtomicUsize) -> Option<Asked> {
    let (mut authorization, mut length) = (None, 0);
    let mut line = String::new();
    loop {
        line.clear();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        match line.trim_end().split_once(": ") {
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                length = value.parse().unwrap();
            }
            Some((name, value)) if name.eq_ignore_ascii_case("authorization") => {
                authorization = Some(value.to_owned());
            }
            None if line.trim_end().is_empty() => break,
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(Asked {
        number: counter.fetch_add(1, Ordering::SeqCst),
        authorization,
        body: serde_json::from_slice(&body).unwrap(),
    })
}

fn answer(question: &Value, rule: &dyn Fn(&Value) -> Reply) -> Value {
    let id = &question["id"];
    match rule(question) {
        Reply::Result(result) => json!({ "jsonrpc": "2.0", "id": id, "result": result }),
        Reply::Error(code, message) => {
            json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message } })
        }
        Reply::Object(object) => object,
    }
}

fn head(status: u16, kind: &str, length: usize) -> String {
    format!("HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\r\n")
}
