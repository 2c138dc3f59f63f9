//! The M_Key of the local port. A subnet manager that does not know it is not to be master: the
//! port has been protected by a manager with another key, and so have all others.

use crate::fabric::Fabric;
use crate::observe::m_keys::MKeys;
use crate::transport::client::SmpClient;
use crate::transport::transactions::SmpRequest;
use crate::wire::attr::{AttrId, PhysState, PortState};
use crate::wire::smp::{DirectedRoute, SmpRoute};

/// True if the local port hides its M_Key and refuses a Set. The Set would change nothing; its
/// refusal starts the lease period of the key, unless another manager renews it.
pub(super) async fn is_locked(client: &SmpClient, keys: &MKeys, fabric: &Fabric) -> bool {
    let owner = fabric.owner(fabric.local());
    let Some(mut info) = fabric.port(owner).info.filter(|info| keys.is_hidden(info)) else {
        return false;
    };
    info.set_port_state(PortState::NoChange);
    info.set_phys_state(PhysState::NoChange);
    info.set_client_reregister(false);
    let route = SmpRoute::Directed(DirectedRoute::LOCAL);
    let num = fabric.port(owner).num.0;
    let set = SmpRequest::set(route, AttrId::PORT_INFO, num.into(), info.0);
    client.call(&set.with_m_key(keys.of_port(fabric, owner))).await.is_err()
}
