//! Reads vnodes and their descriptions, some time after their vports became ACTIVE. They are for people and
//! NodeRecords only, so that nothing waits for them, and a vport whose vnode refuses them works without.

use super::client::PortClient;
use super::discover::add_vnode;
use crate::ids::Guid;
use crate::transport::transactions::SmpRequest;
use crate::vendor::virtual_ports::{ManagedVport, VirtualFailure};
use crate::wire::attr::{AttrId, NodeDescription};
use crate::wire::vendor::virtual_ports::VnodeInfo;
use std::collections::BTreeMap;

/// Descriptions by vnode GUID.
type Descriptions = BTreeMap<Guid, NodeDescription>;

/// Reads what is not known of the vnodes of a port.
///
/// # Errors
/// The device does not answer.
pub(super) async fn describe(
    port: &PortClient,
    vports: &mut BTreeMap<u16, ManagedVport>,
) -> Result<(), VirtualFailure> {
    let unread = without_vnode(vports);
    read_vnodes(port, vports, &unread).await?;
    let descriptions = read_descriptions(port, undescribed(vports)).await?;
    add_descriptions(vports, &descriptions);
    Ok(())
}

/// The vports of a port whose vnodes have not been read.
fn without_vnode(vports: &BTreeMap<u16, ManagedVport>) -> Vec<u16> {
    let unread = vports.values().filter(|managed| {
        !managed.is_described && managed.failure.is_none() && managed.vport.vnode.guid == Guid(0)
    });
    unread.map(|managed| managed.vport.index).collect()
}

/// Reads VNodeInfo of these vports. A refused one counts as described.
///
/// # Errors
/// The device does not answer.
async fn read_vnodes(
    port: &PortClient,
    vports: &mut BTreeMap<u16, ManagedVport>,
    indexes: &[u16],
) -> Result<(), VirtualFailure> {
    let requests: Vec<SmpRequest> =
        indexes.iter().map(|&index| port.get_request(AttrId::VNODE_INFO, index.into())).collect();
    for (index, reply) in indexes.iter().zip(port.call_all(&requests).await) {
        let Some(managed) = vports.get_mut(index) else { continue };
        match reply {
            Ok(data) => add_vnode(&mut managed.vport, &VnodeInfo(data)),
            Err(VirtualFailure::Refused(..)) => managed.is_described = true,
            Err(failure) => return Err(failure),
        }
    }
    Ok(())
}

/// The vnodes without a description among the vports of a port, with the index of one of their vports.
fn undescribed(vports: &BTreeMap<u16, ManagedVport>) -> BTreeMap<Guid, u16> {
    let undescribed =
        vports.values().filter(|vport| !vport.is_described && vport.failure.is_none());
    undescribed.map(|managed| (managed.vport.vnode.guid, managed.vport.index)).collect()
}

/// Reads the description of each of these vnodes once. A refused one is empty.
///
/// # Errors
/// The device does not answer.
async fn read_descriptions(
    port: &PortClient,
    vnodes: BTreeMap<Guid, u16>,
) -> Result<Descriptions, VirtualFailure> {
    let requests: Vec<SmpRequest> = vnodes
        .values()
        .map(|&index| port.get_request(AttrId::VNODE_DESCRIPTION, index.into()))
        .collect();
    let replies = port.call_all(&requests).await;
    let mut descriptions = Descriptions::new();
    for (vnode, reply) in vnodes.into_keys().zip(replies) {
        let description = match reply {
            Ok(text) => NodeDescription(text),
            Err(VirtualFailure::Refused(..)) => NodeDescription::default(),
            Err(failure) => return Err(failure),
        };
        descriptions.insert(vnode, description);
    }
    Ok(descriptions)
}

/// Gives vports the descriptions of their vnodes.
fn add_descriptions(vports: &mut BTreeMap<u16, ManagedVport>, descriptions: &Descriptions) {
    for managed in vports.values_mut().filter(|managed| !managed.is_described) {
        if let Some(&description) = descriptions.get(&managed.vport.vnode.guid) {
            managed.vport.vnode.description = description;
            managed.is_described = true;
        }
    }
}
