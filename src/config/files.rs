//! Opens and parses the files that opensm.conf names.

use super::Diagnostic;
use super::excerpt;
use super::guid_lists::{self, GuidLists, Parsed};
use super::options::Options;
use super::partitions::PartitionsConfig;
use super::prefix_routes::{self, PrefixRoute};
use super::qos_policy::QosPolicy;
use super::route_dumps;
use super::text_file::read_text;
use super::torus::TorusConfig;
use crate::notes::{Note, Severity};
use std::path::Path;
use std::sync::Arc;

/// Reads torus-2QoS.conf.
///
/// # Errors
/// The file cannot be read or has errors. The notes are for the engine to report if it needs the
/// file.
pub fn torus_config(options: &Options) -> Result<TorusConfig, Vec<Note>> {
    let path = Path::new(&options.torus_config);
    match read_text(path) {
        Ok(text) => TorusConfig::parse(path, &text),
        Err(error) => Err(vec![TorusConfig::unreadable(&error)]),
    }
}

/// Reads partitions.conf. Without the file there are no definitions. The notes are warnings.
///
/// # Errors
/// The file cannot be read, or has errors: the text shows each with its line and a caret.
pub fn partitions(options: &Options) -> Result<(PartitionsConfig, Vec<Note>), String> {
    let Some(file) = &options.partition_config_file else {
        return Ok((PartitionsConfig::default(), Vec::new()));
    };
    let path = Path::new(file);
    let text = match read_text(path) {
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

/// Reads qos-policy.conf; `None` without the file. The notes are warnings.
///
/// # Errors
/// The file cannot be read, or has errors: the text shows each with its line and a caret.
pub fn qos_policy(options: &Options) -> Result<(Option<QosPolicy>, Vec<Note>), String> {
    let Some(file) = &options.qos_policy_file else { return Ok((None, Vec::new())) };
    let path = Path::new(file);
    let text = match read_text(path) {
        Ok(text) => text,
        Err(error) if error.is_not_found() => {
            let text = format!("{file} does not exist: paths have the SLs of their partitions");
            return Ok((None, vec![Note::info(text)]));
        }
        Err(error) => return Err(error.to_string()),
    };
    let (policy, diagnostics) = QosPolicy::parse(path, &text);
    match policy {
        Some(policy) => Ok((Some(policy), diagnostics.iter().map(Note::from).collect())),
        None => Err(excerpt::render_all(&diagnostics, &text).join("\n")),
    }
}

/// Reads prefix-routes.conf; without the file there are no routes. Lines with errors are skipped
/// with a note.
pub fn prefix_routes(options: &Options) -> (Vec<PrefixRoute>, Vec<Note>) {
    let Some(file) = &options.prefix_routes_file else { return Default::default() };
    let mut notes = Vec::new();
    let exists = Path::new(file).exists();
    let file = options.prefix_routes_file.clone().filter(|_| exists);
    (list(&file, prefix_routes::parse, &mut notes), notes)
}

/// Reads the lists that tune routing. Lines with errors are skipped with a note.
pub fn guid_lists(options: &Options) -> (GuidLists, Vec<Note>) {
    let mut notes = Vec::new();
    let lists = GuidLists {
        routing_order: list(&options.guid_routing_order_file, guid_lists::guids, &mut notes),
        ignored_ports: list(&options.port_prof_ignore_file, guid_lists::ports, &mut notes),
        hop_weights: list(&options.hop_weights_file, guid_lists::hop_weights, &mut notes),
        search_orders: list(
            &options.port_search_ordering_file,
            guid_lists::search_orders,
            &mut notes,
        ),
        roots: readable_list(&options.root_guid_file, guid_lists::guids, &mut notes),
        ids: list(&options.ids_guid_file, guid_lists::ids, &mut notes),
        compute_nodes: readable_list(&options.cn_guid_file, guid_lists::guids, &mut notes),
        io_nodes: readable_list(&options.io_guid_file, guid_lists::guids, &mut notes),
        lfts: dump(&options.lfts_file, route_dumps::lfts),
        lid_matrix: dump(&options.lid_matrix_dump_file, route_dumps::lid_matrix),
    };
    (lists, notes)
}

/// A dump of routes, or the reason why it cannot be loaded, which the engine `file` reports.
fn dump<T>(
    file: &Option<String>,
    parse: fn(&Path, &str) -> Result<T, Diagnostic>,
) -> Option<Arc<Result<T, Vec<Note>>>> {
    let path = Path::new(file.as_ref()?);
    let reason = |text: String| vec![Note::new(Severity::Error, None, text)];
    let loaded = match read_text(path) {
        Ok(text) => parse(path, &text).map_err(|found| reason(found.to_string())),
        Err(error) => Err(reason(error.to_string())),
    };
    Some(Arc::new(loaded))
}

fn list<T>(
    file: &Option<String>,
    parse: fn(&Path, &str) -> Parsed<T>,
    notes: &mut Vec<Note>,
) -> Vec<T> {
    readable_list(file, parse, notes).unwrap_or_default()
}

/// The entries of a file; `None` without a file or if it cannot be read, which is noted.
fn readable_list<T>(
    file: &Option<String>,
    parse: fn(&Path, &str) -> Parsed<T>,
    notes: &mut Vec<Note>,
) -> Option<Vec<T>> {
    let path = Path::new(file.as_ref()?);
    match read_text(path) {
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
