//! The same faults on two fabrics of Debian's ibsim, one with this daemon and one with opensm:
//! after each fault both must have the same forwarding tables, SL to VL mappings and multicast trees,
//! and after each repair the routes of before.

use super::bring_up::{Case, start, undumped, wait_until};
use super::sa_queries::{Answer, Question, ask};
use std::fs;
use std::path::Path;
use std::time::Duration;
use testkit::dumps::{self, Lfts, Mfts, SlToVls, differences};
use testkit::{Ibsim, Running, have, tool, torus_sm, wait_for};
use torus_sm::ids::Guid;

/// Time for a subnet manager to route around a fault. opensm waits for the timeouts of what is
/// lost.
const TIME_LIMIT: Duration = Duration::from_secs(60);

/// The tables of a fabric, as a subnet manager dumps them.
#[derive(Clone, PartialEq, Eq)]
struct Tables {
    lfts: Lfts,
    sl_to_vls: SlToVls,
    mfts: Mfts,
}

impl Tables {
    /// The differences from the tables of the other subnet manager, by kind.
    fn differences(&self, theirs: &Self) -> String {
        [
            ("LFTs", differences(&self.lfts, &theirs.lfts)),
            ("SL to VL mappings", differences(&self.sl_to_vls, &theirs.sl_to_vls)),
            ("MFTs", differences(&self.mfts, &theirs.mfts)),
        ]
        .into_iter()
        .filter(|(_, difference)| !difference.is_empty())
        .map(|(kind, difference)| format!("{kind}:\n{difference}\n"))
        .collect()
    }
}

/// A subnet manager on a fabric of its own.
struct Side {
    sim: Ibsim,
    _sm: Running,
}

impl Side {
    fn start(case: &Case, program: &Path) -> Self {
        let sim = Ibsim::start(&case.fabric());
        let sm = start(&sim, case, program, &["-s", "1"]);
        wait_for(&sim.dir().join("sm.log"), "SUBNET UP", TIME_LIMIT);
        Self { sim, _sm: sm }
    }

    /// The tables as dumped.
    fn tables(&self) -> Tables {
        Tables {
            lfts: dumps::lfts(&self.dump("opensm-lfts.dump")),
            sl_to_vls: dumps::sl_to_vls(&self.dump("opensm-sl2vl.dump")),
            mfts: dumps::mfts(&self.dump("opensm.mcfdbs")),
        }
    }

    /// The whole lines of a dump file. opensm may be writing it, so that its last line is
    /// incomplete.
    fn dump(&self, name: &str) -> String {
        let text = fs::read_to_string(self.sim.dir().join(name)).unwrap_or_default();
        text.rsplit_once('\n').map_or_else(String::new, |(lines, _)| lines.to_owned())
    }

    /// Makes the hosts members of a group that the first one creates.
    fn join(&self, case: &Case, hosts: &[[u16; 3]]) {
        for &host in hosts {
            // The GUID of a port 1 follows that of its node.
            let member = Guid(case.shape.host_guid(host, 0).0 + 1);
            let answers = ask(&self.sim, &case.host(host), &[Question::Join { group: 0, member }]);
            assert_eq!(answers[0].status, Answer::granted(0).status, "{host:?} joins");
        }
    }

    fn log(&self) -> String {
        fs::read_to_string(self.sim.dir().join("sm.log")).unwrap_or_default()
    }
}

/// This daemon and opensm.
struct Pair([Side; 2]);

impl Pair {
    /// Starts both, and waits until they have the same tables.
    fn start(case: &Case) -> Self {
        let opensm = tool("opensm").expect("checked before");
        let pair = Self([Side::start(case, &torus_sm()), Side::start(case, &opensm)]);
        pair.wait_for_same_tables("start", |_, tables| !tables.lfts.is_empty());
        pair
    }

    fn tables(&self) -> [Tables; 2] {
        self.0.each_ref().map(Side::tables)
    }

    /// Waits until both have the same tables, and these are as `is_expected` says.
    fn wait_for_same_tables(&self, event: &str, is_expected: impl Fn(usize, &Tables) -> bool) {
        let is_done = || {
            let tables = self.tables();
            let are_expected = (0..).zip(&tables).all(|(side, tables)| is_expected(side, tables));
            are_expected && tables[0] == tables[1]
        };
        if !wait_until(TIME_LIMIT, is_done) {
            let [ours, theirs] = self.tables();
            let ready = [&ours, &theirs].map(|tables| tables.lfts.len());
            let difference = ours.differences(&theirs);
            panic!("{event}: {ready:?} entries\n{difference}\n{}", self.0[0].log());
        }
        // The next tables may be on their way already.
        let sim = &self.0[0].sim;
        let is_held = wait_until(TIME_LIMIT, || undumped(sim).is_empty());
        assert!(is_held, "{event}: the devices hold other tables:\n{}", undumped(sim));
    }

    /// A fault that changes routes.
    fn fault(&mut self, line: &str) {
        let before = self.tables();
        self.type_line(line);
        self.wait_for_same_tables(line, |side, tables| tables.lfts != before[side].lfts);
    }

    /// The repair of a fault, after which the routes are as they were. A host that was lost is no
    /// longer a member of its group.
    fn repair(&mut self, line: &str, before: &[Tables; 2]) {
        self.type_line(line);
        self.wait_for_same_tables(line, |side, tables| {
            let before = &before[side];
            tables.lfts == before.lfts && tables.sl_to_vls == before.sl_to_vls
        });
    }

    fn type_line(&mut self, line: &str) {
        self.0.iter_mut().for_each(|side| side.sim.type_line(line));
    }
}

fn same_tables_after_faults(radix: [u16; 3], lost: [u16; 3]) {
    if !have(&["ibsim", "opensm"]) {
        return;
    }
    let case = Case::new(radix, 1);
    let mut pair = Pair::start(&case);
    let first = pair.tables();
    let members = [[0, 0, 0], lost, [1, 0, 0], [2, 2, radix[2] - 1]];
    pair.0.iter().for_each(|side| side.join(&case, &members));
    let switch = format!("\"S-{:016x}\"", case.shape.switch_guid(lost).0);
    let host = format!("\"{}\"", case.host(lost));
    // A cable between switches, a host, and a port that is reset as well; ports 1 to 4 lead along x
    // and y.
    for part in [format!("{switch}[1]"), format!("{switch}[4]"), host] {
        pair.fault(&format!("Unlink {part}"));
        pair.repair(&format!("ReLink {part}"), &first);
    }
    pair.fault(&format!("Clear {switch}[3]"));
    pair.repair(&format!("ReLink {switch}[3]"), &first);
    // A switch with its host, and a cable elsewhere while it is lost.
    pair.fault(&format!("Unlink {switch}"));
    let without_switch = pair.tables();
    let other = format!("\"S-{:016x}\"[1]", case.shape.switch_guid([0, 0, 0]).0);
    pair.fault(&format!("Unlink {other}"));
    pair.repair(&format!("ReLink {other}"), &without_switch);
    pair.repair(&format!("ReLink {switch}"), &first);
    let trees = pair.tables().map(|tables| tables.mfts);
    assert!(trees.iter().all(|trees| !trees.is_empty()), "the group has a tree");
}

#[test]
fn a_2d_torus_is_routed_around_faults_as_by_opensm() {
    same_tables_after_faults([5, 4, 1], [2, 2, 0]);
}

#[test]
fn a_3d_torus_is_routed_around_faults_as_by_opensm() {
    same_tables_after_faults([3, 3, 3], [1, 2, 1]);
}
