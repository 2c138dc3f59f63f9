//! What torus-sm would do beside another subnet manager: it tells, and sends Gets only.

use std::convert::Infallible;
use std::sync::Arc;
use testkit::sa_client::joins;
use testkit::{Observer, SimCluster, settle};
use torus_sm::cli::ExitCode;
use torus_sm::config::config_files::ConfigFiles;
use torus_sm::config::options::Options;
use torus_sm::daemon::shadow::dry_start::DryStart;
use torus_sm::daemon::shadow::first_start::FirstStart;
use torus_sm::daemon::shadow::html;
use torus_sm::daemon::shadow::port::ShadowPort;
use torus_sm::daemon::shadow::report::ShadowReport;
use torus_sm::daemon::shadow::set_view::{SetEffect, SetView};
use torus_sm::daemon::shadow::watch::Shadow;
use torus_sm::daemon::sm_loop::files::StateFiles;
use torus_sm::ids::{Guid, Lid, PortNum};
use torus_sm::transport::MadPort;
use torus_sm::transport::transactions::SmpRequest;
use torus_sm::wire::attr::{AttrId, PhysState, PortInfo, PortState};
use torus_sm::wire::mad::Method;

/// The position of the host at which the subnet manager runs.
const MANAGER: [u16; 3] = [0; 3];

/// Number of multicast groups.
const GROUPS: usize = 5;

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

/// Changes an attribute of a switch by `change`, as another program would.
async fn plant(
    cluster: &SimCluster,
    (at, attr_id, attr_mod): ([u16; 3], u16, u32),
    change: impl Fn(&mut [u8; 64]),
) {
    plant_at(cluster, (cluster.shape.switch_guid(at), attr_id, attr_mod), change).await;
}

async fn plant_at(
    cluster: &SimCluster,
    (node, attr_id, attr_mod): (Guid, u16, u32),
    change: impl Fn(&mut [u8; 64]),
) {
    let eye = Observer::at(cluster, [1, 1, 0]);
    let route = eye.route_to(cluster, node);
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

/// A shadow at a host beside the subnet manager.
fn shadow(cluster: &SimCluster, options: &Options) -> Shadow {
    let port = port(cluster, [1, 1, 0], options);
    Shadow::new(port, first_start(cluster, options), Vec::new(), None)
}

/// Passes once. No Set may reach a device.
async fn pass<'a>(cluster: &SimCluster, shadow: &'a mut Shadow) -> &'a ShadowReport {
    let before = cluster.fabric.sets();
    shadow.pass().await;
    assert_eq!(cluster.fabric.sets(), before, "a Set reached a device");
    assert_eq!(shadow.report().last_failure, None);
    shadow.report()
}

fn lines(report: &ShadowReport) -> Vec<String> {
    let line = |set: &SetView| format!("{} {} {:?}", set.attribute, set.place, set.differences);
    report.differences.iter().map(line).collect()
}

#[tokio::test(start_paused = true)]
async fn a_shadow_beside_the_same_manager_finds_no_difference() {
    let cluster = SimCluster::healthy("4x3x2", 1);
    let options = cluster.options();
    let sm = cluster.start(MANAGER, options.clone());
    settle().await;
    let hosts = joins::hosts(&cluster.topology);
    joins::all(&cluster.fabric, &hosts[2..9], Method::SET, GROUPS, 1).await;
    settle().await;
    assert_eq!(cluster.faults(&sm), [""; 0]);
    let mut shadow = shadow(&cluster, &options);
    for passes in 1..=2 {
        let report = pass(&cluster, &mut shadow).await;
        assert_eq!(lines(report), [""; 0]);
        assert_eq!(report.reasons(), [""; 0], "{}", report.text());
        assert_eq!((report.passes, report.groups), (passes, GROUPS), "{}", report.text());
        assert!(report.path_sls.answered > 20, "{:?}", report.path_sls);
        assert!(report.renamed_manager > 0 && report.credit_loop.is_none());
        assert!(report.text().starts_with("safe to switch\n"));
    }
    assert_eq!(shadow.report().changes, []);
    assert_eq!(shadow.report().managers.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_shadow_names_planted_differences() {
    let cluster = SimCluster::healthy("4x3x1", 1);
    let options = cluster.options();
    let _sm = cluster.start(MANAGER, options.clone());
    settle().await;
    let mut shadow = shadow(&cluster, &options);
    assert_eq!(pass(&cluster, &mut shadow).await.reasons(), [""; 0]);
    let lid = usize::from(cluster.host_lid([2, 2, 0]).0);
    plant(&cluster, ([1, 0, 0], AttrId::LINEAR_FT, 0), |data| data[lid] = 0xFF).await;
    plant(&cluster, ([1, 2, 0], AttrId::SL_TO_VL, 2 << 8 | 1), |data| data[0] = 0x77).await;
    plant(&cluster, ([3, 2, 0], AttrId::VL_ARBITRATION, 1 << 16 | 1), |data| data[1] ^= 9).await;
    let host = cluster.shape.host_guid([2, 1, 0], 0);
    plant_at(&cluster, (host, AttrId::PKEY_TABLE, 0), |data| data.fill(0)).await;
    let moved = cluster.shape.host_guid([0, 2, 0], 0);
    plant_at(&cluster, (moved, AttrId::PORT_INFO, 1), |data| {
        let mut info = PortInfo::read(data);
        info.set_lid(Lid(99));
        info.set_port_state(PortState::NoChange);
        info.set_phys_state(PhysState::NoChange);
        data.copy_from_slice(&info.0);
    })
    .await;
    let report = pass(&cluster, &mut shadow).await;
    let found = lines(report);
    for expected in [
        format!("LinearForwardingTable block 0 [\"LID {lid}: held none, planned port"),
        "SLtoVLMappingTable from port 2 to port 1 [\"SL 0: held VL 7, planned VL".to_owned(),
        "VLArbitrationTable port 1, block 1 [\"entry 0: held".to_owned(),
        "P_KeyTable port 1, block 0 [\"index 0: held none, planned 0xffff".to_owned(),
        "PortInfo port 1 [\"LID: held 99, planned".to_owned(),
    ] {
        assert!(found.iter().any(|line| line.starts_with(&expected)), "{expected}: {found:#?}");
    }
    assert_eq!(found.len(), 5, "{found:#?}");
    assert_eq!(report.verdict(), "NOT safe to switch");
    assert_eq!(report.exit_code(), ExitCode::Changes);
    assert!(!report.faults_in_force.is_empty(), "{}", report.text());
    assert!(report.changes[0].what.iter().any(|what| what.contains("is 99, was")), "{report:?}");
    assert!(html::page(report).contains("held 99, planned"));
}

#[tokio::test(start_paused = true)]
async fn a_shadow_tells_what_it_would_have_done_when_the_fabric_changed() {
    let cluster = SimCluster::healthy("4x4x1", 1);
    let options = cluster.options();
    let _sm = cluster.start(MANAGER, options.clone());
    settle().await;
    let mut shadow = shadow(&cluster, &options);
    pass(&cluster, &mut shadow).await;
    cluster.fabric.unlink(cluster.shape.switch_guid([2, 2, 0]), PortNum(1));
    settle().await;
    let report = pass(&cluster, &mut shadow).await;
    let [change] = &report.changes[..] else { panic!("{}", report.text()) };
    assert!(change.what.iter().any(|what| what.starts_with("1 link down (")), "{change:?}");
    assert_eq!(change.engine.as_deref(), Some("torus-2QoS"));
    assert!(change.lft_blocks > 0);
    // The manager has routed around it in the same way.
    assert_eq!(report.reasons(), [""; 0], "{}", report.text());

    // A later run at the same port continues the report, one at another port does not.
    let text = serde_json::to_string(report).expect("JSON");
    let continued = |at: [u16; 3]| {
        let earlier: ShadowReport = serde_json::from_str(&text).expect("a report");
        let start = first_start(&cluster, &options);
        Shadow::new(port(&cluster, at, &options), start, Vec::new(), Some(earlier))
    };
    let mut again = continued([1, 1, 0]);
    let report = pass(&cluster, &mut again).await;
    assert_eq!((report.passes, report.changes.len()), (3, 1));
    assert!(report.gets > shadow.report().gets);
    assert_eq!(continued([3, 1, 0]).report().passes, 0);
}

/// A report that is continued with another configuration says so.
#[tokio::test(start_paused = true)]
async fn a_continued_shadow_notices_another_configuration() {
    let cluster = SimCluster::healthy("3x3x1", 1);
    let options = cluster.options();
    let shadow = |options: &Options, earlier: Option<ShadowReport>| {
        let port = port(&cluster, [1, 1, 0], options);
        let mut shadow = Shadow::new(port, first_start(&cluster, options), Vec::new(), earlier);
        let message = shadow.configure(options);
        (shadow.report().clone(), message)
    };
    let (report, message) = shadow(&options, None);
    assert_eq!(message, None);
    let (report, message) = shadow(&options, Some(report));
    assert_eq!(message, None, "the same configuration");
    let other = Options { routing_engine: Some("minhop".to_owned()), ..options };
    let (report, message) = shadow(&other, Some(report));
    let message = message.expect("another configuration");
    assert!(message.contains("routing_engine (here minhop, there torus-2QoS)"), "{message}");
    assert!(report.text().contains(&message), "{}", report.text());
}
