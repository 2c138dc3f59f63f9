//! Commands of the SM loop and of other instances that read or change the registry, and what follows from
//! changes: reports to subscribers and in the activity report, and the file on disk.

use super::group_activities::report_activities;
use super::state::EndedSubscriptions;
use super::unmet_groups::log_unmet;
use super::{SaServer, queries};
use crate::daemon::messages::SaCommand;
use crate::daemon::process::trap_log;
use crate::manage::sa_query::{SaQuery, SaReport};
use crate::sa::registry::replica::{Page, ReplicaRequest};
use crate::wire::attr::SmState;
use tokio::time::Instant;

impl SaServer {
    pub(super) fn execute(&mut self, command: SaCommand) {
        match command {
            SaCommand::GetGroups { fabric, reply } => {
                let registry = self.responder.get().registry();
                let generation = registry.generation();
                let _ = reply.send((generation, registry.groups(&fabric)));
                self.joins.planning_started(generation);
            }
            SaCommand::GetGroupChanges { since, fabric, reply } => {
                let registry = self.responder.get().registry();
                let generation = registry.generation();
                let _ = reply.send((generation, registry.multicast_delta(since, &fabric)));
                self.joins.planning_started(generation);
            }
            SaCommand::GetAliases { fabric, reply } => {
                let registry = self.responder.get().registry();
                self.registered.alias_generation = registry.aliases().generation();
                let _ = reply.send(registry.alias_blocks(&fabric));
            }
            SaCommand::SetPrefixRoutes(routes) => self.responder.get().set_prefix_routes(routes),
            SaCommand::SetPermanentGroups { specs, last } => {
                let registry = self.responder.get().registry_mut();
                let unmet = registry.set_permanent(&specs, last);
                log_unmet(&unmet, last);
                // The reconfiguration in progress reads the groups anyway.
                self.joins.will_be_planned(registry.generation());
            }
            SaCommand::Query(query) => self.answer_query(query),
            SaCommand::Replica(request) => self.replicate(request),
            SaCommand::GroupsProgrammed => self.joins.planning_finished(),
            SaCommand::SweepFinished { managers, whole, drop_subscriptions } => {
                self.other_managers = managers;
                self.sm_status.mark_changed();
                if let Some(fabric) = whole {
                    let registry = self.responder.get().registry_mut();
                    registry.remove_absent_ports(&fabric, drop_subscriptions);
                    // The reconfiguration after the sweep reads the groups anyway.
                    self.joins.will_be_planned(registry.generation());
                    self.registry_changed();
                }
            }
        }
    }

    fn answer_query(&self, query: SaQuery) {
        // The client may have gone.
        match query {
            SaQuery::Report(reply) => drop(reply.send(self.report())),
            SaQuery::Groups { after, reply } => {
                let (page, _) =
                    self.responder.view(|responder| queries::page(responder.registry(), after));
                drop(reply.send(page));
            }
        }
    }

    fn report(&self) -> SaReport {
        let ((groups, services, subscriptions), counters) =
            self.responder.view(|responder| queries::record_counts(responder.registry()));
        let queued = self.requests.queue.len();
        let ignored = self.misuse.ignored_requests;
        let reports = self.dispatcher.counters();
        let ended_subscriptions = self.misuse.ended_subscriptions;
        SaReport {
            counters,
            queued,
            ignored,
            groups,
            services,
            subscriptions,
            reports,
            ended_subscriptions,
        }
    }

    fn replicate(&mut self, request: ReplicaRequest) {
        match request {
            ReplicaRequest::Export { since, max, reply } => {
                let registry = self.responder.get().registry_mut();
                let _ = reply.send(registry.export(since, max, Instant::now().into_std()));
            }
            ReplicaRequest::Import { page, reply } => {
                let _ = reply.send(self.import(page));
            }
        }
    }

    /// False unless this SM is a standby that got all pages before this one.
    fn import(&mut self, page: Page) -> bool {
        if self.sm_status.borrow().state != SmState::Standby {
            self.registered.importer.stop();
            return false;
        }
        // A former master must have dropped its own state before it takes over another.
        if self.snapshots.published.has_changed().unwrap_or(false) {
            self.snapshot_changed();
        }
        let registry = self.responder.get().registry_mut();
        let is_imported =
            self.registered.importer.import(registry, page, Instant::now().into_std());
        // A takeover plans all groups.
        self.joins.will_be_planned(registry.generation());
        self.registry_changed();
        is_imported
    }

    /// Handles changes of the registry: reports them to subscribers, schedules the write to disk.
    pub(super) fn registry_changed(&mut self) {
        if let Some(activity) = &self.outputs.activity {
            report_activities(activity, self.responder.get().registry_mut());
        }
        let events = self.responder.get().registry_mut().take_group_events();
        if !events.is_empty()
            && let Some(subnet) = self.own_subnet()
        {
            events.iter().for_each(trap_log::reporting_group);
            let registry = self.responder.get().registry_mut();
            let now = Instant::now().into_std();
            self.dispatcher.group_events(registry, &subnet, &events, now);
        }
        if self.responder.get().registry().has_unexported_changes() {
            self.outputs.replicas.send_replace(());
        }
        if let Some(options) = &self.snapshots.options {
            self.registered.db_file.watch(self.responder.get().registry(), options);
        }
    }

    /// Notes the time at which registrations of absent ports end.
    pub(super) fn watch_absences(&mut self) {
        let end = self.responder.get().registry().next_absence_end();
        self.registered.absence_end = end.map(Instant::from_std);
    }

    /// Ends the subscriptions of queue pairs that do not respond to reports.
    pub(super) fn end_silent_subscriptions(&mut self) {
        if !self.dispatcher.has_silent() {
            return;
        }
        let registry = self.responder.get().registry_mut();
        for ((subscriber, qpn), count) in self.dispatcher.end_silent(registry) {
            let ended = EndedSubscriptions { subscriber, qpn, count };
            self.misuse.subscriptions_ended(&ended, &self.snapshots, &self.outputs.feed);
        }
        self.registry_changed();
    }
}
