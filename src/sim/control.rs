//! The handle of a simulated fabric: its faults and cables, and what its devices hold.

use super::device::{Devices, NONE};
use super::fault::Misbehaviour;
use super::forward::OpenRoad;
use super::net::Net;
use crate::fabric::picture::Hardware;
use crate::fabric::topology::Topology;
use crate::ids::{Guid, Lid, PortNum};
use crate::wire::attr::tables::SlToVl;
use crate::wire::attr::{PortInfo, SwitchInfo};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// What all handles and ports of a fabric share.
pub(super) struct Shared {
    net: Mutex<Net>,
    moved: Arc<tokio::sync::Notify>,
    started: AtomicBool,
}

impl Shared {
    pub(super) fn lock(&self) -> MutexGuard<'_, Net> {
        self.net.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.moved.notify_one();
    }
}

/// A simulated fabric. Clones are handles to the same one; nodes are named by their node GUIDs
/// (as built), and what names no existing node or port answers `None` or `false`.
#[derive(Clone)]
pub struct SimFabric {
    pub(super) shared: Arc<Shared>,
}

impl SimFabric {
    /// A fabric with this wiring whose devices are alike. `seed` decides which MADs the faults
    /// hit.
    pub fn new(topology: &Topology, hardware: Hardware, seed: u64) -> Self {
        let net = Net::new(Devices::new(topology, hardware), seed);
        let moved = net.moved.clone();
        let started = AtomicBool::new(false);
        Self { shared: Arc::new(Shared { net: Mutex::new(net), moved, started }) }
    }

    /// Starts the clock of the fabric, once.
    pub(super) fn start(&self) {
        if self.shared.started.swap(true, Ordering::Relaxed) {
            return;
        }
        let (weak, moved) = (Arc::downgrade(&self.shared), self.shared.moved.clone());
        tokio::spawn(async move {
            loop {
                let due = {
                    let Some(shared) = weak.upgrade() else { return };
                    let mut net = shared.lock();
                    net.run_due();
                    net.next_due()
                };
                match due {
                    Some(due) => tokio::select! {
                        () = tokio::time::sleep_until(due) => {}
                        () = moved.notified() => {}
                    },
                    None => moved.notified().await,
                }
            }
        });
    }

    fn at_port<R>(
        &self,
        guid: Guid,
        num: PortNum,
        act: impl FnOnce(&mut Net, u32) -> R,
    ) -> Option<R> {
        let mut net = self.shared.lock();
        let slot = net.devices.find(guid, num)?;
        Some(act(&mut net, slot))
    }

    fn at_node<R>(&self, guid: Guid, act: impl FnOnce(&mut Net, u32) -> R) -> Option<R> {
        self.at_port(guid, PortNum::ZERO, |net, slot| {
            let node = net.devices.port(slot).node;
            act(net, node)
        })
    }

    /// Pulls the cable at this port; false if there is none.
    pub fn unlink(&self, guid: Guid, num: PortNum) -> bool {
        self.plug(guid, num, false)
    }

    /// Plugs the cable at this port in again; false if there never was one.
    pub fn relink(&self, guid: Guid, num: PortNum) -> bool {
        self.plug(guid, num, true)
    }

    fn plug(&self, guid: Guid, num: PortNum, plugged: bool) -> bool {
        let done = self.at_port(guid, num, |net, slot| {
            let cabled = net.devices.port(slot).peer != NONE;
            net.devices.set_plugged(slot, plugged);
            net.tell_changes();
            cabled
        });
        done.unwrap_or(false)
    }

    /// Turns the link over `times` times, the first time at once, then every `period`.
    pub fn flap(&self, guid: Guid, num: PortNum, period: Duration, times: u32) -> bool {
        self.at_port(guid, num, |net, slot| net.flap(slot, period, times)).is_some()
    }

    /// Makes the node misbehave.
    pub fn misbehave(&self, guid: Guid, how: Misbehaviour) -> bool {
        self.at_node(guid, |net, node| net.faults.nodes.insert(node, how)).is_some()
    }

    /// The node answers nothing from now on; it still forwards.
    pub fn silence(&self, guid: Guid) -> bool {
        self.misbehave(guid, Misbehaviour::Silent)
    }

    /// Ends the node's misbehaviour.
    pub fn revive(&self, guid: Guid) -> bool {
        self.at_node(guid, |net, node| net.faults.nodes.remove(&node)).is_some()
    }

    /// The node loses its tables and settings, and its links train anew.
    pub fn reboot(&self, guid: Guid) -> bool {
        self.at_node(guid, Net::reboot).is_some()
    }

    /// All ports of a node have another VLCap (a code: 1, 2, 3, 4, 5 for 1, 2, 4, 8, 15 data VLs)
    /// and hold so many entries of VL arbitration at each priority.
    pub fn equip(&self, guid: Guid, vl_cap: u8, vl_arb_cap: u8) -> bool {
        let equip = |net: &mut Net, node: u32| {
            let node = net.devices.node(node);
            let slots = node.first..=node.first + u32::from(node.info.num_ports());
            for slot in slots {
                let info = &mut net.devices.port_mut(slot).info;
                info.set_vl_cap(vl_cap);
                info.set_vl_arb_high_cap(vl_arb_cap);
                info.set_vl_arb_low_cap(vl_arb_cap);
            }
        };
        self.at_node(guid, equip).is_some()
    }

    /// The node claims another node GUID from now on; here it keeps its name.
    pub fn claim_guid(&self, guid: Guid, claimed: Guid) -> bool {
        let claim = |net: &mut Net, node: u32| {
            net.devices.nodes[node as usize].info.set_node_guid(claimed);
        };
        self.at_node(guid, claim).is_some()
    }

    /// The node describes itself in other words from now on, and tells so by trap 144 (from its
    /// first port with a LID).
    pub fn describe(&self, guid: Guid, description: &str) -> bool {
        self.at_node(guid, |net, node| net.describe(node, description)).is_some()
    }

    /// The chance (0.0 to 1.0) that a MAD is lost on its way, requests and answers each.
    pub fn set_loss(&self, chance: f64) {
        self.shared.lock().faults.loss = chance;
    }

    /// The chance that a MAD is lost when it leaves through this port.
    pub fn set_link_loss(&self, guid: Guid, num: PortNum, chance: f64) -> bool {
        self.at_port(guid, num, |net, slot| net.faults.link_loss.insert(slot, chance)).is_some()
    }

    /// Travel time of every MAD, one way.
    pub fn set_delay(&self, delay: Duration) {
        self.shared.lock().faults.delay = delay;
    }

    /// Up to so much longer MADs travel, each by its own luck: they overtake each other.
    pub fn set_jitter(&self, jitter: Duration) {
        self.shared.lock().faults.jitter = jitter;
    }

    /// The chance (0.0 to 1.0) that a MAD arrives twice.
    pub fn set_duplication(&self, chance: f64) {
        self.shared.lock().faults.duplication = chance;
    }

    /// Time after which devices repeat traps that nobody repressed; half a second at first.
    pub fn set_trap_interval(&self, interval: Duration) {
        self.shared.lock().trap_interval = interval;
    }

    /// The LFT of a switch: the output port by LID, up to the last block ever written.
    pub fn lft(&self, guid: Guid) -> Option<Vec<u8>> {
        self.at_node(guid, |net, node| net.devices.switch(node).map(|sw| sw.lft.clone())).flatten()
    }

    /// The MFT of a switch at one position: port masks by MLID - 0xC000.
    pub fn mft(&self, guid: Guid, position: u8) -> Option<Vec<u16>> {
        let read = |net: &mut Net, node: u32| {
            let cap = net.devices.switch(node)?.info.multicast_fdb_cap();
            let mut table = Vec::with_capacity(usize::from(cap));
            for block in 0..u32::from(cap.div_ceil(32)) {
                let data = net.devices.mft(node, u32::from(position) << 28 | block, None)?;
                table.extend(
                    data.chunks_exact(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]])),
                );
            }
            Some(table)
        };
        self.at_node(guid, read).flatten()
    }

    /// The SL to VL mapping from an input to an output port; (0, 0) on a channel adapter port
    /// is that of its port 1.
    pub fn sl2vl(&self, guid: Guid, input: PortNum, output: PortNum) -> Option<SlToVl> {
        let modifier = u32::from(input.0) << 8 | u32::from(output.0);
        let read = |net: &mut Net, node: u32| {
            let own = if net.devices.is_switch(node) { PortNum::ZERO } else { PortNum(1) };
            let slot = net.devices.slot(node, own)?;
            let data = net.devices.sl_to_vl(slot, modifier, None)?;
            Some(SlToVl(std::array::from_fn(|i| data[i])))
        };
        self.at_node(guid, read).flatten()
    }

    /// A VL arbitration block (1..=4) of a port.
    pub fn vl_arb(&self, guid: Guid, num: PortNum, block: u8) -> Option<[u8; 64]> {
        let modifier = u32::from(block) << 16 | u32::from(num.0);
        self.at_port(guid, num, |net, slot| net.devices.vl_arb(slot, modifier, None)).flatten()
    }

    /// A block of the P_Key table of a port.
    pub fn pkeys(&self, guid: Guid, num: PortNum, block: u16) -> Option<[u8; 64]> {
        let modifier = u32::from(num.0) << 16 | u32::from(block);
        self.at_port(guid, num, |net, slot| net.devices.pkeys(slot, modifier, None)).flatten()
    }

    /// The GUIDs of an end port.
    pub fn guids(&self, guid: Guid, num: PortNum) -> Option<Vec<Guid>> {
        self.at_port(guid, num, |net, slot| {
            let tables = net.devices.port(slot).tables.as_ref();
            let factory = || net.devices.factory_tables(slot).guids;
            tables.map_or_else(factory, |tables| tables.guids.clone())
        })
    }

    /// PortInfo of a port.
    pub fn port_info(&self, guid: Guid, num: PortNum) -> Option<PortInfo> {
        self.at_port(guid, num, |net, slot| net.devices.port(slot).info)
    }

    /// SwitchInfo of a switch.
    pub fn switch_info(&self, guid: Guid) -> Option<SwitchInfo> {
        self.at_node(guid, |net, node| net.devices.switch(node).map(|switch| switch.info)).flatten()
    }

    /// True if a packet from this end port reaches the port that owns `lid`, by the tables as
    /// they are; `data` needs ACTIVE links.
    pub fn reaches(&self, guid: Guid, num: PortNum, lid: Lid, data: bool) -> bool {
        let walk =
            |net: &mut Net, slot| net.devices.walk_lid(slot, lid, data, &mut OpenRoad).is_some();
        self.at_port(guid, num, walk).unwrap_or(false)
    }

    /// Gets and Sets of an attribute that devices have seen.
    pub fn requests(&self, attr_id: u16) -> [u64; 2] {
        self.shared.lock().requests.get(&attr_id).copied().unwrap_or_default()
    }

    /// Sets of any attribute that devices have seen.
    pub fn sets(&self) -> u64 {
        self.shared.lock().requests.values().map(|[_, sets]| sets).sum()
    }

    /// Starts counting requests anew.
    pub fn reset_counters(&self) {
        self.shared.lock().requests.clear();
    }
}

impl Devices {
    /// Slot of a port by its node's GUID.
    pub(super) fn find(&self, guid: Guid, num: PortNum) -> Option<u32> {
        self.slot(*self.by_guid.get(&guid)?, num)
    }

    pub(super) fn is_switch_slot(&self, slot: u32) -> bool {
        self.is_switch(self.port(slot).node)
    }
}
