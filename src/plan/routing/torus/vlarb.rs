//! VL arbitration: tables of host ports, and messages about options that do not suit torus-2QoS.

use super::report::warning;
use super::sl2vl::PortClass;
use crate::config::options::Options;
use crate::notes::{Note, Severity};
use crate::wire::attr::tables::VlArbBlock;

/// OpenSM's built-in `qos_vlarb_high`.
const DEFAULT_HIGH: &str = "0:4,1:0,2:0,3:0,4:0,5:0,6:0,7:0,8:0,9:0,10:0,11:0,12:0,13:0,14:0";
/// OpenSM's built-in `qos_vlarb_low`.
const DEFAULT_LOW: &str = "0:0,1:4,2:4,3:4,4:4,5:4,6:4,7:4,8:4,9:4,10:4,11:4,12:4,13:4,14:4";
/// Maximum number of numbers evaluated in a qos_*_vlarb_* option, as in OpenSM.
const MAX_NUMBERS: usize = 128;

/// Problem of the weights of a port between switches.
const UNFAIR: &str =
    "weights should be equal for VLs 0-3 and for VLs 4-7, which torus-2QoS uses equally";
/// Problem of the weights of other ports.
const UNUSED: &str = "torus-2QoS does not use VLs 2-7 on these ports";

/// The VL arbitration block of a switch port cabled to a host. Such ports carry data on VL 0 and VL
/// 1, which take the weights of VL 0 and VL 4, the first VLs of the two QoS levels between
/// switches.
pub(super) fn for_host_port(configured: VlArbBlock) -> VlArbBlock {
    VlArbBlock::new(configured.entries().filter_map(|(vl, weight)| match vl {
        0 => Some((0, weight)),
        4 => Some((1, weight)),
        _ => None,
    }))
}

/// A warning if the weights by VL of a port's table do not suit the VLs that torus-2QoS uses there.
pub(super) fn table_warning(class: PortClass, weights: &[u32; 16]) -> Option<&'static str> {
    match class {
        PortClass::Along(_) if !is_fair(weights) => Some(UNFAIR),
        PortClass::Host if weights[4] == 0 && is_used(weights) => {
            Some("torus-2QoS uses the weights of VLs 0 and 4 on ports to hosts, and VL 4 has none")
        }
        PortClass::Local | PortClass::Outside if weights[2..8].iter().any(|&weight| weight > 0) => {
            Some(UNUSED)
        }
        _ => None,
    }
}

/// True if VLs 0-3 have equal weights, and VLs 4-7 have equal weights.
fn is_fair(weights: &[u32; 16]) -> bool {
    is_even(&weights[0..4]) && is_even(&weights[4..8])
}

fn is_even(weights: &[u32]) -> bool {
    weights.windows(2).all(|pair| pair[0] == pair[1])
}

/// True if a VL other than 0 and 4 has weight.
fn is_used(weights: &[u32; 16]) -> bool {
    weights.iter().zip(0..).any(|(&weight, vl)| weight > 0 && vl != 0 && vl != 4)
}

/// QoS options of one kind of port.
struct PortKind<'a> {
    prefix: &'static str,
    high: &'a Option<String>,
    low: &'a Option<String>,
    max_vls: u32,
    sl2vl: &'a Option<String>,
}

/// QoS options by kind of port, inter-switch ports first.
fn kinds(options: &Options) -> [PortKind<'_>; 4] {
    macro_rules! kind {
        ($prefix:literal, $high:ident, $low:ident, $max_vls:ident, $sl2vl:ident) => {
            PortKind {
                prefix: $prefix,
                high: &options.$high,
                low: &options.$low,
                max_vls: options.$max_vls,
                sl2vl: &options.$sl2vl,
            }
        };
    }
    [
        kind!("qos_swe", qos_swe_vlarb_high, qos_swe_vlarb_low, qos_swe_max_vls, qos_swe_sl2vl),
        kind!("qos_ca", qos_ca_vlarb_high, qos_ca_vlarb_low, qos_ca_max_vls, qos_ca_sl2vl),
        kind!("qos_sw0", qos_sw0_vlarb_high, qos_sw0_vlarb_low, qos_sw0_max_vls, qos_sw0_sl2vl),
        kind!("qos_rtr", qos_rtr_vlarb_high, qos_rtr_vlarb_low, qos_rtr_max_vls, qos_rtr_sl2vl),
    ]
}

/// Messages about QoS options that torus-2QoS overrides or that do not suit it: warnings about what
/// the administrator set, information about built-in values, as OpenSM logs both.
pub(crate) fn option_notes(options: &Options) -> Vec<Note> {
    let mut notes = Vec::new();
    for (index, kind) in kinds(options).iter().enumerate() {
        let between_switches = index == 0;
        for (level, own, general, default) in [
            ("high", kind.high, &options.qos_vlarb_high, DEFAULT_HIGH),
            ("low", kind.low, &options.qos_vlarb_low, DEFAULT_LOW),
        ] {
            let text = own.as_ref().or(general.as_ref()).map_or(default, String::as_str);
            let severity = if text == default { Severity::Info } else { Severity::Warning };
            let problem = weight_problem(&weights(text), between_switches);
            notes.extend(problem.map(|problem| {
                Note::new(severity, None, format!("{}_vlarb_{level}: {problem}", kind.prefix))
            }));
        }
        notes.extend(max_vls_warning(
            kind,
            options.qos_max_vls,
            if between_switches { 8 } else { 2 },
        ));
        if kind.sl2vl.is_some() {
            let text = format!(
                "{}_sl2vl is ignored: torus-2QoS computes all SL to VL tables itself",
                kind.prefix
            );
            notes.push(warning(text));
        }
    }
    notes
}

/// The reason why weights by VL do not suit ports of this kind.
fn weight_problem(weights: &[u32; 16], between_switches: bool) -> Option<&'static str> {
    if between_switches {
        return (!is_fair(weights)).then_some(UNFAIR);
    }
    weights[2..8].iter().any(|&weight| weight > 0).then_some(UNUSED)
}

fn max_vls_warning(kind: &PortKind<'_>, general: u32, needed: u32) -> Option<Note> {
    let (name, value) = match kind.max_vls {
        0 => ("qos_max_vls".to_owned(), general),
        own => (format!("{}_max_vls", kind.prefix), own),
    };
    (value > 0 && value < needed).then(|| {
        let ports = kind.prefix;
        warning(format!(
            "{name} is {value}, but torus-2QoS needs {needed} VLs for two QoS levels ({ports})"
        ))
    })
}

/// Sum of weights by VL of an option value such as `0:4,1:0`.
fn weights(text: &str) -> [u32; 16] {
    let numbers: Vec<u32> = text
        .split([':', ','])
        .take(MAX_NUMBERS)
        .map(|number| number.trim().parse().unwrap_or(0))
        .collect();
    let mut sums = [0; 16];
    for pair in numbers.chunks_exact(2) {
        sums[(pair[0] & 0xF) as usize] += pair[1] & 0xFF;
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_ports_keep_vl_0_and_4() {
        let low = VlArbBlock::new((0..15).map(|vl| (vl, if vl == 0 { 0 } else { 4 })));
        let high = VlArbBlock::new((0..15).map(|vl| (vl, if vl == 0 { 4 } else { 0 })));
        assert_eq!(for_host_port(low), VlArbBlock::new([(0, 0), (1, 4)]));
        assert_eq!(for_host_port(high), VlArbBlock::new([(0, 4), (1, 0)]));
    }

    #[test]
    fn tables_of_scopes_are_judged_by_port() {
        let fair: Vec<_> = (0..4).map(|vl| (vl, 9)).chain((4..8).map(|vl| (vl, 5))).collect();
        assert!(!of(PortClass::Along(1), &fair));
        assert!(of(PortClass::Along(1), &fair[..7]));
        assert!(!of(PortClass::Host, &fair));
        assert!(of(PortClass::Host, &fair[..4]), "nothing is left for the second level");
        assert!(!of(PortClass::Outside, &[(0, 4), (1, 8)]));
        assert!(of(PortClass::Outside, &fair));
    }

    fn of(class: PortClass, entries: &[(usize, u32)]) -> bool {
        table_warning(class, &table(entries)).is_some()
    }

    fn table(entries: &[(usize, u32)]) -> [u32; 16] {
        let mut weights = [0; 16];
        entries.iter().for_each(|&(vl, weight)| weights[vl] = weight);
        weights
    }

    #[test]
    fn defaults_are_information_and_own_values_warnings() {
        let notes = option_notes(&Options::default());
        let names: Vec<_> = notes.iter().map(|note| note.text.split(':').next().unwrap()).collect();
        let expected =
            ["qos_swe_vlarb_high", "qos_swe_vlarb_low", "qos_ca_vlarb_low", "qos_sw0_vlarb_low"];
        assert_eq!(names[..4], expected);
        assert_eq!(names[4..], ["qos_rtr_vlarb_low"]);
        assert!(notes.iter().all(|note| note.severity == Severity::Info), "{notes:?}");
        let low = Some("0:0,1:1,2:2,3:3,4:4,5:5,6:6,7:7".to_owned());
        let options = Options { qos_ca_vlarb_low: low, ..Options::default() };
        let notes = option_notes(&options);
        let warnings = notes.iter().filter(|note| note.severity == Severity::Warning);
        let warnings: Vec<_> = warnings.map(|note| note.text.as_str()).collect();
        let expected = "qos_ca_vlarb_low: torus-2QoS does not use VLs 2-7 on these ports";
        assert_eq!(warnings, [expected]);
    }

    #[test]
    fn options_that_fit_give_none() {
        let options = Options {
            qos_vlarb_high: Some("0:4,1:4".into()),
            qos_vlarb_low: Some("0:1,1:2".into()),
            qos_swe_vlarb_high: Some("0:1,1:1,2:1,3:1,4:9,5:9,6:9,7:4,7:5".into()),
            qos_swe_vlarb_low: Some("0:0".into()),
            qos_max_vls: 8,
            qos_sl2vl: Some("0,1".into()),
            ..Options::default()
        };
        assert_eq!(option_notes(&options), []);
        let options = Options { qos_max_vls: 4, qos_ca_sl2vl: Some("0".into()), ..options };
        assert_eq!(option_notes(&options).len(), 2);
    }
}
