//! Dimension order routing with random balancing options.

use super::daemons;
use super::minhop::balancing;
use testkit::fabrics::Family;

#[test]
fn dor_equals_opensm() {
    super::compare("dor", &Family::ALL, balancing, 90);
}

#[test]
fn dor_runs_as_opensm() {
    daemons::compare("dor", &Family::ALL, balancing, 2);
}
