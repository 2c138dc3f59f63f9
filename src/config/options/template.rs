//! [`Options`] → opensm.conf: the commented file that `-c` writes.

use super::{Key, Options, Reload, Support, TABLE};
use std::fmt::Write as _;

const HEADER: &str = "\
# Configuration of torus-sm, in the format of opensm.conf.
#
# A line is a key and its value; # starts a comment. Numbers are decimal, hexadecimal (0x10) or
# octal (010). (null) is no value. Options on the command line override this file.
# SIGHUP makes the daemon read the file again; keys marked [restart] take effect at the next start.
# Keys marked [not yet] are read and checked, but have no effect.
";

/// The default configuration as a commented file.
pub fn template() -> String {
    Options::default().to_text()
}

impl Options {
    /// The options as a commented file. Parsing it yields equal options.
    pub fn to_text(&self) -> String {
        let mut text = String::from(HEADER);
        let mut section = "";
        for key in TABLE {
            if key.section != section {
                section = key.section;
                let _ = write!(text, "\n#\n# {}\n#\n", section.to_uppercase());
            }
            text.push('\n');
            write_key(&mut text, key, self);
        }
        text
    }
}

fn write_key(text: &mut String, key: &Key, options: &Options) {
    for line in key.help {
        let _ = writeln!(text, "#{line}");
    }
    let mut marks = Vec::new();
    if key.reload == Reload::Restart {
        marks.push("[restart]".to_owned());
    }
    if key.support != Support::Implemented {
        marks.push("[not yet]".to_owned());
    }
    if let Some(alias) = key.alias {
        marks.push(format!("(deprecated name: {alias})"));
    }
    if !marks.is_empty() {
        let _ = writeln!(text, "# {}", marks.join(" "));
    }
    for value in (key.lines)(options) {
        let _ = writeln!(text, "{} {value}", key.name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Diagnostic;
    use crate::notes::Severity;
    use proptest::prelude::*;
    use std::path::Path;

    fn parse(text: &str) -> Options {
        let (options, diagnostics) = Options::parse(text, Path::new("opensm.conf"));
        assert!(diagnostics.iter().all(is_warning), "{diagnostics:?}\n{text}");
        options
    }

    /// An invalid list of VLs causes a warning, and keeps its text.
    fn is_warning(found: &Diagnostic) -> bool {
        found.severity == Severity::Warning
    }

    #[test]
    fn the_template_yields_the_defaults() {
        let (options, findings) = Options::parse(&template(), Path::new("opensm.conf"));
        assert_eq!((options, findings), (Options::default(), Vec::new()));
    }

    #[test]
    fn the_template_has_every_key_once() {
        let text = template();
        for key in TABLE {
            let start = format!("{} ", key.name);
            let lines = text.lines().filter(|line| line.starts_with(&start)).count();
            assert_eq!(lines, 1, "{}", key.name);
        }
        assert!(text.lines().all(|line| line.chars().count() <= 100));
    }

    proptest! {
        #[test]
        fn written_options_are_read_back(
            values in proptest::collection::vec((0..TABLE.len(), any::<u16>()), 0..30),
        ) {
            let mut options = Options::default();
            for (index, number) in values {
                // Invalid values are rejected and leave the default.
                let name = TABLE[index].name;
                let text = format!("{name} {number}\n{name} {}:{number}\n{name} {} {number}\n",
                    number % 4, number % 16);
                options.read(&text, Path::new("x"));
            }
            prop_assert_eq!(parse(&options.to_text()), options);
        }
    }
}
