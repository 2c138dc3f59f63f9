//! The configuration file of a step: options that differ from opensm.conf for its engine.

use crate::config::Diagnostic;
use crate::config::options::{Options, TABLE, keys_of};
use crate::notes::Severity;
use std::path::Path;

/// The section of the keys that a step may set.
const ROUTING_SECTION: &str = "Routing";

/// Keys of routing that apply to the whole subnet.
const SUBNET_KEYS: [&str; 4] = ["routing_engine", "use_ucast_cache", "sa_db_file", "sa_db_dump"];

/// Options that a step sets.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct StepSettings {
    values: Options,
    keys: Vec<&'static str>,
}

impl StepSettings {
    /// Parses the text of `file`. Keys that apply to the whole subnet are ignored with a warning.
    pub fn parse(file: &Path, text: &str) -> (Self, Vec<Diagnostic>) {
        let (values, mut diagnostics) = Options::parse(text, file);
        let mut keys = Vec::new();
        for (line, key) in keys_of(text) {
            if is_for_steps(key.name, key.section) {
                keys.push(key.name);
                continue;
            }
            diagnostics.push(Diagnostic {
                file: file.to_path_buf(),
                line,
                column: 0,
                severity: Severity::Warning,
                message: format!(
                    "{} applies to the whole subnet and is ignored in the configuration of a step",
                    key.name
                ),
                code: None,
            });
        }
        diagnostics.sort_by_key(|found| (found.line, found.column));
        (Self { values, keys }, diagnostics)
    }

    /// The options of the step: those of opensm.conf with the ones of the step's file.
    pub fn over(&self, options: &Options) -> Options {
        let mut options = options.clone();
        for key in TABLE.iter().filter(|key| self.sets(key.name)) {
            key.copy(&self.values, &mut options);
        }
        // The lists of a step belong to a single engine.
        options.routing_engine = None;
        options
    }

    /// True if the file has its own torus-2QoS.conf.
    pub fn has_torus_config(&self) -> bool {
        self.sets("torus_config")
    }

    /// The keys that a step may set, with their values where the file sets them.
    pub fn texts(&self) -> impl Iterator<Item = (&'static str, Option<String>)> + '_ {
        let keys = TABLE.iter().filter(|key| is_for_steps(key.name, key.section));
        keys.map(|key| (key.name, self.sets(key.name).then(|| key.text(&self.values))))
    }

    fn sets(&self, key: &str) -> bool {
        self.keys.contains(&key)
    }
}

fn is_for_steps(name: &str, section: &str) -> bool {
    let is_policy = name.ends_with("_policy_file") || SUBNET_KEYS.contains(&name);
    section == ROUTING_SECTION && !is_policy
}
