use super::generate::Shape;
use super::*;
use crate::fabric::picture::Hardware;
use crate::ids::{Guid, Lid, PortNum};
use crate::transport::{Address, Agent, Delivery, MadPort, MadSink, Outcome, Outgoing};
use crate::wire::attr::{
    AttrId, CapMask, LinkWidth, NodeInfo, Notice, PhysState, PortInfo, PortState, SwitchInfo,
    TrapNumber,
};
use crate::wire::mad::{Class, Mad, Method, Status};
use crate::wire::smp::{DirectedRoute, SmpRoute, request};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::Instant;

const TIMEOUT: Duration = Duration::from_millis(100);
const SW0: Guid = Guid(0x20_0000);
pub(super) const SW1: Guid = Guid(0x20_0001);
pub(super) const HOST0: Guid = Guid(0x1000_0000);
pub(super) const HOST1: Guid = Guid(0x1000_0040);
pub(super) const P1: PortNum = PortNum(1);

struct Sink(mpsc::UnboundedSender<(Agent, Address, Outcome, Vec<u8>)>);

impl MadSink for Sink {
    fn deliver(&self, d: Delivery<'_>) {
        let _ = self.0.send((d.agent, d.from, d.outcome, d.mad.to_vec()));
    }
    fn idle(&self) {}
    fn closed(&self, _: &str) {}
}

/// A program at a port that asks one thing at a time.
pub(super) struct Client {
    pub(super) port: SimPort,
    pub(super) inbox: mpsc::UnboundedReceiver<(Agent, Address, Outcome, Vec<u8>)>,
    tid: u64,
    m_key: u64,
    retries: u32,
}

impl Client {
    pub(super) fn at(fabric: &SimFabric, guid: Guid, is_sm: bool) -> Self {
        let (sender, inbox) = mpsc::unbounded_channel();
        let port = fabric.attach(guid, P1, Arc::new(Sink(sender)), is_sm).expect("an end port");
        Self { port, inbox, tid: 0, m_key: 0, retries: 0 }
    }

    fn send(&mut self, route: SmpRoute, method: Method, attr: (u16, u32), data: &[u8]) {
        self.tid += 1;
        let mut block = [0; 64];
        let len = data.len().min(64);
        block[..len].copy_from_slice(&data[..len]);
        let mad = request(&route, method, attr.0, attr.1, self.m_key, self.tid, &block);
        let (agent, to) = match route {
            SmpRoute::Directed(_) => (Agent::SmiDirected, Address::smi(Lid::PERMISSIVE)),
            SmpRoute::Lid(lid) => (Agent::SmiLid, Address::smi(lid)),
        };
        self.post(agent, to, Some(TIMEOUT), &mad.0);
    }

    fn post(&self, agent: Agent, to: Address, timeout: Option<Duration>, mad: &[u8]) {
        let out = Outgoing { agent, to, timeout, retries: self.retries, mad };
        self.port.post(&out).expect("the port takes it");
    }

    async fn next(&mut self) -> (Outcome, Mad) {
        let (.., outcome, mad) = self.inbox.recv().await.expect("the fabric is there");
        (outcome, Mad::read(&mad))
    }

    /// The answer, or `None` if there is none.
    async fn ask(
        &mut self,
        route: SmpRoute,
        method: Method,
        attr: (u16, u32),
        data: &[u8],
    ) -> Option<Mad> {
        self.send(route, method, attr, data);
        let (outcome, mad) = self.next().await;
        assert_eq!(mad.header().tid() & 0xFFFF_FFFF, self.tid);
        (outcome == Outcome::Arrived).then_some(mad)
    }

    async fn get(&mut self, exits: &[u8], attr: u16, modifier: u32) -> Option<Mad> {
        self.ask(route(exits), Method::GET, (attr, modifier), &[]).await
    }

    /// The status a Set is answered with.
    async fn set(&mut self, exits: &[u8], attr: u16, modifier: u32, data: &[u8]) -> u16 {
        let answer = self.ask(route(exits), Method::SET, (attr, modifier), data).await;
        answer.expect("an answer").smp().status()
    }

    async fn info(&mut self, exits: &[u8], num: u8) -> PortInfo {
        let mad = self.get(exits, AttrId::PORT_INFO, num.into()).await.expect("an answer");
        PortInfo::read(mad.smp_data())
    }

    /// Sets PortInfo as it is, but for what `change` changes; the states are left alone.
    pub(super) async fn change(
        &mut self,
        exits: &[u8],
        num: u8,
        change: impl FnOnce(&mut PortInfo),
    ) -> u16 {
        let mut info = self.info(exits, num).await;
        info.set_port_state(PortState::NoChange);
        info.set_phys_state(PhysState::NoChange);
        change(&mut info);
        self.set(exits, AttrId::PORT_INFO, num.into(), &info.0).await
    }

    /// LIDs 1 (host 0), 2 (switch 0), 3 (host 1), 4 (switch 1), forwarding tables, ACTIVE links.
    pub(super) async fn bring_up(&mut self) {
        for (exits, num, lid) in
            [(&[][..], 1, 1), (&[1], 0, 2), (&[1, 1, 7], 1, 3), (&[1, 1], 0, 4)]
        {
            let set = |info: &mut PortInfo| {
                info.set_lid(Lid(lid));
                info.set_master_sm_lid(Lid(1));
            };
            assert_eq!(self.change(exits, num, set).await, Status::OK);
        }
        for (exits, ports) in [(&[1][..], [7, 0, 1, 1]), (&[1, 1], [2, 2, 7, 0])] {
            let mut block = [0xFF; 64];
            block[1..5].copy_from_slice(&ports);
            assert_eq!(self.set(exits, AttrId::LINEAR_FT, 0, &block).await, Status::OK);
            let mut info = SwitchInfo::default();
            info.set_linear_fdb_top(4);
            info.set_port_state_change(true);
            assert_eq!(self.set(exits, AttrId::SWITCH_INFO, 0, &info.0).await, Status::OK);
        }
        let ends: [(&[u8], u8); 6] =
            [(&[], 1), (&[1], 7), (&[1], 1), (&[1, 1], 2), (&[1, 1], 7), (&[1, 1, 7], 1)];
        for state in [PortState::Armed, PortState::Active] {
            for (exits, num) in ends {
                let status = self.change(exits, num, |info| info.set_port_state(state)).await;
                assert_eq!(status, Status::OK, "{exits:?} {num} {state}");
            }
        }
    }
}

fn route(exits: &[u8]) -> SmpRoute {
    let exits: Vec<_> = exits.iter().map(|&exit| PortNum(exit)).collect();
    SmpRoute::Directed(DirectedRoute::new(&exits).expect("few hops"))
}

/// Two switches with a host each: ports 1 and 2 of the switches are cabled, hosts are at 7.
fn pair(seed: u64) -> SimFabric {
    SimFabric::new(&"2x1".parse::<Shape>().unwrap().build().unwrap(), Hardware::default(), seed)
}

pub(super) fn sm() -> (SimFabric, Client) {
    seeded(7)
}

pub(super) fn seeded(seed: u64) -> (SimFabric, Client) {
    let fabric = pair(seed);
    let client = Client::at(&fabric, HOST0, true);
    (fabric, client)
}

#[tokio::test(start_paused = true)]
async fn directed_routes_lead_from_port_to_port() {
    let (fabric, mut sm) = sm();
    for (exits, guid, port) in
        [(&[][..], HOST0, 1), (&[1], SW0, 7), (&[1, 1], SW1, 2), (&[1, 1, 7], HOST1, 1)]
    {
        let mad = sm.get(exits, AttrId::NODE_INFO, 0).await.expect("an answer");
        let info = NodeInfo::read(mad.smp_data());
        assert_eq!((info.node_guid(), info.local_port()), (guid, PortNum(port)));
        assert!(mad.smp().returning());
        assert_eq!((mad.smp().hop_pointer(), usize::from(mad.smp().hop_count())), (0, exits.len()));
    }
    for lost in [&[2][..], &[1, 5], &[1, 0], &[1, 99], &[1, 7, 1], &[1, 1, 7, 1]] {
        assert!(sm.get(lost, AttrId::NODE_INFO, 0).await.is_none(), "{lost:?}");
    }
    assert_eq!(fabric.requests(AttrId::NODE_INFO), [4, 0]);
    assert!(fabric.port_info(HOST0, P1).unwrap().has(CapMask::IS_SM));
    drop(sm);
    assert!(!fabric.port_info(HOST0, P1).unwrap().has(CapMask::IS_SM));
}

#[tokio::test(start_paused = true)]
async fn states_go_up_one_by_one() {
    use PortState::{Active, Armed, Down, Init};
    let (fabric, mut sm) = sm();
    let state = |guid, num| fabric.port_info(guid, PortNum(num)).unwrap().port_state();
    for (wanted, status) in [
        (Active, Status::BAD_FIELD),
        (Init, Status::BAD_FIELD),
        (Armed, Status::OK),
        (Armed, Status::OK),
        (Active, Status::OK),
        (Active, Status::OK),
        (Armed, Status::BAD_FIELD),
    ] {
        assert_eq!(
            sm.change(&[1], 1, |info| info.set_port_state(wanted)).await,
            status,
            "{wanted}"
        );
    }
    assert_eq!((state(SW0, 1), state(SW1, 2)), (Active, Init));
    assert_eq!(sm.change(&[1], 1, |info| info.set_port_state(Down)).await, Status::OK);
    assert_eq!((state(SW0, 1), state(SW1, 2)), (Init, Init));
    assert_eq!(sm.change(&[1], 3, |info| info.set_port_state(Armed)).await, Status::BAD_FIELD);
}

#[tokio::test(start_paused = true)]
async fn the_first_packet_makes_an_armed_peer_active() {
    use PortState::{Active, Armed};
    let (fabric, mut sm) = sm();
    for (exits, num, state) in [(&[1][..], 1, Armed), (&[1, 1], 2, Armed), (&[1], 1, Active)] {
        assert_eq!(sm.change(exits, num, |info| info.set_port_state(state)).await, Status::OK);
    }
    assert_eq!(fabric.port_info(SW1, PortNum(2)).unwrap().port_state(), Active);
}

#[tokio::test(start_paused = true)]
async fn disabled_links_stay_down_until_they_may_poll() {
    let (fabric, mut sm) = sm();
    let state = || fabric.port_info(SW1, PortNum(2)).unwrap().port_state();
    let disable = |info: &mut PortInfo| info.set_phys_state(PhysState::Disabled);
    assert_eq!(sm.change(&[1], 1, disable).await, Status::OK);
    assert_eq!(state(), PortState::Down);
    fabric.relink(SW0, P1);
    assert_eq!(state(), PortState::Down);
    let poll = |info: &mut PortInfo| {
        info.set_link_width_enabled(LinkWidth::X1);
        info.set_phys_state(PhysState::Polling);
    };
    assert_eq!(sm.change(&[1], 1, poll).await, Status::OK);
    assert_eq!(state(), PortState::Init);
    assert_eq!(fabric.port_info(SW1, PortNum(2)).unwrap().link_width_active(), LinkWidth::X1);
}

#[tokio::test(start_paused = true)]
async fn values_out_of_range_are_refused_and_change_nothing() {
    let (_fabric, mut sm) = sm();
    let external: [fn(&mut PortInfo); 6] = [
        |info| info.set_neighbor_mtu(5),
        |info| info.set_neighbor_mtu(0),
        |info| info.set_operational_vls(5),
        |info| info.set_link_width_enabled(LinkWidth::X12),
        |info| info.set_link_speed_enabled(8),
        |info| info.set_link_down_default_state(3),
    ];
    for (index, change) in external.into_iter().enumerate() {
        let before = sm.info(&[1], 1).await;
        assert_eq!(sm.change(&[1], 1, change).await, Status::BAD_FIELD, "case {index}");
        assert_eq!(sm.info(&[1], 1).await, before);
    }
    let end: [fn(&mut PortInfo); 4] = [
        |info| info.set_lid(Lid(0)),
        |info| info.set_lid(Lid(0xC000)),
        |info| (info.set_lid(Lid(3)), info.set_lmc(1)).1,
        |info| (info.set_lid(Lid(4)), info.set_master_sm_lid(Lid(0xC000))).1,
    ];
    for (index, change) in end.into_iter().enumerate() {
        assert_eq!(sm.change(&[], 1, change).await, Status::BAD_FIELD, "case {index}");
    }
    assert_eq!(sm.set(&[1], AttrId::PORT_INFO, 8, &[0; 64]).await, Status::BAD_FIELD);
    assert_eq!(sm.set(&[1], AttrId::NODE_INFO, 0, &[0; 64]).await, Status::BAD_METHOD_ATTR);
    assert_eq!(sm.set(&[], AttrId::LINEAR_FT, 0, &[0; 64]).await, Status::BAD_METHOD_ATTR);
}

#[tokio::test(start_paused = true)]
async fn tables_end_where_the_device_ends() {
    let (fabric, mut sm) = sm();
    let data: [u8; 64] = std::array::from_fn(|i| i as u8);
    for (attr, modifier, status) in [
        (AttrId::LINEAR_FT, 767, Status::OK),
        (AttrId::LINEAR_FT, 768, Status::BAD_FIELD),
        (AttrId::MULTICAST_FT, 31, Status::OK),
        (AttrId::MULTICAST_FT, 32, Status::BAD_FIELD),
        (AttrId::MULTICAST_FT, 1 << 28, Status::BAD_FIELD),
        (AttrId::SL_TO_VL, 7 << 8 | 1, Status::OK),
        (AttrId::SL_TO_VL, 8 << 8 | 1, Status::BAD_FIELD),
        (AttrId::VL_ARBITRATION, 1 << 16 | 3, Status::OK),
        (AttrId::VL_ARBITRATION, 2 << 16 | 3, Status::BAD_FIELD),
        (AttrId::VL_ARBITRATION, 5 << 16 | 3, Status::BAD_FIELD),
        (AttrId::PKEY_TABLE, 3 << 16 | 1, Status::OK),
        (AttrId::PKEY_TABLE, 3 << 16 | 2, Status::BAD_FIELD),
        (AttrId::PKEY_TABLE, 9 << 16, Status::BAD_FIELD),
    ] {
        assert_eq!(sm.set(&[1], attr, modifier, &data).await, status, "{attr:#x} {modifier:#x}");
    }
    assert_eq!(fabric.lft(SW0).unwrap()[767 * 64..], data);
    assert_eq!(fabric.mft(SW0, 0).unwrap()[31 * 32 + 1], 0x0203);
    assert_eq!(fabric.sl2vl(SW0, PortNum(7), P1).unwrap().0[..], data[..8]);
    let arbitration = fabric.vl_arb(SW0, PortNum(3), 1).unwrap();
    assert_eq!((&arbitration[..16], &arbitration[16..]), (&data[..16], &[0; 48][..]));
    assert_eq!(fabric.pkeys(SW0, PortNum(3), 1), Some(data));
    assert_eq!(fabric.pkeys(SW0, PortNum(4), 0).unwrap()[..4], [0xFF, 0xFF, 0, 0]);
    assert_eq!(sm.set(&[], AttrId::GUID_INFO, 0, &data).await, Status::OK);
    let guids = sm.get(&[], AttrId::GUID_INFO, 0).await.unwrap();
    assert_eq!(guids.smp_data()[..8], 0x1000_0001u64.to_be_bytes());
    assert_eq!(guids.smp_data()[8..], data[8..]);
    assert_eq!(sm.set(&[], AttrId::GUID_INFO, 4, &data).await, Status::BAD_FIELD);
    assert_eq!(fabric.requests(AttrId::VL_ARBITRATION), [0, 3]);
}

#[tokio::test(start_paused = true)]
async fn lid_routed_smps_follow_the_tables() {
    let (fabric, mut sm) = sm();
    assert!(
        sm.ask(SmpRoute::Lid(Lid(4)), Method::GET, (AttrId::NODE_INFO, 0), &[]).await.is_none()
    );
    sm.bring_up().await;
    for (lid, guid) in [(1, HOST0), (2, SW0), (3, HOST1), (4, SW1)] {
        let mad = sm.ask(SmpRoute::Lid(Lid(lid)), Method::GET, (AttrId::NODE_INFO, 0), &[]).await;
        assert_eq!(NodeInfo::read(mad.expect("a path").smp_data()).node_guid(), guid);
    }
    assert!(fabric.reaches(HOST1, P1, Lid(1), true));
    let mut looping = [0xFF; 64];
    looping[1..5].copy_from_slice(&[2, 2, 2, 0]);
    assert_eq!(sm.set(&[1, 1], AttrId::LINEAR_FT, 0, &looping).await, Status::OK);
    assert!(!fabric.reaches(HOST0, P1, Lid(3), false));
}

#[tokio::test(start_paused = true)]
async fn routes_may_be_part_directed_and_part_lid_routed() {
    let (_fabric, mut sm) = sm();
    sm.bring_up().await;
    let none = Lid::PERMISSIVE;
    // LID of the first part, exits of the directed one, LID of the last part, who answers.
    for (first, exits, last, answers) in [
        (none, &[1, 1, 7][..], none, Some(HOST1)),
        (none, &[1], Lid(3), Some(HOST1)),
        (none, &[], Lid(4), Some(SW1)),
        (Lid(4), &[7], none, Some(HOST1)),
        (Lid(2), &[1], Lid(3), Some(HOST1)),
        (Lid(2), &[], none, Some(SW0)),
        (Lid(2), &[], Lid(3), Some(HOST1)),
        (Lid(9), &[7], none, None),
        (Lid(4), &[5], none, None),
        (none, &[1], Lid(9), None),
        (Lid(3), &[1], none, Some(SW1)),
        (Lid(3), &[2], none, None),
    ] {
        sm.tid += 1;
        let get = (Method::GET, AttrId::NODE_INFO);
        let mut mad = request(&route(exits), get.0, get.1, 0, 0, sm.tid, &[0; 64]);
        let mut smp = mad.smp();
        smp.set_dr_slid(if first == none { none } else { Lid(1) });
        smp.set_dr_dlid(last);
        mad.0 = smp.0;
        sm.post(Agent::SmiDirected, Address::smi(first), Some(TIMEOUT), &mad.0);
        let (outcome, answer) = sm.next().await;
        let node = NodeInfo::read(answer.smp_data()).node_guid();
        let guid = (outcome == Outcome::Arrived).then_some(node);
        assert_eq!(guid, answers, "{first} {exits:?} {last}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_link_is_told_until_the_trap_is_repressed() {
    let (fabric, mut sm) = sm();
    sm.bring_up().await;
    assert!(!fabric.switch_info(SW0).unwrap().port_state_change());
    assert!(fabric.unlink(SW0, P1));
    assert_eq!(fabric.port_info(SW1, PortNum(2)).unwrap().port_state(), PortState::Down);
    assert!(fabric.switch_info(SW0).unwrap().port_state_change());
    let mut last = None;
    for repeat in 0..3u32 {
        let start = Instant::now();
        let (_, trap) = sm.next().await;
        let notice = Notice::read(trap.smp_data());
        assert_eq!(trap.method(), Method::TRAP);
        assert_eq!(notice.trap_number(), TrapNumber::LINK_STATE);
        assert_eq!((notice.issuer_lid(), notice.link_state_lid()), (Lid(2), Lid(2)));
        assert_eq!(start.elapsed().as_millis(), if repeat == 0 { 0 } else { 500 });
        last = Some(trap);
    }
    let mut repress = last.unwrap();
    let mut header = repress.header();
    header.set_method(Method::TRAP_REPRESS.0);
    repress.set_header(&header);
    sm.post(Agent::SmiLid, Address::smi(Lid(2)), None, &repress.0);
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(sm.inbox.try_recv().is_err());
    assert!(fabric.relink(SW0, P1));
    let (_, trap) = sm.next().await;
    assert_eq!(trap.method(), Method::TRAP);
}

#[tokio::test(start_paused = true)]
async fn sa_mads_pass_between_programs_over_active_links_only() {
    let (fabric, mut sm) = sm();
    let mut client = Client::at(&fabric, HOST1, false);
    sm.bring_up().await;
    let mut mad = Mad::default();
    let mut header = mad.header();
    header.set_base_version(1);
    header.set_class(Class::SUBN_ADM);
    header.set_class_version(2);
    header.set_method(Method::GET.0);
    header.set_tid(0x77);
    mad.set_header(&header);
    client.post(Agent::Sa, Address::gsi(Lid(1), crate::ids::Sl(0)), Some(TIMEOUT), &mad.0);
    let (agent, from, outcome, request) = sm.inbox.recv().await.unwrap();
    assert_eq!((agent, from.lid, outcome), (Agent::Sa, Lid(3), Outcome::Arrived));
    let mut answer = vec![0; 1000];
    answer[..256].copy_from_slice(&request);
    answer[3] = Method::GET_RESP.0;
    sm.post(Agent::Sa, from, None, &answer);
    let (.., outcome, response) = client.inbox.recv().await.unwrap();
    assert_eq!((outcome, response.len()), (Outcome::Arrived, 1000));
    assert_eq!(response[12..16], [0, 0, 0, 0x77]);
    sm.change(&[1], 1, |info| info.set_port_state(PortState::Down)).await;
    client.post(Agent::Sa, Address::gsi(Lid(1), crate::ids::Sl(0)), Some(TIMEOUT), &mad.0);
    assert_eq!(client.next().await.0, Outcome::Unanswered);
}

#[tokio::test(start_paused = true)]
async fn sm_info_reaches_the_program_that_is_the_sm() {
    let (fabric, mut sm) = sm();
    let mut other = Client::at(&fabric, HOST1, true);
    other.send(route(&[1, 2, 7]), Method::GET, (AttrId::SM_INFO, 0), &[]);
    let (agent, _, outcome, request) = sm.inbox.recv().await.unwrap();
    assert_eq!((agent, outcome), (Agent::SmiDirected, Outcome::Arrived));
    let mut answer = Mad::read(&request);
    answer.0[3] = Method::GET_RESP.0;
    answer.0[4] |= 0x80;
    sm.post(Agent::SmiDirected, Address::smi(Lid::PERMISSIVE), None, &answer.0);
    assert_eq!(other.next().await.0, Outcome::Arrived);
    let refused = other.get(&[1, 2], AttrId::SM_INFO, 0).await.expect("the switch answers");
    assert_eq!(refused.smp().status(), Status::BAD_METHOD_ATTR);
}

#[tokio::test(start_paused = true)]
async fn a_wrong_m_key_is_kept_out() {
    let (fabric, mut sm) = sm();
    sm.bring_up().await;
    for (level, reads, shown) in [(0, true, 0xABCD), (1, true, 0), (2, false, 0)] {
        let lock = |info: &mut PortInfo| {
            info.set_m_key(0xABCD);
            info.set_m_key_protect_bits(level);
        };
        assert_eq!(sm.change(&[1], 0, lock).await, Status::OK);
        sm.m_key = 0x1;
        sm.send(route(&[1]), Method::GET, (AttrId::PORT_INFO, 0), &[]);
        let mut answer = sm.next().await;
        if answer.1.method() == Method::TRAP {
            answer = sm.next().await;
        }
        assert_eq!(answer.0 == Outcome::Arrived, reads, "level {level}");
        if reads {
            assert_eq!(PortInfo::read(answer.1.smp_data()).m_key(), shown, "level {level}");
        }
        sm.m_key = 0xABCD;
    }
    assert_eq!(fabric.port_info(SW0, PortNum(0)).unwrap().m_key_violations(), 1);
    sm.m_key = 0x2;
    sm.send(route(&[1]), Method::SET, (AttrId::SWITCH_INFO, 0), &[]);
    sm.next().await;
    assert_eq!(fabric.port_info(SW0, PortNum(0)).unwrap().m_key_violations(), 2);
}

#[tokio::test(start_paused = true)]
async fn what_is_not_answered_comes_back_once_after_all_retries() {
    let (fabric, mut sm) = sm();
    sm.retries = 3;
    assert!(fabric.silence(SW1));
    let start = Instant::now();
    assert!(sm.get(&[1, 1], AttrId::NODE_INFO, 0).await.is_none());
    assert_eq!(start.elapsed().as_millis(), 400);
    tokio::time::sleep(Duration::from_secs(9)).await;
    assert!(sm.inbox.try_recv().is_err());
    assert!(sm.get(&[1, 1, 7], AttrId::NODE_INFO, 0).await.is_some(), "it still forwards");
    assert!(fabric.revive(SW1));
    assert!(sm.get(&[1, 1], AttrId::NODE_INFO, 0).await.is_some());
}

#[tokio::test(start_paused = true)]
async fn devices_misbehave_on_demand() {
    let (fabric, mut sm) = sm();
    let healthy = sm.get(&[1], AttrId::NODE_INFO, 0).await.unwrap();
    fabric.misbehave(SW0, Misbehaviour::Garbage);
    let garbage = sm.get(&[1], AttrId::NODE_INFO, 0).await.unwrap();
    assert_ne!(garbage.smp_data(), healthy.smp_data());
    fabric.misbehave(SW0, Misbehaviour::WrongTid);
    assert!(sm.get(&[1], AttrId::NODE_INFO, 0).await.is_none());
    fabric.revive(SW0);
    fabric.claim_guid(SW1, SW0);
    let twin = sm.get(&[1, 1], AttrId::NODE_INFO, 0).await.unwrap();
    assert_eq!(NodeInfo::read(twin.smp_data()).node_guid(), SW0);
    fabric.set_delay(Duration::from_millis(3));
    let start = Instant::now();
    assert!(sm.get(&[1], AttrId::NODE_INFO, 0).await.is_some());
    assert_eq!(start.elapsed().as_millis(), 6);
    fabric.set_delay(Duration::ZERO);
    fabric.set_link_loss(SW0, P1, 1.0);
    assert!(sm.get(&[1], AttrId::NODE_INFO, 0).await.is_some());
    assert!(sm.get(&[1, 1], AttrId::NODE_INFO, 0).await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_reboot_forgets_and_a_flapping_link_comes_back() {
    let (fabric, mut sm) = sm();
    sm.bring_up().await;
    assert!(fabric.reboot(SW1));
    assert_eq!(fabric.lft(SW1), Some(Vec::new()));
    assert_eq!(fabric.port_info(SW1, PortNum(0)).unwrap().lid(), Lid(0));
    assert_eq!(fabric.port_info(SW0, P1).unwrap().port_state(), PortState::Init);
    assert!(fabric.switch_info(SW0).unwrap().port_state_change());
    let up = || fabric.port_info(SW0, P1).unwrap().port_state() != PortState::Down;
    fabric.flap(SW0, P1, Duration::from_secs(1), 4);
    let mut seen = vec![up()];
    for _ in 0..4 {
        tokio::time::sleep(Duration::from_millis(1001)).await;
        seen.push(up());
    }
    assert_eq!(seen, [false, true, false, true, true]);
}

/// Which of 200 Gets come through at a loss of 30 % each way.
async fn lossy_run(seed: u64) -> Vec<bool> {
    let topology = "2x1".parse::<Shape>().unwrap().build().unwrap();
    let fabric = SimFabric::new(&topology, Hardware::default(), seed);
    let mut client = Client::at(&fabric, HOST0, true);
    fabric.set_loss(0.3);
    let mut answered = Vec::new();
    for _ in 0..200 {
        answered.push(client.get(&[1, 1], AttrId::NODE_INFO, 0).await.is_some());
    }
    answered
}

#[tokio::test(start_paused = true)]
async fn the_same_seed_loses_the_same_mads() {
    let first = lossy_run(1).await;
    assert_eq!(first, lossy_run(1).await);
    assert_ne!(first, lossy_run(2).await);
    let through = first.iter().filter(|&&answered| answered).count();
    assert!((70..130).contains(&through), "{through} of 200 with a chance of 0.49");
}
