//! Log flags of single modules (`per_module_logging_file`): lines of a module and its flags, such as
//! `osm_trap_rcv.c 0x0f`, separated by blanks, `=` or `,`. `#` starts a comment.
//!
//! A module has the name of OpenSM's source file, or the name that log lines show, such as
//! `daemon::sa_server`. Its flags are enabled in addition to `log_flags`. An invalid line is
//! reported and skipped.

use super::guid_lists::Parsed;
use super::literal;
use std::path::Path;

/// Flags of a module.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ModuleFlags {
    /// Names of modules as in log lines; the flags apply to the modules in them, too.
    pub modules: Vec<String>,
    pub flags: u8,
}

impl ModuleFlags {
    /// True if the flags apply to the module with this name.
    pub fn contains(&self, module: &str) -> bool {
        self.modules.iter().any(|name| {
            module
                .strip_prefix(name.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
        })
    }
}

/// Source files of OpenSM, and the modules that log what the messages of these files tell. Files
/// without messages of their own share those of their callers.
const OPENSM_FILES: &[(&[&str], &[&str])] = &[
    (
        &["main.c", "osm_opensm.c", "osm_log.c"],
        &["daemon::launch", "daemon::start", "daemon::process"],
    ),
    (&["osm_console.c", "osm_console_io.c"], &["manage"]),
    (
        &["osm_db_files.c", "osm_db_pack.c", "osm_dump.c"],
        &["daemon::sm_loop::files", "daemon::sm_loop::file_writer", "publish"],
    ),
    (
        &["osm_state_mgr.c", "osm_sm.c", "osm_drop_mgr.c"],
        &[
            "daemon::sm_loop::run",
            "daemon::sm_loop::stages::sweep",
            "daemon::sm_loop::own_port",
            "daemon::sm_loop::stages::reconfigure",
        ],
    ),
    (
        &[
            "osm_node.c",
            "osm_node_info_rcv.c",
            "osm_node_desc_rcv.c",
            "osm_port.c",
            "osm_port_info_rcv.c",
            "osm_mlnx_ext_port_info_rcv.c",
            "osm_sw_info_rcv.c",
            "osm_switch.c",
            "osm_router.c",
            "osm_guid_info_rcv.c",
            "osm_pkey_rcv.c",
            "osm_slvl_map_rcv.c",
            "osm_vl_arb_rcv.c",
            "osm_lin_fwd_rcv.c",
            "osm_mcast_fwd_rcv.c",
        ],
        &["observe", "daemon::sm_loop::stages::reconfigure::log_once"],
    ),
    (&["osm_lid_mgr.c"], &["plan::lids", "daemon::sm_loop::files"]),
    (&["osm_guid_mgr.c"], &["plan::aliases"]),
    (&["osm_link_mgr.c"], &["plan::links", "apply"]),
    (
        &["osm_mcast_mgr.c", "osm_mcast_tbl.c", "osm_mtree.c", "osm_multicast.c", "osm_mcm_port.c"],
        &["plan::multicast", "daemon::sm_loop::stages::reconfigure::multicast"],
    ),
    (&["osm_perfmgr.c", "osm_perfmgr_db.c"], &["daemon::perfmgr", "perfmgr"]),
    (
        &["osm_pkey.c", "osm_pkey_mgr.c", "osm_prtn.c", "osm_prtn_config.c"],
        &["plan::partitions", "config::partitions", "daemon::sm_loop::partitions"],
    ),
    (
        &["osm_qos.c", "osm_qos_parser_l.c", "osm_qos_parser_y.c", "osm_qos_policy.c"],
        &["plan::qos", "config::qos_policy", "daemon::sm_loop::qos_policy"],
    ),
    (
        &["osm_sm_state_mgr.c", "osm_sminfo_rcv.c", "osm_remote_sm.c"],
        &["daemon::sm_loop::stages::mastership", "sm"],
    ),
    (&["osm_sm_mad_ctrl.c"], &["frames::smp_received", "daemon::sm_loop::smp_server"]),
    (&["osm_vl15intf.c"], &["frames::smp_sent"]),
    (&["osm_sa_mad_ctrl.c"], &["frames::sa_received", "daemon::sa_server"]),
    (&["osm_sa.c"], &["frames::sa_sent", "daemon::sa_server"]),
    (
        &["osm_req.c", "osm_resp.c", "osm_mad_pool.c", "osm_helper.c", "osm_vendor_ibumad.c"],
        &["transport", "mad"],
    ),
    (
        &[
            "osm_inform.c",
            "osm_service.c",
            "osm_sa_class_port_info.c",
            "osm_sa_guidinfo_record.c",
            "osm_sa_informinfo.c",
            "osm_sa_lft_record.c",
            "osm_sa_link_record.c",
            "osm_sa_mcmember_record.c",
            "osm_sa_mft_record.c",
            "osm_sa_multipath_record.c",
            "osm_sa_node_record.c",
            "osm_sa_path_record.c",
            "osm_sa_pkey_record.c",
            "osm_sa_portinfo_record.c",
            "osm_sa_service_record.c",
            "osm_sa_slvl_record.c",
            "osm_sa_sminfo_record.c",
            "osm_sa_sw_info_record.c",
            "osm_sa_vlarb_record.c",
        ],
        &["sa", "daemon::sa_server"],
    ),
    (&["osm_subnet.c", "st.c"], &["config", "cli", "daemon::sm_loop::reload"]),
    (
        &["osm_trap_rcv.c"],
        &["daemon::process::trap_log", "daemon::sm_loop::smp_server", "observe::traps"],
    ),
    (&["osm_torus.c"], &["plan::routing::torus"]),
    (&["osm_mesh.c", "osm_ucast_lash.c"], &["plan::routing::lash"]),
    (&["osm_ucast_cache.c"], &["plan::routing::unicast_cache"]),
    (&["osm_ucast_dnup.c"], &["plan::routing::dnup"]),
    (&["osm_ucast_updn.c"], &["plan::routing::updn"]),
    (&["osm_ucast_file.c"], &["plan::routing::file"]),
    (&["osm_ucast_ftree.c"], &["plan::routing::ftree"]),
    (&["osm_ucast_dfsssp.c"], &["plan::routing::sssp"]),
    (&["osm_ucast_nue.c"], &["plan::routing::nue"]),
    (&["osm_ucast_mgr.c"], &["plan::routing", "daemon::sm_loop::stages::reconfigure"]),
    (&["osm_congestion_control.c"], &["daemon::congestion"]),
    // Plug-ins are not supported.
    (&["osm_event_plugin.c"], &[]),
];

/// Parses the text of `file`.
pub fn parse(file: &Path, text: &str) -> Parsed<ModuleFlags> {
    Parsed::of_lines(file, text, entry)
}

/// Parses a line without its comment; `None` if it has no entry. An error is a byte offset and a message.
fn entry(line: &str) -> Result<Option<ModuleFlags>, (usize, String)> {
    let mut words = line.split([' ', '=', ',', '\t', '\r']).filter(|word| !word.is_empty());
    let Some(name) = words.next() else { return Ok(None) };
    let modules = modules(name).ok_or_else(|| (offset_of(name, line), unknown(name)))?;
    let Some(word) = words.next() else {
        return Err((line.trim_end().len(), "the log flags are missing here".to_owned()));
    };
    let flags = literal::number(word).and_then(|flags| u8::try_from(flags).ok());
    let flags = flags.ok_or_else(|| {
        (
            offset_of(word, line),
            format!("`{word}` is no log flags; expected 0 to 0xff, such as 0x0f"),
        )
    })?;
    match words.next() {
        Some(word) => {
            Err((offset_of(word, line), format!("`{word}` is unexpected after the log flags")))
        }
        None => Ok(Some(ModuleFlags { modules, flags })),
    }
}

fn offset_of(word: &str, line: &str) -> usize {
    word.as_ptr() as usize - line.as_ptr() as usize
}

/// The modules with a name of OpenSM or of log lines; `None` for another name.
fn modules(name: &str) -> Option<Vec<String>> {
    let of_opensm = OPENSM_FILES.iter().find(|(files, _)| files.contains(&name));
    if let Some((_, modules)) = of_opensm {
        return Some(modules.iter().map(|&module| module.to_owned()).collect());
    }
    let mut known = OPENSM_FILES.iter().flat_map(|(_, modules)| modules.iter());
    // A module of the list, one in it, or one that contains it.
    known.any(|module| is_in(name, module) || is_in(module, name)).then(|| vec![name.to_owned()])
}

fn is_in(inner: &str, outer: &str) -> bool {
    inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

fn unknown(name: &str) -> String {
    let files = OPENSM_FILES.iter().flat_map(|(files, _)| files.iter().copied());
    let hint = super::suggest::closest(name, files);
    let hint = hint.map_or_else(String::new, |name| format!("; did you mean {name}?"));
    format!("Module name {name} not found{hint}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_apply_to_modules_and_those_in_them() {
        let text = "# flags\nosm_trap_rcv.c 0x0f\nosm_sa.c=0x20\n\tdaemon::sa_server, 7 # all\n";
        let parsed = parse(Path::new("f"), text);
        assert_eq!(parsed.diagnostics, []);
        assert_eq!(flags(&parsed.entries, "daemon::process::trap_log"), 0x0f);
        assert_eq!(flags(&parsed.entries, "daemon::sa_server::answering"), 0x27);
        assert_eq!(flags(&parsed.entries, "daemon::sa_servers"), 0);
    }

    fn flags(entries: &[ModuleFlags], module: &str) -> u8 {
        let found = entries.iter().filter(|entry| entry.contains(module));
        found.fold(0, |flags, entry| flags | entry.flags)
    }

    #[test]
    fn errors_are_located() {
        let text = "osm_sa.h 1\nosm_sa.c\nosm_sa.c 256\nosm_sa.c 1 2\n osm_sa.c 0y\n";
        let parsed = parse(Path::new("f"), text);
        assert_eq!(parsed.entries, []);
        let found: Vec<String> = parsed.diagnostics.iter().map(ToString::to_string).collect();
        assert_eq!(
            found,
            [
                "f:1:1: Module name osm_sa.h not found; did you mean osm_sa.c?; the line is ignored",
                "f:2:9: the log flags are missing here; the line is ignored",
                "f:3:10: `256` is no log flags; expected 0 to 0xff, such as 0x0f; the line is ignored",
                "f:4:12: `2` is unexpected after the log flags; the line is ignored",
                "f:5:11: `0y` is no log flags; expected 0 to 0xff, such as 0x0f; the line is ignored",
            ]
        );
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read_without_panic(text in "(?s).*") {
            let parsed = parse(Path::new("f"), &text);
            proptest::prop_assert!(parsed.entries.len() <= text.lines().count());
        }
    }
}
