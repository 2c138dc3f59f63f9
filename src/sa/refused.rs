//! Why a request is refused.

/// The status with which a request is refused (IBA vol. 1, 13.4.7 and 15.2.1.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Refused(pub u16);
