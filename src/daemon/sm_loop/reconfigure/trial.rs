//! Tries new files of the routing engines on the present fabric before they take effect.
//!
//! A file without an error in itself can be useless for the fabric: a seed of torus-2QoS.conf with
//! a wrong GUID, an empty file. The engine in force would then be replaced by a later one of
//! `routing_engine`, which moves all routes.

use super::{Reconfigurer, registry_queries};
use crate::cli::configuration;
use crate::config::config_files::ConfigFiles;
use crate::config::options::{Options, engine_names};
use crate::daemon::process::priority::spawn_low_priority;
use crate::daemon::sm_loop::context::ManagerContext;
use crate::daemon::sm_loop::planning::PlanRequest;
use crate::notes::Severity;
use crate::observe::Observation;
use crate::plan::routing::RoutingError;
use std::collections::HashSet;
use std::sync::Arc;

impl Reconfigurer {
    /// The errors because of which the engine in force would not route the observed fabric with
    /// `files`. None without a plan in force, and if the files of the engines are the same.
    pub async fn engine_errors(
        &self,
        context: &ManagerContext,
        options: &Options,
        files: &ConfigFiles,
        observation: &Observation,
    ) -> Vec<String> {
        let in_force = &self.config.files;
        if (&in_force.routing, &in_force.torus_config) == (&files.routing, &files.torus_config) {
            return Vec::new();
        }
        let is_rejected = context.refused.borrow().is_some();
        let Some(previous) = self.plan.in_force.clone().filter(|_| !is_rejected) else {
            return Vec::new();
        };
        let Ok(chain) = configuration::chain(options, files.routing.clone()) else {
            return Vec::new();
        };
        let engine = previous.routing.engine;
        let (_, groups) = registry_queries::groups(&context.sa_server, observation).await;
        let request = PlanRequest {
            fabric: observation.fabric.clone(),
            pkeys: observation.pkeys.clone(),
            options: Arc::new(options.clone()),
            torus_config: files.torus_config.clone(),
            chain: Arc::new(chain),
            partitions: self.config.partitions.current(),
            qos_policy: files.qos_policy.clone(),
            groups: Arc::new(groups),
            aliases: Arc::default(),
            memory: self.plan.memory.clone(),
            reregister: HashSet::new(),
            held_mappings: self.devices.mapping_reader.held.clone(),
        };
        let planned = spawn_low_priority(move || match request.plan(Some(&previous), None) {
            Ok(planned) => planned.verdict.map_or_else(
                |failure| (None, vec![failure.to_string()]),
                |verified| {
                    let routing = &verified.plan().routing;
                    (Some(routing.engine), texts(&routing.routing_errors))
                },
            ),
            Err(failure) => (None, texts(&failure.routing_errors)),
        });
        // If planning panics, the reconfiguration that follows reports it.
        let Ok((next, mut errors)) = planned.await else { return Vec::new() };
        let engines = options.routing_engine.as_deref().unwrap_or_default();
        let place = |engine: &str| {
            let mut names = engine_names(engines);
            names.position(|name| name == engine).unwrap_or(usize::MAX)
        };
        if next.is_some_and(|next| place(next) <= place(engine)) {
            return Vec::new();
        }
        let consequence = match next {
            Some(next) => format!("{next} would take its place"),
            None => "no engine would".to_owned(),
        };
        errors.push(format!(
            "{engine} would not route the present fabric with these files, and {consequence}"
        ));
        errors
    }
}

fn texts(errors: &[RoutingError]) -> Vec<String> {
    let notes = errors.iter().flat_map(|error| &error.notes);
    let errors = notes.filter(|note| note.severity == Severity::Error);
    errors.map(ToString::to_string).collect()
}
