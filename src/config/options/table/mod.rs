//! The table of opensm.conf: one row for each key.
//!
//! A row is the key (which is also the field's name), a deprecated spelling after `/` if there is
//! one, type, default, when a change takes effect (`restart`, or `reload` for SIGHUP), whether the
//! key is `implemented` or checked and `ignored` for a
//! reason, and limits or number base. The documentation of
//! the row is its help in the template, the manual page and on the struct.
//!
//! Each file of this module has the rows of some sections, one macro for a section. `chain!`
//! appends the rows of all sections and passes them to `options!`, which makes [`Options`] and
//! [`TABLE`].

mod device;
mod operation;
mod qos;
mod routing;

use super::activity_subjects::ActivitySubjects;
use super::congestion_values::{CaEntries, CctList, InjectionRate, SwitchPortMask};
use super::key::{KeyOf, Reload, Support};
use super::permissions::{PortGuids, SaTrust};
use super::value::{
    Console, LogFormat, PartEnforce, Value, ValueFormat, VendorAttributes, hex, range,
};
use crate::ids::{CcKey, Guid, MKey, SmKey};
use device::{device, partitions};
use operation::{
    behaviour, console, election, log, management, perfmgr, plugins, recorder, replication,
    sa_limits, safety, sweeps, timing,
};
use qos::{congestion, qos};
use routing::{adaptive, routers, routing};

macro_rules! reload {
    (restart) => {
        Reload::Restart
    };
    (reload) => {
        Reload::Sighup
    };
}

macro_rules! support {
    (implemented) => {
        Support::Implemented
    };
    (ignored $reason:expr) => {
        Support::Ignored($reason)
    };
}

macro_rules! format_of {
    () => {
        ValueFormat::PLAIN
    };
    ($format:expr) => {
        $format
    };
}

macro_rules! alias_of {
    () => {
        None
    };
    ($alias:ident) => {
        Some(stringify!($alias))
    };
}

macro_rules! options {
    ($(
        section $section:literal;
        $(
            $(#[doc = $help:literal])+
            $field:ident $(/ $alias:ident)?: $type:ty = $default:expr, $reload:ident,
                $support:ident $(($reason:expr))? $(, $format:expr)?;
        )+
    )+) => {
        /// The values of opensm.conf, one field for each key, with OpenSM's defaults.
        #[derive(Clone, PartialEq, Debug)]
        pub struct Options {
            $($($(#[doc = $help])+ pub $field: $type,)+)+
        }

        impl Default for Options {
            fn default() -> Self {
                Self { $($($field: $default,)+)+ }
            }
        }

        /// Every key, in the order of the template.
        pub static TABLE: &[KeyOf<Options>] = &[$($(
            KeyOf {
                name: stringify!($field),
                alias: alias_of!($($alias)?),
                section: $section,
                help: &[$($help),+],
                reload: reload!($reload),
                support: support!($support $($reason)?),
                assign: |options, text| options.$field.assign(text, format_of!($($format)?)),
                repair: |options, text| options.$field.repair(text, format_of!($($format)?)),
                lines: |options| options.$field.lines(format_of!($($format)?)),
                copy: |from, to| to.$field.clone_from(&from.$field),
                expects: || <$type as Value>::expects(format_of!($($format)?)),
            },
        )+)+];
    };
}

macro_rules! chain {
    ([] $($rows:tt)*) => { options! { $($rows)* } };
    ([$section:ident $($rest:ident)*] $($rows:tt)*) => { $section! { chain [$($rest)*] $($rows)* } };
}

chain! { [
    device partitions sweeps routing adaptive election timing behaviour perfmgr plugins log recorder safety sa_limits console
    management replication qos congestion routers
] }

/// Value of rtr_pr_sl, rtr_pr_mtu and rtr_pr_rate that takes the parameter from other paths.
pub const RTR_PR_INHERIT: u8 = 255;

/// Meaning of [`RTR_PR_INHERIT`] for the SL.
const OTHER_PATHS: &[(i64, &str)] = &[(RTR_PR_INHERIT as i64, "that of other paths")];
/// Meaning of [`RTR_PR_INHERIT`] for MTU and rate.
const ROUTER_PATH: &[(i64, &str)] = &[(RTR_PR_INHERIT as i64, "that of the path to the router")];

/// Reason why the keys of plug-ins have no effect.
const NO_PLUGINS: &str = "plug-ins for OpenSM use its internal structures; the management interface \
                          (torus-sm-manage(8)) has the events";

/// Reason why rtr_aguid_enable has no effect.
const NO_ROUTER_ALIASES: &str = "the format of alias GUIDs for routers is not public: none are \
                                 created or removed; prefix_routes_file and rtr_pr_* give paths \
                                 to other subnets";

/// Reason why enable_ar_group_copy has no effect.
const NO_EQUAL_GROUPS: &str = "no two groups of a switch are equal, so there is nothing to copy";

/// Reason why the keys of notifications between switches have no effect.
const NO_NOTIFICATIONS: &str = "switches get no tables of notifications: the messages for each topology, and \
                                the order of the bits of these tables, are not public";

/// Reason why umad_rx_threshold has no effect.
const OWN_UMAD: &str = "this program does not use libibumad, which has the function \
                        umad_update_threshold in MLNX_OFED only: MADs are read at once into \
                        bounded queues, and the limits of senders (sa_max_*) protect them";

/// Special values of force_link_speed, force_link_speed_ext and force_link_width.
const ALL_SPEEDS: &[(i64, &str)] = &[(15, "all supported")];
const ALL_SPEEDS_EXT: &[(i64, &str)] = &[(30, "none"), (31, "all supported")];
const ALL_WIDTHS: &[(i64, &str)] = &[(255, "all supported")];
/// Special value of max_rate_enum.
const ALL_RATES: &[(i64, &str)] = &[(63, "no limit")];

/// A file in OpenSM's configuration directory.
fn path(name: &str) -> Option<String> {
    Some(format!("/etc/opensm/{name}"))
}
