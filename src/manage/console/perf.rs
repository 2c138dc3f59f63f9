//! The command `perfmgr` without arguments.

use super::ConsoleSources;

/// The state of the performance manager, in the lines of OpenSM.
pub(super) fn text(sources: &ConsoleSources) -> String {
    let status = sources.perf.load();
    let settings = &status.settings;
    let word = |value: bool| if value { "TRUE" } else { "FALSE" };
    format!(
        "Performance Manager status:\nstate                        : {}\n\
         sweep state                  : {}\nsweep time                   : {} (seconds)\n\
         outstanding queries/max      : 0/{}\nremove missing nodes from DB : {}\n\
         query ClassPortInfo          : {}\n",
        if settings.is_enabled { "Enabled" } else { "Disabled" },
        if status.is_sweeping { "Active" } else { "Sleeping" },
        settings.sweep_time_s,
        status.max_outstanding,
        word(settings.removes_nodes),
        word(settings.queries_class_port_info),
    )
}
