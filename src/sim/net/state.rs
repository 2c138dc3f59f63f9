//! The state of a running fabric.

use crate::ids::{Guid, PortNum};
use crate::sim::congestion::CongestionAgents;
use crate::sim::counters::PerfCounters;
use crate::sim::devices::Devices;
use crate::sim::event_queue::{Schedule, Timer};
use crate::sim::events::FabricEvent;
use crate::sim::faults::Faults;
use crate::sim::kernel::Kernel;
use crate::sim::sma_load::SmaTraffic;
use crate::sim::trap::DeviceTraps;
use crate::wire::attr::{CapMask, TrapNumber};
use std::time::Duration;
use tokio::time::Instant;

pub(in crate::sim) struct Net {
    pub(in crate::sim) devices: Devices,
    pub(in crate::sim) faults: Faults,
    pub(in crate::sim) counters: PerfCounters,
    pub(in crate::sim) congestion: CongestionAgents,
    pub(in crate::sim) smas: SmaTraffic,
    pub(in crate::sim) kernel: Kernel,
    pub(in crate::sim) events: Schedule<FabricEvent>,
    /// Time of the last console command that changed the fabric.
    pub(in crate::sim) last_fault: Option<Instant>,
    pub(in crate::sim) traps: DeviceTraps,
}

impl Net {
    pub(in crate::sim) fn new(devices: Devices, seed: u64) -> Self {
        Self {
            counters: PerfCounters::new(devices.ports.len()),
            congestion: CongestionAgents::default(),
            smas: SmaTraffic::default(),
            devices,
            faults: Faults::new(seed),
            kernel: Kernel::default(),
            events: Schedule::new(),
            last_fault: None,
            traps: DeviceTraps::default(),
        }
    }

    pub(super) fn schedule(&mut self, after: Duration, event: FabricEvent) -> Timer {
        self.events.schedule(after, event)
    }

    pub(super) fn cancel(&mut self, timer: Option<Timer>) {
        self.events.cancel(timer);
    }

    /// Slot of an end port: port 0 of a switch, or a port of another node.
    pub(in crate::sim) fn end_port_at(&self, guid: Guid, num: PortNum) -> Option<u32> {
        let slot = self.devices.find(guid, num)?;
        let exists = num != PortNum::ZERO || self.devices.is_switch_slot(slot);
        (exists && self.devices.is_end_port(slot)).then_some(slot)
    }

    /// True if the port's `issm` device is open.
    pub(in crate::sim) fn has_sm(&self, slot: u32) -> bool {
        self.kernel.issm_holders.contains_key(&slot)
    }

    /// Adds a holder of the port's `issm` device.
    pub(in crate::sim) fn hold_issm(&mut self, slot: u32) {
        *self.kernel.issm_holders.entry(slot).or_default() += 1;
        self.update_is_sm(slot);
    }

    /// Removes a holder of the port's `issm` device.
    pub(in crate::sim) fn release_issm(&mut self, slot: u32) {
        if let Some(holders) = self.kernel.issm_holders.get_mut(&slot) {
            *holders -= 1;
            if *holders == 0 {
                self.kernel.issm_holders.remove(&slot);
            }
        }
        self.update_is_sm(slot);
    }

    /// Sets CapabilityMask.IsSM of the port while its `issm` device is open. A device that sends
    /// notices of changed capabilities reports a new SM by trap 144.
    pub(super) fn update_is_sm(&mut self, slot: u32) {
        let is_sm = self.has_sm(slot);
        let info = &mut self.devices.port_mut(slot).info;
        let is_new = is_sm && !info.has(CapMask::IS_SM);
        let others = info.capability_mask() & !CapMask::IS_SM;
        info.set_capability_mask(if is_sm { others | CapMask::IS_SM } else { others });
        if is_new && info.has(CapMask::TRAPS) && info.has(CapMask::CAP_MASK_NOTICE) {
            self.raise_trap(slot, TrapNumber::LOCAL_CHANGES);
        }
    }
}
