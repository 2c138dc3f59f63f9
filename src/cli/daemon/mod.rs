//! The daemon's part of the command line: OpenSM's options and their values.

mod options;

pub(super) use options::hide as hide_options;

use crate::config::options::{Options, parse::find, value::number};
use crate::notes::Note;
use clap::{ArgMatches, FromArgMatches};
use options::OptionEffect;
use std::path::{Path, PathBuf};

/// Configuration file without `-F`.
pub const DEFAULT_CONFIG: &str = "/etc/opensm/opensm.conf";

/// The daemon's options on the command line.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct DaemonArgs {
    /// `-F`: configuration file, which must exist.
    pub config: Option<PathBuf>,
    /// `-c`: file to write the configuration to instead of running.
    pub create_config: Option<PathBuf>,
    /// `--force`: `-c` replaces an existing file.
    pub force: bool,
    /// `-g 0`: list the ports and ask for one.
    pub ask_for_port: bool,
    /// `--dry-start`: print the Sets of the first sweep instead of sending them.
    pub dry_start: bool,
    /// `--dry-start-json`: as `dry_start`, in JSON.
    pub dry_start_json: bool,
    /// `-o`: end after the first sweep.
    pub once: bool,
    pub pidfile: Option<PathBuf>,
    /// `-d 5`: trace the port's MADs.
    pub trace_port: bool,
    /// Warnings about the command line, to be logged once the log is open.
    pub notes: Vec<Note>,
    /// Values for keys of opensm.conf, in order of appearance.
    overrides: Vec<Override>,
    /// Replacements of the built-in defaults, see [`DaemonArgs::set_defaults`].
    defaults: Option<Vec<Override>>,
}

/// A change to [`Options`] that was checked before.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Override {
    Value {
        key: &'static str,
        value: String,
    },
    /// Adds the next log flag, as `-v` does.
    MoreVerbose,
}

impl clap::Args for DaemonArgs {
    fn augment_args(command: clap::Command) -> clap::Command {
        options::augment(command)
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        options::augment(command)
    }
}

impl FromArgMatches for DaemonArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut args = Self::default();
        args.update_from_arg_matches(matches)?;
        Ok(args)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        for (effect, value) in options::given(matches) {
            self.take(effect, &value).map_err(|message| {
                clap::Error::raw(clap::error::ErrorKind::ValueValidation, message)
            })?;
        }
        Ok(())
    }
}

impl DaemonArgs {
    fn take(&mut self, effect: OptionEffect, value: &str) -> Result<(), String> {
        match effect {
            OptionEffect::Key(key) => {
                self.set_forgiving(key, value)?;
                if key == "max_wire_smps" {
                    // A limit from the command line is a limit, also that of the default.
                    self.set("max_adaptive_wire_smps", "0")?;
                }
            }
            OptionEffect::HexKey(key) => self.set(key, &hexadecimal(value))?,
            OptionEffect::Set(key, value) => self.set(key, value)?,
            OptionEffect::Guid => self.take_guid(&hexadecimal(value))?,
            OptionEffect::ConfigFile => self.config = Some(value.into()),
            OptionEffect::CreateConfig => self.create_config = Some(value.into()),
            OptionEffect::Force => self.force = true,
            OptionEffect::DryStart => self.dry_start = true,
            OptionEffect::DryStartJson => self.dry_start_json = true,
            OptionEffect::Once => self.once = true,
            OptionEffect::PidFile => self.pidfile = Some(value.into()),
            OptionEffect::Verbose => self.overrides.push(Override::MoreVerbose),
            OptionEffect::VeryVerbose => {
                self.set("log_flags", "0xff")?;
                self.set("force_log_flush", "TRUE")?;
            }
            OptionEffect::Debug => self.take_debug(value)?,
            // clap handles these itself.
            OptionEffect::Help | OptionEffect::Version => {}
        }
        Ok(())
    }

    fn take_guid(&mut self, value: &str) -> Result<(), String> {
        self.set("guid", value)?;
        let mut options = Options::default();
        self.apply(&mut options);
        self.ask_for_port = options.guid.0 == 0;
        Ok(())
    }

    fn take_debug(&mut self, value: &str) -> Result<(), String> {
        match number(value)? {
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

    /// Sets a key to the value of an option. OpenSM ignores some wrong values, and takes a number of
    /// SMPs out of range for no limit; a warning says so.
    fn set_forgiving(&mut self, key: &'static str, value: &str) -> Result<(), String> {
        let Err(problem) = Override::new(key, value) else { return self.set(key, value) };
        if !is_forgiven(key, value) {
            return Err(problem);
        }
        let is_limit = key == "max_wire_smps";
        let remedy = if is_limit { "there is no limit" } else { "the option is ignored" };
        self.notes.push(Note::warning(format!("{key}: {problem}; {remedy}, as in OpenSM")));
        if is_limit { self.set(key, "0") } else { Ok(()) }
    }

    fn set(&mut self, key: &'static str, value: &str) -> Result<(), String> {
        self.overrides.push(Override::new(key, value)?);
        Ok(())
    }

    /// Sets the values of the command line over those of the configuration file. Call it after
    /// every reading of the file, before [`Options::reconcile`].
    pub fn apply(&self, options: &mut Options) {
        apply(&self.overrides, options);
    }

    /// Replaces the defaults of these keys of opensm.conf. From then on the configuration of this
    /// machine has no effect: a file is read only if `-F` names one.
    ///
    /// # Errors
    /// An unknown key or an invalid value.
    pub fn set_defaults(&mut self, values: &[(&'static str, &str)]) -> Result<(), String> {
        let defaults = values.iter().map(|&(key, value)| Override::new(key, value));
        self.defaults = Some(defaults.collect::<Result<_, _>>()?);
        Ok(())
    }

    /// The value that the command line sets for a key of opensm.conf.
    pub fn given(&self, name: &str) -> Option<&str> {
        self.overrides.iter().rev().find_map(|item| match item {
            Override::Value { key, value } if *key == name => Some(value.as_str()),
            _ => None,
        })
    }

    /// The options before a file is read. As in OpenSM, the environment variable OSM_TMP_DIR is the
    /// default of `dump_files_dir`.
    pub fn defaults(&self) -> Options {
        let mut options = Options::default();
        if let Ok(folder) = std::env::var("OSM_TMP_DIR") {
            options.dump_files_dir = folder;
        }
        apply(self.defaults.as_deref().unwrap_or(&[]), &mut options);
        options
    }

    /// The configuration file to read, if any, and whether it must exist.
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

/// True if OpenSM goes on with this wrong value of an option for a key.
fn is_forgiven(key: &str, value: &str) -> bool {
    match key {
        "console" | "part_enforce" => true,
        "sweep_interval" | "transaction_timeout" | "max_wire_smps" | "perfmgr_sweep_time_s" => {
            number(value).is_ok()
        }
        _ => false,
    }
}

impl Override {
    /// Checks the value for the key.
    fn new(key: &'static str, value: &str) -> Result<Self, String> {
        assign(&mut Options::default(), key, value)?;
        Ok(Self::Value { key, value: value.to_owned() })
    }
}

fn apply(overrides: &[Override], options: &mut Options) {
    for item in overrides {
        match item {
            Override::Value { key, value } => {
                let outcome = assign(options, key, value);
                debug_assert_eq!(outcome, Ok(()), "Override::new has checked the value");
            }
            Override::MoreVerbose => options.log_flags = (options.log_flags << 1) | 1,
        }
    }
}

fn assign(options: &mut Options, name: &str, value: &str) -> Result<(), String> {
    let key = find(name).ok_or_else(|| format!("unknown key {name}"))?;
    key.set(options, value)
}

/// Puts 0x before hexadecimal digits without it.
fn hexadecimal(value: &str) -> String {
    let is_bare = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_bare { format!("0x{value}") } else { value.to_owned() }
}
