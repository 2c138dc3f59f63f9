//! What is asked, of whom, and what comes back.

pub mod answer;
pub mod differences;
pub mod fabric;
pub mod question;
