//! Recorded chains as chain files.

use std::{
    fs::File,
    io::{BufRead, BufReader},
    path::PathBuf,
};

use anyhow::{Context, Result, ensure};
use lightship_chain::{BlockHash, Network, TxId, Upgrade, parse::Block};

use super::file::{About, ChainWriter, Trees};

/// Makes a chain file of recorded blocks.
#[derive(Clone, Debug, clap::Args)]
pub struct PackArguments {
    /// The blocks from genesis on, each in hexadecimal on a line of its own; empty lines and lines that begin with # are passed over.
    #[arg(long)]
    pub(crate) blocks: PathBuf,
    /// The chain file to write; its index goes into a folder beside it.
    #[arg(long)]
    pub(crate) out: PathBuf,
    /// First height of an upgrade, such as NU5=40, in order; once for each.
    #[arg(long = "upgrade", value_parser = upgrade)]
    pub(crate) upgrades: Vec<(Upgrade, u32)>,
    /// How trees are hashed: stand-in or consensus.
    #[arg(long, default_value = "stand-in")]
    pub(crate) trees: Trees,
}

impl PackArguments {
    /// Packs, and says what the file holds.
    ///
    /// # Errors
    ///
    /// If the lines are no chain, or the disk says so.
    pub fn run(&self) -> Result<String> {
        let file = File::open(&self.blocks)
            .with_context(|| format!("opening {}", self.blocks.display()))?;
        let mut writer: Option<ChainWriter> = None;
        let mut parent = BlockHash::ZERO;
        for (number, line) in (1..).zip(BufReader::new(file).lines()) {
            let line = line?;
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let bytes = const_hex::decode(line.trim())
                .with_context(|| format!("line {number} is no hexadecimal"))?;
            let block = Block::parse(&bytes).with_context(|| format!("line {number}"))?;
            ensure!(
                block.header().previous() == parent,
                "the block on line {number} does not stand on the one before it"
            );
            parent = block.header().hash();
            let ids: Vec<TxId> = block.transactions().map(|each| each.id()).collect();
            if writer.is_none() {
                let network = Network::from_genesis(parent).map_or("regtest", Network::name);
                writer = Some(self.create(network)?);
            }
            if let Some(writer) = &mut writer {
                writer.best(&bytes, &ids)?;
            }
        }
        let writer = writer.context("there is no block")?;
        Ok(format!("{:?}", writer.finish()?))
    }

    fn create(&self, network: &str) -> Result<ChainWriter> {
        let about = About {
            network: network.to_owned(),
            upgrades: self
                .upgrades
                .iter()
                .map(|(upgrade, height)| (upgrade.name().to_owned(), *height))
                .collect(),
            origin: format!("packed from {}", self.blocks.display()),
        };
        // Says what is out of order before an hour's work.
        about.activations()?;
        ChainWriter::create(&self.out, &about, self.trees)
    }
}

fn upgrade(text: &str) -> Result<(Upgrade, u32), String> {
    let (name, height) = text
        .split_once('=')
        .ok_or_else(|| format!("'{text}' is no NAME=HEIGHT"))?;
    let upgrade = Upgrade::ALL
        .into_iter()
        .find(|upgrade| upgrade.name().eq_ignore_ascii_case(name))
        .ok_or_else(|| format!("unknown upgrade '{name}'"))?;
    let height = height
        .parse()
        .map_err(|_| format!("'{height}' is no height"))?;
    Ok((upgrade, height))
}
