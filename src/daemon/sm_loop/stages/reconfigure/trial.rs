//! Tries new files of the routing engines on the present fabric before they take effect.
//!
//! A file without an error in itself can be useless for the fabric: a seed of torus-2QoS.conf with
//! a wrong GUID, an empty file. The engine in force would then be replaced by a later one of
//! `routing_engine`, which moves all routes.

use super::registry_queries;
use super::state::{ConfigState, PlanState};
use crate::cli::configuration;
use crate::config::config_files::ConfigFiles;
use crate::config::options::{Options, engine_names};
use crate::daemon::process::priority::spawn_low_priority;
use crate::daemon::sm_loop::context::ManagerContext;
use crate::daemon::sm_loop::planning::{PlanRequest, SharedRegistrations};
use crate::notes::Severity;
use crate::observe::Observation;
use crate::plan::Plan;
use crate::plan::multicast::GroupMembers;
use crate::plan::routing::RoutingError;
use crate::plan::routing::chain::Chain;
use crate::verify::held_mappings::HeldMappings;
use std::collections::HashSet;
use std::sync::Arc;

/// A configuration that is tried, and what it is compared with.
pub(super) struct Trial<'a> {
    pub context: &'a ManagerContext,
    pub config: &'a ConfigState,
    pub plan: &'a PlanState,
    pub held_mappings: &'a Arc<HeldMappings>,
    pub options: &'a Options,
    pub files: &'a ConfigFiles,
    pub observation: &'a Observation,
}

impl Trial<'_> {
    /// The errors because of which the engine in force would not route the observed fabric with
    /// the new files. None without a plan in force, and if the files of the engines are the same.
    pub(super) async fn engine_errors(&self) -> Vec<String> {
        let Self { context, files, options, .. } = *self;
        let in_force = &self.config.files;
        if in_force.routing == files.routing && in_force.torus_config == files.torus_config {
            return Vec::new();
        }
        let is_rejected = context.published.refused.borrow().is_some();
        let Some(previous) = self.plan.in_force.clone().filter(|_| !is_rejected) else {
            return Vec::new();
        };
        let Ok(chain) = configuration::chain(options, files.routing.clone()) else {
            return Vec::new();
        };
        let engine = previous.routing.engine;
        let (_, groups) = registry_queries::groups(&context.sa_server, self.observation).await;
        let request = self.request(chain, groups);
        // If planning panics, the reconfiguration that follows reports it.
        let Ok(planned) = spawn_low_priority(move || plan(&request, &previous)).await else {
            return Vec::new();
        };
        // Without the option, the only engine is the default one.
        let engines = options.routing_engine.as_deref().unwrap_or("");
        let consequence = match planned.engine {
            Some(next) if place_of_engine(engines, next) <= place_of_engine(engines, engine) => {
                return Vec::new();
            }
            Some(next) => format!("{next} would take its place"),
            None => "no engine would".to_owned(),
        };
        let mut errors = planned.errors;
        errors.push(format!(
            "{engine} would not route the present fabric with these files, and {consequence}"
        ));
        errors
    }

    fn request(&self, chain: Chain, groups: Vec<GroupMembers>) -> PlanRequest {
        PlanRequest {
            fabric: self.observation.fabric.clone(),
            pkeys: self.observation.pkeys.clone(),
            options: Arc::new(self.options.clone()),
            torus_config: self.files.torus_config.clone(),
            chain: Arc::new(chain),
            partitions: self.config.partitions.current(),
            qos_policy: self.files.qos_policy.clone(),
            registrations: SharedRegistrations {
                groups: Arc::new(groups),
                aliases: Arc::default(),
            },
            memory: self.plan.memory.clone(),
            reregister: HashSet::new(),
            held_mappings: self.held_mappings.clone(),
        }
    }
}

fn place_of_engine(engines: &str, engine: &str) -> usize {
    engine_names(engines).position(|name| name == engine).unwrap_or(usize::MAX)
}

/// The engine that routes the fabric, if one does, and the errors of those before it.
struct TrialResult {
    engine: Option<&'static str>,
    errors: Vec<String>,
}

fn plan(request: &PlanRequest, previous: &Plan) -> TrialResult {
    let planned = match request.plan(Some(previous), None) {
        Ok(planned) => planned,
        Err(failure) => {
            return TrialResult { engine: None, errors: texts(&failure.routing_errors) };
        }
    };
    match planned.verdict {
        Ok(verified) => {
            let routing = &verified.plan().routing;
            TrialResult { engine: Some(routing.engine), errors: texts(&routing.routing_errors) }
        }
        Err(failure) => TrialResult { engine: None, errors: vec![failure.to_string()] },
    }
}

fn texts(errors: &[RoutingError]) -> Vec<String> {
    let notes = errors.iter().flat_map(|error| &error.notes);
    let errors = notes.filter(|note| note.severity == Severity::Error);
    errors.map(ToString::to_string).collect()
}
