//! Requests in the notation of `cases.txt`, and the subnet that they refer to.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;
use torus_sm::config::options::Options;
use torus_sm::config::torus::TorusConfig;
use torus_sm::fabric::Fabric;
use torus_sm::fabric::synthetic::SyntheticView;
use torus_sm::ids::{Guid, Lid, Mlid, Sl, SmKey};
use torus_sm::plan::partitions;
use torus_sm::plan::routing::PortMask;
use torus_sm::publish::Subnet;
use torus_sm::sa::Responder;
use torus_sm::sim::generate::Shape;
use torus_sm::transport::Address;
use torus_sm::wire::attr::{SmInfo, SmState};
use torus_sm::wire::mad::{Class, Header, MAD_SIZE, Method};
use torus_sm::wire::sa::{
    CLASS_VERSION, DATA_OFFSET, RMPP_OFFSET, RmppHeader, SA_OFFSET, SaAttr, SaHeader,
};

const LAYOUT: &str = include_str!("layout.txt");

const PREFIX: u128 = 0xfe80_0000_0000_0000;
const FAR_PREFIX: u128 = 0x2001_0000_0000_0000;
const NOBODY: u16 = 5000;
/// Groups that any port may create (IBA vol. 1, 4.1.1): not IPoIB's, link-local, transient.
const GROUPS: u128 = 0xFF12_0001_0000_0000_0000_0000_0000_0000;

/// The initial contents of the registry.
const BEFORE: [(u16, &str); 7] = [
    (SaAttr::GUID_INFO_RECORD, "LID=HOST3 BlockNum=0 GID1=0x55"),
    (
        SaAttr::MC_MEMBER_RECORD,
        "MGID=GROUP.gid PortGID=HOST.gid JoinState=1 Q_Key=1 TClass=0 \
                                P_Key=0xFFFF FlowLabel=0 SL=0",
    ),
    (
        SaAttr::MC_MEMBER_RECORD,
        "MGID=GROUP2.gid PortGID=HOST.gid JoinState=1 Q_Key=1 TClass=0 \
                                P_Key=0xFFFF FlowLabel=0 SL=0",
    ),
    (SaAttr::SERVICE_RECORD, "ServiceID=7 ServiceGID=HOST.gid"),
    (SaAttr::SERVICE_RECORD, "ServiceID=8 ServiceGID=HOST.gid"),
    (
        SaAttr::INFORM_INFO,
        "LIDRangeBegin:=0xFFFF IsGeneric:=1 Subscribe:=1 Type:=0xFFFF \
                           TrapNumber:=64 ProducerType:=0xFFFFFF",
    ),
    (
        SaAttr::INFORM_INFO,
        "LIDRangeBegin:=0xFFFF IsGeneric:=1 Subscribe:=1 Type:=0xFFFF \
                           TrapNumber:=65 ProducerType:=0xFFFFFF",
    ),
];

/// A request without its SM_Key.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub attribute: u16,
    pub method: Method,
    modifier: u32,
    mask: u64,
    /// The request arrived by RMPP.
    is_message: bool,
    data: Vec<u8>,
}

impl Request {
    /// A request without any component.
    pub(crate) fn new(attribute: u16, method: Method) -> Self {
        let data = vec![0; MAD_SIZE - DATA_OFFSET];
        Self { attribute, method, modifier: 0, mask: 0, is_message: false, data }
    }

    /// The bytes that arrive.
    pub(crate) fn mad(&self, key: u64) -> Vec<u8> {
        let mut mad = vec![0; DATA_OFFSET];
        let mut header = Header::default();
        header.set_base_version(1);
        header.set_class(Class::SUBN_ADM);
        header.set_class_version(CLASS_VERSION);
        header.set_method(self.method.0);
        header.set_tid(0x5A);
        header.set_attr_id(self.attribute);
        header.set_attr_mod(self.modifier);
        header.write(&mut mad);
        if self.is_message {
            RmppHeader::message(self.data.len()).write(&mut mad[RMPP_OFFSET..]);
        }
        let mut sa = SaHeader::default();
        sa.set_sm_key(SmKey(key));
        sa.set_component_mask(self.mask);
        sa.write(&mut mad[SA_OFFSET..]);
        mad.extend_from_slice(&self.data);
        mad
    }

    /// Adds a component, and its bit to the mask unless it `is_left_out`.
    fn set(&mut self, name: &str, value: u128, is_left_out: bool) {
        let [bit, offset, width] = component(self.attribute, name);
        if !is_left_out {
            self.mask |= 1 << bit.unwrap_or_else(|| panic!("{name} has no bit"));
        }
        let offset = offset.expect("a place");
        let width = width.expect("a width");
        assert!(width == 128 || value >> width == 0, "{name} has {width} bits");
        for place in 0..width {
            let at = offset + width - 1 - place;
            let bit = 0x80 >> (at % 8);
            let byte = &mut self.data[at / 8];
            *byte = if value >> place & 1 == 1 { *byte | bit } else { *byte & !bit };
        }
    }
}

/// Bit of the mask, first bit and width of a component.
fn component(attribute: u16, name: &str) -> [Option<usize>; 3] {
    let attribute = SaAttr::name(attribute);
    for line in LAYOUT.lines().filter(|line| !line.starts_with('#')) {
        let words: Vec<&str> = line.split_whitespace().collect();
        if words[..2] == [attribute, name] {
            return [2, 3, 4].map(|cell| words[cell].parse().ok());
        }
    }
    panic!("layout.txt does not have {name} of {attribute}");
}

/// The subnet and its names for `cases.txt`.
pub(crate) struct World {
    subnet: Subnet,
    shape: Shape,
    now: Instant,
}

impl World {
    /// A 3x3 torus, routed, with trees in the tables of two switches.
    pub(crate) fn new() -> Self {
        let shape = Shape::torus([3, 3, 1]);
        let topology = shape.build().expect("a torus");
        let fabric =
            Fabric::from_topology(&topology, 0, &SyntheticView::default()).expect("a fabric");
        let options = Options {
            qos: true,
            sa_allow_untrusted_guidinfo: true,
            sa_key: SmKey(super::KEY),
            ..Options::default()
        };
        let config = TorusConfig::parse(Path::new("torus-2QoS.conf"), &shape.torus_conf());
        let partitions = partitions::default(&options);
        let mut subnet = testkit::snapshot::subnet(fabric, options, &config, &partitions);
        let mut plan = (*subnet.plan).clone();
        let mut mask = PortMask::default();
        mask.insert(1);
        let first = shape.switch_guid([0, 0, 0]);
        let first = subnet.fabric.port_by_guid(first).expect("the first switch");
        let first = subnet.fabric.node_of(first).switch.expect("it is a switch").index();
        let trees = &mut Arc::make_mut(&mut plan.multicast).by_switch;
        let other = (first + 1) % trees.len();
        trees[first].push((Mlid::FIRST, mask));
        trees[other].push((Mlid::FIRST, mask));
        subnet.plan = Arc::new(plan);
        Self { subnet, shape, now: Instant::now() }
    }

    /// The request that a text describes.
    pub(crate) fn request(&self, attribute: u16, method: Method, text: &str) -> Request {
        let mut request = Request::new(attribute, method);
        for word in text.split_whitespace() {
            match word.split_once('=') {
                None if word == "rmpp" => request.is_message = true,
                Some(("mod", value)) => request.modifier = self.value(value) as u32,
                Some((name, value)) => {
                    let left_out = name.strip_suffix(':');
                    let value = self.value(value);
                    request.set(left_out.unwrap_or(name), value, left_out.is_some());
                }
                None => panic!("{word}"),
            }
        }
        if request.is_message {
            self.cut(&mut request);
        }
        request
    }

    /// Ends a message after its last GID.
    fn cut(&self, request: &mut Request) {
        let gids = request.data[24..].chunks_exact(16);
        let used = gids.take_while(|gid| gid.iter().any(|byte| *byte != 0)).count();
        request.data.truncate(24 + 16 * used);
    }

    fn value(&self, text: &str) -> u128 {
        let host = |x| Guid(self.shape.host_guid([x, 0, 0], 0).0 + 1);
        let (name, kind) = text.split_once('.').unwrap_or((text, "lid"));
        let guid = match name {
            "HOST" => host(0),
            "HOST2" => host(1),
            "HOST3" => host(2),
            "FAR" => host(1),
            "SWITCH" => self.shape.switch_guid([0, 0, 0]),
            _ => Guid(0xDEAD),
        };
        let number = |text: &str| match text.strip_prefix("0x") {
            Some(digits) => u128::from_str_radix(digits, 16),
            None => text.parse(),
        };
        match (name, kind) {
            ("NOBODY", "lid") => NOBODY.into(),
            ("HOST" | "HOST2" | "HOST3" | "SWITCH", "lid") => self.lid(guid).0.into(),
            ("HOST" | "HOST2" | "SWITCH" | "NOBODY", "guid") => guid.0.into(),
            ("HOST" | "HOST2" | "SWITCH" | "NOBODY", "gid") => PREFIX << 64 | u128::from(guid.0),
            ("FAR", "gid") => FAR_PREFIX << 64 | u128::from(guid.0),
            ("GROUP", "gid") => GROUPS | 1,
            ("GROUP2", "gid") => GROUPS | 2,
            ("NOGROUP", "gid") => GROUPS | 3,
            (_, "lid") => number(text).unwrap_or_else(|_| panic!("{text} is no value")),
            _ => panic!("{text} is no value"),
        }
    }

    fn lid(&self, guid: Guid) -> Lid {
        let port = self.subnet.fabric.port_by_guid(guid).expect("the port exists");
        self.subnet.plan.lids.base(port).expect("it has a LID")
    }

    /// A responder with the records of [`BEFORE`] and two subnet managers.
    pub(crate) fn responder(&self) -> Responder {
        let mut sa = Responder::default();
        let manager = |x| {
            let mut info = SmInfo::default();
            info.set_guid(Guid(self.shape.host_guid([x, 0, 0], 0).0 + 1));
            info.set_state(if x == 0 { SmState::Master } else { SmState::Standby });
            info
        };
        sa.set_managers(vec![manager(0), manager(1)]);
        for (attribute, text) in BEFORE {
            let request = self.request(attribute, Method::SET, text);
            let reply = self.handle(&mut sa, &request.mad(0)).expect("a reply");
            assert_eq!(Header::read(&reply).status(), 0, "{text}");
        }
        sa
    }

    /// The reply to a request by HOST.
    pub(crate) fn handle(&self, sa: &mut Responder, mad: &[u8]) -> Option<Vec<u8>> {
        let host = Guid(self.shape.host_guid([0, 0, 0], 0).0 + 1);
        let from = Address::gsi(self.lid(host), Sl(0));
        sa.handle(&self.subnet, &from, mad, self.now).map(|reply| reply.mad)
    }
}
