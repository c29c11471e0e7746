//! Blocks: what the four block methods send.

use std::sync::Arc;

use lightship_chain::Height;

use super::{Found, Picture, Query};
use crate::{
    proto,
    range::{BlocksBody, Plan, Producer, Projection},
    status::Refusal,
};

impl Query {
    /// `GetBlock` and `GetBlockNullifiers`: a body of exactly one message.
    pub(crate) async fn block(
        &self,
        id: &proto::BlockId,
        projection: Projection,
    ) -> Result<BlocksBody, Refusal> {
        if id.height == 0 && id.hash.is_empty() {
            return Err(Refusal::EmptyBlockId);
        }
        let picture = self.picture()?;
        let height = match self.find(&picture, id).await? {
            Found::AtHeight(height) => height,
            Found::Indexed(id) | Found::AtNode(id) => id.height,
        };
        let plan = Plan {
            first: height,
            last: height,
            projection,
            ending: None,
        };
        Ok(self.body(picture, plan))
    }

    /// `GetBlockRange` and `GetBlockRangeNullifiers`.
    pub(crate) fn range(
        &self,
        request: &proto::BlockRange,
        nullifiers: bool,
    ) -> Result<BlocksBody, Refusal> {
        // What is wrong whatever the chain is said even before there is one.
        let picture = self.picture();
        let tip = picture
            .as_ref()
            .map_or(Height::MAX, |picture| picture.tip.height);
        let plan = Plan::new(request, nullifiers, self.settings.strict_pools, tip);
        let is_above = match &plan {
            Ok(plan) => plan.ending.is_some(),
            Err(refusal) => matches!(refusal, Refusal::AboveTip { .. }),
        };
        if is_above {
            (self.look)();
        }
        let plan = plan?;
        Ok(self.body(picture?, plan))
    }

    fn body(&self, picture: Picture, plan: Plan) -> BlocksBody {
        let generation = picture.view.generation();
        let producer = Producer::new(
            self.reader.clone(),
            self.live.clone(),
            self.memory.clone(),
            Arc::clone(&picture.view),
            plan,
        );
        BlocksBody::new(producer, self.reader.clone(), generation)
    }
}
