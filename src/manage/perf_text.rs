//! OpenSM's text of the performance manager, which the console and `torus-sm perfmgr` print.

use std::fmt;

/// The title of the list of redirections.
pub(super) const REDIRECTIONS_TITLE: &str = "\nRedirection Table\n-----------------\n";

/// The state of the performance manager.
pub(super) struct PerfStateText {
    pub(super) is_enabled: bool,
    pub(super) is_sweeping: bool,
    /// In seconds, as text.
    pub(super) sweep_time: String,
    /// The line about requests in flight, without its end.
    pub(super) outstanding: String,
    pub(super) removes_nodes: bool,
    pub(super) queries_class_port_info: bool,
}

impl fmt::Display for PerfStateText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Performance Manager status:\n\
             state                        : {}\n\
             sweep state                  : {}\n\
             sweep time                   : {}s\n\
             {}\n\
             remove missing nodes from DB : {}\n\
             query ClassPortInfo          : {}\n",
            if self.is_enabled { "Enabled" } else { "Disabled" },
            if self.is_sweeping { "Active" } else { "Sleeping" },
            self.sweep_time,
            self.outstanding,
            if self.removes_nodes { "TRUE" } else { "FALSE" },
            if self.queries_class_port_info { "TRUE" } else { "FALSE" },
        )
    }
}

/// A port whose counters another port answers for.
pub(super) struct RedirectionText<'a> {
    /// GUID of the redirecting node.
    pub(super) node: &'a str,
    pub(super) port: u64,
    pub(super) from_lid: u64,
    pub(super) to_lid: u64,
    pub(super) pkey: &'a str,
    pub(super) queue_pair: u64,
    pub(super) pkey_index: u64,
}

impl fmt::Display for RedirectionText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { node, port, from_lid, to_lid, pkey, queue_pair, pkey_index } = self;
        write!(f, "   {node} port {port}: LID {from_lid}->{to_lid} PKey {pkey} ")?;
        writeln!(f, "QP 0x{queue_pair:x} PKey Index {pkey_index}")
    }
}
