//! Discovers the vports of one physical port.
//!
//! The requests of a stage go out together: VPortInfo, VNodeInfo and the first block of P_Keys of all
//! vports of a block of states that are read; then more blocks of P_Keys. Nothing waits for the
//! descriptions of vnodes ([`super::describe`]).

use super::client::{Attribute, PortClient};
use crate::fabric::virtual_ports::VirtualPort;
use crate::ids::{Guid, PortNum};
use crate::transport::transactions::SmpRequest;
use crate::vendor::virtual_ports::{DiscoveryScope, ManagedPort, ManagedVport, VirtualFailure};
use crate::wire::attr::tables::{PKEY_BLOCK, PkeyBlock};
use crate::wire::attr::{AttrId, NodeDescription, PortState};
use crate::wire::vendor::virtual_ports::{
    VirtualizationInfo, VnodeInfo, VportInfo, VportStates, table_modifier,
};
use std::collections::{BTreeMap, HashMap};

/// The revision of virtualization that this subnet manager speaks.
const REVISION: u8 = 0;

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
    let known_descriptions = match scope {
        DiscoveryScope::Full => HashMap::new(),
        DiscoveryScope::Poll | DiscoveryScope::Changes => descriptions(known),
    };
    let mut reader = VportReader {
        port,
        known,
        descriptions: known_descriptions,
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
    Ok(Some(Discovered { top_index, claims_too_many, vports: reader.vports }))
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
    let is_up = |state: PortState| state != PortState::Down && state != PortState::NoChange;
    Ok(states.filter(|&(_, state)| is_up(state)).collect())
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

/// The descriptions of the vnodes that are known.
fn descriptions(known: &ManagedPort) -> HashMap<Guid, NodeDescription> {
    let described = known.vports.values().filter(|managed| managed.is_described);
    described.map(|managed| (managed.vport.vnode, managed.vport.description)).collect()
}

/// Reads the vports of a port. One that refuses an attribute is kept with its failure.
struct VportReader<'a> {
    port: &'a PortClient,
    /// The port before this discovery.
    known: &'a ManagedPort,
    /// By vnode GUID.
    descriptions: HashMap<Guid, NodeDescription>,
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
        let of_vport = |&index: &u16| {
            [
                port.get_request(AttrId::VPORT_INFO, index.into()),
                port.get_request(AttrId::VNODE_INFO, index.into()),
                port.get_request(AttrId::VPORT_PKEY_TABLE, table_modifier(index, 0)),
            ]
        };
        let requests: Vec<SmpRequest> = indexes.iter().flat_map(of_vport).collect();
        let replies = port.call_all(&requests).await;
        let mut vports = Vec::new();
        for (&index, replies) in indexes.iter().zip(replies.chunks_exact(3)) {
            let &[info, vnode, pkeys] = replies else { continue };
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
                is_known: self.is_known(index, &info),
                is_described: false,
                failure: None,
            };
            let added = add_vnode(&mut managed.vport, vnode, pkeys);
            keep_refusal(&mut managed, added)?;
            if let Some(&description) = self.descriptions.get(&managed.vport.vnode) {
                managed.vport.description = description;
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
        let mut managed =
            ManagedVport { vport, info, is_known: false, is_described: false, failure: None };
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

    /// Reads one more block of P_Keys of each vport whose table may go on. False if none does.
    async fn read_more_pkeys(&self, vports: &mut [ManagedVport]) -> Result<bool, VirtualFailure> {
        let goes_on = |managed: &&mut ManagedVport| {
            managed.failure.is_none() && next_pkey_block(&managed.vport).is_some()
        };
        let due: Vec<&mut ManagedVport> = vports.iter_mut().filter(goes_on).collect();
        let has_more = !due.is_empty();
        let request = |managed: &&mut ManagedVport| {
            let block = next_pkey_block(&managed.vport)?;
            let modifier = table_modifier(managed.vport.index, block);
            Some(self.port.get_request(AttrId::VPORT_PKEY_TABLE, modifier))
        };
        let requests: Vec<SmpRequest> = due.iter().filter_map(request).collect();
        for (managed, reply) in due.into_iter().zip(self.port.call_all(&requests).await) {
            let read = reply.map(|data| managed.vport.pkeys.push(PkeyBlock::read(&data)));
            keep_refusal(managed, read)?;
        }
        Ok(has_more)
    }
}

/// Takes over VNodeInfo and the first block of P_Keys.
fn add_vnode(
    vport: &mut VirtualPort,
    vnode: Attribute,
    pkeys: Attribute,
) -> Result<(), VirtualFailure> {
    let vnode = VnodeInfo(vnode?);
    vport.vnode = vnode.guid();
    vport.vnode_ports = vnode.num_ports();
    vport.vnode_port = vnode.local_port();
    vport.partition_cap = vnode.partition_cap();
    if vport.partition_cap > 0 {
        vport.pkeys.push(PkeyBlock::read(&pkeys?));
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
