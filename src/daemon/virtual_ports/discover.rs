//! Discovers the vports of one physical port.

use crate::fabric::virtual_ports::VirtualPort;
use crate::ids::{Guid, MKey, PortNum};
use crate::transport::client::SmpClient;
use crate::transport::transactions::{SmpError, SmpRequest, SmpResult};
use crate::vendor::virtual_ports::{DiscoveryScope, ManagedPort, ManagedVport, VirtualFailure};
use crate::wire::attr::tables::{PKEY_BLOCK, PkeyBlock};
use crate::wire::attr::{AttrId, NodeDescription, PortState};
use crate::wire::smp::{DATA_SIZE, SmpRoute};
use crate::wire::vendor::virtual_ports::{
    VirtualizationInfo, VnodeInfo, VportInfo, VportStates, table_modifier,
};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The revision of virtualization that this subnet manager speaks.
const REVISION: u8 = 0;

/// Sends the requests to one physical port.
#[derive(Clone)]
pub(super) struct PortClient {
    pub client: SmpClient,
    pub route: SmpRoute,
    pub m_key: MKey,
    /// Requests since the start of the daemon.
    pub requests: Arc<AtomicU64>,
}

type Attribute = Result<[u8; DATA_SIZE], VirtualFailure>;

impl PortClient {
    pub(super) async fn get(&self, id: u16, modifier: u32) -> Attribute {
        self.call(id, SmpRequest::get(self.route, id, modifier)).await
    }

    pub(super) async fn set(&self, id: u16, modifier: u32, data: [u8; DATA_SIZE]) -> Attribute {
        self.call(id, SmpRequest::set(self.route, id, modifier, data)).await
    }

    async fn call(&self, id: u16, request: SmpRequest) -> Attribute {
        self.requests.fetch_add(1, Ordering::Relaxed);
        let result: SmpResult = self.client.call(&request.with_m_key(self.m_key)).await;
        result.map(|reply| reply.data).map_err(|error| match error {
            SmpError::Status(status) => VirtualFailure::Refused(id, status),
            SmpError::Unanswered | SmpError::Malformed(_) | SmpError::Send(_) => {
                VirtualFailure::Unanswered(id)
            }
        })
    }
}

/// What a discovery found.
#[derive(Debug)]
pub(super) struct Discovered {
    pub top_index: u16,
    /// The device claims a top index above the number of vports that it supports.
    pub claims_too_many: bool,
    pub vports: BTreeMap<u16, ManagedVport>,
}

/// Reads the vports of a port that is known as `known`. `None` if a poll finds no change.
///
/// # Errors
/// The port as a whole does not answer or refuses. A failure of one vport is recorded with it.
pub(super) async fn discover(
    port: &PortClient,
    known: &ManagedPort,
    scope: DiscoveryScope,
) -> Result<Option<Discovered>, VirtualFailure> {
    let Some(info) = enabled_info(port, scope).await? else { return Ok(None) };
    let claims_too_many = info.top_index() >= info.vport_cap().max(1);
    let top_index = info.top_index().min(info.vport_cap().saturating_sub(1));
    let descriptions = match scope {
        DiscoveryScope::Full => HashMap::new(),
        DiscoveryScope::Poll | DiscoveryScope::Changes => descriptions(known),
    };
    let mut reader = VportReader { port, descriptions, vports: BTreeMap::new() };
    for first in (0..=top_index).step_by(VportStates::COUNT.into()) {
        let last = top_index.min(first + (VportStates::COUNT - 1));
        let block = VportStates::block(first);
        let states = match port.get(AttrId::VPORT_STATE, block).await {
            Ok(data) => VportStates(data),
            // The port has fewer vports than it claims.
            Err(VirtualFailure::Refused(..)) if first > 0 => break,
            Err(failure) => return Err(failure),
        };
        for index in first..=last {
            let state = states.state(index - first);
            if state == PortState::Down || state == PortState::NoChange {
                continue;
            }
            let before = known.vports.get(&index);
            match before.filter(|_| scope != DiscoveryScope::Full) {
                Some(before) if state == PortState::Active && before.info.state() == state => {
                    reader.vports.insert(index, before.clone());
                }
                _ => reader.read(index, before).await?,
            }
        }
    }
    Ok(Some(Discovered { top_index, claims_too_many, vports: reader.vports }))
}

/// VirtualizationInfo with virtualization enabled and VPortStateChange cleared: changes after that set
/// it again. `None` if a poll finds no change.
async fn enabled_info(
    port: &PortClient,
    scope: DiscoveryScope,
) -> Result<Option<VirtualizationInfo>, VirtualFailure> {
    let id = AttrId::VIRTUALIZATION_INFO;
    let mut wanted = VirtualizationInfo(port.get(id, 0).await?);
    if wanted.revision() != REVISION {
        return Err(VirtualFailure::Revision(wanted.revision()));
    }
    let is_enabled = wanted.enable();
    if scope == DiscoveryScope::Poll && is_enabled && !wanted.state_change() {
        return Ok(None);
    }
    if is_enabled && !wanted.state_change() {
        return Ok(Some(wanted));
    }
    wanted.set_enable(true);
    wanted.set_client_reregister(false);
    let held = VirtualizationInfo(port.set(id, 0, wanted.0).await?);
    if held.enable() { Ok(Some(held)) } else { Err(VirtualFailure::NotEnabled) }
}

/// The descriptions of the vnodes that are known.
fn descriptions(known: &ManagedPort) -> HashMap<Guid, NodeDescription> {
    let vports = known.vports.values().map(|managed| &managed.vport);
    vports.map(|vport| (vport.vnode, vport.description)).collect()
}

/// Reads the vports of a port.
struct VportReader<'a> {
    port: &'a PortClient,
    /// By vnode GUID.
    descriptions: HashMap<Guid, NodeDescription>,
    vports: BTreeMap<u16, ManagedVport>,
}

/// A vport by its VPortInfo, before its other attributes are read.
pub(super) fn vport_of(index: u16, state: PortState, info: &VportInfo) -> VirtualPort {
    VirtualPort {
        index,
        guid: info.guid(),
        vnode: Guid(0),
        vnode_ports: 1,
        vnode_port: PortNum(1),
        description: NodeDescription::default(),
        state,
        lid_required: info.lid_required(),
        lid: info.lid(),
        lid_by_vport_index: info.lid_by_vport_index(),
        partition_cap: 0,
        pkeys: Vec::new(),
    }
}

impl VportReader<'_> {
    /// Reads a vport. One that refuses an attribute is kept with its failure.
    ///
    /// # Errors
    /// The device does not answer.
    async fn read(
        &mut self,
        index: u16,
        before: Option<&ManagedVport>,
    ) -> Result<(), VirtualFailure> {
        let modifier = index.into();
        let info = match self.port.get(AttrId::VPORT_INFO, modifier).await {
            Ok(data) => VportInfo(data),
            // The vport does not exist: the port claims a top index that is too high.
            Err(VirtualFailure::Refused(..)) => return Ok(()),
            Err(failure) => return Err(failure),
        };
        let mut managed = ManagedVport {
            vport: vport_of(index, info.state(), &info),
            info,
            is_known: before.is_some_and(|before| {
                let is_same = before.vport.guid == info.guid()
                    && before.vport.lid_required == info.lid_required();
                before.is_known && is_same
            }),
            failure: None,
        };
        match self.read_tables(&mut managed.vport).await {
            Err(failure) if failure.is_transient() => return Err(failure),
            Err(failure) => managed.reject(failure),
            Ok(()) => {}
        }
        self.vports.insert(index, managed);
        Ok(())
    }

    async fn read_tables(&mut self, vport: &mut VirtualPort) -> Result<(), VirtualFailure> {
        let modifier = vport.index.into();
        let vnode = VnodeInfo(self.port.get(AttrId::VNODE_INFO, modifier).await?);
        vport.vnode = vnode.guid();
        vport.vnode_ports = vnode.num_ports();
        vport.vnode_port = vnode.local_port();
        vport.partition_cap = vnode.partition_cap();
        vport.description = match self.descriptions.get(&vport.vnode) {
            Some(&description) => description,
            None => {
                let text = self.port.get(AttrId::VNODE_DESCRIPTION, modifier).await?;
                let description = NodeDescription(text);
                self.descriptions.insert(vport.vnode, description);
                description
            }
        };
        let blocks = vport.partition_cap.div_ceil(PKEY_BLOCK as u16);
        for block in 0..blocks {
            let modifier = table_modifier(vport.index, block);
            let keys = PkeyBlock::read(&self.port.get(AttrId::VPORT_PKEY_TABLE, modifier).await?);
            vport.pkeys.push(keys);
            // Subnet managers fill tables from the front. The table of a vport that none has activated
            // has the default P_Key.
            let is_last = if vport.state == PortState::Active {
                keys.0.iter().all(|key| key.0 == 0)
            } else {
                keys.0.last().is_some_and(|key| key.0 == 0)
            };
            if is_last {
                break;
            }
        }
        Ok(())
    }
}
