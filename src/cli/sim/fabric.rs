//! Arguments that describe the fabric of `sim`, `plan` and `torus-config`.

use super::shape::{PositionAndDirection, SwitchPosition};
use crate::cli::number::within;
use crate::sim::generate::{FabricShape, Shape};
use clap::Args;
use std::path::PathBuf;

/// A fabric to generate or to read.
#[derive(Clone, PartialEq, Debug, Default, Args)]
pub struct FabricArgs {
    /// Torus: switches in each dimension, such as 6x5x1; an m after a number makes that dimension
    /// a mesh (no wrap-around links), as in 6x5mx1. Fat tree of 2 or 3 levels:
    /// fattree:LEAVESxSPINES, fattree:PODSxLEAVESxMIDDLESxCORES (leaf and middle switches of each
    /// pod, core switches above each middle switch). hypercube:DIMENSIONS.
    /// dragonfly:GROUPSxSWITCHES (of each group). random:SWITCHESxCABLES, with :SEED for another
    /// one of this size
    #[arg(required_unless_present = "file", conflicts_with = "file", value_name = "SHAPE")]
    pub shape: Option<FabricShape>,
    /// Hosts (channel adapters with one port) at each switch, in fat trees at each leaf switch; 0
    /// to 200
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = |text: &str| within(text, &(0..=200_u8)))]
    pub hosts: u8,
    /// Parallel cables between neighbouring switches, 1 to 30
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = |text: &str| within(text, &(1..=30_u8)))]
    pub parallel: u8,
    /// Omit this switch of a torus with its hosts and cables; may be repeated
    #[arg(long, value_name = "X,Y,Z")]
    pub missing_switch: Vec<SwitchPosition>,
    /// Omit the cables of this switch of a torus in this direction, as in 0,0,0:+x; may be repeated
    #[arg(long, value_name = "X,Y,Z:DIRECTION")]
    pub missing_link: Vec<PositionAndDirection>,
    /// Read the fabric from a file in the format of ibnetdiscover
    #[arg(long, value_name = "FABRIC")]
    pub file: Option<PathBuf>,
}

impl FabricArgs {
    /// Complete description of the fabric to generate; `None` if the fabric comes from a file.
    ///
    /// # Errors
    /// A switch or cable to omit is outside of the shape, or the shape has no coordinates.
    pub fn generated(&self) -> Result<Option<FabricShape>, String> {
        Ok(match self.shape.clone() {
            None => None,
            Some(FabricShape::Grid(shape)) => Some(FabricShape::Grid(self.grid(shape)?)),
            Some(FabricShape::Other { family, .. }) => {
                if !self.missing_switch.is_empty() || !self.missing_link.is_empty() {
                    return Err(format!(
                        "--missing-switch and --missing-link name coordinates of a torus or mesh; \
                         {family} has none"
                    ));
                }
                let hosts = self.hosts;
                let parallel = self.parallel;
                Some(FabricShape::Other { family, hosts, parallel })
            }
        })
    }

    fn grid(&self, mut shape: Shape) -> Result<Shape, String> {
        shape.hosts = self.hosts;
        shape.parallel = self.parallel;
        for position in &self.missing_switch {
            let at = position.within(&shape)?;
            shape.missing_switches.push(at);
        }
        for link in &self.missing_link {
            let link = link.lower_end(&shape)?;
            shape.missing_links.push(link);
        }
        Ok(shape)
    }
}
