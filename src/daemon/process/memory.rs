//! Returns memory to the kernel that the allocator keeps after a peak.
//!
//! glibc returns by itself only what is free at the end of its heap. A single small allocation there
//! keeps all that a flood of large queries has used before. malloc_trim(3) returns the free pages in
//! between, and holds the lock of one arena at a time for as long as it takes to visit its free
//! chunks. It is called only when clearly more is unused than after the last call: pages that are
//! returned must be faulted in again for the next plan, and some stay because a part of them is used.

use std::fs;
use std::time::Duration;
use tokio::time::{MissedTickBehavior, interval};

/// Interval of the checks.
const INTERVAL: Duration = Duration::from_secs(4);

/// Unused bytes that are left to the allocator.
const MIN_UNUSED: u64 = 4 << 20;

/// The share of the used memory, one part in this many, that is left to the allocator if it is more.
const UNUSED_SHARE: u64 = 8;

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
    let mut least = LeastUnused::default();
    loop {
        ticks.tick().await;
        let Some(heap) = HeapUse::now() else { return };
        if least.is_exceeded(heap) {
            trim();
            least.trimmed(HeapUse::now().unwrap_or(heap));
        }
    }
}

/// The memory of the allocator, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct HeapUse {
    /// As [`resident`] returns it: what is not the allocator's stays the same.
    resident: u64,
    /// Allocated by the program.
    used: u64,
}

impl HeapUse {
    /// `None` if the kernel does not tell.
    fn now() -> Option<Self> {
        Some(Self { resident: resident()?, used: used() })
    }

    fn unused(self) -> u64 {
        self.resident.saturating_sub(self.used)
    }
}

/// The least memory that was unused since memory was returned last, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct LeastUnused(u64);

impl LeastUnused {
    /// True if memory should be returned.
    fn is_exceeded(&mut self, heap: HeapUse) -> bool {
        self.0 = self.0.min(heap.unused());
        heap.unused() >= self.0 + MIN_UNUSED.max(heap.used / UNUSED_SHARE)
    }

    /// Memory was returned, and so much is left.
    fn trimmed(&mut self, left: HeapUse) {
        self.0 = left.unused();
    }
}

/// Resident memory of this process in bytes (proc_pid_status(5)), without mapped files from Linux 4.5 on; `None`
/// if the kernel does not tell.
pub fn resident() -> Option<u64> {
    let text = fs::read_to_string("/proc/self/status").ok()?;
    let mut fields = ["RssAnon:", "VmRSS:"].into_iter();
    let line = fields.find_map(|field| text.lines().find_map(|line| line.strip_prefix(field)))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kib << 10)
}

/// Memory that the program has allocated, in bytes.
#[cfg(target_env = "gnu")]
#[allow(unsafe_code)]
fn used() -> u64 {
    // mallinfo2(3), without the limit of 4 GiB, is missing before glibc 2.33.
    // SAFETY: mallinfo has no preconditions and is thread safe (mallinfo(3)).
    let heap = unsafe { libc::mallinfo() };
    let [chunks, mapped] =
        [heap.uordblks, heap.hblkhd].map(|bytes| u64::from(bytes.cast_unsigned()));
    chunks + mapped
}

/// Other C libraries do not tell, and need no call to return memory.
#[cfg(not(target_env = "gnu"))]
fn used() -> u64 {
    u64::MAX
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

    const MIB: u64 = 1 << 20;

    fn heap(used: u64, unused: u64) -> HeapUse {
        HeapUse { resident: (used + unused) * MIB, used: used * MIB }
    }

    #[test]
    fn memory_is_returned_if_much_more_is_unused() {
        let mut least = LeastUnused::default();
        assert!(!least.is_exceeded(heap(30, 3)));
        assert!(least.is_exceeded(heap(30, 10)), "what the start took for a moment");
        // Parts of these pages are in use.
        least.trimmed(heap(30, 6));
        assert!(!least.is_exceeded(heap(30, 9)));
        assert!(!least.is_exceeded(heap(200, 6)), "all that was added is used");
        assert!(!least.is_exceeded(heap(200, 30)), "less than a large fabric's plan may take");
        assert!(least.is_exceeded(heap(200, 31)));
        assert!(least.is_exceeded(heap(60, 146)), "the same memory, now unused");
        least.trimmed(heap(60, 40));
        assert!(!least.is_exceeded(heap(60, 40)));
        assert!(!least.is_exceeded(heap(60, 2)));
        assert!(least.is_exceeded(heap(60, 10)), "from the least");
    }

    #[test]
    #[cfg(target_env = "gnu")]
    fn memory_in_use_is_counted() {
        let before = used();
        let small: Vec<Box<[u8]>> = (0..5000).map(|_| vec![1; 10_000].into_boxed_slice()).collect();
        let large = vec![1_u8; 50_000_000];
        let grown = used().saturating_sub(before);
        // The rest is for tests beside this one.
        assert!(grown >= 80_000_000, "{grown} bytes");
        drop((small, large));
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
