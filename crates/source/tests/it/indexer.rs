//! A node that pushes, and everything that it may do wrong: each fault ends in a word to the watcher and in another attempt.

use std::{
    convert::Infallible,
    net::SocketAddr,
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
    time::{Duration, Instant},
};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body::{Body, Frame};
use hyper::{body::Incoming, server::conn::http2, service::service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo};
use lightship_chain::{BlockHash, BlockId, Height};
use lightship_source::{
    Error,
    indexer::{Event, Indexer, Topic},
};
use prost::Message;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::mpsc,
    task::JoinHandle,
};

const PATIENCE: Duration = Duration::from_secs(20);

/// What the service does with a call.
#[derive(Clone)]
enum Act {
    /// Sends these bytes in one piece, and holds the stream open.
    Send(Vec<u8>),
    /// Sends them and ends with this status.
    End(Vec<u8>, &'static str),
    /// Sends them again and again.
    Flood(Vec<u8>),
    /// Never answers.
    Hang,
    /// Answers with headers alone.
    Refuse(u16, &'static str),
    /// The same with status 13 and these words, as they are on the wire; as trailers where that is true.
    Say(&'static [u8], bool),
}

#[derive(Clone, PartialEq, Message)]
struct Tip {
    #[prost(bytes = "vec", tag = "1")]
    hash: Vec<u8>,
    #[prost(uint32, tag = "2")]
    height: u32,
    /// A field that a later node may add.
    #[prost(string, tag = "15")]
    more: String,
}

fn framed(message: &[u8]) -> Vec<u8> {
    let mut frame = vec![0];
    frame.extend((message.len() as u32).to_be_bytes());
    frame.extend(message);
    frame
}

fn block(height: u32) -> BlockId {
    BlockId {
        height: Height::new(height),
        hash: BlockHash::from_display_order([height as u8; 32]),
    }
}

fn tip(height: u32) -> Vec<u8> {
    let message = Tip {
        hash: vec![height as u8; 32],
        height,
        more: "unknown".into(),
    };
    framed(&message.encode_to_vec())
}

/// An answer's body, fed by a task.
struct Fed(mpsc::Receiver<Frame<Bytes>>);

impl Body for Fed {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(context).map(|frame| frame.map(Ok))
    }
}

/// A service that does the same at each call of a method.
struct Service {
    address: SocketAddr,
    /// Frames of a flood that were taken.
    sent: Arc<AtomicU64>,
    task: JoinHandle<()>,
}

impl Drop for Service {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Service {
    async fn new(tips: Act, mempool: Act) -> Service {
        Service::on(
            TcpListener::bind("127.0.0.1:0").await.unwrap(),
            tips,
            mempool,
        )
    }

    fn on(listener: TcpListener, tips: Act, mempool: Act) -> Service {
        let address = listener.local_addr().unwrap();
        let sent = Arc::<AtomicU64>::default();
        let counted = Arc::clone(&sent);
        let task = tokio::spawn(async move {
            loop {
                let (socket, _) = listener.accept().await.unwrap();
                let (tips, mempool, sent) = (tips.clone(), mempool.clone(), Arc::clone(&counted));
                let answer = service_fn(move |request: Request<Incoming>| {
                    let act = match request.uri().path() {
                        "/zebra.indexer.rpc.Indexer/ChainTipChange" => tips.clone(),
                        "/zebra.indexer.rpc.Indexer/MempoolChange" => mempool.clone(),
                        other => panic!("{other} was called"),
                    };
                    assert_eq!(request.headers()["content-type"], "application/grpc");
                    assert_eq!(request.headers()["te"], "trailers");
                    answer(act, Arc::clone(&sent))
                });
                tokio::spawn(
                    http2::Builder::new(TokioExecutor::new())
                        .serve_connection(TokioIo::new(socket), answer),
                );
            }
        });
        Service {
            address,
            sent,
            task,
        }
    }

    /// One that is asked quickly and let go quickly.
    fn indexer(&self) -> Indexer {
        quick(self.address)
    }
}

fn quick(address: SocketAddr) -> Indexer {
    Indexer {
        timeout: Duration::from_millis(500),
        first_pause: Duration::from_millis(5),
        longest_pause: Duration::from_millis(40),
        steady: Duration::from_secs(3_600),
        ..Indexer::new(&address.to_string()).unwrap()
    }
}

async fn answer(act: Act, sent: Arc<AtomicU64>) -> Result<Response<Fed>, Infallible> {
    let (feed, fed) = mpsc::channel(1);
    let response = Response::builder().header("content-type", "application/grpc");
    match act {
        Act::Hang => std::future::pending().await,
        Act::Refuse(http, grpc) => {
            let response = response.status(http).header("grpc-status", grpc);
            return Ok(response.body(Fed(fed)).unwrap());
        }
        Act::Say(words, as_trailers) => {
            let mut said = HeaderMap::new();
            said.insert("grpc-status", "13".parse().unwrap());
            said.insert("grpc-message", HeaderValue::from_bytes(words).unwrap());
            if as_trailers {
                tokio::spawn(async move { feed.send(Frame::trailers(said)).await });
            } else {
                let mut response = response.body(Fed(fed)).unwrap();
                response.headers_mut().extend(said);
                return Ok(response);
            }
        }
        Act::Send(bytes) => {
            tokio::spawn(async move {
                let _ = feed.send(Frame::data(bytes.into())).await;
                feed.closed().await;
            });
        }
        Act::End(bytes, status) => {
            tokio::spawn(async move {
                let _ = feed.send(Frame::data(bytes.into())).await;
                let mut trailers = HeaderMap::new();
                trailers.insert("grpc-status", status.parse().unwrap());
                let _ = feed.send(Frame::trailers(trailers)).await;
            });
        }
        Act::Flood(bytes) => {
            tokio::spawn(async move {
                let bytes = Bytes::from(bytes);
                while feed.send(Frame::data(bytes.clone())).await.is_ok() {
                    sent.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    }
    Ok(response.body(Fed(fed)).unwrap())
}

/// What a watcher was told.
struct Watched {
    told: Arc<Mutex<Vec<Event>>>,
    task: JoinHandle<()>,
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Watched {
    fn new(indexer: Indexer) -> Watched {
        let told = Arc::<Mutex<Vec<Event>>>::default();
        let task = {
            let told = Arc::clone(&told);
            tokio::spawn(async move {
                indexer
                    .watch(|event| told.lock().unwrap().push(event))
                    .await;
            })
        };
        Watched { told, task }
    }

    /// What `look` finds in what was told, once it finds something.
    async fn until<T>(&self, look: impl Fn(&[Event]) -> Option<T>) -> T {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(found) = look(&self.told.lock().unwrap()) {
                return found;
            }
            assert!(
                Instant::now() < deadline,
                "in vain: {:?}",
                self.told.lock().unwrap()
            );
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// The first failures of a stream, with the pauses after them.
    async fn failures(&self, of: Topic, count: usize) -> Vec<(Error, Duration)> {
        self.until(|told| {
            let failures: Vec<_> = told
                .iter()
                .filter_map(|event| match event {
                    Event::Down {
                        topic,
                        error,
                        again_in,
                    } if *topic == of => Some((error.clone(), *again_in)),
                    _ => None,
                })
                .take(count)
                .collect();
            (failures.len() == count).then_some(failures)
        })
        .await
    }
}

fn tips(told: &[Event]) -> Vec<BlockId> {
    told.iter()
        .filter_map(|event| match event {
            Event::Tip(tip) => Some(*tip),
            _ => None,
        })
        .collect()
}

fn silent() -> Act {
    Act::Send(Vec::new())
}

#[tokio::test]
async fn tips_and_changes_are_told_as_they_come() {
    // Three messages in one piece of the body; and one that is empty, as the first change of a mempool is.
    let three = [tip(1), tip(2), tip(300)].concat();
    let service = Service::new(Act::Send(three), Act::Send(framed(b""))).await;
    let watched = Watched::new(service.indexer());
    let seen = watched
        .until(|told| {
            let tips = tips(told);
            let mempool = told.iter().any(|event| matches!(event, Event::Mempool));
            (tips.len() == 3 && mempool).then_some(tips)
        })
        .await;
    assert_eq!(seen, [block(1), block(2), block(300)]);
    let told = watched.told.lock().unwrap();
    assert!(matches!(told[0], Event::Up(_)), "{told:?}");
    assert!(!told.iter().any(|event| matches!(event, Event::Down { .. })));
}

#[tokio::test]
async fn a_stream_that_ends_is_begun_anew_after_pauses_that_grow_to_their_bound() {
    let service = Service::new(Act::End(tip(7), "0"), silent()).await;
    let watched = Watched::new(service.indexer());
    let failures = watched.failures(Topic::Tip, 6).await;
    let pauses: Vec<_> = failures
        .iter()
        .map(|(_, pause)| pause.as_millis())
        .collect();
    assert_eq!(pauses, [5, 10, 20, 40, 40, 40]);
    for (error, _) in &failures {
        assert!(matches!(error, Error::Unreachable { .. }), "{error}");
    }
    // Each of them had its say before, and the other stream goes on.
    let told = watched.told.lock().unwrap();
    assert!(tips(&told).len() >= 6);
    let mempool_fell = |event: &Event| {
        matches!(
            event,
            Event::Down {
                topic: Topic::Mempool,
                ..
            }
        )
    };
    assert!(!told.iter().any(mempool_fell));
}

#[tokio::test]
async fn a_reader_that_was_let_go_is_told_the_nodes_reason() {
    let service = Service::new(silent(), Act::End(framed(b""), "8")).await;
    let watched = Watched::new(service.indexer());
    let (error, _) = watched.failures(Topic::Mempool, 1).await.remove(0);
    assert!(matches!(error, Error::Rpc { code: 8, .. }), "{error}");
}

/// The words were shown as they are encoded for the wire.
#[tokio::test]
async fn the_nodes_words_are_shown_as_it_meant_them() {
    for (on_the_wire, meant) in [
        (&b"no%20block%3A%20100%25"[..], "no block: 100%"),
        (b"plain words", "plain words"),
        ("%E2%82%AC and \u{20ac}".as_bytes(), "\u{20ac} and \u{20ac}"),
        // What is no encoding is no reason to lose the rest.
        (b"50% of %zz", "50% of %zz"),
        (b"%FF.", "\u{fffd}."),
        (b"one%0Aline%1B[31m", "oneline[31m"),
    ] {
        for as_trailers in [false, true] {
            let service = Service::new(Act::Say(on_the_wire, as_trailers), silent()).await;
            let watched = Watched::new(service.indexer());
            let (error, _) = watched.failures(Topic::Tip, 1).await.remove(0);
            let Error::Rpc { code, message, .. } = error else {
                panic!("{error}");
            };
            assert_eq!((code, &message[..]), (13, meant));
        }
    }
}

#[tokio::test]
async fn what_is_no_such_service_is_told_and_tried_again() {
    for (act, expected) in [
        (Act::Refuse(200, "12"), "error 12"),
        (Act::Refuse(404, "0"), "HTTP 404"),
        (Act::Hang, "within 500ms"),
        // A message of a gigabyte, of which nothing is made room for.
        (Act::Send(vec![0, 0x40, 0, 0, 0]), "larger than"),
        (Act::Send(vec![1, 0, 0, 0, 0]), "compressed"),
        (Act::Send(framed(&[0xff; 20])), "not understood"),
        (Act::Send(framed(b"")), "0 bytes instead of 32"),
    ] {
        let service = Service::new(act, silent()).await;
        let watched = Watched::new(service.indexer());
        for (error, _) in watched.failures(Topic::Tip, 2).await {
            let error = error.to_string();
            assert!(error.contains(expected), "{error}, not {expected}");
        }
        assert_eq!(tips(&watched.told.lock().unwrap()), []);
    }
}

#[tokio::test]
async fn a_height_that_no_chain_has_is_no_tip() {
    let message = Tip {
        hash: vec![1; 32],
        height: u32::MAX,
        more: String::new(),
    };
    let service = Service::new(Act::Send(framed(&message.encode_to_vec())), silent()).await;
    let watched = Watched::new(service.indexer());
    let (error, _) = watched.failures(Topic::Tip, 1).await.remove(0);
    assert!(matches!(error, Error::Shape { .. }), "{error}");
}

#[tokio::test]
async fn a_flood_is_read_at_a_bounded_rate_and_holds_the_node_back() {
    let service = Service::new(silent(), Act::Flood(framed(b""))).await;
    let began = Instant::now();
    let watched = Watched::new(Indexer {
        messages_a_second: 50,
        ..service.indexer()
    });
    let changes = |told: &[Event]| {
        let changes = told.iter().filter(|event| matches!(event, Event::Mempool));
        changes.count() as u64
    };
    watched
        .until(|told| (changes(told) >= 50).then_some(()))
        .await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    let told = changes(&watched.told.lock().unwrap());
    let most = 50 * (began.elapsed().as_secs() + 1);
    assert!(told <= most, "{told} in {:?}", began.elapsed());
    // The frames of five bytes that fit into the window and the buffers on the way, and not one more.
    let sent = service.sent.load(Ordering::Relaxed);
    tokio::time::sleep(Duration::from_millis(200)).await;
    let later = service.sent.load(Ordering::Relaxed);
    assert!(later - sent <= 200, "{sent}, then {later}");
}

#[tokio::test]
async fn a_node_that_is_not_there_yet_is_watched_when_it_comes() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let watched = Watched::new(quick(address));
    let (error, _) = watched.failures(Topic::Tip, 2).await.remove(1);
    assert!(matches!(error, Error::Unreachable { .. }), "{error}");
    let listener = TcpListener::bind(address).await.unwrap();
    let _service = Service::on(listener, Act::Send(tip(9)), silent());
    watched
        .until(|told| (tips(told) == [block(9)]).then_some(()))
        .await;
}

#[tokio::test]
async fn a_port_that_takes_connections_and_says_nothing_is_given_up_in_time() {
    let mute = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let watched = Watched::new(quick(mute.local_addr().unwrap()));
    for topic in [Topic::Tip, Topic::Mempool] {
        let (error, _) = watched.failures(topic, 2).await.remove(1);
        assert!(matches!(error, Error::Timeout { .. }), "{error}");
    }
}

#[tokio::test]
async fn a_connection_that_died_without_a_word_is_noticed() {
    let service = Service::new(Act::Send(tip(3)), silent()).await;
    let between = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = between.local_addr().unwrap();
    let inner = service.address;
    let (cut, _) = tokio::sync::broadcast::channel::<()>(1);
    let cutter = cut.clone();
    let proxy = tokio::spawn(async move {
        loop {
            let (mut outside, _) = between.accept().await.unwrap();
            let mut inside = TcpStream::connect(inner).await.unwrap();
            let mut cut = cutter.subscribe();
            tokio::spawn(async move {
                tokio::select! {
                    _ = tokio::io::copy_bidirectional(&mut outside, &mut inside) => {}
                    // Both sockets stay open, and nothing moves any more.
                    _ = cut.recv() => std::future::pending::<()>().await,
                }
            });
        }
    });
    let watched = Watched::new(Indexer {
        keepalive: Duration::from_millis(100),
        ..quick(address)
    });
    watched
        .until(|told| (tips(told) == [block(3)]).then_some(()))
        .await;
    cut.send(()).unwrap();
    // It is begun anew, and the tip is told again.
    watched
        .until(|told| (tips(told).len() >= 2).then_some(()))
        .await;
    watched.failures(Topic::Tip, 1).await;
    proxy.abort();
}

#[tokio::test]
async fn a_probe_tells_the_first_tip_or_why_there_is_no_stream() {
    let service = Service::new(Act::Send(tip(5)), silent()).await;
    assert_eq!(service.indexer().probe().await.unwrap(), Some(block(5)));
    let service = Service::new(silent(), silent()).await;
    assert_eq!(service.indexer().probe().await.unwrap(), None);
    let service = Service::new(Act::Send(tip(5)), Act::Refuse(200, "12")).await;
    assert!(service.indexer().probe().await.is_err());
}

#[test]
fn an_address_has_no_path_and_no_password() {
    for (wrong, part) in [
        ("http://127.0.0.1:8230/zebra", "without a path"),
        ("127.0.0.1", "port is missing"),
        ("http://me:secret@127.0.0.1:8230", "password"),
    ] {
        let error = Indexer::new(wrong).unwrap_err().to_string();
        assert!(error.contains(part) && !error.contains("secret"), "{error}");
    }
}
