//! `torus-sm sim`: the daemon on an embedded simulated fabric. [`super::sim_exec`] has the
//! subcommands for programs beside it, [`super::sim_ctl`] the one for faults.

use super::args::{self, DaemonArgs};
use super::{Command, UsageError, sim_ctl, sim_exec};
use crate::sim::generate;
use clap::Parser;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// Bring a simulated fabric up, print a short report, and stay up until interrupted.
///
/// Takes the options of the daemon too (see torus-sm --help), such as -o to end after the
/// first sweep. Programs made for InfiniBand run on the fabric with torus-sm sim exec and
/// torus-sm sim shell; torus-sm sim ctl lets things go wrong.
#[derive(Clone, PartialEq, Debug, Parser)]
#[command(name = "torus-sm sim", disable_version_flag = true, max_term_width = 96)]
pub struct SimArgs {
    /// Radices of the torus, such as 6x5x1 or 8x8x8; an m after a radix leaves that dimension
    /// open, as in 6x5mx1
    #[arg(required_unless_present = "file", conflicts_with = "file", value_name = "SHAPE")]
    pub shape: Option<Shape>,
    /// Channel adapters at each switch
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u16).range(0..=200))]
    pub hosts: u16,
    /// Parallel cables between neighbours
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=30))]
    pub parallel: u16,
    /// Leave this switch out; may be repeated
    #[arg(long, value_name = "X,Y,Z")]
    pub missing_switch: Vec<Position>,
    /// Leave the cables of this switch in this direction out, as in 0,0,0:+x; may be repeated
    #[arg(long, value_name = "X,Y,Z:DIRECTION")]
    pub missing_link: Vec<Cable>,
    /// Take the fabric from a file in ibnetdiscover's format
    #[arg(long, value_name = "FABRIC")]
    pub file: Option<PathBuf>,
    /// Start the fabric alone, for a subnet manager run with torus-sm sim exec
    #[arg(long)]
    pub no_sm: bool,
    /// Serve programs started with torus-sm sim exec on this Unix socket [default:
    /// torus-sm/sim.sock in $XDG_RUNTIME_DIR; /run/torus-sm/sim.sock for root;
    /// /tmp/torus-sm-UID/sim.sock]
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,
    /// Run the lines of this file on the fabric's console once the subnet is up; see torus-sm
    /// sim ctl
    #[arg(long, value_name = "FILE")]
    pub script: Option<PathBuf>,
    /// What the command line says to the daemon
    #[arg(skip)]
    pub daemon: DaemonArgs,
}

/// Options that describe the simulated fabric, each with an argument.
pub(super) const OWN: [&str; 5] =
    ["--hosts", "--parallel", "--missing-switch", "--missing-link", "--file"];

/// How many arguments an option has if it is the simulation's own.
fn arguments(name: &str) -> Option<usize> {
    match name {
        "--no-sm" => Some(0),
        "--socket" | "--script" => Some(1),
        _ => OWN.contains(&name).then_some(1),
    }
}

impl SimArgs {
    /// What the generator is to build; `None` if the fabric comes from a file.
    ///
    /// # Errors
    /// What is beyond the generator, or outside the shape.
    pub fn generated(&self) -> Result<Option<generate::Shape>, String> {
        let Some(shape) = self.shape else { return Ok(None) };
        let mut whole: generate::Shape =
            shape.to_string().parse().map_err(|error: generate::ShapeError| error.to_string())?;
        let count = |value: u16| u8::try_from(value).map_err(|_| format!("{value} is too many"));
        whole.hosts = count(self.hosts)?;
        whole.parallel = count(self.parallel)?;
        for &position in &self.missing_switch {
            let at = position.within(&whole)?;
            whole.missing_switches.push(at);
        }
        for &cable in &self.missing_link {
            let link = cable.lower_end(&whole)?;
            whole.missing_links.push(link);
        }
        Ok(Some(whole))
    }
}

/// Understands the words after `sim`.
pub(super) fn parse(argv: &[String]) -> Result<Command, UsageError> {
    match argv.split_first() {
        Some((word, rest)) if word == "exec" => return sim_exec::parse_exec(rest),
        Some((word, rest)) if word == "ctl" => return sim_ctl::parse(rest),
        Some((word, rest)) if word == "shell" => return sim_exec::parse_shell(rest),
        _ => {}
    }
    let (mut own, others) = split("torus-sm sim", argv, arguments);
    match args::parse_with_operands(&others)? {
        (Command::Daemon(daemon), operands) => {
            own.extend(operands);
            let sim = SimArgs::try_parse_from(own).map_err(complaint)?;
            Ok(Command::Sim(SimArgs { daemon, ..sim }))
        }
        (Command::ShowHelp(_), _) => Ok(Command::ShowHelp(help())),
        (command, _) => Ok(command),
    }
}

/// Splits a subcommand's words into those for its own parser, which begin with its name, and the
/// daemon's. `arguments` tells how many words follow an option that is the subcommand's own.
pub(super) fn split(
    name: &str,
    argv: &[String],
    arguments: impl Fn(&str) -> Option<usize>,
) -> (Vec<String>, Vec<String>) {
    let (mut own, mut others) = (vec![name.to_owned()], Vec::new());
    let mut words = argv.iter();
    while let Some(word) = words.next() {
        let name = word.split_once('=').map_or(word.as_str(), |(name, _)| name);
        let Some(arguments) = arguments(name) else {
            others.push(word.clone());
            continue;
        };
        own.push(word.clone());
        let attached = usize::from(name != word);
        own.extend(words.by_ref().take(arguments.saturating_sub(attached)).cloned());
    }
    (own, others)
}

/// What `sim --help` prints.
pub fn help() -> String {
    <SimArgs as clap::CommandFactory>::command().render_long_help().to_string()
}

/// clap's message without its own "error: " before it.
pub(super) fn complaint(error: clap::Error) -> UsageError {
    let text = error.to_string();
    UsageError::Subcommand(text.strip_prefix("error: ").unwrap_or(&text).trim_end().to_owned())
}

/// The shape of a torus or mesh.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    /// Switches along x, y, z; 1 for unused dimensions. All of them at most 65,536.
    pub radix: [u32; 3],
    /// True for dimensions whose ends are not connected.
    pub open: [bool; 3],
}

impl FromStr for Shape {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("'{text}' is not one to three radices such as 6x5x1 or 4x4mx4");
        let mut shape = Self { radix: [1; 3], open: [false; 3] };
        let parts: Vec<&str> = text.split(['x', 'X']).collect();
        if parts.len() > 3 {
            return Err(wrong());
        }
        for ((part, radix), open) in parts.iter().zip(&mut shape.radix).zip(&mut shape.open) {
            let digits = part.trim_end_matches(['t', 'T', 'm', 'M']);
            *open = part.ends_with(['m', 'M']);
            *radix = digits.parse().ok().filter(|r| *r > 0).ok_or_else(wrong)?;
        }
        let switches = shape.radix.iter().try_fold(1_u32, |all, r| all.checked_mul(*r));
        match switches {
            Some(1..=65_536) => Ok(shape),
            _ => Err(format!("'{text}' has more than 65536 switches")),
        }
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [x, y, z] = std::array::from_fn(|i| {
            format!("{}{}", self.radix[i], if self.open[i] { "m" } else { "" })
        });
        write!(f, "{x}x{y}x{z}")
    }
}

/// A place in the torus: x, y, z.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Position(pub [u32; 3]);

impl Position {
    /// As the generator takes it, if it is within the shape.
    fn within(self, shape: &generate::Shape) -> Result<[u16; 3], String> {
        let at = self.0.map(|coordinate| u16::try_from(coordinate).unwrap_or(u16::MAX));
        let inside = shape.contains(at).then_some(at);
        inside.ok_or_else(|| format!("there is no switch at {self}"))
    }
}

impl FromStr for Position {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("'{text}' is not a position such as 1,0,2");
        let mut position = [0; 3];
        let parts: Vec<&str> = text.split(',').collect();
        if parts.len() > 3 {
            return Err(wrong());
        }
        for (part, coordinate) in parts.iter().zip(&mut position) {
            *coordinate = part.trim().parse().map_err(|_| wrong())?;
        }
        Ok(Self(position))
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [x, y, z] = self.0;
        write!(f, "{x},{y},{z}")
    }
}

/// The cables from one place in one direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cable {
    /// The place.
    pub from: Position,
    /// 0, 1, 2 for x, y, z.
    pub axis: u8,
    /// True towards higher coordinates.
    pub up: bool,
}

impl Cable {
    /// The cables as the generator names them: by their lower end.
    fn lower_end(self, shape: &generate::Shape) -> Result<([u16; 3], usize), String> {
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

impl FromStr for Cable {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("'{text}' is not a position and a direction such as 0,0,0:+x");
        let (place, direction) = text.split_once(':').ok_or_else(wrong)?;
        let (up, axis) = match direction {
            "+x" | "x" => (true, 0),
            "+y" | "y" => (true, 1),
            "+z" | "z" => (true, 2),
            "-x" => (false, 0),
            "-y" => (false, 1),
            "-z" => (false, 2),
            _ => return Err(wrong()),
        };
        Ok(Self { from: place.parse()?, axis, up })
    }
}

impl fmt::Display for Cable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.up { '+' } else { '-' };
        let axis = ['x', 'y', 'z'].get(usize::from(self.axis)).unwrap_or(&'?');
        write!(f, "{}:{sign}{axis}", self.from)
    }
}
