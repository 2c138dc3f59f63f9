//! Sets of ExtendedPortInfo that enable or disable FDR10 (`fdr10`).

use super::{Delta, SetRequest};
use crate::apply::set_id::SetId;
use crate::fabric::PortId;
use crate::wire::attr::{AttrId, FDR10};

/// StateChangeEnable: the Set changes LinkSpeedEnabled.
const SPEED_ENABLED: u8 = 1;

/// The Sets of ports that support FDR10 and are not as `fdr10` wants them, in the order of ports.
pub(in crate::apply) fn changes<'a>(delta: Delta<'a>) -> impl Iterator<Item = SetRequest> + 'a {
    let wanted = match delta.fdr10 {
        1 => Some(true),
        2 => Some(false),
        _ => None,
    };
    let differing = delta.fabric.extended_ports().filter_map(|(id, info)| {
        let is_wanted = wanted? == info.has_fdr10_enabled();
        let is_programmed = delta.plan.ports.of(id).is_some();
        (!is_wanted && is_programmed).then_some(id)
    });
    let mut ports: Vec<PortId> = differing.collect();
    ports.sort_unstable();
    ports.into_iter().filter_map(move |id| {
        let mut target = *delta.fabric.extended_port_info(id)?;
        target.set_state_change_enable(SPEED_ENABLED);
        target.set_link_speed_enabled(if wanted? { FDR10 } else { 0 });
        let port = delta.fabric.port(id);
        let set = SetId {
            node: port.node,
            port: port.num,
            attr_id: AttrId::MLNX_EXT_PORT_INFO,
            attr_mod: port.num.0.into(),
        };
        Some((set, delta.request(set, &target.0)))
    })
}
