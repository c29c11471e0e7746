//! What two servers may say differently without one of them being wrong.
//!
//! In: two outcomes of one call. Out: the same two with such things made equal, and the names of what was made equal. Each allowance has its
//! reason in `docs/differences.md`, "What compare looks past"; a test holds the names against that page.

use tonic::Code;

use super::fields::{differences, without};
use crate::conform::wire::Outcome;

/// What may differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Allowance {
    /// The words beside a status code other than OK, but for those that a wallet reads.
    Words,
    /// What `GetLightdInfo` says of the server's own make, its operator and its guess of the height.
    SelfDescription,
    /// The order of the mempool's transactions.
    MempoolOrder,
    /// The code for a request message above the limit.
    TooLarge,
    /// How many calls of `Ping` are running.
    PingCounts,
}

/// All of them.
pub const ALL: [Allowance; 5] = [
    Allowance::Words,
    Allowance::SelfDescription,
    Allowance::MempoolOrder,
    Allowance::TooLarge,
    Allowance::PingCounts,
];

/// The fields of `LightdInfo` that are about the server and not about the chain.
const SELF: [&str; 8] = [
    "version",
    "vendor",
    "gitCommit",
    "branch",
    "buildDate",
    "buildUser",
    "estimatedHeight",
    "donationAddress",
];
/// What a wallet looks for in a refusal.
const READ_BY_WALLETS: &str = "Transaction not found";

impl Allowance {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Allowance::Words => "words",
            Allowance::SelfDescription => "self-description",
            Allowance::MempoolOrder => "mempool-order",
            Allowance::TooLarge => "too-large",
            Allowance::PingCounts => "ping-counts",
        }
    }

    /// Makes both sides alike where they may differ. Each side alone decides what becomes of it, so that what must be equal stays comparable.
    fn apply(self, method: &str, rule: &str, outcome: &mut Outcome) {
        match self {
            Allowance::Words => {
                if let Some((_, words)) = &mut outcome.end {
                    *words = match method {
                        "GetTransaction" if words.contains(READ_BY_WALLETS) => {
                            READ_BY_WALLETS.to_owned()
                        }
                        _ => String::new(),
                    };
                }
            }
            Allowance::SelfDescription if method == "GetLightdInfo" => {
                clear(method, outcome, &SELF);
            }
            Allowance::MempoolOrder if method.starts_with("GetMempool") => outcome.messages.sort(),
            Allowance::TooLarge if rule == "LIMIT-1" => {
                if let Some((code @ Code::OutOfRange, _)) = &mut outcome.end {
                    *code = Code::ResourceExhausted;
                }
            }
            Allowance::PingCounts if method == "Ping" => {
                clear(method, outcome, &["entry", "exit"]);
            }
            _ => {}
        }
    }
}

fn clear(method: &str, outcome: &mut Outcome, fields: &[&str]) {
    for message in &mut outcome.messages {
        *message = without(method, message, fields);
    }
}

/// Makes what may differ equal, and names what was not.
pub(super) fn allow(
    method: &str,
    rule: &str,
    mut a: Outcome,
    mut b: Outcome,
) -> (Outcome, Outcome, Vec<Allowance>) {
    let mut used = Vec::new();
    for allowance in ALL {
        if same(&a, &b) {
            // Digests are over what is left, so both sides lose alike.
            allowance.apply(method, rule, &mut a);
            allowance.apply(method, rule, &mut b);
            continue;
        }
        let (mut left, mut right) = (a.clone(), b.clone());
        allowance.apply(method, rule, &mut left);
        allowance.apply(method, rule, &mut right);
        if apart(method, &left, &right) < apart(method, &a, &b) {
            used.push(allowance);
        }
        (a, b) = (left, right);
    }
    (a, b, used)
}

/// Whether both sides said the same.
pub(super) fn same(a: &Outcome, b: &Outcome) -> bool {
    a.messages == b.messages && a.end == b.end
}

/// In how many places they differ.
fn apart(method: &str, a: &Outcome, b: &Outcome) -> usize {
    differences(method, &a.messages, &b.messages).len() + usize::from(a.end != b.end)
}
