//! The SLs that pass from one port of a switch to another.

use super::links::{HostPathLinks, HostSources};
use crate::fabric::{Fabric, SwitchId};
use crate::ids::{PortNum, Sl};
use crate::plan::Plan;
use crate::wire::attr::PortInfo;
use crate::wire::attr::tables::SlToVl;

/// A row for each pair of ports of each switch.
pub(super) struct Transits {
    /// By switch: index of its first row.
    first: Vec<usize>,
    /// SLs, bit n for SL n; by switch, input and output.
    rows: Vec<u16>,
}

impl Transits {
    pub(super) fn empty(links: &HostPathLinks) -> Self {
        let mut first = Vec::with_capacity(links.switches());
        let mut rows = 0;
        for switch in 0..links.switches() {
            first.push(rows);
            rows += links.ports(switch).pow(2);
        }
        Self { first, rows: vec![0; rows] }
    }

    /// The index of the row between two ports of a switch, which must have them.
    #[inline]
    fn row(&self, links: &HostPathLinks, switch: usize, input: u8, output: u8) -> usize {
        self.first[switch] + usize::from(input) * links.ports(switch) + usize::from(output)
    }

    /// Marks SLs between two ports of a switch. A port that the switch lacks has no row: packets to
    /// it are dropped.
    #[inline]
    pub(super) fn mark(
        &mut self,
        links: &HostPathLinks,
        switch: usize,
        input: u8,
        output: u8,
        sls: u16,
    ) {
        if usize::from(output) < links.ports(switch) {
            let row = self.row(links, switch, input, output);
            self.rows[row] |= sls;
        }
    }

    pub(super) fn add(&mut self, other: &Self) {
        for (here, there) in self.rows.iter_mut().zip(&other.rows) {
            *here |= there;
        }
    }

    /// Marks the SLs of a host for the others at its switch whose paths have the same SLs.
    pub(super) fn add_entries(&mut self, links: &HostPathLinks, sources: &HostSources) {
        for switch in 0..links.switches() {
            for source in sources.at(switch) {
                for output in links.numbers(switch) {
                    let sls = self.rows[self.row(links, switch, source.entries[0], output)];
                    for &entry in &source.entries[1..] {
                        self.mark(links, switch, entry, output, sls);
                    }
                }
            }
        }
    }

    /// The VLs of the marked SLs on links between switches, bit n for VL n.
    pub(super) fn vls(&self, fabric: &Fabric, plan: &Plan, links: &HostPathLinks) -> u16 {
        let mut vls = 0;
        for switch in fabric.switch_ids() {
            let maps = Maps::new(fabric, plan, switch);
            let at = switch.index();
            for output in links.numbers(at).filter(|&port| links.behind(at, port).is_some()) {
                for input in links.numbers(at) {
                    let sls = self.rows[self.row(links, at, input, output)];
                    vls |= maps.vls(input, output, sls);
                }
            }
        }
        vls
    }
}

/// The SL to VL mappings of the plan for one switch.
struct Maps<'a> {
    fabric: &'a Fabric,
    plan: &'a Plan,
    switch: SwitchId,
    /// Input port, output port, mapping; ascending.
    rows: Vec<(u8, u8, SlToVl)>,
}

impl<'a> Maps<'a> {
    fn new(fabric: &'a Fabric, plan: &'a Plan, switch: SwitchId) -> Self {
        let node = fabric.switches()[switch.index()];
        let mut rows = plan.qos.sl_to_vl_of(node).to_vec();
        rows.sort_unstable_by_key(|&(input, output, _)| (input, output));
        Self { fabric, plan, switch, rows }
    }

    /// The VLs on which packets of the SLs leave the switch. Without a planned mapping VL n stands
    /// for SL n, modulo the number of data VLs.
    fn vls(&self, input: u8, output: u8, sls: u16) -> u16 {
        if sls == 0 {
            return 0;
        }
        let row = self.rows.binary_search_by_key(&(input, output), |&(from, to, _)| (from, to));
        super::numbers(sls)
            .into_iter()
            .map(|sl| match row {
                Ok(row) => self.rows[row].2.vl(Sl(sl)).0,
                Err(_) => sl % self.data_vls(output),
            })
            .filter(|&vl| vl < 15)
            .fold(0, |set, vl| set | 1 << vl)
    }

    /// The number of data VLs of a port, at least 1.
    fn data_vls(&self, output: u8) -> u8 {
        let port = self.fabric.switch_port(self.switch, PortNum(output));
        let info = port.and_then(|port| self.plan.ports.of(port));
        info.map_or(1, |info| PortInfo::data_vls(info.operational_vls())).max(1)
    }
}
