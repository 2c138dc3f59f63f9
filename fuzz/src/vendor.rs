//! Vendor-specific attributes.

use torus_sm::ids::Sl;
use torus_sm::wire::mad::{MAD_SIZE, Mad};
use torus_sm::wire::vendor::adaptive::{ArGroupBlock, ArGroupCopy, ArInfo, ArLftBlock};
use torus_sm::wire::vendor::capabilities::Capabilities;
use torus_sm::wire::vendor::qos_config_sl::{MAX_RATE_LIMIT, QosConfigSl, QosTarget, SLS};
use torus_sm::wire::vendor::virtual_ports::{
    VirtualizationInfo, VnodeInfo, VportBlock, VportInfo, VportStates, table_modifier,
};

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
        virtual_ports(&mad);
        adaptive(&mad);
    }
}

fn adaptive(mad: &Mad) {
    let data = *mad.smp_data();
    let mut info = ArInfo(data);
    info.set_group_top(info.group_top());
    info.set_sl_mask(info.sl_mask());
    info.set_adaptive_routing(info.adaptive_routing());
    info.set_fast_recovery(info.fast_recovery());
    info.set_excluded_transports(info.excluded_transports());
    assert_eq!(info, ArInfo(data));
    assert_eq!(ArGroupBlock::of(ArGroupBlock(data).groups()), ArGroupBlock(data));
    let entries = ArLftBlock(data).entries();
    assert_eq!(ArLftBlock::of(entries).entries(), entries);
    let groups: Vec<u16> = ArGroupCopy(data).ranges().map(|[first, _]| first).collect();
    let again = ArGroupCopy::to(&groups).expect("groups");
    assert!(again.ranges().eq(groups.iter().map(|&group| [group; 2])));
}

fn virtual_ports(mad: &Mad) {
    let data = *mad.smp_data();
    let mut info = VirtualizationInfo(data);
    info.set_top_index(info.top_index());
    info.set_enable(info.enable());
    info.set_state_change(info.state_change());
    assert_eq!(info, VirtualizationInfo(data));
    let mut vport = VportInfo(data);
    vport.set_state(vport.state());
    vport.set_lid(vport.lid());
    vport.set_guid(vport.guid());
    assert_eq!(vport, VportInfo(data));
    let mut vnode = VnodeInfo(data);
    vnode.set_partition_cap(vnode.partition_cap());
    vnode.set_guid(vnode.guid());
    assert_eq!(vnode, VnodeInfo(data));
    let mut states = VportStates(data);
    (0..VportStates::COUNT).for_each(|index| states.set_state(index, states.state(index)));
    assert_eq!(states, VportStates(data));
    let VportBlock { index, block } = VportBlock::of(mad.header().attr_mod());
    assert_eq!(table_modifier(index, block), mad.header().attr_mod());
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
