use super::*;
use crate::ids::{Gid, Guid, Lid, Mlid, Sl};
use crate::sa::registry::groups::{GroupSpec, Join, JoinTarget, Leave};
use crate::sa::registry::subscriptions::Subscription;
use crate::transport::Address;
use crate::wire::record::{InformInfo, JoinState, ServiceRecord};
use proptest::prelude::*;

const PREFIX: u64 = 0xfe80_0000_0000_0000;

/// Written by Debian's opensm 3.3.23.
const OPENSM: &str = include_str!("opensm-sa.dump");

fn time(epoch: u64) -> Timestamp {
    Timestamp { now: tokio::time::Instant::now().into_std(), epoch }
}

fn restored(text: &str, at: Timestamp) -> (Registry, RestoreSummary) {
    let mut registry = Registry::default();
    let restored = registry.restore(Path::new("sa.dump"), text, &[], at);
    (registry, restored)
}

#[test]
fn a_dump_of_opensm_is_reproduced_exactly() {
    let at = time(0x6560_0000);
    let (registry, restored) = restored(OPENSM, at);
    assert_eq!(restored.findings, []);
    assert_eq!((restored.groups, restored.members), (2, 3));
    assert_eq!((restored.subscriptions, restored.services, restored.aliases), (1, 1, 1));
    // The configuration determines the well-known groups.
    let written = registry.dump(PREFIX, at);
    assert_eq!(written, OPENSM.replace(" (well known)", ""));
}

#[test]
fn restored_groups_have_their_mlids_and_the_configured_parameters() {
    let mut registry = Registry::default();
    let (other, _) = restored(OPENSM, time(0));
    let mut spec = other.iter().next().expect("a group").spec.clone();
    spec.rate = 7;
    let at = time(0x6560_0000);
    registry.restore(Path::new("sa.dump"), OPENSM, std::slice::from_ref(&spec), at);
    registry.set_permanent(std::slice::from_ref(&spec), Mlid::LAST);
    let group = registry.group(&spec.mgid).expect("the broadcast group");
    assert_eq!((group.mlid, group.spec.rate, group.permanent), (Mlid(0xC005), 7, true));
    assert_eq!(group.members.len(), 2);
    let join = Join {
        group: JoinTarget::New {
            spec: GroupSpec { mgid: Gid([0xFF; 16]), ..spec },
            mlid: None,
            last: Mlid::LAST,
            prefix: PREFIX,
            consolidate: false,
        },
        port_gid: Gid::default(),
        port: Guid(1),
        requester: Guid::default(),
        state: JoinState::FULL,
        proxy: false,
    };
    let mlid = registry.multicast.join(join).expect("a place").0.mlid();
    assert_eq!(mlid, Mlid(0xC000), "the lowest that is free");
}

#[test]
fn leases_continue_while_no_subnet_manager_runs() {
    let line = OPENSM.lines().find(|line| line.starts_with("Service")).expect("a service");
    let line = line.replace("lease_period=0xffffffff", "lease_period=0x64");
    for (later, left) in [(0, Some(100)), (60, Some(40)), (100, None), (100_000, None)] {
        let at = time(0x6560_0000 + later);
        let (registry, restored) = restored(&line, at);
        let lease = registry.services().iter().next().map(|one| one.record(at.now).lease());
        assert_eq!((lease, restored.expired), (left, usize::from(left.is_none())), "{later}");
        assert_eq!(restored.findings, []);
    }
    let (registry, _) = restored(&line, time(0x6550_0000));
    assert_eq!(registry.services().iter().count(), 1, "the clock was set back");
}

#[test]
fn invalid_lines_are_skipped_and_reported_with_their_place() {
    let at = time(0x6560_0000);
    let whole = restored(OPENSM, at).1;
    let table = [
        ("mlid=0xc005 mtu", "mlid=0xc005 m_u", "mtu is missing"),
        ("qkey=0x00000b1b", "qkey=0x1ffffffff", "exceeds the maximum of 0xffffffff"),
        ("MC Group 0xc005", "MC Group 0x0005", "is not a multicast LID"),
        ("MC Group 0xc005", "MC Groupé0xc005", "is not a valid group MLID"),
        ("mgid=0xff12401bffff0000", "mgid=0x0012401bffff0000", "is not a multicast GID"),
        ("scope_state=0x21 proxy_join=0x1", "scope_state=0x20 proxy_join=0x1", "has no join state"),
        ("trap_num=0x40", "trap_num=six", "\"six\" is not a valid trap_num"),
        ("rep_addr: lid=0x0004", "rep_addr: lid=0x0000", "LID 0 is not a unicast LID"),
        ("name='a service'", "name='a service", "the closing quote of name is missing"),
        ("data8=0x0102030405060708:0x", "data8=0x0102030405060708;0x", "not a valid data8"),
        ("guid7=", "guid8=", "guid7 is missing"),
        ("GUIDInfo Record:", "GUIDinfo Record:", "unknown kind of line"),
    ];
    for (from, to, message) in table {
        assert!(OPENSM.contains(from), "{from}");
        let text = OPENSM.replacen(from, to, 1);
        let (_, restored) = restored(&text, at);
        let finding = restored.findings.first().unwrap_or_else(|| panic!("{to} is broken"));
        assert!(finding.message.contains(message), "{to}: {finding}");
        let line = text.lines().position(|line| line.contains(to)).expect("the line") as u32 + 1;
        assert_eq!(finding.line, line, "{to}");
        let lost = count(&whole) - count(&restored);
        // The members of an invalid group are invalid as well, each with a diagnostic.
        assert_eq!(lost, restored.findings.len(), "{to}");
    }
}

fn count(r: &RestoreSummary) -> usize {
    r.groups + r.subscriptions + r.services + r.aliases + r.members
}

#[test]
fn names_of_any_bytes_are_restored() {
    let at = time(7);
    for name in ["it's", "\"it's\"", "a\nb", "\\x41", "' lease=", "\u{85}é", ""] {
        let mut record = ServiceRecord::default();
        let mut bytes = [0; 64];
        bytes[..name.len()].copy_from_slice(name.as_bytes());
        record.set_name(bytes);
        record.set_lease(ServiceRecord::NO_END);
        let mut registry = Registry::default();
        registry.services.set(record, None, at.now).expect("there is room");
        let text = registry.dump(PREFIX, at);
        let (other, restored) = restored(&text, at);
        assert_eq!(restored.findings, [], "{text}");
        let back = other.services().iter().next().expect("the service").record(at.now);
        assert_eq!(back, record, "{name:?}: {text}");
    }
}

/// Number, scope, and members with port, join state and proxy flag.
type SomeGroup = (u8, u8, Vec<(u64, u8, bool)>);

fn groups() -> impl Strategy<Value = Vec<SomeGroup>> {
    let member = (1u64..50, 1u8..16, any::<bool>());
    prop::collection::vec((any::<u8>(), 0u8..16, prop::collection::vec(member, 0..6)), 0..6)
}

fn join_all(registry: &mut Registry, groups: &[SomeGroup]) {
    let (template, _) = restored(OPENSM, time(0));
    let template = template.iter().next().expect("a group").spec.clone();
    for (number, scope, members) in groups {
        let mut mgid = Gid([0xFF; 16]);
        mgid.0[15] = *number;
        let sl = Sl(scope ^ 5);
        let spec = GroupSpec { mgid, scope: *scope, sl, flow_label: 0xABCDE, ..template.clone() };
        let creator = Join {
            group: match registry.group(&mgid) {
                Some(_) => JoinTarget::Existing(mgid),
                None => JoinTarget::New {
                    spec: spec.clone(),
                    mlid: None,
                    last: Mlid::LAST,
                    prefix: PREFIX,
                    consolidate: false,
                },
            },
            port_gid: Gid::default(),
            port: Guid(99),
            requester: Guid::default(),
            state: JoinState(1),
            proxy: false,
        };
        registry.multicast.join(creator).expect("there is room");
        for &(guid, state, proxy) in members {
            let join = Join { group: JoinTarget::Existing(mgid), ..port_of(guid, state, proxy) };
            registry.multicast.join(join).expect("the group is there");
        }
    }
}

fn port_of(guid: u64, state: u8, proxy: bool) -> Join {
    Join {
        group: JoinTarget::Existing(Gid::default()),
        port_gid: Gid::default(),
        port: Guid(guid),
        requester: Guid::default(),
        state: JoinState(state),
        proxy,
    }
}

proptest! {
    #[test]
    fn text_and_back_is_identity(
        groups in groups(),
        services in prop::collection::vec((any::<[u8; 32]>(), 1u32..), 0..4),
        subscriptions in prop::collection::vec((1u64..9, any::<[u8; 32]>(), 1u16..0xBFFF), 0..4),
        aliases in prop::collection::vec((any::<u64>(), any::<u8>(), any::<[u64; 8]>()), 0..3),
    ) {
        let at = time(1_000_000_000);
        let mut registry = Registry::default();
        join_all(&mut registry, &groups);
        for (bytes, lease) in services {
            let mut all = [0; 176];
            all[..32].copy_from_slice(&bytes);
            all[26..28].fill(0);
            all[48..80].copy_from_slice(&bytes);
            all[112..144].copy_from_slice(&bytes);
            let mut record = ServiceRecord(all);
            // A name ends with its first NUL byte.
            let mut name = record.name();
            let end = name.iter().position(|&byte| byte == 0).unwrap_or(64);
            name[end..].fill(0);
            record.set_name(name);
            record.set_lease(lease);
            registry.services.set(record, None, at.now).expect("there is room");
        }
        for (port, bytes, lid) in subscriptions {
            let mut info = InformInfo::default();
            info.set_gid(Gid(std::array::from_fn(|i| bytes[i])));
            info.set_lid_range_begin(Lid(u16::from(bytes[16])));
            info.set_is_generic(bytes[17] & 1);
            info.set_subscribe(1);
            info.set_trap_number(u16::from(bytes[18]));
            info.set_qpn(u32::from(bytes[19]) << 16 | 1);
            info.set_resp_time_value(bytes[20] & 0x1F);
            info.set_producer_type(u32::from(bytes[21]) << 16);
            let to = Address { qpn: info.qpn(), ..Address::gsi(Lid(lid), Sl(bytes[22] & 0xF)) };
            let subscription =
                Subscription { subscriber: Guid(port), prefix: PREFIX, number: 0, info, to, trusted: false };
            registry.subscriptions.subscribe(subscription).expect("there is room");
        }
        for (port, block, guids) in aliases {
            registry.aliases.restore(Guid(port), block, Lid(5), guids.map(Guid));
        }
        let text = registry.dump(PREFIX, at);
        let (other, restored) = restored(&text, at);
        prop_assert_eq!(&restored.findings, &[]);
        prop_assert_eq!(other.dump(PREFIX, at), text);
        prop_assert!(other.services().iter().map(|one| one.record(at.now))
            .eq(registry.services().iter().map(|one| one.record(at.now))));
    }

    #[test]
    fn any_text_is_read_without_a_panic(
        cut in 0..OPENSM.len(),
        noise in "\\PC{0,40}",
        end in 0..OPENSM.len(),
    ) {
        let cut = OPENSM.floor_char_boundary_of(cut);
        let end = OPENSM.floor_char_boundary_of(end);
        let text = format!("{}{noise}{}", &OPENSM[..cut], &OPENSM[end..]);
        restored(&text, time(0));
    }
}

trait Boundary {
    fn floor_char_boundary_of(&self, at: usize) -> usize;
}

impl Boundary for str {
    fn floor_char_boundary_of(&self, mut at: usize) -> usize {
        while !self.is_char_boundary(at) {
            at -= 1;
        }
        at
    }
}

#[test]
fn a_member_that_leaves_is_not_in_the_next_dump() {
    let at = time(0x6560_0000);
    let (mut registry, _) = restored(OPENSM, at);
    let before = registry.changes();
    let mgid = registry.iter().next().expect("a group").spec.mgid;
    let port_gid = Gid::new(PREFIX, Guid(0x0010_0002));
    let leave = Leave { mgid, port_gid, state: JoinState::FULL };
    registry.multicast.leave(leave).expect("it was a member");
    assert!(registry.changes() > before);
    assert_eq!(registry.dump(PREFIX, at).matches("mcm_port").count(), 2);
}
