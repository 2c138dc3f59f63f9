//! torus-2QoS.conf.

/// (grammar to be filled in)
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TorusConfig {}
