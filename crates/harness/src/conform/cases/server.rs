//! `GetLatestBlock`, `GetLightdInfo`, `Ping`, and what no method is.

use anyhow::Result;
use tonic::Code;

use super::{Cases, World};
use crate::{
    conform::{
        case::{Case, Expectation, call, call_bytes, ended, only},
        chain::{Chain, display},
    },
    proto::{BlockId, ChainSpec, Duration, Empty, LightdInfo, PingResponse, TreeState},
};

pub(super) fn cases(world: &World) -> Result<Vec<Case>> {
    let mut list = Vec::new();
    latest(world, &mut list);
    info(&world.chain, &world.chain.about, &mut list);
    ping(&mut list);
    unknown(&mut list);
    Ok(list)
}

fn latest(world: &World, list: &mut Vec<Case>) {
    let mut cases = Cases {
        method: "GetLatestBlock",
        list,
    };
    let top = world.chain.top();
    let tip = BlockId {
        height: top.height.into(),
        hash: top.compact.hash.clone(),
    };
    cases.add(
        "LATEST-1",
        "the node's tip, its hash in protocol order",
        call("GetLatestBlock", &ChainSpec {}),
        Expectation::message(&tip),
    );
    cases.add(
        "LATEST-1",
        "a request with a field nobody knows",
        call_bytes("GetLatestBlock", vec![0xf8, 0x07, 0x01]),
        Expectation::message(&tip),
    );
    cases.add_all(
        "LATEST-2",
        "tip, info and latest tree state agree",
        vec![
            call("GetLatestBlock", &ChainSpec {}),
            call("GetLightdInfo", &Empty {}),
            call("GetLatestTreeState", &Empty {}),
        ],
        Expectation::that_all("one height and hash in all three", |outcomes| {
            let tip: BlockId = only(&outcomes[0])?;
            let info: LightdInfo = only(&outcomes[1])?;
            let state: TreeState = only(&outcomes[2])?;
            if tip.height == info.block_height
                && tip.height == state.height
                && display(&tip.hash) == state.hash
            {
                return Ok(());
            }
            Err(format!(
                "tip {} {}, info {}, tree state {} {}",
                tip.height,
                display(&tip.hash),
                info.block_height,
                state.height,
                state.hash
            ))
        }),
    );
}

fn info(chain: &Chain, about: &serde_json::Value, list: &mut Vec<Case>) {
    let mut cases = Cases {
        method: "GetLightdInfo",
        list,
    };
    let pending = chain
        .upgrades
        .iter()
        .find(|upgrade| upgrade.height > chain.tip);
    let sapling = chain
        .upgrades
        .iter()
        .find(|upgrade| upgrade.branch == "76b809bb");
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let branch = text(&chain.info["consensus"]["chaintip"]).to_lowercase();
    type Field = fn(&LightdInfo) -> String;
    let fields: [(&'static str, &str, Field, String); 9] = [
        (
            "INFO-1",
            "chainName",
            |info| info.chain_name.clone(),
            chain.name.clone(),
        ),
        (
            "INFO-1",
            "saplingActivationHeight",
            |info| info.sapling_activation_height.to_string(),
            sapling.map_or(0, |upgrade| upgrade.height).to_string(),
        ),
        (
            "INFO-1",
            "consensusBranchId",
            |info| info.consensus_branch_id.clone(),
            branch,
        ),
        (
            "INFO-1",
            "blockHeight",
            |info| info.block_height.to_string(),
            chain.tip.to_string(),
        ),
        (
            "INFO-1",
            "zcashdBuild",
            |info| info.zcashd_build.clone(),
            text(&about["build"]),
        ),
        (
            "INFO-1",
            "zcashdSubversion",
            |info| info.zcashd_subversion.clone(),
            text(&about["subversion"]),
        ),
        (
            "INFO-2",
            "upgradeName",
            |info| info.upgrade_name.clone(),
            pending.map_or(String::new(), |upgrade| upgrade.name.clone()),
        ),
        (
            "INFO-2",
            "upgradeHeight",
            |info| info.upgrade_height.to_string(),
            pending.map_or(0, |upgrade| upgrade.height).to_string(),
        ),
        (
            "INFO-3",
            "lightwalletProtocolVersion",
            |info| info.lightwallet_protocol_version.clone(),
            "v0.5.0".to_owned(),
        ),
    ];
    for (rule, name, field, expected) in fields {
        let expectation = Expectation::that(format!("{expected:?}"), move |outcome| {
            match field(&only(outcome)?) {
                found if found == expected => Ok(()),
                found => Err(format!("{found:?}, not {expected:?}")),
            }
        });
        cases.add(rule, name, call("GetLightdInfo", &Empty {}), expectation);
    }
    let mut holds = |rule, name: &str, text: &str, test: fn(&LightdInfo) -> bool| {
        let expectation = Expectation::that(text, move |outcome| {
            let info = only(outcome)?;
            if test(&info) {
                Ok(())
            } else {
                Err(format!("{info:?}"))
            }
        });
        cases.add(rule, name, call("GetLightdInfo", &Empty {}), expectation);
    };
    holds("INFO-1", "taddrSupport", "true", |info| info.taddr_support);
    holds("INFO-1", "version", "not empty", |info| {
        !info.version.is_empty()
    });
    holds("INFO-1", "vendor", "not empty", |info| {
        !info.vendor.is_empty()
    });
    holds(
        "INFO-4",
        "estimatedHeight",
        "at least blockHeight",
        |info| info.estimated_height >= info.block_height,
    );
    holds(
        "INFO-3",
        "consensusBranchId is hex",
        "eight lower-case hex digits",
        |info| {
            info.consensus_branch_id.len() == 8
                && info
                    .consensus_branch_id
                    .bytes()
                    .all(|digit| digit.is_ascii_digit() || (b'a'..=b'f').contains(&digit))
        },
    );
    holds(
        "INFO-3",
        "chainName is one that wallets know",
        "main, test or regtest",
        |info| ["main", "test", "regtest"].contains(&info.chain_name.as_str()),
    );
    holds("INFO-3", "heights fit 32 bits", "all below 2^32", |info| {
        [
            info.sapling_activation_height,
            info.block_height,
            info.estimated_height,
            info.upgrade_height,
        ]
        .iter()
        .all(|height| u32::try_from(*height).is_ok())
    });
    holds("INFO-5", "donationAddress", "empty or unified", |info| {
        info.donation_address.is_empty()
            || (info.donation_address.starts_with('u') && info.donation_address.len() <= 255)
    });
    holds("INFO-5", "buildUser", "nobody's name", |info| {
        info.build_user.is_empty()
    });
}

fn ping(list: &mut Vec<Case>) {
    let mut cases = Cases {
        method: "Ping",
        list,
    };
    for (interval_us, name) in [(0, "no sleep"), (1_000, "a millisecond")] {
        let expectation =
            Expectation::that(
                "Unimplemented, or counts if it is on",
                |outcome| match &outcome.end {
                    Some((Code::Ok, _)) => {
                        let counts: PingResponse = only(outcome)?;
                        let sensible = counts.entry >= 1 && counts.exit >= 0;
                        if sensible {
                            Ok(())
                        } else {
                            Err(format!("{counts:?}"))
                        }
                    }
                    _ => ended(outcome, &[Code::Unimplemented]),
                },
            );
        cases.add(
            "PING-1",
            name,
            call("Ping", &Duration { interval_us }),
            expectation,
        );
    }
    for (interval_us, name) in [(-1, "a negative sleep"), (i64::MAX, "an endless sleep")] {
        let expectation = Expectation::refused(&[Code::Unimplemented, Code::InvalidArgument]);
        cases.add(
            "PING-1",
            name,
            call("Ping", &Duration { interval_us }),
            expectation,
        );
    }
}

fn unknown(list: &mut Vec<Case>) {
    let mut cases = Cases {
        method: "(no method)",
        list,
    };
    for method in [
        "GetAddressTxids",
        "GetZECPrice",
        "GetCurrentZECPrice",
        "getlatestblock",
    ] {
        cases.add(
            "METHOD-1",
            method,
            call(method, &Empty {}),
            Expectation::refused(&[Code::Unimplemented]),
        );
    }
}
