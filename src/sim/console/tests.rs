use super::*;
use crate::fabric::synthetic::Hardware;
use crate::ids::{Guid, Lid, PortNum};
use crate::sim::generate::Shape;
use crate::wire::attr::PortState;

const SW0: Guid = Guid(0x20_0000);
const SW1: Guid = Guid(0x20_0001);
const HOST0: Guid = Guid(0x1000_0000);

/// Three switches in a row, each with a host. +y is port 3, -y is port 4, the host is at port 7.
fn row() -> SimFabric {
    let shape: Shape = "1x3m".parse().expect("a shape");
    SimFabric::new(&shape.build().expect("it fits"), Hardware::default(), 1)
}

fn ok(fabric: &SimFabric, line: &str) -> String {
    run_line(fabric, line).unwrap_or_else(|error| panic!("{line}: {error}"))
}

fn state(fabric: &SimFabric, guid: Guid, num: u8) -> PortState {
    fabric.port_info(guid, PortNum(num)).expect("a port").port_state()
}

#[test]
fn every_command_of_the_help_is_accepted() {
    let fabric = row();
    for entry in &help::COMMANDS {
        let line = format!("{} {}", entry.name, arguments(entry.arguments));
        let line =
            line.replace("guid 0,0/3", "guid h0-1/1").replace("baselid 0,1[3]", "baselid h0-1");
        let line = line.replace("vport 0,1[3]", "vport h0-1");
        let line = line.replace("move 0,0/3 0,1/3", "move 0,0/3 0,2/3");
        assert!(parse::parse(&line).is_ok(), "{line}: {:?}", parse::parse(&line));
        // Some commands need another one before them.
        let needs_setup = ["relink", "wait", "route"].contains(&entry.name)
            || line.ends_with(" up")
            || line.starts_with("vport h0-1 1 ")
            || line.starts_with("link 0,0/3");
        let fresh = row();
        assert!(
            needs_setup || run_line(&fresh, &line).is_ok(),
            "{line}: {:?}",
            run_line(&fresh, &line)
        );
    }
    let all = ok(&fabric, "help");
    assert!(help::COMMANDS.iter().all(|entry| all.contains(entry.text)));
    assert_eq!(ok(&fabric, "help swap").lines().count(), 1);
}

fn arguments(text: &str) -> String {
    let words = text.replace("nodes|links|faults", "links").replace("NODE|PORT", "0,0/3");
    let words = words.replace("NODES", "hosts").replace("QUEUE", "8");
    let words = words.replace("ATTRIBUTE.NAME=VALUE", "PortCounters.PortRcvErrors=1");
    let words = words.replace("NAME=VALUE", "VL15Dropped=0x2").replace("LID LID", "1 2");
    let words = words.replace(" NAME", " PortXmitWait").replace("requests|responses", "responses");
    let words = words.replace(['[', ']'], "").replace("GUID", "0x77").replace("LMC", "1");
    let words = words.replace("PORT PORT", "0,0/3 0,1/3").replace("PORT", "0,1[3]");
    let words = words.replace("NODE", "h0-1").replace("PERIOD", "1ms").replace("TIMES", "2");
    let words =
        words.replace("DURATION", "20ms").replace("PROBABILITY", "25%").replace("COMMAND", "e");
    let words = words.replace("PERCENT", "5").replace("ATTRIBUTE", "21").replace("LID", "9");
    let words = words.replace("KIND", "traps").replace("WIDTH SPEED", "1x ddr");
    let words = words
        .replace("STATUS", "0x1c")
        .replace("COUNT", "9")
        .replace("SEED", "7")
        .replace("TRAP", "131")
        .replace("off|silent", "silent")
        .replace("mlnx:CAPS|off", "mlnx:rate-limit,25")
        .replace("KEY", "0x77")
        .replace("NUMBER", "4")
        .replace("INDEX", "1")
        .replace("up|down", "down")
        .replace("own-lid|shared-lid", "own-lid")
        .replace("uniform|all-to-all", "all-to-all")
        .replace("QP", "0x100");
    let words = words.replace("...", "0,1,0");
    words.replace("TEXT", "\"another name\"")
}

#[test]
fn the_speed_of_agents_is_set_by_kind_and_by_node() {
    let fabric = row();
    assert_eq!(ok(&fabric, "show sma"), "none\n");
    ok(&fabric, "sma switches 50us 16");
    ok(&fabric, "sma h0-1 1ms");
    ok(&fabric, "round-trip 10us");
    assert_eq!(
        ok(&fabric, "show sma"),
        "3 agents, 50µs for an SMP, queue 16: at most 0 at a time, 0 dropped\n\
         1 agent, 1ms for an SMP, no limit: at most 0 at a time, 0 dropped\n\
         round trip 10µs\n"
    );
    ok(&fabric, "sma all off");
    assert_eq!(ok(&fabric, "show sma"), "round trip 10µs\n");
    for (line, column) in [("sma all 50us 0", 14), ("sma all fast", 9), ("sma nowhere 1us", 5)] {
        let error = run_line(&fabric, line).expect_err(line);
        assert_eq!(error.column, column, "{line}: {error}");
    }
}

#[test]
fn hosts_without_lids_are_not_connected() {
    let fabric = row();
    assert_eq!(
        ok(&fabric, "show paths").lines().next(),
        Some("0 of 6 pairs of hosts are connected")
    );
    let text = ok(&fabric, "show paths");
    assert!(text.contains("no path: \"h0-1-0-0 HCA-1\"[1] -> \"h0-0-0-0 HCA-1\"[1]"), "{text}");
}

#[test]
fn errors_have_the_column_of_the_fault() {
    let fabric = row();
    for (line, column, words) in [
        ("lnik 0,0/3 down", 1, "did you mean 'link'?"),
        ("connect 0,0/3", 1, "'help' lists all commands"),
        ("lin 0,0/3 down", 1, "did you mean 'link'?"),
        ("link", 5, "is missing"),
        ("link 0,0/3", 11, "is missing"),
        ("link 0,0/3 down now", 17, "unexpected argument"),
        ("link 0,0 down", 6, "give a number, as in 0,0[3]; 'unlink 0,0' is for all its cables"),
        ("link 0,0 up", 6, "'relink 0,0' is for all its cables"),
        ("link 0,0/3 dwn", 12, "did you mean 'down'?"),
        ("  unlink 0,9", 10, "there is no switch at 0,9,0"),
        ("unlink 0x77", 8, "no node has the GUID"),
        ("unlink h", 8, "matches 3 nodes"),
        ("unlink \"sw 0,0,0\"[9]", 8, "has 7 ports"),
        ("unlink \"sw 0,0,0", 8, "closing quote"),
        ("unlink 0,0/0", 8, "no cable is plugged in"),
        ("relink 0,0/3", 8, "no unplugged cable"),
        ("flap 0,0/1 1s 1", 6, "no cable at this port"),
        ("flap 0,0/3 1s 0", 15, "1 to 100000"),
        ("link 0,0/3 0,1/3", 6, "unlink it first"),
        ("link 0,0/1 0,0/1", 12, "connected to itself"),
        ("swap 0,0/3 0,1/4", 12, "the same cable"),
        ("loss 1.5", 6, "not a probability"),
        ("loss 0,0/3 NaN", 12, "not a probability"),
        ("delay 2d", 7, "not a duration"),
        ("wait 25h", 6, "not a duration"),
        ("error 0,0/3 101", 13, "0 to 100 percent"),
        ("counters set 0,0/3 PortXmitData", 20, "NAME=VALUE"),
        ("counters set 0,0/3 PortXmitDate=1", 20, "no counter 'PortXmitDate'"),
        ("counters set 0,0/3 PortXmitData=x", 33, "not a number"),
        ("counters 0,0", 10, "port number is required"),
        ("baselid 0,0/3 5", 9, "have no LID"),
        ("baselid h0-0 0xC000", 14, "1 to 49151"),
        ("route 1 2", 1, "no port has LID 1"),
        ("loss 0,0/3 5% trap", 15, "unexpected argument"),
        ("refuse 0,0 0x15 0", 17, "a MAD status"),
        ("degrade 0,0/3 3x SDR", 15, "a width"),
        ("degrade 0,0/3 4x", 17, "is missing"),
        ("degrade 0,0/1 1x SDR", 9, "no cable at this port"),
        ("reboot 0,0 keep", 12, "expected keep-lids"),
        ("storm h0-0 127 1s 5", 12, "expected trap 128"),
        ("numports 0,0 256", 14, "a number of ports"),
        ("redirect h0-0 h0-1/1 1", 22, "a queue pair"),
        ("move 0,0/3 0,1/4", 12, "has a cable already"),
        ("split 0,*,1", 7, "no switch is at 0,*,1"),
        ("quit", 1, "command of ibsim"),
        ("wait 1s", 1, "in scripts only"),
    ] {
        let error = run_line(&fabric, line).expect_err(line);
        assert_eq!(error.column, column, "{line}: {error}");
        assert!(error.text.contains(words), "{line}: {error}");
    }
}

/// The commands in the help of ibsim.
#[test]
fn commands_of_ibsim() {
    let fabric = row();
    ok(&fabric, "Unlink \"S-0000000000200000\"[3]");
    assert_eq!([state(&fabric, SW0, 3), state(&fabric, SW1, 4)], [PortState::Down; 2]);
    ok(&fabric, "ReLink \"S-200000\"[3]");
    assert_eq!(state(&fabric, SW0, 3), PortState::Init);
    ok(&fabric, "Unlink \"sw 0,1,0\"");
    assert!([3, 4, 7].iter().all(|&num| state(&fabric, SW1, num) == PortState::Down));
    ok(&fabric, "Link \"sw 0,1,0\"[1] \"S-200002\"[1]");
    assert_eq!(state(&fabric, SW1, 1), PortState::Init);
    ok(&fabric, "Clear \"sw 0,1,0\"[1]");
    ok(&fabric, "ReLink \"S-200001\"");
    assert!([1, 3, 4, 7].iter().all(|&num| state(&fabric, SW1, num) == PortState::Init));
    ok(&fabric, "Baselid \"H-0000000010000000\"[1] 12 2");
    let info = fabric.port_info(HOST0, PortNum(1)).expect("a port");
    assert_eq!((info.lid(), info.lmc()), (Lid(12), 2));
    ok(&fabric, "PerformanceSet \"sw 0,0,0\"[3] PortCountersExtended.PortXmitData=5000000000");
    ok(&fabric, "PerformanceSet \"sw 0,0,0\"[3] PortCounters.LinkDownedCounter=300");
    let counters = ok(&fabric, "counters 0,0[3]");
    assert_eq!(values("PortXmitData", &counters), ["0", "5000000000"]);
    assert_eq!(values("LinkDownedCounter", &counters), ["255"]);
    assert!(ok(&fabric, "Dump \"S-200000\"").contains("[3] INIT \"sw 0,1,0\"[4]"));
    assert_eq!(ok(&fabric, "Dump").lines().filter(|line| line.starts_with("switch")).count(), 3);
    assert_eq!(ok(&fabric, "Attached"), "none\n");
    ok(&fabric, "Error \"S-200000\"[3] 30 21");
    assert!(ok(&fabric, "show faults").contains("error \"sw 0,0,0\"[3] 30% attribute 0x0015"));
    ok(&fabric, "Error \"S-200000\" 0");
    assert_eq!(ok(&fabric, "show faults"), "none\n");
}

fn values(name: &str, counters: &str) -> Vec<String> {
    let lines = counters.lines().filter_map(|line| line.trim().split_once(' '));
    let named = lines.filter(|(n, _)| *n == name).map(|(_, value)| value.trim().to_owned());
    named.collect::<Vec<_>>()
}

#[test]
fn swapping_cables_twice_restores_them() {
    let fabric = row();
    let before = ok(&fabric, "show links");
    ok(&fabric, "swap 0,0/3 0,1/3");
    let links = ok(&fabric, "show links");
    assert!(links.contains("\"sw 0,0,0\"[3] - \"sw 0,2,0\"[4]"), "{links}");
    assert!(links.contains("\"sw 0,1,0\"[3] - \"sw 0,1,0\"[4]"), "{links}");
    ok(&fabric, "swap 0,0/3 0,1/3");
    assert_eq!(ok(&fabric, "show links"), before);
}

#[test]
fn repair_ends_all_faults() {
    let fabric = row();
    for line in [
        "loss 10%",
        "drop 0,0/3 0.5",
        "corrupt 1% answers",
        "duplicate 0.1",
        "delay 3ms",
        "silent 0,1",
        "garbage h0-0",
        "wrong-tid 0,2",
        "error 0,1 20",
        "link 0,1/3 down",
        "loss 0.5 traps",
        "delay 0,0/3 5ms responses",
        "jitter 1ms",
        "slow 0,0 300ms",
        "numports 0,0 9",
        "redirect h0-2 h0-1/1 0x123",
        "refuse 0,0 0x18 0x0c",
        "ignore-sets h0-1",
        "degrade 0,0/3 1x SDR",
        "training h0-2 2s",
    ] {
        ok(&fabric, line);
    }
    let faults = ok(&fabric, "show faults");
    // Loss, delay, duplication and jitter differ by kind, since traps are lost more often.
    let count = 3 * 4 + 1 + 4 + 3 + 4 + 8 + 2 + 1;
    assert_eq!(faults.lines().count(), count, "{faults}");
    for line in [
        "loss 10% requests",
        "loss 50% traps",
        "loss \"sw 0,0,0\"[3] 50% traps",
        "delay \"sw 0,0,0\"[3] 5ms responses",
        "slow \"sw 0,0,0\" 300ms",
        "numports \"sw 0,0,0\" 9",
        "redirect \"h0-2-0-0 HCA-1\" to queue pair 0x123",
        "Sets refused with status 0x0c: \"sw 0,0,0\" attribute 0x0018",
        "Sets ignored: \"h0-1-0-0 HCA-1\" attribute 0x0000",
        "degrade \"sw 0,0,0\"[3] widths 0x1 speeds 0x1",
        "training \"h0-2-0-0 HCA-1\"[1] 2s",
        "corrupt 1% responses",
    ] {
        assert!(faults.lines().any(|shown| shown == line), "{line}: {faults}");
    }
    ok(&fabric, "calm");
    let faults = ok(&fabric, "show faults");
    assert_eq!(faults, "unplugged \"sw 0,1,0\"[3] - \"sw 0,2,0\"[4]\n");
    ok(&fabric, "repair");
    assert_eq!(ok(&fabric, "show faults"), "none\n");
    assert_eq!(state(&fabric, SW1, 3), PortState::Init);
}

#[tokio::test(start_paused = true)]
async fn a_script_waits_and_stops_at_an_error() {
    let fabric = row();
    let start = tokio::time::Instant::now();
    let mut reported = Vec::new();
    let text =
        "# first\nlink 0,0/3 down\n\nwait 1500ms\nshow faults\n  link 0,9/3 up\nreboot 0,0\n";
    let outcome = script::run(&fabric, "a.ctl", text, |number, _, answer| {
        reported.push((number, answer.len()));
    });
    let error = outcome.await.expect_err("line 6");
    assert_eq!(error.to_string(), "a.ctl:6:8: there is no switch at 0,9,0");
    assert_eq!(start.elapsed(), Duration::from_millis(1500));
    assert_eq!(reported.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [2, 4, 5]);
}

#[test]
fn random_scripts_repeat_and_their_commands_are_valid() {
    let fabric = row();
    let text = ok(&fabric, "random 5 400");
    assert_eq!(text, ok(&row(), "random 5 400"));
    assert_ne!(text, ok(&fabric, "random 6 400"));
    assert_eq!(text.lines().count(), 800);
    let mut used = std::collections::BTreeSet::new();
    for line in text.lines() {
        parse::parse(line).unwrap_or_else(|error| panic!("{line}: {error}"));
        used.insert(line.split(' ').next().expect("split yields at least one part"));
        // A command may fail, as one that plugs in a cable that is plugged in.
        let _ = run_line(&fabric, line);
    }
    assert!(used.len() > 20, "{used:?}");
}

proptest::proptest! {
    #[test]
    fn no_line_panics(line in "[ -~ü]{0,40}") {
        let _ = run_line(&row(), &line);
    }

    #[test]
    fn no_command_panics(words in proptest::collection::vec(word(), 0..5), command in 0..help::COMMANDS.len()) {
        let line = format!("{} {}", help::COMMANDS[command].name, words.join(" "));
        if let Err(error) = run_line(&row(), &line) {
            proptest::prop_assert!((1..=line.chars().count() + 1).contains(&error.column));
        }
    }
}

fn word() -> impl proptest::strategy::Strategy<Value = String> {
    let words =
        ["0,0", "0,1/3", "h0-2", "\"sw 0,1,0\"[4]", "3", "0.5", "20ms", "up", "down", "set"];
    proptest::sample::select(words.map(str::to_owned).to_vec())
}

#[test]
fn vports_are_shown_and_changed() {
    let fabric = row();
    assert!(run_line(&fabric, "vport 0,0/3 count 2").is_err(), "a switch");
    assert!(run_line(&fabric, "vport h0-1 1 down").is_err(), "no vports");
    assert!(run_line(&fabric, "vport h0-1 count 3").is_ok());
    assert!(
        run_line(&fabric, "vport h0-1 1 guid 0x77").is_ok()
            && run_line(&fabric, "vport h0-1 3 up").is_err()
    );
    let text = run_line(&fabric, "vport").expect("a list");
    assert_eq!(text.lines().count(), 4, "{text}");
    assert!(text.contains("  1: 0x0000000000000077 DOWN, P_Keys 0xffff\n"), "{text}");
    assert!(run_line(&fabric, "vport h0-1 1 own-lid").is_ok());
    let text = run_line(&fabric, "vport h0-1").expect("a list");
    assert!(text.contains("  1: 0x0000000000000077 DOWN, P_Keys 0xffff, LID 0\n"), "{text}");
    assert!(run_line(&fabric, "vport h0-1 1 shared-lid").is_ok());
    assert!(!run_line(&fabric, "vport").expect("a list").contains("LID"));
}

/// Without LIDs no host sends; the counts are those of the whole daemon's tests.
#[test]
fn traffic_is_counted_by_cable() {
    let fabric = row();
    let text = ok(&fabric, "traffic shift 1");
    assert!(
        text.starts_with("static    0 packets delivered, 0 lost, 0 on the busiest of 0 cables\n")
    );
    let json = ok(&fabric, "traffic all-to-all json");
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(json["adaptive"]["lost"], 0);
    for (line, column) in [("traffic", 8), ("traffic shift", 14), ("traffic sideways", 9)] {
        let error = run_line(&fabric, line).expect_err(line);
        assert_eq!(error.column, column, "{line}: {error}");
    }
}
