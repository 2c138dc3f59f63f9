//! GUIDInfoRecord (IBA vol. 1, 15.2.5.18): the GUID tables of end ports. The first entry is the
//! port's own GUID; the others are aliases, which the port may set and clear, and with
//! `sa_allow_untrusted_guidinfo` all ports of the same partition (o15-0.3.x). The registry stores
//! them, and the next plan programs them into the devices.
//!
//! Vports have tables of their own. A LID stands for the end port that owns it; the LID that a vport
//! shares stands for the vport in requests of that vport, which has no other way to name its table.

use super::change::RegistryChange;
use super::query::{Query, ReplyBuilder};
use super::registry::aliases::AliasEdit;
use super::status::ErrorStatus;
use super::trust::TrustRules;
use crate::fabric::virtual_ports::EndPort;
use crate::ids::{Guid, Lid};
use crate::plan::aliases::guid_cap;
use crate::wire::attr::tables::{GUID_BLOCK, GuidBlock};
use crate::wire::record::tables::GuidInfoRecord;
use crate::wire::sa::SaStatus;

/// SubnAdmGet and SubnAdmGetTable: one record per end port and block of 8 GUIDs within its GUIDCap.
pub(super) fn list(query: &Query<'_>, reply: &mut ReplyBuilder) -> Result<(), ErrorStatus> {
    let mut wanted: GuidInfoRecord = query.record();
    for end in owners(query, wanted.lid()) {
        let fabric = query.view.fabric();
        let Some(lid) = query.view.lids().receives_at(fabric, end) else { continue };
        let Some(cap) = guid_cap(fabric, end) else { continue };
        let own = query.view.guid(end);
        wanted.set_lid(lid);
        let entries = usize::from(cap);
        for block in 0..entries.div_ceil(GUID_BLOCK) as u8 {
            let mut guids = GuidBlock(query.registry.aliases.block(own, block));
            let held = entries - usize::from(block) * GUID_BLOCK;
            guids.0.iter_mut().skip(held).for_each(|guid| *guid = Guid::default());
            if block == 0 {
                guids.0[0] = own;
            }
            let mut record = GuidInfoRecord::default();
            record.set_lid(lid);
            record.set_block(block);
            record.set_guids(&guids);
            if query.push_if_matching(&wanted, &record, reply).is_break() {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// The end ports and vports whose tables a query may list.
fn owners(query: &Query<'_>, lid: Lid) -> Vec<EndPort> {
    if query.has(GuidInfoRecord::LID) {
        return owner(query, lid).into_iter().collect();
    }
    let physical = query.end_ports(GuidInfoRecord::LID, lid).map(EndPort::from);
    let vports = query.view.lids().of_vports().map(|(_, vport)| vport);
    physical.chain(vports.filter(|&vport| query.is_visible(vport))).collect()
}

/// The end port or vport whose table a LID stands for; `None` if the requester may not see it.
fn owner(query: &Query<'_>, lid: Lid) -> Option<EndPort> {
    let view = &query.view;
    let requester = query.requester;
    let is_own =
        requester.is_virtual() && view.lids().receives_at(view.fabric(), requester) == Some(lid);
    let owner = if is_own { requester } else { view.lids().owner(lid)? };
    query.is_visible(owner).then_some(owner)
}

/// Checks SubnAdmSet.
pub(super) fn set(query: &Query<'_>) -> Result<RegistryChange, ErrorStatus> {
    Ok(RegistryChange::SetAliases(Box::new(edit(query)?)))
}

/// Checks SubnAdmDelete. Aliases that are members of a multicast group cannot be cleared.
pub(super) fn clear(query: &Query<'_>) -> Result<RegistryChange, ErrorStatus> {
    let edit = edit(query)?;
    let held = query.registry.aliases.block(edit.port, edit.block);
    let cleared = held
        .iter()
        .enumerate()
        .filter(|&(index, guid)| edit.selected >> index & 1 == 1 && *guid != Guid::default());
    if cleared.into_iter().any(|(_, &guid)| query.registry.multicast.has_member(guid)) {
        return Err(ErrorStatus(SaStatus::DENIED));
    }
    Ok(RegistryChange::ClearAliases(Box::new(edit)))
}

/// Checks the components of SubnAdmSet and SubnAdmDelete: LID and block number are required, and
/// entry 0 of block 0, the port's own GUID, cannot be selected. Entries above GUIDCap are ignored.
fn edit(query: &Query<'_>) -> Result<AliasEdit, ErrorStatus> {
    if !query.has(GuidInfoRecord::LID | GuidInfoRecord::BLOCK) {
        return Err(ErrorStatus(SaStatus::INSUFFICIENT_COMPONENTS));
    }
    let wanted: GuidInfoRecord = query.record();
    let unknown = ErrorStatus(SaStatus::NO_RECORDS);
    let view = &query.view;
    let port = owner(query, wanted.lid()).ok_or(unknown)?;
    let is_allowed = query.requester == port
        || query.is_privileged()
        || TrustRules::of(view.options()).foreign_guid_info;
    if !is_allowed {
        return Err(ErrorStatus(SaStatus::DENIED));
    }
    let cap = guid_cap(view.fabric(), port).ok_or(unknown)?;
    let start = usize::from(wanted.block()) * GUID_BLOCK;
    let entries = usize::from(cap).saturating_sub(start);
    if entries == 0 {
        return Err(unknown);
    }
    if wanted.block() == 0 && query.has(GuidInfoRecord::GID0) {
        return Err(ErrorStatus(SaStatus::REQ_INVALID));
    }
    let selected = (query.mask >> GuidInfoRecord::GID0.trailing_zeros()) as u8;
    let existing = u8::MAX >> GUID_BLOCK.saturating_sub(entries);
    Ok(AliasEdit {
        port: view.guid(port),
        lid: wanted.lid(),
        block: wanted.block(),
        selected: selected & existing,
        guids: wanted.guids().0,
        assigned_guid_byte: view.options().sm_assigned_guid,
        fabric: view.shared_fabric(),
        privileged: query.is_privileged(),
    })
}
