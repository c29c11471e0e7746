use super::*;

#[tokio::test]
async fn what_is_covered_is_held_until_its_last_copy_is_gone() {
    let memory = Memory::new(100);
    let lease = Arc::new(memory.try_ready(60).unwrap());
    let whole = lease.cover(Bytes::from(vec![7; 50]));
    drop(lease);
    let part = whole.slice(10..20);
    drop(whole);
    assert_eq!(memory.held(), 60);
    assert_eq!(memory.try_ready(50).err(), Some(Refusal::TooMuchHeld));
    assert_eq!(part[..], [7; 10]);
    drop(part);
    assert_eq!(memory.held(), 0);
    // What is larger than everything goes alone.
    let all = memory.try_ready(1_000).unwrap();
    assert_eq!(memory.held(), 100);
    assert!(memory.is_short() && memory.try_ready(1).is_err());
    let little = all.resize(10).await.unwrap();
    assert_eq!(memory.held(), 10);
    let more = little.resize(70).await.unwrap();
    assert_eq!(memory.held(), 70);
    drop(more);
    assert!(memory.held() == 0 && !memory.is_short());
}

#[tokio::test]
async fn who_waits_gets_what_is_given_back_or_a_refusal() {
    let memory = Memory {
        patience: Duration::from_secs(20),
        ..Memory::new(100)
    };
    let held = memory.try_ready(90).unwrap();
    let waiting = memory.clone();
    let waiting = tokio::spawn(async move { waiting.ahead(50).await.map(drop) });
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert!(!waiting.is_finished());
    drop(held);
    assert_eq!(waiting.await.unwrap(), Ok(()));
    let memory = Memory {
        patience: Duration::from_millis(20),
        ..memory
    };
    let _held = memory.try_ready(90).unwrap();
    assert_eq!(memory.ahead(50).await.err(), Some(Refusal::TooMuchHeld));
    assert_eq!(memory.held(), 90);
}

#[tokio::test]
async fn no_kind_of_use_keeps_another_from_its_part() {
    let memory = Memory {
        turn: Duration::from_millis(20),
        ..Memory::new(800)
    };
    // Questions: a half, however long one may be, and the line of those who wait for their turn takes nothing.
    let asking = [
        memory.question(300).await.unwrap(),
        memory.question(100).await.unwrap(),
    ];
    let mut line: Vec<_> = (0..20).map(|_| Box::pin(memory.question(9_999))).collect();
    for waiting in &mut line {
        assert!(futures_util::poll!(waiting).is_pending());
    }
    assert_eq!(memory.held(), 400);
    // Requests: a quarter, or one.
    let mut request = memory.try_request(150).unwrap();
    assert!(memory.try_request(60).is_err() && request.try_grow(60).is_err());
    request.try_grow(50).unwrap();
    assert_eq!(memory.held(), 600);
    // What is made ahead: the rest, without the eighth that is left to answers that are ready.
    let ahead = memory.try_ahead(100).unwrap();
    assert!(memory.try_ahead(1).is_err());
    let mut next = Box::pin(memory.ahead(1));
    assert!(futures_util::poll!(&mut next).is_pending());
    let ready = memory.try_ready(100).unwrap();
    assert_eq!(memory.held(), 800);
    assert!(memory.try_ready(1).is_err());
    drop((ready, ahead, next, request, line));
    assert_eq!(memory.held(), 400);
    assert!(memory.question(1).await.is_err(), "its turn does not come");
    // Whose length is known asks no more, and makes room for one who does.
    let [first, second] = asking;
    let known = first.resize(20).await.unwrap();
    assert_eq!(memory.held(), 120);
    let next = memory.question(300).await.unwrap();
    assert_eq!(memory.held(), 420);
    drop((known, second, next));
    assert_eq!(memory.held(), 0);
    let alone = memory.try_request(10_000).unwrap();
    assert_eq!(memory.held(), 700);
    drop(alone);
    assert_eq!(memory.held(), 0);
}
