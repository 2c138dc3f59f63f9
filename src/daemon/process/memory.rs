//! Returns memory to the kernel that the allocator keeps after a peak.
//!
//! glibc returns by itself only what is free at the end of its heap. A single small allocation there
//! keeps all that a flood of large queries has used before. malloc_trim(3) returns the free pages in
//! between, and holds the lock of one arena at a time for as long as it takes to visit its free
//! chunks; it is called only while the process has grown.

use std::fs;
use std::time::Duration;
use tokio::time::{MissedTickBehavior, interval};

/// Interval of the checks.
const INTERVAL: Duration = Duration::from_secs(4);

/// Growth above the least resident memory so far, in bytes, below which nothing is returned.
const MIN_GROWTH: u64 = 8 << 20;

/// Returns unused memory from time to time, for ever.
pub async fn return_unused() {
    let mut ticks = interval(INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut least = u64::MAX;
    loop {
        ticks.tick().await;
        let Some(resident) = resident() else { return };
        least = least.min(resident);
        if resident >= least + MIN_GROWTH {
            trim();
        }
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
