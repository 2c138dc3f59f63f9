//! SL to VL mappings: the VL on which a packet leaves a switch.
//!
//! Where the plan writes no mapping (QoS off, or a device without SL mapping), a switch is assumed
//! to use VL = SL modulo the number of data VLs of the output port. Devices commonly do so by
//! default, and SL 0 is on VL 0 in any case. If an engine relies on other SLs and the plan writes
//! no mapping at all, the check warns of credit loops that close with the mappings that the switches
//! hold ([`HeldMappings`]) or, while nothing is known of them, with all SLs on VL 0.

use super::held_mappings::HeldMappings;
use super::network::SwitchNetwork;
use crate::fabric::{Fabric, PortId, SwitchId};
use crate::ids::Sl;
use crate::plan::Plan;
use crate::wire::attr::PortInfo;
use crate::wire::attr::tables::SlToVl;

/// By SL: the VLs that its packets may take, bit n for VL n.
pub(super) type VlSets = [u16; 16];

/// The SL to VL mappings between the channels of each switch.
#[derive(Clone)]
pub(super) struct SlToVlMaps {
    /// Offset of each switch in `through`.
    first: Vec<usize>,
    /// For each switch a table of output channels by input channel, both by index.
    through: Vec<SlToVl>,
    /// By channel: VLs of packets from the end ports at the sending switch.
    local: Vec<VlSets>,
}

/// The number of data VLs of a port under the plan; 1 if unknown.
pub(super) fn data_vls(fabric: &Fabric, plan: &Plan, port: PortId) -> u8 {
    let planned = plan.ports.of(port);
    let known = planned.filter(|info| info.operational_vls() != 0).or(fabric.port(port).info());
    known.map_or(1, |info| PortInfo::data_vls(info.operational_vls()).max(1))
}

/// The assumed mapping of a device that the plan does not program.
pub(super) fn modulo(data_vls: u8) -> SlToVl {
    SlToVl::new(std::array::from_fn(|sl| sl as u8 % data_vls.max(1)))
}

/// The SL to VL mappings of one switch.
struct SwitchMaps {
    /// Table of output channels by input channel, both by index.
    through: Vec<SlToVl>,
    /// By output channel: VLs of packets from the end ports at the switch.
    local: Vec<VlSets>,
}

impl SlToVlMaps {
    pub(super) fn new(fabric: &Fabric, plan: &Plan, network: &SwitchNetwork) -> Self {
        Self::of_switches(fabric, network, |switch| of_switch(fabric, plan, network, switch))
    }

    /// The mappings that the switches hold, where the plan writes none.
    pub(super) fn held(
        fabric: &Fabric,
        plan: &Plan,
        network: &SwitchNetwork,
        held: &HeldMappings,
    ) -> Self {
        Self::of_switches(fabric, network, |switch| {
            let rows = held.rows(fabric.switch(switch).guid());
            with_rows(fabric, plan, network, switch, &rows)
        })
    }

    fn of_switches(
        fabric: &Fabric,
        network: &SwitchNetwork,
        maps: impl Fn(SwitchId) -> SwitchMaps,
    ) -> Self {
        let local = vec![[0; 16]; network.channels.len()];
        let mut sl_to_vl = Self { first: Vec::new(), through: Vec::new(), local };
        for switch in fabric.switch_ids() {
            let SwitchMaps { through, local } = maps(switch);
            sl_to_vl.first.push(sl_to_vl.through.len());
            sl_to_vl.through.extend(through);
            sl_to_vl.local[network.out_of(switch)].copy_from_slice(&local);
        }
        for lost in sl_to_vl.first.len()..network.switches() {
            let degree = network.degree(SwitchId(lost as u32));
            sl_to_vl.first.push(sl_to_vl.through.len());
            sl_to_vl.through.extend(std::iter::repeat_n(modulo(1), degree * degree));
        }
        sl_to_vl
    }

    /// All SLs on VL 0, the worst mappings that devices may hold by themselves.
    pub(super) fn on_vl_0(network: &SwitchNetwork) -> Self {
        let mut first = Vec::with_capacity(network.switches());
        let mut maps = 0;
        for switch in 0..network.switches() {
            first.push(maps);
            maps += network.degree(SwitchId(switch as u32)).pow(2);
        }
        let local = vec![[1; 16]; network.channels.len()];
        Self { first, through: vec![modulo(1); maps], local }
    }

    /// True if the mappings of a plan for a switch equal these, except on channels for which
    /// `is_dead` holds.
    pub(super) fn match_switch(
        &self,
        fabric: &Fabric,
        plan: &Plan,
        network: &SwitchNetwork,
        switch: SwitchId,
        is_dead: impl Fn(u32) -> bool,
    ) -> bool {
        let now = of_switch(fabric, plan, network, switch);
        let channels = network.out_of(switch);
        let ranks: Vec<usize> = (0..channels.len())
            .filter(|out_index| !is_dead((channels.start + out_index) as u32))
            .collect();
        let first = self.first[switch.index()];
        ranks.iter().all(|&output| {
            self.local[channels.start + output] == now.local[output]
                && ranks.iter().all(|&input| {
                    let index = input * channels.len() + output;
                    self.through[first + index] == now.through[index]
                })
        })
    }

    /// The mappings by other switch numbers; `before` is the old number by new number.
    pub(super) fn renumbered(&self, before: &[u32]) -> Self {
        let first = before.iter().map(|&was| self.first[was as usize]).collect();
        Self { first, ..self.clone() }
    }

    /// The mappings with those of some switches replaced by those of a plan.
    pub(super) fn with_switches(
        &self,
        fabric: &Fabric,
        plan: &Plan,
        network: &SwitchNetwork,
        switches: impl IntoIterator<Item = SwitchId>,
    ) -> Self {
        let mut sl_to_vl = self.clone();
        for switch in switches {
            let SwitchMaps { through, local } = of_switch(fabric, plan, network, switch);
            let first = sl_to_vl.first[switch.index()];
            let channels = network.out_of(switch);
            sl_to_vl.through[first..first + through.len()].copy_from_slice(&through);
            sl_to_vl.local[channels].copy_from_slice(&local);
        }
        sl_to_vl
    }

    /// The mapping from an input channel to an output channel of a switch, both by index.
    pub(super) fn through(
        &self,
        network: &SwitchNetwork,
        switch: SwitchId,
        input: u16,
        output: u16,
    ) -> SlToVl {
        let row = usize::from(input) * network.degree(switch);
        self.through[self.first[switch.index()] + row + usize::from(output)]
    }

    /// The VLs on a channel of packets from the end ports at its sending switch.
    pub(super) fn local(&self, channel: usize) -> &VlSets {
        &self.local[channel]
    }
}

fn of_switch(
    fabric: &Fabric,
    plan: &Plan,
    network: &SwitchNetwork,
    switch: SwitchId,
) -> SwitchMaps {
    let id = fabric.switches()[switch.index()];
    let rows = plan.qos.sl_to_vl_of(id);
    with_rows(fabric, plan, network, switch, rows)
}

/// The mappings of a switch that holds `rows`.
fn with_rows(
    fabric: &Fabric,
    plan: &Plan,
    network: &SwitchNetwork,
    switch: SwitchId,
    rows: &[(u8, u8, SlToVl)],
) -> SwitchMaps {
    let degree = network.degree(switch);
    let channels = network.out_of(switch);
    let unset: Vec<_> = network.channels[channels.clone()]
        .iter()
        .map(|channel| modulo(data_vls(fabric, plan, channel.port)))
        .collect();
    let mut through = Vec::with_capacity(degree * degree);
    for _ in 0..degree {
        through.extend_from_slice(&unset);
    }
    let mut local = vec![[0; 16]; degree];
    let mut mapped = vec![0usize; degree];
    for &(input, output, map) in rows {
        let Some(output) = channel_at(network, switch, output) else { continue };
        if let Some(input) = channel_at(network, switch, input) {
            through[input * degree + output] = map;
        } else if is_source(fabric, switch, input) {
            add_vls(&mut local[output], map);
            mapped[output] += 1;
        }
    }
    let node = fabric.switch(switch);
    let sources = (0..=node.num_ports()).filter(|&num| is_source(fabric, switch, num)).count();
    for ((local, mapped), unset) in local.iter_mut().zip(mapped).zip(unset) {
        if mapped < sources {
            add_vls(local, unset);
        }
    }
    SwitchMaps { through, local }
}

/// Index of the channel out of port `num`.
fn channel_at(network: &SwitchNetwork, switch: SwitchId, num: u8) -> Option<usize> {
    let slot = network.slot(switch.0, num);
    if slot == super::network::NONE {
        return None;
    }
    let hop = network.hop(slot);
    (hop.channel != super::network::NONE).then_some(hop.out_index.into())
}

/// True for port 0 and for ports with a channel adapter or router behind them.
fn is_source(fabric: &Fabric, switch: SwitchId, num: u8) -> bool {
    let peer = fabric.switch_port(switch, num.into()).and_then(|port| fabric.port(port).peer);
    num == 0 || peer.is_some_and(|peer| !fabric.node_of(peer).is_switch())
}

fn add_vls(sets: &mut VlSets, map: SlToVl) {
    for (sl, set) in sets.iter_mut().enumerate() {
        *set |= 1 << map.vl(Sl(sl as u8)).0;
    }
}
