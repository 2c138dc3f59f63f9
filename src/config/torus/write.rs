//! Renders a configuration as a torus-2QoS.conf.

use super::{Seed, TorusConfig, TorusSize};
use std::fmt;

const AXES: [char; 3] = ['x', 'y', 'z'];

/// The `torus` line.
impl fmt::Display for TorusSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("torus")?;
        for (radix, looped) in self.radix.into_iter().zip(self.looped) {
            write!(f, " {radix}{}", if looped || radix <= 2 { "" } else { "m" })?;
        }
        Ok(())
    }
}

/// The lines of a seed, without `next_seed` before them.
impl fmt::Display for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (slot, link) in self.links.iter().enumerate() {
            let Some(link) = link else { continue };
            let sign = if slot % 2 == 0 { 'p' } else { 'm' };
            let axis = AXES[slot / 2];
            let from = link.origin;
            let to = link.neighbor;
            writeln!(f, "{axis}{sign}_link {from} {to}")?;
        }
        for (axis, &distance) in AXES.iter().zip(&self.dateline) {
            if distance != 0 {
                writeln!(f, "{axis}_dateline {distance}")?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for TorusConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(size) = self.size {
            writeln!(f, "{size}")?;
        }
        for (index, seed) in self.seeds.iter().enumerate() {
            if index > 0 {
                writeln!(f, "next_seed")?;
            }
            write!(f, "{seed}")?;
        }
        writeln!(f, "portgroup_max_ports {}", self.portgroup_max_ports)?;
        if !self.port_order.is_empty() {
            let ports: Vec<String> = self.port_order.iter().map(ToString::to_string).collect();
            writeln!(f, "port_order {}", ports.join(" "))?;
        }
        writeln!(f, "max_changes {}", self.max_changes)
    }
}
