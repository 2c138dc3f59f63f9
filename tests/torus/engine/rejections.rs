//! Fabrics and configurations that torus-2QoS rejects, and the diagnostics.

use super::*;

/// The coordinates after each "switch " of a text, up to the next parenthesis.
fn places(text: &str) -> Vec<[u16; 3]> {
    let place = |part: &str| {
        let numbers = part.split(' ').next()?.split(',').map(str::parse);
        numbers.collect::<Result<Vec<u16>, _>>().ok()?.try_into().ok()
    };
    text.split("switch ").skip(1).filter_map(place).collect()
}

/// Applies the first advice of a rejection.
fn repaired(broken: &Shape, advice: &str) -> Shape {
    let mut shape = broken.clone();
    let list = advice
        .strip_prefix("repair first, in this order: ")
        .unwrap_or_else(|| panic!("{broken:?}\n{advice}"));
    for number in 1..=12 {
        let Some((_, rest)) = list.split_once(&format!("({number}) ")) else { break };
        let item = rest.split(&format!(", ({}) ", number + 1)).next().unwrap();
        let ends = places(item);
        if !item.starts_with("the cable") {
            shape.missing_switches.retain(|&at| at != ends[0]);
            continue;
        }
        let axis = (0..3).find(|&axis| ends[0][axis] != ends[1][axis]).unwrap();
        shape.missing_links.retain(|&link| link != (ends[0], axis));
    }
    shape
}

#[test]
fn the_first_repair_that_a_rejection_names_suffices() {
    let mut state = 1u64;
    let mut below = |sides: u16| {
        state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
        (state >> 33) as u16 % sides
    };
    let mut refused = 0;
    // With a radix of 4 the seed names one more switch, without which no switch can be placed.
    for radix in [[5, 5, 1], [5, 1, 5], [5, 3, 3], [3, 5, 5]] {
        let healthy = Shape::torus(radix);
        let before = Subnet::of(&healthy).route(&healthy.torus_conf()).unwrap();
        for round in 0..40 {
            let mut place = || radix.map(&mut below);
            let mut holes = Vec::new();
            let column = place();
            match round % 4 {
                // A column, or most of it.
                0 => holes.extend((0..radix[2]).map(|z| [column[0].max(2), column[1], z])),
                1 => holes.extend([column, place()]),
                _ => {}
            }
            let is_named = |at: &[u16; 3]| at.iter().filter(|&&c| c > 1).count() == 0;
            holes.retain(|at| !is_named(at));
            let lost = |holes: &[[u16; 3]], (at, axis): &([u16; 3], usize)| {
                let mut next = *at;
                next[*axis] = (next[*axis] + 1) % radix[*axis];
                radix[*axis] > 1 && !holes.contains(at) && !holes.contains(&next)
            };
            let mut missing_links: Vec<_> = (0..4).map(|n| (place(), n % 3)).collect();
            missing_links.retain(|link| lost(&holes, link) && !is_named(&link.0));
            let broken = Shape { missing_switches: holes, missing_links, ..healthy.clone() };
            let conf = healthy.torus_conf();
            let Err(refusal) = Subnet::of(&broken).route_after(&conf, Some(&before)) else {
                continue;
            };
            refused += 1;
            let whole = repaired(&broken, &refusal.notes.last().unwrap().text);
            let result = Subnet::of(&whole).route_after(&conf, Some(&before));
            let text =
                |no: &RoutingError| no.notes.iter().map(|n| n.text.clone()).collect::<Vec<_>>();
            if let Err(no) = result {
                panic!(
                    "{broken:?}\nwith\n{}\n{:#?}",
                    refusal.notes.last().unwrap().text,
                    text(&no)
                );
            }
        }
    }
    assert!(refused >= 20, "{refused}");
}

#[test]
fn wrong_configurations_are_rejected_by_number() {
    let shape = Shape { hosts: 2, ..Shape::torus([4, 3, 3]) };
    let subnet = Subnet::of(&shape);
    let good = shape.torus_conf();
    let guid = |at| format!("{:#x}", shape.switch_guid(at).0);
    let origin = guid([0, 0, 0]);
    let other = guid([1, 1, 1]);
    let without = |key: &str| -> String {
        good.lines().filter(|line| !line.starts_with(key)).map(|line| format!("{line}\n")).collect()
    };
    let cases = [
        ("".to_owned(), "4E20"),
        ("torus 4 0 3".to_owned(), "4E20"),
        (without("xp_"), "4E22"),
        (without("xm_"), "4E23"),
        (format!("{good}xm_link {other} {origin}"), "4E24"),
        (without("zp_"), "4E2C"),
        (without("yp_"), "4E2E"),
        (format!("{good}zm_link {other} {origin}"), "4E2D"),
        (format!("{good}ym_link {other} {origin}"), "4E2F"),
        (format!("{good}next_seed"), "4E22"),
        (format!("{good}yp_link {origin} 0x1"), "4E30"),
        (format!("{good}port_order 9"), "4E21"),
        (format!("{good}portgroup_max_ports 2"), "4E1E"),
        (format!("{good}portgroup_max_ports 0"), "4E1D"),
        (format!("{good}yp_link {origin} {origin}"), "4E1C"),
        (format!("{good}tours"), "4E12"),
    ];
    assert!(subnet.route(&good).is_ok());
    assert!(subnet.route(&format!("{good}port_order 0 1 2 3 4 5 6 7 8 99")).is_ok());
    for (config, code) in cases {
        let refusal = subnet.route(&config).unwrap_err();
        assert!(codes(&refusal.notes).contains(&code), "{code}: {:?}", refusal.notes);
        assert!(refusal.notes.iter().any(|note| note.severity == Severity::Error));
    }
}

#[test]
fn fabrics_that_opensm_misroutes_are_rejected() {
    let shape = Shape::torus([1, 3, 3]);
    let subnet = Subnet::of(&shape);
    assert!(subnet.route("torus 1 1 1\nxp_link 1 2").is_err());
    assert!(subnet.route("torus 100000 100000 100000\nxp_link 1 2").is_err());
    let guid = |at| shape.switch_guid(at).0;
    let config = format!(
        "torus 1 3 3\nyp_link {} {}\nzp_link {} {}\n",
        guid([0, 0, 0]),
        guid([0, 1, 0]),
        guid([0, 1, 0]),
        guid([0, 1, 1])
    );
    let refusal = subnet.route(&config).unwrap_err();
    assert!(refusal.notes.last().unwrap().text.contains("y and z links"));
}

#[test]
fn changes_since_the_last_success_are_reported() {
    let shape = Shape::torus([5, 5, 1]);
    let before = Subnet::of(&shape).route(&shape.torus_conf()).unwrap();
    let broken = Shape { missing_switches: vec![[3, 3, 0]], ..shape.clone() };
    let after = Subnet::of(&broken).route_after(&shape.torus_conf(), Some(&before)).unwrap();
    let count = |wanted: &str| after.notes.iter().filter(|note| note.text.contains(wanted)).count();
    let guid = |at| format!("0x{:04x}", shape.switch_guid(at).0);
    assert_eq!(count(&format!("Lost torus switch 3,3,0 GUID {}", guid([3, 3, 0]))), 1);
    assert_eq!(count(&format!("remote now missing, was sw GUID {}[", guid([3, 3, 0]))), 4);
    assert_eq!(count(&format!("Torus switch 2,3,0 GUID {}[", guid([2, 3, 0]))), 1);
    assert_eq!(count("Missing torus switch at 3,3,0"), 1);
    let link = format!("Missing torus +x link on switch 2,3,0 GUID {} (", guid([2, 3, 0]));
    assert_eq!(count(&link), 1);
    assert_eq!(count("Too many"), 0);
    let short = format!("{}max_changes 1\n", shape.torus_conf());
    let after = Subnet::of(&broken).route_after(&short, Some(&before)).unwrap();
    assert_eq!(
        after
            .notes
            .iter()
            .filter(|note| note.text.contains("Too many torus changes; stopping"))
            .count(),
        1
    );
    let again = Subnet::of(&shape).route_after(&shape.torus_conf(), Some(&before)).unwrap();
    assert!(!again.notes.iter().any(|note| note.text.contains("remote now")));
    assert_eq!(again.lfts, before.lfts);
}

/// The only error of a rejection, and the advice at its end.
fn refused(shape: &Shape, previous: Option<&Routing>) -> (Note, String) {
    let refusal = Subnet::of(shape).route_after(&shape.torus_conf(), previous).unwrap_err();
    let errors: Vec<_> =
        refusal.notes.iter().filter(|note| note.severity == Severity::Error).collect();
    let [error] = errors[..] else { panic!("{errors:?}") };
    (error.clone(), refusal.notes.last().unwrap().text.clone())
}

#[test]
fn lost_cables_are_named_by_place_guid_port_and_description() {
    let shape = Shape::torus([5, 5, 1]);
    let missing_links = vec![([0, 2, 0], 0), ([3, 2, 0], 0)];
    let broken = Shape { missing_links, ..shape.clone() };
    let before = Subnet::of(&shape).route(&shape.torus_conf()).unwrap();
    let cable = |from: [u16; 3], to: [u16; 3], how: &str| {
        let end = |[x, y, z]: [u16; 3], port: u8| {
            let guid = shape.switch_guid([x, y, z]);
            format!("switch {x},{y},{z} (GUID {guid} \"sw {x},{y},{z}\") (port {port}{how})")
        };
        format!("the cable between {} and {}", end(from, 1), end(to, 2))
    };
    // Their coordinates are known from the last success, or from the links of the other switches.
    for (previous, how) in [(Some(&before), ""), (None, ", as on most switches")] {
        let (error, advice) = refused(&broken, previous);
        assert_eq!(error.code, Some("4E33"));
        let one = cable([0, 2, 0], [1, 2, 0], how);
        let other = cable([3, 2, 0], [4, 2, 0], how);
        assert_eq!(
            error.text,
            format!(
                "the x ring at y=2, z=0 is in 2 pieces, interrupted where {one} is missing; where \
                 {other} is missing; repair all but one of these"
            )
        );
        assert_eq!(advice, format!("repair first, in this order: (1) {one}"));
    }
}

#[test]
fn the_repair_that_helps_most_comes_first() {
    // One switch makes a hole in the middle of two lines; the link helps one ring only.
    let mut shape = Shape::torus([5, 5, 1]);
    shape.looped = [false, true, true];
    let before = Subnet::of(&shape).route(&shape.torus_conf()).unwrap();
    let missing_links = vec![([3, 2, 0], 1), ([3, 1, 0], 0)];
    let broken = Shape { missing_switches: vec![[3, 4, 0]], missing_links, ..shape.clone() };
    let refusal = Subnet::of(&broken).route_after(&shape.torus_conf(), Some(&before)).unwrap_err();
    let advice = &refusal.notes.last().unwrap().text;
    let guid = shape.switch_guid([3, 4, 0]);
    let first = format!("repair first, in this order: (1) switch 3,4,0 (missing, was GUID {guid})");
    assert!(advice.starts_with(&first), "{advice}");
    assert!(advice.contains("(2) the cable between switch 3,1,0 "), "{advice}");
    assert!(!advice.contains("(3)"), "{advice}");
    // In a mesh many switches cannot be placed then, for other reasons.
    let census = &refusal.notes[refusal.notes.len() - 2].text;
    let expected =
        "18 of 25 switches of the torus are placed, 6 switches of the fabric could not be placed; ";
    assert!(census.starts_with(expected), "{census}");
    let unplaced = "4,0,0 (GUID 0x0000000000200014 \"sw 4,0,0\", present but without the cables that tell its position)";
    assert!(refusal.notes.iter().any(|note| note.text.contains(unplaced)), "{:#?}", refusal.notes);
}
