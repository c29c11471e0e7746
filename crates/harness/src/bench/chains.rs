//! Forged chains, made for a run or kept for the next one.
//!
//! In: what the forge is told, and a folder. Out: a chain file with its index, and the command that makes it again. A chain whose trees are hashed as
//! consensus does takes minutes, so the folder may outlive the run: a file in it that says it was made the same way is taken as it is. Whether it holds the same
//! blocks tells the digest in the record.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

use super::plan::ForgePlan;
use crate::forge::{
    self, Settings,
    file::{ChainFile, Trees, index_folder},
};

/// About every so many blocks the forge lets a branch leave the chain; a reorg may take one.
const BRANCH_EVERY: u32 = 200;

/// The chain of `plan` in the folder `within`, and the command that makes it again as `name`.
///
/// # Errors
///
/// When the forge or the disk say so, or this build cannot hash trees so.
pub fn forged(plan: &ForgePlan, within: &Path, name: &str) -> Result<(PathBuf, String)> {
    let settings = Settings {
        branch_every: BRANCH_EVERY,
        ..Settings::new(plan.profile, plan.blocks, plan.seed)
    };
    let trees = match plan.trees {
        Trees::StandIn => "stand-in",
        Trees::Consensus => "consensus",
    };
    let command = format!(
        "lightship-harness forge --profile {} --blocks {} --seed {} --branch-every {BRANCH_EVERY} --trees {trees} --out {name}",
        plan.profile, plan.blocks, plan.seed
    );
    let path = within.join(format!(
        "{}-{}-{}-{trees}",
        plan.profile, plan.blocks, plan.seed
    ));
    if is_made(&path, &settings, plan.trees) {
        eprintln!("  taken as it lies in {}", within.display());
        return Ok((path, command));
    }
    fs::create_dir_all(within).with_context(|| within.display().to_string())?;
    // What lies under the final name is whole.
    let draft = within.join("being-forged");
    remove(&draft)?;
    forge::command::write(settings, &draft, plan.trees)?;
    remove(&path)?;
    fs::rename(index_folder(&draft), index_folder(&path))?;
    fs::rename(&draft, &path)?;
    Ok((path, command))
}

/// Whether a whole chain file lies there that says it was made so.
fn is_made(path: &Path, settings: &Settings, trees: Trees) -> bool {
    ChainFile::open(path).is_ok_and(|chain| {
        chain.trees() == trees
            && chain.blocks() == settings.blocks
            && chain.about().origin == forge::command::origin(settings)
    })
}

fn remove(chain: &Path) -> Result<()> {
    let index = index_folder(chain);
    for removed in [fs::remove_file(chain), fs::remove_dir_all(index)] {
        match removed {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("removing {}", chain.display()));
            }
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(seed: u64) -> ForgePlan {
        ForgePlan {
            profile: "tip".parse().unwrap(),
            blocks: 40,
            seed,
            trees: Trees::StandIn,
        }
    }

    #[test]
    fn a_kept_chain_is_taken_again_and_a_damaged_one_is_made_anew() {
        let folder = tempfile::tempdir().unwrap();
        let (path, command) = forged(&plan(1), folder.path(), "tip").unwrap();
        assert!(command.ends_with("--out tip"), "{command}");
        let bytes = fs::read(&path).unwrap();
        let made = fs::metadata(&path).unwrap().modified().unwrap();
        forged(&plan(1), folder.path(), "other").unwrap();
        assert_eq!(fs::metadata(&path).unwrap().modified().unwrap(), made);
        let (other, _) = forged(&plan(2), folder.path(), "tip").unwrap();
        assert_ne!(fs::read(other).unwrap(), bytes);
        // Cut off, as by an end in the middle of it.
        fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
        forged(&plan(1), folder.path(), "tip").unwrap();
        assert_eq!(fs::read(&path).unwrap(), bytes);
    }
}
