//! Opens and parses the files that opensm.conf names.
//!
//! A [`TextSource`] supplies their texts: [`Disk`], or [`ConfigTexts`] with the texts of an earlier
//! time.

use super::Diagnostic;
use super::excerpt;
use super::guid_lists::{self, GuidLists, Parsed};
use super::log_modules::{self, ModuleFlags};
use super::node_name_map::{self, NamedNode};
use super::options::{Options, engine_names};
use super::partitions::PartitionsConfig;
use super::prefix_routes::{self, PrefixRoute};
use super::qos_policy::{self, QosPolicy};
use super::route_dumps;
use super::routing_chain::steps::UnicastStep;
use super::routing_chain::{
    self, ConfiguredStep, RoutingChain, StepSettings, port_groups, steps, topologies,
};
use super::text_file::{ReadError, read_text};
use super::torus::TorusConfig;
use crate::notes::{Note, Severity};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Supplies the texts of files.
pub trait TextSource {
    /// # Errors
    /// The file cannot be read, or is not UTF-8.
    fn read(&self, path: &Path) -> Result<String, ReadError>;
}

/// The files on disk.
pub struct Disk;

impl TextSource for Disk {
    fn read(&self, path: &Path) -> Result<String, ReadError> {
        read_text(path)
    }
}

/// The texts of configuration files, by path. Other files do not exist.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ConfigTexts(pub BTreeMap<String, String>);

impl TextSource for ConfigTexts {
    fn read(&self, path: &Path) -> Result<String, ReadError> {
        let text = path.to_str().and_then(|path| self.0.get(path)).cloned();
        text.ok_or_else(|| ReadError::not_found(path))
    }
}

/// Reads torus-2QoS.conf.
///
/// # Errors
/// The file cannot be read or has errors. The notes are for the engine to report if it needs the
/// file.
pub fn torus_config(options: &Options) -> Result<TorusConfig, Vec<Note>> {
    torus_config_from(&Disk, options)
}

/// [`torus_config`] with the files of `source`.
///
/// # Errors
/// As [`torus_config`].
pub fn torus_config_from(
    source: &dyn TextSource,
    options: &Options,
) -> Result<TorusConfig, Vec<Note>> {
    let path = Path::new(&options.torus_config);
    match source.read(path) {
        Ok(text) => TorusConfig::parse(path, &text),
        Err(error) => Err(vec![TorusConfig::unreadable(&error)]),
    }
}

/// Reads partitions.conf. Without the file there are no definitions. The notes are warnings.
///
/// # Errors
/// The file cannot be read, or has errors: the text shows each with its line and a caret.
pub fn partitions(options: &Options) -> Result<(PartitionsConfig, Vec<Note>), String> {
    partitions_from(&Disk, options)
}

/// [`partitions`] with the files of `source`.
///
/// # Errors
/// As [`partitions`].
pub fn partitions_from(
    source: &dyn TextSource,
    options: &Options,
) -> Result<(PartitionsConfig, Vec<Note>), String> {
    let Some(file) = &options.partition_config_file else {
        return Ok((PartitionsConfig::default(), Vec::new()));
    };
    let path = Path::new(file);
    let text = match source.read(path) {
        Ok(text) => text,
        Err(error) if error.is_not_found() => {
            let text = format!("{file} does not exist: all ports are in the default partition");
            return Ok((PartitionsConfig::default(), vec![Note::info(text)]));
        }
        Err(error) => return Err(error.to_string()),
    };
    let (config, diagnostics) = PartitionsConfig::parse(path, &text);
    let Some(config) = config else {
        return Err(excerpt::render_all(&diagnostics, &text).join("\n"));
    };
    let mut notes: Vec<Note> = diagnostics.iter().map(Note::from).collect();
    if config.definitions.is_empty() {
        let text = format!("{file} has no definitions: all ports are in the default partition");
        notes.push(Note::warning(text));
    }
    Ok((config, notes))
}

/// Effect of a missing or invalid QoS policy.
const NO_POLICY: &str = "paths have the SLs of their partitions";

/// Reads qos-policy.conf; `None` without the file. The notes are warnings.
///
/// # Errors
/// The file cannot be read, or has errors: each is shown with its line and a caret.
pub fn qos_policy(options: &Options) -> Result<(Option<QosPolicy>, Vec<Note>), Vec<Note>> {
    qos_policy_from(&Disk, options)
}

/// [`qos_policy()`] with the files of `source`.
///
/// # Errors
/// As [`qos_policy()`].
pub fn qos_policy_from(
    source: &dyn TextSource,
    options: &Options,
) -> Result<(Option<QosPolicy>, Vec<Note>), Vec<Note>> {
    let Some(file) = &options.qos_policy_file else { return Ok((None, Vec::new())) };
    let path = Path::new(file);
    let text = match source.read(path) {
        Ok(text) => text,
        Err(error) if error.is_not_found() => {
            // As in OpenSM, only the default file need not exist.
            let is_default = options.qos_policy_file == Options::default().qos_policy_file;
            let note = if is_default {
                Note::info(format!("{file} does not exist: {NO_POLICY}"))
            } else {
                let reason = error.reason();
                let text = format!("Failed opening QoS policy file {file} - {reason}: {NO_POLICY}");
                Note::error("AC01", text)
            };
            return Ok((None, vec![note]));
        }
        Err(error) if error.position().0 > 0 => {
            return Err(vec![Note::error(qos_policy::SYNTAX_ERROR, error.to_string())]);
        }
        Err(error) => {
            let reason = error.reason();
            let text = format!("Failed opening QoS policy file {file} - {reason}: {NO_POLICY}");
            return Err(vec![Note::error("AC01", text)]);
        }
    };
    let (policy, diagnostics) = QosPolicy::parse(path, &text);
    match policy {
        Some(policy) => {
            let mut notes: Vec<Note> = diagnostics.iter().map(Note::from).collect();
            if notes.iter().any(|note| note.severity == Severity::Error) {
                notes.push(Note::warning(format!(
                    "{file}: the section qos-setup has errors and is not used; the rest is in force"
                )));
            } else if !policy.vl_arbitration.is_empty() || !policy.sl_to_vl.is_empty() {
                notes.push(Note::warning(format!(
                    "{file}: the section qos-setup sets the tables of devices; OpenSM ignores it"
                )));
            }
            Ok((Some(policy), notes))
        }
        None => {
            let excerpts = excerpt::render_all(&diagnostics, &text);
            let found = diagnostics.iter().zip(excerpts);
            let mut notes: Vec<Note> = found
                .map(|(found, excerpt)| Note::new(found.severity, found.code, excerpt))
                .collect();
            let is_syntax = notes.iter().any(|note| note.code == Some(qos_policy::SYNTAX_ERROR));
            notes.push(if is_syntax {
                Note::error("AC03", format!("Failed parsing QoS policy file ({file}): {NO_POLICY}"))
            } else {
                Note::error("AC04", format!("Error(s) in QoS policy file ({file}): {NO_POLICY}"))
            });
            Err(notes)
        }
    }
}

/// Reads the node name map; without a file there are no names. The notes are warnings.
///
/// # Errors
/// The file cannot be read, or has errors: the notes are all findings.
pub fn node_names(options: &Options) -> Result<(Vec<NamedNode>, Vec<Note>), Vec<Note>> {
    node_names_from(&Disk, options)
}

/// [`node_names`] with the files of `source`.
///
/// # Errors
/// As [`node_names`].
pub fn node_names_from(
    source: &dyn TextSource,
    options: &Options,
) -> Result<(Vec<NamedNode>, Vec<Note>), Vec<Note>> {
    let file = options.node_name_map_name.as_deref().unwrap_or(node_name_map::DEFAULT_PATH);
    let text = match source.read(Path::new(file)) {
        Ok(text) => text,
        Err(error) => {
            let reason = node_name_map::unreadable(options, &error);
            return reason.map_or(Ok(Default::default()), |reason| Err(vec![reason]));
        }
    };
    let (names, diagnostics) = node_name_map::parse(Path::new(file), &text);
    let notes = diagnostics.iter().map(Note::from).collect();
    if diagnostics.iter().any(|found| found.severity == Severity::Error) {
        Err(notes)
    } else {
        Ok((names, notes))
    }
}

/// Reads the log flags of modules; without the file there are none. Lines with errors are skipped
/// with a note.
pub fn module_flags_from(
    source: &dyn TextSource,
    options: &Options,
) -> (Vec<ModuleFlags>, Vec<Note>) {
    let mut notes = Vec::new();
    let file = &options.per_module_logging_file;
    let flags = optional_list(source, file, log_modules::parse, &mut notes);
    (flags, notes)
}

/// Reads prefix-routes.conf; without the file there are no routes. Lines with errors are skipped
/// with a note.
pub fn prefix_routes_from(
    source: &dyn TextSource,
    options: &Options,
) -> (Vec<PrefixRoute>, Vec<Note>) {
    let mut notes = Vec::new();
    let file = &options.prefix_routes_file;
    let routes = optional_list(source, file, prefix_routes::parse, &mut notes);
    (routes, notes)
}

/// Reads the lists that tune routing. Lines with errors are skipped with a note.
pub fn guid_lists(options: &Options) -> (GuidLists, Vec<Note>) {
    guid_lists_from(&Disk, options)
}

/// [`guid_lists()`] with the files of `source`.
pub fn guid_lists_from(source: &dyn TextSource, options: &Options) -> (GuidLists, Vec<Note>) {
    let mut notes = Vec::new();
    let lists = GuidLists {
        routing_order: list(
            source,
            &options.guid_routing_order_file,
            guid_lists::guids,
            &mut notes,
        ),
        ignored_ports: list(source, &options.port_prof_ignore_file, guid_lists::ports, &mut notes),
        hop_weights: list(source, &options.hop_weights_file, guid_lists::hop_weights, &mut notes),
        search_orders: list(
            source,
            &options.port_search_ordering_file,
            guid_lists::search_orders,
            &mut notes,
        ),
        roots: readable_list(source, &options.root_guid_file, guid_lists::guids, &mut notes),
        ids: list(source, &options.ids_guid_file, guid_lists::ids, &mut notes),
        compute_nodes: readable_list(source, &options.cn_guid_file, guid_lists::guids, &mut notes),
        io_nodes: readable_list(source, &options.io_guid_file, guid_lists::guids, &mut notes),
        lfts: dump(source, &options.lfts_file, route_dumps::lfts),
        lid_matrix: dump(source, &options.lid_matrix_dump_file, route_dumps::lid_matrix),
    };
    (lists, notes)
}

/// The files of the routing engines.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct RoutingFiles {
    pub lists: GuidLists,
    /// The routing chain, or the errors in its files; `None` if the engine is not configured.
    pub chain: Option<Arc<Result<RoutingChain, Vec<Note>>>>,
    /// Findings about lists that cannot be read, or of which lines are skipped.
    pub list_errors: Vec<Note>,
}

impl RoutingFiles {
    /// Every error in the files.
    pub fn errors(&self) -> Vec<String> {
        let mut errors = self.list_errors.clone();
        errors.extend(unread_dumps(&self.lists));
        match self.chain.as_deref() {
            None => {}
            Some(Err(found)) => errors.extend(found.iter().cloned()),
            Some(Ok(chain)) => {
                errors.extend(chain.skipped.iter().cloned());
                for step in &chain.steps {
                    errors.extend(unread_dumps(&step.lists));
                    errors.extend(step.torus_config.iter().flat_map(|config| {
                        config.as_ref().err().map_or(&[][..], Vec::as_slice).iter().cloned()
                    }));
                }
            }
        }
        errors.iter().map(ToString::to_string).collect()
    }
}

fn unread_dumps(lists: &GuidLists) -> Vec<Note> {
    fn failed<T>(dump: &Option<Arc<Result<T, Vec<Note>>>>) -> &[Note] {
        dump.as_deref().and_then(|dump| dump.as_ref().err()).map_or(&[], Vec::as_slice)
    }
    failed(&lists.lfts).iter().chain(failed(&lists.lid_matrix)).cloned().collect()
}

/// Reads the files of the configured routing engines. Lines with errors in lists are skipped with
/// a note.
pub fn routing_files(options: &Options) -> (RoutingFiles, Vec<Note>) {
    routing_files_from(&Disk, options)
}

/// [`routing_files`] with the files of `source`.
pub fn routing_files_from(source: &dyn TextSource, options: &Options) -> (RoutingFiles, Vec<Note>) {
    let (lists, list_errors) = guid_lists_from(source, options);
    let mut notes = list_errors.clone();
    let engines = options.engines();
    let chain = engine_names(engines).any(|name| name == routing_chain::ENGINE).then(|| {
        let chain = routing_chain_from(source, options);
        if let Ok(chain) = &chain {
            notes.extend(chain.notes.iter().cloned());
        }
        Arc::new(chain)
    });
    (RoutingFiles { lists, chain, list_errors }, notes)
}

/// Reads the policy files of routing chains, and the configuration of each step.
///
/// # Errors
/// Returns notes with the errors of the first file that has some.
pub fn routing_chain_from(
    source: &dyn TextSource,
    options: &Options,
) -> Result<RoutingChain, Vec<Note>> {
    let mut notes = Vec::new();
    let mut groups = Vec::new();
    if let Some(path) = configured_path(&options.pgrp_policy_file) {
        groups = policy(source, &path, |text: &str| port_groups::parse(&path, text), &mut notes)?;
    }
    let mut topologies = Vec::new();
    if let Some(path) = configured_path(&options.topo_policy_file) {
        topologies = policy(
            source,
            &path,
            |text: &str| topologies::parse(&path, text, &groups),
            &mut notes,
        )?;
    }
    let Some(path) = configured_path(&options.rch_policy_file) else {
        let text = "the engine chain needs rch_policy_file in opensm.conf";
        return Err(vec![Note::new(Severity::Error, None, text)]);
    };
    let parsed = policy(
        source,
        &path,
        |text: &str| steps::parse(&path, text, &topologies, options.lmc),
        &mut notes,
    )?;
    let mut configured = Vec::new();
    let mut skipped = Vec::new();
    for step in parsed {
        let (step, found) = configured_step(source, options, step)?;
        skipped.extend(found);
        configured.push(step);
    }
    for error in &skipped {
        if !notes.contains(error) {
            notes.push(error.clone());
        }
    }
    Ok(RoutingChain { groups, topologies, steps: configured, notes, skipped })
}

fn configured_path(name: &Option<String>) -> Option<PathBuf> {
    name.as_ref().map(PathBuf::from)
}

/// Reads a policy file. Warnings are added to `notes`.
fn policy<T>(
    source: &dyn TextSource,
    path: &Path,
    parse: impl Fn(&str) -> (T, Vec<Diagnostic>),
    notes: &mut Vec<Note>,
) -> Result<T, Vec<Note>> {
    let text = source
        .read(path)
        .map_err(|error| vec![Note::new(Severity::Error, None, error.to_string())])?;
    let (value, diagnostics) = parse(&text);
    let found = diagnostics.iter().map(Note::from);
    if diagnostics.iter().any(|found| found.severity == Severity::Error) {
        return Err(found.collect());
    }
    notes.extend(found);
    Ok(value)
}

/// A step with the options and files of its configuration, and the findings about these.
fn configured_step(
    source: &dyn TextSource,
    options: &Options,
    step: UnicastStep,
) -> Result<(ConfiguredStep, Vec<Note>), Vec<Note>> {
    let mut settings = StepSettings::default();
    let mut skipped = Vec::new();
    if let Some(path) = step.config.as_ref().map(PathBuf::from) {
        settings = policy(source, &path, |text| StepSettings::parse(&path, text), &mut skipped)?;
    }
    let options = settings.over(options);
    let (lists, found) = guid_lists_from(source, &options);
    skipped.extend(found);
    let torus_config = settings.has_torus_config().then(|| {
        let path = Path::new(&options.torus_config);
        match source.read(path) {
            Ok(text) => TorusConfig::parse(path, &text),
            Err(error) => Err(vec![TorusConfig::unreadable(&error)]),
        }
    });
    Ok((ConfiguredStep { step, settings, lists: Arc::new(lists), torus_config }, skipped))
}

/// A dump of routes, or the reason why it cannot be loaded, which the engine `file` reports.
fn dump<T>(
    source: &dyn TextSource,
    file: &Option<String>,
    parse: fn(&Path, &str) -> Result<T, Diagnostic>,
) -> Option<Arc<Result<T, Vec<Note>>>> {
    let path = Path::new(file.as_ref()?);
    let loaded = match source.read(path) {
        Ok(text) => parse(path, &text).map_err(|found| error_notes(found.to_string())),
        Err(error) => Err(error_notes(error.to_string())),
    };
    Some(Arc::new(loaded))
}

fn error_notes(text: String) -> Vec<Note> {
    vec![Note::new(Severity::Error, None, text)]
}

fn list<T>(
    source: &dyn TextSource,
    file: &Option<String>,
    parse: fn(&Path, &str) -> Parsed<T>,
    notes: &mut Vec<Note>,
) -> Vec<T> {
    readable_list(source, file, parse, notes).unwrap_or_default()
}

/// The entries of a file that need not exist.
fn optional_list<T>(
    source: &dyn TextSource,
    file: &Option<String>,
    parse: fn(&Path, &str) -> Parsed<T>,
    notes: &mut Vec<Note>,
) -> Vec<T> {
    let Some(path) = file.as_ref().map(Path::new) else { return Vec::new() };
    match source.read(path) {
        Err(error) if error.is_not_found() => Vec::new(),
        _ => list(source, file, parse, notes),
    }
}

/// The entries of a file; `None` without a file or if it cannot be read, which is noted.
fn readable_list<T>(
    source: &dyn TextSource,
    file: &Option<String>,
    parse: fn(&Path, &str) -> Parsed<T>,
    notes: &mut Vec<Note>,
) -> Option<Vec<T>> {
    let path = Path::new(file.as_ref()?);
    match source.read(path) {
        Ok(text) => {
            let parsed = parse(path, &text);
            notes.extend(parsed.diagnostics.iter().map(|found| Note::warning(found.to_string())));
            Some(parsed.entries)
        }
        Err(error) => {
            notes.push(Note::warning(error.to_string()));
            None
        }
    }
}
