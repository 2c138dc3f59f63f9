//! Congestion control in status, metrics and events.

use crate::client::Managed;
use testkit::SimCluster;
use torus_sm::config::options::Options;
use torus_sm::sim::CongestionFault;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn status_and_metrics_show_congestion_control() {
    let cluster = SimCluster::healthy("3x3x1", 1);
    let without = cluster.shape.host_guid([1, 1, 0], 0);
    cluster.fabric.set_congestion_fault(without, CongestionFault::Unsupported);
    let options = Options {
        congestion_control: true,
        cc_sw_cong_setting_control_map: 0x10,
        cc_sw_cong_setting_marking_rate: 3,
        ..cluster.options()
    };
    let managed = Managed::start_configured(cluster, options, |_| ()).await;
    let of = || managed.json("/v1/status")["congestion_control"].clone();
    managed.until(|| of()["configured"] == 17).await;
    managed.until(|| of()["busy"] == false).await;
    let view = of();
    assert_eq!((&view["devices"], &view["unsupported"]), (&18.into(), &1.into()), "{view}");
    assert_eq!((&view["failed"], &view["sets"]), (&0.into(), &9.into()), "{view}");
    // Hosts hold an empty table from the start, so that nothing is written to them.
    assert_eq!(view["gets"], 9 + 8 * 2 + 1, "{view}");
    assert_eq!(view["last_round"]["devices"], 18, "{view}");
    let metrics = managed.get("/metrics").body;
    for line in [
        "torus_sm_congestion_control_enabled 1.0",
        "torus_sm_congestion_control_devices{state=\"configured\"} 17.0",
        "torus_sm_congestion_control_devices{state=\"unsupported\"} 1.0",
        "torus_sm_congestion_control_devices{state=\"waiting\"} 0.0",
        "torus_sm_congestion_control_requests_total{method=\"set\"} 9",
        "torus_sm_congestion_control_failed_requests_total{result=\"refused\"} 1",
    ] {
        assert!(metrics.lines().any(|found| found == line), "{line} is not in\n{metrics}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn status_has_no_congestion_control_unless_it_is_enabled() {
    let cluster = SimCluster::healthy("3x3x1", 1);
    let options = cluster.options();
    let managed = Managed::start_configured(cluster, options, |_| ()).await;
    assert!(managed.json("/v1/status")["congestion_control"].is_null());
    let metrics = managed.get("/metrics").body;
    assert!(metrics.contains("torus_sm_congestion_control_enabled 0.0\n"));
}
