//! The commands of the console, with OpenSM's words, and their help.

use super::{ConsoleSources, balance, perf, ports, status};
use crate::manage::action::OperatorAction;
use crate::notes::OPENSM_VERSION;
use std::fs;

/// The result of a line.
pub(super) enum ConsoleReply {
    Text(String),
    /// The text is followed by the status at intervals.
    Loop(String),
    Quit,
}

/// A command: name, usage, and details for `help COMMAND`.
struct ConsoleCommandHelp {
    name: &'static str,
    usage: &'static str,
    details: &'static str,
}

const fn command(
    name: &'static str,
    usage: &'static str,
    details: &'static str,
) -> ConsoleCommandHelp {
    ConsoleCommandHelp { name, usage, details }
}

const COMMANDS: [ConsoleCommandHelp; 19] = [
    command("quit", "quit (not valid in local mode; use ctl-c)", ""),
    command(
        "loglevel",
        "loglevel [<log-level>]",
        "   log-level is OR'ed from the following\n   OSM_LOG_NONE             0x00\n   \
         OSM_LOG_ERROR            0x01\n   OSM_LOG_INFO             0x02\n   \
         OSM_LOG_VERBOSE          0x04\n   OSM_LOG_DEBUG            0x08\n   \
         OSM_LOG_FUNCS            0x10\n   OSM_LOG_FRAMES           0x20\n   \
         OSM_LOG_ROUTING          0x40\n   OSM_LOG_SYS              0x80\n\n   \
         OSM_LOG_DEFAULT_LEVEL    0x03\n",
    ),
    command("permodlog", "permodlog", ""),
    command("priority", "priority [<sm-priority>]", ""),
    command("resweep", "resweep [heavy|light]", ""),
    command("reroute", "reroute", "reroute the fabric\n"),
    command(
        "sweep",
        "sweep [on|off]",
        "enable or disable sweeping\n   [on] sweep normally\n   [off] inhibit all sweeping\n",
    ),
    command("status", "status [loop]", "   loop -- type \"q<ret>\" to quit\n"),
    command("logflush", "logflush [on|off] -- toggle opensm.log file flushing", ""),
    command("querylid", "querylid lid -- print internal information about the lid specified", ""),
    command(
        "portstatus",
        "portstatus [ca|switch|router]",
        "summarize port status\n   [ca|switch|router] -- limit the results to the node type \
         specified\n",
    ),
    command(
        "switchbalance",
        "switchbalance [verbose] [guid]",
        "output switch balancing information\n  [verbose] -- verbose output\n  [guid] -- limit \
         results to specified guid\n",
    ),
    command(
        "lidbalance",
        "lidbalance [switchguid]",
        "output lid balanced forwarding information\n  [switchguid] -- limit results to specified \
         switch guid\n",
    ),
    command("dump_conf", "dump_conf", "dump current opensm configuration\n"),
    command("update_desc", "update_desc", "update node description for all nodes\n"),
    command("version", "version -- print the OSM version", ""),
    command("perfmgr", perf::USAGE, perf::DETAILS),
    command("pm", perf::USAGE, perf::DETAILS),
    command(
        "dump_portguid",
        "dump_portguid [file filename] regexp1 [regexp2 [regexp3 ...]] -- Dump port GUID matching \
         a regexp ",
        "   [file filename] -- Send the port GUID list to the specified file instead of regular \
         output\n",
    ),
];

/// Carries out a line. `is_remote`: the client may be on another host, and writes no files.
pub(super) fn run(sources: &ConsoleSources, line: &str, is_remote: bool) -> ConsoleReply {
    let (name, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let words: Vec<&str> = rest.split_whitespace().collect();
    let first = words.first().copied();
    let text = match name {
        "" => String::new(),
        "help" => help(first),
        "quit" => return ConsoleReply::Quit,
        "loglevel" => log_level(sources, first),
        "permodlog" => per_module_log(sources),
        "priority" => priority(sources, first),
        "resweep" => match first {
            Some("heavy") => sources.act(&OperatorAction::Resweep),
            Some("light") => sources.act(&OperatorAction::LightSweep),
            _ => format!("Invalid resweep command\n{}", details("resweep")),
        },
        "reroute" => sources.act(&OperatorAction::Reroute),
        "sweep" => match first {
            Some("on") => sources.act(&OperatorAction::Sweeping(true)),
            Some("off") => sources.act(&OperatorAction::Sweeping(false)),
            _ => format!("Invalid sweep command\n{}", details("sweep")),
        },
        "status" => match first {
            None => status::text(sources),
            Some("loop") => {
                let text = status::text(sources);
                return ConsoleReply::Loop(format!(
                    "Looping on status command...\n{text}use \"q<ret>\" to quit loop\n"
                ));
            }
            Some(_) => details("status"),
        },
        "logflush" => match first {
            Some("on") => sources.act(&OperatorAction::LogFlush(true)),
            Some("off") => sources.act(&OperatorAction::LogFlush(false)),
            _ => format!("Invalid logflush command\n{}", details("logflush")),
        },
        "querylid" => match first {
            Some(lid) => ports::query_lid(sources, lid),
            None => format!("no LID specified\n{}", details("querylid")),
        },
        "portstatus" => ports::port_status(sources, first)
            .unwrap_or_else(|| format!("Node type not understood\n{}", details("portstatus"))),
        "switchbalance" => balance::switches(sources, &words)
            .unwrap_or_else(|| format!("Invalid guid specified\n{}", details("switchbalance"))),
        "lidbalance" => balance::lids(sources, first)
            .unwrap_or_else(|| format!("Invalid switchguid specified\n{}", details("lidbalance"))),
        "dump_conf" => sources.status.load().options.to_text(),
        // A heavy sweep reads the NodeDescriptions again.
        "update_desc" => sources.act(&OperatorAction::Resweep),
        "version" => format!("{OPENSM_VERSION}\n"),
        "perfmgr" | "pm" => perf::run(sources, rest.trim()),
        "dump_portguid" => ports::dump_port_guids(sources, &words, is_remote),
        unknown => format!("{unknown} : Command not found\n\n{}", list()),
    };
    ConsoleReply::Text(text)
}

fn help(name: Option<&str>) -> String {
    match name {
        Some(name) if COMMANDS.iter().any(|command| command.name == name) => details(name),
        Some(unknown) => format!("{unknown} : Command not found\n\n{}", list()),
        None => list(),
    }
}

/// All commands once: `pm` is another name of `perfmgr`.
fn list() -> String {
    let listed = COMMANDS.iter().filter(|command| command.name != "pm");
    let usages: String = listed.map(|command| format!("{}\n", command.usage)).collect();
    format!("Supported commands and syntax:\nhelp [<command>]\n{usages}")
}

/// Usage and details of a command.
fn details(name: &str) -> String {
    let found = COMMANDS.iter().find(|command| command.name == name);
    found.map_or_else(String::new, |command| format!("{}\n{}", command.usage, command.details))
}

/// A number as C reads it.
fn number<T: TryFrom<i128>>(text: &str) -> Option<T> {
    let number = crate::config::options::value::number(text).ok()?;
    T::try_from(number).ok()
}

fn log_level(sources: &ConsoleSources, word: Option<&str>) -> String {
    let Some(word) = word else {
        return match sources.control.log_flags() {
            Some(flags) => format!("Current log level is 0x{flags:x}\n"),
            None => "the log has no flags\n".to_owned(),
        };
    };
    match number::<u8>(word) {
        Some(flags) => {
            let problem = sources.act(&OperatorAction::LogLevel(flags));
            format!("Setting log level to 0x{flags:x}\n{problem}")
        }
        None => format!("Invalid log level {word}\n"),
    }
}

fn per_module_log(sources: &ConsoleSources) -> String {
    let key = crate::config::options::parse::find("per_module_logging_file");
    let file = key.map_or_else(String::new, |key| key.text(&sources.status.load().options));
    match fs::read_to_string(&file) {
        Ok(text) => format!("Per module logging file: {file}\n{text}\n"),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(error) => format!("fopen({file}) failed: {error}\n"),
    }
}

fn priority(sources: &ConsoleSources, word: Option<&str>) -> String {
    let Some(word) = word else {
        return format!("Current sm-priority is {}\n", sources.status.load().managers.own.priority);
    };
    match number::<u8>(word).filter(|priority| *priority <= 15) {
        Some(priority) => {
            let problem = sources.act(&OperatorAction::Priority(priority));
            format!("Setting sm-priority to {priority}\n{problem}")
        }
        None => format!("Invalid sm-priority {word}; must be between 0 and 15\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_has_every_command_once() {
        let all = help(None);
        assert!(
            all.starts_with("Supported commands and syntax:\nhelp [<command>]\nquit (not valid")
        );
        for command in COMMANDS.iter().filter(|command| command.name != "pm") {
            assert_eq!(all.matches(&format!("\n{}", command.usage)).count(), 1, "{}", command.name);
        }
        assert!(help(Some("sweep")).contains("inhibit all sweeping"));
        assert_eq!(help(Some("nothing")), format!("nothing : Command not found\n\n{all}"));
    }
}
