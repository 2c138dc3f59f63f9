//! Other instances become the manager of a quiet fabric: the same one after a restart, or a standby that
//! takes over and hands over again. The routes of torus-2QoS, repaired or not, are a function of fabric and
//! configuration alone, so that none of them writes a forwarding table or an SL to VL mapping. (minhop, which
//! routes what torus-2QoS rejects, spreads routes by the order of discovery.)

use super::Disaster;
use super::checks::{is_connected, reachable_hosts};
use super::scenario::Scenario;
use std::time::Duration;
use testkit::{SimCluster, Sm};
use tokio::time::sleep;
use torus_sm::config::options::Options;
use torus_sm::ids::Guid;
use torus_sm::wire::attr::{AttrId, NodeKind, SmState};

/// Interval at which a standby polls the master, in milliseconds.
const POLLING_MS: u32 = 1000;
/// Time in which an instance sweeps and becomes master or standby, or notices that the master is gone.
const SUCCESSION: Duration = Duration::from_secs(60);

/// The options of the usual manager. On a damaged torus it becomes master again whenever it starts, and knows the
/// LIDs of absent devices, of which a standby knows nothing.
pub(super) fn home_options(scenario: &Scenario, cluster: &SimCluster) -> Options {
    let options = scenario.options(cluster);
    if !scenario.is_damaged_torus() {
        return options;
    }
    Options {
        sm_priority: 9,
        sminfo_polling_timeout: POLLING_MS,
        honor_guid2lid_file: true,
        ..options
    }
}

impl Disaster<'_> {
    /// Restarts the manager after bursts of odd numbers; after others a standby takes over, and hands over to
    /// the manager that starts again.
    pub(super) async fn succeed(mut self, burst: usize) -> Result<Self, String> {
        let is_routed = self.sm.state() == SmState::Master && self.sm.refused.borrow().is_none();
        if !is_routed || self.sm.engine() != "torus-2QoS" || !is_connected(&self.sm) {
            return Ok(self);
        }
        let standby = if burst % 2 == 1 { None } else { self.start_standby(burst).await? };
        let before = Routes::read(&self.cluster);
        self.sm.kill().await;
        if let Some(standby) = &standby {
            sleep(SUCCESSION).await;
            before.check_successor(&self.cluster, standby, "the standby")?;
        }
        self.sm = super::start_home(self.scenario, &self.cluster, &self.reload_fails);
        sleep(SUCCESSION).await;
        before.check_successor(&self.cluster, &self.sm, "the manager that started again")?;
        if let Some(standby) = standby {
            standby.kill().await;
        }
        Ok(self)
    }

    /// Starts an instance at another switch; `None` if no other host is left.
    async fn start_standby(&self, burst: usize) -> Result<Option<Sm>, String> {
        let shape = &self.cluster.shape;
        let reachable = reachable_hosts(&self.cluster);
        let is_free = |at: &[u16; 3]| *at != [0; 3] && reachable.contains(&shape.host_guid(*at, 0));
        let places: Vec<[u16; 3]> = shape.positions().filter(is_free).collect();
        let Some(&place) = places.get(burst * places.len() / (burst + 2)) else { return Ok(None) };
        let options = Options { sm_priority: 1, ..home_options(self.scenario, &self.cluster) };
        let standby = self.cluster.start(place, options);
        sleep(SUCCESSION).await;
        match standby.state() {
            SmState::Standby => Ok(Some(standby)),
            state => Err(format!("the standby at {place:?} is {state:?}")),
        }
    }
}

/// The tables of routes in the devices, before the manager was succeeded.
struct Routes {
    lfts: Vec<(Guid, Vec<u8>)>,
}

impl Routes {
    /// Reads the forwarding tables, and starts to count what is written.
    fn read(cluster: &SimCluster) -> Self {
        cluster.fabric.reset_counters();
        let nodes = cluster.topology.nodes.iter();
        let switches = nodes.filter(|node| node.kind == NodeKind::Switch).map(|node| node.guid);
        let lft = |guid| (guid, cluster.fabric.lft(guid).expect("a switch"));
        Self { lfts: switches.map(lft).collect() }
    }

    /// The instance must be master, and no table of routes was written.
    fn check_successor(&self, cluster: &SimCluster, sm: &Sm, name: &str) -> Result<(), String> {
        if sm.state() != SmState::Master {
            return Err(format!("{name} is {:?}", sm.state()));
        }
        let [_, blocks] = cluster.fabric.requests(AttrId::LINEAR_FT);
        let [_, mappings] = cluster.fabric.requests(AttrId::SL_TO_VL);
        if [blocks, mappings] == [0, 0] {
            return Ok(());
        }
        let changes = self.changes(cluster);
        Err(format!("{name} wrote {blocks} LFT blocks, {mappings} SL2VL: {changes:?}"))
    }

    /// The first entries that differ now, as switch, LID, former and present port.
    fn changes(&self, cluster: &SimCluster) -> Vec<(Guid, usize, u8, u8)> {
        let mut changes = Vec::new();
        for (guid, before) in &self.lfts {
            let now = cluster.fabric.lft(*guid).expect("a switch");
            let ports = before.iter().zip(&now).enumerate();
            let changed = ports.filter(|(_, (was, is))| was != is);
            changes.extend(changed.map(|(lid, (&was, &is))| (*guid, lid, was, is)));
        }
        changes.truncate(8);
        changes
    }
}
