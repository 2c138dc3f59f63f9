//! Log lines of received traps, with OpenSM's wording and level.

use crate::ids::Lid;
use crate::wire::attr::{Notice, TrapNumber};
use tracing::error;

/// Name of the function in OpenSM's log lines.
const PLACE: &str = "log_trap_info";

/// Logs a trap of a device.
pub fn received(notice: &Notice, from: Lid, tid: u64) {
    error!(place = PLACE, event = "trap", "{}", describe(notice, from, tid));
    let key = match notice.trap_number() {
        _ if !notice.is_generic() => return,
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

fn describe(notice: &Notice, from: Lid, tid: u64) -> String {
    let (kind, number) = (notice.notice_type(), notice.trap_number());
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
