//! `torus-sm plan` as a process: reports, files, exit codes, and what-if results compared with
//! separate runs.

use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use torus_sm::sim::generate::Shape;

/// Fail rather than fall back to another engine.
const STRICT: [&str; 3] = ["-R", "torus-2QoS,no_fallback", "-Q"];

fn plan(words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_torus-sm"));
    command.arg("plan").args(words).output().expect("the program starts")
}

pub(crate) fn text(words: &[&str]) -> (Option<i32>, String) {
    let output = plan(words);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(errors, "", "{words:?}");
    (output.status.code(), String::from_utf8(output.stdout).expect("UTF-8"))
}

pub(crate) fn json(words: &[&str]) -> (Option<i32>, Value) {
    let (code, text) = text(&[words, &["--json"]].concat());
    (code, serde_json::from_str(&text).expect("JSON"))
}

pub(crate) fn strict<'a>(words: &[&'a str]) -> Vec<&'a str> {
    [words, &STRICT].concat()
}

fn vector(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors/torus-2qos").join(name)
}

#[test]
fn a_healthy_torus_is_routed() {
    let (code, report) = json(&["6x5x1", "--path-sl"]);
    assert_eq!(code, Some(0));
    assert_eq!(report["fabric"]["switches"], 30);
    assert_eq!(report["fabric"]["cables"], 90);
    assert_eq!(report["routed"], true);
    assert_eq!(report["engine"], "torus-2QoS");
    let torus = &report["torus"];
    assert_eq!(torus["radices"], serde_json::json!([6, 5, 1]));
    assert_eq!(torus["placed"].as_array().map(Vec::len), Some(30));
    assert_eq!(
        (&torus["rings"], torus["broken_rings"].as_array().map(Vec::len)),
        (&11.into(), Some(0))
    );
    assert_eq!(report["lids"]["count"], 60);
    assert_eq!(report["checks"]["credit_loop"], Value::Null);
    let hops = report["hops"].as_array().expect("a histogram");
    let paths: u64 = hops.iter().filter_map(|count| count["paths"].as_u64()).sum();
    assert_eq!(paths, 30 * 29);
    // Each of 30 switches has 2 + 2 neighbours one step away.
    assert!(hops.contains(&serde_json::json!({ "switches": 2, "paths": 120 })), "{hops:?}");
    assert_eq!(hops.last().map(|count| &count["switches"]), Some(&(1 + 3 + 2).into()));
    let rows = report["path_sl"]["sl"].as_array().expect("a matrix");
    assert_eq!(rows.len(), 30);
    let levels = rows.iter().flat_map(|row| row.as_array().expect("a row"));
    let levels: Vec<u64> = levels.filter_map(Value::as_u64).collect();
    assert_eq!(levels.len(), 900);
    // A 2D torus needs the SL bits of x and y, and no others.
    assert_eq!(levels.iter().fold(0, |all, sl| all | sl), 3);
}

#[test]
fn the_text_says_the_same() {
    let (code, text) =
        text(&["4x3x1", "--path", "h0-0-0-0 HCA-1", "h2-1-0-0 HCA-1", "--path-sl", "--placement"]);
    assert_eq!(code, Some(0));
    for line in [
        "fabric:      12 switches, 12 channel adapters, 0 routers, 36 cables",
        "engine:      torus-2QoS (of torus-2QoS, minhop)",
        "torus:       4 (ring) x 3 (ring) x 1, 12 of 12 switches placed",
        "rings:       7, 0 of them interrupted",
        "  2,1,0    0x0000000000200007 \"sw 2,1,0\"",
        "   1. 0x0000000000200000 \"sw 0,0,0\" at 0,0,0: in port 7, out port 1, VL 0",
        "  delivered",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
}

/// Every kind of fabric is planned by the engine that suits it, verified, and reported.
#[test]
fn generated_fabrics_have_their_engines() {
    let cases = [
        ("fattree:6x3", 9, 12, 18, "ftree"),
        ("fattree:3x2x2x2", 16, 12, 24, "ftree"),
        ("hypercube:3", 8, 16, 12, "dor"),
        ("dragonfly:4x3", 12, 24, 18, "nue"),
        ("random:10x15:3", 10, 20, 15, "nue"),
    ];
    for (shape, switches, hosts, links, engine) in cases {
        let (code, report) = json(&[shape, "--hosts", "2", "--what-if"]);
        assert_eq!((code, &report["engine"]), (Some(0), &engine.into()), "{shape}");
        assert_eq!(report["fabric"]["switches"], switches, "{shape}");
        assert_eq!(report["fabric"]["channel_adapters"], hosts, "{shape}");
        assert_eq!(report["fabric"]["cables"], hosts + links, "{shape}");
        assert_eq!(report["links"], 2 * links, "{shape}");
        assert_eq!(report["checks"]["credit_loop"], Value::Null, "{shape}");
        let mean = report["mean_link"].as_f64().expect("a mean load");
        let worst = report["worst_link"]["lids"].as_f64().expect("a worst load");
        assert!(0.0 < mean && mean <= worst, "{shape}: {mean}, {worst}");
        let what_if = &report["what_if"];
        assert_eq!(what_if["switches"], switches, "{shape}");
        assert_eq!(what_if["cables"], links, "{shape}");
        assert_eq!(what_if["failures"].as_array().map(Vec::len), Some(switches + links));
        let of = |result: &str| what_if[result].as_u64().expect("a count");
        assert!(of("routed") + of("fallback") > of("unrouted"), "{shape}: {what_if}");
    }
}

#[test]
fn engines_report_ranks_roots_and_layers() {
    let (_, tree) = json(&["fattree:6x3", "--hosts", "2"]);
    assert_eq!(tree["structure"]["ranks"], serde_json::json!([3, 6]));
    let roots = tree["structure"]["roots"].as_array().expect("roots");
    let names: Vec<_> = roots.iter().filter_map(|root| root["description"].as_str()).collect();
    assert_eq!(names, ["spine 0", "spine 1", "spine 2"]);
    assert_eq!((&tree["sls"], &tree["vls"]), (&[0].into(), &[0].into()));
    let (_, torus) = json(&["5x5x1"]);
    assert_eq!((&torus["sls"], &torus["vls"]), (&[0, 1, 2, 3].into(), &[0, 1].into()));
    let (_, ring) = json(&["6x1x1", "-R", "lash,no_fallback", "-Q"]);
    assert_eq!(ring["structure"]["layers"], 3);
    assert_eq!((&ring["sls"], &ring["vls"]), (&[0, 1, 2].into(), &[0, 1, 2].into()));
}

#[test]
fn engines_are_compared_side_by_side() {
    let words = ["6x1x1", "--compare", "minhop,updn,dfsssp"];
    let (code, report) = json(&words);
    assert_eq!(code, Some(1));
    assert_eq!(report["fabric"]["switches"], 6);
    let engines = report["compare"].as_array().expect("a list");
    let routed: Vec<_> = engines.iter().map(|engine| engine["routed"].as_bool()).collect();
    assert_eq!(routed, [Some(true), Some(false), Some(true)]);
    assert!(engines[0]["checks"]["credit_loop"].is_string());
    assert_eq!(engines[2]["structure"]["layers"], 2);
    assert_eq!(engines[2]["vls"], serde_json::json!([0, 1, 2, 3, 4, 5, 6, 7]), "balanced");
    let (code, table) = text(&words);
    assert_eq!(code, Some(1));
    let lines: Vec<Vec<&str>> =
        table.lines().map(|line| line.split_whitespace().collect()).collect();
    assert!(lines.contains(&vec!["engine", "minhop", "updn", "dfsssp"]), "{table}");
    assert!(lines.contains(&vec!["routed", "yes", "no", "yes"]), "{table}");
    assert!(lines.contains(&vec!["credit", "loops", "FOUND", "-", "none"]), "{table}");
    assert!(table.contains("\nupdn: ERR AA0A: no root switch found"), "{table}");
    assert!(table.contains("\nminhop: credit loop: "), "{table}");
    let wrong = plan(&["6x1x1", "--compare", "minhop,up"]);
    assert_eq!(wrong.status.code(), Some(4));
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("unknown routing engine \"up\""));
}

/// The fabric of another machine, of which only the output of ibnetdiscover is at hand.
#[test]
fn the_torus_of_a_file_is_derived_and_drawn() {
    let default = torus_sm::config::options::Options::default().torus_config;
    if Path::new(&default).exists() {
        println!("SKIPPED: {default} is in the way");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let name = |file: &str| folder.path().join(file).to_str().expect("UTF-8").to_owned();
    assert_eq!(text(&["5x4x1", "--write", &name("")]).0, Some(0));
    let fabric = name("fabric.net");
    let picture = name("torus.svg");
    let (code, report) = json(&strict(&["--file", &fabric, "--draw", &picture]));
    assert_eq!((code, &report["engine"]), (Some(0), &"torus-2QoS".into()));
    let notes = report["notes"].to_string();
    assert!(notes.contains("the torus 5x4 is derived from the cables"), "{notes}");
    let svg = fs::read_to_string(&picture).expect("a picture");
    assert!(svg.starts_with("<svg"));
    // The date is that of the file.
    let modified = fs::metadata(&fabric).and_then(|file| file.modified()).expect("a time");
    let date = chrono::DateTime::<chrono::Local>::from(modified).format("%Y-%m-%d");
    assert!(svg.contains(&format!(">1 x 5 x 4: fabric.net, {date}<")), "{svg}");
    // Two dimensions are one plane.
    assert!(svg.contains(">x = 0<") && !svg.contains(">x = 1<") && !svg.contains(">z = "), "{svg}");
    assert_eq!(svg.matches("class=\"dateline\"").count(), 2 + 1, "with that of the legend");
}

/// Bands along the cables that detours use, and their entry in the legend.
#[test]
fn drawings_show_detours_around_damage() {
    let folder = tempfile::tempdir().expect("a folder");
    let picture = folder.path().join("torus.svg");
    let bands = |words: &[&str]| {
        let words = [&["6x6"], words, &["--draw", picture.to_str().expect("UTF-8")]].concat();
        let (code, report) = json(&strict(&words));
        assert_eq!((code, &report["engine"]), (Some(0), &"torus-2QoS".into()));
        let svg = fs::read_to_string(&picture).expect("a picture");
        let titles = svg.matches("<title>detours: ").count();
        (svg.matches("class=\"detour\"").count(), titles, svg.contains(" detours</text>"))
    };
    assert_eq!(bands(&["--missing-switch", "2,2,0"]), (0, 0, false));
    let (bands, titles, is_explained) =
        bands(&["--missing-switch", "2,2,0", "--missing-switch", "4,1,0"]);
    assert!(titles > 10, "{titles}");
    assert_eq!((bands, is_explained), (titles + 1, true), "one more in the legend");
}

/// Hosts, datelines and loads of a drawing.
#[test]
fn drawings_show_hosts_datelines_and_loads() {
    let folder = tempfile::tempdir().expect("a folder");
    let picture = folder.path().join("torus.svg");
    let draw = |words: &[&str]| {
        let words = [words, &["--draw", picture.to_str().expect("UTF-8")]].concat();
        let (_, report) = json(&strict(&words));
        (fs::read_to_string(&picture).expect("a picture"), report)
    };
    let count = |svg: &str, what: &str| elements(svg).iter().filter(|e| e.contains(what)).count();
    let (svg, report) = draw(&["4x3x1", "--hosts", "8"]);
    assert!(svg.contains(">4 x 3 x 1: generated, 20"), "{svg}");
    // Six of the eight hosts of each switch; one host is the SM's. The legend has one more.
    let hosts = [count(&svg, "class=\"host\""), count(&svg, "class=\"host sm\"")];
    assert_eq!((hosts, svg.matches(">+2<").count()), ([12 * 6, 1], 12));
    assert_eq!(count(&svg, "class=\"dateline\""), 2 + 1);
    // 12 cables in each dimension; 3 + 4 rings cross a dateline, with a stub at both ends.
    assert_eq!(svg.matches("<title>LIDs forwarded: ").count(), 12 * 2 + 7);
    let busiest = report["worst_link"]["lids"].as_u64().expect("the busiest link");
    assert!(svg.contains(&format!(">{busiest} LIDs<")), "{busiest}");
    assert!(count(&svg, "style=\"stroke-width:7.0\"") > 0);
    // With a pattern of traffic, cables have its flows; two parallel cables carry half each.
    let flows = |engine: &str| {
        let words = ["4x4x1", "--parallel", "2", "--traffic", "all-to-all", "-Q", "-R", engine];
        let (code, _) = json(&[&words, &["--draw", picture.to_str().expect("UTF-8")][..]].concat());
        assert_eq!(code, Some(0), "{engine}");
        let svg = fs::read_to_string(&picture).expect("a picture");
        assert_eq!(svg.matches("<title>flows: ").count(), 16 * 2 + 8, "{engine}");
        let legend = svg.split(" flows<").next().and_then(|before| before.rsplit('>').next());
        legend.and_then(|number| number.parse::<f64>().ok()).expect("the busiest cable")
    };
    assert!(flows("ar_torus") < flows("torus-2QoS"));
    // Two dimensions of a mesh have no datelines.
    let (mesh, _) = draw(&["4mx3m"]);
    assert_eq!(count(&mesh, "class=\"dateline\""), 1, "that of the legend");
    let (cube, _) = draw(&["3x3x3"]);
    assert!(cube.contains("dateline of z below this plane"));
    assert_eq!(count(&cube, "class=\"dateline\""), 3 * 2 + 1);
}

#[test]
fn rejected_fabrics_are_explained_and_drawn() {
    let folder = tempfile::tempdir().expect("a folder");
    let picture = folder.path().join("torus.svg");
    let conf = folder.path().join("opensm.conf");
    fs::write(&conf, "qos TRUE\nrouting_engine torus-2QoS\ntorus_repair FALSE\n").expect("written");
    let conf = ["-F", conf.to_str().expect("UTF-8")];
    let missing = ["5x5x1", "--missing-switch", "1,1", "--missing-switch", "3,3"];
    let holes = [&missing[..], &conf].concat();
    let draw = ["--draw", picture.to_str().expect("UTF-8")];
    let (code, report) = json(&strict(&[&holes[..], &draw].concat()));
    assert_eq!(code, Some(1));
    assert_eq!(report["routed"], false);
    let notes = report["engine_errors"][0]["notes"].as_array().expect("reasons");
    assert!(notes.iter().any(|note| note["code"] == "4E38"), "{notes:?}");
    assert_eq!(report["torus"]["missing_switches"], serde_json::json!([[1, 1, 0], [3, 3, 0]]));
    let svg = fs::read_to_string(&picture).expect("a snapshot");
    let elements = elements(&svg);
    assert!(!svg.contains("LIDs"), "there are no routes");
    // One more is in the legend.
    assert_eq!(elements.iter().filter(|e| e.contains("class=\"lost\"")).count(), 2 + 1);
    assert_eq!(elements.iter().filter(|e| e.contains("class=\"switch")).count(), 23 + 1);

    let (code, report) = json(&holes);
    // The fabric is routed, but not by an engine that was asked for.
    assert_eq!((code, &report["engine"]), (Some(1), &"minhop".into()));
    assert_eq!((&report["routed"], &report["fallback"]), (&true.into(), &true.into()));
    let notes = report["notes"].as_array().expect("notes");
    let first = notes[0]["text"].as_str().expect("a text");
    assert!(first.starts_with("torus-2QoS cannot route this fabric, minhop is used"), "{first}");
    // The reason is printed once.
    let reasons = notes.iter().filter(|note| note["code"] == "4E38");
    assert_eq!(reasons.count(), 1, "{notes:?}");
}

#[test]
fn two_missing_switches_are_routed_around() {
    let missing = ["5x5x1", "--missing-switch", "1,1", "--missing-switch", "3,3"];
    let (code, report) = json(&strict(&missing));
    assert_eq!((code, &report["engine"]), (Some(0), &"torus-2QoS".into()));
    let notes = report["notes"].as_array().expect("notes");
    let texts: Vec<&str> = notes.iter().filter_map(|note| note["text"].as_str()).collect();
    let summary = texts.iter().find(|text| text.contains("routed around: "));
    let summary = summary.unwrap_or_else(|| panic!("{texts:#?}"));
    assert!(
        summary.starts_with("torus-2QoS: 2 switches are missing; routed around: "),
        "{summary}"
    );
    assert!(summary.contains(" of 506 pairs of switches use detours (mean "), "{summary}");
    assert!(summary.ends_with("; all connected, SLs unchanged, no credit loops"), "{summary}");
    let reason = "without torus_repair, torus-2QoS would refuse the fabric: ";
    assert!(texts.iter().any(|text| text.starts_with(reason)), "{texts:#?}");
}

#[test]
fn too_few_vls_for_a_missing_switch_are_named_with_the_remedy() {
    let folder = tempfile::tempdir().expect("a folder");
    let conf = folder.path().join("opensm.conf");
    let fabric = ["6x5", "--missing-switch", "2,2,0", "-F", conf.to_str().expect("UTF-8")];
    let options = "qos TRUE\nrouting_engine torus-2QoS,no_fallback\n";
    fs::write(&conf, format!("{options}max_op_vls 2\n")).expect("written");
    let (code, report) = json(&fabric);
    assert_eq!(code, Some(1));
    let cause = "torus-2QoS needs 4 data VLs between switches to route around the missing switch \
                 2,2,0, and there are only 2: raise max_op_vls to 3 (4 data VLs) or more, or bring \
                 the switch back";
    let faults = report["faults"].as_array().expect("faults");
    assert!(faults.iter().any(|fault| fault == cause), "{faults:?}");
    fs::write(&conf, format!("{options}max_op_vls 3\n")).expect("written");
    assert_eq!(json(&fabric).0, Some(0));
}

#[test]
fn multicast_sls_that_torus_2qos_cannot_use_are_a_warning() {
    let folder = tempfile::tempdir().expect("a folder");
    let partitions = folder.path().join("partitions.conf");
    let fabric = strict(&["3x3", "-P", partitions.to_str().expect("UTF-8")]);
    let warnings = |definition: &str| -> Vec<String> {
        fs::write(&partitions, definition).expect("written");
        let (code, report) = json(&fabric);
        assert_eq!(code, Some(0), "{report}");
        let notes = report["notes"].as_array().expect("notes").iter();
        let texts = notes.filter_map(|note| note["text"].as_str());
        texts.filter(|text| text.contains("multicast group")).map(str::to_owned).collect()
    };
    let found =
        warnings("Default=0x7fff,ipoib,sl=3:ALL=full;\na=1,ipoib,sl=9:ALL;\nb=2,sl=3:ALL;\n");
    assert_eq!(
        found,
        ["multicast groups of partition \"Default\" (0x7fff) have SL 3, and those of 1 other \
             partition: with torus-2QoS such a group can close a credit loop with unicast routes; \
             use SL 0 or 8"]
    );
    assert_eq!(warnings("Default=0x7fff,ipoib,sl=8:ALL=full;\n"), [""; 0]);
}

/// The elements of an XML text; panics if tags do not match.
fn elements(xml: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut open = Vec::new();
    for part in xml.split('<').skip(1) {
        let (tag, text) = part.split_once('>').expect("a tag ends");
        assert!(!text.contains('&') || text.contains(';'), "{text}");
        assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
        match tag.strip_prefix('/') {
            Some(name) => assert_eq!(open.pop(), Some(name)),
            None => {
                let name = tag.split([' ', '/']).next().expect("a name");
                found.push(tag);
                if !tag.ends_with('/') {
                    open.push(name);
                }
            }
        }
    }
    assert!(open.is_empty(), "{open:?}");
    found
}

#[test]
fn a_broken_ring_has_its_band() {
    let folder = tempfile::tempdir().expect("a folder");
    let picture = folder.path().join("torus.svg");
    let cut = ["4x4x3", "--missing-link", "1,2,1:+x", "--missing-link", "0,0,0:-z"];
    let draw = ["--draw", picture.to_str().expect("UTF-8")];
    let (code, report) = json(&strict(&[&cut[..], &draw].concat()));
    assert_eq!(code, Some(0));
    let rings = serde_json::json!([
        { "axis": "x", "first": [0, 2, 1], "gaps": [[1, 2, 1]] },
        { "axis": "z", "first": [0, 0, 0], "gaps": [[0, 0, 2]] },
    ]);
    assert_eq!(report["torus"]["broken_rings"], rings);
    let svg = fs::read_to_string(&picture).expect("a snapshot");
    let count = |class: &str| {
        let class = format!("class=\"{class}\"");
        elements(&svg).iter().filter(|element| element.contains(&class)).count()
    };
    assert_eq!((count("band"), count("halo")), (1, 3));
    // The link along x once, that along z at both ends, and the legend's.
    assert_eq!(count("gone"), 1 + 2 + 1);
}

#[test]
fn a_fabric_file_gives_opensms_torus() {
    for name in ["v01-2d-odd", "v06-links-down", "v07-switch-down"] {
        let folder = vector(name);
        let dumps = tempfile::tempdir().expect("a folder");
        let file = |name: &str| folder.join(name).to_str().expect("UTF-8").to_owned();
        let net = file("fabric.net");
        let conf = file("torus-2QoS.conf");
        let dump = dumps.path().to_str().expect("UTF-8");
        let words = ["--file", &net, "--torus_config", &conf, "--dump", dump];
        let (code, report) = json(&strict(&words));
        assert_eq!(code, Some(0), "{name}");
        let theirs = fs::read_to_string(folder.join("torus.json")).expect("a vector");
        let theirs: BTreeMap<String, Value> = serde_json::from_str(&theirs).expect("JSON");
        let ours: BTreeMap<String, Value> = report["torus"]["placed"]
            .as_array()
            .expect("places")
            .iter()
            .map(|place| {
                let guid = place["guid"].as_str().expect("a GUID");
                (guid.to_owned(), place["coordinates"].clone())
            })
            .collect();
        assert_eq!(ours, theirs, "{name}");
        let mut names: Vec<_> = fs::read_dir(dumps.path())
            .expect("dumps")
            .map(|entry| entry.expect("an entry").file_name().into_string().expect("UTF-8"))
            .collect();
        names.sort();
        let all = [
            "opensm-lfts.dump",
            "opensm-lid-matrix.dump",
            "opensm-sl2vl.dump",
            "opensm-subnet.lst",
            "opensm-torus.dump",
            "opensm.fdbs",
            "opensm.mcfdbs",
            "opensm.psl",
        ];
        assert_eq!(names, all);
    }
}

/// The option that removes a component in a run of its own: switches by GUID, links by the port in
/// the positive direction.
fn as_option(shape: &Shape, component: &Value) -> [String; 2] {
    let place = |guid: &Value| {
        let [x, y] = [0..shape.radix[0], 0..shape.radix[1]];
        let mut places = x.flat_map(|x| y.clone().map(move |y| [x, y, 0]));
        let at = places.find(|&at| guid.as_str() == Some(&shape.switch_guid(at).to_string()));
        at.map(|[x, y, z]| format!("{x},{y},{z}")).expect("a switch of the torus")
    };
    if component["kind"] == "switch" {
        return ["--missing-switch".to_owned(), place(&component["guid"])];
    }
    let ends = component["ends"].as_array().expect("two ends");
    let is_upward = |end: &&Value| end["port"].as_u64().is_some_and(|port| port % 2 == 1);
    let low = ends.iter().find(is_upward).expect("an upward end");
    let axis = if low["port"] == 1 { "x" } else { "y" };
    ["--missing-link".to_owned(), format!("{}:+{axis}", place(&low["guid"]))]
}

#[test]
fn what_if_agrees_with_separate_runs() {
    let folder = tempfile::tempdir().expect("a folder");
    let conf = folder.path().join("torus-2QoS.conf");
    let shape = Shape::torus([4, 3, 1]);
    fs::write(&conf, shape.torus_conf()).expect("a file");
    let conf = conf.to_str().expect("UTF-8");
    // The base has lost a link already, so that links of its ring matter.
    let base = strict(&["4x3x1", "--torus_config", conf, "--missing-link", "2,1,0:+x"]);
    let (code, report) = json(&[&base[..], &["--what-if"]].concat());
    assert_eq!(code, Some(0));
    let what_if = &report["what_if"];
    let failures = what_if["failures"].as_array().expect("failures");
    assert_eq!(failures.len(), 12 + 23);
    let mut unrouted = 0;
    for failure in failures {
        let option = as_option(&shape, &failure["components"][0]);
        let words: Vec<&str> = base.iter().copied().chain(option.iter().map(|w| &**w)).collect();
        let (code, alone) = json(&words);
        let is_routed = failure["result"] == "routed";
        assert_eq!(alone["routed"], is_routed, "{option:?}");
        let left_out = alone["checks"]["left_out"].as_array().map_or(0, Vec::len);
        assert_eq!(code, Some(i32::from(!is_routed || left_out > 0)), "{option:?}");
        let lids = |report: &Value| report["lids"]["count"].as_u64().expect("a count");
        let gone = if option[0] == "--missing-switch" { 2 } else { 0 };
        if is_routed {
            // Hosts of a switch that cannot be placed any more remain, but are unreachable.
            let cut_off = lids(&report) - lids(&alone) - gone + left_out as u64;
            assert_eq!(failure["cut_off"], cut_off, "{option:?}");
        }
        if !is_routed {
            unrouted += 1;
            let notes = alone["engine_errors"][0]["notes"].as_array().expect("reasons");
            let first = notes.iter().find(|note| note["severity"] == "Error").expect("an error");
            assert_eq!(failure["reason"]["code"], first["code"], "{option:?}");
        }
    }
    assert_eq!(what_if["unrouted"], unrouted);
    assert_eq!(what_if["routed"], failures.len() - unrouted);
    // The four switches that the only seed names. The link across from the gap is routed around.
    assert_eq!(unrouted, 4);
    let by_cause = what_if["causes"].as_array().expect("causes").iter();
    let counted: u64 = by_cause.filter_map(|cause| cause["failures"].as_u64()).sum();
    assert_eq!(counted, unrouted as u64);
}

#[test]
fn the_cause_of_each_failure_is_printed() {
    let (_, text) = text(&strict(&["4x4", "--what-if-pairs"]));
    let (_, failures) = text.split_once("what if: ").expect("an analysis");
    // The lines to add to torus-2QoS.conf follow.
    let (failures, cure) = failures.split_once("\ncure: ").expect("a cure");
    assert!(cure.contains("_link 0x"), "{cure}");
    let listed: Vec<&str> =
        failures.lines().skip(1).filter(|line| line.starts_with("    ")).collect();
    assert!(!listed.is_empty(), "{failures}");
    for line in listed {
        let (component, cause) = line.rsplit_once("\": ").or(line.rsplit_once(": ")).expect(line);
        assert!(component.contains("0x") && cause.len() > 10, "{line}");
    }
    assert!(text.contains("ERR 4E"), "{text}");
}

#[test]
fn coordinates_are_listed_on_request() {
    let placement = "\nplacement:\n  0,0,0    0x";
    assert!(!text(&["3x3"]).1.contains("placement"));
    assert!(text(&["3x3", "--placement"]).1.contains(placement));
}

#[test]
fn nodes_have_the_names_of_all_commands() {
    let by_name = |name: &str| text(&["4x4", "--path", name, "h2-2"]);
    let wanted = by_name("sw 1,0,0");
    assert_eq!(wanted.0, Some(0));
    for name in ["1,0,0", "1,0", "S-0000000000200004", "0x200004"] {
        assert_eq!(by_name(name), wanted, "{name}");
    }
}

#[test]
fn a_file_without_torus_configuration_has_a_derived_one() {
    let folder = vector("v01-2d-odd");
    let net = folder.join("fabric.net");
    let net = net.to_str().expect("UTF-8");
    let none = torus_sm::config::options::Options::default().torus_config;
    if Path::new(&none).exists() {
        println!("SKIPPED: {none} exists");
        return;
    }
    let (code, report) = json(&strict(&["--file", net]));
    assert_eq!((code, &report["engine"]), (Some(0), &"torus-2QoS".into()));
    let tree = tempfile::tempdir().expect("a folder");
    let write = ["fattree:8x4", "--write", tree.path().to_str().expect("UTF-8")];
    assert_eq!(text(&write).0, Some(0));
    let net = tree.path().join("fabric.net");
    let (code, report) = json(&strict(&["--file", net.to_str().expect("UTF-8")]));
    assert_eq!(code, Some(1));
    let notes = report["engine_errors"].to_string();
    assert!(notes.contains("no torus can be derived"), "{notes}");
}

#[test]
fn pairs_are_tried_once() {
    let (_, report) = json(&strict(&["3x3", "--what-if-pairs"]));
    let what_if = &report["what_if"];
    let switches = 9;
    let cables = 18;
    // A link of a switch that is removed makes no pair with it: four for each switch.
    let parts = switches + cables;
    let pairs = parts * (parts - 1) / 2 - switches * 4;
    assert_eq!(what_if["failures"].as_array().map(Vec::len), Some(parts + pairs));
    assert_eq!((&what_if["switches"], &what_if["cables"]), (&switches.into(), &cables.into()));
}

#[test]
fn wrong_requests_have_distinct_errors() {
    for (words, code, text) in [
        (&["3x3", "--path", "1", "nobody"][..], 2, "no node has the description \"nobody\""),
        (&["3x3", "--path", "1"], 2, "--path <A> <B>"),
        (&["--what-if", "4x4"], 2, "write a SHAPE before --what-if"),
        (&["3x3", "--missing-switch", "3,0,0"], 2, "3,0,0"),
        (&["--file", "/nonexistent.net"], 4, "/nonexistent.net"),
        (&["3x3", "-R", "torus-3"], 4, "unknown routing engine"),
        (&["3x3", "-F", "/nonexistent.conf"], 4, "/nonexistent.conf"),
        (
            &["3x3", "-R", "minhop", "--torus_config", "/none", "--draw", "/tmp/x.svg"],
            4,
            "no torus",
        ),
        (&["3x3", "--dump", "/proc/none"], 5, "/proc/none"),
        (&["3x3", "-g", "0x99"], 2, "0x0000000000000099"),
        (&[], 2, "SHAPE"),
    ] {
        let output = plan(words);
        assert_eq!(output.status.code(), Some(code), "{words:?}");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains(text), "{words:?}: {said}");
    }
}

#[test]
fn written_fabrics_are_planned_the_same() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let place = folder.path().to_str().expect("UTF-8");
    let (code, generated) = json(&["4x3x3", "--hosts", "2", "--write", place]);
    assert_eq!(code, Some(0));
    let file = folder.path().join("fabric.net");
    let conf = folder.path().join("torus-2QoS.conf");
    let file = file.to_str().expect("UTF-8");
    let conf = conf.to_str().expect("UTF-8");
    let words = strict(&["--file", file, "--torus_config", conf]);
    let (code, read) = json(&words);
    assert_eq!(code, Some(0));
    for key in ["torus", "lids", "hops"] {
        assert_eq!(read[key], generated[key], "{key}");
    }
}

#[test]
fn a_single_dimension_is_said_to_be_unsuitable() {
    for (shape, expected) in [("5", true), ("1x1x4m", true), ("3", false), ("5x2", false)] {
        let (_, report) = json(&[shape]);
        let notes = report["notes"].as_array().expect("notes");
        let mut texts = notes.iter().filter_map(|note| note["text"].as_str());
        let is_said = texts.any(|text| text.contains("two and three dimensions"));
        assert_eq!(is_said, expected, "{shape}");
    }
}

#[test]
fn a_shape_with_more_end_ports_than_lids_is_refused_at_once() {
    for command in ["plan", "sim"] {
        for words in [&["100x100x1", "--hosts", "5"][..], &["fattree:250x4", "--hosts", "200"]] {
            let mut program = Command::new(env!("CARGO_BIN_EXE_torus-sm"));
            let output = program.arg(command).args(words).output().expect("the program starts");
            let errors = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{command} {words:?}: {errors}");
            assert!(errors.contains("49151 unicast LIDs"), "{command} {words:?}: {errors}");
        }
    }
}

#[test]
fn hosts_without_a_lid_are_one_counted_message_and_exit_code_1() {
    // 381 hosts get 128 LIDs each; switches take two of the 383 ranges.
    let words = ["4mx1x1", "--hosts", "100", "--lmc", "7", "-R", "minhop"];
    let (code, report) = json(&words);
    assert_eq!(code, Some(1), "{report}");
    assert_eq!(report["unreachable_hosts"], 19);
    let notes = report["notes"].as_array().expect("notes");
    let texts = notes.iter().filter_map(|note| note["text"].as_str());
    let texts: Vec<&str> = texts.filter(|text| text.contains("out of LIDs")).collect();
    assert_eq!(texts.len(), 1, "{texts:?}");
    assert!(texts[0].contains("19 end ports get none"), "{texts:?}");
}

/// The load of the busiest link with groups, as JSON and in the table of engines.
#[test]
fn adaptive_routing_is_compared_by_the_load_of_a_pattern() {
    let words = ["6x6x1", "--parallel", "2", "-Q", "--traffic", "shift"];
    let (code, report) = json(&[&words[..], &["-R", "ar_torus,no_fallback"]].concat());
    assert_eq!(code, Some(0));
    assert_eq!(report["engine"], "torus-2QoS");
    assert_eq!(report["adaptive"]["groups"], 36 * 4);
    assert_eq!(report["adaptive"]["static_lids"], 0);
    let median = |name: &str| report["traffic"][name]["median"].as_f64().expect("a number");
    let adaptive = median("busiest_adaptive");
    assert!(adaptive <= 0.6 * median("busiest_static"), "{}", report["traffic"]);
    // Groups of parallel cables reach what is possible without other routes.
    assert_eq!(adaptive, median("busiest_shared"));
    let (code, text) = text(&[&words[..], &["--compare", "ar_torus,torus-2QoS"]].concat());
    assert_eq!(code, Some(0));
    let row = |title: &str| {
        let line = text.lines().find(|line| line.starts_with(title)).expect("a row");
        line[title.len()..].split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(row("engine"), ["ar_torus", "torus-2QoS"]);
    assert_eq!(row("groups"), ["144", "-"]);
    let busiest = [adaptive, median("busiest_static")].map(|load| format!("{load:.1}"));
    assert_eq!(row("busiest link"), busiest);
    let path =
        ["6x6x1", "--parallel", "2", "-Q", "-R", "ar_torus,no_fallback", "--path", "1", "20"];
    let (_, with_path) = json(&path);
    let hops = with_path["path"]["hops"].as_array().expect("hops");
    let others = |hop: &Value| hop["alternatives"].as_array().map_or(0, Vec::len);
    let (last, between) = hops.split_last().expect("a switch");
    assert!(!between.is_empty() && between.iter().all(|hop| others(hop) == 1), "{hops:?}");
    assert_eq!(others(last), 0, "the port of the host is the only one");
    let (_, plain) = json(&[&words[..4], &["-R", "torus-2QoS"]].concat());
    assert!(plain["adaptive"].is_null() && plain["traffic"].is_null());
}

/// All flows to one host share its switch's links, whatever the groups are.
#[test]
fn patterns_of_traffic_have_their_loads() {
    let load = |pattern: &str| {
        let (code, report) = json(&["2x1x1", "--hosts", "3", "-Q", "--traffic", pattern]);
        assert_eq!(code, Some(0));
        report["traffic"]["busiest_static"]["highest"].as_f64().expect("a number")
    };
    assert_eq!(load("all-to-all"), 9.0, "3 hosts to 3 others");
    assert_eq!(load("hot-spot"), 3.0);
    assert_eq!(load("shift"), 3.0);
    assert!(load("uniform") <= 3.0);
}
