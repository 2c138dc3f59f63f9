//! What is asked, of whom, and what comes back.

pub(crate) mod answer;
pub(crate) mod differences;
pub(crate) mod fabric;
pub(crate) mod question;
