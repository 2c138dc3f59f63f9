//! The `perfmgr` commands of OpenSM's console that change something.

/// A command to the performance manager.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PerfCommand {
    /// Start or stop the sweeps at intervals.
    Enable(bool),
    /// Sweep now.
    Sweep,
    /// Set the interval in seconds, and sweep now.
    SweepTime(u16),
    /// Set the totals to 0.
    ClearCounters,
    /// Write the dump file, in the format for machines or for people.
    DumpCounters { is_for_machines: bool },
    /// Remove nodes from the database when they leave the fabric.
    RemoveNodes(bool),
    /// Remove the nodes that have left the fabric.
    ClearInactive,
    /// Query ClassPortInfo.
    QueryClassPortInfo(bool),
    /// Forget redirections: all, or those of a node with this GUID or description.
    ClearRedirections(Option<String>),
}

/// The words of all commands, for messages.
const WORDS: &str = "enable, disable, sweep, sweep_time SECONDS, clear_counters, dump_counters [mach], \
                     set_rm_nodes, clear_rm_nodes, clear_inactive, set_query_cpi, clear_query_cpi, \
                     clear_redir [NODE]";

impl PerfCommand {
    /// Reads a command as OpenSM's console has it after `perfmgr`.
    ///
    /// # Errors
    /// There is no such command, or its argument is missing or invalid.
    pub fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let (word, argument) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        let argument = argument.trim();
        let command = match (word, argument) {
            ("sweep_time", _) => return sweep_time(argument).map(Self::SweepTime),
            ("clear_redir", "") => Self::ClearRedirections(None),
            ("clear_redir", node) => Self::ClearRedirections(Some(node.to_owned())),
            ("dump_counters", "mach") => Self::DumpCounters { is_for_machines: true },
            ("dump_counters", "") => Self::DumpCounters { is_for_machines: false },
            (_, argument) if !argument.is_empty() => {
                return Err(format!("'{text}': '{argument}' is too much"));
            }
            ("enable", _) => Self::Enable(true),
            ("disable", _) => Self::Enable(false),
            ("sweep", _) => Self::Sweep,
            ("clear_counters", _) => Self::ClearCounters,
            ("set_rm_nodes", _) => Self::RemoveNodes(true),
            ("clear_rm_nodes", _) => Self::RemoveNodes(false),
            ("clear_inactive", _) => Self::ClearInactive,
            ("set_query_cpi", _) => Self::QueryClassPortInfo(true),
            ("clear_query_cpi", _) => Self::QueryClassPortInfo(false),
            _ => return Err(format!("\"{word}\" option not found: known are {WORDS}")),
        };
        Ok(command)
    }
}

fn sweep_time(text: &str) -> Result<u16, String> {
    let problem = match text {
        "" => "sweep_time requires a time period (in seconds) to be specified",
        _ => "sweep_time requires a positive time period (in seconds) to be specified",
    };
    let seconds = text.parse().ok().filter(|&seconds| seconds > 0);
    seconds.ok_or_else(|| problem.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_those_of_the_console() {
        let parse = PerfCommand::parse;
        assert_eq!(parse("enable"), Ok(PerfCommand::Enable(true)));
        assert_eq!(parse(" sweep_time  30 "), Ok(PerfCommand::SweepTime(30)));
        let machine = PerfCommand::DumpCounters { is_for_machines: true };
        assert_eq!(parse("dump_counters mach"), Ok(machine));
        let node = PerfCommand::ClearRedirections(Some("a b".into()));
        assert_eq!(parse("clear_redir a b"), Ok(node));
        for wrong in ["", "sweep_time", "sweep_time 0", "sweep_time 65536", "sweep now", "Enable"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
