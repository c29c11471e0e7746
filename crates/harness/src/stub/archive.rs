//! A chain file as the bottom of a simulated node's chain.

use lightship_chain::{BlockHash, Height, ShieldedPool, TxId};
use lightship_source::simulated::{Address, Archive, ArchivedBlock, Event, EventKind, TreeNode};

use crate::forge::file::{ChainFile, Direction};

impl Archive for ChainFile {
    fn blocks(&self) -> u32 {
        ChainFile::blocks(self)
    }

    fn block(&self, height: Height) -> Option<ArchivedBlock> {
        let row = self.row(height)?;
        Some(ArchivedBlock {
            hash: row.hash,
            sizes: row.sizes,
            bytes: ChainFile::block(self, height)?,
        })
    }

    fn height_of(&self, hash: &BlockHash) -> Option<Height> {
        ChainFile::height_of(self, hash)
    }

    fn place_of(&self, id: &TxId) -> Option<(Height, u32)> {
        ChainFile::place_of(self, id)
    }

    fn node(&self, pool: ShieldedPool, level: u8, index: u32) -> Option<TreeNode> {
        ChainFile::node(self, pool, level, index)
    }

    fn events(&self, address: Address, from: Height) -> Box<dyn Iterator<Item = Event> + '_> {
        let events = ChainFile::events(self, Some(address), from).map(|event| Event {
            height: event.height,
            position: event.position,
            index: event.index,
            value_zat: event.value_zat,
            kind: match event.direction {
                Direction::Paid => EventKind::Paid {
                    spent_at: event.spent_at(),
                },
                Direction::Spends => EventKind::Spends,
            },
        });
        Box::new(events)
    }

    fn spent_at(
        &self,
        address: Option<Address>,
        height: Height,
        position: u32,
        index: u32,
    ) -> Option<Height> {
        self.output(address, height, position, index)?.spent_at()
    }

    fn transparent_zat(&self, height: Height) -> u64 {
        ChainFile::transparent_zat(self, height)
    }

    fn bytes_through(&self, height: Height) -> u64 {
        self.row(height)
            .map_or(0, |row| row.offset + u64::from(row.length))
    }
}
