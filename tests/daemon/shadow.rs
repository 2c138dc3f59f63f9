//! What torus-sm would do beside another subnet manager: it tells, and sends Gets only.

use std::convert::Infallible;
use std::sync::Arc;
use testkit::{Observer, SimCluster, settle};
use torus_sm::cli::ExitCode;
use torus_sm::config::config_files::ConfigFiles;
use torus_sm::config::options::Options;
use torus_sm::daemon::shadow::dry_start::DryStart;
use torus_sm::daemon::shadow::first_start::FirstStart;
use torus_sm::daemon::shadow::port::ShadowPort;
use torus_sm::daemon::shadow::set_view::{SetEffect, SetView};
use torus_sm::daemon::sm_loop::files::StateFiles;
use torus_sm::ids::PortNum;
use torus_sm::transport::MadPort;
use torus_sm::transport::transactions::SmpRequest;
use torus_sm::wire::attr::AttrId;

/// The position of the host at which the subnet manager runs.
const MANAGER: [u16; 3] = [0; 3];

/// A port at the host of the switch at `at` of which only Gets leave.
fn port(cluster: &SimCluster, at: [u16; 3], options: &Options) -> ShadowPort {
    let place = cluster.shape.host_guid(at, 0);
    let opened = ShadowPort::open(options, |sink| {
        let port = cluster.fabric.attach(place, PortNum(1), sink, false);
        Ok::<Arc<dyn MadPort>, Infallible>(Arc::new(port.expect("the host exists")))
    });
    opened.expect("the host exists")
}

fn first_start(cluster: &SimCluster, options: &Options) -> FirstStart {
    let files = StateFiles { cache_dir: None, dump_dir: cluster.dir().into() };
    FirstStart::new(options.clone(), Arc::new(ConfigFiles::read(options)), &files)
}

/// A dry start, of which no Set may reach a device.
async fn dry_start(cluster: &SimCluster, at: [u16; 3], options: &Options) -> DryStart {
    let before = cluster.fabric.sets();
    let port = port(cluster, at, options);
    let start = first_start(cluster, options);
    let report = DryStart::run(&port.client, &port.rehearsal, start).await.expect("a sweep");
    assert_eq!(cluster.fabric.sets(), before, "a Set reached a device");
    report
}

fn changes(report: &DryStart) -> Vec<&SetView> {
    report.sets.iter().filter(|set| !set.is_harmless()).collect()
}

/// Changes an attribute of the node at the end of the route by `change`, as another program would.
async fn plant(
    cluster: &SimCluster,
    (at, attr_id, attr_mod): ([u16; 3], u16, u32),
    change: impl Fn(&mut [u8; 64]),
) {
    let eye = Observer::at(cluster, [1, 1, 0]);
    let route = eye.route_to(cluster, cluster.shape.switch_guid(at));
    let read = eye.call(&SmpRequest::get(route, attr_id, attr_mod)).await.expect("an answer");
    let mut data = read.data;
    change(&mut data);
    eye.call(&SmpRequest::set(route, attr_id, attr_mod, data)).await.expect("it is accepted");
}

#[tokio::test(start_paused = true)]
async fn a_dry_start_after_torus_sm_would_change_nothing() {
    let cluster = SimCluster::healthy("4x3x2", 1);
    let options = cluster.options();
    let sm = cluster.start(MANAGER, options.clone());
    settle().await;
    assert_eq!(cluster.faults(&sm), [""; 0]);
    let report = dry_start(&cluster, MANAGER, &options).await;
    assert_eq!(changes(&report), [] as [&SetView; 0]);
    assert_eq!(report.exit_code(), ExitCode::Ok);
    let text = report.text();
    assert!(text.contains("of which 0 change what devices hold"), "{text}");

    // At another host, all ports would name that host as the master, and nothing else would change.
    let report = dry_start(&cluster, [2, 1, 0], &options).await;
    let other = changes(&report);
    assert!(!other.is_empty() && report.exit_code() == ExitCode::Changes);
    assert!(other.iter().all(|set| set.effect == SetEffect::NamesManager), "{other:?}");
    assert_eq!(report.managers.len(), 1);
}

/// The Sets of a cold fabric are those that the first sweep then sends: their number and the result.
#[tokio::test(start_paused = true)]
async fn a_dry_start_on_a_cold_fabric_tells_the_sets_of_the_first_sweep() {
    let cluster = SimCluster::healthy("3x3x1", 1);
    let options = Options { use_optimized_slvl: false, ..cluster.options() };
    let report = dry_start(&cluster, MANAGER, &options).await;
    assert_eq!(report.exit_code(), ExitCode::Changes);
    assert!(cluster.fabric.sets() == 0);
    let _sm = cluster.start(MANAGER, options);
    settle().await;
    for attribute in [
        AttrId::PORT_INFO,
        AttrId::LINEAR_FT,
        AttrId::SL_TO_VL,
        AttrId::VL_ARBITRATION,
        AttrId::PKEY_TABLE,
    ] {
        let name = AttrId::name(attribute);
        let told = report.sets.iter().filter(|set| set.attribute == name).count() as u64;
        assert_eq!(told, cluster.fabric.requests(attribute)[1], "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_dry_start_names_each_planted_difference() {
    let cluster = SimCluster::healthy("3x3x1", 1);
    let options = cluster.options();
    let _sm = cluster.start(MANAGER, options.clone());
    settle().await;
    let lid = usize::from(cluster.host_lid([2, 2, 0]).0);
    plant(&cluster, ([1, 0, 0], AttrId::LINEAR_FT, 0), |data| data[lid] ^= 3).await;
    let output = 1;
    plant(&cluster, ([1, 2, 0], AttrId::SL_TO_VL, 2 << 8 | output), |data| data[0] = 0x77).await;
    let report = dry_start(&cluster, MANAGER, &options).await;
    let found = changes(&report);
    let lines: Vec<String> = found
        .iter()
        .map(|set| format!("{} {} {}: {:?}", set.name, set.attribute, set.place, set.differences))
        .collect();
    assert_eq!(found.len(), 2, "{lines:#?}");
    assert!(
        lines.iter().any(|line| line.contains("LinearForwardingTable block 0")
            && line.contains(&format!("LID {lid}: held port"))),
        "{lines:#?}"
    );
    assert!(
        lines.iter().any(|line| line.contains("SLtoVLMappingTable from port 2 to port 1")
            && line.contains("SL 0: held VL 7")),
        "{lines:#?}"
    );
}
