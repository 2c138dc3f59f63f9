//! The command `status`.

use super::ConsoleSources;
use crate::manage::loop_status::{LoopStatus, ReconfigureResult};
use crate::manage::sa_query::{SaQuery, SaReport};
use crate::notes::OPENSM_VERSION;
use crate::transport::transactions::SmpResultKind;
use crate::wire::attr::SmState;
use std::fmt::Write as _;
use std::time::Duration;
use tokio::sync::oneshot::{self, error::TryRecvError};
use tokio::time::Instant;

/// Time limit of the SA server's answer, and interval at which it is looked for.
const SA_TIMEOUT: Duration = Duration::from_secs(2);
const SA_POLL_INTERVAL: Duration = Duration::from_millis(2);

/// The state of the SM, in the lines of OpenSM.
pub(super) fn text(sources: &ConsoleSources) -> String {
    let status = sources.status.load();
    let perf = sources.perf.load();
    let engine = status.subnet.as_ref().map_or("none", |subnet| subnet.plan.routing.engine);
    let sa = if status.subnet.is_some() { "Ready" } else { "Init" };
    let (active, sweeping) = match (perf.settings.is_enabled, perf.is_sweeping) {
        (false, _) => ("Disabled", "Sleeping"),
        (true, false) => ("Enabled", "Sleeping"),
        (true, true) => ("Enabled", "Active"),
    };
    let mut text = format!(
        "   OpenSM Version       : {OPENSM_VERSION}\n   SM State             : {}\n   \
         SM Priority          : {}\n   SA State             : {sa}\n   \
         Routing Engine       : {engine}\n   Loaded event plugins : <none>\n\n   \
         PerfMgr state/sweep state : {active}/{sweeping}\n",
        state(status.managers.own.state),
        status.managers.own.priority,
    );
    add_counters(&mut text, &status);
    add_sa_counters(&mut text, sa_report(sources).as_ref());
    add_flags(&mut text, &status);
    add_managers(&mut text, &status);
    text.push('\n');
    text
}

/// The names of states in OpenSM's console, all of the same width.
fn state(state: SmState) -> &'static str {
    match state {
        SmState::Discovering => "Discovering",
        SmState::Standby => "Standby    ",
        SmState::NotActive => "Not Active ",
        SmState::Master => "Master     ",
        SmState::Unknown(_) => "UNKNOWN    ",
    }
}

fn add_counters(text: &mut String, status: &LoopStatus) {
    let smps = status.handles.smps.counters();
    let sent = smps.gets() + smps.sets() + smps.posted;
    let received = smps.results(SmpResultKind::Answered) + smps.results(SmpResultKind::Refused);
    let done =
        received + smps.results(SmpResultKind::Unanswered) + smps.results(SmpResultKind::Malformed);
    let outstanding = (smps.gets() + smps.sets()).saturating_sub(done);
    // Writing to a String cannot fail.
    let _ = write!(
        text,
        "\n   MAD stats\n   ---------\n   QP0 MADs outstanding           : {outstanding}\n   \
         QP0 MADs outstanding (on wire) : {outstanding}\n   \
         QP0 MADs rcvd                  : {received}\n   \
         QP0 MADs sent                  : {sent}\n   \
         QP0 unicasts sent              : {}\n   \
         QP0 unknown MADs rcvd          : {}\n",
        smps.posted,
        smps.results(SmpResultKind::Malformed)
    );
}

/// The counters of the SA server; `None` if it does not answer in time.
fn sa_report(sources: &ConsoleSources) -> Option<SaReport> {
    let (sender, mut reply) = oneshot::channel();
    if !(sources.query_sa)(SaQuery::Report(sender)) {
        return None;
    }
    let deadline = Instant::now() + SA_TIMEOUT;
    while Instant::now() < deadline {
        match reply.try_recv() {
            Ok(report) => return Some(report),
            Err(TryRecvError::Empty) => std::thread::park_timeout(SA_POLL_INTERVAL),
            Err(TryRecvError::Closed) => return None,
        }
    }
    None
}

fn add_sa_counters(text: &mut String, report: Option<&SaReport>) {
    let Some(report) = report else {
        text.push_str(
            "   SA MADs                        : unknown, the SA server did not answer\n",
        );
        return;
    };
    let counters = &report.counters;
    let _ = write!(
        text,
        "   SA MADs outstanding            : {}\n   \
         SA MADs rcvd                   : {}\n   \
         SA MADs sent                   : {}\n   \
         SA unknown MADs rcvd           : {}\n   \
         SA MADs ignored                : {}\n",
        report.queued,
        counters.received(),
        counters.sent(),
        counters.unknown(),
        report.ignored
    );
}

/// Three of OpenSM's flags belong to a sweep that is under way: between sweeps, to which the
/// snapshot belongs, they are 0.
fn add_flags(text: &mut String, status: &LoopStatus) {
    let has_errors =
        status.history.reconfigurations.back().is_some_and(|last| failed(&last.result));
    let _ = write!(
        text,
        "\n   Subnet flags\n   ------------\n   Sweeping enabled               : {}\n   \
         Sweep interval (seconds)       : {}\n   \
         Ignore existing lfts           : 0\n   \
         Subnet Init errors             : {}\n   \
         In sweep hop 0                 : 0\n   \
         First time master sweep        : {}\n   \
         Coming out of standby          : 0\n",
        u8::from(status.work.is_sweeping_enabled),
        status.options.sweep_interval,
        u8::from(has_errors),
        u8::from(status.subnet.is_none()),
    );
}

fn failed(result: &ReconfigureResult) -> bool {
    result.problem().is_some()
}

fn add_managers(text: &mut String, status: &LoopStatus) {
    let own = &status.managers.own;
    let _ = write!(
        text,
        "\n   Known SMs\n   ---------\n   Port GUID       SM State    Priority\n   ---------       \
         --------    --------\n   0x{:x} {} {}        SELF\n",
        own.guid.0,
        state(own.state),
        own.priority
    );
    for other in &status.managers.others {
        let guid = other.guid.0;
        let state = state(other.state);
        let _ = writeln!(text, "   0x{guid:x} {state} {}", other.priority);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_of_a_silent_sa_server_are_unknown() {
        let mut text = String::new();
        add_sa_counters(&mut text, None);
        assert_eq!(
            text,
            "   SA MADs                        : unknown, the SA server did not answer\n"
        );
        add_sa_counters(&mut text, Some(&SaReport::default()));
        assert!(text.contains("\n   SA MADs rcvd                   : 0\n"), "{text}");
    }
}
