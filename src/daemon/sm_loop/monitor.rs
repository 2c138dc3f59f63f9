//! Publishes what the SM loop does: its status after each pass, and events. Readers never wait for
//! the loop, nor the loop for them.

use crate::config::config_files::FileVersion;
use crate::config::options::Options;
use crate::daemon::sm_loop::config_status;
use crate::daemon::sm_loop::context::ManagerContext;
use crate::fabric::quarantined::LinkDowns;
use crate::fabric::{End, Fabric};
use crate::ids::Guid;
use crate::manage::event::{Event, RepairNotice};
use crate::manage::fabric_changes::{link_end, name};
use crate::manage::feed::{EventSender, Feed};
use crate::manage::loop_status::{
    Activity, Causes, ConfigStatus, FabricAnomalies, ForeignMaster, LoopHistory, LoopStatus,
    LoopWork, MAX_RECORDS, ManagersStatus, OtherSm, ReconfigureFigures, ReconfigureRecord,
    ReconfigureResult, StatusHandles, SweepKind, SweepRecord, SweepResult, UnresponsiveStatus,
};
use crate::observe::Observation;
use crate::observe::traps::TrapEvent;
use crate::plan::Plan;
use crate::plan::routing::torus::{Torus, TorusRepair};
use crate::publish::repair::restored_by;
use crate::replication::status::SharedStatus;
use crate::sm::sm_info::SmStatus;
use crate::transport::client::SmpMeter;
use crate::wire::attr::SmState;
use chrono::Utc;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// When a reconfiguration began.
#[derive(Clone, Copy, Debug)]
pub struct ReconfigureTimes {
    pub start: Instant,
    /// Arrival of the first trap that it handles.
    pub trap: Option<Instant>,
}

/// The status as it is being updated.
pub struct Monitor {
    status: LoopStatus,
    feed: Feed,
    /// The subnet was up since this SM became master.
    was_up: bool,
    /// The last repair of a torus that an event told of, until its end.
    repair: Option<RepairNotice>,
    /// Generation of the subnet whose repair was looked at.
    repair_generation: u64,
}

impl Monitor {
    /// The status before the first pass.
    pub fn first_status(sm: SmStatus, options: &Options, smps: SmpMeter) -> LoopStatus {
        let now = Utc::now();
        LoopStatus {
            started: now,
            work: LoopWork {
                activity: Activity::Idle,
                is_sweeping_enabled: true,
                queued_events: 0,
            },
            managers: ManagersStatus { own: sm, others: Vec::new(), foreign_master: None },
            options: Arc::new(options.clone()),
            config: Arc::new(ConfigStatus {
                files: Vec::new(),
                read: now,
                error: None,
                start_error: None,
            }),
            fabric: None,
            subnet: None,
            rejected: None,
            history: LoopHistory::default(),
            anomalies: FabricAnomalies::default(),
            handles: StatusHandles {
                smps,
                replication: SharedStatus::default(),
                offenders: Arc::default(),
                file_problems: Arc::default(),
            },
        }
    }

    pub fn new(feed: Feed) -> Self {
        Self {
            status: LoopStatus::clone(&feed.status.load()),
            feed,
            was_up: false,
            repair: None,
            repair_generation: 0,
        }
    }

    pub fn events(&self) -> &EventSender {
        &self.feed.events
    }

    /// Publishes the status. `queued`: events that the loop has received and not handled.
    pub fn publish(
        &mut self,
        context: &ManagerContext,
        observation: Option<&Observation>,
        options: &Arc<Options>,
        queued: usize,
    ) {
        let status = &mut self.status;
        status.work.activity = Activity::Idle;
        status.work.queued_events = queued;
        status.managers.own = *context.published.sm_status.borrow();
        status.options = options.clone();
        status.subnet = context.published.subnet.borrow().clone();
        status.rejected = context.published.refused.borrow().clone();
        if let Some(observation) = observation {
            status.fabric = Some(observation.fabric.clone());
            self.managers_seen(observation);
        }
        self.repair_seen();
        self.store();
    }

    /// Sends an event if the repair of a torus began, changed or ended with the present routes.
    fn repair_seen(&mut self) {
        let Some(subnet) = &self.status.subnet else { return };
        if std::mem::replace(&mut self.repair_generation, subnet.generation) == subnet.generation {
            return;
        }
        let now = repair_notice(&subnet.plan);
        if now == self.repair {
            return;
        }
        let event = match (&self.repair, now.clone()) {
            (None, Some(notice)) => Event::RepairBegan(notice),
            (Some(_), Some(notice)) => Event::RepairChanged(notice),
            (_, None) => Event::RepairEnded,
        };
        self.repair = now;
        self.feed.events.send(event);
    }

    fn store(&self) {
        self.feed.status.store(Arc::new(self.status.clone()));
        self.feed.published.notify_one();
    }

    fn managers_seen(&mut self, observation: &Observation) {
        let others = observation.managers.iter().map(|(_, info)| OtherSm {
            guid: info.guid(),
            priority: info.priority(),
            state: info.state(),
        });
        let seen: Vec<OtherSm> = others.collect();
        for sm in seen.iter().filter(|sm| !self.status.managers.others.contains(sm)) {
            self.feed.events.send(Event::SmFound {
                guid: sm.guid.to_string(),
                priority: sm.priority,
                state: sm.state.to_string(),
            });
        }
        for sm in &self.status.managers.others {
            if seen.iter().all(|other| other.guid != sm.guid) {
                self.feed.events.send(Event::SmLost { guid: sm.guid.to_string() });
            }
        }
        self.status.managers.others = seen;
    }

    pub fn role_changed(&mut self, state: SmState) {
        self.was_up = false;
        self.feed.events.send(Event::RoleChanged { state: state.to_string() });
    }

    pub fn trap(&mut self, trap: &TrapEvent) {
        *self.status.history.statistics.traps.entry(trap.number).or_default() += 1;
        self.feed.events.send(Event::Trap {
            number: trap.number,
            issuer: trap.issuer.0,
            subject: trap.subject.0,
            port: trap.port.0,
            count: trap.count,
        });
    }

    pub fn sweep_started(&mut self, kind: SweepKind, causes: &Causes) {
        self.status.work.activity = Activity::Sweeping(kind);
        self.store();
        let causes = causes.clone();
        self.feed.events.send(Event::SweepStarted { sweep: kind, causes });
    }

    /// Another manager or program changed the port of this SM.
    pub fn own_port_changed(&mut self, changes: String) {
        self.status.anomalies.own_port.count += 1;
        self.status.anomalies.own_port.last = Some(changes);
    }

    /// Publishes the fabric that a sweep observed.
    pub fn observed(&mut self, observation: &Observation) {
        self.status.fabric = Some(observation.fabric.clone());
        self.store();
    }

    pub fn sweep_ended(
        &mut self,
        kind: SweepKind,
        causes: Causes,
        start: Instant,
        result: SweepResult,
    ) {
        let duration = start.elapsed();
        let statistics = &mut self.status.history.statistics;
        let (name, problem) = match &result {
            SweepResult::Done => {
                if let Some(&cause) = causes.first() {
                    statistics.sweeps.entry((kind, cause)).or_default().observe(duration);
                }
                ("done", None)
            }
            SweepResult::Interrupted => {
                *statistics.interrupted_sweeps.entry(kind).or_default() += 1;
                ("interrupted", None)
            }
            SweepResult::Failed(problem) => {
                *statistics.failed_sweeps.entry(kind).or_default() += 1;
                ("failed", Some(problem.clone()))
            }
        };
        let record =
            SweepRecord { kind, causes: causes.clone(), ended: Utc::now(), duration, result };
        push(&mut self.status.history.sweeps, record);
        self.store();
        self.feed.events.send(Event::SweepFinished {
            sweep: kind,
            causes,
            result: name.to_owned(),
            duration_seconds: duration.as_secs_f64(),
            problem,
        });
    }

    pub fn reconfigure_started(&mut self) {
        self.status.work.activity = Activity::Reconfiguring;
        self.store();
    }

    /// Records a reconfiguration.
    pub fn reconfigured(
        &mut self,
        causes: Causes,
        times: ReconfigureTimes,
        result: ReconfigureResult,
        figures: ReconfigureFigures,
        messages: Vec<String>,
    ) {
        let written = figures.tables_written.map(|after| times.start + after);
        let trap_to_tables = written.zip(times.trap).map(|(end, trap)| end - trap);
        let statistics = &mut self.status.history.statistics;
        statistics.reconfigurations.entry(result.name()).or_default().observe(figures.total);
        if !figures.planning.is_zero() {
            statistics.planning.observe(figures.planning);
        }
        if !figures.verifying.is_zero() {
            statistics.verification.observe(figures.verifying);
        }
        if figures.generation > 0 {
            statistics.programming.observe(figures.total.saturating_sub(figures.planning));
        }
        if let Some(time) = trap_to_tables {
            statistics.trap_to_tables.observe(time);
        }
        let record = ReconfigureRecord {
            causes: causes.clone(),
            ended: Utc::now(),
            result,
            figures,
            trap_to_tables,
        };
        self.send_reconfigured(&record, messages);
        push(&mut self.status.history.reconfigurations, record);
    }

    fn send_reconfigured(&mut self, record: &ReconfigureRecord, messages: Vec<String>) {
        let ReconfigureRecord { causes, result, figures, trap_to_tables, .. } = record;
        let causes = causes.clone();
        if let ReconfigureResult::Rejected(problem) = result {
            let problem = problem.clone();
            return self.feed.events.send(Event::PlanRejected { causes, problem, messages });
        }
        self.feed.events.send(Event::Reconfigured {
            causes,
            result: result.name().to_owned(),
            generation: figures.generation,
            multicast_only: figures.multicast_only,
            planning_seconds: figures.planning.as_secs_f64(),
            verification_seconds: figures.verifying.as_secs_f64(),
            total_seconds: figures.total.as_secs_f64(),
            sets: figures.sets,
            sets_by_phase: figures.sets_by_phase(),
            lft_blocks: figures.lft_blocks,
            trap_to_tables_seconds: trap_to_tables.map(|time| time.as_secs_f64()),
            problem: result.problem().map(str::to_owned),
        });
        if *result == ReconfigureResult::Up && !std::mem::replace(&mut self.was_up, true) {
            self.feed.events.send(Event::SubnetUp { generation: figures.generation });
        }
    }

    /// An operator allows or inhibits sweeps.
    pub fn sweeps_enabled(&mut self, is_enabled: bool) {
        self.status.work.is_sweeping_enabled = is_enabled;
    }

    /// Sets the configuration that the daemon starts with.
    pub fn configured(&mut self, config: ConfigStatus) {
        self.status.config = Arc::new(config);
    }

    /// Records a reload that was accepted, with the files that were read. `problems`: lines of
    /// opensm.conf that are ignored.
    pub fn reloaded(&mut self, config: ConfigStatus, problems: Vec<String>) {
        let error = (!problems.is_empty()).then(|| problems.join("\n"));
        self.configured(ConfigStatus { error, ..config });
        self.feed.events.send(Event::ConfigReloaded { problems });
    }

    /// Records a reload that found these versions of the files and was rejected.
    pub fn reload_rejected(&mut self, found: &[FileVersion], problem: String) {
        self.configured(config_status::rejected(&self.status.config, found, problem.clone()));
        self.feed.events.send(Event::ConfigRejected { problem });
    }

    /// A link stays in use although it should be quarantined.
    pub fn needed(&self, ends: [End; 2], reason: String, fabric: &Fabric) {
        let ends = ends.map(|end| link_end(fabric, end));
        self.feed.events.send(Event::LinkNeeded { ends, reason });
    }

    pub fn quarantined(
        &self,
        ends: [End; 2],
        reason: String,
        calm: Option<Duration>,
        fabric: &Fabric,
    ) {
        let ends = ends.map(|end| link_end(fabric, end));
        let calm_seconds = calm.map(|calm| calm.as_secs());
        self.feed.events.send(Event::LinkQuarantined { ends, reason, calm_seconds });
    }

    pub fn released(&self, ends: [End; 2], fabric: &Fabric) {
        let ends = ends.map(|end| link_end(fabric, end));
        self.feed.events.send(Event::LinkReleased { ends });
    }

    /// A device has become unresponsive.
    pub fn unresponsive(&self, fabric: &Fabric, guid: Guid) {
        if let Some(node) = fabric.node_by_guid(guid) {
            self.feed.events.send(Event::NodeUnresponsive(name(fabric.node(node))));
        }
    }

    /// An unresponsive device answers again.
    pub fn responsive(&self, fabric: &Fabric, guid: Guid, silent: Duration) {
        if let Some(node) = fabric.node_by_guid(guid) {
            let node = name(fabric.node(node));
            let silent_seconds = silent.as_secs_f64();
            self.feed.events.send(Event::NodeResponsive { node, silent_seconds });
        }
    }

    /// The alarm for many unresponsive devices begins or ends.
    pub fn mass_silence(&self, is_alarm: bool, unresponsive: usize, nodes: usize) {
        self.feed.events.send(if is_alarm {
            Event::MassSilence { unresponsive, nodes }
        } else {
            Event::MassSilenceEnded { unresponsive, nodes }
        });
    }

    /// Sets the master because of which this SM stays in DISCOVERING. True if it is another one than
    /// before.
    pub fn set_foreign_master(&mut self, master: Option<ForeignMaster>) -> bool {
        let is_new = self.status.managers.foreign_master != master;
        self.status.managers.foreign_master = master;
        is_new
    }

    /// Sets the links that go down often.
    pub fn set_link_downs(&mut self, links: Vec<LinkDowns>) {
        if *self.status.anomalies.link_downs != links {
            self.status.anomalies.link_downs = Arc::new(links);
        }
    }

    pub fn set_unresponsive(&mut self, status: UnresponsiveStatus) {
        self.status.anomalies.unresponsive = status;
    }

    pub fn exiting(&self) {
        self.feed.events.send(Event::Exiting);
    }
}

fn repair_notice(plan: &Plan) -> Option<RepairNotice> {
    let TorusRepair { summary, unrouted, stats } = Torus::of(&plan.routing)?.repair()?;
    let detours = stats.detours;
    Some(RepairNotice { summary, detours, unrouted, restored_by: restored_by(plan) })
}

fn push<T>(records: &mut VecDeque<T>, record: T) {
    if records.len() == MAX_RECORDS {
        records.pop_front();
    }
    records.push_back(record);
}
