//! What tests of the derived configuration share: cases, and the judgement of a result.

pub(crate) mod cases;
pub(crate) mod judge;
