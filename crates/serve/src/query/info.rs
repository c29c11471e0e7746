//! The server itself: `GetLightdInfo` and `Ping`.

use std::{sync::atomic::Ordering, time::Duration};

use lightship_chain::{Height, Upgrade};
use lightship_source::NodeInfo;

use super::Query;
use crate::{proto, status::Refusal, tip::served_tip};

/// The protocol's version, with the `v` that wallets check for.
const PROTOCOL: &str = "v0.5.0";
const VENDOR: &str = "Lightship";

impl Query {
    /// `GetLightdInfo`.
    pub(crate) async fn lightd_info(&self) -> Result<proto::LightdInfo, Refusal> {
        (self.look)();
        let info = self.info.get().await?;
        let tip = served_tip(&self.reader.view()).map_or(Height::GENESIS, |tip| tip.height);
        let build = &self.settings.build;
        let pending = pending_upgrade(&info, tip);
        Ok(proto::LightdInfo {
            version: build.version.clone(),
            vendor: VENDOR.into(),
            taddr_support: true,
            chain_name: self.chain_name_of(&info),
            sapling_activation_height: info
                .upgrades
                .iter()
                .find(|upgrade| upgrade.branch_id == Upgrade::Sapling.branch_id())
                .map_or(0, |upgrade| upgrade.height.into()),
            consensus_branch_id: format!("{:08x}", branch_at(&info, tip)),
            block_height: tip.into(),
            git_commit: build.commit.clone(),
            branch: build.branch.clone(),
            build_date: build.date.clone(),
            build_user: String::new(),
            estimated_height: info.estimated_height.max(tip).into(),
            zcashd_build: info.build.clone(),
            zcashd_subversion: info.subversion.clone(),
            donation_address: self.settings.donation_address.clone(),
            upgrade_name: pending.map_or(String::new(), |(name, _)| name.to_owned()),
            upgrade_height: pending.map_or(0, |(_, height)| height.into()),
            lightwallet_protocol_version: PROTOCOL.into(),
        })
    }

    fn chain_name_of(&self, info: &NodeInfo) -> String {
        self.settings
            .chain_name
            .clone()
            .unwrap_or_else(|| info.chain.clone())
    }

    /// What wallets are told the chain is called: as in `GetLightdInfo`, also when the node has not been reached.
    pub(crate) fn chain_name(&self) -> String {
        match (self.info.last(), &self.settings.chain_name) {
            (Some(info), _) => self.chain_name_of(&info),
            (None, Some(name)) => name.clone(),
            (None, None) => self.network().name().to_owned(),
        }
    }

    /// `Ping`: how many pings were at work before and after this one slept.
    pub(crate) async fn ping(
        &self,
        request: &proto::Duration,
    ) -> Result<proto::PingResponse, Refusal> {
        if !self.settings.ping {
            return Err(Refusal::NotOffered { what: "Ping" });
        }
        let limit = self.settings.limits.ping;
        let interval = u64::try_from(request.interval_us)
            .ok()
            .map(Duration::from_micros)
            .filter(|interval| *interval <= limit)
            .ok_or(Refusal::PingInterval {
                limit_us: i64::try_from(limit.as_micros()).unwrap_or(i64::MAX),
            })?;
        let pings = Counted(&self.pings);
        let entry = pings.0.fetch_add(1, Ordering::Relaxed) + 1;
        tokio::time::sleep(interval).await;
        // As it will be when this one has left.
        let exit = pings.0.load(Ordering::Relaxed) - 1;
        Ok(proto::PingResponse { entry, exit })
    }
}

/// Uncounts a ping, also one that was cancelled.
struct Counted<'a>(&'a std::sync::atomic::AtomicI64);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The consensus branch of the block at `tip`, 0 before the first upgrade.
fn branch_at(info: &NodeInfo, tip: Height) -> u32 {
    if info.upgrades.is_empty() {
        return info.chain_tip_branch;
    }
    info.upgrades
        .iter()
        .filter(|upgrade| upgrade.height <= tip)
        .max_by_key(|upgrade| upgrade.height)
        .map_or(0, |upgrade| upgrade.branch_id)
}

/// The lowest upgrade above `tip`.
fn pending_upgrade(info: &NodeInfo, tip: Height) -> Option<(&str, Height)> {
    info.upgrades
        .iter()
        .filter(|upgrade| upgrade.height > tip)
        .min_by_key(|upgrade| upgrade.height)
        .map(|upgrade| (upgrade.name.as_str(), upgrade.height))
}

#[cfg(test)]
mod tests {
    use lightship_chain::{BlockHash, BlockId, UpgradeActivation};

    use super::*;

    fn info() -> NodeInfo {
        let activations = [
            ("One", 1, 10),
            ("Two", 2, 20),
            ("Also two", 3, 20),
            ("Three", 4, 30),
        ];
        NodeInfo {
            chain: "test".into(),
            genesis: None,
            tip: BlockId {
                height: Height::GENESIS,
                hash: BlockHash::ZERO,
            },
            estimated_height: Height::GENESIS,
            build: String::new(),
            subversion: String::new(),
            upgrades: activations
                .into_iter()
                .map(|(name, branch_id, height)| UpgradeActivation {
                    branch_id,
                    name: name.into(),
                    height: Height::new(height),
                })
                .collect(),
            chain_tip_branch: 9,
        }
    }

    #[test]
    fn the_next_upgrade_is_the_lowest_above_the_tip() {
        for (tip, branch, next) in [
            (1, 0, Some(("One", 10))),
            (9, 0, Some(("One", 10))),
            (10, 1, Some(("Two", 20))),
            (19, 1, Some(("Two", 20))),
            // Of two in one block the later in the node's list counts: it is the one in force.
            (20, 3, Some(("Three", 30))),
            (30, 4, None),
            (31, 4, None),
        ] {
            let tip = Height::new(tip);
            assert_eq!(branch_at(&info(), tip), branch);
            let expected = next.map(|(name, height)| (name, Height::new(height)));
            assert_eq!(pending_upgrade(&info(), tip), expected);
        }
    }
}
