//! The daemon's options.

use super::flags::{Act, Flag};
use super::getopt::{Item, scan};
use super::{Command, UsageError, help};
use crate::config::options::{Options, parse::find};
use crate::notes::Note;
use std::path::{Path, PathBuf};

/// Where the configuration is unless `-F` says otherwise.
pub const DEFAULT_CONFIG: &str = "/etc/opensm/opensm.conf";

/// What the command line says to the daemon.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct DaemonArgs {
    /// `-F`: the configuration file, which must exist then.
    pub config: Option<PathBuf>,
    /// `-g 0`: list the ports and ask.
    pub ask_for_port: bool,
    /// `-o`: end after the first sweep.
    pub once: bool,
    /// `--pidfile`.
    pub pidfile: Option<PathBuf>,
    /// `-d 5`: trace the port's MADs.
    pub trace_port: bool,
    /// What the operator is to hear about the command line, once the log is open.
    pub notes: Vec<Note>,
    /// Values for keys of opensm.conf, in order.
    overrides: Vec<Override>,
    /// Values that hold where neither the file nor the command line says otherwise; with them,
    /// only a file given with `-F` is read.
    defaults: Option<Vec<Override>>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Override {
    /// Key and value.
    Value(&'static str, String),
    /// `-v`: one more log flag than before.
    MoreVerbose,
}

/// Understands the daemon's command line.
///
/// # Errors
/// What is wrong with it.
pub fn parse(argv: &[String]) -> Result<Command, UsageError> {
    let (command, operands) = parse_with_operands(argv)?;
    let Command::Daemon(mut args) = command else { return Ok(command) };
    // OpenSM ignores them without a word.
    for operand in operands {
        args.notes.push(Note::warning(format!("argument '{operand}' is ignored")));
    }
    Ok(Command::Daemon(args))
}

/// The same for a command that has operands of its own.
pub(super) fn parse_with_operands(argv: &[String]) -> Result<(Command, Vec<String>), UsageError> {
    let mut args = DaemonArgs::default();
    let mut operands = Vec::new();
    let mut template = None;
    for item in scan(argv)? {
        match item {
            Item::Operand(word) => operands.push(word.to_owned()),
            Item::Flag { flag, .. } if flag.act == Act::Help => {
                return Ok((Command::ShowHelp(help::daemon()), Vec::new()));
            }
            Item::Flag { flag, .. } if flag.act == Act::Version => {
                return Ok((Command::ShowVersion, Vec::new()));
            }
            Item::Flag { flag, value, .. } if flag.act == Act::CreateConfig => {
                template = Some(PathBuf::from(value));
            }
            Item::Flag { flag, spelled, value } => args
                .take(flag, value)
                .map_err(|message| UsageError::BadValue { option: spelled, message })?,
        }
    }
    let command = match template {
        Some(path) => Command::CreateConfig(path, args),
        None => Command::Daemon(args),
    };
    Ok((command, operands))
}

impl DaemonArgs {
    fn take(&mut self, flag: &Flag, value: &str) -> Result<(), String> {
        match flag.act {
            Act::Key(key) => self.set(key, value)?,
            Act::HexKey(key) => self.set(key, &hexadecimal(value))?,
            Act::Set(key, value) => self.set(key, value)?,
            Act::Guid => self.take_guid(value)?,
            Act::ConfigFile => self.config = Some(value.into()),
            Act::Once => self.once = true,
            Act::PidFile => self.pidfile = Some(value.into()),
            Act::Verbose => self.overrides.push(Override::MoreVerbose),
            Act::VeryVerbose => {
                self.set("log_flags", "0xff")?;
                self.set("force_log_flush", "TRUE")?;
            }
            Act::Debug => self.take_debug(value)?,
            // These end the parsing before they come here.
            Act::CreateConfig | Act::Help | Act::Version => {}
        }
        Ok(())
    }

    fn take_guid(&mut self, value: &str) -> Result<(), String> {
        let text = hexadecimal(value);
        self.set("guid", &text)?;
        let mut options = Options::default();
        assign(&mut options, "guid", &text)?;
        self.ask_for_port = options.guid.0 == 0;
        Ok(())
    }

    fn take_debug(&mut self, value: &str) -> Result<(), String> {
        match crate::config::options::value::number(value)? {
            0 => self.set("ignore_other_sm", "TRUE"),
            1 => self.set("single_thread", "TRUE"),
            2 => self.set("force_log_flush", "TRUE"),
            3 => self.set("disable_multicast", "TRUE"),
            5 => {
                self.trace_port = true;
                Ok(())
            }
            other => {
                let text = format!("debug option -d {other} has no effect");
                self.notes.push(Note::warning(text));
                Ok(())
            }
        }
    }

    /// Checks a value and keeps it for [`DaemonArgs::apply`].
    fn set(&mut self, key: &'static str, value: &str) -> Result<(), String> {
        assign(&mut Options::default(), key, value)?;
        self.overrides.push(Override::Value(key, value.to_owned()));
        Ok(())
    }

    /// Sets what the command line says over what the configuration file says. Do this after
    /// every reading of the file, before [`Options::settle`].
    pub fn apply(&self, options: &mut Options) {
        apply(&self.overrides, options);
    }

    /// Replaces the defaults of these keys of opensm.conf. Then the configuration of this
    /// machine counts no longer: a file is read only if `-F` names one.
    ///
    /// # Errors
    /// A key or value that makes no sense.
    pub fn set_defaults(&mut self, values: &[(&'static str, &str)]) -> Result<(), String> {
        let mut defaults = Vec::with_capacity(values.len());
        for &(key, value) in values {
            assign(&mut Options::default(), key, value)?;
            defaults.push(Override::Value(key, value.to_owned()));
        }
        self.defaults = Some(defaults);
        Ok(())
    }

    /// What the command line itself says about this key of opensm.conf.
    pub fn given(&self, name: &str) -> Option<&str> {
        self.overrides.iter().rev().find_map(|item| match item {
            Override::Value(key, value) if *key == name => Some(value.as_str()),
            _ => None,
        })
    }

    /// The options as they are before a file is read.
    pub fn defaults(&self) -> Options {
        let mut options = Options::default();
        apply(self.defaults.as_deref().unwrap_or_default(), &mut options);
        options
    }

    /// The configuration file to read, if any is to be read, and whether it must exist.
    pub fn file_to_read(&self) -> Option<(&Path, bool)> {
        (self.config.is_some() || self.defaults.is_none()).then(|| self.config_file())
    }

    /// The configuration file, and whether it must exist.
    pub fn config_file(&self) -> (&Path, bool) {
        match &self.config {
            Some(path) => (path, true),
            None => (Path::new(DEFAULT_CONFIG), false),
        }
    }
}

fn apply(overrides: &[Override], options: &mut Options) {
    for item in overrides {
        match item {
            Override::Value(key, value) => {
                let outcome = assign(options, key, value);
                debug_assert_eq!(outcome, Ok(()), "the value was checked when it was read");
            }
            Override::MoreVerbose => options.log_flags = (options.log_flags << 1) | 1,
        }
    }
}

fn assign(options: &mut Options, name: &str, value: &str) -> Result<(), String> {
    let key = find(name).ok_or_else(|| format!("there is no key {name}"))?;
    key.set(options, value)
}

/// Puts 0x before a number without it.
fn hexadecimal(value: &str) -> String {
    match value.get(..2) {
        Some("0x" | "0X") => value.to_owned(),
        _ => format!("0x{value}"),
    }
}
