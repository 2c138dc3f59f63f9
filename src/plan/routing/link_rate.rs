//! Links that run slower or narrower than both of their ends could (`avoid_throttled_links`).

use crate::fabric::link_rate::has_extended_speeds;
use crate::fabric::{Fabric, PortId};
use crate::wire::attr::{LinkWidth, MlnxExtPortInfo, PortInfo};

/// True if a link does not run at the greatest speed and width that both ends have enabled, or runs
/// at different ones in its two directions. A link is not throttled if an end is unknown.
pub(super) fn is_throttled(fabric: &Fabric, port: PortId) -> bool {
    let ends = fabric
        .port(port)
        .peer
        .and_then(|peer| Some([speeds_of_end(fabric, port)?, speeds_of_end(fabric, peer)?]));
    let Some(ends) = ends else { return false };
    let [speeds, widths] = [
        ends.map(|(speeds, _)| speeds.enabled),
        ends.map(|(_, info)| info.link_width_enabled().into()),
    ];
    let fastest = highest_bit(speeds[0] & speeds[1]);
    let widest = widest(widths[0] & widths[1]);
    ends.iter().any(|(speeds, info)| {
        highest_bit(speeds.active) != fastest || u16::from(info.link_width_active()) != widest
    })
}

fn speeds_of_end(fabric: &Fabric, port: PortId) -> Option<(Speeds, PortInfo)> {
    let info = fabric.port(port).info()?;
    Some((Speeds::of(fabric, port, &info, has_extended_speeds(fabric, port)?), info))
}

/// Speeds as masks in which a faster speed is a higher bit: FDR10 is between QDR and FDR.
#[derive(Clone, Copy)]
struct Speeds {
    enabled: u16,
    active: u16,
}

impl Speeds {
    fn of(fabric: &Fabric, port: PortId, info: &PortInfo, extended: bool) -> Self {
        let mellanox = fabric.extended_port_info(port);
        let fdr10_enabled = mellanox.is_some_and(MlnxExtPortInfo::has_fdr10_enabled);
        let is_fdr10 = mellanox.is_some_and(MlnxExtPortInfo::is_fdr10);
        Self {
            enabled: speed_mask(
                info.link_speed_enabled(),
                fdr10_enabled,
                info.link_speed_ext_enabled(),
                extended,
            ),
            active: speed_mask(
                info.link_speed_active(),
                is_fdr10,
                info.link_speed_ext_active(),
                extended,
            ),
        }
    }
}

fn speed_mask(basic: u8, fdr10: bool, more: u8, extended: bool) -> u16 {
    let more = if extended { more } else { 0 };
    u16::from(more) << 4 | u16::from(fdr10) << 3 | u16::from(basic)
}

fn highest_bit(mask: u16) -> u16 {
    mask.checked_ilog2().map_or(0, |bit| 1 << bit)
}

/// The code of the greatest width in a mask.
fn widest(mask: u16) -> u16 {
    let widths =
        [LinkWidth::X12, LinkWidth::X8, LinkWidth::X4, LinkWidth::X2, LinkWidth::X1].map(u16::from);
    widths.into_iter().find(|width| mask & width != 0).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::options::Options;
    use crate::ids::PortNum;
    use crate::plan::routing::balancing::tests::{number, ring};
    use crate::plan::routing::nue::Nue;
    use crate::plan::routing::sssp::{DfSssp, Sssp};
    use crate::plan::routing::{Engine, Routing, RoutingInput};

    /// The ports of the cable between the first switch and the next one of a ring.
    fn cable(fabric: &Fabric) -> [PortId; 2] {
        let first = fabric.switch_ids().next().expect("a switch");
        let port = fabric.switch_port(first, PortNum(1)).expect("a port");
        [port, fabric.port(port).peer.expect("a link")]
    }

    fn change(fabric: &mut Fabric, port: PortId, change: impl Fn(&mut PortInfo)) {
        let mut info = fabric.port(port).info().expect("known attributes");
        change(&mut info);
        fabric.acknowledge(&[(port, info)], &[]);
    }

    /// True if the first cable is throttled after changes of its ends; both ends must agree.
    fn throttles(changes: [fn(&mut PortInfo); 2]) -> bool {
        let mut fabric = ring(4);
        let ends = cable(&fabric);
        for (port, apply) in ends.into_iter().zip(changes) {
            change(&mut fabric, port, apply);
        }
        let found = ends.map(|port| is_throttled(&fabric, port));
        assert_eq!(found[0], found[1]);
        found[0]
    }

    #[test]
    fn links_below_their_enabled_rate_are_throttled() {
        assert!(!throttles([same, same]));
        assert!(throttles([slow, slow]));
        assert!(throttles([narrow, narrow]));
        assert!(throttles([same, slow]), "the directions differ");
        assert!(!throttles([limited, slow]), "one end has no faster speed enabled");
        let mut fabric = ring(4);
        let [port, peer] = cable(&fabric);
        let host = fabric.end_ports().find(|&port| !fabric.node_of(port).is_switch());
        assert!(!is_throttled(&fabric, host.expect("a host")));
        change(&mut fabric, port, slow);
        change(&mut fabric, peer, slow);
        let throttled = fabric.port_ids().filter(|&port| is_throttled(&fabric, port));
        let mut expected = [port, peer];
        expected.sort_unstable();
        assert_eq!(throttled.collect::<Vec<_>>(), expected, "no other link");
    }

    fn limited(info: &mut PortInfo) {
        info.set_link_speed_enabled(1);
        info.set_link_speed_active(1);
    }

    fn narrow(info: &mut PortInfo) {
        info.set_link_width_active(LinkWidth::X1);
    }

    fn slow(info: &mut PortInfo) {
        info.set_link_speed_active(1);
    }

    fn same(_: &mut PortInfo) {}

    fn routes(engine: &dyn Engine, fabric: &Fabric, avoid_throttled_links: bool) -> Routing {
        let input = RoutingInput {
            fabric,
            lids: &number(fabric, 0),
            options: &Options { avoid_throttled_links, ..Options::default() },
            torus_config: &Err(Vec::new()),
            previous: None,
            previous_fabric: None,
        };
        engine.route(&input).expect("routes")
    }

    /// Number of LIDs that the switch of a port forwards through it.
    fn load(fabric: &Fabric, routing: &Routing, port: PortId) -> usize {
        let switch = fabric.node_of(port).switch.expect("a switch");
        let own = fabric.port(port).num.0;
        routing.lft(switch).entries().filter(|&out| out == own).count()
    }

    #[test]
    fn engines_route_around_throttled_links() {
        let mut fabric = ring(5);
        let ends = cable(&fabric);
        for port in ends {
            change(&mut fabric, port, |info| info.set_link_speed_active(1));
        }
        let engines: [&dyn Engine; 3] = [&Sssp::default(), &DfSssp::default(), &Nue];
        for engine in engines {
            assert!(
                loads(&fabric, &ends, engine, false).iter().sum::<usize>() > 0,
                "{}",
                engine.name()
            );
            assert_eq!(loads(&fabric, &ends, engine, true), [0, 0], "{}", engine.name());
        }
    }

    fn loads(fabric: &Fabric, ends: &[PortId; 2], engine: &dyn Engine, avoid: bool) -> [usize; 2] {
        let routing = routes(engine, fabric, avoid);
        let missing = routing.lfts.iter().flat_map(|lft| lft.entries().take(11).skip(1));
        assert!(missing.clone().all(|out| out != u8::MAX), "{}", engine.name());
        ends.map(|port| load(fabric, &routing, port))
    }
}
