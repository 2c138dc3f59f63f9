//! Log lines that operators' scripts match, with OpenSM's wording and levels.

use crate::notes::{Note, OPENSM_VERSION, Severity};
use crate::sm::peer::Peer;
use crate::wire::attr::SmState;
use tracing::{error, info, warn};

pub fn version() {
    crate::log_major!(event = "version", "{OPENSM_VERSION}");
}

pub fn entering(state: SmState) {
    crate::log_major!(event = "sm_state", "Entering {state} state");
}

/// Logs that the subnet is configured with the tables of `engine`: a major event the first time as master, an ordinary line
/// after later sweeps.
pub fn subnet_up(engine: &str, is_first: bool) {
    info!(
        place = "osm_ucast_mgr_process",
        event = "tables_configured",
        "{engine} tables configured on all switches"
    );
    if is_first {
        crate::log_major!(event = "subnet_up", "SUBNET UP");
    } else {
        crate::log_plain!("SUBNET UP");
    }
}

/// Logs that some devices were not configured.
pub fn errors_during_initialization() {
    crate::log_major!(event = "errors_during_initialization", "Errors during initialization");
}

/// Logs that this SM's port has no link, without which no subnet can be managed.
pub fn port_down() {
    crate::log_major!(event = "port_down", "SM port is down");
}

/// Logs that the link of this SM's port is back.
pub fn port_up() {
    crate::log_major!(event = "port_up", "SM port is up");
}

/// Logs an SM that is ignored because its SM_Key differs, so that both may be master. `name`: the
/// description of its node.
pub fn foreign_sm(peer: &Peer, name: &str) {
    // OpenSM's wording, which operators' scripts match.
    crate::log_major!(
        event = "foreign_sm_key",
        "Found remote SM ({}) with non-matching sm_key",
        peer.route
    );
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
    crate::log_major!(event = "exiting", "Exiting SM");
}

/// Logs a finding of a stage or of the configuration, with the name of the stage's module.
pub fn note(note: &Note) {
    let place = note.place();
    match note.severity {
        Severity::Info => info!(place, "{note}"),
        Severity::Warning => warn!(place, "{note}"),
        Severity::Error if note.code.is_none() => error!(place, "ERROR: {note}"),
        Severity::Error => error!(place, "{note}"),
    }
}
