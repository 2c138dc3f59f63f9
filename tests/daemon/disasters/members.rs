//! Hosts that are members of multicast groups, and register again as IPoIB does: when their port
//! becomes ACTIVE, when the subnet manager asks for it, and when a LID changes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use testkit::SimCluster;
use testkit::sa_client::{Client, joins};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use torus_sm::ids::{Guid, Lid, Mlid, PortNum, Sl};
use torus_sm::sim::{PortEvents, SimFabric};
use torus_sm::transport::Address;
use torus_sm::wire::attr::PortState;
use torus_sm::wire::mad::{Header, Method, Status};
use torus_sm::wire::record::{McMemberRecord, Record};
use torus_sm::wire::sa::DATA_OFFSET;

const P1: PortNum = PortNum(1);
/// Interval at which a host looks at the state of its port.
const POLL: Duration = Duration::from_secs(1);
/// Pauses after a failed join: the first, and the limit up to which they double.
const PAUSES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(16)];

/// A host with the MLIDs of the groups that it has joined.
pub(super) struct Member {
    pub(super) host: Guid,
    pub(super) groups: Vec<usize>,
    joined: Arc<Mutex<BTreeMap<usize, Mlid>>>,
    task: JoinHandle<()>,
}

impl Member {
    pub(super) fn start(cluster: &SimCluster, host: Guid, groups: Vec<usize>) -> Self {
        let joined = Arc::<Mutex<BTreeMap<usize, Mlid>>>::default();
        let life = live(cluster.fabric.clone(), host, groups.clone(), joined.clone());
        Self { host, groups, joined, task: tokio::spawn(life) }
    }

    /// The MLID of a group, if the host has joined it.
    pub(super) fn mlid(&self, group: usize) -> Option<Mlid> {
        self.joined.lock().expect("no panic").get(&group).copied()
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The state whose change makes IPoIB register again.
fn registration_state(fabric: &SimFabric, host: Guid) -> (PortEvents, Lid, Lid) {
    let info = fabric.port_info(host, P1).expect("a port");
    let events = fabric.port_events(host, P1).expect("a port");
    (events, info.lid(), info.master_sm_lid())
}

async fn live(
    fabric: SimFabric,
    host: Guid,
    groups: Vec<usize>,
    joined: Arc<Mutex<BTreeMap<usize, Mlid>>>,
) {
    let mut client = Client::attach(&fabric, host);
    let mut last = None;
    let mut tid = 0;
    let mut todo = Vec::new();
    loop {
        let state = registration_state(&fabric, host);
        let info = fabric.port_info(host, P1).expect("a port");
        if info.port_state() != PortState::Active {
            sleep(POLL).await;
            continue;
        }
        if last != Some(state) {
            joined.lock().expect("no panic").clear();
            client.sa = Address::gsi(info.master_sm_lid(), Sl(0));
            last = Some(state);
            todo = groups.clone();
        }
        let Some(&group) = todo.last() else {
            sleep(POLL).await;
            continue;
        };
        tid += 1;
        match join(&client, group, tid).await {
            Some(mlid) => {
                todo.pop();
                joined.lock().expect("no panic").insert(group, mlid);
            }
            None => sleep(PAUSES[1].min(PAUSES[0] * (1 << (tid % 5)))).await,
        }
    }
}

/// Joins a group; `None` without a good reply.
async fn join(client: &Client, group: usize, tid: u32) -> Option<Mlid> {
    client.send(&joins::request(Method::SET, client.guid, group, tid), Duration::from_secs(1), 3);
    loop {
        let (answered, mad) = timeout(Duration::from_secs(10), client.reply()).await.ok()?;
        if answered == tid {
            let mad = mad?;
            let is_good = Header::read(&mad).status() == Status::OK;
            return is_good.then(|| McMemberRecord::parse(&mad[DATA_OFFSET..]).mlid());
        }
    }
}
