//! The options of Fat Tree, and the checks of its files.

use super::state::MAX_SWITCHES;
use super::validate::refusal;
use crate::config::guid_lists::GuidLists;
use crate::config::options::Options;
use crate::fabric::{Fabric, SwitchId};
use crate::ids::Guid;
use crate::notes::{Note, counted};
use crate::wire::attr::NodeKind;

/// The options of the engine.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FtreeOptions<'a> {
    pub lmc: u8,
    /// Node GUIDs of `root_guid_file`.
    pub roots: Option<&'a [Guid]>,
    /// `root_guid_file` is set, even if it cannot be read.
    pub has_root_file: bool,
    /// Port GUIDs of `cn_guid_file`.
    pub compute_nodes: Option<&'a [Guid]>,
    pub has_compute_file: bool,
    /// Port GUIDs of `io_guid_file`.
    pub io_nodes: Option<&'a [Guid]>,
    pub has_io_file: bool,
    pub max_reverse_hops: u16,
    pub quasi_ftree_indexing: bool,
    pub connect_roots: bool,
    /// Hosts that the rules do not connect are a reason to refuse the fabric.
    pub refuses_gaps: bool,
}

impl<'a> FtreeOptions<'a> {
    pub(super) fn new(options: &Options, lists: &'a GuidLists) -> Self {
        Self {
            lmc: options.lmc,
            roots: lists.roots.as_deref(),
            has_root_file: options.root_guid_file.is_some(),
            compute_nodes: lists.compute_nodes.as_deref(),
            has_compute_file: options.cn_guid_file.is_some(),
            io_nodes: lists.io_nodes.as_deref(),
            has_io_file: options.io_guid_file.is_some(),
            max_reverse_hops: options.max_reverse_hops,
            quasi_ftree_indexing: options.quasi_ftree_indexing,
            connect_roots: options.connect_roots,
            refuses_gaps: options.refuse_faulty_routes,
        }
    }
}

/// The checks that precede ranking.
pub(super) fn check(fabric: &Fabric, options: &FtreeOptions<'_>) -> Result<(), Note> {
    let switches = fabric.switches().len();
    let nodes = fabric.nodes();
    let adapters = fabric.nodes().len() - switches;
    if options.lmc > 0 {
        let lmc = options.lmc;
        return Err(refusal(format!("LMC {lmc} is not supported by ftree; set lmc to 0")));
    }
    if switches < 2 || adapters < 2 {
        let switches = counted(switches, "switch", "switches");
        let others = counted(adapters, "other node", "other nodes");
        return Err(refusal(format!(
            "the fabric has {switches} and {others}; a fat tree has 2 of each at least"
        )));
    }
    let adapters = nodes.iter().filter(|node| node.kind() == NodeKind::Ca).count();
    if adapters < 2 {
        let found = counted(adapters, "channel adapter", "channel adapters");
        return Err(refusal(format!("the fabric has {found}; a fat tree has 2 at least")));
    }
    if switches > MAX_SWITCHES {
        let most = MAX_SWITCHES;
        return Err(refusal(format!("the fabric has more than {most} switches")));
    }
    let files = [
        ("AB23", "cn_guid_file", options.has_compute_file, options.compute_nodes),
        ("AB28", "io_guid_file", options.has_io_file, options.io_nodes),
    ];
    for (code, key, is_set, list) in files {
        if is_set && list.is_none_or(<[Guid]>::is_empty) {
            return Err(Note::error(code, format!("{key} cannot be read, or has no valid GUID")));
        }
    }
    Ok(())
}

/// The root switches of `root_guid_file` that are in the fabric; `None` if there are none.
pub(super) fn given_roots(
    fabric: &Fabric,
    options: &FtreeOptions<'_>,
    notes: &mut Vec<Note>,
) -> Option<Vec<SwitchId>> {
    let mut roots = Vec::new();
    for &guid in options.roots.unwrap_or(&[]) {
        match fabric.node_by_guid(guid).and_then(|node| fabric.node(node).switch) {
            Some(root) => roots.push(root),
            None => notes.push(Note::error(
                "AB24",
                format!("root switch {guid} of root_guid_file is not in the fabric"),
            )),
        }
    }
    if roots.is_empty() && options.has_root_file {
        let text = "root_guid_file names no switch of the fabric; the switches farthest from all \
                    hosts are taken as roots";
        notes.push(Note::error("AB25", text));
    }
    (!roots.is_empty()).then_some(roots)
}
