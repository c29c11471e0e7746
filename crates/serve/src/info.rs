//! What the node says of itself, remembered.
//!
//! Wallets use `GetLightdInfo` as the probe of a server, so it is answered from memory; a task asks the node anew in the
//! background. Only a node that was never reached leaves nothing to say.

use std::{
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use lightship_source::{Node, NodeInfo};

use crate::{backend::Heard, status::Refusal};

/// Between two questions while the node answers.
const REFRESH: Duration = Duration::from_secs(10);
/// And while it does not.
const RETRY: Duration = Duration::from_secs(2);

/// The last that the node said of itself.
pub(crate) struct Info {
    node: Arc<dyn Node>,
    heard: Arc<Heard>,
    last: RwLock<Option<Arc<NodeInfo>>>,
}

impl Info {
    pub(crate) fn new(node: Arc<dyn Node>, heard: Arc<Heard>) -> Info {
        Info {
            node,
            heard,
            last: RwLock::default(),
        }
    }

    /// What is remembered.
    pub(crate) fn last(&self) -> Option<Arc<NodeInfo>> {
        // The lock guards one pointer, which no panic leaves half written.
        self.last
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// What is remembered, or what the node says now if nothing is.
    pub(crate) async fn get(&self) -> Result<Arc<NodeInfo>, Refusal> {
        match self.last() {
            Some(info) => Ok(info),
            None => self.ask().await,
        }
    }

    /// Asks again and again, for ever.
    pub(crate) async fn refresh(self: Arc<Info>) {
        loop {
            let pause = match self.ask().await {
                Ok(_) => REFRESH,
                Err(_) => RETRY,
            };
            tokio::time::sleep(pause).await;
        }
    }

    async fn ask(&self) -> Result<Arc<NodeInfo>, Refusal> {
        let info = Arc::new(self.node.info().await?);
        self.heard.now();
        *self.last.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&info));
        Ok(info)
    }
}
