//! The load of management agents, which serve one SMP at a time, during a cold start.

use super::*;
use std::collections::{HashMap, HashSet};
use std::sync::Mutex;
use torus_sm::transport::recorded::{MadFate, MadRecorder, RecordedPort};
use torus_sm::wire::mad::{Class, Mad};

/// Consecutive Sets in which many devices must be met: the largest window that adapts.
const WINDOW: usize = 64;

const SMA_SPEED: SmaSpeed =
    SmaSpeed { service_time: Duration::from_micros(50), queue: SmaSpeed::UNLIMITED };

/// Offset and size of the initial path in a directed-route SMP.
const PATH: std::ops::Range<usize> = 128..192;

/// A Set that was sent: the attribute, and the route to the device.
type Sent = (u16, Vec<u8>);

/// Keeps the Sets that a port sends.
#[derive(Default)]
struct SentSets(Mutex<Vec<Sent>>);

impl MadRecorder for SentSets {
    fn record(&self, fate: MadFate, _: Agent, peer: &Address, mad: &[u8]) {
        let header = Mad::read(mad).header();
        let is_smp = matches!(header.class(), Class::SUBN_LID | Class::SUBN_DIRECTED);
        if fate != MadFate::Sent || !is_smp || header.method() != Method::SET.0 {
            return;
        }
        let mut route = peer.lid.0.to_be_bytes().to_vec();
        if header.class() == Class::SUBN_DIRECTED {
            route.extend_from_slice(&mad[PATH]);
        }
        self.0.lock().expect("no panic").push((header.attr_id(), route));
    }
}

/// The runs of Sets of one attribute that exceed a window.
fn phases(sets: &[Sent]) -> impl Iterator<Item = &[Sent]> {
    sets.chunk_by(|(a, _), (b, _)| a == b).filter(|phase| phase.len() > WINDOW)
}

async fn sets_of_a_cold_start(cluster: &SimCluster, options: Options) -> Vec<Sent> {
    let sent = Arc::new(SentSets::default());
    let recorder = sent.clone();
    let same = options.clone();
    let reload = Box::new(move || Ok(same.clone().into()));
    let wrap = |port: Arc<dyn MadPort>| -> Arc<dyn MadPort> {
        Arc::new(RecordedPort::new(port, recorder))
    };
    let sm = cluster.start_behind(ORIGIN, options, reload, wrap);
    let late = Instant::now() + Duration::from_secs(300);
    let mut is_discovered = false;
    while sm.subnet.borrow().is_none() && Instant::now() < late {
        sleep(Duration::from_millis(1)).await;
        if !is_discovered && !sent.0.lock().expect("no panic").is_empty() {
            is_discovered = true;
            // Discovery meets a switch by several routes before it knows that they lead to one switch.
            cluster.fabric.set_sma_speed(SMA_SPEED);
        }
    }
    assert_eq!(cluster.faults(&sm), [""; 0]);
    assert_eq!(sm.stop().await, Exit::Clean);
    std::mem::take(&mut sent.0.lock().expect("no panic"))
}

#[tokio::test(start_paused = true)]
async fn sets_meet_many_devices_and_queue_at_none() {
    for (max_wire_smps, max_adaptive_wire_smps) in [(4, 64), (64, 0)] {
        let cluster = SimCluster::healthy("4x4x4", 1);
        cluster.fabric.set_sma_speed(SMA_SPEED);
        let options =
            Options { max_wire_smps, max_adaptive_wire_smps, qos: true, ..cluster.options() };
        let sets = sets_of_a_cold_start(&cluster, options).await;
        let longest_queue = cluster.fabric.longest_sma_queue();
        assert!((1..=2).contains(&longest_queue), "{longest_queue}");
        let mut attributes = HashMap::new();
        for phase in phases(&sets) {
            for part in phase.windows(WINDOW) {
                let devices: HashSet<_> = part.iter().map(|(_, route)| route).collect();
                let attribute = part[0].0;
                assert!(devices.len() >= 32, "attribute {attribute:#06x}: {}", devices.len());
            }
            *attributes.entry(phase[0].0).or_insert(0) += phase.len();
        }
        for attribute in [AttrId::LINEAR_FT, AttrId::SL_TO_VL, AttrId::PORT_INFO] {
            assert!(attributes.contains_key(&attribute), "{attribute:#06x}: {attributes:?}");
        }
    }
}
