//! Discovers the vports of one physical port.
//!
//! The requests of a stage go out together: VPortInfo and the first block of P_Keys of all vports of a
//! block of states that are read; then more blocks of P_Keys. Nothing waits for vnodes and their descriptions
//! ([`super::describe`]), except for one VNodeInfo of each port: the P_Key tables of its vports are taken
//! to have the same size, until their own VNodeInfo tells otherwise.

use super::client::{Attribute, PortClient};
use crate::fabric::Fabric;
use crate::fabric::virtual_ports::{VirtualNode, VirtualPort};
use crate::ids::{Guid, PortNum};
use crate::interned::Interned;
use crate::transport::transactions::SmpRequest;
use crate::vendor::virtual_ports::{DiscoveryScope, ManagedPort, ManagedVport, VirtualFailure};
use crate::wire::attr::tables::{GuidBlock, PKEY_BLOCK, PkeyBlock};
use crate::wire::attr::{AttrId, NodeDescription, PortState};
use crate::wire::vendor::virtual_ports::{
    VirtualizationInfo, VnodeInfo, VportInfo, VportStates, table_modifier,
};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// The revision of virtualization that this subnet manager speaks.
const REVISION: u8 = 0;

/// What a discovery found.
#[derive(Debug)]
pub(super) struct DiscoveredVports {
    pub top_index: u16,
    /// The device claims a top index above the number of vports that it supports.
    pub claims_too_many: bool,
    pub vports: BTreeMap<u16, ManagedVport>,
}

impl DiscoveredVports {
    /// Vports of the physical port `guid` that have the GUID of another physical port are not managed.
    pub(super) fn without_taken_guids(mut self, fabric: &Fabric, guid: Guid) -> Self {
        for managed in self.vports.values_mut().filter(|managed| managed.failure.is_none()) {
            let own = managed.vport.guid;
            let is_taken = own != guid && fabric.port_by_guid(own).is_some();
            if own == Guid(0) || is_taken {
                managed.reject(VirtualFailure::DuplicateGuid(own));
            }
        }
        self
    }
}

/// What a discovery reads.
#[derive(Clone, Copy, Debug)]
pub(super) struct DiscoveryExtent {
    pub scope: DiscoveryScope,
    /// VirtualizationInfo that has just been read.
    pub info: Option<VirtualizationInfo>,
    /// VNodeInfo of all vports is read before they are used.
    pub with_vnodes: bool,
}

/// Reads the vports of a port that is known as `known`. `None` if a poll finds no change.
///
/// # Errors
/// The port as a whole does not answer or refuses. A failure of one vport is recorded with it.
pub(super) async fn discover(
    port: &PortClient,
    known: &ManagedPort,
    extent: DiscoveryExtent,
) -> Result<Option<DiscoveredVports>, VirtualFailure> {
    let DiscoveryExtent { scope, .. } = extent;
    let Some(info) = enabled_info(port, extent).await? else { return Ok(None) };
    let claims_too_many = info.top_index() >= info.vport_cap().max(1);
    let top_index = info.top_index().min(info.vport_cap().saturating_sub(1));
    let known_descriptions = match scope {
        DiscoveryScope::Full => HashMap::new(),
        DiscoveryScope::Poll | DiscoveryScope::Changes => descriptions(known),
    };
    let mut reader = VportReader {
        port,
        known,
        with_vnodes: extent.with_vnodes,
        descriptions: known_descriptions,
        tables: Interned::default(),
        vports: BTreeMap::new(),
        has_refused: false,
    };
    for first in (0..=top_index).step_by(VportStates::COUNT.into()) {
        let states = match states(port, first, top_index).await {
            Ok(states) => states,
            // The port has fewer vports than it claims.
            Err(VirtualFailure::Refused(..)) if first > 0 => break,
            Err(failure) => return Err(failure),
        };
        let mut unread = Vec::new();
        for (index, state) in states {
            let before = known.vports.get(&index).filter(|_| scope != DiscoveryScope::Full);
            match before {
                Some(before) if state == PortState::Active && before.info.state() == state => {
                    reader.vports.insert(index, before.clone());
                }
                _ => unread.push(index),
            }
        }
        reader.read(&unread).await?;
    }
    Ok(Some(DiscoveredVports { top_index, claims_too_many, vports: reader.vports }))
}

/// The vports of a block of states that are not Down, with their states. `first`: the first index of
/// the block.
pub(super) async fn states(
    port: &PortClient,
    first: u16,
    top_index: u16,
) -> Result<Vec<(u16, PortState)>, VirtualFailure> {
    let block = VportStates::block(first);
    let states = VportStates(port.get(AttrId::VPORT_STATE, block).await?);
    let last = top_index.min(first + (VportStates::COUNT - 1));
    let states = (first..=last).map(|index| (index, states.state(index - first)));
    Ok(states.filter(|&(_, state)| is_up(state)).collect())
}

fn is_up(state: PortState) -> bool {
    state != PortState::Down && state != PortState::NoChange
}

/// VirtualizationInfo with virtualization enabled and VPortStateChange cleared: changes after that set
/// it again. `None` if a poll finds no change.
async fn enabled_info(
    port: &PortClient,
    extent: DiscoveryExtent,
) -> Result<Option<VirtualizationInfo>, VirtualFailure> {
    let id = AttrId::VIRTUALIZATION_INFO;
    let mut wanted = match extent.info {
        Some(info) => info,
        None => VirtualizationInfo(port.get(id, 0).await?),
    };
    if wanted.revision() != REVISION {
        return Err(VirtualFailure::Revision(wanted.revision()));
    }
    let is_enabled = wanted.enable();
    if extent.scope == DiscoveryScope::Poll && is_enabled && !wanted.state_change() {
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

/// Disables virtualization, if it is enabled.
///
/// # Errors
/// The port does not answer or refuses.
pub(super) async fn disable(port: &PortClient) -> Result<(), VirtualFailure> {
    let id = AttrId::VIRTUALIZATION_INFO;
    let mut info = VirtualizationInfo(port.get(id, 0).await?);
    if info.enable() {
        info.set_enable(false);
        info.set_state_change(false);
        port.set(id, 0, info.0).await?;
    }
    Ok(())
}

/// A vport by its VPortInfo, before its other attributes are read.
pub(super) fn vport_of(index: u16, state: PortState, info: &VportInfo) -> VirtualPort {
    VirtualPort {
        index,
        guid: info.guid(),
        vnode: VirtualNode {
            guid: Guid(0),
            num_ports: 1,
            port: PortNum(1),
            description: NodeDescription::default(),
        },
        state,
        lid_required: info.lid_required(),
        lid: info.lid(),
        lid_by_vport_index: info.lid_by_vport_index(),
        guid_cap: info.guid_cap(),
        partition_cap: 0,
        pkeys: Arc::default(),
    }
}

/// Takes over VNodeInfo.
pub(super) fn add_vnode(vport: &mut VirtualPort, vnode: &VnodeInfo) {
    vport.vnode.guid = vnode.guid();
    vport.vnode.num_ports = vnode.num_ports();
    vport.vnode.port = vnode.local_port();
    vport.partition_cap = vnode.partition_cap();
}

/// The descriptions of the vnodes that are known.
fn descriptions(known: &ManagedPort) -> HashMap<Guid, NodeDescription> {
    let described = known.vports.values().filter(|managed| managed.is_described);
    described.map(|managed| (managed.vport.vnode.guid, managed.vport.vnode.description)).collect()
}

/// Reads the vports of a port. One that refuses an attribute is kept with its failure.
struct VportReader<'a> {
    port: &'a PortClient,
    /// The port before this discovery.
    known: &'a ManagedPort,
    with_vnodes: bool,
    /// By vnode GUID.
    descriptions: HashMap<Guid, NodeDescription>,
    /// Tables of a single block.
    tables: Interned<PkeyBlock>,
    vports: BTreeMap<u16, ManagedVport>,
    /// A vport has refused VPortInfo.
    has_refused: bool,
}

impl VportReader<'_> {
    /// # Errors
    /// The device does not answer.
    async fn read(&mut self, indexes: &[u16]) -> Result<(), VirtualFailure> {
        let mut vports = self.read_infos(indexes).await?;
        while self.read_more_pkeys(&mut vports).await? {}
        self.vports.extend(vports.into_iter().map(|managed| (managed.vport.index, managed)));
        Ok(())
    }

    /// Reads VPortInfo, VNodeInfo and the first block of P_Keys.
    async fn read_infos(&mut self, indexes: &[u16]) -> Result<Vec<ManagedVport>, VirtualFailure> {
        let port = self.port;
        let count = if self.with_vnodes { indexes.len() } else { 1.min(indexes.len()) };
        let (first, others) = indexes.split_at(count);
        let of_first = first.iter().map(|&index| vnode_request(port, index));
        let requests = of_first.chain(indexes.iter().flat_map(|&index| {
            [
                port.get_request(AttrId::VPORT_INFO, index.into()),
                port.get_request(AttrId::VPORT_PKEY_TABLE, table_modifier(index, 0)),
            ]
        }));
        let replies = port.call_all(&requests.collect::<Vec<SmpRequest>>()).await;
        let (of_vnodes, of_vports) = replies.split_at(count);
        let mut vnodes = Vnodes::default();
        vnodes.add(first, of_vnodes);
        if vnodes.of_others.is_none() {
            // A port that refuses it for one vport may answer for others.
            let requests: Vec<SmpRequest> =
                others.iter().map(|&index| vnode_request(port, index)).collect();
            vnodes.add(others, &port.call_all(&requests).await);
        }
        let mut vports = Vec::new();
        for (&index, replies) in indexes.iter().zip(of_vports.chunks_exact(2)) {
            let &[info, pkeys] = replies else { continue };
            let info = match info {
                Ok(data) => VportInfo(data),
                Err(failure @ VirtualFailure::Refused(..)) => {
                    vports.extend(self.refused_vport(index, failure));
                    continue;
                }
                Err(failure) => return Err(failure),
            };
            let mut managed = ManagedVport {
                vport: vport_of(index, info.state(), &info),
                info,
                guids: self.known_guids(index, &info),
                is_known: self.is_known(index, &info),
                is_described: false,
                failure: None,
            };
            let vnode = vnodes.of_vport(index);
            let tables = &mut self.tables;
            let added =
                vnode.and_then(|vnode| add_tables(&mut managed.vport, vnode, pkeys, tables));
            keep_refusal(&mut managed, added)?;
            if let Some(&description) = self.descriptions.get(&managed.vport.vnode.guid) {
                managed.vport.vnode.description = description;
                managed.is_described = true;
            }
            vports.push(managed);
        }
        Ok(vports)
    }

    /// A vport that refuses VPortInfo although it is not Down. The first one of a port stands for all:
    /// ports may claim more vports than they have.
    fn refused_vport(&mut self, index: u16, failure: VirtualFailure) -> Option<ManagedVport> {
        if std::mem::replace(&mut self.has_refused, true) {
            return None;
        }
        let mut info = VportInfo::default();
        info.set_state(PortState::Init);
        let vport = vport_of(index, info.state(), &info);
        let mut managed = ManagedVport {
            vport,
            info,
            guids: BTreeMap::new(),
            is_known: false,
            is_described: false,
            failure: None,
        };
        managed.reject(failure);
        Some(managed)
    }

    fn is_known(&self, index: u16, info: &VportInfo) -> bool {
        self.known.vports.get(&index).is_some_and(|before| {
            let is_same = before.vport.guid == info.guid()
                && before.vport.lid_required == info.lid_required();
            before.is_known && is_same
        })
    }

    /// The acknowledged blocks of GUIDs of a vport that has not restarted since.
    fn known_guids(&self, index: u16, info: &VportInfo) -> BTreeMap<u8, GuidBlock> {
        match self.known.vports.get(&index) {
            Some(before)
                if before.vport.guid == info.guid() && info.state() == PortState::Active =>
            {
                before.guids.clone()
            }
            _ => BTreeMap::new(),
        }
    }

    /// Reads one more block of P_Keys of each vport whose table may go on. False if none does.
    async fn read_more_pkeys(&self, vports: &mut [ManagedVport]) -> Result<bool, VirtualFailure> {
        let due: Vec<&mut ManagedVport> = vports
            .iter_mut()
            .filter(|managed| {
                managed.failure.is_none() && next_pkey_block(&managed.vport).is_some()
            })
            .collect();
        let has_more = !due.is_empty();
        let requests: Vec<SmpRequest> = due
            .iter()
            .filter_map(|managed| {
                let block = next_pkey_block(&managed.vport)?;
                let modifier = table_modifier(managed.vport.index, block);
                Some(self.port.get_request(AttrId::VPORT_PKEY_TABLE, modifier))
            })
            .collect();
        for (managed, reply) in due.into_iter().zip(self.port.call_all(&requests).await) {
            let read = reply.map(|data| {
                let before = managed.vport.pkeys.iter().copied();
                managed.vport.pkeys = before.chain([PkeyBlock::read(&data)]).collect();
            });
            keep_refusal(managed, read)?;
        }
        Ok(has_more)
    }
}

fn vnode_request(port: &PortClient, index: u16) -> SmpRequest {
    port.get_request(AttrId::VNODE_INFO, index.into())
}

/// VNodeInfo of the vports of a port.
#[derive(Default)]
struct Vnodes {
    by_index: BTreeMap<u16, Attribute>,
    /// That of one vport, which tells the size of the P_Key tables of those that were not asked.
    of_others: Option<VnodeInfo>,
}

impl Vnodes {
    fn add(&mut self, indexes: &[u16], replies: &[Attribute]) {
        self.by_index.extend(indexes.iter().copied().zip(replies.iter().copied()));
        let read = self.by_index.values().find_map(|vnode| vnode.ok());
        self.of_others = read.map(VnodeInfo);
    }

    /// VNodeInfo of a vport; with the size of its P_Key table alone if it was not read.
    fn of_vport(&self, index: u16) -> Result<VnodeInfo, VirtualFailure> {
        if let Some(&read) = self.by_index.get(&index) {
            return read.map(VnodeInfo);
        }
        let mut size = VnodeInfo::default();
        size.set_num_ports(1);
        size.set_local_port(PortNum(1));
        size.set_partition_cap(self.of_others.map_or(0, |vnode| vnode.partition_cap()));
        Ok(size)
    }
}

/// Takes over VNodeInfo and the first block of P_Keys.
fn add_tables(
    vport: &mut VirtualPort,
    vnode: VnodeInfo,
    pkeys: Attribute,
    tables: &mut Interned<PkeyBlock>,
) -> Result<(), VirtualFailure> {
    add_vnode(vport, &vnode);
    if vport.partition_cap > 0 {
        vport.pkeys = tables.share([PkeyBlock::read(&pkeys?)]);
    }
    Ok(())
}

/// Records with a vport that its device refused an attribute.
///
/// # Errors
/// The device did not answer, which concerns the port as a whole.
fn keep_refusal(
    managed: &mut ManagedVport,
    read: Result<(), VirtualFailure>,
) -> Result<(), VirtualFailure> {
    match read {
        Err(failure) if failure.is_transient() => Err(failure),
        Err(failure) => {
            managed.reject(failure);
            Ok(())
        }
        Ok(()) => Ok(()),
    }
}

/// The next block of P_Keys to read; `None` if the last one ends the table.
fn next_pkey_block(vport: &VirtualPort) -> Option<u16> {
    let last = vport.pkeys.last()?;
    // Subnet managers fill tables from the front. The table of a vport that none has activated has the
    // default P_Key.
    let is_end = if vport.state == PortState::Active {
        last.0.iter().all(|key| key.0 == 0)
    } else {
        last.0.last().is_some_and(|key| key.0 == 0)
    };
    let next = vport.pkeys.len() as u16;
    let blocks = vport.partition_cap.div_ceil(PKEY_BLOCK as u16);
    (!is_end && next < blocks).then_some(next)
}
