//! Classes of switches whose surroundings look the same.

use super::super::paths::Neighbours;
use super::geometry::LocalDistances;
use super::polynomial::characteristic;
use super::shapes::{KnownShapes, MeshShape};
use rayon::prelude::*;
use std::collections::HashMap;

/// The switches by characteristic polynomial.
pub(super) struct PolynomialClasses {
    known: KnownShapes,
    /// By switch; `None` for those with too many neighbours.
    polynomials: Vec<Option<Vec<i32>>>,
    /// In the order of their first switches.
    classes: Vec<PolynomialClass>,
}

struct PolynomialClass {
    first: u32,
    count: usize,
}

impl PolynomialClasses {
    pub(super) fn new(neighbours: &Neighbours, distances: &[Option<LocalDistances>]) -> Self {
        let polynomials = distances.par_iter().map(|own| own.as_ref().map(characteristic));
        let mut own = Self {
            known: KnownShapes::new(),
            polynomials: polynomials.collect(),
            classes: Vec::new(),
        };
        own.classify(neighbours);
        own
    }

    /// Switches at the edge of a mesh are in no class.
    fn classify(&mut self, neighbours: &Neighbours) {
        let mut numbers = HashMap::new();
        for (switch, polynomial) in (0..).zip(&self.polynomials) {
            let Some(polynomial) = polynomial else { continue };
            if self.known.find(polynomial).is_some() && is_edge(neighbours, switch) {
                continue;
            }
            let number = *numbers.entry(polynomial).or_insert_with(|| {
                self.classes.push(PolynomialClass { first: switch, count: 0 });
                self.classes.len() - 1
            });
            self.classes[number].count += 1;
        }
    }

    /// Number of classes.
    pub(super) fn len(&self) -> usize {
        self.classes.len()
    }

    /// The first switch of the first class with the most switches.
    pub(super) fn seed(&self) -> Option<u32> {
        let most = self.classes.iter().map(|class| class.count).max()?;
        let class = self.classes.iter().find(|class| class.count == most)?;
        Some(class.first)
    }

    /// The known shape of a switch's surroundings.
    pub(super) fn shape(&self, switch: u32) -> Option<&MeshShape> {
        self.known.find(self.polynomials[switch as usize].as_ref()?)
    }
}

/// True if a switch has fewer neighbours than one of its neighbours.
fn is_edge(neighbours: &Neighbours, switch: u32) -> bool {
    let own = neighbours.of(switch);
    own.iter().any(|other| neighbours.of(other.switch).len() > own.len())
}
