//! The tables of adaptive routing of a simulated switch, and its limits.

use crate::ids::{Lid, Sl};
use crate::wire::attr::tables::LFT_NO_PATH;
use crate::wire::mad::Status;
use crate::wire::smp::DATA_SIZE;
use crate::wire::vendor::adaptive::{
    AR_GROUP_BLOCK, AR_LFT_BLOCK, ArEntry, ArGroupBlock, ArGroupCopy, ArInfo, ArLftBlock, ArState,
    GroupPorts,
};
use crate::wire::vendor::facts::{AR_BLOCK, AR_GROUP_COPY_SOURCE};

/// The limits of a switch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AdaptiveLimits {
    pub group_cap: u16,
    /// A Set of the plain forwarding table does not switch adaptive routing off.
    pub survives_plain_tables: bool,
    /// The switch replaces ports that are down by itself.
    pub has_fast_recovery: bool,
    pub has_group_copy: bool,
}

impl Default for AdaptiveLimits {
    fn default() -> Self {
        Self {
            group_cap: 1_024,
            survives_plain_tables: false,
            has_fast_recovery: true,
            has_group_copy: true,
        }
    }
}

/// What Sets have configured at a switch.
#[derive(Clone, Default)]
pub(super) struct AdaptiveTables {
    /// The part of ARInfo that can be set.
    pub(super) info: ArInfo,
    groups: Vec<GroupPorts>,
    entries: Vec<ArEntry>,
}

const UNUSED: ArEntry = ArEntry { state: ArState::Static, port: LFT_NO_PATH, group: 0 };

/// Transports of packets, as bits of ARInfo.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Transport {
    Datagram = 1,
    Connection = 2,
}

/// What a switch knows of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PacketClass {
    pub transport: Transport,
    pub sl: Sl,
}

impl PacketClass {
    /// MADs, which are unreliable datagrams.
    pub(super) const MAD: Self = Self { transport: Transport::Datagram, sl: Sl(0) };
}

/// A switch as its tables of adaptive routing say.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AdaptiveView {
    pub info: ArInfo,
    pub groups: Vec<GroupPorts>,
    pub entries: Vec<ArEntry>,
}

/// A block of a table that a request names.
#[derive(Clone, Copy)]
pub(super) struct BlockRequest<'a> {
    pub modifier: u32,
    /// The contents of a Set.
    pub write: Option<&'a [u8; DATA_SIZE]>,
}

impl AdaptiveTables {
    /// Reads or sets a block of groups of a switch with `num_ports` ports.
    pub(super) fn group_block(
        &mut self,
        request: BlockRequest<'_>,
        limits: &AdaptiveLimits,
        num_ports: u8,
    ) -> Result<[u8; DATA_SIZE], u16> {
        let first = table_index(request.modifier, AR_GROUP_BLOCK, limits.group_cap.into())?;
        if let Some(data) = request.write {
            let groups = ArGroupBlock(*data).groups();
            if !groups.iter().all(|ports| has_valid_ports(ports, num_ports)) {
                return Err(Status::BAD_FIELD);
            }
            put(&mut self.groups, first, &groups, [0; 4]);
        }
        Ok(ArGroupBlock::of(take(&self.groups, first, [0; 4])).0)
    }

    /// Reads or sets a block of the forwarding table, which has entries for `cap` LIDs.
    pub(super) fn entry_block(
        &mut self,
        request: BlockRequest<'_>,
        limits: &AdaptiveLimits,
        cap: u16,
    ) -> Result<[u8; DATA_SIZE], u16> {
        let first = table_index(request.modifier, AR_LFT_BLOCK, cap.into())?;
        if let Some(data) = request.write {
            let entries = ArLftBlock(*data).entries();
            if entries.iter().any(|entry| entry.group >= limits.group_cap) {
                return Err(Status::BAD_FIELD);
            }
            put(&mut self.entries, first, &entries, UNUSED);
        }
        Ok(ArLftBlock::of(take(&self.entries, first, UNUSED)).0)
    }

    /// The entry for a LID.
    pub(super) fn entry(&self, lid: Lid) -> Option<ArEntry> {
        self.entries.get(lid.index()).copied()
    }

    pub(super) fn view(&self) -> AdaptiveView {
        AdaptiveView { info: self.info, groups: self.groups.clone(), entries: self.entries.clone() }
    }

    /// Forwards by the plain table.
    pub(super) fn switch_off(&mut self) {
        self.info.set_adaptive_routing(false);
        self.info.set_fast_recovery(false);
    }

    pub(super) fn is_in_force(&self) -> bool {
        self.info.adaptive_routing() || self.info.fast_recovery()
    }

    /// The ports of the group of an entry.
    pub(super) fn group(&self, entry: &ArEntry) -> Option<GroupPorts> {
        let is_used = entry.group > 0 && entry.group <= self.info.group_top();
        let is_static = entry.state == ArState::Static;
        self.groups.get(usize::from(entry.group)).copied().filter(|_| is_used && !is_static)
    }

    /// True if each packet of a class takes any port of the group.
    pub(super) fn is_routed(&self, entry: &ArEntry, packet: PacketClass) -> bool {
        let has_sl = !self.info.by_sl() || self.info.sl_mask() >> packet.sl.0 & 1 == 1;
        let is_excluded = self.info.excluded_transports() & packet.transport as u8 != 0;
        let has_choice = matches!(entry.state, ArState::Free | ArState::Bounded);
        self.info.adaptive_routing() && has_choice && has_sl && !is_excluded
    }

    pub(super) fn set_info(&mut self, wanted: ArInfo, limits: &AdaptiveLimits) -> Result<(), u16> {
        let is_beyond = wanted.group_top() >= limits.group_cap
            || wanted.fast_recovery() && !limits.has_fast_recovery
            || wanted.notifications();
        if is_beyond {
            return Err(Status::BAD_FIELD);
        }
        self.info = wanted;
        Ok(())
    }

    pub(super) fn shown_info(&self, limits: &AdaptiveLimits) -> ArInfo {
        let mut info = self.info;
        info.set_by_sl_supported(true);
        info.set_by_transport_supported(true);
        info.set_group_copy_supported(limits.has_group_copy.into());
        info.set_fast_recovery_supported(limits.has_fast_recovery);
        info.set_group_cap(limits.group_cap);
        info
    }

    pub(super) fn copy_group(
        &mut self,
        modifier: u32,
        copy: &ArGroupCopy,
        cap: u16,
    ) -> Result<(), u16> {
        let source = modifier & AR_GROUP_COPY_SOURCE.value;
        if source != modifier || copy.ranges().any(|[_, last]| last >= cap) {
            return Err(Status::BAD_FIELD);
        }
        let ports = self.groups.get(source as usize).copied().unwrap_or_default();
        for group in copy.ranges().flat_map(|[first, last]| first..=last) {
            put(&mut self.groups, group.into(), &[ports], [0; 4]);
        }
        Ok(())
    }
}

fn has_valid_ports(ports: &GroupPorts, num_ports: u8) -> bool {
    (0..=u8::MAX).all(|port| !has_port(ports, port) || (1..=num_ports).contains(&port))
}

/// Index of the first element of a block.
fn table_index(modifier: u32, block: usize, cap: usize) -> Result<usize, u16> {
    let number = modifier & AR_BLOCK.value;
    let first = number as usize * block;
    if number == modifier && first < cap { Ok(first) } else { Err(Status::BAD_FIELD) }
}

pub(super) fn has_port(ports: &GroupPorts, port: u8) -> bool {
    ports[usize::from(port) / 64] >> (port % 64) & 1 == 1
}

fn put<T: Copy>(table: &mut Vec<T>, first: usize, block: &[T], unused: T) {
    if table.len() < first + block.len() {
        table.resize(first + block.len(), unused);
    }
    table[first..first + block.len()].copy_from_slice(block);
}

fn take<T: Copy, const N: usize>(table: &[T], first: usize, unused: T) -> [T; N] {
    std::array::from_fn(|index| table.get(first + index).copied().unwrap_or(unused))
}
