//! Handle of a simulated fabric: properties of its devices to change, tables to read.

use super::congestion::PortCongestionSettings;
use super::delivery_queue::{PendingWakeups, PortDeliveries};
use super::devices::{Devices, PortEvents};
use super::event_signal::EventSignal;
use super::forwarding::NoFaults;
use super::net::Net;
use super::timers::{self, NextEvent, TimedEvents};
use crate::fabric::synthetic::Hardware;
use crate::fabric::topology::Topology;
use crate::ids::{Guid, Lid, PortNum};
use crate::wire::attr::tables::{MftBlock, SlToVl};
use crate::wire::attr::{PortInfo, SwitchInfo};
use std::collections::HashSet;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::time::Instant;

/// State shared by all handles and ports of a fabric.
pub(super) struct Shared {
    net: Mutex<Net>,
    pub(super) wakeups: Arc<PendingWakeups>,
    rescheduled: Arc<EventSignal>,
    started: AtomicBool,
    timed_events: Mutex<TimedEvents>,
    /// A thread handles timed events, so that programs that send may do so, too.
    is_in_real_time: AtomicBool,
}

/// Exclusive access to the fabric. Tasks that have received packets are woken after it ends.
pub(super) struct LockedNet<'a> {
    // Dropped in this order.
    net: MutexGuard<'a, Net>,
    _wake: WakeOnDrop<'a>,
}

struct WakeOnDrop<'a>(&'a PendingWakeups);

impl Drop for WakeOnDrop<'_> {
    fn drop(&mut self) {
        self.0.wake();
    }
}

impl Deref for LockedNet<'_> {
    type Target = Net;

    fn deref(&self) -> &Net {
        &self.net
    }
}

impl DerefMut for LockedNet<'_> {
    fn deref_mut(&mut self) -> &mut Net {
        &mut self.net
    }
}

impl Shared {
    pub(super) fn lock(&self) -> LockedNet<'_> {
        let net = self.net.lock().unwrap_or_else(PoisonError::into_inner);
        LockedNet { net, _wake: WakeOnDrop(&self.wakeups) }
    }

    /// [`Self::lock`] for a program that sends. It handles the timed events that are due, which saves the
    /// thread of these events most of its wake-ups while there is traffic.
    pub(super) fn lock_to_send(&self) -> LockedNet<'_> {
        let mut net = self.lock();
        if self.is_in_real_time.load(Ordering::Relaxed) && net.events.next_due().is_some() {
            net.run_due_events();
        }
        net
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.rescheduled.raise();
    }
}

/// Handle of a simulated fabric; clones refer to the same fabric.
///
/// Nodes are identified by the node GUIDs of the topology that the fabric was created from.
/// Methods return `None` or `false` if there is no such node or port.
#[derive(Clone)]
pub struct SimFabric {
    pub(super) shared: Arc<Shared>,
}

impl SimFabric {
    /// Creates a fabric with this topology, all devices with the properties `hardware`. `seed`
    /// determines which MADs the faults affect.
    pub fn new(topology: &Topology, hardware: Hardware, seed: u64) -> Self {
        let net = Net::new(Devices::new(topology, hardware), seed);
        let rescheduled = net.events.rescheduled.clone();
        Self {
            shared: Arc::new(Shared {
                net: Mutex::new(net),
                wakeups: Arc::default(),
                rescheduled,
                started: AtomicBool::new(false),
                timed_events: Mutex::default(),
                is_in_real_time: AtomicBool::new(false),
            }),
        }
    }

    /// Chooses what handles timed events. Has no effect on a fabric with attached ports.
    pub fn set_timed_events(&self, how: TimedEvents) {
        *self.shared.timed_events.lock().unwrap_or_else(PoisonError::into_inner) = how;
    }

    pub(super) fn timed_events(&self) -> TimedEvents {
        *self.shared.timed_events.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts the task or thread that handles timed events, unless something does so already.
    pub(super) fn start(&self) {
        if self.shared.started.swap(true, Ordering::Relaxed) {
            return;
        }
        if self.timed_events() != TimedEvents::Task && self.spawn_thread("sim-timers", None) {
            return;
        }
        let signal = self.shared.rescheduled.clone();
        let handle_due = self.event_handler();
        tokio::spawn(async move { timers::run(handle_due, &signal).await });
    }

    /// Starts the thread that handles timed events with the port whose MADs it delivers, too. False if others
    /// handle the events.
    pub(super) fn start_with_port(&self, port: &PortDeliveries) -> bool {
        if self.timed_events() == TimedEvents::Task
            || self.shared.started.swap(true, Ordering::Relaxed)
        {
            return false;
        }
        let is_started = self.spawn_thread("sim-port", Some(port.clone()));
        self.shared.started.store(is_started, Ordering::Relaxed);
        is_started
    }

    /// Starts a thread that handles timed events, and delivers the MADs of a port. False if it does not start.
    fn spawn_thread(&self, name: &str, port: Option<PortDeliveries>) -> bool {
        let signal = self.shared.rescheduled.clone();
        let handle_due = self.event_handler();
        // The sink of a port may need it. Console commands come from threads without one, and start no port.
        let runtime = Handle::try_current().ok();
        let thread = std::thread::Builder::new().name(name.to_owned());
        let started = thread.spawn(move || {
            let _context = runtime.as_ref().map(Handle::enter);
            timers::run_in_thread(handle_due, &signal, port);
        });
        self.shared.is_in_real_time.store(started.is_ok(), Ordering::Relaxed);
        started.is_ok()
    }

    /// Returns the function that handles the events that are due, as long as the fabric exists.
    fn event_handler(&self) -> impl Fn() -> NextEvent + Send + 'static {
        let weak = Arc::downgrade(&self.shared);
        move || {
            let Some(shared) = weak.upgrade() else { return NextEvent::Ended };
            let mut net = shared.lock();
            net.run_due_events();
            net.events.next_due().map_or(NextEvent::Never, NextEvent::At)
        }
    }

    /// Lets the thread of a server handle timed events, if it is to do so and nothing does yet. `wake` is
    /// called when [`Self::next_event`] has become earlier. Returns false if others handle them.
    pub(super) fn take_over_events(&self, wake: impl Fn() + Send + Sync + 'static) -> bool {
        let is_taken_over = self.timed_events() == TimedEvents::ServerThread
            && !self.shared.started.swap(true, Ordering::Relaxed);
        if is_taken_over {
            self.shared.rescheduled.wake_thread(wake);
        }
        is_taken_over
    }

    pub(super) fn handle_due_events(&self) {
        self.shared.lock().run_due_events();
    }

    /// When the next timed event is due; `None` if there is none.
    pub(super) fn next_event(&self) -> Option<Instant> {
        self.shared.lock().events.next_due()
    }

    pub(super) fn at_port<R>(
        &self,
        guid: Guid,
        num: PortNum,
        act: impl FnOnce(&mut Net, u32) -> R,
    ) -> Option<R> {
        let mut net = self.shared.lock();
        let slot = net.devices.find(guid, num)?;
        Some(act(&mut net, slot))
    }

    pub(super) fn at_node<R>(&self, guid: Guid, act: impl FnOnce(&mut Net, u32) -> R) -> Option<R> {
        self.at_port(guid, PortNum::ZERO, |net, slot| {
            let node = net.devices.port(slot).node;
            act(net, node)
        })
    }

    /// GUID of the node with a name of [`crate::fabric::node_name`].
    ///
    /// # Errors
    /// No node has the name, or several begin with it.
    pub fn node_named(&self, name: &str) -> Result<Guid, String> {
        let net = self.shared.lock();
        let node = net.devices.find_node(name).map_err(|error| error.to_string())?;
        Ok(net.devices.node(node).info.node_guid())
    }

    /// Changes the capabilities of all ports of a node: `vl_cap` is the code in PortInfo (1, 2, 3,
    /// 4, 5 for 1, 2, 4, 8, 15 data VLs), `vl_arb_cap` the number of VL arbitration entries of each
    /// priority.
    pub fn set_vl_caps(&self, guid: Guid, vl_cap: u8, vl_arb_cap: u8) -> bool {
        self.at_node(guid, |net, node| {
            for slot in net.devices.slots_of(node) {
                let info = &mut net.devices.port_mut(slot).info;
                info.set_vl_cap(vl_cap);
                info.set_vl_arb_high_cap(vl_arb_cap);
                info.set_vl_arb_low_cap(vl_arb_cap);
            }
        })
        .is_some()
    }

    /// Sets the time after which devices repeat a trap that was not repressed (initially 500 ms).
    pub fn set_trap_interval(&self, interval: Duration) {
        self.shared.lock().traps.interval = interval;
    }

    /// LFT of a switch: output port by LID, up to the last block written.
    pub fn lft(&self, guid: Guid) -> Option<Vec<u8>> {
        self.at_node(guid, |net, node| net.devices.switch(node).map(|sw| sw.lft.clone())).flatten()
    }

    /// One position of the MFT of a switch: port masks by MLID - 0xC000.
    pub fn mft(&self, guid: Guid, position: u8) -> Option<Vec<u16>> {
        self.at_node(guid, |net, node| {
            let cap = net.devices.switch(node)?.info.multicast_fdb_cap();
            let mut table = Vec::with_capacity(usize::from(cap));
            for block in 0..u32::from(cap.div_ceil(32)) {
                let data = net.devices.mft(node, u32::from(position) << 28 | block, None)?;
                table.extend(MftBlock::read(&data).0);
            }
            Some(table)
        })
        .flatten()
    }

    /// SL to VL mapping from an input to an output port. On a channel adapter, (0, 0) means port 1.
    pub fn sl2vl(&self, guid: Guid, input: PortNum, output: PortNum) -> Option<SlToVl> {
        let modifier = u32::from(input.0) << 8 | u32::from(output.0);
        self.at_node(guid, |net, node| {
            let own = if net.devices.is_switch(node) { PortNum::ZERO } else { PortNum(1) };
            let slot = net.devices.slot(node, own)?;
            let data = net.devices.sl_to_vl(slot, modifier, None)?;
            Some(SlToVl(std::array::from_fn(|i| data[i])))
        })
        .flatten()
    }

    /// Block 1 to 4 of the VL arbitration table of a port.
    pub fn vl_arb(&self, guid: Guid, num: PortNum, block: u8) -> Option<[u8; 64]> {
        let modifier = u32::from(block) << 16 | u32::from(num.0);
        self.at_port(guid, num, |net, slot| net.devices.vl_arb(slot, modifier, None)).flatten()
    }

    /// One block of 32 entries of the P_Key table of a port, in network byte order.
    pub fn pkeys(&self, guid: Guid, num: PortNum, block: u16) -> Option<[u8; 64]> {
        let modifier = u32::from(num.0) << 16 | u32::from(block);
        self.at_port(guid, num, |net, slot| net.devices.pkeys(slot, modifier, None)).flatten()
    }

    /// GUIDInfo of an end port.
    pub fn guids(&self, guid: Guid, num: PortNum) -> Option<Vec<Guid>> {
        self.at_port(guid, num, |net, slot| {
            let tables = net.devices.port(slot).tables.as_ref();
            tables.map_or_else(
                || net.devices.factory_tables(slot).guids,
                |tables| tables.guids.clone(),
            )
        })
    }

    pub fn port_info(&self, guid: Guid, num: PortNum) -> Option<PortInfo> {
        self.at_port(guid, num, |net, slot| net.devices.port(slot).info)
    }

    pub fn switch_info(&self, guid: Guid) -> Option<SwitchInfo> {
        self.at_node(guid, |net, node| net.devices.switch(node).map(|switch| switch.info)).flatten()
    }

    /// True if a packet from this end port reaches the port that owns `lid` by the current LFTs;
    /// with `needs_active`, through ACTIVE links only.
    pub fn reaches(&self, guid: Guid, num: PortNum, lid: Lid, needs_active: bool) -> bool {
        self.at_port(guid, num, |net, slot| {
            net.devices.forward_by_lid(slot, lid, needs_active, &mut NoFaults).is_some()
        })
        .unwrap_or(false)
    }

    /// The end ports of `from` that do not [reach](Self::reaches) `lid`.
    pub fn cut_off(
        &self,
        from: &[(Guid, PortNum)],
        lid: Lid,
        needs_active: bool,
    ) -> Vec<(Guid, PortNum)> {
        let net = self.shared.lock();
        let slots: Vec<Option<u32>> =
            from.iter().map(|&(guid, num)| net.devices.find(guid, num)).collect();
        let present: Vec<u32> = slots.iter().copied().flatten().collect();
        let cut_off: HashSet<u32> =
            net.devices.cut_off(&present, lid, needs_active).into_iter().collect();
        let ends = from.iter().zip(&slots).filter(|(_, slot)| is_cut_off(&cut_off, slot));
        ends.map(|(&end, _)| end).collect()
    }

    /// Number of events of an end port so far.
    pub fn port_events(&self, guid: Guid, num: PortNum) -> Option<PortEvents> {
        self.at_port(guid, num, |net, slot| {
            net.devices.port_events.get(&slot).copied().unwrap_or_default()
        })
    }

    /// Both ends of all links that are up.
    pub fn links(&self) -> Vec<[(Guid, PortNum); 2]> {
        let net = self.shared.lock();
        let devices = &net.devices;
        let mut guids = vec![Guid(0); devices.nodes.len()];
        for (&guid, &node) in &devices.by_guid {
            guids[node as usize] = guid;
        }
        let slots = 0..devices.ports.len() as u32;
        let pairs = slots.filter_map(|slot| Some((slot, devices.linked_peer(slot)?)));
        pairs
            .filter(|(slot, peer)| slot < peer)
            .map(|(a, b)| [end(&guids, devices, a), end(&guids, devices, b)])
            .collect()
    }

    /// Numbers of Gets and Sets of an attribute that the devices' agents received.
    pub fn requests(&self, attr_id: u16) -> [u64; 2] {
        self.shared.lock().smas.requests.get(&attr_id).copied().unwrap_or_default()
    }

    /// Number of Sets of any attribute that the devices' agents received.
    pub fn sets(&self) -> u64 {
        self.shared.lock().smas.requests.values().map(|[_, sets]| sets).sum()
    }

    /// The congestion control settings of an end port (port 0 of a switch).
    pub fn congestion_settings(&self, guid: Guid, num: PortNum) -> Option<PortCongestionSettings> {
        let net = self.shared.lock();
        Some(net.congestion.settings(net.end_port_at(guid, num)?))
    }

    /// Changes the congestion control settings of an end port, as another program could.
    pub fn change_congestion_settings(
        &self,
        guid: Guid,
        num: PortNum,
        change: impl FnOnce(&mut PortCongestionSettings),
    ) -> bool {
        let mut net = self.shared.lock();
        let Some(slot) = net.end_port_at(guid, num) else { return false };
        change(net.congestion.settings_mut(slot));
        true
    }

    /// Numbers of Gets and Sets of a congestion control attribute that the devices' agents
    /// received.
    pub fn congestion_requests(&self, attr_id: u16) -> [u64; 2] {
        self.shared.lock().congestion.requests.get(&attr_id).copied().unwrap_or_default()
    }

    /// Resets the numbers of requests received.
    pub fn reset_counters(&self) {
        let mut net = self.shared.lock();
        net.smas.requests.clear();
        net.congestion.requests.clear();
    }
}

fn end(guids: &[Guid], devices: &Devices, slot: u32) -> (Guid, PortNum) {
    let port = devices.port(slot);
    (guids[port.node as usize], port.num)
}

fn is_cut_off(cut_off: &HashSet<u32>, slot: &Option<u32>) -> bool {
    slot.is_none_or(|slot| cut_off.contains(&slot))
}
