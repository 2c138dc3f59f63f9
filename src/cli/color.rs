//! Colours of the output on terminals: `--color`, and NO_COLOR, CLICOLOR and CLICOLOR_FORCE.
//!
//! Commands print text with escape sequences; [`super::output`] takes them out where there are to be no
//! colours.

use anstream::ColorChoice;
use anstyle::{AnsiColor, Style};
use clap::{Arg, ArgMatches, ValueEnum, value_parser};

/// Style of critical, missing and refused parts.
pub const CRITICAL: Style = AnsiColor::Red.on_default().bold();
/// Style of parts that need attention.
pub const WARNING: Style = AnsiColor::Yellow.on_default();
/// Style of healthy states.
pub const GOOD: Style = AnsiColor::Green.on_default();
/// Style of headings, and of repairs to make.
pub const STRONG: Style = Style::new().bold();

/// Text in a style.
pub fn painted(style: Style, text: &str) -> String {
    format!("{style}{text}{style:#}")
}

/// A severity in its style.
pub fn severity(text: &str) -> String {
    match text {
        "critical" | "error" | "CRITICAL" | "ERROR" => painted(CRITICAL, text),
        "warning" | "WARNING" => painted(WARNING, text),
        _ => text.to_owned(),
    }
}

/// When to use colours.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum When {
    /// On terminals, unless NO_COLOR is set.
    Auto,
    Always,
    Never,
}

/// Name of the option, and its id.
const OPTION: &str = "color";

/// `--color` of the commands that talk to a running daemon.
pub(super) fn option() -> Arg {
    Arg::new(OPTION)
        .long(OPTION)
        .value_name("WHEN")
        .value_parser(value_parser!(When))
        .hide_possible_values(true)
        .help("Use colours: auto (on terminals, unless NO_COLOR is set), always or never")
}

/// Sets the colours of this process as the command line says.
pub(super) fn choose(matches: &ArgMatches) {
    let choice = match matches.get_one::<When>(OPTION) {
        None | Some(When::Auto) => ColorChoice::Auto,
        Some(When::Always) => ColorChoice::Always,
        Some(When::Never) => ColorChoice::Never,
    };
    choice.write_global();
}
