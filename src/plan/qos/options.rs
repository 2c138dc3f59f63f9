//! The `qos_*` options, read.

use super::DROP;
use crate::config::options::Options;
use crate::fabric::{Fabric, PortId};
use crate::ids::PortNum;
use crate::notes::Note;
use crate::wire::attr::NodeKind;
use crate::wire::attr::tables::{SlToVl, VLARB_BLOCK};

/// Default of `qos_vlarb_high`: only VL 0 has weight.
const VLARB_HIGH: &str = "0:4,1:0,2:0,3:0,4:0,5:0,6:0,7:0,8:0,9:0,10:0,11:0,12:0,13:0,14:0";
/// Default of `qos_vlarb_low`: all VLs but 0 have the same weight.
const VLARB_LOW: &str = "0:0,1:4,2:4,3:4,4:4,5:4,6:4,7:4,8:4,9:4,10:4,11:4,12:4,13:4,14:4";
/// Default of `qos_sl2vl`.
const SL2VL: &str = "0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,7";

/// What is configured for one kind of ports.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct PortKind {
    /// Limit of high priority.
    pub high_limit: u8,
    /// Entries (VL, weight) of the high priority table.
    pub high: Vec<(u8, u8)>,
    /// Entries of the low priority table.
    pub low: Vec<(u8, u8)>,
    /// SL to VL mapping.
    pub sl_to_vl: SlToVl,
}

/// The QoS options, read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct QosConfig {
    ca: PortKind,
    router: PortKind,
    switch0: PortKind,
    external: PortKind,
}

/// The options of one kind.
struct Raw<'a> {
    prefix: &'a str,
    high_limit: i32,
    high: &'a Option<String>,
    low: &'a Option<String>,
    sl_to_vl: &'a Option<String>,
}

macro_rules! raw {
    ($options:ident, $prefix:literal, $limit:ident, $high:ident, $low:ident, $map:ident) => {
        Raw {
            prefix: $prefix,
            high_limit: $options.$limit,
            high: &$options.$high,
            low: &$options.$low,
            sl_to_vl: &$options.$map,
        }
    };
}

impl QosConfig {
    /// Reads the options; the notes name options that make no sense and say what is wrong, and
    /// where. In their place the inherited value counts.
    pub fn read(options: &Options) -> (Self, Vec<Note>) {
        let general =
            raw!(options, "qos", qos_high_limit, qos_vlarb_high, qos_vlarb_low, qos_sl2vl);
        let mut notes = Vec::new();
        let default = PortKind {
            high_limit: 0,
            high: arbitration(VLARB_HIGH).unwrap_or_default(),
            low: arbitration(VLARB_LOW).unwrap_or_default(),
            sl_to_vl: mapping(SL2VL).unwrap_or_default(),
        };
        let general = general.over(&default, &mut notes);
        let mut kind = |raw: Raw<'_>| raw.over(&general, &mut notes);
        let config = Self {
            ca: kind(raw!(
                options,
                "qos_ca",
                qos_ca_high_limit,
                qos_ca_vlarb_high,
                qos_ca_vlarb_low,
                qos_ca_sl2vl
            )),
            router: kind(raw!(
                options,
                "qos_rtr",
                qos_rtr_high_limit,
                qos_rtr_vlarb_high,
                qos_rtr_vlarb_low,
                qos_rtr_sl2vl
            )),
            switch0: kind(raw!(
                options,
                "qos_sw0",
                qos_sw0_high_limit,
                qos_sw0_vlarb_high,
                qos_sw0_vlarb_low,
                qos_sw0_sl2vl
            )),
            external: kind(raw!(
                options,
                "qos_swe",
                qos_swe_high_limit,
                qos_swe_vlarb_high,
                qos_swe_vlarb_low,
                qos_swe_sl2vl
            )),
        };
        (config, notes)
    }

    /// What is configured for a port.
    pub(super) fn of(&self, fabric: &Fabric, port: PortId) -> &PortKind {
        match (fabric.node_of(port).kind(), fabric.port(port).num) {
            (NodeKind::Switch, PortNum::ZERO) => &self.switch0,
            (NodeKind::Switch, _) => &self.external,
            (NodeKind::Router, _) => &self.router,
            _ => &self.ca,
        }
    }
}

impl Raw<'_> {
    fn over(self, inherited: &PortKind, notes: &mut Vec<Note>) -> PortKind {
        let prefix = self.prefix;
        let mut read = |key: &str, text: &Option<String>, fault: Option<String>| {
            if let (Some(text), Some(fault)) = (text, fault) {
                let place = format!("{prefix}_{key} \"{text}\"");
                notes.push(Note::warning(format!("{place}: {fault}; ignored")));
            }
        };
        let parsed = |text: &Option<String>| text.as_deref().map(arbitration);
        let (high, low) = (parsed(self.high), parsed(self.low));
        let map = self.sl_to_vl.as_deref().map(mapping);
        read("vlarb_high", self.high, high.clone().and_then(Result::err));
        read("vlarb_low", self.low, low.clone().and_then(Result::err));
        read("sl2vl", self.sl_to_vl, map.clone().and_then(Result::err));
        PortKind {
            high_limit: u8::try_from(self.high_limit).unwrap_or(inherited.high_limit),
            high: high.and_then(Result::ok).unwrap_or_else(|| inherited.high.clone()),
            low: low.and_then(Result::ok).unwrap_or_else(|| inherited.low.clone()),
            sl_to_vl: map.and_then(Result::ok).unwrap_or(inherited.sl_to_vl),
        }
    }
}

/// A number as C writes them, 0..=255.
fn byte(text: &str, entry: usize) -> Result<u8, String> {
    let text = text.trim();
    let value = match text.strip_prefix("0x") {
        Some(hex) => u8::from_str_radix(hex, 16),
        None => text.parse(),
    };
    value.map_err(|_| format!("entry {entry}: \"{text}\" is not a number from 0 to 255"))
}

/// VL arbitration entries `vl:weight,…`; a VL of 15 becomes 0, as in OpenSM (VL modulo 15).
fn arbitration(text: &str) -> Result<Vec<(u8, u8)>, String> {
    let entries: Result<Vec<_>, String> = (1..)
        .zip(text.split(',').filter(|entry| !entry.trim().is_empty()))
        .map(|(index, entry)| {
            let (vl, weight) = entry
                .split_once(':')
                .ok_or_else(|| format!("entry {index}: \"{entry}\" is not vl:weight"))?;
            Ok((byte(vl, index)? % 15, byte(weight, index)?))
        })
        .collect();
    let entries = entries?;
    if entries.len() > 2 * VLARB_BLOCK {
        return Err(format!("{} entries, more than {}", entries.len(), 2 * VLARB_BLOCK));
    }
    Ok(entries)
}

/// The VLs of SL 0 to 15; missing ones are VL 0.
fn mapping(text: &str) -> Result<SlToVl, String> {
    let mut vls = [0; 16];
    for (index, entry) in text.split(',').filter(|entry| !entry.trim().is_empty()).enumerate() {
        let vl = byte(entry, index + 1)?;
        let slot = vls.get_mut(index).ok_or("more than 16 entries")?;
        if vl > DROP {
            return Err(format!("entry {}: VL {vl} is above 15", index + 1));
        }
        *slot = vl;
    }
    Ok(SlToVl::new(vls))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_read_and_faults_are_placed() {
        assert_eq!(arbitration("0:4, 15:0x10,14:0,"), Ok(vec![(0, 4), (0, 16), (14, 0)]));
        assert!(arbitration("0:4,1").is_err_and(|fault| fault.contains("entry 2")));
        assert!(arbitration("0:256").is_err());
        assert_eq!(mapping("3,2").map(|map| map.vls()[..3].to_vec()), Ok(vec![3, 2, 0]));
        assert!(mapping("1,16").is_err_and(|fault| fault.contains("entry 2")));
        assert!(mapping("0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0").is_err());
    }

    #[test]
    fn kinds_inherit_the_general_option() {
        let options = Options {
            qos_vlarb_high: Some("1:9".into()),
            qos_swe_vlarb_high: Some("2:8".into()),
            qos_ca_vlarb_high: Some("oops".into()),
            qos_high_limit: 7,
            qos_rtr_high_limit: 0,
            ..Options::default()
        };
        let (config, notes) = QosConfig::read(&options);
        assert_eq!(config.external.high, [(2, 8)]);
        assert_eq!(config.ca.high, [(1, 9)]);
        assert_eq!(config.switch0.low.len(), 15);
        assert_eq!((config.ca.high_limit, config.router.high_limit), (7, 0));
        assert_eq!(config.ca.sl_to_vl.vls()[15], 7);
        assert!(notes.len() == 1 && notes[0].text.contains("qos_ca_vlarb_high"));
    }
}
