//! Recorded SMPs of a subnet manager.

use std::sync::{Arc, Mutex};
use std::time::Duration;
use testkit::tamper::Tampering;
use testkit::{SimCluster, settle};
use tokio::time::sleep;
use torus_sm::config::options::Options;
use torus_sm::wire::attr::SmState;
use torus_sm::wire::mad::Mad;

/// All SMPs of a cold start and of a repair, in order, without transaction IDs.
pub(crate) async fn trace(cluster: SimCluster, options: Options) -> Vec<Mad> {
    let sent = Arc::new(Mutex::new(Vec::new()));
    let log = sent.clone();
    let tampering = Tampering::default();
    tampering.set(move |mad| {
        let mut copy = *mad;
        copy.0[8..16].fill(0);
        log.lock().expect("no panic").push(copy);
    });
    let same = options.clone();
    let reload = Box::new(move || Ok(same.clone().into()));
    let sm = cluster.start_behind([0; 3], options, reload, |port| tampering.wrap(port));
    settle().await;
    assert_eq!(sm.state(), SmState::Master);
    let host = cluster.shape.host_guid([1, 1, 0], 0);
    assert!(cluster.fabric.reboot(host));
    sleep(Duration::from_secs(30)).await;
    sm.stop().await;
    sent.lock().expect("no panic").clone()
}
