//! The requests that were sent last, since a response repeats most of its request.

use crate::transport::recorded::MadFate;
use crate::wire::mad::Mad;
use std::ops::Range;

/// The lower half of the transaction ID in the MAD header (IBA 13.4.2). The kernel fills in the upper half
/// when it sends, after the request was recorded.
const TRANSACTION_ID: Range<usize> = 12..16;

/// Number of places. Transaction IDs count up, so that as many requests in flight have a place each.
const PLACES: usize = 128;

/// Requests by the low bits of their transaction ID. A block of entries begins without any, so that it
/// is read without those before it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Requests {
    places: Vec<Option<Mad>>,
}

impl Requests {
    pub(super) fn new() -> Self {
        Self { places: vec![None; PLACES] }
    }

    pub(super) fn clear(&mut self) {
        self.places.fill(None);
    }

    /// Keeps a MAD that was sent.
    pub(super) fn note(&mut self, fate: MadFate, mad: &Mad) {
        if fate == MadFate::Sent {
            self.places[place(mad)] = Some(*mad);
        }
    }

    /// The number of the place with the request that a MAD may answer, and the request.
    pub(super) fn answered_by(&self, fate: MadFate, mad: &Mad) -> Option<(u8, &Mad)> {
        let place = place(mad);
        let request = self.places[place].as_ref()?;
        let is_same = request.0[TRANSACTION_ID] == mad.0[TRANSACTION_ID];
        (fate == MadFate::Received && is_same).then_some((place as u8, request))
    }

    /// The request in a place.
    pub(super) fn at(&self, place: u8) -> Option<&Mad> {
        self.places.get(usize::from(place))?.as_ref()
    }
}

fn place(mad: &Mad) -> usize {
    usize::from(mad.0[TRANSACTION_ID.end - 1]) % PLACES
}

/// The bytes in which two MADs differ, as their exclusive or: most are 0.
pub(super) fn difference(one: &Mad, other: &Mad) -> Mad {
    let mut mad = *one;
    for (byte, other) in mad.0.iter_mut().zip(other.0) {
        *byte ^= other;
    }
    mad
}
