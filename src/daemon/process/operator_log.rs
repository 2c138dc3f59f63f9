//! Log lines that operators' scripts match, with OpenSM's wording and levels.

use crate::notes::{Note, Severity};
use crate::sm::peer::Peer;
use crate::wire::attr::SmState;
use tracing::{error, info, warn};

pub fn entering(state: SmState) {
    crate::log_major!("Entering {state} state");
}

/// Logs that the subnet is configured: a major event the first time as master, an ordinary line
/// after later sweeps.
pub fn subnet_up(is_first: bool) {
    if is_first {
        crate::log_major!("SUBNET UP");
    } else {
        crate::log_plain!("SUBNET UP");
    }
}

/// Logs that some devices were not configured.
pub fn errors_during_initialization() {
    crate::log_major!("Errors during initialization");
}

/// Logs that this SM's port has no link, without which no subnet can be managed.
pub fn port_down() {
    crate::log_major!("SM port is down");
}

/// Logs that the link of this SM's port is back.
pub fn port_up() {
    crate::log_major!("SM port is up");
}

/// Logs an SM that is ignored because its SM_Key differs, so that both may be master. `name`: the
/// description of its node.
pub fn foreign_sm(peer: &Peer, name: &str) {
    // OpenSM's wording, which operators' scripts match.
    crate::log_major!("Found remote SM ({}) with non-matching sm_key", peer.route);
    let state = peer.info.state();
    error!(
        "the SM at port GUID {} ({name}), {state}, shows another SM_Key and is ignored: several SMs \
         may be master. Set sm_key to the same value for all SMs of the subnet",
        peer.guid()
    );
}

/// Warns of the SM_Key that OpenSM and this program publish as their default.
pub fn published_sm_key() {
    warn!(
        "sm_key has its published default: whoever can send SMPs can take part in the election. Set \
         sm_key to the same secret value for all SMs of the subnet"
    );
}

pub fn exiting() {
    crate::log_major!("Exiting SM");
}

/// Logs a finding of a stage or of the configuration, with the name of the stage's module.
pub fn note(note: &Note) {
    let place = note.place();
    match note.severity {
        Severity::Info => info!(place, "{note}"),
        Severity::Warning => warn!(place, "{note}"),
        Severity::Error => error!(place, "{note}"),
    }
}
