//! Replies of the responder per second and core, on tori with two hosts per switch: paths by LIDs
//! and by GIDs, and the table of all nodes.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;
use testkit::sa_client::{path_query, request};
use testkit::snapshot::{pairs, torus};
use torus_sm::fabric::PortId;
use torus_sm::ids::Lid;
use torus_sm::ids::Sl;
use torus_sm::plan::Plan;
use torus_sm::publish::Subnet;
use torus_sm::sa::Responder;
use torus_sm::transport::Address;
use torus_sm::wire::mad::{Header, Mad, Method};
use torus_sm::wire::record::{NodeRecord, PathRecord};
use torus_sm::wire::sa::SaAttr;

/// Requests per iteration.
const REQUESTS: usize = 4096;

fn by_lids(subnet: &Subnet, [from, to]: [PortId; 2]) -> Mad {
    let mut wanted = PathRecord::default();
    wanted.set_slid(lid(&subnet.plan, from));
    wanted.set_dlid(lid(&subnet.plan, to));
    request(SaAttr::PATH_RECORD, Method::GET, PathRecord::SLID | PathRecord::DLID, &wanted)
}

fn lid(plan: &Arc<Plan>, port: PortId) -> Lid {
    plan.lids.base(port).expect("a LID")
}

fn by_gids(subnet: &Subnet, ends: [PortId; 2]) -> Mad {
    let guids = ends.map(|port| subnet.fabric.port(port).guid);
    path_query(subnet.options.subnet_prefix, guids)
}

fn answers(criterion: &mut Criterion) {
    answers_of(criterion, 8);
    answers_of(criterion, 16);
}

fn answers_of(criterion: &mut Criterion, radix: u16) {
    let subnet = torus([radix; 3], 2);
    let mut sa = Responder::default();
    let asker = subnet.plan.lids.base(subnet.fabric.local()).expect("a LID");
    let from = Address::gsi(asker, Sl(0));
    let now = Instant::now();
    let mut ask = |mad: &Mad| {
        let reply = sa.handle(&subnet, &from, &mad.0, now).expect("a reply");
        assert_eq!(Header::read(&reply.mad).status(), 0);
        reply
    };
    type Build = fn(&Subnet, [PortId; 2]) -> Mad;
    let kinds: [(&str, Build); 2] = [("by LIDs", by_lids), ("by GIDs", by_gids)];
    let shape = format!("{radix}x{radix}x{radix}");
    let mut group = criterion.benchmark_group(format!("{shape}: PathRecord Get"));
    group.throughput(Throughput::Elements(REQUESTS as u64));
    for (name, build) in kinds {
        let requests: Vec<Mad> =
            pairs(&subnet, REQUESTS).into_iter().map(|p| build(&subnet, p)).collect();
        group.bench_function(name, |bencher| {
            bencher.iter(|| requests.iter().for_each(|mad| drop(black_box(ask(mad)))));
        });
    }
    group.finish();
    let all = request(SaAttr::NODE_RECORD, Method::GET_TABLE, 0, &NodeRecord::default());
    criterion.bench_function(&format!("{shape}: NodeRecord GetTable"), |bencher| {
        bencher.iter(|| black_box(ask(&all)));
    });
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(10);
    targets = answers
}
criterion_main!(benches);
