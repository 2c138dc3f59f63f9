//! The responder of the desk, which lies at the [`hatch`](crate::daemon::sa_server::shared_responder) until the desk needs it
//! for more than reading: answers are made there by several at once, the desk among them.

use crate::daemon::sa_server::shared_responder::SharedResponder;
use crate::publish::Subnet;
use crate::sa::{Responder, SaCounters};
use crate::sm::sm_info::SmStatus;
use std::sync::Arc;
use tokio::sync::watch;

/// The responder and where it may lie.
pub(super) struct Lending {
    /// One that knows nothing while it is lent.
    responder: Box<Responder>,
    hatch: Arc<SharedResponder>,
}

impl Lending {
    pub(super) fn new(responder: Responder) -> Self {
        Self { responder: Box::new(responder), hatch: Arc::default() }
    }

    pub(super) fn hatch(&self) -> Arc<SharedResponder> {
        self.hatch.clone()
    }

    /// The responder, for the desk alone.
    pub(super) fn get(&mut self) -> &mut Responder {
        self.hatch.take_back(&mut self.responder);
        &mut self.responder
    }

    /// The responder, if somebody may have changed it since it was lent: it is not lent now.
    pub(super) fn changed(&self) -> Option<&Responder> {
        (!self.hatch.is_open()).then_some(&*self.responder)
    }

    /// Lends it, [prepared](Responder::prepare) for `subnet`. Whatever makes it another's, a new
    /// snapshot or a change of `portrait`, the desk learns with it in hand.
    pub(super) fn lend(&mut self, subnet: &Arc<Subnet>, sm_status: &watch::Receiver<SmStatus>) {
        self.hatch.lend(&mut self.responder, subnet.clone(), sm_status.clone());
    }

    /// Reads what is lent, and counts.
    pub(super) fn read(&self, look: impl FnOnce(&Responder) -> SaCounters) {
        self.hatch.read(look);
    }
}
