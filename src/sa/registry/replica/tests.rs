//! A replica equals its original, after any changes and however the pages are cut.

use super::*;
use crate::ids::{Gid, Guid, Lid, Pkey, Sl};
use crate::sa::registry::groups::{Join, JoinTarget, Leave};
use crate::sa::registry::{GroupSpec, subscriptions::Subscription};
use crate::transport::Address;
use crate::wire::record::{InformInfo, JoinState, ServiceRecord};
use std::time::Duration;

fn mgid(number: u64) -> Gid {
    Gid::new(0xFF12_A01C_0000_0000, Guid(number))
}

fn spec(number: u64) -> GroupSpec {
    GroupSpec {
        mgid: mgid(number),
        qkey: 0x0B1B,
        mtu: 4,
        rate: 3,
        packet_life: 18,
        pkey: Pkey::DEFAULT_FULL,
        sl: Sl(2),
        traffic_class: 1,
        flow_label: 5,
        hop_limit: 7,
        scope: 2,
    }
}

fn join(registry: &mut Registry, group: u64, port: u64) {
    let group = match registry.group(&mgid(group)) {
        Some(group) => JoinTarget::Existing(group.spec.mgid),
        None => JoinTarget::New {
            spec: spec(group),
            mlid: None,
            last: Mlid::LAST,
            prefix: 0,
            consolidate: false,
        },
    };
    let (port_gid, port, requester) = (Gid::new(0, Guid(port)), Guid(port), Guid(port));
    let state = JoinState::FULL;
    let join = Join { group, port_gid, port, requester, state, proxy: false };
    assert!(registry.multicast.join(join).is_ok());
}

fn leave(registry: &mut Registry, group: u64, port: u64) {
    let leave =
        Leave { mgid: mgid(group), port_gid: Gid::new(0, Guid(port)), state: JoinState::FULL };
    assert!(registry.multicast.leave(leave).is_ok());
}

fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

fn serve(registry: &mut Registry, id: u64, lease: u32, now: Instant) {
    let mut record = ServiceRecord::default();
    record.set_id(id);
    record.set_lease(lease);
    record.set_key([9; 16]);
    assert!(registry.services.set(record, Some(Guid(id)), now).is_ok());
}

fn subscribe(registry: &mut Registry, port: u64, qpn: u32) {
    let mut info = InformInfo::default();
    info.set_qpn(qpn);
    let subscription = Subscription {
        subscriber: Guid(port),
        prefix: 1,
        number: 0,
        info,
        to: Address::gsi(Lid(5), Sl(0)),
        trusted: true,
    };
    assert!(registry.subscriptions.subscribe(subscription).is_ok());
}

/// Passes pages of `max` changes on until the last one. Returns the number of pages.
fn replicate(
    from: &mut Registry,
    importer: &mut Importer,
    to: &mut Registry,
    max: usize,
    now: Instant,
) -> usize {
    for pages in 1.. {
        let since = importer.staged.as_ref().map(|(_, position)| *position).or(importer.current);
        let page = from.export(since, max, now);
        let is_last = page.is_last;
        assert!(importer.import(to, page, now));
        if is_last {
            return pages;
        }
    }
    unreachable!("the loop ends with a page")
}

/// The part of a registry that clients can see.
fn content(registry: &Registry, now: Instant) -> String {
    let groups: Vec<_> = registry.iter().map(visible_group).collect();
    let services: Vec<_> = registry
        .services
        .iter()
        .map(|service| (service.record(now).0.to_vec(), service.owner()))
        .collect();
    let subscriptions: Vec<_> =
        registry.subscriptions.iter().map(|s| (s.record().0, s.to)).collect();
    let aliases: Vec<_> = registry.aliases.iter().collect();
    format!("{groups:?} {services:?} {subscriptions:?} {aliases:?}")
}

fn visible_group(group: &crate::sa::registry::Group) -> String {
    let members: Vec<_> =
        group.members.iter().map(|(guid, m)| (guid, m.port, m.state, m.proxy)).collect();
    format!("{:?} {} {} {members:?}", group.spec, group.mlid, group.creator)
}

fn filled(now: Instant) -> Registry {
    let mut registry = Registry::default();
    for (group, port) in [(1, 10), (1, 11), (2, 10), (3, 12)] {
        join(&mut registry, group, port);
    }
    serve(&mut registry, 100, ServiceRecord::NO_END, now);
    serve(&mut registry, 101, 600, now);
    subscribe(&mut registry, 10, 1);
    subscribe(&mut registry, 10, 2);
    let mut guids = [Guid(0); 8];
    guids[1] = Guid(0x77);
    registry.aliases.restore(Guid(10), 0, Lid(4), guids);
    registry
}

#[test]
fn a_replica_equals_its_original_after_every_change() {
    let now = self::now();
    for max in [1, 2, 3, 1000] {
        let mut from = filled(now);
        let mut to = Registry::default();
        // An own registration, which the SM that is followed does not have.
        join(&mut to, 9, 9);
        let mut importer = Importer::default();
        let changes: [fn(&mut Registry, Instant); 9] = [
            |_, _| {},
            |registry, _| join(registry, 4, 13),
            |registry, _| leave(registry, 1, 10),
            |registry, _| leave(registry, 3, 12),
            |registry, _| {
                leave(registry, 2, 10);
                join(registry, 2, 11);
            },
            |registry, now| serve(registry, 102, 5, now),
            |registry, now| {
                registry.services.delete(&(100, Gid::default(), Pkey(0)), now);
            },
            |registry, _| registry.subscriptions.remove(Guid(10), 0),
            |registry, _| {
                registry.aliases.remove_ports(&[Guid(10)].into());
                registry.multicast.remove_ports(&[Guid(11)].into());
            },
        ];
        for (number, change) in changes.into_iter().enumerate() {
            change(&mut from, now);
            let before = to.changes();
            let pages = replicate(&mut from, &mut importer, &mut to, max, now);
            assert!(content(&from, now) == content(&to, now), "change {number} in pages of {max}");
            assert!(to.changes() > before && pages > 0);
            assert!(number == 0 || max < 10 || pages == 1, "only changes are sent");
        }
    }
}

#[test]
fn leases_go_on_from_what_remains_on_any_clock() {
    let now = self::now();
    let mut from = filled(now);
    let mut to = Registry::default();
    let mut importer = Importer::default();
    let later = now + Duration::from_secs(500);
    let page = from.export(None, 1000, later);
    // The clock of the other host shows another time.
    let there = now + Duration::from_secs(40_000);
    assert!(importer.import(&mut to, page, there));
    assert_eq!(to.services.iter().count(), 2);
    to.services.expire(there + Duration::from_secs(99));
    assert_eq!(to.services.iter().count(), 2);
    to.services.expire(there + Duration::from_secs(101));
    assert_eq!(to.services.iter().count(), 1, "100 s were left");
}

#[test]
fn a_registry_stays_until_the_replica_is_complete() {
    let now = self::now();
    let mut from = filled(now);
    let mut to = filled(now);
    let mut importer = Importer::default();
    join(&mut from, 5, 14);
    let before = content(&to, now);
    let first = from.export(None, 3, now);
    assert!(first.reset && !first.is_last);
    let position = first.position;
    assert!(importer.import(&mut to, first, now));
    assert!(content(&to, now) == before, "nothing is taken over yet");
    assert_eq!(importer.position(), None);
    // The connection is lost, and the other SM starts again with another stream.
    let mut other = filled(now);
    let stranger = other.export(Some(position), 1000, now);
    assert!(stranger.reset, "its positions are others");
    let later = Page { reset: false, ..stranger };
    assert!(!importer.import(&mut to, later, now), "a page that follows no other");
    assert!(content(&to, now) == before);
    replicate(&mut from, &mut importer, &mut to, 2, now);
    assert!(content(&to, now) == content(&from, now));
}

#[test]
fn groups_of_the_configuration_stay_and_get_the_mlids_of_the_master() {
    let now = self::now();
    let mut from = filled(now);
    let mut to = Registry::default();
    let mut importer = Importer::default();
    to.set_permanent(&[spec(3), spec(8)], Mlid::LAST);
    let generation = to.generation();
    replicate(&mut from, &mut importer, &mut to, 1000, now);
    assert!(to.generation() > generation);
    assert_eq!(mlid(&to, 3), mlid(&from, 3));
    assert!(mlid(&to, 8).is_some_and(|mlid| from.iter().all(|group| group.mlid != mlid)));
    leave(&mut from, 3, 12);
    assert_eq!(mlid(&from, 3), None);
    replicate(&mut from, &mut importer, &mut to, 1000, now);
    assert!(to.group(&mgid(3)).is_some_and(|group| group.permanent && group.members.is_empty()));
}

fn mlid(registry: &Registry, group: u64) -> Option<Mlid> {
    registry.group(&mgid(group)).map(|group| group.mlid)
}

#[test]
fn changes_of_a_later_version_are_ignored() {
    let text = r#"{"kind": "something_new", "content": {"a": [1, 2]}}"#;
    let change: Change = serde_json::from_str(text).expect("a change");
    assert!(change == Change::Unknown);
    let text = r#"{"kind": "member", "mgid": [1, 2], "guid": 3, "later": true,
        "content": {"port": 3, "state": 1, "proxy": false, "later": {}}}"#;
    let change: Change = serde_json::from_str(text).expect("a change");
    // There is no such group.
    change.apply(&mut Registry::default(), now());
}
