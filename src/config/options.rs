//! opensm.conf.

/// (table to be filled in)
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Options {}
