//! opensm-sa.dump: the registry as text in OpenSM's format, so that it survives a restart,
//! including a change between OpenSM and torus-sm.
//!
//! The file has one line for each block of alias GUIDs, group (followed by a line for each member),
//! subscription and service, separated by empty lines:
//!
//! ```text
//! MC Group 0xc000  (well known): mgid=0xff12401bffff0000:0x00000000ffffffff …
//! mcm_port: port_gid=0xfe80000000000000:0x0002c90300000001 scope_state=0x21 proxy_join=0x0
//! InformInfo Record: subscriber_gid=0xfe80000000000000:0x0002c90300000001 …
//! Service Record: id=0x1000000000000001 gid=… name='storage' … lease_period=0xe10
//! ```
//!
//! An invalid line is skipped and reported with line and column. Service names are written without
//! escapes, as in OpenSM, except for bytes that would end the name or the line: these are written
//! as `\xNN`, which OpenSM reads as four characters.

mod fields;
mod read;
#[cfg(test)]
mod tests;
mod write;

pub use read::RestoreSummary;

use super::Registry;
use super::groups::GroupSpec;
use std::path::Path;
use std::time::Instant;

/// The current time on two clocks: leases use the monotonic clock, the file contains UTC.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Timestamp {
    /// Monotonic clock.
    pub now: Instant,
    /// Seconds since 1970-01-01 UTC.
    pub epoch: u64,
}

impl Registry {
    /// The registry as text; `prefix` is the subnet prefix.
    pub fn dump(&self, prefix: u64, time: Timestamp) -> String {
        write::text(self, prefix, time)
    }

    /// Adds the content of a dump file to the registry. `file` is its name in diagnostics. Groups
    /// of the configuration (`permanent`) get MLID and members from the dump and their parameters
    /// from the configuration. Existing registrations are not modified.
    pub fn restore(
        &mut self,
        file: &Path,
        text: &str,
        permanent: &[GroupSpec],
        time: Timestamp,
    ) -> RestoreSummary {
        read::restore_text(self, file, text, permanent, time)
    }
}
