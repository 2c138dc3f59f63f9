//! Answers of the subnet administrator per second and core, on an 8x8x8 torus with two hosts
//! per switch: paths by LIDs and by GIDs, and the table of all nodes.

#![allow(missing_docs, reason = "criterion_group! makes public functions without any")]

#[path = "../tests/support/sa.rs"]
mod support;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use std::hint::black_box;
use std::time::Instant;
use support::{path_query, request, torus};
use torus_sm::fabric::PortId;
use torus_sm::ids::Sl;
use torus_sm::publish::Subnet;
use torus_sm::sa::Responder;
use torus_sm::transport::Address;
use torus_sm::wire::mad::{Header, Mad, Method};
use torus_sm::wire::record::{NodeRecord, PathRecord};
use torus_sm::wire::sa::SaAttr;

/// Requests of one round.
const REQUESTS: usize = 4096;

/// Pairs of hosts from all over the torus, the same in each run.
fn pairs(subnet: &Subnet) -> Vec<(PortId, PortId)> {
    let fabric = &subnet.fabric;
    let hosts: Vec<PortId> =
        fabric.end_ports().filter(|&port| !fabric.node_of(port).is_switch()).collect();
    let pick = |n: usize| hosts[n.wrapping_mul(0x9E37_79B1) % hosts.len()];
    (0..REQUESTS).map(|n| (pick(n), pick(n + 7 * REQUESTS))).collect()
}

fn by_lids(subnet: &Subnet, (from, to): (PortId, PortId)) -> Mad {
    let lid = |port| subnet.plan.lids.base(port).expect("a LID");
    let mut wanted = PathRecord::default();
    wanted.set_slid(lid(from));
    wanted.set_dlid(lid(to));
    request(SaAttr::PATH_RECORD, Method::GET, PathRecord::SLID | PathRecord::DLID, &wanted)
}

fn by_gids(subnet: &Subnet, (from, to): (PortId, PortId)) -> Mad {
    let guids = [from, to].map(|port| subnet.fabric.port(port).guid);
    path_query(subnet.options.subnet_prefix, guids)
}

fn answers(criterion: &mut Criterion) {
    let subnet = torus([8; 3], 2);
    let mut sa = Responder::default();
    let asker = subnet.plan.lids.base(subnet.fabric.local()).expect("a LID");
    let (from, now) = (Address::gsi(asker, Sl(0)), Instant::now());
    let mut ask = |mad: &Mad| {
        let reply = sa.handle(&subnet, &from, &mad.0, now).expect("a reply");
        assert_eq!(Header::read(&reply.mad).status(), 0);
        reply
    };
    type Build = fn(&Subnet, (PortId, PortId)) -> Mad;
    let kinds: [(&str, Build); 2] = [("by LIDs", by_lids), ("by GIDs", by_gids)];
    let mut group = criterion.benchmark_group("PathRecord Get");
    group.throughput(Throughput::Elements(REQUESTS as u64));
    for (name, build) in kinds {
        let requests: Vec<Mad> = pairs(&subnet).into_iter().map(|p| build(&subnet, p)).collect();
        group.bench_function(name, |bencher| {
            bencher.iter(|| requests.iter().for_each(|mad| drop(black_box(ask(mad)))));
        });
    }
    group.finish();
    let all = request(SaAttr::NODE_RECORD, Method::GET_TABLE, 0, &NodeRecord::default());
    criterion.bench_function("NodeRecord GetTable", |bencher| {
        bencher.iter(|| black_box(ask(&all)));
    });
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(10);
    targets = answers
}
criterion_main!(benches);
