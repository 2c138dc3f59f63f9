//! A sweep that ended without an acceptable plan.

use super::Subnet;
use super::connectivity::ResidualConnectivity;
use crate::fabric::Fabric;
use crate::notes::{Note, Severity};
use crate::plan::routing::Dump;

/// Messages and dumps of a rejected plan. Log and report show the same messages.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PlanRejected {
    /// Messages for the operator, in order.
    pub notes: Vec<Note>,
    /// Dump files of the routing engines that failed.
    pub dumps: Vec<Dump>,
    /// The reason in one sentence, which is among the messages.
    pub headline: String,
    /// The engines that found no routes, or whose routes failed verification.
    pub failed_engines: Vec<&'static str>,
}

impl PlanRejected {
    /// A plan that is rejected for the reasons in `notes`, summed up by `headline`.
    pub fn new(mut notes: Vec<Note>, dumps: Vec<Dump>, headline: String) -> Self {
        notes.push(Note::new(Severity::Error, None, headline.clone()));
        Self { notes, dumps, headline, failed_engines: Vec::new() }
    }

    /// Names the engines that failed.
    #[must_use]
    pub fn with_failed_engines(self, failed_engines: Vec<&'static str>) -> Self {
        Self { failed_engines, ..self }
    }

    /// A plan that is rejected for one reason.
    pub fn of(problem: String) -> Self {
        Self::new(Vec::new(), Vec::new(), problem)
    }

    /// Adds the state of the fabric: what works in `fabric` with the routes of `routed`, the last
    /// subnet with an accepted plan.
    pub fn with_connectivity(mut self, routed: Option<&Subnet>, fabric: &Fabric) -> Self {
        match routed {
            Some(routed) => {
                let connectivity = ResidualConnectivity::survey(routed, fabric);
                self.notes.extend(connectivity.notes(fabric));
            }
            None => self.notes.push(Note::warning(
                "no tables are programmed: the switches keep those they had before this subnet manager \
                 started; only LIDs, P_Keys and the states of ports that were not ACTIVE are set, and \
                 the SA does not answer",
            )),
        }
        self
    }
}
