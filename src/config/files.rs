//! The files beside opensm.conf that tune the routing, read as the options name them.

use super::excerpt;
use super::guid_lists::{self, GuidLists, Parsed};
use super::options::Options;
use super::partitions::PartitionsConfig;
use super::prefix_routes::{self, PrefixRoute};
use super::qos_policy::QosPolicy;
use super::torus::TorusConfig;
use crate::notes::Note;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

/// torus-2QoS.conf.
///
/// # Errors
/// What is wrong with it, for the engine that needs it to say.
pub fn torus_config(options: &Options) -> Result<TorusConfig, Vec<Note>> {
    let path = Path::new(&options.torus_config);
    match fs::read_to_string(path) {
        Ok(text) => TorusConfig::parse(path, &text),
        Err(error) => Err(vec![TorusConfig::unreadable(path, &error)]),
    }
}

/// partitions.conf, and what is odd about it; without the file, no definitions.
///
/// # Errors
/// All that is wrong with it, each with its line and a caret, or why it cannot be read.
pub fn partitions(options: &Options) -> Result<(PartitionsConfig, Vec<Note>), String> {
    let Some(file) = &options.partition_config_file else {
        return Ok((PartitionsConfig::default(), Vec::new()));
    };
    let path = Path::new(file);
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let text = format!("{file} is not there: every port is in the default partition");
            return Ok((PartitionsConfig::default(), vec![Note::info(text)]));
        }
        Err(error) => return Err(format!("{file}: {error}")),
    };
    let (config, findings) = PartitionsConfig::parse(path, &text);
    let Some(config) = config else {
        return Err(excerpt::render_all(&findings, &text).join("\n"));
    };
    let mut notes: Vec<Note> = findings.iter().map(Note::from).collect();
    if config.definitions.is_empty() {
        let text = format!("{file} defines nothing: every port is in the default partition");
        notes.push(Note::warning(text));
    }
    Ok((config, notes))
}

/// qos-policy.conf, and what is odd about it; `None` without the file.
///
/// # Errors
/// All that is wrong with it, each with its line and a caret, or why it cannot be read.
pub fn qos_policy(options: &Options) -> Result<(Option<QosPolicy>, Vec<Note>), String> {
    let Some(file) = &options.qos_policy_file else { return Ok((None, Vec::new())) };
    let path = Path::new(file);
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let text = format!("{file} is not there: paths have the SLs of their partitions");
            return Ok((None, vec![Note::info(text)]));
        }
        Err(error) => return Err(format!("{file}: {error}")),
    };
    let (policy, findings) = QosPolicy::parse(path, &text);
    match policy {
        Some(policy) => Ok((Some(policy), findings.iter().map(Note::from).collect())),
        None => Err(excerpt::render_all(&findings, &text).join("\n")),
    }
}

/// prefix-routes.conf. What is wrong with it is noted, and the rest counts; without the file there
/// are none.
pub fn prefix_routes(options: &Options) -> (Vec<PrefixRoute>, Vec<Note>) {
    let Some(file) = &options.prefix_routes_file else { return Default::default() };
    let mut notes = Vec::new();
    let is_there = Path::new(file).exists();
    let wanted = options.prefix_routes_file.clone().filter(|_| is_there);
    (list(&wanted, prefix_routes::parse, &mut notes), notes)
}

/// The lists that tune Min Hop. What is wrong with them is noted, and the rest counts.
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
    };
    (lists, notes)
}

fn list<T>(
    file: &Option<String>,
    parse: fn(&Path, &str) -> Parsed<T>,
    notes: &mut Vec<Note>,
) -> Vec<T> {
    let Some(file) = file else { return Vec::new() };
    let path = Path::new(file);
    match fs::read_to_string(path) {
        Ok(text) => {
            let parsed = parse(path, &text);
            notes.extend(parsed.diagnostics.iter().map(|found| Note::warning(found.to_string())));
            parsed.entries
        }
        Err(error) => {
            notes.push(Note::warning(format!("{file}: {error}")));
            Vec::new()
        }
    }
}
