//! Backup seeds: contradictions, shared switches, and coordinates that differ from the first seed's.

use super::*;

/// A 6x5 torus with two seeds; `lines` end the second one, whose switch is at 3,2.
fn two_seeds(lines: &str) -> String {
    let shape = Shape::torus([6, 5, 1]);
    let guid = |at: [u16; 3]| format!("{:#x}", shape.switch_guid(at).0);
    let origin = guid([3, 2, 0]);
    let right = guid([4, 2, 0]);
    let up = guid([3, 3, 0]);
    format!(
        "{}next_seed\nxp_link {origin} {right}\nyp_link {origin} {up}\n{lines}",
        shape.torus_conf()
    )
}

/// The warnings about seeds.
fn warnings(notes: &[Note]) -> Vec<String> {
    let found = notes.iter().filter(|note| note.text.starts_with("torus seed"));
    found
        .map(|note| {
            assert_eq!(note.severity, Severity::Warning, "{note}");
            note.text.clone()
        })
        .collect()
}

/// The SLs between all switches, by GUID.
fn sls(subnet: &Subnet, config: &str) -> BTreeMap<[Guid; 2], Sl> {
    let routing = subnet.route(config).unwrap();
    let fabric = &subnet.fabric;
    let ends =
        || fabric.switch_ids().map(|id| (fabric.switch(id).guid(), fabric.switch(id).first_port));
    let pairs = ends().flat_map(|from| ends().map(move |to| (from, to)));
    pairs.map(|((a, from), (b, to))| ([a, b], routing.policy.path_sl(from, to, Sl(0)))).collect()
}

#[test]
fn a_seed_with_other_datelines_is_told_with_the_number_of_sls_and_the_remedy() {
    let shape = Shape::torus([6, 5, 1]);
    let subnet = Subnet::of(&shape);
    for lines in ["", "x_dateline -3\n", "y_dateline 3\n", "x_dateline 2\ny_dateline -1\n"] {
        let config = two_seeds(lines);
        let notes = subnet.route(&config).unwrap().notes;
        let found = warnings(&notes);
        // Alone, the second seed is in use.
        let second = config.split("next_seed\n").nth(1).unwrap();
        let alone = format!("torus 6 5 1\n{second}");
        let [first, after] = [&shape.torus_conf(), &alone].map(|config| sls(&subnet, config));
        let changed = first.iter().filter(|&(pair, sl)| after[pair] != *sl).count();
        assert!(changed > 0);
        let [only] = &found[..] else { panic!("{lines}: {found:?}") };
        assert!(only.contains(&format!("{changed} of 900 SLs between switches change")), "{only}");
        let remedy = only.split("; set ").nth(1).and_then(|rest| rest.strip_suffix(" in seed 1"));
        let remedy: String =
            remedy.unwrap().split(" and ").map(|line| format!("{line}\n")).collect();
        let repaired = two_seeds(&(lines.to_owned() + &remedy));
        assert_eq!(warnings(&subnet.route(&repaired).unwrap().notes), [""; 0], "{repaired}");
        let second = repaired.split("next_seed\n").nth(1).unwrap();
        assert_eq!(sls(&subnet, &format!("torus 6 5 1\n{second}")), first);
    }
}

#[test]
fn a_seed_with_other_directions_is_told() {
    let shape = Shape::torus([6, 5, 1]);
    let good = two_seeds("x_dateline -3\ny_dateline -2\n");
    let (before, second) = good.split_once("next_seed\n").unwrap();
    let mirrored = format!("{before}next_seed\n{}", second.replace("xp_link", "xm_link"));
    let found = warnings(&Subnet::of(&shape).route(&mirrored).unwrap().notes);
    let [only] = &found[..] else { panic!("{found:?}") };
    assert!(
        only.starts_with("torus seed 1 gives other coordinates than seed 0: its xm_link"),
        "{only}"
    );
    let exchanged = second.replace("xp_link", "zp_link").replace("yp_link", "xp_link");
    let exchanged = format!("{before}next_seed\n{}", exchanged.replace("zp_link", "yp_link"));
    let found = warnings(&Subnet::of(&shape).route(&exchanged).unwrap().notes);
    assert_eq!(found.len(), 1, "{found:?}");
}

#[test]
fn seeds_that_share_a_switch_are_told() {
    let shape = Shape::torus([6, 5, 1]);
    let guid = |at: [u16; 3]| format!("{:#x}", shape.switch_guid(at).0);
    let config = format!(
        "{}next_seed\nxp_link {1} {2}\nyp_link {1} {3}\nx_dateline -1\n",
        shape.torus_conf(),
        guid([1, 0, 0]),
        guid([2, 0, 0]),
        guid([1, 1, 0])
    );
    let found = warnings(&Subnet::of(&shape).route(&config).unwrap().notes);
    let shared = shape.switch_guid([1, 0, 0]);
    assert_eq!(
        found,
        [format!(
            "torus seeds 0 and 1 share switch {shared}: if it fails, neither can be used; name other \
             switches in one of them"
        )]
    );
}

#[test]
fn seeds_that_place_a_switch_twice_are_rejected_when_they_are_used() {
    let shape = Shape::torus([6, 5, 1]);
    let guid = |at: [u16; 3]| format!("{:#x}", shape.switch_guid(at).0);
    let origin = guid([0, 0, 0]);
    let right = guid([1, 0, 0]);
    for (links, fault) in [
        (format!("yp_link {origin} {origin}\n"), "yp_link leads from switch"),
        (format!("yp_link {origin} {right}\n"), "yp_link names switch"),
        (format!("xm_link {origin} {right}\n"), "xm_link names switch"),
    ] {
        let config = shape.torus_conf() + &links;
        let refusal = Subnet::of(&shape).route(&config).unwrap_err();
        let reason = refusal.reason().unwrap();
        assert_eq!(reason.code, Some("4E1C"));
        assert!(reason.text.contains(fault), "{reason}");
        // As a backup it only warns.
        let links: String = config
            .lines()
            .filter(|line| line.contains("_link"))
            .map(|line| line.to_owned() + "\n")
            .collect();
        let config = format!("{}next_seed\n{links}", shape.torus_conf());
        let found = warnings(&Subnet::of(&shape).route(&config).unwrap().notes);
        assert!(found.iter().any(|text| text.contains(fault)), "{found:?}");
    }
    // Both links of a pair lead to the same switch.
    let pair = Shape::torus([2, 3, 1]);
    let conf = pair.torus_conf();
    let link = conf.lines().find(|line| line.starts_with("xp_link")).unwrap();
    let both = format!("{conf}{}\n", link.replace("xp_link", "xm_link"));
    assert!(Subnet::of(&pair).route(&both).is_ok());
}
