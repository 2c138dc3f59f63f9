//! Where the options come from: the configuration file, and over it the command line.

use super::DaemonArgs;
use crate::config::guid_lists::GuidLists;
use crate::config::options::Options;
use crate::notes::{Note, Severity};
use crate::plan::routing::chain::{Chain, EngineRegistry};
use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

/// Options and what is to be said about them.
#[derive(Clone, Debug)]
pub struct Configured {
    /// The options.
    pub options: Options,
    /// Findings in the file and about combinations, in order.
    pub notes: Vec<Note>,
}

/// Reads the configuration file and applies the command line.
///
/// # Errors
/// A file that was asked for cannot be read, or a value in it makes no sense: the text names
/// file, line and column of everything that is wrong. A routing engine is none: the text names
/// those that are.
pub fn read(args: &DaemonArgs) -> Result<Configured, String> {
    let mut notes = args.notes.clone();
    let mut options = args.defaults();
    if let Some((path, must_exist)) = args.file_to_read() {
        match fs::read_to_string(path) {
            Ok(text) => parse(&text, path, &mut options, &mut notes)?,
            Err(error) if error.kind() == ErrorKind::NotFound && !must_exist => {}
            Err(error) => return Err(format!("{}: {error}", path.display())),
        }
    }
    args.apply(&mut options);
    chain(&options, GuidLists::default())?;
    notes.extend(options.settle());
    notes.extend(options.unsupported());
    Ok(Configured { options, notes })
}

/// The routing engines in the order of `routing_engine`, tuned by `lists`.
///
/// # Errors
/// A name that is no engine's; the text has those that are.
pub fn chain(options: &Options, lists: GuidLists) -> Result<Chain, String> {
    let registry = EngineRegistry::standard(Arc::new(lists));
    let engines = options.routing_engine.as_deref().unwrap_or_default();
    Chain::parse(engines, &registry).map_err(|error| error.to_string())
}

fn parse(
    text: &str,
    path: &Path,
    options: &mut Options,
    notes: &mut Vec<Note>,
) -> Result<(), String> {
    let diagnostics = options.read(text, path);
    let wrong = diagnostics.iter().filter(|found| found.severity == Severity::Error);
    let wrong: Vec<String> = wrong.map(ToString::to_string).collect();
    if !wrong.is_empty() {
        return Err(wrong.join("\n"));
    }
    notes.extend(diagnostics.iter().map(Note::from));
    Ok(())
}
