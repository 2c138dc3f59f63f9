//! The modes of `sa_trust` and their switches: what hosts need to communicate works in both modes,
//! and requests on behalf of others, unknown senders and shown keys end with `strict`.

use crate::hostile_clients::{DENIED, PREFIX, Sent, Site, join, service, subscription, trusted};
use std::sync::Arc;
use testkit::sa_client::{Client, path_query, request};
use testkit::{Observer, SimCluster, settle};
use tokio::time::Instant;
use torus_sm::config::options::{Options, PortGuids, SaTrust};
use torus_sm::ids::{Gid, Guid, Lid, MKey, PortNum, Sl, SmKey};
use torus_sm::sa::counters::DropReason;
use torus_sm::transport::recorded::RecordedPort;
use torus_sm::transport::{Address, Grh, MadPort};
use torus_sm::wire::attr::TrapNumber;
use torus_sm::wire::mad::{Header, Mad, Method};
use torus_sm::wire::record::tables::GuidInfoRecord;
use torus_sm::wire::record::{
    InformInfo, McMemberRecord, NodeRecord, PathRecord, Record, ServiceRecord,
};
use torus_sm::wire::sa::{DATA_OFFSET, SaAttr};

const M_KEY: MKey = MKey(0x1122_3344_5566_7788);
const MODES: [SaTrust; 2] = [SaTrust::Compatible, SaTrust::Strict];

fn in_mode(sa_trust: SaTrust) -> impl Fn(&mut Options) {
    move |options| options.sa_trust = sa_trust
}

/// The requests of IPoIB, rdma_cm, SRP and virtual functions of the port `own`.
fn requests_of_hosts(own: Guid, peer: Guid, lid: Lid) -> Vec<Mad> {
    let mut aliases = GuidInfoRecord::default();
    aliases.set_lid(lid);
    let block = GuidInfoRecord::LID | GuidInfoRecord::BLOCK;
    let info = InformInfo::parse(&subscription(TrapNumber::GID_IN).0[DATA_OFFSET..]);
    vec![
        join(Method::SET, 1, own),
        path_query(PREFIX, [own, peer]),
        service(Method::SET, 7, own, 3),
        service(Method::SET, 7, own, 3),
        request(SaAttr::INFORM_INFO, Method::SET, 0, &info),
        request(SaAttr::GUID_INFO_RECORD, Method::SET, block, &aliases),
        request(SaAttr::GUID_INFO_RECORD, Method::DELETE, block, &aliases),
        service(Method::DELETE, 7, own, 3),
        join(Method::DELETE, 1, own),
    ]
}

#[test]
fn hosts_communicate_in_both_modes() {
    for mode in MODES {
        for queries in [true, false] {
            let mut site = Site::new(|options| {
                in_mode(mode)(options);
                options.sa_allow_untrusted_queries = queries;
            });
            let [own, peer] = [[0, 0], [1, 1]].map(|at| site.host(at));
            for (number, mad) in requests_of_hosts(own, peer, site.lid(own)).iter().enumerate() {
                assert_eq!(site.ask(own, mad), 0, "{mode:?}, {queries}: request {number}");
            }
        }
    }
}

#[test]
fn strict_requires_the_sm_key_for_other_ports() {
    for (mode, proxy) in [(SaTrust::Compatible, 0), (SaTrust::Strict, DENIED)] {
        let mut site = Site::new(in_mode(mode));
        let [own, other] = [[0, 0], [1, 0]].map(|at| site.host(at));
        let third = site.host([2, 0]);
        assert_eq!(site.ask(own, &join(Method::SET, 1, own)), 0);
        assert_eq!(site.ask(own, &join(Method::SET, 1, other)), 0, "into its own group");
        assert_eq!(site.ask(other, &join(Method::SET, 1, third)), proxy, "{mode:?}");
        assert_eq!(site.ask(third, &join(Method::DELETE, 1, other)), proxy, "{mode:?}");
        assert_eq!(site.ask(other, &trusted(join(Method::SET, 1, third))), 0);
        for mad in [service(Method::SET, 1, other, 0), service(Method::SET, 1, Guid(77), 0)] {
            assert_eq!(site.ask(own, &mad), DENIED, "{mode:?}");
        }
        assert_eq!(site.ask(own, &service(Method::SET, 2, own, 9)), 0);
        assert_eq!(site.ask(other, &service(Method::SET, 2, own, 8)), DENIED, "{mode:?}");
    }
}

#[test]
fn tables_may_require_the_sm_key() {
    let mut site = Site::new(|options| options.sa_allow_untrusted_queries = false);
    let [own, peer] = [[0, 0], [1, 0]].map(|at| site.host(at));
    let nodes = |method| request(SaAttr::NODE_RECORD, method, 0, &NodeRecord::default());
    assert_eq!(site.ask(own, &nodes(Method::GET_TABLE)), DENIED);
    assert_eq!(site.ask(own, &trusted(nodes(Method::GET_TABLE))), 0);
    let mut wanted = PathRecord::default();
    wanted.set_sgid(Gid::new(PREFIX, own));
    wanted.set_dgid(Gid::new(PREFIX, peer));
    let paths = |mask| request(SaAttr::PATH_RECORD, Method::GET_TABLE, mask, &wanted);
    assert_eq!(site.ask(own, &paths(PathRecord::SGID | PathRecord::DGID)), 0);
    assert_eq!(site.ask(own, &paths(PathRecord::SGID)), DENIED);
}

/// Whether a request with this source GID in its global route header gets a reply.
fn is_answered(site: &mut Site, from: Guid, gid: Gid) -> bool {
    let grh = Grh { gid, gid_index: 0, hop_limit: 1, traffic_class: 0, flow_label: 0 };
    let from = Address { grh: Some(grh), ..Address::gsi(site.lid(from), Sl(0)) };
    let peer = site.host([2, 2]);
    let mad = path_query(PREFIX, [site.host([0, 0]), peer]);
    site.sa.handle(&site.subnet, &from, &mad.0, Instant::now().into_std()).is_some()
}

#[test]
fn the_source_gid_belongs_to_the_source_lid() {
    for (mode, lenient) in [(SaTrust::Compatible, true), (SaTrust::Strict, false)] {
        let mut site = Site::new(in_mode(mode));
        let [own, other] = [[0, 0], [1, 0]].map(|at| site.host(at));
        let local = |guid| Gid::new(PREFIX, guid);
        assert!(is_answered(&mut site, own, local(own)), "{mode:?}");
        assert!(!is_answered(&mut site, own, local(other)), "{mode:?}: of another port");
        assert_eq!(is_answered(&mut site, own, local(Guid(0x77))), lenient, "{mode:?}: of nobody");
        let remote = Gid::new(0x1234, own);
        assert_eq!(is_answered(&mut site, own, remote), lenient, "{mode:?}: not by a router");
        let forged =
            site.sa.counters().drops().find(|(reason, _)| *reason == DropReason::ForgedGid);
        assert_eq!(forged.map(|(_, count)| count), Some(if lenient { 1 } else { 3 }));
    }
}

/// The M_Keys of the TrapRepress that a host gets for its trap.
async fn keys_for_a_host(change: impl Fn(&mut Options)) -> Vec<MKey> {
    let cluster = SimCluster::healthy("3x3x1", 1);
    let mut options = Options { m_key: M_KEY, ..cluster.options() };
    change(&mut options);
    let same = options.clone();
    let sent = Arc::new(Sent::default());
    let recorder = sent.clone();
    let wrap = |port| -> Arc<dyn MadPort> { Arc::new(RecordedPort::new(port, recorder)) };
    let reload = Box::new(move || Ok(same.clone().into()));
    let sm = cluster.start_behind([0; 3], options, reload, wrap);
    settle().await;
    let own = cluster.host_lid([1, 1, 0]);
    let client = Client::at(&cluster, [1, 1, 0], true);
    client.trap(77, |notice| {
        notice.set_trap_number(TrapNumber::LOCAL_CHANGES);
        notice.set_issuer_lid(own);
        notice.set_subject_lid(own);
    });
    settle().await;
    // No port refused a TrapRepress, which would be a violation of its M_Key.
    let violations = |guid| {
        let info = cluster.fabric.port_info(guid, PortNum(1)).expect("a port");
        info.m_key_violations()
    };
    assert_eq!(cluster.hosts().map(violations).sum::<u16>(), 0);
    assert_eq!(cluster.faults(&sm), [""; 0]);
    let mads = sent.0.lock().expect("no panic");
    let represses = mads.iter().filter(|mad| mad.method() == Method::TRAP_REPRESS);
    let to_host = represses.filter(|mad| mad.header().tid() as u32 == 77);
    to_host.map(|mad| mad.smp().m_key()).collect()
}

/// TrapRepress shows a host no key that it could not read before.
#[tokio::test(start_paused = true)]
async fn no_host_learns_a_key_by_trap_repress() {
    for mode in MODES {
        for level in 0..=3 {
            let keys = keys_for_a_host(|options| {
                options.sa_trust = mode;
                options.m_key_protection_level = level;
            });
            let is_readable = mode == SaTrust::Compatible && level == 0;
            let expected = if is_readable { vec![M_KEY] } else { vec![] };
            assert_eq!(keys.await, expected, "{mode:?}, level {level}");
        }
    }
    let shown = keys_for_a_host(|options| {
        options.sa_trust = SaTrust::Strict;
        options.m_key_in_trap_repress = Some(true);
        options.m_key_protection_level = 2;
    });
    assert_eq!(shown.await, [M_KEY]);
    let withheld = keys_for_a_host(|options| options.m_key_in_trap_repress = Some(false));
    assert_eq!(withheld.await, []);
}

#[tokio::test(start_paused = true)]
async fn sm_info_shows_the_sm_key_to_configured_peers() {
    const KEY: SmKey = SmKey(0x77);
    let eye = [1, 1, 0];
    for mode in MODES {
        for is_peer in [false, true] {
            let cluster = SimCluster::healthy("3x3x1", 1);
            let guid = Guid(cluster.shape.host_guid(eye, 0).0 + 1);
            let peers = is_peer.then(|| vec![guid]);
            let _sm = cluster.start(
                [0; 3],
                Options {
                    sm_key: KEY,
                    sa_trust: mode,
                    sm_key_peers: PortGuids(peers),
                    ..cluster.options()
                },
            );
            settle().await;
            let shown = |info: torus_sm::wire::attr::SmInfo| info.sm_key();
            let by_peer = Observer::at(&cluster, eye).sm_info(&cluster, [0; 3]).await.map(shown);
            let other =
                Observer::at(&cluster, [2, 2, 0]).sm_info(&cluster, [0; 3]).await.map(shown);
            let is_open = mode == SaTrust::Compatible && !is_peer;
            let expected = |sees: bool| Some(if sees { KEY } else { SmKey::NONE });
            assert_eq!(by_peer, expected(is_open || is_peer), "{mode:?}");
            assert_eq!(other, expected(is_open), "{mode:?}, {is_peer}");
        }
    }
}

/// A host that sends traps of switches causes no sweep.
#[tokio::test(start_paused = true)]
async fn hosts_cause_no_sweep_by_traps_of_switches() {
    let cluster = SimCluster::healthy("3x3x1", 1);
    let sm = cluster.start([0; 3], cluster.options());
    settle().await;
    let own = cluster.host_lid([2, 2, 0]);
    let hostile = Client::at(&cluster, [2, 2, 0], true);
    let switch = cluster.fabric.port_info(cluster.shape.switch_guid([1, 1, 0]), PortNum(0));
    let switch = switch.expect("a switch").lid();
    cluster.fabric.reset_counters();
    for (tid, lid) in [(1, own), (2, switch), (3, hostile.sa.lid)] {
        hostile.trap(tid, |notice| {
            notice.set_producer_type(2);
            notice.set_trap_number(TrapNumber::LINK_STATE);
            notice.set_issuer_lid(lid);
            notice.set_link_state_lid(lid);
        });
    }
    settle().await;
    assert_eq!(cluster.fabric.requests(torus_sm::wire::attr::AttrId::SWITCH_INFO), [0, 0]);
    assert_eq!(cluster.faults(&sm), [""; 0]);
}

/// The flows of IPoIB and rdma_cm with the whole daemon.
#[tokio::test(start_paused = true)]
async fn ipoib_and_rdma_cm_are_unchanged() {
    for mode in MODES {
        let cluster = SimCluster::healthy("3x3x1", 1);
        let sm = cluster.start([0; 3], Options { sa_trust: mode, ..cluster.options() });
        settle().await;
        let client = Client::at(&cluster, [1, 1, 0], true);
        let peer = Client::at(&cluster, [2, 1, 0], true);
        for (one, other) in [(&client, &peer), (&peer, &client)] {
            let lid = cluster.host_lid(if one.guid == client.guid { [1, 1, 0] } else { [2, 1, 0] });
            for mad in requests_of_hosts(one.guid, other.guid, lid) {
                let reply = one.call(&mad).await;
                assert_eq!(Header::read(&reply).status(), 0, "{mode:?}");
            }
        }
        let broadcast = McMemberRecord::default();
        let groups = request(SaAttr::MC_MEMBER_RECORD, Method::GET, 0, &broadcast);
        assert_eq!(Header::read(&client.call(&groups).await).status(), 0, "the broadcast group");
        let none = request(SaAttr::SERVICE_RECORD, Method::GET, 0, &ServiceRecord::default());
        assert_eq!(Header::read(&client.call(&none).await).status(), 0x0300, "no service is left");
        settle().await;
        assert_eq!(cluster.faults(&sm), [""; 0]);
    }
}
