//! Reads the configuration again: on SIGHUP, and before a heavy sweep if its files changed.

use super::config_status;
use super::context::Configuration;
use super::env::LoopEnv;
use super::stages::reconfigure::Reconfigurer;
use crate::config::config_files::FileVersion;
use crate::config::options::Options;
use crate::daemon::process::operator_log;
use crate::observe::Observation;
use crate::record::entry::EventKind;
use crate::replication::comparison;
use crate::transport::transactions::SmpLimits;
use crate::wire::attr::SmState;
use std::sync::Arc;
use std::time::Duration;
use tracing::{error, info};

/// Reads the configuration again. It takes effect unless it is worse than the one in force.
/// `read_files`: the files as they were read last, also if they were rejected. True if it takes effect.
pub(super) async fn reload(
    env: &mut LoopEnv,
    reconfigurer: &mut Reconfigurer,
    read_files: &mut Vec<FileVersion>,
    observation: Option<&Observation>,
) -> bool {
    let config_file = env.context.config_file.as_deref();
    let config_file = config_file.map(|path| FileVersion::read("config", path));
    let next = match (env.context.reload)() {
        Ok(next) => next,
        Err(problem) => {
            for version in &mut *read_files {
                *version = FileVersion::read(version.option, &version.path);
            }
            reject(env, read_files, problem);
            return false;
        }
    };
    let named = next.files.sources.versions.iter().cloned();
    *read_files = config_file.into_iter().chain(named).collect();
    let mut problems = reconfigurer.config_files().regressions(&next.files);
    if problems.is_empty()
        && let Some(observation) = observation
        && env.role() == SmState::Master
    {
        let Configuration { options, files, .. } = &next;
        problems = reconfigurer.engine_errors(&env.context, options, files, observation).await;
    }
    if !problems.is_empty() {
        reject(env, read_files, [problems, next.ignored_lines].concat().join("\n"));
        return false;
    }
    take_over(env, reconfigurer, read_files, next);
    true
}

/// True if the contents of files changed since they were read. A configuration that is rejected is not
/// read again until it changes.
pub(super) fn have_changed(read_files: &[FileVersion]) -> bool {
    let is_changed = read_files.iter().any(FileVersion::has_changed);
    if is_changed {
        info!("the configuration files have changed");
    }
    is_changed
}

fn take_over(
    env: &mut LoopEnv,
    reconfigurer: &mut Reconfigurer,
    read_files: &[FileVersion],
    next: Configuration,
) {
    let Configuration { options, files, notes, ignored_lines, on_applied } = next;
    if let Some(on_applied) = on_applied {
        on_applied();
    }
    notes.iter().chain(&files.findings.notes).for_each(operator_log::note);
    env.monitor.reloaded(config_status::in_force(read_files), ignored_lines);
    env.context.client.set_limits(limits(&options));
    env.context.published.sm_status.send_modify(|sm_status| sm_status.reload(&options));
    env.context.shared.activity.configure(&options);
    env.context.recordings.configure(&options, &files.sources.texts);
    reconfigurer.reload(&options, files);
    // Other instances compare their configurations with the new one.
    let description = Arc::new(comparison::describe(&options));
    env.context.replication.configuration.send_replace(description);
    env.options = Arc::new(options);
    env.record(EventKind::Configuration, || "read again");
    info!("configuration read again");
}

fn reject(env: &mut LoopEnv, read_files: &[FileVersion], problem: String) {
    env.record(EventKind::Configuration, || format!("not read: {problem}"));
    error!("the configuration stays as it was: {problem}");
    env.monitor.reload_rejected(read_files, problem);
}

/// The limits of the SMP client as configured. The window adapts only if none is configured.
pub fn limits(options: &Options) -> SmpLimits {
    let is_fixed = options.max_wire_smps != Options::default().max_wire_smps;
    SmpLimits {
        window: options.max_wire_smps as usize,
        adaptive: if is_fixed { 0 } else { options.max_adaptive_wire_smps as usize },
        total: options.max_wire_smps2 as usize,
        per_device: options.max_smps_per_device as usize,
        timeout: Duration::from_millis(options.transaction_timeout.into()),
        long_timeout: Duration::from_millis(options.long_transaction_timeout.into()),
        retries: options.transaction_retries,
    }
}
