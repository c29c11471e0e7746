use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::*;

#[tokio::test]
async fn small_writes_leave_together_and_in_order() {
    let (near, mut far) = tokio::io::duplex(1 << 20);
    let lent = Arc::<Lent>::default();
    let mut gathering = Gathering::new(near, Arc::clone(&lent));
    let handle = gathering.handle();
    let mut expected = Vec::new();
    for part in 0..100u8 {
        let bytes = vec![part; 1_000];
        gathering.write_all(&bytes).await.unwrap();
        gathering.flush().await.unwrap();
        expected.extend(bytes);
    }
    assert_eq!(handle.lock().waiting, 100_000);
    // What was lent is not copied; more than enough for one write makes room first.
    let large = Bytes::from(vec![200; 100_000]);
    lent.lend(&large, None);
    gathering.write_all(&large).await.unwrap();
    assert_eq!(handle.lock().queue[0].as_ptr(), large.as_ptr());
    assert_eq!(handle.lock().waiting, 100_000);
    expected.extend(large);
    gathering.write_all(b"the end").await.unwrap();
    expected.extend(b"the end");
    let mut read = vec![0; 100_000];
    far.read_exact(&mut read).await.unwrap();
    gathering.shutdown().await.unwrap();
    far.read_to_end(&mut read).await.unwrap();
    assert_eq!(read, expected);
}

/// Takes everything at once, and counts it.
#[derive(Clone, Default)]
struct Sink(Arc<std::sync::atomic::AtomicUsize>);

impl Sink {
    fn taken(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

impl AsyncWrite for Sink {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.0.fetch_add(bytes.len(), Ordering::SeqCst);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// Ends when it is polled the second time, for which it asks nobody.
async fn until_polled_again() {
    let mut was_polled = false;
    std::future::poll_fn(|_| match std::mem::replace(&mut was_polled, true) {
        true => Poll::Ready(()),
        false => Poll::Pending,
    })
    .await;
}

/// A connection that has `answers` of so many bytes to send, each when it is polled after the one before; and where they go.
fn sender<'a>(
    answers: &'a [usize],
    turns: &Turns,
) -> (Driver<impl Future<Output = ()> + 'a, Sink>, Sink) {
    let memory = crate::memory::Memory::new(1_000);
    let calls = Calls::new(Patrol::new(std::time::Duration::from_secs(60), memory));
    let sink = Sink::default();
    let mut stream = Gathering::new(sink.clone(), calls.lent());
    let handle = stream.handle();
    let connection = async move {
        for (place, bytes) in answers.iter().enumerate() {
            if place > 0 {
                until_polled_again().await;
            }
            for _ in 0..bytes / 1_000 {
                stream.write_all(&[7; 1_000]).await.unwrap();
            }
            stream.write_all(&vec![7; bytes % 1_000]).await.unwrap();
        }
    };
    (Driver::new(connection, handle, calls, turns), sink)
}

#[tokio::test]
async fn connections_take_turns_however_fast_their_clients_are() {
    const BYTES: usize = 40 * TURN_BYTES;
    let turns = Turns::among(2);
    let (mut one, one_took) = sender(&[BYTES], &turns);
    let (mut other, other_took) = sender(&[BYTES], &turns);
    // Somebody else has the only turn, and both must wait after their first.
    let mut held = turns.line();
    let turn = std::future::poll_fn(|cx| held.poll_turn(cx)).await;
    let mut waits = turns.line();
    assert!(futures_util::poll!(std::future::poll_fn(|cx| waits.poll_turn(cx))).is_pending());
    for _ in 0..3 {
        assert!(futures_util::poll!(&mut one).is_pending());
        assert!(futures_util::poll!(&mut other).is_pending());
    }
    let a_turn = 1..=TURN_BYTES + GATHER_BYTES;
    assert!(a_turn.contains(&one_took.taken()), "{}", one_took.taken());
    assert!(a_turn.contains(&other_took.taken()));
    drop((turn, waits));
    // The first in the line is the first to go on, for one turn while the other waits.
    assert!(futures_util::poll!(&mut other).is_pending());
    assert!(a_turn.contains(&other_took.taken()));
    let before = one_took.taken();
    assert!(futures_util::poll!(&mut one).is_pending());
    let one_more = one_took.taken() - before;
    assert!(a_turn.contains(&one_more), "{one_more}");
    // They come back by themselves, and their last bytes leave with them.
    let both = async { tokio::join!(one, other) };
    let whole = tokio::time::timeout(std::time::Duration::from_secs(10), both);
    whole.await.expect("nothing else wakes them");
    assert_eq!([one_took.taken(), other_took.taken()], [BYTES; 2]);
}

#[tokio::test]
async fn a_connection_alone_goes_on_for_a_while_if_a_thread_is_left() {
    for (threads, least) in [(1, 1), (2, LONE_TURN_BYTES)] {
        let turns = Turns::among(threads);
        let (mut lone, taken) = sender(&[2 * LONE_TURN_BYTES], &turns);
        // Not in its first turn, which it takes without asking.
        assert!(futures_util::poll!(&mut lone).is_pending());
        let first = taken.taken();
        assert!((1..=TURN_BYTES + GATHER_BYTES).contains(&first), "{first}");
        assert!(futures_util::poll!(&mut lone).is_pending());
        let second = taken.taken() - first;
        let most = least + TURN_BYTES + GATHER_BYTES;
        assert!((least..=most).contains(&second), "{second}");
    }
}

#[tokio::test]
async fn a_large_answer_that_ends_in_a_short_turn_keeps_its_connection_in_line() {
    const ANSWERS: [usize; 6] = [TURN_BYTES, 0, 1_000, 2_000, 3_000, 0];
    let turns = Turns::among(2);
    let (mut driver, sink) = sender(&ANSWERS, &turns);
    let mut held = turns.line();
    let mut in_line = Vec::new();
    let mut taken = 0;
    for bytes in &ANSWERS[..5] {
        let turn = std::future::poll_fn(|cx| held.poll_turn(cx)).await;
        assert!(futures_util::poll!(&mut driver).is_pending());
        let wrote = sink.taken() > taken;
        drop(turn);
        if !wrote {
            assert!(futures_util::poll!(&mut driver).is_pending());
        }
        taken += bytes;
        assert_eq!(sink.taken(), taken);
        in_line.push(!wrote);
    }
    assert_eq!(in_line, [false, true, true, true, false]);
}

#[tokio::test]
async fn who_has_little_to_send_waits_for_nobody() {
    const ANSWERS: [usize; 101] = [SHORT_BYTES; 101];
    let turns = Turns::among(2);
    let mut held = turns.line();
    let _turn = std::future::poll_fn(|cx| held.poll_turn(cx)).await;
    let (mut driver, sink) = sender(&ANSWERS, &turns);
    for answers in 1..=100 {
        assert!(futures_util::poll!(&mut driver).is_pending());
        assert_eq!(sink.taken(), answers * SHORT_BYTES);
    }
    assert!(futures_util::poll!(&mut driver).is_ready());
}

#[tokio::test]
async fn calls_run_where_the_connection_is_and_end_with_it() {
    let memory = crate::memory::Memory::new(1_000);
    let calls = Calls::new(Patrol::new(std::time::Duration::from_secs(60), memory));
    let executor = calls.clone();
    let (near, _far) = tokio::io::duplex(64);
    let (done, finished) = tokio::sync::oneshot::channel::<()>();
    let held = Arc::new(());
    let hung = Arc::clone(&held);
    let connection = async move {
        use hyper::rt::Executor as _;
        executor.execute(async move {
            let _hung = hung;
            std::future::pending::<()>().await;
        });
        executor.execute(async move {
            tokio::task::yield_now().await;
            let _ = done.send(());
        });
        finished.await.unwrap();
        7
    };
    let driver = Driver::new(
        connection,
        Gathering::new(near, calls.lent()),
        calls,
        &Turns::among(1),
    );
    let driver = tokio::spawn(driver);
    assert_eq!(driver.await.unwrap(), 7);
    assert_eq!(Arc::strong_count(&held), 1, "the call that hung is gone");
}

#[tokio::test]
async fn what_a_call_lent_is_shared_though_the_call_has_ended() {
    let memory = crate::memory::Memory::new(1_000);
    let calls = Calls::new(Patrol::new(std::time::Duration::from_secs(60), memory));
    let (near, _far) = tokio::io::duplex(1 << 20);
    let mut stream = Gathering::new(near, calls.lent());
    let (inside, handle) = (stream.handle(), stream.handle());
    let (executor, lent) = (calls.clone(), calls.lent());
    let connection = async move {
        use hyper::rt::Executor as _;
        let piece = Bytes::from(vec![7; 50_000]);
        let (done, ended) = tokio::sync::oneshot::channel::<()>();
        let lending = piece.clone();
        executor.execute(async move {
            lent.lend(&lending, None);
            let _ = done.send(());
        });
        ended.await.unwrap();
        stream.write_all(&piece).await.unwrap();
        inside.lock().queue.front().map(|first| first.as_ptr()) == Some(piece.as_ptr())
    };
    assert!(Driver::new(connection, handle, calls, &Turns::among(1)).await);
}
