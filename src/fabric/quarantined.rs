//! Links that are treated as down although they are trained.

use super::End;
use std::time::Duration;

/// A link that is treated as down.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct QuarantinedLink {
    /// Both ends, ascending.
    pub ends: [End; 2],
    pub cause: QuarantineCause,
    /// Time without a change of the link, or without a trap, after which it is used again; `None` if
    /// an operator has to release it.
    pub calm: Option<Duration>,
}

/// The cause of a quarantine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum QuarantineCause {
    /// The link goes down again and again.
    Flaps,
    /// This port reports errors of the link (traps 129 to 131).
    Errors(End),
    /// An operator requested it.
    Operator,
}

/// A link that went down lately.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LinkDowns {
    /// Both ends, ascending.
    pub ends: [End; 2],
    /// How often it went down within the last minute. Counted from 0 again when its quarantine begins.
    pub downs: usize,
    pub is_quarantined: bool,
}
