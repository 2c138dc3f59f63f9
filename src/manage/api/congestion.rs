//! Congestion control in `/v1/status`.

use super::context::ApiContext;
use super::reply::time;
use crate::congestion::status::CongestionRound;
use serde::Serialize;

/// The devices are switches and ports of channel adapters.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct CongestionView {
    devices: usize,
    /// Devices that hold their settings.
    configured: usize,
    /// Devices without congestion control.
    unsupported: usize,
    /// Devices that do not answer, or refuse requests.
    failed: usize,
    /// Requests are being sent.
    busy: bool,
    /// Requests since the start of the daemon.
    gets: u64,
    sets: u64,
    /// The last time that devices got requests; null if none did.
    last_round: Option<RoundView>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct RoundView {
    ended: String,
    duration_seconds: f64,
    /// Devices that got requests.
    devices: usize,
    gets: u64,
    sets: u64,
    /// Devices that did not answer, refused a request or do not support congestion control.
    failed: usize,
}

/// `None` unless this SM configures congestion control.
pub(super) fn view(context: &ApiContext<'_>) -> Option<CongestionView> {
    let status = &context.congestion;
    let counts = &status.devices;
    status.is_enabled.then(|| CongestionView {
        devices: counts.all,
        configured: counts.configured,
        unsupported: counts.unsupported,
        failed: counts.failed,
        busy: status.is_busy,
        gets: status.gets,
        sets: status.sets,
        last_round: status.last_round.as_ref().map(round),
    })
}

fn round(of: &CongestionRound) -> RoundView {
    RoundView {
        ended: time(of.ended),
        duration_seconds: of.duration.as_secs_f64(),
        devices: of.devices,
        gets: of.gets,
        sets: of.sets,
        failed: of.failed,
    }
}
