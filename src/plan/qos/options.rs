//! The `qos_*` options.

use super::vls::dropped_by;
use crate::config::options::Options;
use crate::config::options::vl_lists::{arbitration, mapping};
use crate::fabric::{Fabric, PortId};
use crate::ids::PortNum;
use crate::wire::attr::NodeKind;
use crate::wire::attr::tables::SlToVl;

/// Default of `qos_vlarb_high`: only VL 0 has weight.
const DEFAULT_VLARB_HIGH: &str = "0:4,1:0,2:0,3:0,4:0,5:0,6:0,7:0,8:0,9:0,10:0,11:0,12:0,13:0,14:0";
/// Default of `qos_vlarb_low`: all VLs except VL 0 have the same weight.
const DEFAULT_VLARB_LOW: &str = "0:0,1:4,2:4,3:4,4:4,5:4,6:4,7:4,8:4,9:4,10:4,11:4,12:4,13:4,14:4";
/// Default of `qos_sl2vl`.
const DEFAULT_SL2VL: &str = "0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,7";

/// The QoS options of one kind of ports.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct PortQosOptions {
    /// VLHighLimit.
    pub high_limit: u8,
    /// Entries (VL, weight) of the high priority table.
    pub high: Vec<(u8, u8)>,
    /// Entries (VL, weight) of the low priority table.
    pub low: Vec<(u8, u8)>,
    pub sl_to_vl: SlToVl,
}

/// The parsed QoS options of all kinds of ports.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct QosConfig {
    ca: PortQosOptions,
    router: PortQosOptions,
    switch0: PortQosOptions,
    external: PortQosOptions,
}

/// The unparsed options of one kind of ports.
struct UnparsedOptions<'a> {
    high_limit: i32,
    high: &'a Option<String>,
    low: &'a Option<String>,
    sl_to_vl: &'a Option<String>,
}

macro_rules! raw {
    ($options:ident, $limit:ident, $high:ident, $low:ident, $map:ident) => {
        UnparsedOptions {
            high_limit: $options.$limit,
            high: &$options.$high,
            low: &$options.$low,
            sl_to_vl: &$options.$map,
        }
    };
}

impl QosConfig {
    /// Parses the options. An invalid list, which was reported when the file was read, is replaced
    /// by the inherited one.
    pub fn read(options: &Options) -> Self {
        let general = raw!(options, qos_high_limit, qos_vlarb_high, qos_vlarb_low, qos_sl2vl);
        let default = PortQosOptions {
            high_limit: 0,
            high: arbitration(DEFAULT_VLARB_HIGH).expect("the default list is valid"),
            low: arbitration(DEFAULT_VLARB_LOW).expect("the default list is valid"),
            sl_to_vl: SlToVl::new(mapping(DEFAULT_SL2VL).expect("the default list is valid")),
        };
        let general = general.over(&default);
        Self {
            ca: raw!(options, qos_ca_high_limit, qos_ca_vlarb_high, qos_ca_vlarb_low, qos_ca_sl2vl)
                .over(&general),
            router: raw!(
                options,
                qos_rtr_high_limit,
                qos_rtr_vlarb_high,
                qos_rtr_vlarb_low,
                qos_rtr_sl2vl
            )
            .over(&general),
            switch0: raw!(
                options,
                qos_sw0_high_limit,
                qos_sw0_vlarb_high,
                qos_sw0_vlarb_low,
                qos_sw0_sl2vl
            )
            .over(&general),
            external: raw!(
                options,
                qos_swe_high_limit,
                qos_swe_vlarb_high,
                qos_swe_vlarb_low,
                qos_swe_sl2vl
            )
            .over(&general),
        }
    }

    /// The SLs that some kind of ports drops, one bit per SL.
    pub(super) fn dropped_sls(&self) -> u16 {
        let kinds = [&self.ca, &self.router, &self.switch0, &self.external];
        kinds.iter().fold(0, |sls, kind| sls | dropped_by(&kind.sl_to_vl))
    }

    /// The options of a port.
    pub(super) fn of(&self, fabric: &Fabric, port: PortId) -> &PortQosOptions {
        match (fabric.node_of(port).kind(), fabric.port(port).num) {
            (NodeKind::Switch, PortNum::ZERO) => &self.switch0,
            (NodeKind::Switch, _) => &self.external,
            (NodeKind::Router, _) => &self.router,
            _ => &self.ca,
        }
    }
}

impl UnparsedOptions<'_> {
    fn over(self, inherited: &PortQosOptions) -> PortQosOptions {
        let high = self.high.as_deref().and_then(|text| arbitration(text).ok());
        let low = self.low.as_deref().and_then(|text| arbitration(text).ok());
        let map = self.sl_to_vl.as_deref().and_then(|text| mapping(text).ok());
        PortQosOptions {
            high_limit: u8::try_from(self.high_limit).unwrap_or(inherited.high_limit),
            high: high.unwrap_or_else(|| inherited.high.clone()),
            low: low.unwrap_or_else(|| inherited.low.clone()),
            sl_to_vl: map.map_or(inherited.sl_to_vl, SlToVl::new),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let config = QosConfig::read(&options);
        assert_eq!(config.external.high, [(2, 8)]);
        assert_eq!(config.ca.high, [(1, 9)]);
        assert_eq!(config.switch0.low.len(), 15);
        assert_eq!((config.ca.high_limit, config.router.high_limit), (7, 0));
        assert_eq!(config.ca.sl_to_vl.vls()[15], 7);
    }
}
