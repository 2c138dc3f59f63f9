//! Returns memory to the kernel that the allocator keeps after a peak.
//!
//! glibc returns by itself only what is free at the end of its heap. A single small allocation there
//! keeps all that a flood of large queries has used before. malloc_trim(3) returns the free pages in
//! between, and holds the lock of one arena at a time for as long as it takes to visit its free
//! chunks. It is called only after the process has grown by more than planning for its fabric takes
//! for a moment: pages that are returned must be faulted in again for the next plan.

use std::fs;
use std::time::Duration;
use tokio::time::{MissedTickBehavior, interval};

/// Interval of the checks.
const INTERVAL: Duration = Duration::from_secs(4);

/// Growth in bytes below which nothing is returned.
const MIN_GROWTH: u64 = 4 << 20;

/// The share of the resident memory, one in this many, by which it must have grown.
const GROWTH_SHARE: u64 = 8;

/// Lets threads share the allocator's arenas: one for each core that the process may use, as no
/// more threads run at a time. Of the eight for each core that glibc makes, each keeps what its
/// threads have freed. Must be called before threads are started. MALLOC_ARENA_MAX (mallopt(3))
/// takes precedence.
#[cfg(target_env = "gnu")]
#[allow(unsafe_code)]
pub fn limit_arenas() {
    if std::env::var_os("MALLOC_ARENA_MAX").is_some() {
        return;
    }
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let arenas = i32::try_from(cores).unwrap_or(i32::MAX);
    // SAFETY: mallopt(3) takes numbers only. If it refuses, glibc's own limit stays.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, arenas);
    }
}

/// Other C libraries have no arenas.
#[cfg(not(target_env = "gnu"))]
pub fn limit_arenas() {}

/// Returns unused memory from time to time, for ever.
pub async fn return_unused() {
    let mut ticks = interval(INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut growth = MemoryGrowth::default();
    loop {
        ticks.tick().await;
        let Some(now) = resident() else { return };
        if growth.is_large(now) {
            trim();
            growth.trimmed(resident().unwrap_or(now));
        }
    }
}

/// The growth of the resident memory since memory was returned last.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct MemoryGrowth {
    /// The least resident memory since then, in bytes; 0 at the start.
    least: u64,
}

impl MemoryGrowth {
    /// True if memory should be returned.
    fn is_large(&mut self, resident: u64) -> bool {
        if resident < self.least {
            self.least = resident;
        }
        resident >= self.least + MIN_GROWTH.max(self.least / GROWTH_SHARE)
    }

    /// Memory was returned, and so much is left.
    fn trimmed(&mut self, resident: u64) {
        self.least = resident;
    }
}

/// Resident memory of this process in bytes; `None` if the kernel does not tell.
pub fn resident() -> Option<u64> {
    let text = fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kib << 10)
}

/// Returns the free pages of all arenas.
#[cfg(target_env = "gnu")]
#[allow(unsafe_code)]
fn trim() {
    // SAFETY: malloc_trim has no preconditions and is thread safe (malloc_trim(3)).
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Other C libraries return free memory by themselves.
#[cfg(not(target_env = "gnu"))]
fn trim() {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_returned_after_growth_only() {
        const MIB: u64 = 1 << 20;
        let mut growth = MemoryGrowth::default();
        assert!(growth.is_large(40 * MIB), "the growth of the start");
        growth.trimmed(30 * MIB);
        assert!(!growth.is_large(33 * MIB));
        assert!(!growth.is_large(20 * MIB));
        assert!(growth.is_large(24 * MIB), "from the least");
        growth.trimmed(1000 * MIB);
        assert!(!growth.is_large(1100 * MIB), "less than a large fabric's plan may take");
        assert!(growth.is_large(1125 * MIB));
    }

    #[test]
    #[cfg(target_env = "gnu")]
    fn free_memory_below_used_memory_is_returned() {
        const BLOCK: usize = 4000;
        const COUNT: usize = 40_000;
        let mut blocks: Vec<Box<[u8]>> =
            (0..COUNT).map(|number| vec![number as u8; BLOCK].into_boxed_slice()).collect();
        // The last block keeps the heap from shrinking.
        let last = blocks.pop();
        let before = resident().expect("Linux");
        drop(blocks);
        trim();
        let after = resident().expect("Linux");
        // The rest is for tests beside this one.
        assert!(after + (COUNT * BLOCK / 2) as u64 <= before, "{before} to {after} bytes");
        drop(last);
    }
}
