//! Tests of the simulated devices, and a client for them.

mod agents;
mod faults;
mod programs;

use super::generate::Shape;
use super::*;
use crate::fabric::synthetic::Hardware;
use crate::ids::{Guid, Lid, MKey, PortNum};
use crate::transport::{Address, Agent, Delivery, MadPort, MadSink, Outcome, Outgoing};
use crate::wire::attr::{AttrId, PhysState, PortInfo, PortState, SwitchInfo};
use crate::wire::mad::{Mad, Method, Status};
use crate::wire::smp::{DirectedRoute, SmpFields, SmpRoute, request};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

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

/// A program at a port with one outstanding request.
pub(super) struct Client {
    pub(super) port: SimPort,
    pub(super) inbox: mpsc::UnboundedReceiver<(Agent, Address, Outcome, Vec<u8>)>,
    tid: u64,
    m_key: MKey,
    retries: u32,
}

impl Client {
    pub(super) fn at(fabric: &SimFabric, guid: Guid, is_sm: bool) -> Self {
        let (sender, inbox) = mpsc::unbounded_channel();
        let port = fabric.attach(guid, P1, Arc::new(Sink(sender)), is_sm).expect("an end port");
        Self { port, inbox, tid: 0, m_key: MKey::NONE, retries: 0 }
    }

    fn send(&mut self, route: SmpRoute, method: Method, attr: (u16, u32), data: &[u8]) {
        self.tid += 1;
        let mut block = [0; 64];
        let len = data.len().min(64);
        block[..len].copy_from_slice(&data[..len]);
        let mad = request(
            &route,
            SmpFields {
                method,
                attr_id: attr.0,
                attr_mod: attr.1,
                m_key: self.m_key,
                tid: self.tid,
            },
            &block,
        );
        let (agent, to) = match route {
            SmpRoute::Directed(_) => (Agent::SmiDirected, Address::smi(Lid::PERMISSIVE)),
            SmpRoute::Lid(lid) => (Agent::SmiLid, Address::smi(lid)),
        };
        self.post(agent, to, Some(TIMEOUT), &mad.0);
    }

    fn post(&self, agent: Agent, to: Address, timeout: Option<Duration>, mad: &[u8]) {
        let out = Outgoing { agent, to, timeout, retries: self.retries, mad };
        self.port.post(&out).expect("the MAD is sent");
    }

    async fn next(&mut self) -> (Outcome, Mad) {
        let (.., outcome, mad) = self.inbox.recv().await.expect("the fabric exists");
        (outcome, Mad::read(&mad))
    }

    /// Sends a request; returns the response, or `None` after a timeout.
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

    /// Sends a Set; returns the status of the response.
    async fn set(&mut self, exits: &[u8], attr: u16, modifier: u32, data: &[u8]) -> u16 {
        let answer = self.ask(route(exits), Method::SET, (attr, modifier), data).await;
        answer.expect("a response").smp().status()
    }

    async fn info(&mut self, exits: &[u8], num: u8) -> PortInfo {
        let mad = self.get(exits, AttrId::PORT_INFO, num.into()).await.expect("a response");
        PortInfo::read(mad.smp_data())
    }

    /// Reads PortInfo and sets it with `change` applied; port states stay.
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

    /// Configures LIDs 1 (host 0), 2 (switch 0), 3 (host 1) and 4 (switch 1), the LFTs, and ACTIVE
    /// links.
    pub(super) async fn bring_up(&mut self) {
        for (exits, num, lid) in
            [(&[][..], 1, 1), (&[1], 0, 2), (&[1, 1, 7], 1, 3), (&[1, 1], 0, 4)]
        {
            let status = self.change(exits, num, |info| {
                info.set_lid(Lid(lid));
                info.set_master_sm_lid(Lid(1));
            });
            assert_eq!(status.await, Status::OK);
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

/// Two switches, connected by port 1 of one and port 2 of the other, with a host each at port 7.
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
