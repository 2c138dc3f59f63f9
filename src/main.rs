//! The daemon's command.

fn main() {}
