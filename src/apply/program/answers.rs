//! The answers to Sets: what they change in the snapshot, and the failures among them.

use super::failures::{PassFailures, Sent};
use super::report::ApplyReport;
use crate::apply::set_failures::{SetFailures, settled};
use crate::fabric::{Fabric, PortId, SwitchId};
use crate::interned::Interned;
use crate::observe::Observation;
use crate::transport::transactions::{SmpError, SmpReply};
use crate::wire::attr::tables::PkeyBlock;
use crate::wire::attr::{AttrId, MlnxExtPortInfo, PortInfo, SwitchInfo};
use std::sync::Arc;
use tokio::time::Instant;

/// The answers of the devices, by port slot or switch, for the snapshot.
#[derive(Default)]
pub(super) struct AnswerChanges {
    pub ports: Vec<(PortId, PortInfo)>,
    pub switches: Vec<(SwitchId, SwitchInfo)>,
    pub pkeys: Vec<(PortId, usize, PkeyBlock)>,
    pub extended_ports: Vec<(PortId, MlnxExtPortInfo)>,
}

/// Records the answers to Sets.
pub(super) struct Answers<'a> {
    pub start: Instant,
    pub report: &'a mut ApplyReport,
    /// The failures of earlier reconfigurations.
    pub before: &'a SetFailures,
    pub failures: &'a mut PassFailures,
    pub changes: AnswerChanges,
    /// Treat a refused SL to VL mapping as accepted (`suppress_sl2vl_mad_status_errors`).
    pub ignores_sl_to_vl_errors: bool,
}

impl Answers<'_> {
    /// Records an answer. True if the device acknowledges no Sets, so that those that wait for it
    /// must be cancelled.
    pub(super) fn answered(
        &mut self,
        fabric: &Fabric,
        sent: &Sent,
        answer: Result<SmpReply, SmpError>,
    ) -> bool {
        let set = sent.set;
        let is_refused = matches!(answer, Err(SmpError::Status(_)));
        if is_refused && self.ignores_sl_to_vl_errors && set.attr_id == AttrId::SL_TO_VL {
            return false;
        }
        let reply = match answer {
            Ok(reply) => reply,
            Err(error) if is_refused && set.attr_id == AttrId::GUID_INFO => {
                self.report.unacknowledged.without_aliases.push((set, error));
                return false;
            }
            Err(error) => {
                let is_silent = self.failures.failed(fabric, self.before, sent, &error);
                self.report.unacknowledged.failed.push((set, error));
                return is_silent;
            }
        };
        self.failures.acknowledged(set.node);
        let slot = set.slot(fabric);
        match set.attr_id {
            AttrId::LINEAR_FT => {
                self.report.lfts.blocks += 1;
                self.report.lfts.done = Some(self.start.elapsed());
            }
            AttrId::PORT_INFO => self.changes.ports.push((slot, PortInfo::read(&reply.data))),
            AttrId::MLNX_EXT_PORT_INFO => {
                let info = MlnxExtPortInfo::read(&reply.data);
                self.changes.extended_ports.push((slot, info));
            }
            AttrId::SWITCH_INFO => {
                if let Some(switch) = fabric.node(set.node).switch {
                    let info = settled(SwitchInfo::read(&reply.data));
                    self.changes.switches.push((switch, info));
                }
            }
            AttrId::PKEY_TABLE => {
                let block = (set.attr_mod & 0xFFFF) as usize;
                self.changes.pkeys.push((slot, block, PkeyBlock::read(&reply.data)));
            }
            _ => {}
        }
        false
    }
}

/// Updates the observation with the answers of the devices.
pub(super) fn update_observation(observation: &mut Observation, changes: AnswerChanges) {
    let mut known = Interned::default();
    for (slot, number, block) in changes.pkeys {
        if let Some(table) = Arc::make_mut(&mut observation.pkeys).get_mut(slot.index()) {
            let mut blocks = table.to_vec();
            blocks.resize(blocks.len().max(number + 1), PkeyBlock::default());
            blocks[number] = block;
            *table = known.share(blocks);
        }
    }
    for (slot, info) in changes.extended_ports {
        Arc::make_mut(&mut observation.fabric).set_extended_port_info(slot, info);
    }
    if changes.ports.is_empty() && changes.switches.is_empty() {
        return;
    }
    Arc::make_mut(&mut observation.fabric).acknowledge(&changes.ports, &changes.switches);
}
