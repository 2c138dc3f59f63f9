//! Remedies that rejections and warnings name: each one is carried out, and helps.

use super::*;

/// The texts of all messages, one per line.
fn text(notes: &[Note]) -> String {
    notes.iter().map(|note| note.to_string() + "\n").collect()
}

/// The configuration after the change of axes that a message names: "with `torus 1 6 5` … renamed (x
/// to y, y to z)".
fn renamed(config: &str, message: &str) -> String {
    let size = message.split('`').nth(1).unwrap_or_else(|| panic!("no size in {message}"));
    let names = message.split("renamed (").nth(1).and_then(|rest| rest.split(')').next());
    let names: BTreeMap<&str, &str> =
        names.expect("a list").split(", ").map(|name| name.split_once(" to ").unwrap()).collect();
    let rename = |line: &str| {
        let (axis, rest) = line.split_at(1);
        match names.get(axis) {
            _ if line.starts_with("torus") => size.to_owned(),
            Some(name) if rest.contains("_link") || rest.contains("_dateline") => {
                format!("{name}{rest}")
            }
            _ => line.to_owned(),
        }
    };
    config.lines().map(|line| rename(line) + "\n").collect()
}

#[test]
fn switches_missing_in_a_row_along_another_axis_are_routed_around_after_renaming_axes() {
    for (shape, axis) in [
        (Shape::torus([6, 5, 1]), 0),
        (Shape::torus([6, 5, 1]), 1),
        (Shape::torus([6, 1, 5]), 0),
        (Shape::torus([1, 6, 5]), 1),
        (Shape::torus([5, 3, 6]), 0),
        (Shape::torus([3, 6, 5]), 1),
    ] {
        for first in [2, shape.radix[axis] - 2] {
            let mut at = shape.radix.map(|radix| radix.min(3) - 1);
            at[axis] = first;
            let mut next = at;
            next[axis] += 1;
            let broken = Shape { missing_switches: vec![at, next], ..shape.clone() };
            let subnet = Subnet::of(&broken);
            let refusal = subnet.route(&shape.torus_conf()).unwrap_err();
            let error = refusal.notes.iter().find(|note| note.code == Some("4E38")).unwrap();
            let conf = renamed(&shape.torus_conf(), &error.text);
            let routing = subnet.route(&conf).unwrap_or_else(|no| panic!("{conf}{no:?}"));
            assert_eq!(Torus::of(&routing).unwrap().missing().count(), 2, "{conf}");
        }
    }
}

#[test]
fn no_change_of_axes_is_named_where_it_does_not_help() {
    let shape = Shape::torus([6, 5, 1]);
    let apart = Shape { missing_switches: vec![[2, 2, 0], [3, 3, 0]], ..shape.clone() };
    let refusal = Subnet::of(&apart).route(&shape.torus_conf()).unwrap_err();
    assert!(codes(&refusal.notes).contains(&"4E38"), "{}", text(&refusal.notes));
    assert!(!text(&refusal.notes).contains("renamed"), "{}", text(&refusal.notes));
    // The missing switches divide the open dimension, whatever its name.
    let mesh = Shape { looped: [false, true, true], ..shape };
    let broken = Shape { missing_switches: vec![[2, 2, 0], [3, 2, 0]], ..mesh.clone() };
    let refusal = Subnet::of(&broken).route(&mesh.torus_conf()).unwrap_err();
    assert!(codes(&refusal.notes).contains(&"4E38"), "{}", text(&refusal.notes));
    assert!(!text(&refusal.notes).contains("renamed"), "{}", text(&refusal.notes));
}

/// The size that a message says to write, in a configuration.
fn resized(config: &str, message: &str) -> String {
    let size = message.split("write `").nth(1).and_then(|rest| rest.split('`').next());
    let size = size.unwrap_or_else(|| panic!("no size in {message}"));
    let lines = config.lines().map(|line| if line.starts_with("torus") { size } else { line });
    lines.map(|line| line.to_owned() + "\n").collect()
}

#[test]
fn radices_that_are_not_those_of_the_fabric_are_recognised() {
    let torus = Shape::torus([6, 5, 1]);
    let mesh = Shape { looped: [true, false, true], ..torus.clone() };
    let deep = Shape::torus([5, 3, 6]);
    for (shape, size) in [
        (&torus, "7 5 1"),
        (&torus, "12 5 1"),
        (&torus, "6 6 1"),
        (&torus, "7 6 1"),
        (&torus, "5 6 1"),
        (&torus, "5 5 1"),
        (&torus, "6 3 1"),
        (&torus, "6 4m 1"),
        (&mesh, "6 4m 1"),
        (&deep, "5 3 7"),
        (&deep, "6 3 6"),
        (&deep, "5 3 5"),
    ] {
        let subnet = Subnet::of(shape);
        let right = shape.torus_conf();
        let written = right.lines().next().expect("the size comes first");
        let wrong = right.replace(written, &format!("torus {size}"));
        let notes = match subnet.route(&wrong) {
            Ok(routing) => routing.notes,
            Err(no) => {
                assert!(!text(&no.notes).contains("repair first"), "{size}: {}", text(&no.notes));
                assert!(no.reason().unwrap().text.contains("write `torus"), "{size}: {no:?}");
                no.notes
            }
        };
        let message = notes.iter().find(|note| note.text.contains("write `torus"));
        let message = message.unwrap_or_else(|| panic!("{size}: {}", text(&notes)));
        assert!(message.severity >= Severity::Warning);
        let routing = subnet.route(&resized(&wrong, &message.text)).unwrap();
        let placed = Torus::of(&routing).unwrap().switches().count();
        assert_eq!(placed, subnet.fabric.switches().len(), "{size}: {message}");
        assert!(!text(&routing.notes).contains("write `torus"), "{size}");
    }
}

#[test]
fn a_layer_that_failed_is_no_wrong_radix_for_certain() {
    let shape = Shape::torus([6, 5, 1]);
    let missing_switches = (0..5).map(|y| [4, y, 0]).collect();
    let broken = Shape { missing_switches, ..shape.clone() };
    let refusal = Subnet::of(&broken).route(&shape.torus_conf()).unwrap_err();
    let said = text(&refusal.notes);
    assert!(said.contains("repair first, in this order: (1) switch 4,0,0"), "{said}");
    assert!(
        said.contains("if the fabric has only 5 switches along x, write `torus 5m 5 1`"),
        "{said}"
    );
    // A single switch or a broken ring says nothing about the radix.
    for broken in [
        Shape { missing_switches: vec![[3, 3, 0], [4, 4, 0]], ..shape.clone() },
        Shape { missing_links: vec![([2, 2, 0], 0), ([4, 2, 0], 0)], ..shape.clone() },
    ] {
        let refusal = Subnet::of(&broken).route(&shape.torus_conf()).unwrap_err();
        assert!(!text(&refusal.notes).contains("write `torus"), "{}", text(&refusal.notes));
    }
}

#[test]
fn port_groups_beyond_the_limit_are_one_counted_message_with_the_limit_needed() {
    let shape = Shape { hosts: 4, parallel: 3, ..Shape::torus([6, 5, 1]) };
    let subnet = Subnet::of(&shape);
    for limit in 0..=6 {
        let config = format!("{}portgroup_max_ports {limit}\n", shape.torus_conf());
        let (routes, notes) = match subnet.route(&config) {
            Ok(routing) => (true, routing.notes),
            Err(no) => (false, no.notes),
        };
        assert_eq!(routes, limit > 4, "{limit}");
        let said: Vec<&Note> =
            notes.iter().filter(|note| note.text.contains("portgroup_max_ports")).collect();
        assert!(!codes(&notes).contains(&"4E1C"), "{}", text(&notes));
        match (&said[..], limit) {
            ([], 5..) => {}
            ([only], 0..5) => {
                assert!(only.text.ends_with("set it to at least 5"), "{only}");
                // With fewer ports the cables left over mislead the discovery.
                let all = "30 switches have up to 5 local ports";
                assert!(limit < 3 || only.text.contains(all), "{only}");
                assert_eq!(only.severity, Severity::Error);
            }
            _ => panic!("{limit}: {}", text(&notes)),
        }
    }
    // Cables that do not fit mislead the discovery, but are no reason to doubt the radices.
    let shape = Shape { hosts: 1, parallel: 3, ..Shape::torus([6, 5, 1]) };
    let config = format!("{}portgroup_max_ports 2\n", shape.torus_conf());
    let refusal = Subnet::of(&shape).route(&config).unwrap_err();
    let errors: Vec<&Note> =
        refusal.notes.iter().filter(|note| note.severity == Severity::Error).collect();
    let [only] = errors[..] else { panic!("{}", text(&refusal.notes)) };
    assert_eq!(only.code, Some("4E17"));
    assert!(only.text.ends_with("set it to at least 3"), "{only}");
}

#[test]
fn a_switch_without_cables_along_a_dimension_is_named_with_the_remedy() {
    let shape = Shape::torus([6, 5, 1]);
    let missing_links = vec![([1, 2, 0], 0), ([2, 2, 0], 0)];
    let broken = Shape { missing_links, ..shape.clone() };
    let routing = Subnet::of(&broken).route(&shape.torus_conf()).unwrap();
    assert_eq!(Torus::of(&routing).unwrap().missing().count(), 1);
    let warnings: Vec<&Note> =
        routing.notes.iter().filter(|note| note.text.contains("belongs at")).collect();
    let [only] = warnings[..] else { panic!("{}", text(&routing.notes)) };
    assert_eq!(only.severity, Severity::Warning);
    let guid = |at| shape.switch_guid(at);
    assert_eq!(
        only.text,
        format!(
            "switch {} \"sw 2,2,0\" belongs at 2,2,0 by its cables, but all its cables along x are \
             missing, so that it cannot be placed: it and 1 end port behind it cannot be reached; \
             repair a cable to switch 1,2,0 (GUID {} \"sw 1,2,0\") or switch 3,2,0 (GUID {} \"sw \
             3,2,0\")",
            guid([2, 2, 0]),
            guid([1, 2, 0]),
            guid([3, 2, 0])
        )
    );
    let repaired = Shape { missing_links: vec![([1, 2, 0], 0)], ..shape.clone() };
    let routing = Subnet::of(&repaired).route(&shape.torus_conf()).unwrap();
    assert_eq!(Torus::of(&routing).unwrap().missing().count(), 0);
}
