//! Error status of an SA reply.

/// Value of the MAD status field of a reply that carries no record: a status of
/// [`Status`](crate::wire::mad::Status) (IBA vol. 1, 13.4.7) or
/// [`SaStatus`](crate::wire::sa::SaStatus) (15.2.1.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ErrorStatus(pub u16);
