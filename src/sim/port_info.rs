//! Set(PortInfo): which values a device takes (IBA vol. 1, 14.2.5.6). A Set with one bad value
//! changes nothing and is answered with [`Status::BAD_FIELD`].

use super::device::Devices;
use crate::wire::attr::{PhysState, PortInfo, PortState};
use crate::wire::mad::Status;

/// Where a Set is going to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// A port of a channel adapter or router.
    EndPort,
    /// The base port 0 of a switch: no link and no state.
    BasePort0,
    /// The enhanced port 0 of a switch: states, but no link.
    EnhancedPort0,
    /// A cabled port of a switch: no LID.
    External,
}

/// Copies fields from one PortInfo to another.
macro_rules! copy {
    ($from:expr, $to:expr; $($get:ident $set:ident),* $(,)?) => { $($to.$set($from.$get());)* };
}

impl Devices {
    /// Applies `wanted` to the port at `slot` and tells the status.
    pub(super) fn set_port_info(&mut self, slot: u32, wanted: &PortInfo) -> u16 {
        let place = self.place(slot);
        let current = self.port(slot).info;
        if !acceptable(place, &current, wanted) {
            return Status::BAD_FIELD;
        }
        let mut info = current;
        if place != Place::External {
            copy!(wanted, info;
                m_key set_m_key, gid_prefix set_gid_prefix, lid set_lid, lmc set_lmc,
                master_sm_lid set_master_sm_lid, master_sm_sl set_master_sm_sl,
                m_key_lease_period set_m_key_lease_period,
                m_key_protect_bits set_m_key_protect_bits,
                m_key_violations set_m_key_violations,
                q_key_violations set_q_key_violations,
                subnet_timeout set_subnet_timeout, init_type set_init_type,
            );
        }
        copy!(wanted, info;
            p_key_violations set_p_key_violations, vl_high_limit set_vl_high_limit,
            local_phy_errors set_local_phy_errors, overrun_errors set_overrun_errors,
        );
        if place == Place::EndPort || place == Place::External {
            set_link_fields(&current, wanted, &mut info, place);
        }
        self.port_mut(slot).info = info;
        if place != Place::BasePort0 {
            self.command_state(slot, wanted);
        }
        Status::OK
    }

    fn place(&self, slot: u32) -> Place {
        let node = self.port(slot).node;
        match (self.is_switch(node), self.port(slot).num.0) {
            (false, _) => Place::EndPort,
            (true, 0) if self.hardware.enhanced_port0 => Place::EnhancedPort0,
            (true, 0) => Place::BasePort0,
            (true, _) => Place::External,
        }
    }

    /// Carries out the state changes of a Set that was found acceptable.
    fn command_state(&mut self, slot: u32, wanted: &PortInfo) {
        match wanted.phys_state() {
            PhysState::Disabled => {
                self.port_mut(slot).info.set_phys_state(PhysState::Disabled);
                self.link_down(slot);
                return;
            }
            PhysState::Polling => {
                self.port_mut(slot).info.set_phys_state(PhysState::Polling);
                self.link_down(slot);
                self.link_train(slot);
                return;
            }
            PhysState::Sleep => {
                self.link_down(slot);
                self.port_mut(slot).info.set_phys_state(PhysState::Sleep);
                return;
            }
            _ => {}
        }
        match wanted.port_state() {
            PortState::Down => {
                self.link_down(slot);
                self.link_train(slot);
            }
            PortState::Armed => self.port_mut(slot).info.set_port_state(PortState::Armed),
            PortState::Active => {
                self.port_mut(slot).info.set_port_state(PortState::Active);
                self.activated(slot);
            }
            _ => {}
        }
    }
}

/// The fields that only a port with a link has.
fn set_link_fields(current: &PortInfo, wanted: &PortInfo, info: &mut PortInfo, place: Place) {
    copy!(wanted, info;
        neighbor_mtu set_neighbor_mtu, vl_stall_count set_vl_stall_count, hoq_life set_hoq_life,
    );
    if place == Place::External {
        copy!(wanted, info;
            partition_enforcement_in set_partition_enforcement_in,
            partition_enforcement_out set_partition_enforcement_out,
            filter_raw_in set_filter_raw_in, filter_raw_out set_filter_raw_out,
        );
    }
    if wanted.operational_vls() != 0 {
        info.set_operational_vls(wanted.operational_vls());
    }
    if wanted.link_down_default_state() != 0 {
        info.set_link_down_default_state(wanted.link_down_default_state());
    }
    match wanted.link_width_enabled() {
        0 => {}
        0xFF => info.set_link_width_enabled(current.link_width_supported()),
        mask => info.set_link_width_enabled(mask),
    }
    match wanted.link_speed_enabled() {
        0 => {}
        0xF => info.set_link_speed_enabled(current.link_speed_supported()),
        mask => info.set_link_speed_enabled(mask),
    }
}

fn acceptable(place: Place, current: &PortInfo, wanted: &PortInfo) -> bool {
    let address = place == Place::External || address_is_legal(place, wanted);
    let link =
        matches!(place, Place::BasePort0 | Place::EnhancedPort0) || link_is_legal(current, wanted);
    let state = place == Place::BasePort0 || state_is_legal(place, current, wanted);
    address && link && state
}

fn address_is_legal(place: Place, wanted: &PortInfo) -> bool {
    let (lid, lmc) = (wanted.lid(), wanted.lmc());
    let span = (1u32 << lmc) - 1;
    lid.is_unicast()
        && u32::from(lid.0) & span == 0
        && u32::from(lid.0) + span <= u32::from(crate::ids::Lid::UNICAST_MAX.0)
        && (lmc == 0 || place != Place::BasePort0)
        && wanted.master_sm_lid().0 <= crate::ids::Lid::UNICAST_MAX.0
}

fn link_is_legal(current: &PortInfo, wanted: &PortInfo) -> bool {
    let width = wanted.link_width_enabled();
    let speed = wanted.link_speed_enabled();
    (1..=current.mtu_cap()).contains(&wanted.neighbor_mtu())
        && wanted.operational_vls() <= current.vl_cap()
        && wanted.link_down_default_state() <= 2
        && (width == 0xFF || width & !current.link_width_supported() == 0)
        && (speed == 0xF || speed & !current.link_speed_supported() == 0)
}

/// INIT → ARMED → ACTIVE and nothing else upwards; DOWN from anywhere. A physical state may be
/// commanded only together with DOWN or no change.
fn state_is_legal(place: Place, current: &PortInfo, wanted: &PortInfo) -> bool {
    use PortState::{Active, Armed, Down, Init, NoChange};
    let state = match (current.port_state(), wanted.port_state()) {
        (_, NoChange) => true,
        (_, Down) => place != Place::EnhancedPort0,
        (Init | Armed, Armed) | (Armed | Active, Active) => true,
        _ => false,
    };
    let phys = match wanted.phys_state() {
        PhysState::NoChange => true,
        PhysState::Sleep | PhysState::Polling | PhysState::Disabled => {
            place != Place::EnhancedPort0 && matches!(wanted.port_state(), NoChange | Down)
        }
        _ => false,
    };
    state && phys
}
