//! Log lines that operators and their scripts look for: worded and levelled as OpenSM's.

use crate::notes::{Note, Severity};
use crate::wire::attr::SmState;
use tracing::{error, info, warn};

/// This SM's role changed.
pub fn entering(state: SmState) {
    crate::major!("Entering {state} state");
}

/// The subnet is configured: a major event the first time, a plain line after later sweeps.
pub fn subnet_up(is_first: bool) {
    if is_first {
        crate::major!("SUBNET UP");
    } else {
        crate::plain!("SUBNET UP");
    }
}

/// Some devices were not configured.
pub fn errors_during_initialization() {
    crate::major!("Errors during initialization");
}

/// The own port has no link: nothing can be managed until it has.
pub fn port_down() {
    crate::major!("SM port is down");
}

/// The daemon ends.
pub fn exiting() {
    crate::major!("Exiting SM");
}

/// A finding of a stage or of the configuration, with the stage as the line's place.
pub fn note(note: &Note) {
    let place = note.place();
    match note.severity {
        Severity::Info => info!(place, "{note}"),
        Severity::Warning => warn!(place, "{note}"),
        Severity::Error => error!(place, "{note}"),
    }
}
