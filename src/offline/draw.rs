//! Draws the torus as SVG: its planes of equal z side by side, with a title.
//!
//! x runs to the right and y upwards. Cables across a dateline are stubs at both ends; cables to
//! the previous and the next plane are short slanted stubs. Missing parts are red, and a broken
//! ring has a band behind it. A cable is the thicker the more LIDs are forwarded through it; a
//! band along it is the wider the more detours around damage use it. Hosts are small squares at
//! their switch. `hosts`: hosts and datelines; `legend`.

mod hosts;
mod legend;

use crate::fabric::{Fabric, PortId, SwitchId};
use crate::plan::routing::torus::{AXIS_NAMES, Coordinates, Direction, TorusLayout};
use legend::legend;
use std::fmt::Write as _;

/// Distance between neighbours, in pixels.
const STEP: u32 = 72;
/// Radius of a switch, in pixels.
const RADIUS: u32 = 17;
/// Length of a stub, in pixels.
const STUB: u32 = 36;
/// Space around the switches of a plane, in pixels.
const MARGIN: u32 = 52;
/// Height of a title, in pixels.
const TITLE: u32 = 30;
/// Height of the legend, in pixels.
const LEGEND: u32 = 106;
/// Least width of the drawing, in pixels.
const MIN_WIDTH: u32 = 470;
/// Width of a cable without routes, and what the busiest one has in addition, in pixels.
const CABLE_WIDTH: (f64, f64) = (1.5, 5.5);
/// Width of the band along a cable with one detour, and what the one with the most has in addition, in
/// pixels.
const DETOUR_WIDTH: (f64, f64) = (6.0, 12.0);

const STYLE: &str = "text{font-family:sans-serif;font-size:11px;text-anchor:middle;fill:#1a202c}\
    .title{font-size:15px;font-weight:bold}.legend{text-anchor:start;font-size:12px}\
    .switch{fill:#ebf4ff;stroke:#2b6cb0;stroke-width:1.5}.sm{fill:#bee3f8;stroke-width:3}\
    .lost{fill:#fff5f5;stroke:#e53e3e;stroke-width:1.5;stroke-dasharray:4 3}\
    .cable{stroke:#4a5568;stroke-width:2}.z{stroke:#805ad5;stroke-width:2}\
    .dateline{stroke:#2f855a;stroke-width:1.5;stroke-dasharray:2 4}\
    .note{fill:#2f855a;font-size:10px}\
    .host{fill:#c6f6d5;stroke:#2f855a;stroke-width:1}.host.sm{fill:#2f855a}\
    .gone{stroke:#e53e3e;stroke-width:2;stroke-dasharray:5 4}\
    .band{stroke:#fbd38d;stroke-width:46;stroke-linecap:round;opacity:.55}\
    .detour{stroke:#4fd1c5;stroke-linecap:round;opacity:.6}\
    .halo{fill:none;stroke:#fbd38d;stroke-width:9;opacity:.8}";

/// Appends a line; writing to a `String` cannot fail.
macro_rules! put {
    ($out:expr, $($part:tt)*) => {{
        let _ = writeln!($out, $($part)*);
    }};
}

/// Coordinates in pixels.
type Point = (i64, i64);

/// Input of a drawing.
pub struct Drawn<'a> {
    pub fabric: &'a Fabric,
    pub layout: &'a TorusLayout,
    /// `None` if the torus is not routed.
    pub loads: Option<&'a CableLoads>,
    /// The source of the fabric and its date.
    pub title: &'a str,
}

/// The loads of cables.
pub enum CableLoads {
    /// Number of LIDs that switches forward through each port, by port slot.
    Lids(Vec<usize>),
    /// Flows of a pattern of traffic through each port, by port slot.
    Flows(Vec<f64>),
}

impl CableLoads {
    fn of(&self, slot: PortId) -> Option<f64> {
        match self {
            Self::Lids(lids) => lids.get(slot.index()).map(|&lids| lids as f64),
            Self::Flows(flows) => flows.get(slot.index()).copied(),
        }
    }

    /// What is counted, for tooltips.
    fn quantity(&self) -> &'static str {
        match self {
            Self::Lids(_) => "LIDs forwarded",
            Self::Flows(_) => "flows",
        }
    }

    fn text(&self, load: f64) -> String {
        match self {
            Self::Lids(_) => format!("{load:.0}"),
            Self::Flows(_) => format!("{load:.1}"),
        }
    }

    /// The load of the busiest cable, for the legend.
    fn legend(&self, load: f64) -> String {
        let word = if let Self::Lids(_) = self { "LIDs" } else { "flows" };
        format!("{} {word}", self.text(load))
    }
}

/// The drawing as an SVG document.
pub fn svg(picture: &Drawn<'_>) -> String {
    let &Drawn { fabric, layout, title, .. } = picture;
    let drawing = Drawing::new(picture);
    let (width, height) = drawing.size();
    let mut out = String::new();
    put!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\">"
    );
    put!(out, "<style>{STYLE}</style>");
    put!(out, "<rect width=\"{width}\" height=\"{height}\" fill=\"white\"/>");
    let [rx, ry, rz] = layout.radices();
    put!(
        out,
        "<text class=\"title\" x=\"{}\" y=\"24\">{rx} x {ry} x {rz}: {}</text>",
        width / 2,
        escaped(title)
    );
    drawing.bands(&mut out, layout);
    drawing.datelines(&mut out);
    for at in layout.positions() {
        Direction::ALL.iter().for_each(|&direction| drawing.detours(&mut out, at, direction));
    }
    for at in layout.positions() {
        Direction::ALL.iter().for_each(|&direction| drawing.cable(&mut out, at, direction));
    }
    let home = fabric.switch_behind(fabric.local());
    for at in layout.positions() {
        let is_home = home.is_some() && layout.switch(at) == home;
        drawing.switch(&mut out, fabric, layout, at, is_home);
        drawing.hosts(&mut out, at);
    }
    let name = AXIS_NAMES[drawing.axes[2]];
    for z in 0..drawing.radices[2] {
        let (x, y) = drawing.corner(z);
        let middle = x + i64::from(drawing.plane.0) / 2;
        put!(out, "<text class=\"title\" x=\"{middle}\" y=\"{}\">{name} = {z}</text>", y + 22);
    }
    let busiest = picture.loads.zip(drawing.busiest).map(|(loads, load)| loads.legend(load));
    legend(&mut out, height, busiest, drawing.most_detours);
    out.push_str("</svg>\n");
    out
}

/// Arrangement of the planes.
struct Drawing<'a> {
    picture: &'a Drawn<'a>,
    /// The axes of the torus that run to the right, upwards, and from plane to plane. Two dimensions
    /// make one plane.
    axes: [usize; 3],
    /// The radices of these axes.
    radices: [u32; 3],
    /// Width and height of a plane, in pixels.
    plane: (u32, u32),
    /// Number of planes in a row.
    columns: u32,
    /// The highest load of a cable between switches.
    busiest: Option<f64>,
    /// The highest number of detours over the cables between two switches, there and back.
    most_detours: u32,
}

impl<'a> Drawing<'a> {
    fn new(picture: &'a Drawn<'a>) -> Self {
        let axes = match picture.layout.radices().map(|radix| radix > 1) {
            [false, true, true] => [1, 2, 0],
            [true, false, true] => [0, 2, 1],
            _ => [0, 1, 2],
        };
        let radices = axes.map(|axis| picture.layout.radices()[axis]);
        let plane = (side_length(radices[0]), side_length(radices[1]) + TITLE);
        let square = (1..radices[2]).find(|n| n * n >= radices[2]).unwrap_or(1);
        let mut drawing = Self {
            picture,
            axes,
            radices,
            plane,
            columns: square.max(1),
            busiest: None,
            most_detours: 0,
        };
        drawing.busiest = drawing.highest_load();
        drawing.most_detours = drawing.most_detours();
        drawing
    }

    fn size(&self) -> (u32, u32) {
        let rows = self.radices[2].div_ceil(self.columns);
        let width = (self.columns * self.plane.0).max(MIN_WIDTH);
        (width, TITLE + rows * self.plane.1 + LEGEND)
    }

    /// The upper left corner of a plane.
    fn corner(&self, z: u32) -> Point {
        let column = z % self.columns;
        let row = z / self.columns;
        (i64::from(column * self.plane.0), i64::from(TITLE + row * self.plane.1))
    }

    /// The centre of a switch.
    fn point(&self, at: Coordinates) -> Point {
        self.place(self.axes.map(|axis| at.0[axis]))
    }

    /// The index in [`Self::axes`] of an axis of the torus.
    fn drawn_axis(&self, axis: usize) -> usize {
        self.axes.iter().position(|&drawn| drawn == axis).unwrap_or(axis)
    }

    /// The point with these coordinates along [`Self::axes`].
    fn place(&self, [x, y, z]: [u32; 3]) -> Point {
        let (left, top) = self.corner(z);
        let up = self.radices[1].saturating_sub(1 + y);
        (left + i64::from(MARGIN + x * STEP), top + i64::from(TITLE + MARGIN + up * STEP))
    }

    /// Draws a band behind each broken ring of a plane; broken rings along z get a halo
    /// around their switches.
    fn bands(&self, out: &mut String, layout: &TorusLayout) {
        for ring in layout.rings().iter().filter(|ring| !ring.gaps.is_empty()) {
            let mut last = ring.first;
            last.0[ring.axis] = layout.radices()[ring.axis] - 1;
            if self.drawn_axis(ring.axis) < 2 {
                line(out, "band", self.point(ring.first), self.point(last));
                continue;
            }
            for z in 0..self.radices[2] {
                let mut at = ring.first;
                at.0[ring.axis] = z;
                let (x, y) = self.point(at);
                put!(out, "<circle class=\"halo\" cx=\"{x}\" cy=\"{y}\" r=\"{}\"/>", RADIUS + 5);
            }
        }
    }

    /// Draws the cables of a switch in a direction; cables between neighbours in the plane are
    /// drawn once.
    fn cable(&self, out: &mut String, at: Coordinates, direction: Direction) {
        let layout = self.picture.layout;
        let Some(next) = layout.neighbour(at, direction) else { return };
        let cables = layout.cables(at, direction);
        let missing = layout.lacks_cable(at, direction);
        if cables == 0 && !missing {
            return;
        }
        let axis = direction.axis();
        let is_z = self.drawn_axis(axis) == 2;
        let class = match (missing, is_z) {
            (true, _) => "gone",
            (false, true) => "z",
            (false, false) => "cable",
        };
        let steps_on = direction.is_plus() == (next.0[axis] > at.0[axis]);
        let from = self.point(at);
        let Some(to) = self.end(at, next, direction) else { return };
        match self.load(at, next, direction).filter(|_| !missing) {
            Some(loads) => self.loaded_line(out, class, [from, to], loads),
            None => line(out, class, from, to),
        }
        let middle = ((from.0 + to.0) / 2, (from.1 + to.1) / 2);
        if missing && !is_z {
            cross(out, if steps_on { middle } else { to });
        } else if cables > 1 && !is_z {
            put!(out, "<text x=\"{}\" y=\"{}\">{cables}</text>", middle.0 + 6, middle.1 - 4);
        }
    }

    /// The end of the line for the cables to a neighbour: the neighbour in the plane, or the end of a stub.
    /// `None` if the line is drawn from the other end.
    fn end(&self, at: Coordinates, next: Coordinates, direction: Direction) -> Option<Point> {
        let axis = direction.axis();
        let drawn = self.drawn_axis(axis);
        let steps_on = direction.is_plus() == (next.0[axis] > at.0[axis]);
        if drawn == 2 || !steps_on {
            return Some(stub(self.point(at), drawn, direction.is_plus()));
        }
        direction.is_plus().then(|| self.point(next))
    }

    /// Draws a band along the cables of a switch in a direction if detours use them.
    fn detours(&self, out: &mut String, at: Coordinates, direction: Direction) {
        let layout = self.picture.layout;
        let Some(next) = layout.neighbour(at, direction) else { return };
        let Some(to) = self.end(at, next, direction) else { return };
        let [there, back] =
            [layout.detours(at, direction), layout.detours(next, direction.opposite())];
        if there + back == 0 {
            return;
        }
        let from = self.point(at);
        let share = f64::from(there + back) / f64::from(self.most_detours.max(1));
        put!(
            out,
            "<line class=\"detour\" style=\"stroke-width:{:.1}\" x1=\"{}\" y1=\"{}\" x2=\"{}\" \
             y2=\"{}\"><title>detours: {there} there, {back} back</title></line>",
            DETOUR_WIDTH.0 + DETOUR_WIDTH.1 * share,
            from.0,
            from.1,
            to.0,
            to.1
        );
    }

    fn most_detours(&self) -> u32 {
        let layout = self.picture.layout;
        let ends = layout.positions().flat_map(|at| Direction::ALL.map(|way| (at, way)));
        ends.filter_map(|(at, direction)| {
            let next = layout.neighbour(at, direction)?;
            Some(layout.detours(at, direction) + layout.detours(next, direction.opposite()))
        })
        .max()
        .unwrap_or(0)
    }

    fn highest_load(&self) -> Option<f64> {
        let layout = self.picture.layout;
        let all = layout
            .positions()
            .flat_map(|at| Direction::ALL.iter().map(move |&direction| (at, direction)));
        all.filter_map(|(at, direction)| self.egress(at, direction)).reduce(f64::max)
    }

    /// The highest load of one port in a direction.
    fn egress(&self, at: Coordinates, direction: Direction) -> Option<f64> {
        let Drawn { fabric, layout, loads, .. } = self.picture;
        let loads = *loads.as_ref()?;
        let switch: SwitchId = layout.switch(at)?;
        let ports = layout.ports(at, direction).iter();
        let slots = ports.filter_map(|&num| fabric.switch_port(switch, num.into()));
        slots.filter_map(|slot| loads.of(slot)).reduce(f64::max)
    }

    /// The loads of the cables between a switch and its neighbour, there and back.
    fn load(&self, at: Coordinates, next: Coordinates, there: Direction) -> Option<[f64; 2]> {
        Some([self.egress(at, there)?, self.egress(next, there.opposite())?])
    }

    /// A cable as thick as its load is high, with the loads as a tooltip.
    fn loaded_line(
        &self,
        out: &mut String,
        class: &str,
        [from, to]: [Point; 2],
        [there, back]: [f64; 2],
    ) {
        let (Some(loads), Some(busiest)) = (self.picture.loads, self.busiest) else { return };
        // An idle torus has no busiest cable.
        let most = if busiest > 0.0 { busiest } else { 1.0 };
        let width = CABLE_WIDTH.0 + CABLE_WIDTH.1 * there.max(back) / most;
        let quantity = loads.quantity();
        let [there, back] = [there, back].map(|load| loads.text(load));
        put!(
            out,
            "<line class=\"{class}\" style=\"stroke-width:{width:.1}\" x1=\"{}\" y1=\"{}\" \
             x2=\"{}\" y2=\"{}\"><title>{quantity}: {there} there, {back} back</title></line>",
            from.0,
            from.1,
            to.0,
            to.1
        );
    }

    fn switch(
        &self,
        out: &mut String,
        fabric: &Fabric,
        layout: &TorusLayout,
        at: Coordinates,
        is_home: bool,
    ) {
        let (x, y) = self.point(at);
        let (class, title) = match layout.switch(at) {
            Some(switch) => {
                let node = fabric.switch(switch);
                let class = if is_home { "switch sm" } else { "switch" };
                (class, format!("{} {}", node.guid(), escaped(&node.name().to_string())))
            }
            None => ("lost", "no switch".to_owned()),
        };
        put!(
            out,
            "<circle class=\"{class}\" cx=\"{x}\" cy=\"{y}\" r=\"{RADIUS}\"><title>{title}</title>\
             </circle><text x=\"{x}\" y=\"{}\">{at}</text>",
            y + 4
        );
    }
}

fn side_length(radix: u32) -> u32 {
    (radix - 1) * STEP + 2 * MARGIN
}

/// The end of a stub: along the drawn axis in the plane, slanted between planes.
fn stub((x, y): Point, drawn_axis: usize, is_plus: bool) -> Point {
    let sign = if is_plus { 1 } else { -1 };
    let length = i64::from(STUB);
    match drawn_axis {
        0 => (x + sign * length, y),
        1 => (x, y - sign * length),
        _ => (x + sign * length * 7 / 10, y - sign * length * 7 / 10),
    }
}

fn line(out: &mut String, class: &str, from: Point, to: Point) {
    put!(
        out,
        "<line class=\"{class}\" x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\"/>",
        from.0,
        from.1,
        to.0,
        to.1
    );
}

fn cross(out: &mut String, (x, y): Point) {
    put!(
        out,
        "<path d=\"M{} {}l10 10m0 -10l-10 10\" stroke=\"#e53e3e\" stroke-width=\"2.5\"/>",
        x - 5,
        y - 5
    );
}

/// Escapes text for XML; characters that XML does not allow become question marks.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c if c.is_control() => out.push('?'),
            c => out.push(c),
        }
    }
    out
}
