//! The lines that OpenSM logs about counters.

use super::counters::{ErrorCounters, XMIT_WAIT};

/// Name in the specification, and error number in OpenSM's log, of the counters before
/// PortXmitWait.
const ERRORS: [(&str, &str); XMIT_WAIT] = [
    ("SymbolErrorCounter", "5431"),
    ("LinkErrorRecoveryCounter", "5432"),
    ("LinkDownedCounter", "5433"),
    ("PortRcvErrors", "5434"),
    ("PortRcvRemotePhysicalErrors", "5435"),
    ("PortRcvSwitchRelayErrors", "5436"),
    ("PortXmitDiscards", "5437"),
    ("PortXmitConstraintErrors", "5438"),
    ("PortRcvConstraintErrors", "5439"),
    ("LocalLinkIntegrityErrors", "543A"),
    ("ExcessiveBufferOverrunErrors", "543B"),
    ("VL15Dropped", "543C"),
];

/// A port as the log names it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LoggedPort<'a> {
    /// NodeDescription.
    pub name: &'a str,
    /// Node GUID.
    pub guid: u64,
    pub port: u8,
}

impl LoggedPort<'_> {
    fn text(&self) -> String {
        format!("\"{}\" (NodeGUID: 0x{:x}) : port {}", self.name, self.guid, self.port)
    }
}

/// Error counters of a port.
pub struct ErrorReadings<'a> {
    pub now: &'a ErrorCounters,
    /// At the last reading.
    pub before: &'a ErrorCounters,
}

impl ErrorReadings<'_> {
    fn increase(&self, at: usize) -> u64 {
        self.now.0[at].saturating_sub(self.before.0[at])
    }
}

/// A line for each error counter that increased. `xmit_wait_threshold` is the increase of
/// PortXmitWait that gets a line; `None` for no such line.
pub fn lines(
    port: LoggedPort<'_>,
    peer: Option<LoggedPort<'_>>,
    readings: &ErrorReadings<'_>,
    xmit_wait_threshold: Option<u32>,
) -> Vec<String> {
    let ends = match peer {
        Some(peer) => format!("{} connected to {}", port.text(), peer.text()),
        None => port.text(),
    };
    let increased = ERRORS.iter().enumerate().filter(|(at, _)| readings.increase(*at) > 0);
    let mut lines: Vec<String> = increased
        .map(|(at, (name, number))| {
            format!("ERR {number}: {name} : {} : node {ends}", readings.increase(at))
        })
        .collect();
    let waited = readings.increase(XMIT_WAIT);
    if xmit_wait_threshold.is_some_and(|limit| waited > 0 && waited >= u64::from(limit)) {
        lines.push(format!("ERR 543D: XmitWait : {waited} : node {}", port.text()));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn increases_get_opensms_lines() {
        let mut now = ErrorCounters::default();
        (now.0[0], now.0[9], now.0[XMIT_WAIT]) = (7, 2, 70_000);
        let mut before = ErrorCounters::default();
        (before.0[0], before.0[2]) = (4, 1);
        let readings = ErrorReadings { now: &now, before: &before };
        let port = LoggedPort { name: "S1", guid: 0xab, port: 3 };
        let peer = LoggedPort { name: "H 1", guid: 0xcd, port: 1 };
        assert_eq!(
            lines(port, Some(peer), &readings, None),
            [
                "ERR 5431: SymbolErrorCounter : 3 : node \"S1\" (NodeGUID: 0xab) : port 3 connected to \
                 \"H 1\" (NodeGUID: 0xcd) : port 1",
                "ERR 543A: LocalLinkIntegrityErrors : 2 : node \"S1\" (NodeGUID: 0xab) : port 3 connected \
                 to \"H 1\" (NodeGUID: 0xcd) : port 1",
            ]
        );
        let waits =
            lines(port, Some(peer), &ErrorReadings { now: &now, before: &now }, Some(65_535));
        assert!(waits.is_empty());
        let waits = lines(port, None, &readings, Some(65_535));
        assert_eq!(waits[2], "ERR 543D: XmitWait : 70000 : node \"S1\" (NodeGUID: 0xab) : port 3");
        assert_eq!(lines(port, None, &readings, Some(70_001)).len(), 2);
    }
}
