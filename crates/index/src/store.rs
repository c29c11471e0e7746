//! What a store is.

use std::{fmt, num::NonZeroU32, path::Path, sync::Arc};

use lightship_chain::{BlockHash, Network};

use crate::{Result, disk::Files, layout::Layout, recover};

/// What a store is, written into it when it is made; another store is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StoreId {
    /// Whose blocks.
    pub network: Network,
    /// The block at height 0.
    pub genesis: BlockHash,
    /// Heights in a sealed range.
    pub range_blocks: NonZeroU32,
}

impl StoreId {
    /// Heights in a sealed range, unless chosen otherwise: about two days of blocks, 1 to 100 MB a file.
    pub const DEFAULT_RANGE_BLOCKS: NonZeroU32 = NonZeroU32::new(2048).expect("2048 is not 0");

    /// The store of one chain, with ranges of the usual size.
    pub const fn new(network: Network, genesis: BlockHash) -> StoreId {
        StoreId {
            network,
            genesis,
            range_blocks: StoreId::DEFAULT_RANGE_BLOCKS,
        }
    }

    /// What the store in `dir` is, or `None` if there is none; reads the manifest only.
    ///
    /// # Errors
    ///
    /// [`Error::Version`](crate::Error::Version) if it is of another format, [`Error::Corrupt`](crate::Error::Corrupt) if the manifest's
    /// bytes are wrong, [`Error::Io`](crate::Error::Io).
    pub fn of(dir: &Path) -> Result<Option<StoreId>> {
        let layout = Layout {
            disk: Arc::new(Files),
            dir: dir.to_owned(),
        };
        Ok(recover::read_manifest(&layout)?.map(|manifest| manifest.store))
    }
}

impl fmt::Display for StoreId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let StoreId {
            network,
            genesis,
            range_blocks,
        } = self;
        write!(
            f,
            "an index of network {network} with genesis {genesis} in ranges of {range_blocks} blocks"
        )
    }
}
