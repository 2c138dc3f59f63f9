//! The figures of an attack, and whether they are within the limits.

use std::time::Duration;

/// Maximum memory above that of the calm, in KiB.
const MAX_ABOVE_CALM: u64 = 64 << 10;
/// Memory that may be left [`super::RETURN_TIME`] after the attack, in KiB: the allocator keeps some.
const MAX_LEFT: u64 = 8 << 10;
/// Latency that the attack may add to that of the same flood aimed at a host.
const MAX_ADDED_LATENCY: Duration = Duration::from_millis(50);
/// Time of a reroute that counts as calm, as shorter ones differ by chance.
const MIN_CALM_REROUTE: Duration = Duration::from_millis(10);

/// Figures of a quiet client, of a reroute and of the memory.
#[derive(Clone, Copy)]
pub(super) struct Cost {
    pub(super) replies: usize,
    pub(super) sent: usize,
    /// 99th percentile of the client's latency.
    pub(super) p99: Duration,
    pub(super) reroute: Duration,
    /// Maximum resident memory meanwhile, in KiB.
    pub(super) memory: u64,
}

impl Cost {
    /// True if the quiet client loses at most one reply in a hundred, and sends at most one request
    /// in ten less than beside `other`: it waits for each reply.
    fn keeps_rate_of(&self, other: &Self) -> bool {
        self.replies * 100 >= self.sent * 99 && self.sent * 10 >= other.sent * 9
    }
}

/// The figures of an attack.
pub(super) struct Report {
    pub(super) name: String,
    pub(super) calm: Cost,
    /// While the flood is aimed at a host.
    pub(super) aside: Cost,
    /// While the flood is aimed at the subnet manager.
    pub(super) attacked: Cost,
    /// Memory above calm after the attackers have left, in KiB.
    pub(super) left: u64,
}

impl Report {
    /// Prints the figures and a verdict on each limit; true if all are kept.
    pub(super) fn print(&self) -> bool {
        let Self { name, calm, aside, attacked, left } = self;
        println!("{name}:");
        let rows = [("calm", calm), ("aimed at a host", aside), ("aimed at the SM", attacked)];
        for (row, cost) in rows {
            println!(
                "  {row:16} {}/{} replies, p99 {:.1?}, reroute {:.1?}, memory {} KiB",
                cost.replies, cost.sent, cost.p99, cost.reroute, cost.memory
            );
        }
        let above = attacked.memory.saturating_sub(calm.memory);
        let verdicts = [
            verdict("rate of the quiet client", attacked.keeps_rate_of(aside)),
            verdict("p99 of the quiet client", attacked.p99 <= aside.p99 + MAX_ADDED_LATENCY),
            verdict("reroute", attacked.reroute <= 2 * calm.reroute.max(MIN_CALM_REROUTE)),
            verdict(&format!("memory {above} KiB above calm"), above <= MAX_ABOVE_CALM),
            verdict(&format!("{left} KiB after the attack"), *left <= MAX_LEFT),
        ];
        verdicts.iter().all(|&is_kept| is_kept)
    }
}

fn verdict(what: &str, is_kept: bool) -> bool {
    println!("  {}: {what}", if is_kept { "ok" } else { "EXCEEDED" });
    is_kept
}
