//! Log lines about devices that are not configured: one a round for all devices with the same
//! failure, and none when a device fails again in the same way.

use crate::congestion::devices::FailureReason;
use crate::ids::Guid;
use crate::notes::counted;
use crate::publish::Subnet;
use crate::wire::congestion::CongestionAttr;
use crate::wire::mad::{Method, Status};
use std::collections::BTreeMap;
use tracing::{error, info};

/// Devices that a log line names; the others are counted.
const MAX_NAMED: usize = 16;

/// The failures of a round.
#[derive(Debug, Default)]
pub(super) struct CongestionFailureLog {
    /// Port GUIDs by reason and failed request.
    failed: BTreeMap<(FailureReason, u8, u16), Vec<Guid>>,
    recovered: Vec<Guid>,
}

impl CongestionFailureLog {
    /// Records a device that failed for another reason than before. `request`: the method and the
    /// attribute that failed.
    pub(super) fn failed(&mut self, guid: Guid, reason: FailureReason, request: (Method, u16)) {
        // Which attribute tells that a device does not know the class does not matter.
        let (method, attribute) = match reason {
            FailureReason::Unsupported => (0, 0),
            _ => (request.0.0, request.1),
        };
        self.failed.entry((reason, method, attribute)).or_default().push(guid);
    }

    /// Records a device that is configured after a failure.
    pub(super) fn recovered(&mut self, guid: Guid) {
        self.recovered.push(guid);
    }

    pub(super) fn log(&self, subnet: &Subnet) {
        for (&(reason, method, attribute), guids) in &self.failed {
            let names = names(subnet, guids);
            let count = counted(guids.len(), "device", "devices");
            let request = format!("{}({})", Method(method), CongestionAttr::name(attribute));
            match reason {
                FailureReason::Unsupported => info!(
                    "congestion control: {count} without support keep their settings: {names}"
                ),
                FailureReason::Unanswered => error!(
                    place = "cc_mad_send_err_callback",
                    "ERR C106: MAD Error (IB_TIMEOUT): {count} did not answer {request}: {names}; \
                     a wrong cc_key has this effect, too; they are asked again after a delay"
                ),
                FailureReason::Refused(status) => error!(
                    place = "cc_rcv_mad",
                    "congestion control: {count} refused {request} with status 0x{status:04x} \
                     ({}): {names}; they are asked again after a delay",
                    Status::name(status)
                ),
                FailureReason::Altered => error!(
                    place = "cc_rcv_mad",
                    "congestion control: {count} acknowledged {request} with other values: {names}"
                ),
            }
        }
        if !self.recovered.is_empty() {
            let count = counted(self.recovered.len(), "device is", "devices are");
            let names = names(subnet, &self.recovered);
            info!("congestion control: {count} configured after failures: {names}");
        }
    }
}

/// The names of devices with their port GUIDs.
fn names(subnet: &Subnet, guids: &[Guid]) -> String {
    let fabric = &subnet.fabric;
    let mut text = guids
        .iter()
        .take(MAX_NAMED)
        .map(|&guid| match fabric.port_by_guid(guid) {
            Some(port) => format!("{} ({guid})", fabric.node_of(port).name()),
            None => guid.to_string(),
        })
        .collect::<Vec<_>>()
        .join(", ");
    if let Some(others) = guids.len().checked_sub(MAX_NAMED).filter(|&others| others > 0) {
        text += &format!(" and {others} others");
    }
    text
}
