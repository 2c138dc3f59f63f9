//! The files beside opensm.conf that tune the routing, read as the options name them.

use super::guid_lists::{self, GuidLists, Parsed};
use super::options::Options;
use super::torus::TorusConfig;
use crate::notes::Note;
use std::fs;
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
