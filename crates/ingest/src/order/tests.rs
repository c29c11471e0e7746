use std::{sync::Arc, thread};

use lightship_chain::Height;

use super::*;

const SOON: Duration = Duration::from_secs(20);

fn belt(last: u32, segment: u32, max_bytes: usize, ahead: usize) -> Arc<Belt<u32, u32>> {
    Arc::new(Belt::new(
        HeightRange::new(Height::new(7), Height::new(last)).unwrap(),
        NonZeroU32::new(segment).unwrap(),
        max_bytes,
        ahead,
    ))
}

/// Workers that put every height one by one, with pauses that differ, and fail at `broken`.
fn staff(belt: &Arc<Belt<u32, u32>>, workers: u64, bytes: usize, broken: Option<u32>) {
    for worker in 0..workers {
        let belt = Arc::clone(belt);
        thread::spawn(move || {
            while let Some(piece) = belt.take() {
                let mut outcome = Ok(());
                for height in piece.heights.iter().map(Height::get) {
                    if (u64::from(height) * 7 + worker) % 13 == 0 {
                        thread::sleep(Duration::from_micros(300 * worker));
                    }
                    if Some(height) == broken {
                        outcome = Err(height);
                        break;
                    }
                    if !belt.put(piece, vec![height], bytes) {
                        return;
                    }
                }
                belt.finish(piece, outcome);
            }
        });
    }
}

fn read(belt: &Belt<u32, u32>) -> (Vec<u32>, Option<u32>) {
    let mut seen = Vec::new();
    loop {
        match belt.next(SOON) {
            Next::Items(items) => seen.extend(items),
            Next::Failed(at) => return (seen, Some(at)),
            Next::End => return (seen, None),
            Next::Waiting => panic!("nothing came after {}", seen.len()),
        }
    }
}

#[test]
fn what_many_workers_fill_is_read_in_order() {
    for workers in 1..5 {
        let belt = belt(1_003, 10, 1_000, 8);
        staff(&belt, workers, 1, None);
        assert_eq!(read(&belt), ((7..=1_003).collect(), None));
        assert_eq!(belt.next(Duration::ZERO), Next::End);
        assert_eq!(belt.take(), None);
    }
}

#[test]
fn the_bytes_in_between_are_bounded() {
    let belt = belt(700, 16, 100, 8);
    staff(&belt, 4, 10, None);
    assert_eq!(read(&belt).0.len(), 694);
    assert!(belt.peak_bytes() <= 110, "{}", belt.peak_bytes());
}

#[test]
fn an_item_above_the_bound_still_gets_through() {
    let belt = belt(40, 4, 5, 3);
    staff(&belt, 3, 1_000, None);
    assert_eq!(read(&belt), ((7..=40).collect(), None));
}

#[test]
fn a_failure_is_read_after_everything_below_it() {
    let belt = belt(500, 10, 1_000, 8);
    staff(&belt, 4, 1, Some(123));
    assert_eq!(read(&belt), ((7..123).collect(), Some(123)));
    assert!(belt.is_closed());
}

#[test]
fn a_closed_belt_sends_waiting_workers_home() {
    let belt = belt(500, 10, 20, 8);
    let piece = belt.take().unwrap();
    let other = belt.take().unwrap();
    assert!(belt.put(piece, vec![7], 20));
    let waiting = {
        let belt = Arc::clone(&belt);
        thread::spawn(move || belt.put(other, vec![17], 20))
    };
    thread::sleep(Duration::from_millis(20));
    assert!(!waiting.is_finished());
    drop(CloseOnDrop(&belt));
    assert!(!waiting.join().unwrap());
    assert_eq!(belt.take(), None);
}

#[test]
fn a_reader_who_gets_nothing_is_told_so() {
    let belt = belt(500, 10, 20, 8);
    assert_eq!(belt.next(Duration::from_millis(5)), Next::Waiting);
}

#[test]
fn a_range_is_cut_without_gap_or_overlap() {
    for last in 7..40 {
        for segment in 1..12 {
            let belt = belt(last, segment, 1, 1_000);
            let mut heights = Vec::new();
            while let Some(piece) = belt.take() {
                heights.extend(piece.heights.iter().map(Height::get));
            }
            assert_eq!(heights, (7..=last).collect::<Vec<_>>());
        }
    }
}
