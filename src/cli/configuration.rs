//! Options from the configuration file and, over it, the command line.

use super::DaemonArgs;
use crate::config::files::RoutingFiles;
use crate::config::options::parse::find;
use crate::config::options::{Options, engine_names, listed_engines};
use crate::config::routing_chain;
use crate::config::text_file::read_text;
use crate::notes::{Note, Severity};
use crate::plan::routing::chain::{Chain, EngineRegistry};
use crate::plan::routing::minhop;
use std::path::Path;
use std::sync::Arc;

/// Options and the notes about them.
#[derive(Clone, Debug)]
pub struct Configured {
    pub options: Options,
    /// Warnings about the file and about combinations of options, in order.
    pub notes: Vec<Note>,
    /// The warnings about what OpenSM repairs or ignores, and others should mend.
    pub mistakes: Vec<String>,
}

/// Reads the configuration file and applies the command line. Values that OpenSM does not accept
/// are repaired as OpenSM repairs them, with a warning: file, line, column and the value used.
///
/// # Errors
/// The configuration file exists and cannot be read.
pub fn read(args: &DaemonArgs) -> Result<Configured, String> {
    read_over(args, None)
}

/// Reads the configuration for an offline command, which repairs nothing.
///
/// # Errors
/// As [`read`]; the file that `-F` names is missing, or a value or engine is wrong: the text has
/// each.
pub fn read_strictly(args: &DaemonArgs) -> Result<Configured, String> {
    let configured = read_over(args, None)?;
    if configured.mistakes.is_empty() {
        Ok(configured)
    } else {
        Err(configured.mistakes.join("\n"))
    }
}

/// Reads the configuration of a running daemon again: lines that OpenSM ignores leave the
/// `running` value, and so does a file that is missing now.
///
/// # Errors
/// As [`read`].
pub fn read_again(args: &DaemonArgs, running: &Options) -> Result<Configured, String> {
    read_over(args, Some(running))
}

fn read_over(args: &DaemonArgs, running: Option<&Options>) -> Result<Configured, String> {
    let mut notes = args.notes.clone();
    let mut options = args.defaults();
    let mut source = None;
    let mut mistakes = Vec::new();
    if let Some((path, is_named)) = args.file_to_read() {
        match (read_text(path), running) {
            (Ok(text), _) => {
                let found = match running {
                    Some(running) => options.read_again(running, &text, path),
                    None => options.read(&text, path),
                };
                let errors = found.iter().filter(|found| found.severity == Severity::Error);
                mistakes.extend(errors.map(ToString::to_string));
                notes.extend(
                    found.iter().map(|found| Note::new(found.severity, None, found.to_string())),
                );
                source = Some((path, text));
            }
            (Err(error), _) if !error.is_not_found() => return Err(error.to_string()),
            (Err(_), Some(running)) => {
                let options = running.clone();
                return Ok(Configured { options, notes: Vec::new(), mistakes });
            }
            (Err(error), None) if is_named => {
                mistakes.push(error.to_string());
                let text = format!("{error}: the defaults and the command line apply");
                notes.push(Note::new(Severity::Error, None, text));
            }
            (Err(_), None) => {}
        }
    }
    args.apply(&mut options);
    let late = effects(&mut options);
    for note in late {
        let warning = located(args, source.as_ref(), &note);
        if note.severity == Severity::Error {
            mistakes.push(warning.text.clone());
        }
        notes.push(warning);
    }
    Ok(Configured { options, notes, mistakes })
}

/// Findings about the options as a whole, which are made consistent: unknown engines, options that
/// depend on each other, options without effect. The text of each begins with the key.
pub fn effects(options: &mut Options) -> Vec<Note> {
    let mut notes = drop_unknown_engines(options);
    notes.extend(unused_chain_policy(options));
    notes.extend(options.reconcile());
    notes.extend(options.unsupported());
    notes
}

/// The finding with file and line before it if the file sets the key.
fn located(args: &DaemonArgs, source: Option<&(&Path, String)>, note: &Note) -> Note {
    let key = subject(note);
    let line = source.and_then(|(path, text)| Some((path, line_of(key, text)?)));
    match line.filter(|_| args.given(key).is_none()) {
        Some((path, line)) => {
            let text = format!("{}:{line}: {}", path.display(), note.text);
            Note::new(note.severity, None, text)
        }
        None => Note::new(note.severity, None, note.text.clone()),
    }
}

/// The key that a warning about the options as a whole begins with.
pub fn subject(note: &Note) -> &'static str {
    let name = note.text.split([' ', ':']).next().unwrap_or("");
    find(name).map_or("", |key| key.name)
}

/// Line number of a key, from 1: the last line that sets it.
pub fn line_of(key: &str, text: &str) -> Option<u32> {
    let last = (1..).zip(text.lines()).filter(|(_, line)| is_key_of(key, line)).last();
    last.map(|(number, _)| number)
}

fn is_key_of(key: &str, line: &str) -> bool {
    let name = line.split([' ', '\t', '=']).find(|word| !word.is_empty());
    name.and_then(find).is_some_and(|found| found.name == key)
}

/// Removes the names of `routing_engine` that are no engines, as OpenSM does. Returns an error for
/// each.
fn drop_unknown_engines(options: &mut Options) -> Vec<Note> {
    let mut notes = Vec::new();
    let registry = EngineRegistry::standard(Arc::default());
    while let Some(list) = &options.routing_engine
        && let Err(unknown) = Chain::parse(list, &registry)
    {
        let names = listed_engines(list).filter(|&name| name != unknown.name);
        let rest = names.collect::<Vec<_>>().join(",");
        options.routing_engine = (!rest.is_empty()).then_some(rest);
        let engines = options.routing_engine.as_deref().unwrap_or(minhop::NAME);
        let text = format!(
            "routing_engine: {unknown}; the name is ignored, as in OpenSM, and {engines} routes"
        );
        notes.push(Note::new(Severity::Error, None, text));
    }
    notes
}

/// A warning about policy files of routing chains while no chain routes.
fn unused_chain_policy(options: &Options) -> Option<Note> {
    let engines = options.engines();
    if engine_names(engines).any(|name| name == routing_chain::ENGINE) {
        return None;
    }
    let keys = [
        ("rch_policy_file", &options.rch_policy_file),
        ("topo_policy_file", &options.topo_policy_file),
        ("pgrp_policy_file", &options.pgrp_policy_file),
    ];
    let (key, _) = keys.into_iter().find(|(_, file)| file.is_some())?;
    Some(Note::warning(format!(
        "{key} has no effect, because routing_engine does not contain chain; set routing_engine \
         chain to route by this policy"
    )))
}

/// The routing engines in the order of `routing_engine`, with their files.
///
/// # Errors
/// A name is not that of an engine; the text lists the engines.
pub fn chain(options: &Options, files: RoutingFiles) -> Result<Chain, String> {
    let registry = EngineRegistry::with_files(files);
    let engines = options.engines();
    Chain::parse(engines, &registry).map_err(|error| error.to_string())
}
