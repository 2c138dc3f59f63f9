//! SwitchInfo after a Set.

use crate::wire::attr::SwitchInfo;

/// The SwitchInfo of a device after a Set of `sent`: PortStateChange is cleared.
pub fn settled(mut sent: SwitchInfo) -> SwitchInfo {
    sent.set_port_state_change(false);
    sent
}
