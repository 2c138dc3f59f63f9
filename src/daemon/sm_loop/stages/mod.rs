//! The stages of the SM loop: values in, an outcome out.

pub(super) mod sweep;
