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

/// Words of reports about errors and faults, and their styles. `check` writes the first two before each finding.
const TROUBLE: [(&str, Style); 7] = [
    (" error: ", CRITICAL),
    (" warning: ", WARNING),
    ("NO ROUTE", CRITICAL),
    ("NO VALID PLAN", CRITICAL),
    ("CREDIT LOOP", CRITICAL),
    ("CUT OFF", CRITICAL),
    ("the fallback", WARNING),
];

/// Longest heading of a line of a report, in bytes.
const MAX_HEADING: usize = 16;

/// The text of a report of `plan` or `check`: headings of lines are strong, words of trouble have colours.
pub fn report(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + text.len() / 4);
    for line in text.split_inclusive('\n') {
        let heading = line.find(':').filter(|&at| at <= MAX_HEADING && is_heading(&line[..at]));
        let (start, rest) = line.split_at(heading.map_or(0, |at| at + 1));
        match start {
            "" => {}
            "errors:" | "error:" => out.push_str(&painted(CRITICAL, start)),
            "warnings:" | "warning:" => out.push_str(&painted(WARNING, start)),
            _ => out.push_str(&painted(STRONG, start)),
        }
        let mut rest = rest.to_owned();
        for (words, style) in TROUBLE {
            let word = words.trim();
            rest = rest.replace(words, &words.replace(word, &painted(style, word)));
        }
        out.push_str(&rest);
    }
    out
}

/// True for words at the beginning of a line, which is neither indented nor begins with a path.
fn is_heading(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.chars().all(|it| it.is_ascii_alphabetic() || it == ' ')
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

/// `--color` of the commands whose output has colours.
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

#[cfg(test)]
mod tests {
    use super::*;
    use anstream::adapter::strip_str;

    #[test]
    fn headings_and_trouble_have_colours_and_the_text_stays() {
        let text = "fabric:      2 switches\n  2 of them\nwarnings:\n/etc/a.conf:1:2: error: no such key\n  key: 1\n";
        let shown = report(text);
        assert_eq!(strip_str(&shown).to_string(), text);
        for part in [
            painted(STRONG, "fabric:"),
            painted(WARNING, "warnings:"),
            format!("1:2: {}", painted(CRITICAL, "error:")),
        ] {
            assert!(shown.contains(&part), "{part:?} in {shown:?}");
        }
        assert!(shown.contains("\n  key: 1\n"), "{shown:?}");
    }
}
