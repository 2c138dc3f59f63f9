//! The totals of all ports.
//!
//! Devices count in up to 64 bits and may be cleared; the totals are the sums of the increases. A
//! copy shares the nodes, which change by replacement, so that readers keep a snapshot at little
//! cost.

use super::counters::{DataCounters, ErrorCounters};
use super::history::{History, Sample};
use crate::ids::{Guid, PortNum};
use chrono::{DateTime, Utc};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The time of a reading.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ReadingTime {
    pub date: DateTime<Utc>,
    /// Seconds since the start of the daemon.
    pub since_start: f64,
}

/// A port of the database.
#[derive(Clone, PartialEq, Debug)]
pub struct PortEntry {
    /// The port was read at least once.
    pub is_valid: bool,
    /// Time from which the totals count.
    pub last_reset: DateTime<Utc>,
    /// The last reading of the error counters.
    pub previous_errors: ErrorCounters,
    pub errors: ErrorCounters,
    /// The increase between the last two readings; 0 after the first one.
    pub recent_errors: ErrorCounters,
    pub errors_updated: DateTime<Utc>,
    /// The last reading of the data counters.
    pub previous_data: DataCounters,
    pub data: DataCounters,
    pub data_updated: DateTime<Utc>,
    pub history: History,
}

impl PortEntry {
    fn new(now: DateTime<Utc>) -> Self {
        Self {
            is_valid: false,
            last_reset: now,
            previous_errors: ErrorCounters::default(),
            errors: ErrorCounters::default(),
            recent_errors: ErrorCounters::default(),
            errors_updated: DateTime::UNIX_EPOCH,
            previous_data: DataCounters::default(),
            data: DataCounters::default(),
            data_updated: DateTime::UNIX_EPOCH,
            history: History::default(),
        }
    }
}

/// A node of the database.
#[derive(Clone, PartialEq, Debug)]
pub struct NodeEntry {
    pub guid: Guid,
    pub name: String,
    /// Port 0 has counters: it is an enhanced switch port 0.
    pub has_port0: bool,
    /// The node is in the fabric.
    pub is_active: bool,
    /// Port 0 first.
    pub ports: Vec<PortEntry>,
}

impl NodeEntry {
    /// The ports that were read, with their numbers.
    pub fn valid_ports(&self) -> impl Iterator<Item = (u8, &PortEntry)> {
        let first = usize::from(!self.has_port0);
        let ports = (0_u8..=255).zip(&self.ports).skip(first);
        ports.filter(|(_, port)| port.is_valid)
    }
}

/// The counters of all ports by node GUID.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Database(BTreeMap<Guid, Arc<NodeEntry>>);

impl Database {
    /// Adds a node unless it is known, and marks it as active.
    pub fn activate(
        &mut self,
        guid: Guid,
        name: &str,
        num_ports: u8,
        has_port0: bool,
        now: DateTime<Utc>,
    ) {
        let count = usize::from(num_ports) + 1;
        let node = self.0.entry(guid).or_insert_with(|| {
            let name = name.to_owned();
            let ports = vec![PortEntry::new(now); count];
            Arc::new(NodeEntry { guid, name, has_port0, is_active: true, ports })
        });
        if node.ports.len() != count {
            Arc::make_mut(node).ports = vec![PortEntry::new(now); count];
        }
        if !node.is_active || node.name != name || node.has_port0 != has_port0 {
            let node = Arc::make_mut(node);
            (node.is_active, node.has_port0) = (true, has_port0);
            node.name = name.to_owned();
        }
    }

    /// Marks a node that has left the fabric.
    pub fn deactivate(&mut self, guid: Guid) {
        if let Some(node) = self.0.get_mut(&guid) {
            Arc::make_mut(node).is_active = false;
        }
    }

    pub fn remove(&mut self, guid: Guid) {
        self.0.remove(&guid);
    }

    /// Removes the nodes that are not active. Returns their number.
    pub fn remove_inactive(&mut self) -> usize {
        let before = self.0.len();
        self.0.retain(|_, node| node.is_active);
        before - self.0.len()
    }

    pub fn node(&self, guid: Guid) -> Option<&NodeEntry> {
        self.0.get(&guid).map(Arc::as_ref)
    }

    /// The node with this GUID (0x...) or description.
    pub fn find(&self, name: &str) -> Option<&NodeEntry> {
        let digits = name.strip_prefix("0x");
        match digits.and_then(|digits| u64::from_str_radix(digits, 16).ok()) {
            Some(guid) => self.node(Guid(guid)),
            None => self.nodes().find(|node| node.name == name),
        }
    }

    /// All nodes by GUID.
    pub fn nodes(&self) -> impl Iterator<Item = &NodeEntry> {
        self.0.values().map(Arc::as_ref)
    }

    pub fn port(&self, guid: Guid, port: PortNum) -> Option<&PortEntry> {
        self.node(guid)?.ports.get(usize::from(port.0))
    }

    fn port_mut(&mut self, guid: Guid, port: PortNum) -> Option<&mut PortEntry> {
        let node = self.0.get_mut(&guid)?;
        Arc::make_mut(node).ports.get_mut(usize::from(port.0))
    }

    /// Adds a reading of the error counters.
    pub fn add_errors(&mut self, at: (Guid, PortNum), reading: ErrorCounters, time: ReadingTime) {
        let Some(port) = self.port_mut(at.0, at.1) else { return };
        port.is_valid = true;
        let previous = std::mem::replace(&mut port.previous_errors, reading);
        add_increase(&mut port.errors.0, &reading.0, &previous.0);
        port.recent_errors = ErrorCounters::default();
        if port.errors_updated != DateTime::UNIX_EPOCH {
            add_increase(&mut port.recent_errors.0, &reading.0, &previous.0);
        }
        port.errors_updated = time.date;
    }

    /// Adds a reading of the data counters, and a sample of the totals.
    pub fn add_data(
        &mut self,
        at: (Guid, PortNum),
        reading: DataCounters,
        time: ReadingTime,
        window: f64,
    ) {
        let Some(port) = self.port_mut(at.0, at.1) else { return };
        port.is_valid = true;
        let previous = std::mem::replace(&mut port.previous_data, reading);
        add_increase(&mut port.data.0, &reading.0, &previous.0);
        port.data_updated = time.date;
        let sample = Sample::new(time.since_start, &port.data, &port.errors);
        port.history.push(sample, window);
    }

    /// The device's error counters count from 0 again.
    pub fn restart_errors(&mut self, guid: Guid, port: PortNum) {
        if let Some(port) = self.port_mut(guid, port) {
            port.previous_errors = ErrorCounters::default();
        }
    }

    /// The device's data counters count from 0 again.
    pub fn restart_data(&mut self, guid: Guid, port: PortNum) {
        if let Some(port) = self.port_mut(guid, port) {
            port.previous_data = DataCounters::default();
        }
    }

    /// Sets all totals to 0; the counters of the devices stay.
    pub fn clear(&mut self, now: DateTime<Utc>) {
        for port in self.0.values_mut().flat_map(|node| &mut Arc::make_mut(node).ports) {
            (port.errors, port.data) = Default::default();
            (port.errors_updated, port.data_updated, port.last_reset) = (now, now, now);
            port.history.clear();
        }
    }
}

fn add_increase<const N: usize>(totals: &mut [u64; N], now: &[u64; N], before: &[u64; N]) {
    for ((total, now), before) in totals.iter_mut().zip(now).zip(before) {
        *total = total.saturating_add(now.saturating_sub(*before));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: (Guid, PortNum) = (Guid(7), PortNum(1));

    fn errors(symbols: u64) -> ErrorCounters {
        let mut errors = ErrorCounters::default();
        errors.0[0] = symbols;
        errors
    }

    fn database() -> (Database, ReadingTime) {
        let time = ReadingTime { date: Utc::now(), since_start: 1.0 };
        let mut database = Database::default();
        database.activate(AT.0, "a", 2, false, time.date);
        (database, time)
    }

    #[test]
    fn totals_are_sums_of_increases() {
        let (mut database, time) = database();
        for reading in [5, 9, 9] {
            database.add_errors(AT, errors(reading), time);
        }
        database.restart_errors(AT.0, AT.1);
        database.add_errors(AT, errors(2), time);
        assert_eq!(total(&database), Some(11));
        let before = database.clone();
        database.clear(time.date);
        assert_eq!((total(&before), total(&database)), (Some(11), Some(0)));
        database.add_errors(AT, errors(3), time);
        assert_eq!(total(&database), Some(1), "clearing the totals leaves the last reading");
    }

    fn total(database: &Database) -> Option<u64> {
        database.port(AT.0, AT.1).map(|port| port.errors.0[0])
    }

    #[test]
    fn nodes_leave_or_stay_inactive() {
        let (mut database, time) = database();
        database.add_errors(AT, errors(1), time);
        database.activate(Guid(8), "b", 1, true, time.date);
        database.deactivate(AT.0);
        assert_eq!(database.node(AT.0).map(|node| node.is_active), Some(false));
        assert_eq!((database.remove_inactive(), database.nodes().count()), (1, 1));
        let node = database.node(Guid(8)).expect("it is active");
        assert_eq!(node.valid_ports().count(), 0);
        database.add_errors((Guid(8), PortNum(9)), errors(1), time);
        assert_eq!(database.port(Guid(8), PortNum(9)), None);
    }
}
