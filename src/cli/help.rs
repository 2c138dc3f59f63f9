//! The help texts, made from the table of options.

use super::exit::ExitCode;
use super::flags::{FLAGS, Flag};
use std::fmt::Write as _;

/// Column at which explanations start, and the width of the page.
const INDENT: usize = 34;
const WIDTH: usize = 96;

/// What `--help` prints.
pub fn daemon() -> String {
    let mut text = format!(
        "{}: InfiniBand subnet manager for torus fabrics\n\n\
         Usage: torus-sm [OPTION]...\n       \
         torus-sm sim SHAPE [OPTION]...   on a simulated fabric (torus-sm sim --help)\n       \
         torus-sm plan SHAPE [OPTION]...  offline, without any port (torus-sm plan --help)\n       \
         torus-sm check [OPTION]...       read the configuration (torus-sm check --help)\n       \
         torus-sm torus-config SHAPE      write torus-2QoS.conf (torus-sm torus-config --help)\n",
        super::version()
    );
    text.push_str(&options());
    text.push_str("\nExit codes:\n");
    for (code, meaning) in ExitCode::ALL {
        let _ = writeln!(text, "  {} {meaning}", code as u8);
    }
    text.push_str(
        "\nLong names may be cut short while they stay unambiguous, and start with one dash.\n\
         The command line wins over the configuration file. Manual: torus-sm(8).\n",
    );
    text
}

/// The options by group.
fn options() -> String {
    let mut text = String::new();
    let mut group = "";
    for flag in FLAGS {
        if flag.group != group {
            group = flag.group;
            let _ = write!(text, "\n{group}:\n");
        }
        let names = names(flag);
        let mut column = 2 + names.chars().count();
        let _ = write!(text, "  {names}");
        if column + 2 > INDENT {
            text.push('\n');
            column = 0;
        }
        let _ = writeln!(text, "{:width$}{}", "", wrapped(flag.help), width = INDENT - column);
    }
    text
}

fn names(flag: &Flag) -> String {
    let short = flag.short.iter().map(|letter| format!("-{letter}"));
    let long = flag.long.iter().map(|name| format!("--{name}"));
    let mut names = short.chain(long).collect::<Vec<_>>().join(", ");
    if flag.short.is_empty() {
        names.insert_str(0, "    ");
    }
    if let Some(metavar) = flag.metavar {
        let _ = write!(names, " {metavar}");
    }
    names
}

/// Breaks help into lines behind the indent.
fn wrapped(help: &str) -> String {
    let mut text = String::new();
    let mut column = INDENT;
    for word in help.split_whitespace() {
        let length = word.chars().count();
        if column > INDENT && column + 1 + length > WIDTH {
            let _ = write!(text, "\n{:INDENT$}", "");
            column = INDENT;
        } else if column > INDENT {
            text.push(' ');
            column += 1;
        }
        text.push_str(word);
        column += length;
    }
    text
}
