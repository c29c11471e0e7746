//! From the flags that name a node to the traits it is used through.
//!
//! In: `--node`, its credentials, `--zebra-state`. Out: a source of blocks, and what answers questions that are passed through. Only the
//! folder of a state is looked at here; whether the node answers is found out by those who ask it.

use std::sync::Arc;

use lightship_chain::Network;
use lightship_source::{
    BlockSource,
    indexer::Indexer,
    rpc::{Endpoint, RpcNode, RpcSource},
};

use crate::{
    cli::NodeArgs,
    config,
    run::{Feed, Upstream},
};

/// For `lightship serve`, which cannot do without a node.
pub(crate) fn upstream(
    typed: &NodeArgs,
    indexer: Option<Indexer>,
    network: Option<Network>,
) -> anyhow::Result<Upstream> {
    let endpoint = config::endpoint(typed)?;
    Ok(Upstream {
        node: Arc::new(RpcNode::new(endpoint)),
        indexer,
        hash: Arc::new(lightship_merkle::Consensus),
        feed: feed(typed, network)?,
    })
}

/// For `lightship index`: a node, its state, or both.
pub(crate) fn feed(typed: &NodeArgs, network: Option<Network>) -> anyhow::Result<Feed> {
    match (&typed.zebra_state, &typed.node) {
        (Some(folder), None) => Ok(Feed {
            name: folder.display().to_string(),
            pace: config::pace(typed),
            source: state(folder, network, None)?,
        }),
        (folder, _) => {
            let endpoint = config::endpoint(typed)?;
            Ok(Feed {
                name: endpoint.address.url(),
                pace: config::pace(typed),
                source: match folder {
                    Some(folder) => state(folder, network, Some(endpoint))?,
                    None => Arc::new(RpcSource::new(endpoint)),
                },
            })
        }
    }
}

#[cfg(feature = "zebra-state")]
fn state(
    folder: &std::path::Path,
    network: Option<Network>,
    endpoint: Option<Endpoint>,
) -> anyhow::Result<Arc<dyn BlockSource>> {
    use anyhow::Context;
    use lightship_source::zebra_state::ZebraStateSource;
    // A Mainnet state has thousands of files, all of which are kept open.
    crate::open_files::raise();
    let source = ZebraStateSource::open(folder, network, endpoint.map(RpcSource::new))
        .context("--zebra-state")?;
    Ok(Arc::new(source))
}

#[cfg(not(feature = "zebra-state"))]
fn state(
    _folder: &std::path::Path,
    _network: Option<Network>,
    _endpoint: Option<Endpoint>,
) -> anyhow::Result<Arc<dyn BlockSource>> {
    Err(config::Error::NoZebraState.into())
}
