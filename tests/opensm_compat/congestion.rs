//! Congestion control: what Debian's opensm and torus-sm write to the simulated devices, device for
//! device, for the same configuration file.

use std::fs;
use std::process::Stdio;
use std::time::{Duration, Instant};
use testkit::simulator::Simulator;
use testkit::{Running, START_TIMEOUT, tool, torus_sm, wait_for};

/// Time until the settings are written, after the subnet is up.
const LIMIT: Duration = Duration::from_secs(60);

/// Configurations by name.
fn cases() -> Vec<(&'static str, String)> {
    let entries = |count: usize| {
        let entries: Vec<String> = (0..count).map(|at| format!("{}:{at}", at % 4)).collect();
        entries.join(",")
    };
    let full = format!(
        "cc_sw_cong_setting_control_map 0x1f\n\
         cc_sw_cong_setting_victim_mask 0x1F2\n\
         cc_sw_cong_setting_credit_mask 0x8000000000000000000000000000000000000000000000000000000000000002\n\
         cc_sw_cong_setting_threshold 0xf\n\
         cc_sw_cong_setting_packet_size 9\n\
         cc_sw_cong_setting_credit_starvation_threshold 0x7\n\
         cc_sw_cong_setting_credit_starvation_return_delay 3:16383\n\
         cc_sw_cong_setting_marking_rate 65535\n\
         cc_ca_cong_setting_port_control 0x1\n\
         cc_ca_cong_setting_control_map 0xffff\n\
         cc_ca_cong_setting_ccti_timer 0 65535\n\
         cc_ca_cong_setting_ccti_timer 15 2\n\
         cc_ca_cong_setting_ccti_increase 3 255\n\
         cc_ca_cong_setting_trigger_threshold 3 4\n\
         cc_ca_cong_setting_ccti_min 14 5\n\
         cc_cct {}\n",
        entries(128)
    );
    // Each value is wrong: what is written is what OpenSM makes of it.
    let repaired = format!(
        "cc_sw_cong_setting_control_map 0x1f\n\
         cc_sw_cong_setting_victim_mask 0x{}\n\
         cc_sw_cong_setting_credit_mask 0x12x\n\
         cc_sw_cong_setting_threshold 0x2b\n\
         cc_sw_cong_setting_packet_size 256\n\
         cc_sw_cong_setting_credit_starvation_threshold 0x15\n\
         cc_sw_cong_setting_credit_starvation_return_delay 6:16390\n\
         cc_sw_cong_setting_marking_rate 65536\n\
         cc_ca_cong_setting_control_map 0xffff\n\
         cc_ca_cong_setting_ccti_timer 16 7\n\
         cc_ca_cong_setting_ccti_timer 2 70000\n\
         cc_ca_cong_setting_ccti_increase 2\n\
         cc_cct {},\n",
        "a5".repeat(40),
        entries(140)
    );
    vec![
        ("defaults", String::new()),
        ("all keys", full),
        ("wrong values", repaired),
        ("one entry", "cc_ca_cong_setting_control_map 1\ncc_cct 1:7\n".to_owned()),
        ("two blocks", format!("cc_cct {}\n", entries(65))),
        ("wrong entry", "cc_cct 1:7,2\n".to_owned()),
        (
            "partly selected",
            "cc_sw_cong_setting_control_map 0x4\n\
          cc_sw_cong_setting_threshold 3\ncc_sw_cong_setting_marking_rate 8\n\
          cc_ca_cong_setting_control_map 0x8\ncc_ca_cong_setting_ccti_timer 2 8\n\
          cc_ca_cong_setting_ccti_timer 3 9\n"
                .to_owned(),
        ),
    ]
}

/// The settings of all devices after `program` has configured them.
fn settings(is_ours: bool, keys: &str) -> String {
    let sim = Simulator::start(&["3x2", "--no-sm"]);
    let path = |name: &str| sim.dir.path().join(name);
    let conf = path("congestion.conf");
    fs::write(&conf, format!("congestion_control TRUE\n{keys}")).expect("a file");
    let program = if is_ours { torus_sm() } else { tool("opensm").expect("checked before") };
    let child = sim
        .command("", &program)
        .arg("-f")
        .arg(path("sm.log"))
        .arg("-F")
        .arg(&conf)
        .env("TORUS_SM_RUNTIME_DIR", sim.dir.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let _sm = Running(child.expect("it starts"));
    wait_for(&path("sm.log"), "SUBNET UP", START_TIMEOUT);
    if is_ours {
        wait_until_configured(&sim);
    }
    sim.control(&["congestion"])
}

/// OpenSM reports the subnet up after congestion control, torus-sm before it.
fn wait_until_configured(sim: &Simulator) {
    let start = Instant::now();
    loop {
        let output = std::process::Command::new(torus_sm())
            .args(["status", "--json"])
            .env("TORUS_SM_RUNTIME_DIR", sim.dir.path())
            .output()
            .expect("torus-sm starts");
        let status: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        let of = &status["congestion_control"];
        // 6 switches and 6 hosts.
        if of["configured"] == 12 && of["busy"] == false {
            return;
        }
        assert!(start.elapsed() < LIMIT, "{of}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Devices whose settings differ, by their lines.
fn differences(ours: &str, theirs: &str) -> Vec<(String, String)> {
    assert_eq!(ours.lines().count(), theirs.lines().count(), "{ours}\n{theirs}");
    let pairs = ours.lines().zip(theirs.lines());
    let different = pairs.filter(|(ours, theirs)| ours != theirs);
    different.map(|(ours, theirs)| (ours.to_owned(), theirs.to_owned())).collect()
}

#[test]
fn devices_get_the_settings_that_opensm_writes() {
    if tool("opensm").is_none() {
        return;
    }
    for (name, keys) in cases() {
        let (theirs, ours) = std::thread::scope(|scope| {
            let theirs = scope.spawn(|| settings(false, &keys));
            let ours = settings(true, &keys);
            (theirs.join().expect("no panic"), ours)
        });
        assert_eq!(theirs.matches("CC_Key").count(), 12, "{theirs}");
        assert_eq!(differences(&ours, &theirs), [], "{name}");
    }
}
