//! Table of console commands, for `help`, suggestions and the manual page.

use std::fmt::Write as _;

/// Syntax and effect of a command.
pub struct HelpEntry {
    /// Name of the command, case-insensitive.
    pub name: &'static str,
    pub arguments: &'static str,
    pub text: &'static str,
}

const fn entry(name: &'static str, arguments: &'static str, text: &'static str) -> HelpEntry {
    HelpEntry { name, arguments, text }
}

/// All commands, one entry for each form.
pub const COMMANDS: [HelpEntry; 78] = [
    entry("help", "[COMMAND]", "list all commands, or those that begin with COMMAND"),
    entry("show", "nodes|links|faults", "list nodes, cables with their state, or faults in force"),
    entry(
        "show",
        "paths",
        "count the pairs of hosts that reach each other, and time the last reroute",
    ),
    entry("show", "sma", "list agents with a service time: longest queues and dropped SMPs"),
    entry("show", "node NODE", "show a node and its ports"),
    entry("show", "port PORT", "show a port and its counters"),
    entry("link", "PORT down", "unplug the cable at a port"),
    entry("link", "PORT up", "plug the cable in again"),
    entry("link", "PORT PORT", "connect two free ports with a new cable"),
    entry("unlink", "NODE|PORT", "unplug the cable at a port, or all cables of a node"),
    entry("relink", "NODE|PORT", "plug unplugged cables in again"),
    entry("clear", "NODE|PORT", "unplug the cable and reset the port to factory defaults"),
    entry("swap", "PORT PORT", "exchange the far ends of two cables"),
    entry(
        "flap",
        "PORT PERIOD TIMES",
        "unplug or plug in a cable TIMES times, now and every PERIOD",
    ),
    entry("move", "PORT PORT", "move the end of a cable from one port to a free one"),
    entry("split", "NODE ...", "unplug all cables between these switches and the others"),
    entry("heal", "", "plug in the cables that split has unplugged"),
    entry("training", "NODE|PORT DURATION", "set the time that links need from Polling to INIT"),
    entry("degrade", "PORT WIDTH SPEED", "train a link again, at most 1x, 2x, 4x … SDR to XDR"),
    entry("degrade", "PORT off", "train a link again, without limits"),
    entry("silent", "NODE", "stop responses and traps of a node; packets are still forwarded"),
    entry("slow", "NODE DURATION", "delay the responses of a node"),
    entry("sma", "NODES DURATION [QUEUE]", "serve SMPs one at a time, and drop those beyond QUEUE"),
    entry("sma", "NODES off", "answer SMPs at once"),
    entry("round-trip", "DURATION", "let SMPs and their responses need this time on their way"),
    entry("garbage", "NODE", "fill the responses of a node with random data"),
    entry("wrong-tid", "NODE", "put wrong transaction IDs into the responses of a node"),
    entry("numports", "NODE COUNT", "change the number of ports that a node reports"),
    entry("refuse", "NODE ATTRIBUTE [STATUS]", "refuse Sets of this attribute (default: 0x1c)"),
    entry("ignore-sets", "NODE [ATTRIBUTE]", "acknowledge Sets of a node without effect"),
    entry("redirect", "NODE PORT QP", "let a node's counters be read at another port's queue pair"),
    entry("back", "NODE", "end all faults of a node"),
    entry("reboot", "NODE", "restart a node: tables, LIDs, settings and counters are lost"),
    entry("reboot", "NODE keep-lids", "restart a node that keeps its LIDs and those of its SM"),
    entry("storm", "PORT TRAP PERIOD TIMES", "send a trap TIMES times, repressed or not"),
    entry("loss", "PROBABILITY [KIND]", "lose MADs on their way"),
    entry("loss", "PORT PROBABILITY [KIND]", "lose MADs that are sent through this port"),
    entry("drop", "[PORT] PROBABILITY [KIND]", "same as loss"),
    entry("delay", "[PORT] DURATION [KIND]", "delay MADs, one way"),
    entry("jitter", "[PORT] DURATION [KIND]", "delay MADs at random up to this time"),
    entry("duplicate", "[PORT] PROBABILITY [KIND]", "deliver MADs twice"),
    entry("error", "NODE|PORT PERCENT", "corrupt and drop MADs that a port receives"),
    entry("error", "NODE|PORT PERCENT ATTRIBUTE", "ignore requests for this attribute (a number)"),
    entry("corrupt", "PROBABILITY [requests|responses]", "flip bits in MADs, undetected by CRCs"),
    entry("calm", "", "end all faults; unplugged cables and settings of devices stay"),
    entry("repair", "", "end all faults and plug in all cables; settings of devices stay"),
    entry("random", "SEED COUNT", "print a script of random faults; the seed determines them"),
    entry("counters", "[show] PORT", "show the counters of a port"),
    entry("counters", "clear [NODE|PORT]", "clear the counters of a port, a node or the fabric"),
    entry("counters", "set PORT NAME=VALUE", "set a counter"),
    entry("inject", "PORT NAME [TIMES]", "increment a counter, such as SymbolErrorCounter"),
    entry("performanceset", "PORT ATTRIBUTE.NAME=VALUE", "set a counter of one attribute"),
    entry("congestion", "[NODE|PORT]", "show congestion control settings, of all nodes or of one"),
    entry("congestion", "NODE|PORT key KEY", "set the CC_Key that devices require (0: none)"),
    entry("congestion", "NODE off|silent", "remove or silence the congestion control agent"),
    entry("congestion", "NODE refuse [STATUS]", "refuse Sets of congestion control"),
    entry("vendor", "[NODE]", "show vendor-specific capabilities, and rate limits of ports"),
    entry("vendor", "NODE sets", "list the Sets of vendor-specific attributes of a node"),
    entry("vendor", "NODE mlnx:CAPS|off", "give a node vendor-specific attributes, or remove them"),
    entry("vendor", "NODE silent ATTRIBUTE", "ignore all requests for an attribute"),
    entry("vendor", "NODE refuse ATTRIBUTE [STATUS]", "refuse requests for it (default: 0x0c)"),
    entry("vendor", "NODE answer ATTRIBUTE", "answer requests for it again"),
    entry("vport", "[PORT]", "show vports, of all adapter ports or of one"),
    entry(
        "vport",
        "PORT count NUMBER",
        "give an adapter port vports, index 0 being the port itself",
    ),
    entry("vport", "PORT INDEX up|down", "start or stop a vport; the port sends trap 1146"),
    entry("vport", "PORT INDEX guid GUID", "change the GUID of a vport"),
    entry(
        "vport",
        "PORT INDEX own-lid|shared-lid",
        "require a LID of its own, or share the port's",
    ),
    entry(
        "traffic",
        "uniform|all-to-all [json]",
        "send packets by a pattern, count them on cables",
    ),
    entry("traffic", "shift NUMBER [json]", "let each host send to the NUMBERth after it"),
    entry("traffic", "hot-spot NUMBER [json]", "let all hosts send to the one with this number"),
    entry("describe", "NODE TEXT", "change a node description; the node sends trap 144"),
    entry("guid", "NODE|PORT GUID", "change the GUID that a node or adapter port reports"),
    entry("baselid", "PORT LID [LMC]", "change the LID of a port, unknown to the subnet manager"),
    entry("route", "LID LID", "show the path between two LIDs by the forwarding tables"),
    entry("dump", "[NODE]", "show all nodes with their ports, or one"),
    entry("attached", "", "list ports with programs attached"),
    entry("start", "", "do nothing (accepted for compatibility with ibsim)"),
    entry("wait", "DURATION", "pause a script"),
];

/// Notation of the arguments.
const NOTATION: &str = "\
NODE         a GUID (0x..., S-..., H-...), a position (1,0,2), or a node description or
             its beginning; in quotes if it contains blanks
NODES        NODE, or all, switches or hosts
QUEUE        1 to 65535 SMPs, the one in service included; without, no limit
PORT         NODE[3] or NODE/3; the number may be omitted if NODE has one port
PROBABILITY  0 to 1, or 25%
PERCENT      0 to 100
KIND         requests, responses or traps; without, all MADs
ATTRIBUTE    a number such as 0x15 (PortInfo); STATUS: a MAD status such as 0x1c
             (the default)
KEY          a number, such as 0x77
CAPS         capabilities by name or number (0 to 127), separated by commas, such as
             rate-limit,25; may be empty
TRAP         128, 129, 130, 131, 144 or 145
DURATION     50us, 250ms, 1.5s, 2m; without unit in seconds
";

/// Output of `help`: all commands, or those that begin with `name`.
pub fn help(name: Option<&str>) -> String {
    let name = name.unwrap_or("").to_ascii_lowercase();
    let mut text = String::new();
    for entry in COMMANDS.iter().filter(|entry| entry.name.starts_with(&name)) {
        let usage = format!("{} {}", entry.name, entry.arguments);
        let _ = writeln!(text, "{:41}{}", usage.trim_end(), entry.text);
    }
    if name.is_empty() {
        let _ = write!(text, "\n{NOTATION}");
    }
    text
}
