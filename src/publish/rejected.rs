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
}

impl PlanRejected {
    /// Appends `headline` and the state of the fabric to the reasons in `notes`. `last` is the
    /// subnet that stays in force, `fabric` the fabric that could not be planned for.
    pub fn new(
        mut notes: Vec<Note>,
        dumps: Vec<Dump>,
        headline: String,
        last: Option<&Subnet>,
        fabric: &Fabric,
    ) -> Self {
        notes.push(Note::new(Severity::Error, None, headline));
        notes.push(match last {
            Some(last) => ResidualConnectivity::survey(last, fabric).note(fabric),
            None => Note::warning(
                "nothing is programmed: the switches keep the tables they had before this subnet \
                 manager started",
            ),
        });
        Self { notes, dumps }
    }
}
