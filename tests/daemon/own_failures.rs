//! Failures on the daemon's own side: its device is lost, or a pass panics. The daemon keeps
//! running, does not act as master while it cannot, and resumes.

use std::time::Duration;
use testkit::tamper::Tampering;
use testkit::{Observer, SimCluster, Sm, settle};
use tokio::time::sleep;
use torus_sm::config::options::Options;
use torus_sm::contained;
use torus_sm::daemon::messages::SmEvent;
use torus_sm::ids::PortNum;
use torus_sm::wire::attr::{AttrId, SmState};
use torus_sm::wire::mad::Method;

const A: [u16; 3] = [0, 0, 0];
const B: [u16; 3] = [2, 0, 0];
const EYE: [u16; 3] = [1, 1, 0];

/// The message of panics that tests cause on purpose. Other tests of the process may see them.
pub(crate) const INJECTED: &str = "a defect, put in by a test";

fn options(cluster: &SimCluster, sm_priority: u8) -> Options {
    Options { sm_priority, sminfo_polling_timeout: 1000, ..cluster.options() }
}

#[tokio::test(start_paused = true)]
async fn a_master_that_loses_its_device_is_replaced_and_resumes_when_it_is_back() {
    let cluster = SimCluster::healthy("3x3x1", 1);
    let eye = Observer::at(&cluster, EYE);
    let (first, device) = cluster.start_on_losable_port(A, options(&cluster, 9));
    settle().await;
    let second = cluster.start(B, options(&cluster, 1));
    sleep(Duration::from_secs(5)).await;
    assert_eq!((first.state(), second.state()), (SmState::Master, SmState::Standby));
    device.lose();
    sleep(Duration::from_secs(3)).await;
    assert_eq!(first.state(), SmState::Discovering, "it is no master without a device");
    assert_eq!(first.generation(), 0, "it publishes no subnet");
    sleep(Duration::from_secs(60)).await;
    assert_eq!(first.state(), SmState::Discovering);
    assert_eq!(eye.states(&cluster, [A, B]).await, [None, Some(SmState::Master)]);
    assert_eq!(cluster.faults(&second), [""; 0]);
    device.restore();
    sleep(Duration::from_secs(15)).await;
    let states = eye.states(&cluster, [A, B]).await;
    assert_eq!(states, [Some(SmState::Master), Some(SmState::Standby)]);
    assert_eq!(cluster.faults(&first), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn the_only_manager_survives_losses_of_its_device_at_any_time() {
    let cluster = SimCluster::healthy("3x3x1", 1);
    let (sm, device) = cluster.start_on_losable_port(A, options(&cluster, 9));
    // The fabric answers each request after 1 ms, so that the losses interrupt sweeps and
    // programming.
    cluster.fabric.set_delay(Duration::from_millis(1));
    for pause in [5, 50, 200, 400, 800, 2000] {
        sleep(Duration::from_millis(pause)).await;
        device.lose();
        sleep(Duration::from_millis(pause)).await;
        cluster.fabric.unlink(cluster.shape.switch_guid(B), PortNum(1));
        device.restore();
    }
    sleep(Duration::from_secs(30)).await;
    assert!(cluster.fabric.relink(cluster.shape.switch_guid(B), PortNum(1)));
    sleep(Duration::from_secs(30)).await;
    assert_eq!(sm.state(), SmState::Master);
    assert_eq!(cluster.faults(&sm), [""; 0]);
}

/// A daemon whose port panics as `tampering` says.
fn start_panicking(cluster: &SimCluster, tampering: &Tampering) -> Sm {
    let options = options(cluster, 9);
    let same = options.clone();
    let reload = Box::new(move || Ok(same.clone().into()));
    cluster.start_behind(A, options, reload, |port| tampering.wrap(port))
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_a_sweep_or_while_programming_is_contained() {
    for (method, attr_id) in [
        (Method::GET, AttrId::NODE_DESCRIPTION),
        (Method::SET, AttrId::LINEAR_FT),
        (Method::SET, AttrId::PORT_INFO),
    ] {
        let cluster = SimCluster::healthy("3x3x1", 1);
        let tampering = Tampering::default();
        let before = contained::count();
        let mut left = 3;
        tampering.set(move |mad| {
            let is_due = mad.method() == method && mad.header().attr_id() == attr_id;
            if is_due && left > 0 {
                left -= 1;
                panic!("{INJECTED}");
            }
        });
        let sm = start_panicking(&cluster, &tampering);
        sleep(Duration::from_secs(60)).await;
        assert!(contained::count() > before);
        assert_eq!(sm.state(), SmState::Master);
        assert_eq!(cluster.faults(&sm), [""; 0]);
        tampering.end();
        assert_eq!(cluster.sets_of_another_sweep(&sm).await, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_a_reroute_leaves_routes_in_force_and_the_next_pass_repairs_them() {
    let cluster = SimCluster::healthy("3x3x1", 1);
    let tampering = Tampering::default();
    let sm = start_panicking(&cluster, &tampering);
    sleep(Duration::from_secs(2)).await;
    assert_eq!(cluster.faults(&sm), [""; 0]);
    let before = contained::count();
    let mut left = 1;
    tampering.set(move |mad| {
        if mad.method() == Method::SET && mad.header().attr_id() == AttrId::LINEAR_FT && left > 0 {
            left -= 1;
            panic!("{INJECTED}");
        }
    });
    assert!(cluster.fabric.unlink(cluster.shape.switch_guid(B), PortNum(1)));
    sleep(Duration::from_secs(30)).await;
    assert!(contained::count() > before);
    assert_eq!(cluster.faults(&sm), [""; 0]);
    // SIGHUP and the end of the daemon work as before.
    sm.tell(SmEvent::Reload);
    settle().await;
    assert_eq!(cluster.faults(&sm), [""; 0]);
    sm.stop().await;
}
