//! A switch that was cut off and returns with its tables.

use std::time::Duration;
use testkit::{Observer, SimCluster, settle};
use tokio::time::sleep;
use torus_sm::transport::transactions::SmpRequest;
use torus_sm::wire::attr::AttrId;

const A: [u16; 3] = [0, 0, 0];
/// The switch that is cut off, and its host.
const AWAY: [u16; 3] = [2, 2, 0];
/// Block 3 of the multicast forwarding table has MLIDs 0xc060 to 0xc07f, which no group uses.
const BLOCK: u32 = 3;
const ENTRY: usize = 3 * 32 + 5;

/// Entries of groups that ended while the switch was away are cleared, so that they send no packets
/// of later groups with these MLIDs to ports without members.
#[tokio::test(start_paused = true)]
async fn old_multicast_entries_of_a_returned_switch_are_cleared() {
    let cluster = SimCluster::healthy("4x4x1", 1);
    let sm = cluster.start(A, cluster.options());
    settle().await;
    let switch = cluster.shape.switch_guid(AWAY);
    let present = sm.subnet.borrow().clone().expect("SUBNET UP").fabric.switches().len();

    cluster.fabric.split(&[switch]);
    sleep(Duration::from_secs(60)).await;
    let fabric = sm.subnet.borrow().clone().expect("a subnet").fabric.clone();
    assert_eq!(fabric.switches().len(), present - 1, "the switch is gone");
    // As another subnet manager, or the group's last sweep, left it.
    let eye = Observer::at(&cluster, AWAY);
    let mut block = [0; 64];
    block[2 * 5 + 1] = 0b110;
    let set = SmpRequest::set(eye.route_to(&cluster, switch), AttrId::MULTICAST_FT, BLOCK, block);
    eye.call(&set).await.expect("the switch answers");
    assert_eq!(cluster.fabric.mft(switch, 0).expect("a table")[ENTRY], 0b110);

    cluster.fabric.heal();
    sleep(Duration::from_secs(60)).await;
    let fabric = sm.subnet.borrow().clone().expect("a subnet").fabric.clone();
    assert_eq!(fabric.switches().len(), present, "the switch is back");
    assert_eq!(cluster.fabric.mft(switch, 0).expect("a table")[ENTRY], 0, "cleared");
    let lft = cluster.fabric.lft(switch).expect("a switch");
    assert!(lft.iter().any(|&port| port != 0xFF), "routed");
    sm.stop().await;
}
