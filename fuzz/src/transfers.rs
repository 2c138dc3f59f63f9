//! RMPP transfers of a port that implements the protocol itself.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use torus_sm::ids::{Guid, Lid, PortNum, Sl};
use torus_sm::transport::rmpp::{
    self, ObserverSlot, Segmentation, TransferEnd, TransferObserver, TransferSize,
};
use torus_sm::transport::{
    Address, Agent, Delivery, MadPort, MadSink, Outcome, Outgoing, PortIdentity, SendError,
};
use torus_sm::wire::mad::{Class, MAD_SIZE, Mad, Method};
use torus_sm::wire::sa::{DATA_OFFSET, RMPP_OFFSET, RmppHeader};

/// Bytes of the input for each step.
const STEP: usize = 6;
/// Steps of an input.
const MAX_STEPS: usize = 200;
/// Ports that take part.
const PEERS: u8 = 3;
/// The longest request that is accepted: 64 segments.
const MAX_REQUEST: usize = DATA_OFFSET + 64 * (MAD_SIZE - DATA_OFFSET);
/// Longer than any transfer may take.
const LONG: Duration = Duration::from_secs(120);

/// What happened at the port and above it.
#[derive(Default)]
struct Seen {
    /// Packets that were sent and that no step has answered.
    sent: Vec<(Address, Mad)>,
    /// Bytes of the messages being sent to each LID, and of memory that they take.
    open: HashMap<u16, usize>,
    memory: usize,
    began: usize,
    ended: usize,
}

#[derive(Default)]
struct Wire(Mutex<Seen>);

impl Wire {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Port {
    identity: PortIdentity,
    wire: Arc<Wire>,
}

impl MadPort for Port {
    fn identity(&self) -> &PortIdentity {
        &self.identity
    }

    fn segmentation(&self) -> Segmentation {
        Segmentation::Caller
    }

    fn post(&self, out: &Outgoing<'_>) -> Result<(), SendError> {
        assert_eq!(out.mad.len(), MAD_SIZE, "the port sends single MADs");
        assert!((1..=u16::from(PEERS)).contains(&out.to.lid.0), "a MAD to nobody who asked");
        self.wire.seen().sent.push((out.to, Mad::read(out.mad)));
        Ok(())
    }
}

impl MadSink for Wire {
    fn deliver(&self, delivery: Delivery<'_>) {
        assert!((DATA_OFFSET..=MAX_REQUEST).contains(&delivery.mad.len()));
    }

    fn idle(&self) {}

    fn closed(&self, _: &str) {}
}

impl TransferObserver for Wire {
    fn began(&self, to: Lid, size: TransferSize, _: Instant) {
        let mut seen = self.seen();
        *seen.open.entry(to.0).or_default() += size.message;
        seen.memory += size.memory;
        seen.began += 1;
    }

    fn progressed(&self, to: Lid, _: Instant) {
        assert!(self.seen().open.contains_key(&to.0), "progress without a transfer");
    }

    fn ended(&self, to: Lid, size: TransferSize, _: TransferEnd, _: Instant) {
        let mut seen = self.seen();
        let open = seen.open.get_mut(&to.0).expect("a transfer that began");
        *open = open.checked_sub(size.message).expect("no more than began");
        seen.memory = seen.memory.checked_sub(size.memory).expect("no more than was taken");
        seen.ended += 1;
    }

    fn handed_over(&self, _: Lid, _: usize, _: Instant) {
        panic!("the port divides no message itself");
    }
}

/// Messages that are sent, packets that arrive, and time that passes, in steps of six bytes of the
/// input: what happens, with which port, and its numbers. Whatever arrives, single MADs go to ports
/// that take part only, and no transfer or memory is left in the end.
pub fn rmpp_transfers(data: &[u8]) {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_time().start_paused(true).build().expect("a runtime");
    runtime.block_on(transfer(data));
}

async fn transfer(data: &[u8]) {
    let wire = Arc::new(Wire::default());
    let observer: Arc<ObserverSlot> = Arc::new(OnceLock::new());
    let observed: Arc<dyn TransferObserver> = wire.clone();
    assert!(observer.set(observed).is_ok());
    let identity = PortIdentity { device: "sim0".into(), port: PortNum(1), guid: Guid(1) };
    let inner: Arc<dyn MadPort> = Arc::new(Port { identity, wire: wire.clone() });
    let mut lower: Option<Arc<dyn MadSink>> = None;
    let opened = rmpp::open(wire.clone(), observer, |sink| {
        lower = Some(sink);
        Ok::<_, SendError>(inner.clone())
    });
    let port = opened.expect("it opens");
    let sink = lower.expect("it was opened");
    for step in data.chunks_exact(STEP).take(MAX_STEPS) {
        let peer = Address::gsi(Lid(u16::from(step[1] % PEERS) + 1), Sl(0));
        let number = u16::from_be_bytes([step[2], step[3]]);
        match step[0] % 5 {
            0 => {
                let mut message = vec![step[4]; DATA_OFFSET + usize::from(number % 8192)];
                message[..DATA_OFFSET].copy_from_slice(&packet(step).0[..DATA_OFFSET]);
                let agent = Agent::Sa;
                let out = Outgoing { agent, to: peer, timeout: None, retries: 0, mad: &message };
                port.post(&out).expect("the port takes it");
            }
            1 => deliver(&*sink, peer, &packet(step)),
            // The other end acknowledges what was sent last, as it should.
            2 => {
                let last = wire.seen().sent.pop();
                if let Some((to, mut mad)) = last {
                    mad.0[3] ^= 0x80;
                    let mut rmpp = RmppHeader::read(&mad.0[RMPP_OFFSET..]);
                    rmpp.set_packet_type(2);
                    rmpp.set_payload_length(rmpp.segment() + u32::from(step[2]));
                    rmpp.write(&mut mad.0[RMPP_OFFSET..]);
                    deliver(&*sink, to, &mad);
                }
            }
            3 => tokio::time::sleep(Duration::from_millis(number.into())).await,
            // Noise behind a plausible header.
            _ => {
                let mut mad = packet(step);
                mad.0[RMPP_OFFSET..RMPP_OFFSET + STEP].copy_from_slice(step);
                deliver(&*sink, peer, &mad);
            }
        }
        let seen = wire.seen();
        assert!(seen.memory <= seen.open.values().sum(), "tables are in memory once at most");
    }
    tokio::time::sleep(LONG).await;
    let seen = wire.seen();
    assert_eq!((seen.began, seen.memory), (seen.ended, 0), "transfers are left");
    assert_eq!(seen.open.values().sum::<usize>(), 0);
}

fn deliver(sink: &dyn MadSink, from: Address, mad: &Mad) {
    let from = Address { qkey: 0, ..from };
    sink.deliver(Delivery { agent: Agent::Sa, from, outcome: Outcome::Arrived, mad: &mad.0 });
}

/// A packet with the flag Active: method, type, number, flags, status and length from the step.
fn packet(step: &[u8]) -> Mad {
    let methods = [Method::GET_TABLE_RESP, Method::GET_TABLE, Method::GET_MULTI, Method(0x94)];
    let method = methods[usize::from(step[1] / PEERS) % methods.len()];
    let mut mad = Mad::default();
    mad.0[..4].copy_from_slice(&[1, Class::SUBN_ADM, 2, method.0]);
    // Few transactions, so that packets meet transfers.
    mad.0[15] = step[5] % 4;
    let mut rmpp = RmppHeader::message(0);
    rmpp.set_packet_type(step[4] % 5);
    rmpp.set_status(if step[4] & 0x80 == 0 { 0 } else { 110 + step[3] % 20 });
    rmpp.set_segment((step[2] % 70).into());
    rmpp.set_first(step[2] % 70 == 1);
    rmpp.set_last(step[4] & 0x40 != 0);
    rmpp.set_payload_length(step[3].into());
    rmpp.write(&mut mad.0[RMPP_OFFSET..]);
    mad
}
