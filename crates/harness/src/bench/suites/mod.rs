//! The suites: what is measured of a running server.
//!
//! In: a server that holds the chain, and what is right. Out: lines in the record. A suite's name carries a version; when what is timed changes, so does
//! the version. A case that fails is a line with the reason, and the suite goes on with the next one.

mod life;
mod live;
mod load;
mod mempool;

use anyhow::Result;

use super::{
    figures::Recorder,
    ghz::Ghz,
    plan::{Kind, Plan},
    server::{Server, Setting},
};

pub use life::{build, idle, restart};
pub use live::{reorg, tip};
pub use load::{concurrency, download, latency, ranges, rpc, tls, without_node};
pub use mempool::mempool;

/// What a suite runs on.
pub struct Stage<'a, 'b> {
    /// The plan.
    pub plan: &'a Plan,
    /// What the server was started with.
    pub setting: &'a Setting<'a>,
    /// Where lines go.
    pub recorder: &'a mut Recorder<'b>,
    /// Who gives a second opinion.
    pub ghz: Option<&'a Ghz>,
}

impl Stage<'_, '_> {
    fn kind(&self) -> Kind {
        self.setting.plan.kind
    }

    /// Writes the outcome of a case: its figures, or why there are none.
    fn outcome(
        &mut self,
        case: &str,
        metric: &str,
        outcome: Result<(super::figures::Proof, Vec<super::figures::Figure>)>,
    ) -> Result<()> {
        match outcome {
            Ok((proof, figures)) => self.recorder.figures(case, &proof, &figures),
            Err(error) => self.recorder.failure(case, metric, &error),
        }
    }

    fn target<'t>(
        &'t self,
        server: &'t Server,
        tls: Option<&'t std::sync::Arc<tokio_rustls::rustls::ClientConfig>>,
    ) -> super::drain::Target<'t> {
        let ground = self.setting.ground;
        super::drain::Target {
            server,
            raw: self.kind() == Kind::RawSender,
            tls,
            expected: &ground.expected,
            heights: (ground.lowest, ground.tip),
            seed: self.plan.seed,
        }
    }
}
