//! Debian's ibccconfig and ibccquery on the simulated devices: both sides of the wire format of
//! congestion control, written by others.

use std::process::Output;
use testkit::{Simulator, tool};

/// LIDs that the SM assigns in the fabric 2x2x1: its own host, and the first switch.
const HOST: &str = "1";
const SWITCH: &str = "2";

/// Checks that the output of a query has all lines, of which `.` stands for the dots.
fn has_lines(sim: &Simulator, args: &[&str], expected: &[(&str, &str)]) {
    let text = sim.ask("ibccquery", args);
    for (name, value) in expected {
        let is_line = |line: &str| {
            let rest = line.strip_prefix(&format!("{name}:"));
            rest.is_some_and(|rest| rest.trim_start_matches('.') == *value)
        };
        assert!(text.lines().any(is_line), "{name} {value} is not in\n{text}");
    }
}

fn configure(sim: &Simulator, args: &[&str]) -> Output {
    sim.run("", "ibccconfig", args)
}

fn accepted(sim: &Simulator, args: &[&str]) {
    let output = configure(sim, args);
    assert!(output.status.success(), "{args:?}: {output:?}");
}

#[test]
fn tools_configure_and_read_congestion_control() {
    if !["ibccconfig", "ibccquery"].iter().all(|name| tool(name).is_some()) {
        return;
    }
    let sim = Simulator::start(&["2x2x1"]);
    has_lines(&sim, &["CI", SWITCH], &[("CongestionInfo", "0x0001"), ("ControlTableCap", "0")]);
    has_lines(&sim, &["CI", HOST], &[("CongestionInfo", "0x0000"), ("ControlTableCap", "2")]);
    let setting = ["SS", SWITCH, "0x1f", "0x1e", "0x02", "15", "8", "7", "1:10", "100"];
    accepted(&sim, &setting);
    let switch = [
        ("Control_Map", "0x0000001f"),
        ("Victim_Mask", &format!("{:064x}", 0x1e)),
        ("Credit_Mask", &format!("{:064x}", 2)),
        ("Threshold", "0x0f"),
        ("Packet_Size", "8"),
        ("CS_Threshold", "0x07"),
        ("CS_ReturnDelay", "0x400a"),
        ("Marking_Rate", "100"),
    ];
    has_lines(&sim, &["SS", SWITCH], &switch);
    accepted(&sim, &["SP", SWITCH, "3", "1", "0", "5", "6", "7"]);
    let port = [("Packet_Size", "6"), ("Cong_Parm_Marking_Rate", "7")];
    has_lines(&sim, &["SP", SWITCH], &port);
    accepted(&sim, &["CS", HOST, "1", "0x8001", "10", "2", "3", "1"]);
    let adapter = [("Port_Control", "0x0001"), ("Control_Map", "0x8001"), ("CCTI_Timer", "10")];
    has_lines(&sim, &["CS", HOST], &adapter);
    accepted(&sim, &["CT", HOST, "3", "0", "0:0", "1:5", "2:7", "3:9"]);
    let table = [("CCTI_Limit", "3"), ("CCT_Shift", "3"), ("CCT_Multiplier", "9")];
    has_lines(&sim, &["CT", HOST], &table);
    let refused = configure(&sim, &["CS", SWITCH, "1", "0x8001", "10", "2", "3", "1"]);
    assert!(!refused.status.success(), "{refused:?}");
}

#[test]
fn a_protected_key_is_shown_to_those_only_who_send_it() {
    if !["ibccconfig", "ibccquery"].iter().all(|name| tool(name).is_some()) {
        return;
    }
    let sim = Simulator::start(&["2x2x1"]);
    accepted(&sim, &["CK", SWITCH, "0x77", "1", "30", "0"]);
    let shown = |args: &[&str], key: &str, violations: &str| {
        let key = format!("0x{key:0>16}");
        let lines = [
            ("CC_Key", &*key),
            ("CC_KeyProtectBit", "1"),
            ("CC_KeyLeasePeriod", "30"),
            ("CC_KeyViolations", violations),
        ];
        has_lines(&sim, args, &lines);
    };
    shown(&["CK", SWITCH], "0", "0");
    shown(&["-c", "0x77", "CK", SWITCH], "77", "0");
    let setting = ["SS", SWITCH, "0x1f", "0", "0", "9", "8", "7", "1:10", "100"];
    let ignored = configure(&sim, &setting);
    assert!(!ignored.status.success(), "{ignored:?}");
    has_lines(&sim, &["SS", SWITCH], &[("Threshold", "0x00")]);
    let with_key: Vec<&str> = ["-c", "0x77"].into_iter().chain(setting).collect();
    accepted(&sim, &with_key);
    has_lines(&sim, &["SS", SWITCH], &[("Threshold", "0x09")]);
}
