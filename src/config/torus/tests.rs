//! The grammar of torus-2QoS.conf.

use super::*;

fn parse(text: &str) -> Result<TorusConfig, Vec<String>> {
    TorusConfig::parse(Path::new("t.conf"), text)
        .map_err(|notes| notes.iter().map(ToString::to_string).collect())
}

fn size(text: &str) -> TorusSize {
    parse(text).unwrap().size.unwrap()
}

#[test]
fn defaults() {
    let config = parse("").unwrap();
    assert_eq!(config, TorusConfig::default());
    assert_eq!((config.portgroup_max_ports, config.max_changes), (16, 32));
    assert_eq!(config.full_port_order(), (0..=254).collect::<Vec<u8>>());
}

#[test]
fn sizes_and_suffixes() {
    assert_eq!(size("mesh 3T 4 5"), size("torus 3 4M 5M"));
    assert_eq!(size("torus 0x6 010 4").radix, [6, 8, 4]);
    assert_eq!(size("torus 2T 3x 5mT").looped, [false, true, false]);
    assert_eq!(size("mesh 1t 2t 4tm").looped, [true, false, true]);
    assert_eq!(size("torus 4T5 4 4 and more").radix, [4, 4, 4]);
}

#[test]
fn every_bad_line_is_reported_with_its_place() {
    let errors =
        parse("torus 3 3\n\n# c\n Torus 3 3 3\nxp_link 1\nz_dateline 0\nwhat\n").unwrap_err();
    assert_eq!(
        errors,
        [
            "ERR 4E13: t.conf:1:10: argument missing: expected three radices, for x, y and z",
            "ERR 4E12: t.conf:4:2: unknown keyword `Torus`: keywords are lower case, `torus`",
            "ERR 4E13: t.conf:5:10: argument missing: expected two switch GUIDs, origin and \
             neighbour",
            "ERR 4E10: t.conf:6:12: a dateline before the `torus` or `mesh` line: its range \
             follows from the radix",
            "ERR 4E12: t.conf:7:1: unknown keyword `what`",
        ]
    );
}

#[test]
fn second_size_line_is_an_error() {
    let errors = parse("torus 3 3 3\nmesh 3 3 3").unwrap_err();
    assert_eq!(errors, ["ERR 4E13: t.conf:2:1: a second size line (`mesh`): only one is allowed"]);
}

#[test]
fn datelines_have_the_range_of_their_radix() {
    let config = parse("torus 5 3 1\nx_dateline -4\ny_dateline 2\nz_dateline 0").unwrap();
    assert_eq!(config.seeds[0].dateline, [-4, 2, 0]);
    for line in ["x_dateline 5", "x_dateline -5", "y_dateline 3", "z_dateline 1", "y_dateline"] {
        let errors = parse(&format!("torus 5 3 1\n{line}")).unwrap_err();
        assert_eq!(errors.len(), 1, "{line}");
    }
}

#[test]
fn seeds_open_implicitly_and_by_keyword() {
    let config = parse("xp_link 1 2\nxp_link 1 3\nnext_seed\nym_link 0x10 020\nnext_seed").unwrap();
    assert_eq!(config.seeds.len(), 3);
    assert_eq!(config.seeds[0].links[0], link(1, 3));
    assert_eq!(config.seeds[1].links[3], link(16, 16));
    assert_eq!(config.seeds[2], Seed::default());
    assert_eq!(parse("next_seed\nxp_link 1 2").unwrap().seeds.len(), 1);
}

fn link(origin: u64, neighbor: u64) -> Option<SeedLink> {
    Some(SeedLink { origin: Guid(origin), neighbor: Guid(neighbor) })
}

#[test]
fn port_order_takes_the_rest_of_the_line() {
    let config = parse("port_order 9\nport_order 3 1 3 # 2").unwrap();
    assert_eq!(config.port_order, [3, 1, 0, 2]);
    assert_eq!(config.notes.len(), 1);
    assert_eq!(config.full_port_order()[..6], [3, 1, 0, 2, 4, 5]);
    assert_eq!(config.full_port_order().len(), 255);
    assert!(parse("port_order 254").is_ok());
    let errors = parse("port_order 1 255").unwrap_err();
    assert_eq!(errors, ["ERR 4E13: t.conf:1:14: port number 255 is not from 0 to 254"]);
}

#[test]
fn surplus_words_are_ignored() {
    let config = parse("  portgroup_max_ports 3 # three\r\nmax_changes 7 x\n").unwrap();
    assert_eq!((config.portgroup_max_ports, config.max_changes), (3, 7));
}

proptest::proptest! {
    #[test]
    fn nothing_panics(text in "(torus|mesh|port_order|x_dateline|yp_link|[ -~]{0,9}| |\n|\t|-?[0-9x]{1,20}){0,40}") {
        let _ = parse(&text);
    }
}
