//! The engine `file`: tables that are incomplete, or empty, or were dumped on another fabric.

use crate::spine_hosts::{Tree, connected};
use crate::up_down::tree;
use testkit::planning::{PlanSetup, options};
use torus_sm::config::options::Options;
use torus_sm::notes::Severity;
use torus_sm::plan::Plan;
use torus_sm::plan::routing::RoutingError;
use torus_sm::publish::dumps;

/// The dump of minhop's tables for the tree of two leaves and two spines.
fn dumped() -> String {
    let setup = tree("minhop");
    let plan = setup.plan(&[]).expect("a tree is routed");
    dumps::render(dumps::lfts, &setup.fabric, &plan)
}

/// The tree with a file of tables or of hops.
struct FileSetup {
    setup: PlanSetup,
    _folder: tempfile::TempDir,
}

impl FileSetup {
    fn new(engines: &str, tables: Option<&str>, hops: Option<&str>) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mut setup = tree(engines);
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).expect("a file");
            Some(path.display().to_string())
        };
        setup.options.lfts_file = tables.and_then(|text| write("lfts", text));
        setup.options.lid_matrix_dump_file = hops.and_then(|text| write("hops", text));
        Self { setup, _folder: folder }
    }

    fn plan(&self) -> Plan {
        self.setup.plan(&[]).expect("an engine routes")
    }

    /// The error of the engine without a fallback.
    fn refusal(&self) -> RoutingError {
        let failure = self.setup.plan(&[]).expect_err("the file is of no use");
        failure.routing_errors[0].clone()
    }
}

#[test]
fn tables_that_connect_no_hosts_are_refused() {
    let of_other_fabric = dumped().replace("guid 0x00000000000000", "guid 0x00000000000099");
    let only_headers: String = dumped()
        .lines()
        .filter(|line| !line.starts_with("0x"))
        .map(|line| format!("{line}\n"))
        .collect();
    for text in ["", "# no tables\n", &only_headers, &of_other_fabric] {
        let files = FileSetup::new("file,no_fallback", Some(text), None);
        let reason = files.refusal().reason().expect("a reason").text.clone();
        assert!(
            reason.starts_with("lfts_file is empty or was made for another fabric"),
            "{reason}"
        );
        let plan = FileSetup::new("file", Some(text), None).plan();
        assert_eq!(plan.routing.engine, "minhop", "the fallback of OpenSM applies");
    }
}

#[test]
fn hops_that_connect_no_hosts_are_refused() {
    let files = FileSetup::new("file,no_fallback", None, Some(""));
    let reason = files.refusal().reason().expect("a reason").text.clone();
    assert!(reason.starts_with("lid_matrix_dump_file is empty or"), "{reason}");
}

#[test]
fn tables_that_were_cut_are_refused_at_the_place() {
    let text = dumped();
    let cut = &text[..text.len() * 3 / 5];
    let files = FileSetup::new("file,no_fallback", Some(cut), None);
    let reason = files.refusal().reason().expect("a reason").text.clone();
    assert!(reason.contains("the file is incomplete: it ends inside the section of"), "{reason}");
}

#[test]
fn switches_without_a_section_are_named() {
    let text = dumped();
    let sections: Vec<&str> = text.split_inclusive("lids dumped\n").collect();
    let without = |guid: &str| -> String {
        sections.iter().filter(|section| !section.contains(guid)).copied().collect()
    };
    let spine = without("guid 0x0000000000000022 (");
    assert!(spine.len() < text.len());
    let plan = FileSetup::new("file,no_fallback", Some(&spine), None).plan();
    let warnings = plan.routing.notes.iter().filter(|note| note.text.contains("no section"));
    let warnings: Vec<_> = warnings.map(|note| note.text.as_str()).collect();
    assert_eq!(
        warnings,
        ["lfts_file has no section for Switch 0x0000000000000022 \"S-0000000000000022\"[0], \
             which forwards nothing"]
    );
}

/// A table file of a whole tree, for a tree that lost a cable, and one without the section of a
/// spine: the tables are written as OpenSM writes them, and pairs without a route are counted.
#[test]
fn missing_cables_and_sections_leave_the_other_routes() {
    let whole = Tree { leaves: 3, spines: 3, cut: None };
    let plan_of = |tree: Tree, options: Options| {
        let topology = tree.topology();
        let host = topology.nodes.len() - 1;
        PlanSetup::new(&topology, host, options, String::new())
    };
    let minhop = plan_of(whole, options("minhop", false));
    let dump = dumps::render(dumps::lfts, &minhop.fabric, &minhop.plan(&[]).expect("a plan"));
    let is_spine = |section: &&str| section.contains("guid 0x0000000000bb0001 (");
    let sections = dump.split_inclusive("lids dumped\n");
    let without_spine: String = sections.filter(|section| !is_spine(section)).collect();
    assert!(without_spine.len() < dump.len());
    let cut = Tree { cut: Some((1, 1)), ..whole };
    for (tree, text) in [(cut, &dump), (whole, &without_spine)] {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), text).expect("a file");
        for engines in ["file,no_fallback", "file"] {
            let mut options = options(engines, false);
            options.lfts_file = Some(file.path().display().to_string());
            let setup = plan_of(tree, options);
            let verified = setup.verdict().expect("a plan").verdict.expect("it is written");
            assert_eq!(verified.plan().routing.engine, "file");
            let (routes, pairs) = connected(&setup.fabric, verified.plan());
            assert!(routes > pairs / 2 && routes < pairs, "{routes} of {pairs}");
            let warnings = verified.summary().notes.iter();
            let warnings = warnings.filter(|note| note.severity == Severity::Warning);
            let warnings: Vec<_> = warnings.map(|note| note.text.as_str()).collect();
            let counts = warnings.iter().filter(|text| {
                text.contains("routing engine file leaves") && text.contains("without a route")
            });
            assert_eq!(counts.count(), 1, "{warnings:?}");
        }
    }
}
