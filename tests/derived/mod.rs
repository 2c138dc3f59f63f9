//! What tests of the derived configuration share: cases, and the judgement of a result.

pub mod cases;
pub mod judge;
