//! Memory and time of the process, with the names that Prometheus' clients share.

use super::family::MetricFamily;
use crate::manage::api::ApiContext;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;

pub(super) fn families(context: &ApiContext<'_>) -> Vec<MetricFamily> {
    let started = context.status.started.timestamp_millis() as f64 / 1000.0;
    let mut families = vec![MetricFamily::gauge(
        "process_start_time_seconds",
        "Start of the process since the Unix epoch in seconds",
        started,
    )];
    if let Ok(usage) = getrusage(UsageWho::RUSAGE_SELF) {
        let used = seconds(usage.user_time()) + seconds(usage.system_time());
        families.push(MetricFamily::float_counter(
            "process_cpu_seconds",
            "User and system CPU time spent in seconds",
            used,
        ));
    }
    let memory = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let fields = [
        ("VmRSS:", "process_resident_memory_bytes", "Resident memory size in bytes"),
        ("VmSize:", "process_virtual_memory_bytes", "Virtual memory size in bytes"),
    ];
    for (field, name, help) in fields {
        if let Some(kib) = kib(&memory, field) {
            families.push(MetricFamily::gauge(name, help, kib as f64 * 1024.0));
        }
    }
    families
}

fn seconds(time: TimeVal) -> f64 {
    time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6
}

/// A field of /proc/self/status in KiB (proc(5)).
fn kib(status: &str, field: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    line.trim().strip_suffix(" kB")?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::kib;

    #[test]
    fn memory_is_read_from_the_status_of_the_process() {
        let status = "Name:\ttorus-sm\nVmSize:\t  2048 kB\nVmRSS:\t     512 kB\n";
        assert_eq!((kib(status, "VmRSS:"), kib(status, "VmSize:")), (Some(512), Some(2048)));
        assert_eq!(kib(status, "VmSwap:"), None);
    }
}
