//! opensm-sa.dump: the registry as text, in OpenSM's format both ways, so that it survives a
//! restart, also one that changes the subnet manager.
//!
//! One line for each block of alias GUIDs, group (its members follow, a line each),
//! subscription and service, with empty lines between them:
//!
//! ```text
//! MC Group 0xc000  (well known): mgid=0xff12401bffff0000:0x00000000ffffffff …
//! mcm_port: port_gid=0xfe80000000000000:0x0002c90300000001 scope_state=0x21 proxy_join=0x0
//! InformInfo Record: subscriber_gid=0xfe80000000000000:0x0002c90300000001 …
//! Service Record: id=0x1000000000000001 gid=… name='storage' … lease_period=0xe10
//! ```
//!
//! A line that cannot be read costs that line alone and is told with its place. The names of
//! services are written as they are, as OpenSM does; bytes that would end the name or the line
//! are written as `\xNN`, which OpenSM takes for four characters.

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

/// One moment on two clocks: leases run on the first, the file knows the second.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Timestamp {
    /// The daemon's clock.
    pub now: Instant,
    /// Seconds since 1970-01-01 UTC.
    pub epoch: u64,
}

impl Registry {
    /// The registry as text; `prefix` is the subnet's.
    pub fn dump(&self, prefix: u64, time: Timestamp) -> String {
        write::text(self, prefix, time)
    }

    /// Adds what the text of a dump holds to this registry. `file` is the name to be told in
    /// findings. A group of the configuration (`permanent`) keeps its MLID and members, and has
    /// the parameters of the configuration. What is there already stays as it is.
    pub fn restore(
        &mut self,
        file: &Path,
        text: &str,
        permanent: &[GroupSpec],
        time: Timestamp,
    ) -> RestoreSummary {
        read::text(self, file, text, permanent, time)
    }
}
