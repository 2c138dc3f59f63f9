//! The engines of `routing_engine` with groups of ports for adaptive routing.

use super::{Options, listed_engines};

/// An engine with groups, and the engine whose routes it has.
struct AdaptiveEngine {
    name: &'static str,
    routes: &'static str,
}

const ENGINES: [AdaptiveEngine; 5] = [
    AdaptiveEngine { name: "ar_updn", routes: "updn" },
    AdaptiveEngine { name: "ar_ftree", routes: "ftree" },
    AdaptiveEngine { name: "ar_dor", routes: "dor" },
    AdaptiveEngine { name: "ar_torus", routes: "torus-2QoS" },
    AdaptiveEngine { name: "ar_minhop", routes: "minhop" },
];

/// The names of the engines with groups.
pub const NAMES: [&str; 5] =
    [ENGINES[0].name, ENGINES[1].name, ENGINES[2].name, ENGINES[3].name, ENGINES[4].name];

/// The engine whose routes an engine with groups has; the name itself of other engines.
pub(super) fn routes_of(name: &str) -> &str {
    ENGINES.iter().find(|engine| engine.name == name).map_or(name, |engine| engine.routes)
}

/// True if the first name in `routing_engine` for the routes of an engine is one with groups.
pub fn has_groups_by_name(options: &Options, engine: &str) -> bool {
    name_with_groups(options, engine).is_some()
}

/// The first name in `routing_engine` for the routes of an engine, if it is one with groups.
pub fn name_with_groups(options: &Options, engine: &str) -> Option<&'static str> {
    let list = options.engines();
    let asked = listed_engines(list).find(|&name| routes_of(name) == engine)?;
    NAMES.into_iter().find(|&name| name == asked)
}
