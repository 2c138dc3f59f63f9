//! Resolves partitions.conf: generates missing P_Keys, merges definitions of the same partition,
//! and creates the multicast groups.
//!
//! Input: the definitions in the order of the file, and the previous partitions. Result: the
//! partitions in the order of their first definition. Invariant: partition numbers are distinct,
//! because a generated key is chosen outside of the keys in the file and of all keys in use.
//!
//! Differences from OpenSM:
//!
//! * A generated key never equals a key that the file mentions later, which would merge partitions.
//! * A partition with several definitions has the SL of the last definition that contains one. In
//!   OpenSM, a definition without an SL resets it.
//! * Groups persist while no member of their partition is in the fabric.
//! * The broadcast group exists in the scopes of its definition, as documented in the manual, and
//!   always in the link-local scope. OpenSM ignores the scopes and always uses link-local.

use super::{Membership, Partition, PartitionMember, PermanentGroup, PortSelector};
use crate::config::options::Options;
use crate::config::partitions::{
    BROADCAST, Definition, GroupEntry, GroupFlags, PartitionsConfig, is_ip,
};
use crate::ids::{Gid, Pkey, Sl};
use crate::notes::Note;
use std::collections::{BTreeMap, BTreeSet};

/// The scope of groups without a `scope` flag.
const LINK_LOCAL: u8 = 2;
/// Q_Key of IP groups (RFC 4391, 4).
const IP_Q_KEY: u32 = 0xB1B;
/// The highest partition number that is generated; 0x7FFF is the default partition.
const MAX_GENERATED_KEY: u16 = 0x7FFE;

/// The partitions of a subnet without partitions.conf: the default partition, with all ports as
/// full members and the IPoIB broadcast group.
pub fn default(options: &Options) -> Vec<Partition> {
    let pkey = Pkey::DEFAULT_LIMITED;
    let mut default = bare("Default".to_owned(), pkey);
    default.members = vec![PartitionMember::new(PortSelector::All, Membership::Full)];
    default.groups = vec![group(BROADCAST, LINK_LOCAL, pkey, &ip_flags(), options)];
    vec![default]
}

fn ip_flags() -> GroupFlags {
    GroupFlags { q_key: IP_Q_KEY, ..GroupFlags::default() }
}

fn bare(name: String, pkey: Pkey) -> Partition {
    Partition { name, pkey, members: Vec::new(), sl: Sl(0), groups: Vec::new() }
}

/// Resolves a configuration. `before` are the previous partitions: a partition without a key
/// in the configuration keeps the key that was generated for its name. The notes name
/// partitions and groups that are left out.
pub fn partitions(
    config: &PartitionsConfig,
    options: &Options,
    before: &[Partition],
) -> (Vec<Partition>, Vec<Note>) {
    if config.definitions.is_empty() {
        return (default(options), Vec::new());
    }
    let mut resolver = Resolver::new(config, options, before);
    for definition in &config.definitions {
        resolver.define(definition);
    }
    resolver.retry_rejected_groups();
    let mut partitions = resolver.partitions;
    partitions.retain(|partition| !partition.members.is_empty());
    (partitions, resolver.notes)
}

struct Resolver<'a> {
    options: &'a Options,
    /// In the order of their first definition.
    partitions: Vec<Partition>,
    /// Index into `partitions`, by partition number.
    by_key: BTreeMap<u16, usize>,
    /// Partition numbers that must not be generated.
    reserved: BTreeSet<u16>,
    /// Keys that were generated earlier, by partition name.
    remembered: BTreeMap<&'a str, Pkey>,
    /// Number of definitions seen.
    order: u32,
    groups: BTreeSet<Gid>,
    /// Groups that were rejected when they were defined: partition index, line, group.
    rejected: Vec<(usize, u32, PermanentGroup)>,
    notes: Vec<Note>,
}

impl<'a> Resolver<'a> {
    fn new(config: &'a PartitionsConfig, options: &'a Options, before: &'a [Partition]) -> Self {
        let mut reserved: BTreeSet<u16> =
            config.definitions.iter().filter_map(|part| Some(part.pkey?.base())).collect();
        reserved.insert(Pkey::DEFAULT_LIMITED.base());
        let remembered: BTreeMap<&str, Pkey> = before
            .iter()
            .filter(|old| {
                nameless(&config.definitions, &old.name) && !reserved.contains(&old.pkey.base())
            })
            .map(|old| (old.name.as_str(), old.pkey))
            .collect();
        reserved.extend(remembered.values().map(|key| key.base()));
        let default = Partition {
            members: vec![
                PartitionMember::new(PortSelector::All, Membership::Limited),
                PartitionMember::new(PortSelector::SmPort, Membership::Full),
            ],
            ..bare("Default".to_owned(), Pkey::DEFAULT_LIMITED)
        };
        Self {
            options,
            by_key: BTreeMap::from([(default.pkey.base(), 0)]),
            partitions: vec![default],
            reserved,
            remembered,
            order: 0,
            groups: BTreeSet::new(),
            rejected: Vec::new(),
            notes: Vec::new(),
        }
    }

    fn define(&mut self, definition: &Definition) {
        self.order += 1;
        let Some(index) = self.find(definition) else {
            let line = definition.line;
            self.notes.push(Note::warning(format!(
                "the partition in line {line} of partitions.conf is ignored: no P_Key is left"
            )));
            return;
        };
        let index0 = definition.index0.then_some(self.order);
        let members = definition.members.iter().map(|entry| PartitionMember {
            ports: entry.ports,
            membership: entry.membership,
            index0,
        });
        // Without QoS there is one SL for all.
        let sl = if self.options.qos { definition.flags.sl } else { Sl(0) };
        let partition = &mut self.partitions[index];
        partition.members.extend(members);
        if definition.has_sl {
            partition.sl = sl;
        }
        let flags = GroupFlags { sl, ..definition.flags };
        if definition.ipoib {
            let scopes = flags.scopes | 1 << LINK_LOCAL;
            let flags = GroupFlags { scopes, ..flags };
            self.add_groups(index, definition.line, BROADCAST, &flags);
        }
        for GroupEntry { line, mgid, flags: own } in &definition.groups {
            let inherited = own.sl == definition.flags.sl;
            let flags = GroupFlags { sl: if inherited { sl } else { own.sl }, ..*own };
            self.add_groups(index, *line, *mgid, &flags);
        }
    }

    /// The index of the partition of a definition, which is created if necessary; `None` if no key
    /// is left.
    fn find(&mut self, definition: &Definition) -> Option<usize> {
        let pkey = match definition.pkey {
            Some(pkey) => pkey,
            None => {
                let name = &definition.name;
                let known = self.partitions.iter().position(|other| other.name == *name);
                if let Some(index) = known.filter(|_| !name.is_empty()) {
                    return Some(index);
                }
                self.remembered.get(name.as_str()).copied().or_else(|| self.generate())?
            }
        };
        if let Some(&index) = self.by_key.get(&pkey.base()) {
            let known = &self.partitions[index].name;
            let name = &definition.name;
            if !name.is_empty() && name != known {
                self.notes.push(Note::info(format!(
                    "partition {pkey} is called {known}; its second name, {name} in line {}, is \
                     not used",
                    definition.line
                )));
            }
            return Some(index);
        }
        let name = match definition.name.as_str() {
            "" => format!("{:04x}", pkey.0),
            name => name.to_owned(),
        };
        self.by_key.insert(pkey.base(), self.partitions.len());
        self.partitions.push(bare(name, pkey));
        Some(self.partitions.len() - 1)
    }

    /// The lowest free partition number.
    fn generate(&self) -> Option<Pkey> {
        (1..=MAX_GENERATED_KEY)
            .find(|key| !self.by_key.contains_key(key) && !self.reserved.contains(key))
            .map(Pkey)
    }

    /// Adds a group for each scope. Of several definitions of a group, the first one applies.
    fn add_groups(&mut self, index: usize, line: u32, mgid: Gid, flags: &GroupFlags) {
        let pkey = self.partitions[index].pkey;
        let mut flags = *flags;
        let mut mgid = mgid;
        if is_ip(&mgid) {
            mgid = with_pkey(mgid, pkey);
            flags.q_key = if flags.q_key == 0 { IP_Q_KEY } else { flags.q_key };
        }
        let scopes = if flags.scopes == 0 { 1 << LINK_LOCAL } else { flags.scopes };
        for scope in (0..16).filter(|scope| scopes & 1 << scope != 0) {
            let group = group(mgid, scope, pkey, &flags, self.options);
            if self.groups.contains(&group.mgid) {
                continue;
            }
            match self.objection(&group) {
                Some(_) => self.rejected.push((index, line, group)),
                None => self.add_group(index, group),
            }
        }
    }

    fn add_group(&mut self, index: usize, group: PermanentGroup) {
        let group = PermanentGroup { order: self.groups.len(), ..group };
        self.groups.insert(group.mgid);
        self.partitions[index].groups.push(group);
    }

    /// Adds the groups that were rejected because the file defines their broadcast group later.
    /// OpenSM reads the file at every heavy sweep and creates them at the second one; in both, they
    /// come after all other groups.
    fn retry_rejected_groups(&mut self) {
        for (index, line, group) in std::mem::take(&mut self.rejected) {
            if self.groups.contains(&group.mgid) {
                continue;
            }
            match self.objection(&group) {
                Some(objection) => self.notes.push(Note::warning(format!(
                    "group {} in line {line} of partitions.conf is ignored: {objection}",
                    group.mgid
                ))),
                None => self.add_group(index, group),
            }
        }
    }

    /// The reason why a group is invalid, by the rules for MGIDs in client requests (IBA vol. 1,
    /// o15-0.1.5; RFC 4391, 5).
    fn objection(&self, group: &PermanentGroup) -> Option<&'static str> {
        if !self.options.ipoib_mcgroup_creation_validation {
            return None;
        }
        let [_, flags, high, low, ..] = group.mgid.0;
        if is_ip(&group.mgid) {
            let broadcast = with_pkey(with_scope(BROADCAST, group.scope), group.pkey);
            let is_there = group.mgid == broadcast || self.groups.contains(&broadcast);
            return (!is_there).then_some(
                "an IP group needs the broadcast group of its partition in the same scope (add the \
                 `ipoib` flag)",
            );
        }
        if flags & 0xE0 != 0 {
            return Some("the upper three of the four MGID flags are reserved and must be 0");
        }
        let is_administrators = (high, low) == (0xA0, 0x1B) && group.scope == LINK_LOCAL;
        is_administrators.then_some("MGIDs with the signature a01b must not be link-local")
    }
}

fn nameless(definitions: &[Definition], name: &str) -> bool {
    definitions.iter().any(|part| part.pkey.is_none() && part.name == name)
}

fn with_pkey(mgid: Gid, pkey: Pkey) -> Gid {
    mgid.with_ipoib_pkey(Pkey(pkey.0 | 0x8000))
}

fn with_scope(mut mgid: Gid, scope: u8) -> Gid {
    mgid.0[1] = mgid.0[1] & 0xF0 | scope & 0xF;
    mgid
}

fn group(
    mgid: Gid,
    scope: u8,
    pkey: Pkey,
    flags: &GroupFlags,
    options: &Options,
) -> PermanentGroup {
    PermanentGroup {
        order: 0,
        mgid: with_scope(mgid, scope),
        pkey: Pkey(pkey.0 | 0x8000),
        q_key: flags.q_key,
        mtu: flags.mtu,
        rate: flags.rate,
        sl: flags.sl,
        scope,
        tclass: flags.tclass,
        flow_label: flags.flow_label,
        hop_limit: if scope == LINK_LOCAL { 0 } else { u8::MAX },
        packet_life: options.subnet_timeout,
    }
}
