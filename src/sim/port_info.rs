//! Set(PortInfo): values that a device accepts (IBA vol. 1, 14.2.5.6). A Set with one invalid
//! value changes nothing and gets the status [`Status::BAD_FIELD`].

use super::devices::Devices;
use crate::wire::attr::{PhysState, PortInfo, PortState};
use crate::wire::mad::Status;

/// Values of LinkSpeedExtEnabled.
const NO_EXTENDED_SPEED: u8 = 30;
const ALL_EXTENDED_SPEEDS: u8 = 31;

/// Type of the port to set, which determines its writable fields.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PortType {
    /// A port of a channel adapter or router.
    EndPort,
    /// Base switch port 0: no link and no port state.
    BasePort0,
    /// Enhanced switch port 0: port state, but no link.
    EnhancedPort0,
    /// External port of a switch: no LID.
    External,
}

/// Copies fields from one PortInfo to another, by their getters and setters.
macro_rules! copy {
    ($from:expr, $to:expr; $($get:ident $set:ident),* $(,)?) => { $($to.$set($from.$get());)* };
}

impl Devices {
    /// Applies `wanted` to the port at `slot`; returns the status of the response.
    pub(super) fn set_port_info(&mut self, slot: u32, wanted: &PortInfo) -> u16 {
        let port_type = self.port_type(slot);
        let current = self.port(slot).info;
        if !is_acceptable(port_type, &current, wanted) {
            return Status::BAD_FIELD;
        }
        let mut info = current;
        if port_type != PortType::External {
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
        if port_type == PortType::EndPort || port_type == PortType::External {
            set_link_fields(&current, wanted, &mut info, port_type);
        }
        self.port_mut(slot).info = info;
        if port_type != PortType::BasePort0 {
            self.apply_state(slot, wanted);
        }
        Status::OK
    }

    fn port_type(&self, slot: u32) -> PortType {
        let port = self.port(slot);
        match (self.switch(port.node), port.num.0) {
            (None, _) => PortType::EndPort,
            (Some(switch), 0) if switch.info.enhanced_port0() => PortType::EnhancedPort0,
            (Some(_), 0) => PortType::BasePort0,
            (Some(_), _) => PortType::External,
        }
    }

    /// Applies the link state changes of an acceptable Set.
    fn apply_state(&mut self, slot: u32, wanted: &PortInfo) {
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
                self.activate(slot);
                self.activate_peer(slot);
            }
            _ => {}
        }
    }
}

/// Copies the fields that only ports with a link have.
fn set_link_fields(
    current: &PortInfo,
    wanted: &PortInfo,
    info: &mut PortInfo,
    port_type: PortType,
) {
    copy!(wanted, info;
        neighbor_mtu set_neighbor_mtu, vl_stall_count set_vl_stall_count, hoq_life set_hoq_life,
    );
    if port_type == PortType::External {
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
    match wanted.link_speed_ext_enabled() {
        0 => {}
        ALL_EXTENDED_SPEEDS => {
            info.set_link_speed_ext_enabled(current.link_speed_ext_supported());
        }
        NO_EXTENDED_SPEED => info.set_link_speed_ext_enabled(0),
        mask => info.set_link_speed_ext_enabled(mask),
    }
}

fn is_acceptable(port_type: PortType, current: &PortInfo, wanted: &PortInfo) -> bool {
    let address = port_type == PortType::External || is_address_legal(port_type, wanted);
    let link = matches!(port_type, PortType::BasePort0 | PortType::EnhancedPort0)
        || is_link_legal(current, wanted);
    let state = port_type == PortType::BasePort0 || is_state_legal(port_type, current, wanted);
    address && link && state
}

fn is_address_legal(port_type: PortType, wanted: &PortInfo) -> bool {
    let lid = wanted.lid();
    let lmc = wanted.lmc();
    let span = (1u32 << lmc) - 1;
    lid.is_unicast()
        && u32::from(lid.0) & span == 0
        && u32::from(lid.0) + span <= u32::from(crate::ids::Lid::UNICAST_MAX.0)
        && (lmc == 0 || port_type != PortType::BasePort0)
        && wanted.master_sm_lid().0 <= crate::ids::Lid::UNICAST_MAX.0
}

fn is_link_legal(current: &PortInfo, wanted: &PortInfo) -> bool {
    let width = wanted.link_width_enabled();
    let speed = wanted.link_speed_enabled();
    let extended = wanted.link_speed_ext_enabled();
    let is_extended_legal = matches!(extended, NO_EXTENDED_SPEED | ALL_EXTENDED_SPEEDS)
        || extended & !current.link_speed_ext_supported() == 0;
    (1..=current.mtu_cap()).contains(&wanted.neighbor_mtu())
        && wanted.operational_vls() <= current.vl_cap()
        && wanted.link_down_default_state() <= 2
        && (width == 0xFF || width & !current.link_width_supported() == 0)
        && (speed == 0xF || speed & !current.link_speed_supported() == 0)
        && is_extended_legal
}

/// Legal state changes: INIT to ARMED, ARMED to ACTIVE, and any state to DOWN. The physical state
/// can be changed only together with DOWN or no change of the port state.
fn is_state_legal(port_type: PortType, current: &PortInfo, wanted: &PortInfo) -> bool {
    use PortState::{Active, Armed, Down, Init, NoChange};
    let state = match (current.port_state(), wanted.port_state()) {
        (_, NoChange) => true,
        (_, Down) => port_type != PortType::EnhancedPort0,
        (Init | Armed, Armed) | (Armed | Active, Active) => true,
        _ => false,
    };
    let phys = match wanted.phys_state() {
        PhysState::NoChange => true,
        PhysState::Sleep | PhysState::Polling | PhysState::Disabled => {
            port_type != PortType::EnhancedPort0 && matches!(wanted.port_state(), NoChange | Down)
        }
        _ => false,
    };
    state && phys
}
