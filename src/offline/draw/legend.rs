//! The legend of a drawing.

use super::{LEGEND, line};
use crate::notes::counted;
use std::fmt::Write as _;

/// Appends a line; writing to a `String` cannot fail.
macro_rules! put {
    ($out:expr, $($part:tt)*) => {{
        let _ = writeln!($out, $($part)*);
    }};
}

/// Draws the legend at the bottom. `busiest`: the load of the thickest cable, if the torus is routed;
/// `most_detours`: the detours of the widest band.
pub(super) fn legend(out: &mut String, height: u32, busiest: Option<String>, most_detours: u32) {
    let y = i64::from(height - LEGEND) + 22;
    entry(out, [24, y], "cable", "cable");
    entry(out, [24, y + 22], "z", "cable along z");
    entry(out, [160, y], "gone", "missing cable");
    entry(out, [160, y + 22], "lost", "missing switch");
    put!(
        out,
        "<line x1=\"300\" y1=\"{y}\" x2=\"332\" y2=\"{y}\" stroke=\"#fbd38d\" \
         stroke-width=\"14\" stroke-linecap=\"round\"/><text class=\"legend\" x=\"345\" \
         y=\"{}\">broken ring</text>",
        y + 4
    );
    put!(
        out,
        "<circle class=\"switch sm\" cx=\"316\" cy=\"{}\" r=\"8\"/><text class=\"legend\" \
         x=\"345\" y=\"{}\">SM</text>",
        y + 22,
        y + 26
    );
    entry_of_hosts(out, y + 44);
    line(out, "dateline", (160, y + 44), (192, y + 44));
    text(out, [200, y + 44], "dateline");
    if let Some(load) = busiest {
        put!(
            out,
            "<line class=\"cable\" style=\"stroke-width:7\" x1=\"300\" y1=\"{0}\" x2=\"332\" \
             y2=\"{0}\"/>",
            y + 44
        );
        text(out, [345, y + 44], &load);
    }
    if most_detours > 0 {
        put!(
            out,
            "<line class=\"detour\" style=\"stroke-width:14\" x1=\"300\" y1=\"{0}\" x2=\"332\" \
             y2=\"{0}\"/>",
            y + 66
        );
        text(out, [345, y + 66], &counted(most_detours as usize, "detour", "detours"));
    }
}

fn entry(out: &mut String, at: [i64; 2], class: &str, text: &str) {
    let [x, y] = at;
    if class == "lost" {
        put!(out, "<circle class=\"lost\" cx=\"{}\" cy=\"{y}\" r=\"9\"/>", x + 16);
    } else {
        line(out, class, (x, y), (x + 32, y));
    }
    put!(out, "<text class=\"legend\" x=\"{}\" y=\"{}\">{text}</text>", x + 40, y + 4);
}

fn text(out: &mut String, [x, y]: [i64; 2], text: &str) {
    put!(out, "<text class=\"legend\" x=\"{x}\" y=\"{}\">{text}</text>", y + 4);
}

fn entry_of_hosts(out: &mut String, y: i64) {
    put!(out, "<rect class=\"host\" x=\"36\" y=\"{}\" width=\"7\" height=\"7\"/>", y - 4);
    text(out, [64, y], "host");
}
