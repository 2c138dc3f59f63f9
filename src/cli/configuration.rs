//! Options from the configuration file and, over it, the command line.

use super::DaemonArgs;
use crate::config::guid_lists::GuidLists;
use crate::config::options::Options;
use crate::config::text_file::read_text;
use crate::notes::{Note, Severity};
use crate::plan::routing::chain::{Chain, EngineRegistry};
use std::path::Path;
use std::sync::Arc;

/// Options and the notes about them.
#[derive(Clone, Debug)]
pub struct Configured {
    pub options: Options,
    /// Warnings about the file and about combinations of options, in order.
    pub notes: Vec<Note>,
}

/// Reads the configuration file and applies the command line.
///
/// # Errors
/// The file that `-F` names cannot be read; a value in the file is wrong: the text has file, line
/// and column of every wrong value; or a routing engine does not exist: the text lists the engines.
pub fn read(args: &DaemonArgs) -> Result<Configured, String> {
    let mut notes = args.notes.clone();
    let mut options = args.defaults();
    if let Some((path, must_exist)) = args.file_to_read() {
        match read_text(path) {
            Ok(text) => parse(&text, path, &mut options, &mut notes)?,
            Err(error) if error.is_not_found() && !must_exist => {}
            Err(error) => return Err(error.to_string()),
        }
    }
    args.apply(&mut options);
    chain(&options, GuidLists::default())?;
    notes.extend(options.reconcile());
    notes.extend(options.unsupported());
    Ok(Configured { options, notes })
}

/// The routing engines in the order of `routing_engine`, with the lists that tune them.
///
/// # Errors
/// A name is not that of an engine; the text lists the engines.
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
    let errors = diagnostics.iter().filter(|found| found.severity == Severity::Error);
    let errors: Vec<String> = errors.map(ToString::to_string).collect();
    if !errors.is_empty() {
        return Err(errors.join("\n"));
    }
    notes.extend(diagnostics.iter().map(Note::from));
    Ok(())
}
