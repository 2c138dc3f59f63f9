//! What requests that write are to change: the room of their attribute checks them against the
//! snapshot, the registry carries them out.

use super::query::Answer;
use super::refused::Refused;
use super::registry::Registry;
use super::registry::aliases::Edit;
use super::registry::groups::{Join, Leave};
use super::registry::services::{self, ServiceName};
use super::registry::subscriptions::Subscription;
use crate::ids::Guid;
use crate::wire::attr::tables::{GUID_BLOCK, GuidBlock};
use crate::wire::record::tables::GuidInfoRecord;
use crate::wire::record::{InformInfo, Record, ServiceRecord};
use crate::wire::sa::SaStatus;
use std::time::Instant;

/// What a checked request is to change.
#[derive(Clone, Debug)]
pub(super) enum Change {
    /// A port joins a group.
    Join(Join),
    /// A port leaves a group, or gives up roles in it.
    Leave(Leave),
    /// A service is registered. The second record is the one to answer.
    Register(Box<[ServiceRecord; 2]>),
    /// A service is taken back; its key is told to the trusted.
    Withdraw { name: ServiceName, trusted: bool },
    /// A port wants to hear of notices. InformInfo is the one to answer.
    Subscribe(Box<Subscription>, InformInfo),
    /// It does not any more.
    Unsubscribe(Box<Subscription>, InformInfo),
    /// A port gets alias GUIDs.
    SetAliases(Box<Edit>),
    /// It loses them.
    ClearAliases(Box<Edit>),
}

/// Carries a change out and pushes the record to answer with. Returns the generation of the
/// multicast groups that must be planned before the answer may go out.
pub(super) fn carry_out(
    change: Change,
    registry: &mut Registry,
    now: Instant,
    answer: &mut Answer,
) -> Result<u64, Refused> {
    let mut due = 0;
    match change {
        Change::Join(join) => {
            let (record, since) = registry.multicast.join(join)?;
            due = since;
            push(answer, &record);
        }
        Change::Leave(leave) => push(answer, &registry.multicast.leave(leave)?),
        Change::Register(records) => {
            let [record, shown] = *records;
            registry.services.set(record, now)?;
            push(answer, &shown);
        }
        Change::Withdraw { name, trusted } => {
            let record = registry.services.delete(&name, now);
            let record = record.ok_or(Refused(SaStatus::NO_RECORDS))?;
            push(answer, &services::shown(record, trusted));
        }
        Change::Subscribe(subscription, shown) => {
            registry.subscriptions.subscribe(*subscription)?;
            push(answer, &shown);
        }
        Change::Unsubscribe(subscription, shown) => {
            registry.subscriptions.unsubscribe(&subscription)?;
            push(answer, &shown);
        }
        Change::SetAliases(edit) => {
            let guids = registry.aliases.set(&edit)?;
            push(answer, &guid_info(&edit, guids));
        }
        Change::ClearAliases(edit) => {
            let guids = registry.aliases.clear(&edit);
            push(answer, &guid_info(&edit, guids));
        }
    }
    Ok(due)
}

/// The record of a block as it is now: what could not be had is not in it.
fn guid_info(edit: &Edit, guids: [Guid; GUID_BLOCK]) -> GuidInfoRecord {
    let mut record = GuidInfoRecord::default();
    record.set_lid(edit.lid);
    record.set_block(edit.block);
    record.set_guids(&GuidBlock(guids));
    record
}

/// The answer to a change is one record, never more.
fn push<R: Record>(answer: &mut Answer, record: &R) {
    let _ = answer.push(record);
}
