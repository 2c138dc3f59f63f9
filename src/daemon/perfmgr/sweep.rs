//! One sweep: ClassPortInfo of agents that are not known, then the counters of each port.

use super::PerfOptions;
use super::monitored::Monitored;
use super::pace::SweepPace;
use super::targets::{self, SweepTargets};
use crate::fabric::Fabric;
use crate::fabric::{NodeId, PortId};
use crate::ids::{Guid, Lid, PortNum};
use crate::perfmgr::counters::{
    self, DataCounters, ErrorCounters, PerfCapabilities, clear_selection, must_clear,
    must_clear_extended,
};
use crate::perfmgr::database::{Database, ReadingTime};
use crate::perfmgr::error_log::{self, ErrorReadings, LoggedPort};
use crate::perfmgr::redirection;
use crate::perfmgr::status::{PerfSettings, PerfSweep};
use crate::transport::Agent;
use crate::transport::gsi::{GsiBatch, GsiError, GsiResult, GsiTag};
use crate::wire::attr::AttrId;
use crate::wire::mad::{Mad, Method, Status};
use crate::wire::perf::{self, CounterAttribute, PerfAttr, PerfData};
use crate::wire::record::ClassPortInfo;
use chrono::Utc;
use std::collections::{BTreeSet, VecDeque};
use tokio::time::Instant;
use tracing::{debug, error};

/// A request to a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum CounterQuery {
    /// Get(ClassPortInfo). The counters follow: of the port, or of all ports of a switch.
    ClassPortInfo,
    /// Get of PortCounters or PortCountersExtended.
    Read(u16),
    /// Set of PortCounters or PortCountersExtended, which clears them.
    Clear(u16),
}

type Job = (PortId, CounterQuery);

/// A sweep.
pub(super) struct Sweep<'a> {
    options: &'a PerfOptions,
    settings: PerfSettings,
    targets: SweepTargets<'a>,
    database: &'a mut Database,
    monitored: &'a mut Monitored,
    /// Start of the daemon.
    origin: Instant,
    waiting: VecDeque<Job>,
    /// Requests sent, by tag.
    sent: Vec<Job>,
    ports: usize,
    failed: usize,
    cleared: BTreeSet<PortId>,
}

/// What sweeps read, and what they remember of the devices.
pub(super) struct SweepMemory<'a> {
    pub(super) database: &'a mut Database,
    pub(super) monitored: &'a mut Monitored,
}

impl<'a> Sweep<'a> {
    pub(super) fn new(
        options: &'a PerfOptions,
        settings: &PerfSettings,
        targets: SweepTargets<'a>,
        memory: SweepMemory<'a>,
        origin: Instant,
    ) -> Self {
        Self {
            options,
            settings: *settings,
            targets,
            database: memory.database,
            monitored: memory.monitored,
            origin,
            waiting: VecDeque::new(),
            sent: Vec::new(),
            ports: 0,
            failed: 0,
            cleared: BTreeSet::new(),
        }
    }

    /// Reads all ports.
    pub(super) async fn run(&mut self, mut batch: GsiBatch) -> PerfSweep {
        let start = Instant::now();
        debug!(place = "osm_perfmgr_process", "Gathering PerfMgr stats");
        self.remove_lost_nodes();
        let nodes: Vec<NodeId> = self.targets.nodes(self.options.ignores_cas).collect();
        nodes.into_iter().for_each(|node| self.add_node(node));
        let mut pace = SweepPace::new();
        loop {
            while self.may_send(&batch)
                && pace.take()
                && let Some(job) = self.waiting.pop_front()
            {
                self.send(job, &mut batch);
            }
            let waits_for_slot = self.may_send(&batch) && pace.is_used_up();
            tokio::select! {
                result = batch.next(), if !waits_for_slot || batch.outstanding() > 0 => {
                    let Some((tag, result)) = result else { break };
                    self.take_result(tag, result);
                }
                () = pace.next_slot(), if waits_for_slot => {}
            }
        }
        PerfSweep {
            ended: Utc::now(),
            duration: start.elapsed(),
            ports: self.ports,
            queries: self.sent.len(),
            failed: self.failed,
            cleared: self.cleared.len(),
        }
    }

    /// True if a query waits, and the limit of those in flight permits it.
    fn may_send(&self, batch: &GsiBatch) -> bool {
        !self.waiting.is_empty() && batch.outstanding() < self.options.max_outstanding
    }

    fn take_result(&mut self, tag: GsiTag, result: GsiResult) {
        let Some(&job) = self.sent.get(tag as usize) else { return };
        match result {
            Ok(mad) => self.answered(job, &mad),
            Err(error) => self.unanswered(job, &error),
        }
    }

    /// Removes the nodes that have left the fabric, or marks them.
    fn remove_lost_nodes(&mut self) {
        let active = self.database.nodes().filter(|node| node.is_active);
        let lost: Vec<(Guid, String)> = active
            .filter(|node| is_lost(self.targets.fabric, &node.guid))
            .map(|node| (node.guid, node.name.clone()))
            .collect();
        for (guid, name) in lost {
            error!(
                place = "perfmgr_query_counters",
                "ERR 5407: Node \"{name}\" (guid 0x{:x}) no longer exists so removing from PerfMgr \
                 monitoring",
                guid.0
            );
            self.monitored.remove_node(guid);
            if self.settings.removes_nodes {
                self.database.remove(guid)
            } else {
                self.database.deactivate(guid)
            }
        }
    }

    /// Queues the queries of a node.
    fn add_node(&mut self, id: NodeId) {
        let node = self.targets.fabric.node(id);
        let name = node.name().to_string();
        let has_port0 = targets::has_port0(node);
        self.database.activate(node.guid(), &name, node.num_ports(), has_port0, Utc::now());
        for port in self.targets.ports(id) {
            let num = self.targets.fabric.port(port).num;
            let agent = self.monitored.agent(node.guid(), targets::agent_port(node, num));
            if self.settings.queries_class_port_info && agent.capabilities.is_none() {
                self.waiting.push_back((port, CounterQuery::ClassPortInfo));
                if node.is_switch() {
                    return;
                }
            } else {
                self.add_reads(port);
            }
        }
    }

    fn add_reads(&mut self, port: PortId) {
        self.ports += 1;
        self.waiting.push_back((port, CounterQuery::Read(PerfAttr::PORT_COUNTERS)));
        if self.capabilities(port).has_extended() {
            self.waiting.push_back((port, CounterQuery::Read(PerfAttr::PORT_COUNTERS_EXTENDED)));
        }
    }

    /// Node GUID and number of a port.
    fn name(&self, port: PortId) -> (Guid, PortNum) {
        self.targets.fabric.end_of(port)
    }

    /// Node GUID and number of the port whose agent answers for a port.
    fn agent_name(&self, port: PortId) -> (Guid, PortNum) {
        let node = self.targets.fabric.node_of(port);
        (node.guid(), targets::agent_port(node, self.targets.fabric.port(port).num))
    }

    /// None without ClassPortInfo, so that only PortCounters is read.
    fn capabilities(&self, port: PortId) -> PerfCapabilities {
        let (guid, num) = self.agent_name(port);
        let known = self.monitored.agent(guid, num).capabilities;
        known.filter(|_| self.settings.queries_class_port_info).unwrap_or_default()
    }

    fn send(&mut self, (port, query): Job, batch: &mut GsiBatch) {
        let (guid, num) = self.agent_name(port);
        let redirection = self.monitored.agent(guid, num).redirection.map(|(_, to)| to);
        let Some(to) = self.targets.address(port, redirection.as_ref()) else {
            debug!("{} has no LID: its counters are not read", self.targets.fabric.describe(port));
            return;
        };
        let tag = self.sent.len() as u64;
        self.sent.push((port, query));
        batch.submit(tag, Agent::Perf, to, self.request(port, query));
    }

    fn request(&self, port: PortId, query: CounterQuery) -> Mad {
        let mut data = PerfData::default();
        let (method, attr_id, selection) = match query {
            CounterQuery::ClassPortInfo => {
                return perf::request(Method::GET, AttrId::CLASS_PORT_INFO, 0, &data);
            }
            CounterQuery::Read(attr_id) => (Method::GET, attr_id, None),
            CounterQuery::Clear(PerfAttr::PORT_COUNTERS) => {
                let selection = clear_selection(self.capabilities(port));
                (Method::SET, PerfAttr::PORT_COUNTERS, Some(selection))
            }
            CounterQuery::Clear(attr_id) => (Method::SET, attr_id, None),
        };
        data.set_port_select(self.targets.fabric.port(port).num);
        if let Some(group) = CounterAttribute::by_id(attr_id) {
            group.select(&mut data, selection.unwrap_or_else(|| group.all()));
        }
        perf::request(method, attr_id, 0, &data)
    }

    fn unanswered(&mut self, (port, _): Job, error: &GsiError) {
        self.failed += 1;
        let (guid, num) = self.name(port);
        let lid = self.targets.lid(port).unwrap_or(Lid(0));
        let name = &self.targets.fabric.node_of(port).name();
        match error {
            GsiError::Unanswered(tid) => error!(
                place = "perfmgr_mad_send_err_callback",
                "ERR 5402: {name} (0x{:x}) port {num} LID {lid} TID 0x{tid:x}", guid.0
            ),
            GsiError::Send(problem) => {
                debug!("{}: {problem}", self.targets.fabric.describe(port));
            }
        }
        if self.options.follows_redirections {
            let (guid, num) = self.agent_name(port);
            self.monitored.forget_redirection(guid, num);
        }
    }

    fn answered(&mut self, job: Job, mad: &Mad) {
        let (port, query) = job;
        let status = mad.header().status();
        let data = PerfData::of(mad);
        if status & Status::REDIRECT != 0 {
            return self.redirected(port, query, &data);
        }
        if status != Status::OK && query != CounterQuery::ClassPortInfo {
            self.failed += 1;
            let port = self.targets.fabric.describe(port);
            debug!("{port}: counters: status 0x{status:04x}: {}", Status::name(status));
            return;
        }
        match query {
            CounterQuery::ClassPortInfo => self.class_port_info(port, status, &data),
            CounterQuery::Read(PerfAttr::PORT_COUNTERS) => self.read_counters(port, &data),
            CounterQuery::Read(_) => self.read_extended(port, &data),
            CounterQuery::Clear(attr_id) => self.was_cleared(port, attr_id),
        }
    }

    /// Stores the capabilities of an agent, and queues the counters of its ports. An agent that
    /// refuses the query supports no more than PortCounters.
    fn class_port_info(&mut self, port: PortId, status: u16, data: &PerfData) {
        let info = ClassPortInfo::read(&data.0);
        let mask = if status == Status::OK { info.capability_mask() } else { 0 };
        let (guid, num) = self.agent_name(port);
        self.monitored.set_capabilities(guid, num, PerfCapabilities(mask));
        let node = self.targets.fabric.port(port).node;
        if self.targets.fabric.node(node).is_switch() {
            self.targets.ports(node).into_iter().for_each(|port| self.add_reads(port))
        } else {
            self.add_reads(port)
        }
    }

    /// Follows a redirection: the query is repeated at the other address, ClassPortInfo first.
    fn redirected(&mut self, port: PortId, query: CounterQuery, data: &PerfData) {
        let info = ClassPortInfo::read(&data.0);
        let place = self.targets.fabric.describe(port);
        debug!("{place}: Redirection to LID {} received", info.redirect_lid());
        let (guid, num) = self.agent_name(port);
        let is_repeated = self.monitored.agent(guid, num).redirection.is_some();
        let read = match (self.options.follows_redirections, is_repeated) {
            (false, _) => Err("Redirection requested but disabled".to_owned()),
            (true, true) => Err("Redirected again".to_owned()),
            (true, false) => redirection::read(&info, |pkey| self.targets.pkey_index(pkey)),
        };
        match read {
            Ok(to) => {
                let from = self.targets.lid(port).unwrap_or(Lid(0));
                self.monitored.redirect(guid, num, from, to);
                let query = if self.settings.queries_class_port_info {
                    CounterQuery::ClassPortInfo
                } else {
                    query
                };
                self.waiting.push_front((port, query));
            }
            Err(problem) => {
                self.failed += 1;
                debug!("{place}: {problem}");
            }
        }
    }

    fn time(&self) -> ReadingTime {
        ReadingTime { date: Utc::now(), since_start: self.origin.elapsed().as_secs_f64() }
    }

    fn read_counters(&mut self, port: PortId, data: &PerfData) {
        let capabilities = self.capabilities(port);
        let errors = ErrorCounters::read(data, capabilities);
        self.add_errors(port, errors);
        if !capabilities.has_extended() {
            self.add_data(port, DataCounters::read_narrow(data));
        }
        if must_clear(data, capabilities) {
            self.clear(port, PerfAttr::PORT_COUNTERS, "Counter overflow");
        }
    }

    fn read_extended(&mut self, port: PortId, data: &PerfData) {
        let capabilities = self.capabilities(port);
        self.add_data(port, DataCounters::read_extended(data, capabilities));
        if must_clear_extended(data, capabilities) {
            self.clear(port, PerfAttr::PORT_COUNTERS_EXTENDED, "PortCountersExtended overflow");
        }
    }

    fn add_errors(&mut self, port: PortId, errors: ErrorCounters) {
        let at = self.name(port);
        let Some(entry) = self.database.port(at.0, at.1) else { return };
        if errors.is_below(&entry.previous_errors) {
            error!(
                place = "perfmgr_check_oob_clear",
                "PerfMgr: ERR 540A: Detected an out of band error clear on {} (0x{:x}) port {}",
                self.targets.fabric.node_of(port).name(),
                at.0.0,
                at.1
            );
            self.database.restart_errors(at.0, at.1);
        }
        if self.options.logs_errors {
            self.log_errors(port, &errors);
        }
        self.database.add_errors(at, errors, self.time());
    }

    fn log_errors(&self, port: PortId, errors: &ErrorCounters) {
        let (guid, num) = self.name(port);
        let Some(entry) = self.database.port(guid, num) else { return };
        if *errors == entry.previous_errors {
            return;
        }
        let fabric = self.targets.fabric;
        let name = fabric.node_of(port).name().to_string();
        let peer = fabric.port(port).peer;
        let peer_name = peer.map(|peer| fabric.node_of(peer).name().to_string());
        let peer = peer.zip(peer_name.as_deref()).map(|(peer, name)| {
            let (guid, num) = self.name(peer);
            LoggedPort { name, guid: guid.0, port: num.0 }
        });
        let port = LoggedPort { name: &name, guid: guid.0, port: num.0 };
        let readings = ErrorReadings { now: errors, before: &entry.previous_errors };
        for line in error_log::lines(port, peer, &readings, self.options.xmit_wait_threshold) {
            error!(place = "perfmgr_log_errors", "{line}");
        }
    }

    fn add_data(&mut self, port: PortId, data: DataCounters) {
        let at = self.name(port);
        let Some(entry) = self.database.port(at.0, at.1) else { return };
        if data.is_below(&entry.previous_data) {
            error!(
                place = "perfmgr_check_data_cnt_oob_clear",
                "PerfMgr: ERR 540B: Detected an out of band data counter clear on node {} (0x{:x}) port {}",
                self.targets.fabric.node_of(port).name(),
                at.0.0,
                at.1
            );
            self.database.restart_data(at.0, at.1);
        }
        self.database.add_data(at, data, self.time(), f64::from(self.options.window));
    }

    /// Queues the clearing of counters that would stop at their maximum.
    fn clear(&mut self, port: PortId, attr_id: u16, reason: &str) {
        let (guid, num) = self.name(port);
        let name = &self.targets.fabric.node_of(port).name();
        debug!("PerfMgr: {reason}: {name} (0x{:x}) port {num}; clearing counters", guid.0);
        self.cleared.insert(port);
        self.waiting.push_front((port, CounterQuery::Clear(attr_id)));
    }

    /// The counters were cleared; those that were not selected go on.
    fn was_cleared(&mut self, port: PortId, attr_id: u16) {
        let (guid, num) = self.name(port);
        if attr_id == PerfAttr::PORT_COUNTERS {
            self.database.restart_errors(guid, num);
        }
        let clears_data = attr_id == PerfAttr::PORT_COUNTERS_EXTENDED
            || clear_selection(self.capabilities(port)) & 0xF000 != 0;
        if clears_data {
            self.database.restart_data(guid, num);
        }
    }
}

fn is_lost(targets_fabric: &Fabric, guid: &Guid) -> bool {
    targets_fabric.node_by_guid(*guid).is_none()
}

/// The data counters of PortCounters are cleared with it only if they are read there.
const _: () = assert!(counters::SELECT_ERRORS & 0xF000 == 0);
