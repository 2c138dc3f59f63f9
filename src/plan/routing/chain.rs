//! The chain of routing engines (`-R a,b,c`), tried in order until one routes the fabric.
//!
//! Min Hop is appended to the chain unless the list contains `no_fallback`. If an engine other than
//! the first routes the fabric, the notes of the result begin with a warning for each failed engine
//! and its reason, because the operator may have asked for an engine that is free of deadlocks.

use super::dnup::Dnup;
use super::dor::Dor;
use super::engine_hints;
use super::file::FileEngine;
use super::ftree::Ftree;
use super::lash::Lash;
use super::minhop::{self, MinHop};
use super::nue::Nue;
use super::pqft::Pqft;
use super::sssp::{DfSssp, Sssp};
use super::torus::Torus2Qos;
use super::unicast_cache;
use super::unicast_steps::UnicastSteps;
use super::updn::Updn;
use super::{Engine, Routing, RoutingError, RoutingInput};
use crate::config::files::RoutingFiles;
use crate::config::guid_lists::GuidLists;
use crate::config::options::{adaptive, engine_names};
use crate::notes::Note;
use std::sync::Arc;

/// The list entry that disables the fallback to Min Hop.
const NO_FALLBACK: &str = "no_fallback";

/// A name in OpenSM's list that has no engine.
const NONE: &str = "none";

/// The engine names of OpenSM, in its order.
pub const OPENSM_ENGINES: [&str; 12] = [
    NONE,
    "minhop",
    "updn",
    "dnup",
    "file",
    "ftree",
    "lash",
    "dor",
    "torus-2QoS",
    "nue",
    "dfsssp",
    "sssp",
];

/// The available engines.
#[derive(Clone, Default)]
pub struct EngineRegistry {
    engines: Vec<Arc<dyn Engine>>,
}

impl EngineRegistry {
    /// The engines of this version. `lists` are the contents of the GUID list files.
    pub fn standard(lists: Arc<GuidLists>) -> Self {
        Self::default()
            .with(Arc::new(MinHop::new(Arc::clone(&lists))))
            .with(Arc::new(Updn::new(Arc::clone(&lists))))
            .with(Arc::new(Dnup::new(Arc::clone(&lists))))
            .with(Arc::new(FileEngine::new(Arc::clone(&lists))))
            .with(Arc::new(Dor::new(Arc::clone(&lists))))
            .with(Arc::new(Ftree::new(Arc::clone(&lists))))
            .with(Arc::new(Sssp::new(Arc::clone(&lists))))
            .with(Arc::new(DfSssp::new(Arc::clone(&lists))))
            .with(Arc::new(Lash::new(Arc::clone(&lists))))
            .with(Arc::new(Nue))
            .with(Arc::new(Pqft::new(lists)))
            .with(Arc::new(Torus2Qos))
            .with(Arc::new(UnicastSteps::default()))
    }

    /// The engines of this version, with their files. The engine of routing chains has its files
    /// if it is configured.
    pub fn with_files(files: RoutingFiles) -> Self {
        let registry = Self::standard(Arc::new(files.lists));
        let Some(chain) = files.chain else { return registry };
        let engines = chain
            .iter()
            .flat_map(|chain| &chain.steps)
            .map(|step| Self::standard(Arc::clone(&step.lists)).find(&step.step.engine));
        let engines = engines.collect();
        registry.with(Arc::new(UnicastSteps::new(chain, engines)))
    }

    /// Adds an engine and replaces any other of the same name.
    pub fn with(mut self, engine: Arc<dyn Engine>) -> Self {
        self.engines.retain(|other| other.name() != engine.name());
        self.engines.push(engine);
        self
    }

    fn find(&self, name: &str) -> Option<Arc<dyn Engine>> {
        self.engines.iter().find(|engine| engine.name() == name).cloned()
    }

    /// The chain entry for a name.
    fn entry(&self, name: &str) -> Option<ChainEntry> {
        let engine = self.find(name).map(ChainEntry::Try);
        engine.or_else(|| {
            OPENSM_ENGINES.into_iter().find(|&known| known == name).map(ChainEntry::Missing)
        })
    }

    /// All valid engine names.
    pub fn names(&self) -> Vec<&'static str> {
        let mut names = OPENSM_ENGINES.to_vec();
        let engines = self.engines.iter().map(|engine| engine.name());
        names.extend(engines.filter(|name| !OPENSM_ENGINES.contains(name)));
        names
    }
}

/// A list of engines contains an unknown name.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "unknown routing engine \"{name}\"; valid are {}, {} and no_fallback, separated by commas{}",
    valid.join(", "),
    adaptive::NAMES.join(", "),
    engine_hints::hint(name, valid)
)]
pub struct UnknownEngine {
    pub name: String,
    pub valid: Vec<&'static str>,
}

/// Routing engines in the order in which they are tried.
#[derive(Clone)]
pub struct Chain {
    entries: Vec<ChainEntry>,
    /// The errors of engines that were tried before these.
    refused: Vec<RoutingError>,
    /// True after routes of the unicast cache were rejected.
    without_cache: bool,
}

#[derive(Clone)]
enum ChainEntry {
    Try(Arc<dyn Engine>),
    /// A name in OpenSM's list that has no engine.
    Missing(&'static str),
}

impl ChainEntry {
    fn name(&self) -> &'static str {
        match self {
            Self::Try(engine) => engine.name(),
            Self::Missing(name) => name,
        }
    }

    fn route(&self, input: &RoutingInput<'_>) -> Result<Routing, RoutingError> {
        match self {
            Self::Try(engine) => engine.route(input),
            Self::Missing(engine) => {
                let text =
                    format!("{engine} is a name without an engine, with which OpenSM crashes");
                Err(RoutingError::new(engine, Note::warning(text)))
            }
        }
    }
}

impl Chain {
    /// Parses a list of names in the syntax of `-R` and `routing_engine`: separated by commas or
    /// blanks. An empty list means Min Hop; repeated names count once.
    ///
    /// # Errors
    /// Returns [`UnknownEngine`] for a name that neither torus-sm nor OpenSM knows.
    pub fn parse(list: &str, registry: &EngineRegistry) -> Result<Self, UnknownEngine> {
        let mut chain = Self { entries: Vec::new(), refused: Vec::new(), without_cache: false };
        for name in engine_names(list).filter(|&name| name != NO_FALLBACK) {
            chain.push(
                registry.entry(name).ok_or_else(|| UnknownEngine {
                    name: name.to_owned(),
                    valid: registry.names(),
                })?,
            );
        }
        let may_fall_back = engine_names(list).all(|name| name != NO_FALLBACK);
        if (may_fall_back || chain.entries.is_empty())
            && let Some(engine) = registry.find(minhop::NAME)
        {
            chain.push(ChainEntry::Try(engine));
        }
        Ok(chain)
    }

    fn push(&mut self, entry: ChainEntry) {
        if self.entries.iter().all(|other| other.name() != entry.name()) {
            self.entries.push(entry);
        }
    }

    /// The names of the engines, in the order in which they are tried.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.entries.iter().map(ChainEntry::name)
    }

    /// The engines behind the one that computed `routing`, whose plan was rejected for `reason`;
    /// `None` if there are none. After routes of the unicast cache, the engines from the first on.
    pub fn after(&self, routing: &Routing, reason: Note) -> Option<Self> {
        if !self.without_cache && unicast_cache::is_reused(routing) {
            return Some(Self { without_cache: true, ..self.clone() });
        }
        let place = self.entries.iter().position(|entry| entry.name() == routing.engine)?;
        let entries = self.entries[place + 1..].to_vec();
        let error = RoutingError::new(routing.engine, reason);
        let refused = routing.routing_errors.iter().cloned().chain([error]).collect();
        (!entries.is_empty()).then_some(Self { entries, refused, ..*self })
    }

    /// Routes the fabric with the first engine that can. The result contains the errors of the
    /// engines before it, and its notes begin with theirs.
    ///
    /// # Errors
    /// Returns the errors of all engines, in order, if none can.
    pub fn route(&self, input: &RoutingInput<'_>) -> Result<Routing, Vec<RoutingError>> {
        let uses_cache = input.options.use_ucast_cache;
        if uses_cache
            && !self.without_cache
            && let Some(routing) = unicast_cache::reuse(input)
        {
            return Ok(routing);
        }
        let mut input = *input;
        if let Some((previous, is_current)) = input.previous.map(unicast_cache::unwrapped) {
            input.previous = Some(previous);
            input.previous_fabric = input.previous_fabric.filter(|_| is_current);
        }
        // On a thread of the pool, where parallel parts begin without waking up another thread.
        let routing = rayon::scope(|_| self.run_engines(&input))?;
        Ok(if uses_cache { unicast_cache::remember(&input, routing) } else { routing })
    }

    /// Runs the engines until one routes.
    fn run_engines(&self, input: &RoutingInput<'_>) -> Result<Routing, Vec<RoutingError>> {
        let mut routing_errors = self.refused.clone();
        for entry in &self.entries {
            match entry.route(input) {
                Ok(mut routing) => {
                    let mut notes = fallback_notes(&routing_errors, &routing);
                    notes.append(&mut routing.notes);
                    return Ok(Routing { notes, routing_errors, ..routing });
                }
                Err(error) => routing_errors.push(error),
            }
        }
        Err(routing_errors)
    }
}

/// A warning for each failed engine, followed by all messages of these engines.
fn fallback_notes(routing_errors: &[RoutingError], routing: &Routing) -> Vec<Note> {
    let used = routing.engine;
    let cost = if routing.policy.guarantees_no_credit_loops() {
        String::new()
    } else {
        format!("; {used} does not prevent credit loops")
    };
    let details = routing_errors.iter().flat_map(|error| error.notes.iter().cloned());
    routing_errors
        .iter()
        .map(|error| {
            let engine = error.engine;
            let reason = error.reason().map_or("no reason given", |note| &note.text);
            Note::warning(format!(
                "{engine} cannot route this fabric, {used} is used instead: {reason}{cost}"
            ))
        })
        .chain(details)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::options::Options;
    use crate::fabric::Fabric;
    use crate::fabric::ibnet;
    use crate::fabric::synthetic::SyntheticView;
    use crate::plan::LidTable;
    use std::path::Path;

    struct Fake(&'static str, Option<Vec<Note>>);

    impl Engine for Fake {
        fn name(&self) -> &'static str {
            self.0
        }

        fn route(&self, input: &RoutingInput<'_>) -> Result<Routing, RoutingError> {
            match &self.1 {
                Some(notes) => {
                    Err(RoutingError { engine: self.0, notes: notes.clone(), dump: None })
                }
                None => {
                    let routing = MinHop::default().route(input)?;
                    Ok(Routing { engine: self.0, ..routing })
                }
            }
        }
    }

    fn registry() -> EngineRegistry {
        let findings = vec![
            Note::info("looking"),
            Note::error("4E05", "no torus here"),
            Note::error("4E06", "none at all"),
        ];
        EngineRegistry::standard(Arc::default())
            .with(Arc::new(Fake("torus-2QoS", Some(findings))))
            .with(Arc::new(Fake("willing", None)))
            .with(Arc::new(Fake("silent", Some(Vec::new()))))
    }

    fn route(list: &str) -> Result<(&'static str, Vec<String>), Vec<RoutingError>> {
        let text = "Switch 2 \"s\"\n[1] \"h\"[1]\n\nHca 1 \"h\"\n[1] \"s\"[1]\n";
        let topology = ibnet::parse(Path::new("net"), text).expect("a fabric");
        let fabric =
            Fabric::from_topology(&topology, 0, &SyntheticView::default()).expect("a node");
        let input = RoutingInput {
            fabric: &fabric,
            lids: &LidTable::new(fabric.ports().len()),
            options: &Options::default(),
            torus_config: &Err(Vec::new()),
            previous: None,
            previous_fabric: None,
        };
        let routing = Chain::parse(list, &registry()).expect("known engines").route(&input)?;
        let notes = routing.notes.iter().filter(|note| note.code != Some("3A04"));
        Ok((routing.engine, notes.map(ToString::to_string).collect()))
    }

    fn names(list: &str) -> Vec<&'static str> {
        let chain = Chain::parse(list, &registry()).expect("known engines");
        chain.names().collect()
    }

    #[test]
    fn lists_are_read_as_opensm_reads_them() {
        assert_eq!(names(""), ["minhop"]);
        assert_eq!(names("no_fallback"), ["minhop"]);
        assert_eq!(names("torus-2QoS"), ["torus-2QoS", "minhop"]);
        assert_eq!(names(" updn,,torus-2QoS\tno_fallback\n"), ["updn", "torus-2QoS"]);
        assert_eq!(names("minhop,updn,minhop"), ["minhop", "updn"]);
        assert_eq!(names("ar_torus,torus-2QoS,ar_updn"), ["torus-2QoS", "updn", "minhop"]);
        let error = Chain::parse("torus-2qos,minhop", &registry()).err().expect("an error");
        assert_eq!(
            error.to_string(),
            "unknown routing engine \"torus-2qos\"; valid are none, minhop, updn, dnup, file, ftree, \
             lash, dor, torus-2QoS, nue, dfsssp, sssp, pqft, chain, willing, silent, ar_updn, \
             ar_ftree, ar_dor, ar_torus, ar_minhop and no_fallback, separated by commas; did you mean `torus-2QoS`?"
        );
    }

    #[test]
    fn every_name_of_opensm_is_known() {
        for name in OPENSM_ENGINES {
            let chain = Chain::parse(name, &EngineRegistry::standard(Arc::default()));
            assert_eq!(chain.map(|chain| chain.names().next()), Ok(Some(name)));
        }
    }

    #[test]
    fn fallback_warnings_come_first() {
        let (engine, notes) = route("torus-2QoS").expect("routes");
        assert_eq!(engine, "minhop");
        assert_eq!(
            notes,
            [
                "torus-2QoS cannot route this fabric, minhop is used instead: no torus here; \
                 minhop does not prevent credit loops",
                "looking",
                "ERR 4E05: no torus here",
                "ERR 4E06: none at all",
            ]
        );
        let (engine, notes) = route("none,silent,willing").expect("routes");
        assert_eq!(engine, "willing");
        assert_eq!(
            notes,
            [
                "none cannot route this fabric, willing is used instead: none is a name without an \
                 engine, with which OpenSM crashes; willing does not prevent credit loops",
                "silent cannot route this fabric, willing is used instead: no reason given; \
                 willing does not prevent credit loops",
                "none is a name without an engine, with which OpenSM crashes",
            ]
        );
        assert_eq!(route("willing").expect("routes"), ("willing", Vec::new()));
    }

    #[test]
    fn without_fallback_all_routing_errors_are_returned() {
        let routing_errors = route("torus-2QoS,none,no_fallback").expect_err("refused");
        let engines: Vec<_> = routing_errors.iter().map(|error| error.engine).collect();
        assert_eq!(engines, ["torus-2QoS", "none"]);
    }
}
