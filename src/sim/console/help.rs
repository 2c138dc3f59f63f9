//! The verbs: how they are written and what they do. The parser finds them here, and so does
//! the manual page's test.

use std::fmt::Write as _;

/// A verb with what follows it.
pub struct Entry {
    /// Its name; case does not matter.
    pub name: &'static str,
    /// What follows the name.
    pub arguments: &'static str,
    /// What it does.
    pub text: &'static str,
}

const fn entry(name: &'static str, arguments: &'static str, text: &'static str) -> Entry {
    Entry { name, arguments, text }
}

/// All verbs, a line for each form.
pub const VERBS: [Entry; 39] = [
    entry("help", "[VERB]", "tell what there is"),
    entry("show", "nodes|links|faults", "list nodes, cables with their state, faults in force"),
    entry("show", "node NODE", "a node and its ports"),
    entry("show", "port PORT", "a port and its counters"),
    entry("link", "PORT down", "pull the cable at a port"),
    entry("link", "PORT up", "plug it in again"),
    entry("link", "PORT PORT", "lay a cable between two free ports"),
    entry("unlink", "NODE|PORT", "pull the cable, of a node all"),
    entry("relink", "NODE|PORT", "plug in again what was pulled"),
    entry("clear", "NODE|PORT", "pull the cable and give the port its factory settings"),
    entry("swap", "PORT PORT", "exchange the far ends of two cables"),
    entry("flap", "PORT PERIOD TIMES", "turn a link over so often, at once and every PERIOD"),
    entry("silent", "NODE", "the node answers nothing and sends no trap; it still forwards"),
    entry("garbage", "NODE", "the node answers with noise"),
    entry("wrong-tid", "NODE", "the node answers with transaction IDs that nobody used"),
    entry("back", "NODE", "the node behaves again"),
    entry("reboot", "NODE", "the node loses tables, LIDs, settings, counters; links train anew"),
    entry("loss", "CHANCE", "MADs are lost on their way; requests and answers each"),
    entry("loss", "PORT CHANCE", "MADs are lost when they leave through this port"),
    entry("drop", "[PORT] CHANCE", "the same as loss"),
    entry("error", "NODE|PORT PERCENT", "what comes in through the port is damaged, so often"),
    entry("error", "NODE|PORT PERCENT ATTRIBUTE", "requests for this attribute are not heard"),
    entry("corrupt", "CHANCE [requests|answers]", "bits of MADs turn over, and nobody notices"),
    entry("duplicate", "CHANCE", "MADs arrive twice"),
    entry("delay", "DURATION", "travel time of a MAD, one way"),
    entry("repair", "", "end all faults and plug all cables in; what devices hold stays"),
    entry("counters", "[show] PORT", "the counters of a port"),
    entry("counters", "clear [NODE|PORT]", "set the counters of a port, a node or all to 0"),
    entry("counters", "set PORT NAME=VALUE", "set a counter"),
    entry("inject", "PORT NAME [TIMES]", "errors: add to a counter, such as SymbolErrorCounter"),
    entry("performanceset", "PORT ATTRIBUTE.NAME=VALUE", "set a counter of one attribute"),
    entry("describe", "NODE TEXT", "change the node's description; it sends trap 144"),
    entry("guid", "NODE|PORT GUID", "the node, or a port of an adapter, claims another GUID"),
    entry("baselid", "PORT LID [LMC]", "the port has another LID that nobody gave it"),
    entry("route", "LID LID", "the way from a LID to a LID by the forwarding tables"),
    entry("dump", "[NODE]", "all nodes with their ports, or one"),
    entry("attached", "", "programs at the ports"),
    entry("start", "", "does nothing: the fabric runs"),
    entry("wait", "DURATION", "in scripts: let time pass"),
];

/// How arguments are written.
const NOTATION: &str = "\
NODE      a GUID (0x..., S-..., H-...), a position (1,0,2), a description or the
          beginning of one; in quotes if there are blanks in it
PORT      NODE[3] or NODE/3; a NODE with one port needs no number
CHANCE    0 to 1, or 25%        PERCENT  0 to 100
DURATION  250ms, 1.5s, 2m; a number alone is seconds
";

/// What `help` prints: all verbs, or those that begin with `name`.
pub fn help(name: Option<&str>) -> String {
    let name = name.unwrap_or_default().to_ascii_lowercase();
    let mut text = String::new();
    for entry in VERBS.iter().filter(|entry| entry.name.starts_with(&name)) {
        let usage = format!("{} {}", entry.name, entry.arguments);
        let _ = writeln!(text, "{:38}{}", usage.trim_end(), entry.text);
    }
    if name.is_empty() {
        let _ = write!(text, "\n{NOTATION}");
    }
    text
}
