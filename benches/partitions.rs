//! Time to plan the P_Key tables of 40,000 ports and 500 partitions, with each port in 500, in 100
//! or in 13 partitions on average.

use criterion::{Criterion, criterion_group, criterion_main};
use std::fmt::Write;
use std::hint::black_box;
use std::path::Path;
use torus_sm::config::options::Options;
use torus_sm::config::partitions::PartitionsConfig;
use torus_sm::fabric::Fabric;
use torus_sm::fabric::synthetic::{Hardware, SyntheticView};
use torus_sm::plan::partitions;
use torus_sm::plan::partitions::removed_pkeys::RemovedPkeys;
use torus_sm::sim::generate::Shape;
use torus_sm::wire::attr::tables::PkeyTable;

/// 20x20x20 switches with four hosts each: 40,000 end ports.
fn fabric(shape: &Shape) -> Fabric {
    let topology = shape.build().expect("the shape fits a fabric");
    let hardware =
        Hardware { partition_cap: 512, partition_enforcement_cap: 512, ..Hardware::default() };
    let view = SyntheticView { hardware, ..SyntheticView::default() };
    Fabric::from_topology(&topology, 0, &view).expect("node 0 exists")
}

/// 500 partitions that list their members by GUID; port n is in those whose number equals n modulo
/// `step`.
fn config(shape: &Shape, step: usize) -> PartitionsConfig {
    let mut text = String::new();
    let hosts = (0..32_000_u16).map(|n| {
        let switch = n / 4;
        let host = (n % 4) as u8;
        shape.host_guid([switch / 400, switch / 20 % 20, switch % 20], host).0 + 1
    });
    let hosts: Vec<u64> = hosts.collect();
    for key in 1..=500_usize {
        let _ = write!(text, "P{key}={key}, defmember=full : ");
        if step == 1 {
            text += "ALL";
        } else {
            for guid in hosts.iter().skip(key % step).step_by(step) {
                let _ = write!(text, "{guid:#x}, ");
            }
        }
        text += ";\n";
    }
    let (config, findings) = PartitionsConfig::parse(Path::new("partitions.conf"), &text);
    config.unwrap_or_else(|| panic!("{findings:?}"))
}

fn plan(criterion: &mut Criterion) {
    let shape = Shape { hosts: 4, ..Shape::torus([20; 3]) };
    let fabric = fabric(&shape);
    let options = Options::default();
    let mut group = criterion.benchmark_group("40000 ports, 500 partitions");
    group.sample_size(10);
    for (name, step) in [("all in all", 1), ("100 each", 5), ("13 each", 38)] {
        let config = config(&shape, step);
        let (found, _) = partitions::partitions(&config, &options, &[]);
        let gone = RemovedPkeys::default();
        let (first, _, notes) = partitions::tables(&fabric, &found, &[], &gone, &options);
        assert_eq!(notes, []);
        let held: Vec<PkeyTable> = first
            .blocks
            .iter()
            .map(|table| table.iter().map(|(_, block)| *block).collect())
            .collect();
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                let (found, _) = partitions::partitions(black_box(&config), &options, &found);
                partitions::tables(&fabric, &found, &held, &gone, &options).0.keys.len()
            });
        });
    }
    group.finish();
}

criterion_group!(benches, plan);
criterion_main!(benches);
