//! Reads the configuration again: on SIGHUP, and before a heavy sweep if its files changed.

use super::{Manager, limits};
use crate::daemon::sm_loop::config_status;
use crate::daemon::sm_loop::context::Configuration;
use crate::record::entry::EventKind;
use std::sync::Arc;
use tracing::{error, info};

impl Manager {
    /// Reads the configuration again if the contents of its files changed since the last time. A
    /// configuration that is rejected is not read again until it changes.
    pub(in crate::daemon::sm_loop) async fn reload_if_changed(&mut self) {
        let now = config_status::read(self.context.config_file.as_deref(), &self.options);
        if config_status::differs(&self.config_files, &now) {
            info!("the configuration files have changed");
            self.reload().await;
        }
    }

    pub(super) async fn reload(&mut self) {
        let old_priority = self.options.sm_priority;
        self.read_configuration();
        self.priority_reloaded(old_priority).await;
    }

    fn read_configuration(&mut self) {
        let file = self.context.config_file.as_deref();
        self.config_files = config_status::read(file, &self.options);
        match (self.context.reload)() {
            Ok(Configuration { options, partitions }) => {
                self.config_files = config_status::read(file, &options);
                self.monitor.reloaded(self.config_files.clone());
                self.context.client.set_limits(limits(&options));
                self.context.sm_status.send_modify(|sm_status| sm_status.reload(&options));
                self.reconfigurer.reload(&options, partitions);
                self.mastership.use_keys(self.reconfigurer.m_keys());
                self.share_configuration(&options);
                self.options = Arc::new(options);
                self.context.recordings.configure(&self.options);
                self.record(EventKind::Configuration, || "read again");
                info!("configuration read again");
            }
            Err(problem) => {
                self.record(EventKind::Configuration, || format!("not read: {problem}"));
                error!("the configuration stays as it was: {problem}");
                self.monitor.reload_rejected(problem);
            }
        }
    }
}
