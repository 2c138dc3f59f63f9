//! Reads the configuration again: on SIGHUP, and before a heavy sweep if its files changed.

use super::{Manager, limits};
use crate::config::config_files::FileVersion;
use crate::daemon::process::operator_log;
use crate::daemon::sm_loop::config_status;
use crate::daemon::sm_loop::context::Configuration;
use crate::record::entry::EventKind;
use crate::wire::attr::SmState;
use std::sync::Arc;
use tracing::{error, info};

impl Manager {
    /// Reads the configuration again if the contents of its files changed since the last time. A
    /// configuration that is rejected is not read again until it changes.
    pub(in crate::daemon::sm_loop) async fn reload_if_changed(&mut self) {
        if self.read_files.iter().any(FileVersion::has_changed) {
            info!("the configuration files have changed");
            self.reload().await;
        }
    }

    pub(super) async fn reload(&mut self) {
        let old_priority = self.options.sm_priority;
        self.read_configuration().await;
        self.priority_reloaded(old_priority).await;
    }

    async fn read_configuration(&mut self) {
        let config_file = self.context.config_file.as_deref();
        let config_file = config_file.map(|path| FileVersion::read("config", path));
        match (self.context.reload)() {
            Ok(next) => {
                let found = config_file.into_iter().chain(next.files.versions.iter().cloned());
                self.read_files = found.collect();
                let mut problems = self.reconfigurer.config_files().regressions(&next.files);
                if problems.is_empty()
                    && let Some(observation) = &self.observation
                    && self.state() == SmState::Master
                {
                    let Configuration { options, files, .. } = &next;
                    let context = &self.context;
                    let errors =
                        self.reconfigurer.engine_errors(context, options, files, observation);
                    problems = errors.await;
                }
                if problems.is_empty() {
                    self.take_over(next);
                } else {
                    self.reject_configuration([problems, next.ignored_lines].concat().join("\n"));
                }
            }
            Err(problem) => {
                for version in &mut self.read_files {
                    *version = FileVersion::read(version.option, &version.path);
                }
                self.reject_configuration(problem);
            }
        }
    }

    fn take_over(&mut self, next: Configuration) {
        let Configuration { options, files, notes, ignored_lines, on_applied } = next;
        if let Some(on_applied) = on_applied {
            on_applied();
        }
        notes.iter().chain(&files.notes).for_each(operator_log::note);
        self.monitor.reloaded(config_status::in_force(&self.read_files), ignored_lines);
        self.context.client.set_limits(limits(&options));
        self.context.sm_status.send_modify(|sm_status| sm_status.reload(&options));
        self.context.recordings.configure(&options, &files.texts);
        self.reconfigurer.reload(&options, files);
        self.mastership.use_keys(self.reconfigurer.m_keys());
        self.share_configuration(&options);
        self.options = Arc::new(options);
        self.record(EventKind::Configuration, || "read again");
        info!("configuration read again");
    }

    fn reject_configuration(&mut self, problem: String) {
        self.record(EventKind::Configuration, || format!("not read: {problem}"));
        error!("the configuration stays as it was: {problem}");
        self.monitor.reload_rejected(&self.read_files, problem);
    }
}
