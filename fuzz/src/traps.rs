//! Traps, from their arrival to the reports of their notices.

use super::sweeps;
use std::sync::OnceLock;
use std::time::Duration;
use torus_sm::ids::{Lid, Sl};
use torus_sm::observe::traps::{MAX_TRAPS_PER_PERIOD, TrapFilter, TrapVerdict};
use torus_sm::publish::Subnet;
use torus_sm::sa::Responder;
use torus_sm::sa::notices::{NoticeDispatcher, report_retry};
use torus_sm::sa::trap_origin;
use torus_sm::transport::Address;
use torus_sm::wire::attr::{Notice, TrapNumber};
use torus_sm::wire::mad::{Class, MAD_SIZE, Method};
use torus_sm::wire::record::InformInfo;
use torus_sm::wire::sa::{DATA_OFFSET, SaAttr};

/// Bytes of a trap in the input: LID of the sender, time, transaction ID, and a notice.
const TRAP_SIZE: usize = 3 + 64;

/// Traps of the ports of a small subnet. A port subscribes to all of them, with the SM_Key. A trap
/// that is reported must be one that its sender can have.
pub fn trap_intake(data: &[u8]) {
    static SUBNET: OnceLock<Subnet> = OnceLock::new();
    let subnet = SUBNET.get_or_init(sweeps::small_subnet);
    let mut filter = TrapFilter::default();
    let mut dispatcher = NoticeDispatcher::default();
    let mut now = tokio::time::Instant::now();
    let mut sa = Responder::default();
    let from = Address::gsi(Lid(1), Sl(0));
    sa.handle(subnet, &from, &subscription(subnet), now.into_std()).expect("a reply");
    let retry = report_retry(&subnet.options);
    for chunk in data.chunks_exact(TRAP_SIZE).take(256) {
        now += Duration::from_millis(u64::from(chunk[1]) * 4);
        let lid = Lid(chunk[0].into());
        let notice = Notice::read(&chunk[3..]);
        if let TrapVerdict::New(news) = filter.receive(now, chunk[2].into(), &notice) {
            assert!(news.count > 0, "{news:?}");
        }
        let registry = sa.registry_mut();
        let outcome = dispatcher.forward_trap(registry, subnet, lid, notice, now.into_std());
        if outcome.is_ok() {
            let sender = trap_origin::sender(subnet, lid).expect("a port");
            assert!(trap_origin::check(subnet, sender, &notice).is_ok());
            let of_sa = TrapNumber::GID_IN..=TrapNumber::MCAST_DELETED;
            assert!(!notice.is_generic() || !of_sa.contains(&notice.trap_number()));
        }
        while let Some(report) = dispatcher.next(now.into_std(), retry) {
            dispatcher.report_completed(report.tid, chunk[1] & 1 == 0, now.into_std());
        }
    }
    let due = filter.due(now + Duration::from_secs(3600));
    assert!(due.len() <= data.len() / TRAP_SIZE + MAX_TRAPS_PER_PERIOD as usize);
    assert_eq!(filter.next_due(), None);
}

/// SubnAdmSet(InformInfo) for all notices.
fn subscription(subnet: &Subnet) -> Vec<u8> {
    let mut info = InformInfo::default();
    info.set_lid_range_begin(Lid(0xFFFF));
    info.set_is_generic(1);
    info.set_subscribe(1);
    info.set_notice_type(0xFFFF);
    info.set_trap_number(0xFFFF);
    info.set_producer_type(0xFF_FFFF);
    let mut mad = vec![0; MAD_SIZE];
    mad[..4].copy_from_slice(&[1, Class::SUBN_ADM, 2, Method::SET.0]);
    mad[16..18].copy_from_slice(&SaAttr::INFORM_INFO.to_be_bytes());
    mad[36..44].copy_from_slice(&subnet.options.sa_key.0.to_be_bytes());
    let record = torus_sm::wire::record::Record::bytes(&info);
    mad[DATA_OFFSET..DATA_OFFSET + record.len()].copy_from_slice(record);
    mad
}
