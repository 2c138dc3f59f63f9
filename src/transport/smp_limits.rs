//! Limits of transmissions of subnet management requests.

use super::smp_request::SmpRequest;
use crate::wire::attr::AttrId;
use crate::wire::mad::Method;
use std::time::Duration;

/// Window for `--maxsmps 0`, "unlimited", in requests. The umad device has no flow control towards
/// its sender. ibsim slows down above this window and deadlocks with several hundred requests in
/// flight.
pub const UNLIMITED_WINDOW: usize = 128;

/// Maximum window in requests; the 16 bits of a slot number are enough for it.
pub const MAX_WINDOW: usize = 4096;

/// Default maximum number of requests in flight to one device. The second one is on its way, or
/// waits in the device, while the device handles the first.
pub const DEFAULT_PER_DEVICE: usize = 2;

/// Time after the last timeout of the port at which a request counts as unanswered. The port
/// delivers a result before; this bound keeps a loss inside the port from stopping a sweep.
const COMPLETION_GRACE: Duration = Duration::from_secs(2);

/// Maximum number of stalled requests that do not count towards the window. The bound protects
/// simulators and devices that lose MADs when several hundred are in flight.
const MAX_STALLED: usize = 256;

/// Bits of the attribute modifier of SLtoVLMappingTable for all input or output ports of a switch
/// at once.
const OPTIMIZED_SL_TO_VL: u32 = 0x3_0000;

/// Limits of transmissions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SmpLimits {
    /// Maximum number of requests in flight (`--maxsmps`): 1..=[`MAX_WINDOW`], 0 for
    /// [`UNLIMITED_WINDOW`].
    pub window: usize,
    /// Maximum of a window that begins at 4 requests and follows the round trips, in place of
    /// `window`; 0 for none (`max_adaptive_wire_smps`).
    pub adaptive: usize,
    /// Maximum number of requests in flight, stalled ones included (`max_wire_smps2`); without
    /// effect up to `window`.
    pub total: usize,
    /// Maximum number of requests in flight to one device, without stalled ones; 0 for no limit
    /// (`max_smps_per_device`).
    pub per_device: usize,
    /// Timeout of each transmission (`transaction_timeout`).
    pub timeout: Duration,
    /// Timeout of requests that take devices longer (`long_transaction_timeout`).
    pub long_timeout: Duration,
    /// Maximum number of retransmissions (`transaction_retries`).
    pub retries: u32,
}

impl SmpLimits {
    /// The window within its bounds.
    pub(super) fn slots(&self) -> usize {
        match self.window {
            0 => UNLIMITED_WINDOW,
            window => window.min(MAX_WINDOW),
        }
    }

    /// Maximum number of requests in flight to one device.
    pub(super) fn device_slots(&self) -> usize {
        if self.per_device == 0 { MAX_WINDOW } else { self.per_device }
    }

    /// Maximum number of stalled requests.
    pub(super) fn stalled(&self) -> usize {
        match self.total.checked_sub(self.slots()) {
            Some(more) if more > 0 => more.min(MAX_STALLED),
            _ => MAX_STALLED,
        }
    }

    /// Timeout of each transmission of a request.
    pub(super) fn timeout_of(&self, request: &SmpRequest) -> Duration {
        let is_long = request.method == Method::SET
            && request.attr_id == AttrId::SL_TO_VL
            && request.attr_mod & OPTIMIZED_SL_TO_VL != 0;
        if is_long { self.long_timeout } else { self.timeout }
    }

    /// Time from the transmission of a request with this timeout to its deadline.
    pub(super) fn time_to_deadline(&self, timeout: Duration) -> Duration {
        timeout.saturating_mul(self.retries.saturating_add(1)).saturating_add(COMPLETION_GRACE)
    }
}

/// OpenSM's defaults: 4 requests in flight, 200 ms, 3 retries; no window that adapts.
impl Default for SmpLimits {
    fn default() -> Self {
        Self {
            window: 4,
            adaptive: 0,
            total: 4,
            per_device: DEFAULT_PER_DEVICE,
            timeout: Duration::from_millis(200),
            long_timeout: Duration::from_millis(500),
            retries: 3,
        }
    }
}
