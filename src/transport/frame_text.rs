//! MADs as text, in the wording of OpenSM's dumps. M_Keys and SM_Keys are not shown: they are 0 or
//! `(set)`, and 0 in the data, as bytes are that the sender of the MAD has not defined.

use crate::wire::attr::AttrId;
use crate::wire::defined::defined_bytes;
use crate::wire::mad::{Class, Mad, Method};
use crate::wire::sa::{DATA_OFFSET, RMPP_OFFSET, RmppHeader, SA_OFFSET, SaAttr, SaHeader};
use crate::wire::smp::{INITIAL_PATH, MAX_HOPS, RETURN_PATH};
use std::fmt::Write as _;

/// Indentation of the lines after the first.
const INDENT: &str = "\n\t\t\t\t";

/// Bytes of data in a line.
const LINE_BYTES: usize = 16;

/// `write!` to a `String`, which cannot fail.
macro_rules! put {
    ($text:expr, $($arg:tt)*) => { let _ = write!($text, $($arg)*); };
}

/// A line of a dump: the name, filled with dots, and the value.
fn field(text: &mut String, name: &str, value: impl std::fmt::Display) {
    put!(text, "{INDENT}{name:.<24}{value}");
}

fn header_fields(text: &mut String, mad: &Mad, class: &str) {
    let header = mad.header();
    let method = Method(header.method());
    field(text, "base_ver", format_args!("{:#X}", header.base_version()));
    field(text, "mgmt_class", format_args!("{:#X}", header.class()));
    field(text, "class_ver", format_args!("{:#X}", header.class_version()));
    field(text, "method", format_args!("{:#X} ({class}{method})", method.0));
}

fn key(is_set: bool) -> &'static str {
    if is_set { "(set)" } else { "0x0000000000000000" }
}

/// A subnet management packet.
pub(super) fn smp_dump(bytes: &[u8]) -> String {
    let mad = Mad::read(bytes);
    let header = mad.header();
    let smp = mad.smp();
    let is_directed = header.class() == Class::SUBN_DIRECTED;
    let mut text = "SMP dump:".to_owned();
    header_fields(&mut text, &mad, "Subn");
    if is_directed {
        field(&mut text, "D bit", format_args!("{:#X}", u8::from(header.status() & 0x8000 != 0)));
        field(&mut text, "status", format_args!("{:#X}", header.status() & 0x7FFF));
    } else {
        field(&mut text, "status", format_args!("{:#X}", header.status()));
    }
    field(&mut text, "hop_ptr", format_args!("{:#X}", mad.0[6]));
    field(&mut text, "hop_count", format_args!("{:#X}", smp.hop_count()));
    field(&mut text, "trans_id", format_args!("{:#x}", header.tid()));
    let attribute = AttrId::name(header.attr_id());
    field(&mut text, "attr_id", format_args!("{:#X} ({attribute})", header.attr_id()));
    field(&mut text, "attr_mod", format_args!("{:#X}", header.attr_mod()));
    field(&mut text, "m_key", key(smp.m_key().is_set()));
    if !is_directed {
        put!(text, "{INDENT}MAD IS LID ROUTED");
        return text;
    }
    let [source, destination] = mad.dr_lids();
    field(&mut text, "dr_slid", source);
    field(&mut text, "dr_dlid", destination);
    for (name, at) in [("Initial path: ", INITIAL_PATH), ("Return path:  ", RETURN_PATH)] {
        let ports = &mad.0[at..=at + usize::from(smp.hop_count()).min(MAX_HOPS)];
        let ports: Vec<String> = ports.iter().map(u8::to_string).collect();
        put!(text, "{INDENT}{name}{}", ports.join(","));
    }
    put_data(&mut text, defined_bytes(bytes).smp_data());
    text
}

fn put_data(text: &mut String, data: &[u8]) {
    text.push('\n');
    for line in data.chunks(LINE_BYTES) {
        text.push_str(INDENT);
        for (index, byte) in line.iter().enumerate() {
            let gap = match index {
                0 => "",
                8 => "   ",
                _ => " ",
            };
            put!(text, "{gap}{byte:02X}");
        }
    }
}

/// A subnet administration packet, or the first segment of a message.
pub(super) fn sa_dump(bytes: &[u8]) -> String {
    let mad = Mad::read(bytes);
    let header = mad.header();
    let rmpp = RmppHeader::read(&mad.0[RMPP_OFFSET..]);
    let sa = SaHeader::read(&mad.0[SA_OFFSET..DATA_OFFSET]);
    let mut text = "SA MAD dump:".to_owned();
    header_fields(&mut text, &mad, "SubnAdm");
    field(&mut text, "status", format_args!("{:#X}", header.status()));
    field(&mut text, "trans_id", format_args!("{:#x}", header.tid()));
    let attribute = match AttrId::name(header.attr_id()) {
        "unknown attribute" => SaAttr::name(header.attr_id()),
        general if header.attr_id() < AttrId::NODE_DESCRIPTION => general,
        _ => SaAttr::name(header.attr_id()),
    };
    field(&mut text, "attr_id", format_args!("{:#X} ({attribute})", header.attr_id()));
    field(&mut text, "attr_mod", format_args!("{:#X}", header.attr_mod()));
    field(&mut text, "rmpp_version", format_args!("{:#X}", rmpp.version()));
    field(&mut text, "rmpp_type", format_args!("{:#X}", rmpp.packet_type()));
    field(&mut text, "rmpp_flags", format_args!("{:#X}", mad.0[RMPP_OFFSET + 2]));
    field(&mut text, "rmpp_status", format_args!("{:#X}", rmpp.status()));
    field(&mut text, "seg_num", format_args!("{:#X}", rmpp.segment()));
    field(&mut text, "payload_len/new_win", format_args!("{:#X}", rmpp.payload_length()));
    field(&mut text, "sm_key", key(sa.sm_key().0 != 0));
    field(&mut text, "attr_offset", format_args!("{:#X}", sa.attribute_offset()));
    field(&mut text, "comp_mask", format_args!("0x{:016x}", sa.component_mask()));
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{MKey, PortNum};
    use crate::wire::smp::{DirectedRoute, SmpFields, SmpRoute, request};

    #[test]
    fn smps_are_shown_without_their_keys() {
        let route = DirectedRoute::new(&[PortNum(1), PortNum(7)]).expect("a short route");
        let data = [0xAB; 64];
        let route = SmpRoute::Directed(route);
        let mad = request(
            &route,
            SmpFields {
                method: Method::SET,
                attr_id: AttrId::PORT_INFO,
                attr_mod: 3,
                m_key: MKey(0x1234),
                tid: 0x55,
            },
            &data,
        );
        let text = smp_dump(&mad.0);
        for line in [
            "SMP dump:",
            "\t\t\t\tbase_ver................0x1",
            "\t\t\t\tmethod..................0x2 (SubnSet)",
            "\t\t\t\tattr_id.................0x15 (PortInfo)",
            "\t\t\t\tattr_mod................0x3",
            "\t\t\t\tm_key...................(set)",
            "\t\t\t\tInitial path: 0,1,7",
            "\t\t\t\t00 00 00 00 00 00 00 00   AB AB AB AB AB AB AB AB",
        ] {
            assert!(text.lines().any(|shown| shown == line), "{line} in {text}");
        }
        assert!(!text.contains("1234"), "{text}");
        let mad = request(
            &route,
            SmpFields {
                method: Method::SET,
                attr_id: AttrId::SL_TO_VL,
                attr_mod: 3,
                m_key: MKey::NONE,
                tid: 0x55,
            },
            &data,
        );
        let text = smp_dump(&mad.0);
        assert_eq!(text.matches("AB").count(), 8, "the rest is not defined: {text}");
        let lid = SmpRoute::Lid(crate::ids::Lid(5));
        let mad = request(
            &lid,
            SmpFields {
                method: Method::GET,
                attr_id: AttrId::SM_INFO,
                attr_mod: 0,
                m_key: MKey::NONE,
                tid: 1,
            },
            &data,
        );
        assert!(smp_dump(&mad.0).ends_with("\t\t\t\tMAD IS LID ROUTED"));
    }

    #[test]
    fn requests_of_clients_are_shown_without_the_sm_key() {
        let mut mad = Mad::read(&[]);
        let mut header = mad.header();
        header.set_class(Class::SUBN_ADM);
        header.set_method(Method::GET_TABLE.0);
        header.set_attr_id(SaAttr::PATH_RECORD);
        mad.set_header(&header);
        mad.0[SA_OFFSET..SA_OFFSET + 8].fill(0x77);
        let text = sa_dump(&mad.0);
        assert!(text.contains("method..................0x12 (SubnAdmGetTable)"), "{text}");
        assert!(text.contains("attr_id.................0x35 (PathRecord)"), "{text}");
        assert!(text.contains("sm_key..................(set)") && !text.contains("77"), "{text}");
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_shown_without_panic(bytes in proptest::collection::vec(0u8.., 0..300)) {
            proptest::prop_assert!(smp_dump(&bytes).starts_with("SMP dump:"));
            proptest::prop_assert!(sa_dump(&bytes).starts_with("SA MAD dump:"));
        }
    }
}
