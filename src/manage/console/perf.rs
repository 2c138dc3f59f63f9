//! The command `perfmgr`: the state of the performance manager, its counters, and its commands.

use super::ConsoleSources;
use crate::manage::action::OperatorAction;
use crate::manage::perf_text::{PerfStateText, REDIRECTIONS_TITLE, RedirectionText};
use crate::perfmgr::command::PerfCommand;
use crate::perfmgr::database::{Database, NodeEntry};
use crate::perfmgr::dump;
use crate::perfmgr::redirection::RedirectedPort;

pub(super) const USAGE: &str = "perfmgr(pm) [enable|disable
             |clear_counters|dump_counters|print_counters(pc)|print_errors(pe)
             |set_rm_nodes|clear_rm_nodes|clear_inactive
             |set_query_cpi|clear_query_cpi
             |dump_redir|clear_redir
             |sweep|sweep_time[seconds]]";

pub(super) const DETAILS: &str = "perfmgr -- print the performance manager state
   [enable|disable] -- start or stop the sweeps
   [sweep] -- read the counters now
   [sweep_time] -- change the interval of sweeps (requires [seconds])
   [clear_counters] -- set the totals to 0
   [dump_counters [mach]] -- write the counters to a file ([mach]ine readable with tabs)
   [print_counters(pc) [<nodename|nodeguid>][:<port>]] -- print the totals of all ports, or of these
   [print_errors(pe) [<nodename|nodeguid>]] -- print the ports with errors
   [dump_redir [<nodename|nodeguid>]] -- print the redirection table
   [clear_redir [<nodename|nodeguid>]] -- forget redirections
   [[set|clear]_rm_nodes] -- remove nodes that leave the fabric, or keep them as \"inactive\"
   [[set|clear]_query_cpi] -- query ClassPortInfo for support of extended counters, or not
   [clear_inactive] -- remove inactive nodes
";

/// Carries out `perfmgr TEXT`. As in OpenSM, commands without an argument ignore further words.
pub(super) fn run(sources: &ConsoleSources, text: &str) -> String {
    let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let rest = rest.trim();
    let status = sources.perf.load();
    let database = &status.database;
    match word {
        "" => state(sources),
        "print_counters" | "pc" => counters(database, rest),
        "print_errors" | "pe" => errors(database, rest),
        "dump_redir" => redirections(database, &status.redirections, rest),
        "clear_redir" if !rest.is_empty() && database.find(rest).is_none() => not_found(rest),
        "clear_redir" | "sweep_time" => command(sources, text),
        "dump_counters" if rest == "mach" => command(sources, text),
        "clear_inactive" => {
            let inactive = database.nodes().filter(|node| !node.is_active).count();
            command(sources, word) + &format!("Removed {inactive} nodes from Database\n")
        }
        "sweep" => "sweep initiated...\n".to_owned() + &command(sources, word),
        _ => command(sources, word),
    }
}

/// Sends a command to the performance manager.
fn command(sources: &ConsoleSources, text: &str) -> String {
    match PerfCommand::parse(text) {
        Ok(command) => sources.act(&OperatorAction::Perfmgr(command)),
        Err(problem) => format!("{problem}\n"),
    }
}

/// The state of the performance manager, in the lines of OpenSM.
fn state(sources: &ConsoleSources) -> String {
    let status = sources.perf.load();
    let settings = &status.settings;
    let state = PerfStateText {
        is_enabled: settings.is_enabled,
        is_sweeping: status.is_sweeping,
        sweep_time: settings.sweep_time_s.to_string(),
        outstanding: format!("outstanding queries/max      : 0/{}", status.max_outstanding),
        removes_nodes: settings.removes_nodes,
        queries_class_port_info: settings.queries_class_port_info,
    };
    state.to_string()
}

fn not_found(name: &str) -> String {
    format!("Node {name} not found...\n")
}

/// `print_counters [NODE][:PORT]`.
fn counters(database: &Database, words: &str) -> String {
    if words.is_empty() {
        return dump::human_readable(database, false);
    }
    // A description may contain a colon.
    let (name, port) = match words.rsplit_once(':') {
        Some((name, port)) if database.find(words).is_none() => (name.trim(), Some(port.trim())),
        _ => (words, None),
    };
    let Some(node) = database.find(name) else { return not_found(name) };
    match port.map(|port| (port, valid_port(node, port))) {
        None => dump::node_text(node, None, false),
        Some((_, Some(port))) => dump::node_text(node, Some(port), false),
        Some((port, None)) => {
            let warning = format!("Warning: \"{port}\" is not a valid port\n");
            warning + &dump::node_text(node, None, false)
        }
    }
}

/// The number of a port that the node has.
fn valid_port(node: &NodeEntry, text: &str) -> Option<u8> {
    let number = text.parse().ok()?;
    (usize::from(number) < node.ports.len() && (number > 0 || node.has_port0)).then_some(number)
}

/// `print_errors [NODE]`.
fn errors(database: &Database, name: &str) -> String {
    match (name, database.find(name)) {
        ("", _) => dump::human_readable(database, true),
        (_, Some(node)) => dump::node_text(node, None, true),
        (_, None) => not_found(name),
    }
}

/// `dump_redir [NODE]`.
fn redirections(database: &Database, ports: &[RedirectedPort], name: &str) -> String {
    let mut text = REDIRECTIONS_TITLE.to_owned();
    let node = database.find(name);
    if !name.is_empty() && node.is_none() {
        return text + &not_found(name);
    }
    for RedirectedPort { node, port, from, to } in
        ports.iter().filter(|port| node.is_none_or(|node| node.guid == port.node))
    {
        let redirection = RedirectionText {
            node: &node.to_string(),
            port: port.0.into(),
            from_lid: from.0.into(),
            to_lid: to.lid.0.into(),
            pkey: &to.pkey.to_string(),
            queue_pair: to.qpn.into(),
            pkey_index: to.pkey_index.into(),
        };
        text += &redirection.to_string();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{Guid, Lid, Pkey, PortNum};
    use crate::perfmgr::counters::ErrorCounters;
    use crate::perfmgr::database::ReadingTime;
    use crate::perfmgr::redirection::Redirection;
    use chrono::DateTime;

    /// A node with a colon in its description, and one with errors at port 2 of 2.
    fn database() -> Database {
        let time = ReadingTime { date: DateTime::UNIX_EPOCH, since_start: 0.0 };
        let mut database = Database::default();
        database.activate(Guid(0xaa), "rack:1", 1, false, time.date);
        database.activate(Guid(0xab), "S 1", 2, false, time.date);
        for (guid, port, count) in [(0xaa, 1, 0), (0xab, 1, 0), (0xab, 2, 3)] {
            let mut errors = ErrorCounters::default();
            errors.0[9] = count;
            database.add_errors((Guid(guid), PortNum(port)), errors, time);
        }
        database
    }

    fn ports(text: &str) -> Vec<&str> {
        text.lines().filter(|line| !line.starts_with(' ')).collect()
    }

    #[test]
    fn counters_are_those_of_all_ports_of_a_node_or_of_a_port() {
        let database = database();
        let first = "\"S 1\" 0xab active TRUE port 1";
        let second = "\"S 1\" 0xab active TRUE port 2";
        let rack = "\"rack:1\" 0xaa active TRUE port 1";
        for (words, expected) in [
            ("", &[rack, first, second][..]),
            ("0xab", &[first, second]),
            ("S 1", &[first, second]),
            ("S 1:2", &[second]),
            ("0xab:1", &[first]),
            ("rack:1", &[rack]),
            ("rack:1:1", &[rack]),
            ("S 1:7", &["Warning: \"7\" is not a valid port", first, second]),
            ("S 1:0", &["Warning: \"0\" is not a valid port", first, second]),
            ("S 2:1", &["Node S 2 not found..."]),
            ("0xac", &["Node 0xac not found..."]),
        ] {
            assert_eq!(ports(&counters(&database, words)), expected, "{words}");
        }
    }

    #[test]
    fn errors_are_those_of_ports_that_have_some() {
        let database = database();
        let port = "\"S 1\" 0xab active TRUE port 2";
        assert_eq!(ports(&errors(&database, "")), [port]);
        assert_eq!(ports(&errors(&database, "S 1")), [port]);
        assert_eq!(errors(&database, "rack:1"), "");
        assert_eq!(errors(&database, "S 2"), "Node S 2 not found...\n");
    }

    #[test]
    fn redirections_are_listed_by_node() {
        let database = database();
        let head = "\nRedirection Table\n-----------------\n";
        let to = Redirection { lid: Lid(9), qpn: 7, pkey: Pkey(0xffff), pkey_index: 1 };
        let port = RedirectedPort { node: Guid(0xab), port: PortNum(1), from: Lid(5), to };
        let line = "   0x00000000000000ab port 1: LID 5->9 PKey 0xffff QP 0x7 PKey Index 1\n";
        assert_eq!(list(&database, "", port), format!("{head}{line}"));
        assert_eq!(list(&database, "S 1", port), format!("{head}{line}"));
        assert_eq!(list(&database, "0xaa", port), head);
        assert_eq!(list(&database, "S 2", port), format!("{head}Node S 2 not found...\n"));
    }

    fn list(database: &Database, name: &str, port: RedirectedPort) -> String {
        redirections(database, &[port], name)
    }
}
