//! The devices that do not answer, in `/v1/status`.

use super::reply::time;
use crate::manage::loop_status::UnresponsiveStatus;
use serde::Serialize;

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct Unresponsive {
    /// They are more than unresponsive_alarm allows: none of them counts as gone for its silence.
    alarm: bool,
    devices: Vec<UnresponsiveView>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct UnresponsiveView {
    /// Node GUID.
    guid: String,
    /// Kind, GUID and description.
    name: String,
    /// Time of the sweep that it did not answer first.
    since: String,
}

pub(super) fn view(status: &UnresponsiveStatus) -> Unresponsive {
    Unresponsive {
        alarm: status.is_alarm,
        devices: status
            .devices
            .iter()
            .map(|device| UnresponsiveView {
                guid: device.guid.to_string(),
                name: device.name.clone(),
                since: time(device.since),
            })
            .collect(),
    }
}
