//! A pool that is active and has no note yet.

use lightship_chain::Upgrade;
use lightship_harness::proto::{BlockId, TreeState};
use prost::Message as _;
use zcash_client_backend::proto::service::TreeState as WalletsTreeState;

use super::Laboratory;

/// The field was left empty, which is how a pool looks that does not exist, and a wallet could not begin there.
#[tokio::test(flavor = "multi_thread")]
async fn a_wallet_reads_a_tree_without_notes_as_one_of_size_zero() {
    let mut laboratory = Laboratory::new(Upgrade::Nu6_3, 5, 0);
    let mut client = laboratory.client().await;
    for height in 1..=5 {
        let asked = BlockId {
            height,
            hash: Vec::new(),
        };
        let answer = client.unary("GetTreeState", asked).await.unwrap();
        let state = TreeState::decode(&answer[..]).unwrap();
        for tree in [
            &state.sapling_tree,
            &state.orchard_tree,
            &state.ironwood_tree,
        ] {
            assert!(!tree.is_empty(), "{height}: {state:?}");
        }
        let theirs = WalletsTreeState::decode(&answer[..]).unwrap();
        assert_eq!(theirs.sapling_tree().unwrap().size(), 0);
        assert_eq!(theirs.orchard_tree().unwrap().size(), 0);
        assert_eq!(theirs.ironwood_tree().unwrap().size(), 0);
        theirs.to_chain_state().unwrap();
    }
    laboratory.mine(3);
    let mut client = laboratory.client().await;
    let latest = client
        .unary("GetLatestTreeState", lightship_harness::proto::Empty {})
        .await
        .unwrap();
    let theirs = WalletsTreeState::decode(&latest[..]).unwrap();
    assert_eq!(theirs.sapling_tree().unwrap().size(), 3);
}
