//! Positions and directions in a generated torus or mesh, as written on the command line.

use crate::sim::generate::Shape;
use std::fmt;
use std::str::FromStr;

/// Coordinates of a switch: x, y, z.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SwitchPosition(pub [u16; 3]);

impl SwitchPosition {
    /// The coordinates, checked against the size of the torus.
    pub(super) fn within(self, shape: &Shape) -> Result<[u16; 3], String> {
        let inside = shape.contains(self.0).then_some(self.0);
        inside.ok_or_else(|| format!("there is no switch at {self}"))
    }
}

impl FromStr for SwitchPosition {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut position = [0; 3];
        let parts: Vec<&str> = text.split(',').collect();
        if parts.len() > 3 {
            return Err(invalid(text));
        }
        for (part, coordinate) in parts.iter().zip(&mut position) {
            *coordinate = part.trim().parse().map_err(|_| invalid(text))?;
        }
        Ok(Self(position))
    }
}

fn invalid(text: &str) -> String {
    format!("'{text}' is not a position such as 1,0,2")
}

impl fmt::Display for SwitchPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [x, y, z] = self.0;
        write!(f, "{x},{y},{z}")
    }
}

/// All parallel cables of a switch in one direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PositionAndDirection {
    pub from: SwitchPosition,
    /// 0, 1, 2 for x, y, z.
    pub axis: u8,
    /// True towards higher coordinates.
    pub up: bool,
}

impl PositionAndDirection {
    /// Position of the lower end and the dimension, which is how [`Shape::missing_links`]
    /// identifies cables.
    pub(super) fn lower_end(self, shape: &Shape) -> Result<([u16; 3], usize), String> {
        let dimension = usize::from(self.axis);
        let mut at = self.from.within(shape)?;
        if !self.up {
            let radix = shape.radix[dimension];
            at[dimension] = (at[dimension] + radix - 1) % radix;
        }
        match shape.above(at, dimension) {
            Some(_) => Ok((at, dimension)),
            None => Err(format!("there is no cable at {self}")),
        }
    }
}

impl FromStr for PositionAndDirection {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let invalid = || format!("'{text}' is not a position and a direction such as 0,0,0:+x");
        let (position, direction) = text.split_once(':').ok_or_else(invalid)?;
        let (up, axis) = match direction {
            "+x" | "x" => (true, 0),
            "+y" | "y" => (true, 1),
            "+z" | "z" => (true, 2),
            "-x" => (false, 0),
            "-y" => (false, 1),
            "-z" => (false, 2),
            _ => return Err(invalid()),
        };
        Ok(Self { from: position.parse()?, axis, up })
    }
}

impl fmt::Display for PositionAndDirection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.up { '+' } else { '-' };
        let axis = ['x', 'y', 'z'].get(usize::from(self.axis)).unwrap_or(&'?');
        write!(f, "{}:{sign}{axis}", self.from)
    }
}
