//! Log lines of received traps and of their reports to subscribers, with OpenSM's wording and level.

use crate::ids::{Gid, Guid, Lid};
use crate::sa::registry::groups::GroupEvent;
use crate::wire::attr::{Notice, TrapNumber};
use crate::wire::vendor::MELLANOX;
use crate::wire::vendor::facts::{TRAP_VPORT_BAD_P_KEY, TRAP_VPORT_BAD_Q_KEY};
use tracing::{error, info};

/// Name of the function in OpenSM's log lines.
const PLACE: &str = "log_trap_info";

/// Logs a trap of a device.
pub fn received(notice: &Notice, from: Lid, tid: u64) {
    error!(place = PLACE, event = "trap", "{}", describe(notice, from, tid));
    let key = match notice.trap_number() {
        _ if !notice.is_generic() => return received_of_vport(notice),
        TrapNumber::BAD_P_KEY => "P",
        TrapNumber::BAD_Q_KEY => "Q",
        _ => return,
    };
    error!(
        place = PLACE,
        "Bad {key}_Key:0x{:x} on SL:{} from LID1:{} QP1:0x{:x} to LID2:{} QP2:0x{:x}",
        notice.bad_key(),
        notice.bad_key_sl(),
        notice.subject_lid(),
        notice.source_qp(),
        notice.destination_lid(),
        notice.destination_qp()
    );
}

/// Logs the details of a trap about a wrong key at a vport.
fn received_of_vport(notice: &Notice) {
    let key = match notice.vendor_trap_number() {
        _ if notice.producer_type() != MELLANOX => return,
        number if number == TRAP_VPORT_BAD_P_KEY.value => "P",
        number if number == TRAP_VPORT_BAD_Q_KEY.value => "Q",
        _ => return,
    };
    error!(
        place = PLACE,
        "Bad {key}_Key:0x{:x} at vport {} on SL:{} from LID1:{} QP1:0x{:x} to LID2:{} QP2:0x{:x}",
        notice.bad_key(),
        notice.bad_key_vport_index(),
        notice.bad_key_sl(),
        notice.subject_lid(),
        notice.source_qp(),
        notice.destination_lid(),
        notice.destination_qp()
    );
}

/// Logs that the notice of a device is reported to its subscribers, whether there are any or not.
/// `gid`: that of the port with the LID `from`.
pub fn reporting(notice: &Notice, from: Lid, gid: Gid) {
    info!(place = "log_notice", "{}", describe_report(notice, from, gid));
}

/// Logs that the creation or deletion of a multicast group is reported.
pub fn reporting_group(event: &GroupEvent) {
    let number = if event.created { TrapNumber::MCAST_CREATED } else { TrapNumber::MCAST_DELETED };
    info!(
        place = "log_notice",
        "Reporting Informational Notice \"{}\", MGID:{}",
        meaning(number),
        event.mgid
    );
}

fn describe_report(notice: &Notice, from: Lid, gid: Gid) -> String {
    let kind = notice.notice_type();
    let number = notice.trap_number();
    if !notice.is_generic() {
        let vendor = notice.producer_type();
        return format!(
            "Reporting Vendor Notice type:{kind} vend:{vendor} dev:{number} from LID:{from} GID:{gid}"
        );
    }
    let text = meaning(number);
    let Guid(guid) = gid.guid();
    let device = format!("LID {from}, GUID 0x{guid:016x}");
    let (urgency, details) = match number {
        TrapNumber::LINK_STATE => {
            return format!("Reporting Urgent Notice \"{text}\" from switch {device}");
        }
        TrapNumber::LINK_INTEGRITY..=TrapNumber::FLOW_CONTROL => {
            ("Urgent", format!(", port {}", notice.port()))
        }
        TrapNumber::LOCAL_CHANGES | TrapNumber::SYSTEM_GUID => {
            ("Informational", changes_of_device(notice))
        }
        TrapNumber::BAD_M_KEY | TrapNumber::BAD_P_KEY | TrapNumber::BAD_Q_KEY => {
            ("Security", wrong_key(notice))
        }
        TrapNumber::SWITCH_BAD_P_KEY => {
            let packet = wrong_p_key_at_switch(notice);
            return format!("Reporting Security Notice \"{text}\" from switch {device} {packet}");
        }
        _ => {
            return format!(
                "Reporting Generic Notice type:{kind} num:{number} ({text}) from LID:{from} GID:{gid}"
            );
        }
    };
    format!("Reporting {urgency} Notice \"{text}\" from {device}{details}")
}

fn changes_of_device(notice: &Notice) -> String {
    if notice.trap_number() == TrapNumber::SYSTEM_GUID {
        return format!(", new SysImageGUID 0x{:016x}", notice.system_guid().0);
    }
    if notice.other_local_changes() {
        let flags = notice.change_flags();
        let mask = notice.capability_mask2();
        return format!(", ChangeFlags 0x{flags:04x}, CapabilityMask2 0x{mask:04x}");
    }
    format!(", new CapabilityMask 0x{:08x}", notice.capability_mask())
}

fn wrong_key(notice: &Notice) -> String {
    let key = match notice.trap_number() {
        TrapNumber::BAD_Q_KEY => "Q_Key",
        TrapNumber::BAD_P_KEY => "P_Key",
        // OpenSM appends the M_Key, which may be that of another device.
        _ => {
            return format!(
                ", Method 0x{:x}, Attribute 0x{:x}, AttrMod 0x{:x}",
                notice.method(),
                notice.attr_id(),
                notice.attr_mod()
            );
        }
    };
    format!(
        " : {}, {key} 0x{:x}, SL {}, QP1 0x{:x}, QP2 0x{:x}, {}",
        lids(notice),
        notice.bad_key(),
        notice.bad_key_sl(),
        notice.source_qp(),
        notice.destination_qp(),
        gids(notice)
    )
}

fn wrong_p_key_at_switch(notice: &Notice) -> String {
    format!(
        "port {} : data_valid 0x{:04x}, {}, PKey 0x{:04x}, SL {}, QP1 0x{:x}, QP2 0x{:x}, {}",
        notice.switch_port(),
        notice.data_valid(),
        lids(notice),
        notice.switch_p_key(),
        notice.switch_sl(),
        notice.switch_source_qp(),
        notice.switch_destination_qp(),
        gids(notice)
    )
}

fn lids(notice: &Notice) -> String {
    format!("LID1 {}, LID2 {}", notice.subject_lid(), notice.destination_lid())
}

fn gids(notice: &Notice) -> String {
    let [source, destination] = notice.packet_gids();
    format!("GID1 {source}, GID2 {destination}")
}

fn describe(notice: &Notice, from: Lid, tid: u64) -> String {
    let kind = notice.notice_type();
    let number = notice.trap_number();
    let producer = notice.producer_type();
    if !notice.is_generic() {
        return format!(
            "Received Vendor Notice type:{kind} vend:0x{producer:06X} dev:{number} from LID:{from} \
             TID:0x{tid:016x}"
        );
    }
    let has_port = (TrapNumber::LINK_INTEGRITY..=TrapNumber::FLOW_CONTROL).contains(&number);
    let port = if has_port { format!(" Port {}", notice.port()) } else { String::new() };
    format!(
        "Received Generic Notice type:{kind} num:{number} ({}) Producer:{producer} ({}) from \
         LID:{from}{port} TID:0x{tid:016x}",
        meaning(number),
        producer_name(producer)
    )
}

fn meaning(number: u16) -> &'static str {
    match number {
        TrapNumber::GID_IN => "GID in service",
        TrapNumber::GID_OUT => "GID out of service",
        TrapNumber::MCAST_CREATED => "New mcast group created",
        TrapNumber::MCAST_DELETED => "Mcast group deleted",
        TrapNumber::LINK_STATE => "Link state change",
        TrapNumber::LINK_INTEGRITY => "Local Link integrity threshold reached",
        TrapNumber::BUFFER_OVERRUN => "Excessive Buffer Overrun Threshold reached",
        TrapNumber::FLOW_CONTROL => "Flow Control Update watchdog timer expired",
        TrapNumber::LOCAL_CHANGES => {
            "CapabilityMask, NodeDescription, Link [Width|Speed] Enabled, SM priority changed"
        }
        TrapNumber::SYSTEM_GUID => "System Image GUID changed",
        TrapNumber::BAD_M_KEY => "Bad M_Key",
        TrapNumber::BAD_P_KEY => "Bad P_Key",
        TrapNumber::BAD_Q_KEY => "Bad Q_Key",
        TrapNumber::SWITCH_BAD_P_KEY => "Bad P_Key (switch external port)",
        _ => "Unknown",
    }
}

/// Name of a node type in the producer type of a generic notice.
fn producer_name(producer: u32) -> &'static str {
    match producer {
        1 => "Channel Adapter",
        2 => "Switch",
        3 => "Router",
        4 => "Class Manager",
        _ => "UNKNOWN",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::PortNum;

    #[test]
    fn reports_have_the_wording_of_opensm() {
        let gid = Gid::new(0xfe80_0000_0000_0000, Guid(0x20_0001));
        let mut notice = Notice::default();
        notice.set_is_generic(true);
        notice.set_notice_type(1);
        notice.set_trap_number(128);
        assert_eq!(
            line(&notice, gid),
            "Reporting Urgent Notice \"Link state change\" from switch LID 7, GUID 0x0000000000200001"
        );
        notice.set_trap_number(130);
        notice.set_port(PortNum(3));
        assert_eq!(
            line(&notice, gid),
            "Reporting Urgent Notice \"Excessive Buffer Overrun Threshold reached\" from LID 7, GUID \
             0x0000000000200001, port 3"
        );
        notice.set_trap_number(144);
        notice.set_capability_mask(0x48);
        assert!(
            line(&notice, gid).ends_with(", new CapabilityMask 0x00000048"),
            "{}",
            line(&notice, gid)
        );
        // As captured: P_Key 0x8001 on SL 2, from QP 0x48 to QP 1.
        let mut notice = Notice::default();
        notice.set_is_generic(true);
        notice.set_trap_number(257);
        notice.set_subject_lid(Lid(1));
        notice.set_destination_lid(Lid(2));
        notice.0[16..28].copy_from_slice(&[0, 0, 0x80, 1, 0x20, 0, 0, 0x48, 0, 0, 0, 1]);
        notice.0[28..44].copy_from_slice(&gid.0);
        assert_eq!(
            line(&notice, gid),
            "Reporting Security Notice \"Bad P_Key\" from LID 7, GUID 0x0000000000200001 : LID1 1, \
             LID2 2, P_Key 0x8001, SL 2, QP1 0x48, QP2 0x1, GID1 fe80::20:1, GID2 ::"
        );
        notice.set_trap_number(259);
        notice.0[10..12].copy_from_slice(&[0, 0xff]);
        notice.0[16..26].copy_from_slice(&[0x80, 1, 0x20, 0, 0, 0x48, 0, 0, 0, 1]);
        notice.0[26..42].copy_from_slice(&gid.0);
        notice.0[42..60].fill(0);
        notice.0[60] = 5;
        assert_eq!(
            line(&notice, gid),
            "Reporting Security Notice \"Bad P_Key (switch external port)\" from switch LID 7, GUID \
             0x0000000000200001 port 5 : data_valid 0x00ff, LID1 1, LID2 2, PKey 0x8001, SL 2, QP1 \
             0x48, QP2 0x1, GID1 fe80::20:1, GID2 ::"
        );
        notice.set_is_generic(false);
        let vendor = "Reporting Vendor Notice type:0 vend:0 dev:259 from LID:7 GID:fe80::20:1";
        assert_eq!(line(&notice, gid), vendor);
    }

    fn line(notice: &Notice, gid: Gid) -> String {
        describe_report(notice, Lid(7), gid)
    }

    #[test]
    fn lines_have_the_wording_of_opensm() {
        let mut notice = Notice::default();
        notice.set_is_generic(true);
        notice.set_notice_type(1);
        notice.set_trap_number(128);
        notice.set_producer_type(2);
        assert_eq!(
            describe(&notice, Lid(7), 0x1f),
            "Received Generic Notice type:1 num:128 (Link state change) Producer:2 (Switch) from \
             LID:7 TID:0x000000000000001f"
        );
        notice.set_trap_number(129);
        notice.set_port(PortNum(3));
        assert_eq!(
            describe(&notice, Lid(7), 0x1f),
            "Received Generic Notice type:1 num:129 (Local Link integrity threshold reached) \
             Producer:2 (Switch) from LID:7 Port 3 TID:0x000000000000001f"
        );
        notice.set_is_generic(false);
        assert_eq!(
            describe(&notice, Lid(7), 1),
            "Received Vendor Notice type:1 vend:0x000002 dev:129 from LID:7 TID:0x0000000000000001"
        );
    }
}
