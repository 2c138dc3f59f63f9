//! Vendor-specific attributes.

use torus_sm::ids::Sl;
use torus_sm::wire::mad::{MAD_SIZE, Mad};
use torus_sm::wire::vendor::capabilities::Capabilities;
use torus_sm::wire::vendor::qos_config_sl::{MAX_RATE_LIMIT, QosConfigSl, QosTarget, SLS};

/// SMPs, read as every vendor-specific attribute.
pub fn vendor(data: &[u8]) {
    for chunk in data.chunks(MAD_SIZE).take(64) {
        let mad = Mad::read(chunk);
        capabilities(Capabilities::read(mad.smp_data()));
        let config = QosConfigSl(*mad.smp_data());
        rate_limits(config);
        match QosConfigSl::target(mad.header().attr_mod()) {
            Some(QosTarget::Port(number) | QosTarget::VirtualPort(number)) => {
                assert_eq!(mad.header().attr_mod() as u16, number);
            }
            None => assert!(mad.header().attr_mod() & 0x7FFF_0000 != 0),
        }
    }
}

fn capabilities(read: Capabilities) {
    assert_eq!(Capabilities::read(&read.write()), read);
    let again = read.numbers().fold(Capabilities::NONE, Capabilities::with);
    assert_eq!(again, read);
    let numbers = read.names().filter_map(|name| Capabilities::number(&name));
    assert!(numbers.eq(read.numbers()), "{read:?}");
}

fn rate_limits(config: QosConfigSl) {
    let limits = config.rate_limits();
    assert!(limits.iter().all(|&limit| limit <= MAX_RATE_LIMIT));
    assert_eq!(QosConfigSl::with_limits(&limits).rate_limits(), limits);
    for sl in (0..SLS as u8).map(Sl) {
        let mut changed = config;
        changed.set_rate_limit(sl, u32::MAX);
        assert_eq!(changed.bandwidth_share(sl), config.bandwidth_share(sl));
        changed.set_rate_limit(sl, config.rate_limit(sl));
        assert_eq!(changed, config);
    }
}
