//! Random histories: whatever happens to the chain, the index ends as the model of it.

use lightship_ingest::Settings;
use proptest::prelude::*;

use crate::{
    running::{assert_model, settings, start},
    scripted::Scripted,
};

#[derive(Clone, Debug)]
enum Event {
    Extend(usize),
    Reorg {
        depth: usize,
        blocks: usize,
    },
    Rollback(usize),
    /// Wait until the index has caught up.
    Settle,
    Restart,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        3 => (1..6usize).prop_map(Event::Extend),
        1 => (20..60usize).prop_map(Event::Extend),
        3 => (1..12usize, 0..14usize).prop_map(|(depth, blocks)| Event::Reorg { depth, blocks }),
        1 => (10..60usize, 1..70usize).prop_map(|(depth, blocks)| Event::Reorg { depth, blocks }),
        2 => (1..12usize).prop_map(Event::Rollback),
        1 => (10..40usize).prop_map(Event::Rollback),
        4 => Just(Event::Settle),
        1 => Just(Event::Restart),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, max_shrink_iters: 200, ..ProptestConfig::default() })]

    #[test]
    fn any_history_leaves_the_model(
        length in prop_oneof![1..80usize, 100..260usize],
        newest_first_blocks in prop_oneof![Just(0), 1..90u32],
        seed in 100..1_000_000u64,
        events in proptest::collection::vec(event(), 1..25),
    ) {
        let source = Scripted::new(seed, length);
        let dir = tempfile::tempdir().unwrap();
        let settings = Settings { newest_first_blocks, ..settings() };
        let mut running = start(&source, dir.path(), settings.clone());
        for event in events {
            let most = source.best().height.get() as usize;
            match event {
                Event::Extend(blocks) => {
                    source.extend(blocks);
                }
                Event::Reorg { depth, blocks } => {
                    source.reorg(depth.min(most), blocks);
                }
                Event::Rollback(depth) => {
                    source.rollback(depth.min(most));
                }
                Event::Settle => {
                    let view = running.reaches(source.best());
                    assert_model(&view, &source);
                }
                Event::Restart => {
                    running.stop();
                    running = start(&source, dir.path(), settings.clone());
                }
            }
        }
        let view = running.reaches(source.best());
        assert_model(&view, &source);
        running.stop();
    }
}
