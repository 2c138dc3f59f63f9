//! Reads ports again that refused a Set(PortInfo). A port that its peer has made ACTIVE meanwhile may
//! refuse the transition with status 0x1c; it is ACTIVE all the same.

use super::set_id::SetId;
use crate::fabric::{Fabric, PortId};
use crate::transport::client::SmpClient;
use crate::transport::tagged::Tagged;
use crate::transport::transactions::{SmpError, SmpRequest};
use crate::wire::attr::{AttrId, PortInfo};
use crate::wire::smp::SmpRoute;

/// The PortInfo of the ports that refused a Set; without those that do not answer.
pub(super) async fn read(
    client: &SmpClient,
    fabric: &Fabric,
    failed: &[(SetId, SmpError)],
    m_key: u64,
) -> Vec<(PortId, PortInfo)> {
    let mut batch = Tagged::new(client);
    let refused = failed.iter().filter(|(set, error)| {
        set.attr_id == AttrId::PORT_INFO && matches!(error, SmpError::Status(_))
    });
    for (set, _) in refused {
        let slot = set.slot(fabric);
        let route = SmpRoute::Directed(fabric.route_to(slot));
        let request = SmpRequest::get(route, AttrId::PORT_INFO, set.attr_mod);
        batch.submit(slot, request.with_m_key(m_key));
    }
    let mut ports = Vec::new();
    while let Some((slot, answer)) = batch.next().await {
        ports.extend(answer.ok().map(|reply| (slot, PortInfo::read(&reply.data))));
    }
    ports
}
