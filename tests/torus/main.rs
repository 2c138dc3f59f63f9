//! The torus-2QoS engine and the derivation of its configuration.

mod derive;
mod engine;
mod failures;
mod repair;
mod rerouting;
mod vectors;
