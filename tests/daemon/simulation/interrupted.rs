//! Traps during a reconfiguration that report what a sweep has found before.

use super::up;
use std::time::Duration;
use testkit::{SimCluster, Sm};
use tokio::time::sleep;
use torus_sm::ids::PortNum;

/// Number of reconfigurations that links ended early.
fn interrupted(sm: &Sm) -> u64 {
    let management = sm.management.as_ref().expect("it is not taken");
    let status = management.live.status.load();
    status.history.statistics.reconfigurations.get("interrupted").map_or(0, |times| times.count())
}

/// The neighbours of a lost switch report it one after the other, the first one some milliseconds
/// ahead, and a trap that was lost on its way through the switch comes half a second later.
#[tokio::test(start_paused = true)]
async fn late_traps_about_a_lost_switch_interrupt_nothing() {
    let cluster = SimCluster::healthy("4x4x4", 1);
    let sm = up(&cluster).await;
    // Sweeps and reconfigurations take longer than all prompt traps.
    cluster.fabric.set_delay(Duration::from_millis(20));
    let switch = cluster.shape.switch_guid([2, 1, 2]);
    for what in ["lost", "back"] {
        for port in 1..=6 {
            let done = match what {
                "lost" => cluster.fabric.unlink(switch, PortNum(port)),
                _ => cluster.fabric.relink(switch, PortNum(port)),
            };
            assert!(done);
            sleep(Duration::from_millis(1)).await;
        }
        sleep(Duration::from_secs(20)).await;
        assert_eq!(interrupted(&sm), 0, "{what}");
    }
    cluster.fabric.set_delay(Duration::ZERO);
    sleep(Duration::from_secs(10)).await;
    assert_eq!(cluster.faults(&sm), [""; 0]);
}
