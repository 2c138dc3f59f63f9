//! Changes of the registry: the handler of each attribute checks the request against the snapshot
//! and returns a [`RegistryChange`], which [`apply`] carries out.

use super::query::ReplyBuilder;
use super::registry::Registry;
use super::registry::aliases::AliasEdit;
use super::registry::groups::{Join, Leave};
use super::registry::services::{self, ServiceRid};
use super::registry::subscriptions::Subscription;
use super::status::ErrorStatus;
use crate::ids::Guid;
use crate::wire::attr::tables::{GUID_BLOCK, GuidBlock};
use crate::wire::record::tables::GuidInfoRecord;
use crate::wire::record::{InformInfo, Record, ServiceRecord};
use crate::wire::sa::SaStatus;
use std::time::Instant;

/// A checked request that modifies the registry.
#[derive(Clone, Debug)]
pub(super) enum RegistryChange {
    /// A port joins a group.
    Join(Join),
    /// A port leaves a group, or gives up some of its join states.
    Leave(Leave),
    /// Registers the first record, of which the port is the owner. The second one is the reply.
    Register(Box<[ServiceRecord; 2]>, Option<Guid>),
    /// Deletes a service. The reply contains its key if the request is privileged.
    Unregister {
        rid: ServiceRid,
        privileged: bool,
    },
    /// Adds a subscription. The InformInfo is the reply.
    Subscribe(Box<Subscription>, InformInfo),
    /// Ends a subscription. The InformInfo is the reply.
    Unsubscribe(Box<Subscription>, InformInfo),
    SetAliases(Box<AliasEdit>),
    ClearAliases(Box<AliasEdit>),
}

/// Applies a change and appends the record of the reply. Returns the generation of the multicast
/// groups that must be planned before the reply is sent; 0 for none.
pub(super) fn apply(
    change: RegistryChange,
    registry: &mut Registry,
    now: Instant,
    reply: &mut ReplyBuilder,
) -> Result<u64, ErrorStatus> {
    let mut required_generation = 0;
    match change {
        RegistryChange::Join(join) => {
            let (record, since) = registry.multicast.join(join)?;
            required_generation = since;
            push(reply, &record);
        }
        RegistryChange::Leave(leave) => push(reply, &registry.multicast.leave(leave)?),
        RegistryChange::Register(records, owner) => {
            let [record, redacted] = *records;
            registry.services.set(record, owner, now)?;
            push(reply, &redacted);
        }
        RegistryChange::Unregister { rid, privileged } => {
            let record = registry.services.delete(&rid, now);
            let record = record.ok_or(ErrorStatus(SaStatus::NO_RECORDS))?;
            push(reply, &services::redacted(record, privileged));
        }
        RegistryChange::Subscribe(subscription, info) => {
            registry.subscriptions.subscribe(*subscription)?;
            push(reply, &info);
        }
        RegistryChange::Unsubscribe(subscription, info) => {
            registry.subscriptions.unsubscribe(&subscription)?;
            push(reply, &info);
        }
        RegistryChange::SetAliases(edit) => {
            let guids = registry.aliases.set(&edit)?;
            push(reply, &guid_info(&edit, guids));
        }
        RegistryChange::ClearAliases(edit) => {
            let guids = registry.aliases.clear(&edit);
            push(reply, &guid_info(&edit, guids));
        }
    }
    Ok(required_generation)
}

/// The block of alias GUIDs after the change, without the GUIDs that could not be assigned.
fn guid_info(edit: &AliasEdit, guids: [Guid; GUID_BLOCK]) -> GuidInfoRecord {
    let mut record = GuidInfoRecord::default();
    record.set_lid(edit.lid);
    record.set_block(edit.block);
    record.set_guids(&GuidBlock(guids));
    record
}

/// Appends the only record of the reply.
fn push<R: Record>(reply: &mut ReplyBuilder, record: &R) {
    let _ = reply.push(record);
}
