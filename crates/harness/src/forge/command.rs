//! The forge on the command line.

use std::{path::PathBuf, time::Instant};

use anyhow::{Result, ensure};

use super::{
    Forge, Forged, Settings,
    file::{self, About, ChainWriter, Trees},
    profile::Profile,
    wallet::Holdings,
};

/// Makes a chain file: a long chain with the statistics of a real one.
#[derive(Clone, Debug, clap::Args)]
pub struct ForgeArguments {
    /// Blocks of the best chain, genesis included.
    #[arg(long)]
    blocks: u32,
    /// Decides everything random: the same seed gives the same bytes.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Which chain to imitate: mainnet, testnet, sandblast, tip or ugly.
    #[arg(long, default_value_t = Profile::Testnet)]
    profile: Profile,
    /// The chain file to write; its index goes into a folder beside it.
    #[arg(long)]
    out: PathBuf,
    /// Let a side branch leave the chain about every so many blocks; 0 for none.
    #[arg(long, default_value_t = 200)]
    branch_every: u32,
    /// How trees are hashed: stand-in, or consensus (some 100 microseconds a note, in a build with the feature curves).
    #[arg(long, default_value = "stand-in")]
    trees: Trees,
    /// Encrypt so many of a thousand notes to the laboratory's wallet: account 0 of the seed "lightship laboratory wallet seed".
    #[cfg(feature = "curves")]
    #[arg(long, default_value_t = 0)]
    wallet_thousandths: u64,
}

impl ForgeArguments {
    /// Forges, and says what came out.
    ///
    /// # Errors
    ///
    /// If the arguments make no sense, or the disk says so.
    pub fn run(&self) -> Result<String> {
        ensure!(self.blocks >= 1, "a chain has at least its genesis block");
        let settings = Settings {
            branch_every: self.branch_every,
            #[cfg(feature = "curves")]
            wallet_thousandths: self.wallet_thousandths,
            ..Settings::new(self.profile, self.blocks, self.seed)
        };
        let start = Instant::now();
        let (summary, holdings) = write(settings, &self.out, self.trees)?;
        let seconds = start.elapsed().as_secs_f64();
        Ok(format!(
            "{} blocks ({} on side branches), {} transactions, {} bytes in {seconds:.1} s: {:.0} blocks/s, {:.1} MB/s; \
             notes: sapling {}, orchard {}, ironwood {}; the wallet's: {holdings:?}; peak memory {} kB",
            summary.blocks,
            summary.side_blocks,
            summary.transactions,
            summary.bytes,
            f64::from(summary.blocks) / seconds,
            summary.bytes as f64 / 1e6 / seconds,
            summary.sizes.sapling,
            summary.sizes.orchard,
            summary.sizes.ironwood,
            peak_memory_kb(),
        ))
    }
}

/// Forges a chain into a file, with its index. Gives what is in it, and what the laboratory's wallet has.
///
/// # Errors
///
/// If this build cannot hash trees so, or the disk says so.
pub fn write(
    settings: Settings,
    path: &std::path::Path,
    trees: Trees,
) -> Result<(file::Summary, Holdings)> {
    let mut forge = Forge::new(settings);
    let origin = origin(&settings);
    let about = About::new("regtest", &forge.plan().activations, origin);
    let mut writer = ChainWriter::create(path, &about, trees)?;
    for forged in &mut forge {
        match forged {
            Forged::Best(block) => writer.best(&block.bytes, &block.transactions)?,
            Forged::Side(block) => writer.side(block.id.height, &block.bytes)?,
        }
    }
    Ok((writer.finish()?, forge.holdings()))
}

/// What a chain file that was made with `settings` says of its origin.
pub fn origin(settings: &Settings) -> String {
    format!(
        "lightship-harness forge --profile {} --blocks {} --seed {} --branch-every {} --wallet-thousandths {}",
        settings.profile,
        settings.blocks,
        settings.seed,
        settings.branch_every,
        settings.wallet_thousandths
    )
}

/// Makes the index of a chain file anew, for one that was appended to or came without.
#[derive(Clone, Debug, clap::Args)]
pub struct IndexArguments {
    /// The chain file.
    chain: PathBuf,
    /// How trees are hashed: stand-in or consensus.
    #[arg(long, default_value = "stand-in")]
    trees: Trees,
}

impl IndexArguments {
    /// Indexes, and says what the file holds.
    ///
    /// # Errors
    ///
    /// If it is no chain file, or the disk says so.
    pub fn run(&self) -> Result<String> {
        let summary = file::index(&self.chain, self.trees)?;
        Ok(format!("{summary:?}"))
    }
}

/// The most memory that this process has had, as the system counts it; 0 where it does not say.
fn peak_memory_kb() -> u64 {
    std::fs::read_to_string("/proc/self/status")
        .unwrap_or_default()
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .and_then(|value| value.trim().trim_end_matches("kB").trim().parse().ok())
        .unwrap_or(0)
}
