//! Reads the descriptions of vnodes. They are for people only, so that nothing waits for them, and a
//! vport whose vnode refuses its description works without.

use super::client::PortClient;
use crate::ids::Guid;
use crate::transport::transactions::SmpRequest;
use crate::vendor::virtual_ports::{ManagedVport, VirtualFailure};
use crate::wire::attr::{AttrId, NodeDescription};
use std::collections::BTreeMap;

/// Descriptions by vnode GUID.
pub(super) type Descriptions = BTreeMap<Guid, NodeDescription>;

/// The vnodes without a description among the vports of a port, with the index of one of their vports.
pub(super) fn undescribed(vports: &BTreeMap<u16, ManagedVport>) -> BTreeMap<Guid, u16> {
    let undescribed =
        vports.values().filter(|vport| !vport.is_described && vport.failure.is_none());
    undescribed.map(|managed| (managed.vport.vnode, managed.vport.index)).collect()
}

/// Reads the description of each of these vnodes once. A refused one is empty.
///
/// # Errors
/// The device does not answer.
pub(super) async fn read_descriptions(
    port: &PortClient,
    vnodes: BTreeMap<Guid, u16>,
) -> Result<Descriptions, VirtualFailure> {
    let request = |&index: &u16| port.get_request(AttrId::VNODE_DESCRIPTION, index.into());
    let requests: Vec<SmpRequest> = vnodes.values().map(request).collect();
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
pub(super) fn add_descriptions(
    vports: &mut BTreeMap<u16, ManagedVport>,
    descriptions: &Descriptions,
) {
    for managed in vports.values_mut().filter(|managed| !managed.is_described) {
        if let Some(&description) = descriptions.get(&managed.vport.vnode) {
            managed.vport.description = description;
            managed.is_described = true;
        }
    }
}
