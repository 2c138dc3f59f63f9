//! Configuration files → typed values, with diagnostics that name file, line and column.
//!
//! * [`options`] reads opensm.conf;
//! * [`torus`] reads torus-2QoS.conf;
//! * [`partitions`] reads partitions.conf;
//! * [`qos_policy`] reads qos-policy.conf;
//! * [`prefix_routes`] reads prefix-routes.conf;
//! * [`node_name_map`] reads the node name map; [`log_modules`] the log flags of modules;
//! * [`guid_lists`]: files of GUIDs that tune routing; [`route_dumps`]: dumps of routes to load;
//! * [`routing_chain`]: the policy files of routing chains;
//! * [`guid2lid`], [`guid2mkey`], [`neighbors`]: the LIDs and M_Keys assigned in earlier runs, and
//!   the cables; `cache_record`: the format of these files;
//! * [`files`]: opens and parses the files that the options name; [`config_files`]: all of them, as
//!   read at one time;
//! * [`topo_config`]: the cables that there should be;
//! * [`text_file`]: reads UTF-8 files;
//! * [`diagnostic`] and [`excerpt`]: findings, and their display with the line of the file;
//! * `span` and [`literal`]: parts of a line with their position, and the values in them;
//! * [`suggest`]: corrections for misspelt names.
//!
//! The parsers are pure functions of the text; only [`files`], [`config_files`] and [`text_file`] open files.

mod cache_record;
pub mod config_files;
pub mod diagnostic;
pub mod enhanced_qos;
pub mod excerpt;
pub mod files;
pub mod guid2lid;
pub mod guid2mkey;
pub mod guid_lists;
pub mod literal;
pub mod log_modules;
pub mod neighbors;
pub mod node_name_map;
pub mod options;
pub mod partitions;
pub mod prefix_routes;
pub mod qos_policy;
pub mod route_dumps;
pub mod routing_chain;
mod span;
pub mod suggest;
pub mod table_dumps;
pub mod text_file;
pub mod topo_config;
pub mod torus;

pub use diagnostic::Diagnostic;
