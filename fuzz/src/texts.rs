//! Files and the command line.

use std::path::Path;
use torus_sm::cli;
use torus_sm::config::options::Options;
use torus_sm::config::torus::TorusConfig;
use torus_sm::config::{guid_lists as lists, guid2lid as cache};
use torus_sm::fabric::Fabric;
use torus_sm::fabric::ibnet;
use torus_sm::fabric::picture::View;
use torus_sm::ids::Lid;

fn text(data: &[u8]) -> String {
    String::from_utf8_lossy(data).into_owned()
}

/// opensm.conf: what is written of the options is read as the same options, settled ones too.
pub fn opensm_conf(data: &[u8]) {
    let file = Path::new("opensm.conf");
    let (mut options, _) = Options::parse(&text(data), file);
    for _ in 0..2 {
        let (back, diagnostics) = Options::parse(&options.to_text(), file);
        assert!(diagnostics.is_empty(), "{diagnostics:?}");
        assert!(back == options, "{} became {}", options.to_text(), back.to_text());
        options.settle();
    }
    let settled = options.clone();
    options.settle();
    assert!(options == settled);
    options.unsupported();
    Options::default().reloaded(&options);
}

/// torus-2QoS.conf.
pub fn torus_conf(data: &[u8]) {
    match TorusConfig::parse(Path::new("torus-2QoS.conf"), &text(data)) {
        Ok(config) => assert_eq!(config, config.clone()),
        Err(notes) => assert!(!notes.is_empty(), "a refusal without a reason"),
    }
}

/// guid2lid: what counts of the ranges is apart, and they come back as written.
pub fn guid2lid(data: &[u8]) {
    let lmc = data.first().copied().unwrap_or_default() % 8;
    let file = Path::new("guid2lid");
    let (map, _) = cache::parse(file, &text(data.get(1..).unwrap_or_default()), lmc);
    let mut ranges: Vec<_> = map.values().copied().collect();
    ranges.sort();
    assert!(ranges.iter().all(|(first, last)| first.0 > 0 && first <= last));
    let taken = |&(first, last): &(Lid, Lid)| last.0.min(first.0.saturating_add((1 << lmc) - 1));
    assert!(ranges.windows(2).all(|pair| taken(&pair[0]) < pair[1].0.0));
    let (back, findings) = cache::parse(file, &cache::emit(&map), lmc);
    assert!(findings.is_empty(), "{findings:?}");
    assert!(back == map);
}

/// The files of GUIDs that tune routing.
pub fn guid_lists(data: &[u8]) {
    let (file, text) = (Path::new("guids"), text(data));
    let lines = text.lines().count();
    assert!(lists::guids(file, &text).entries.len() <= lines);
    assert!(lists::ports(file, &text).entries.len() <= lines);
    let weights = lists::hop_weights(file, &text).entries;
    assert!(weights.iter().all(|weight| weight.weight > 0 && weight.port.0 > 0));
    let orders = lists::search_orders(file, &text).entries;
    assert!(orders.iter().all(|order| !order.ports.is_empty()));
}

/// ibnetdiscover's text: what is accepted can be written, read again, and pictured.
pub fn ibnetdiscover(data: &[u8]) {
    let file = Path::new("fabric.net");
    let Ok(topology) = ibnet::parse(file, &text(data)) else { return };
    let written = ibnet::write(&topology);
    let again = ibnet::parse(file, &written).unwrap_or_else(|error| panic!("{error}\n{written}"));
    assert_eq!(again.nodes.len(), topology.nodes.len());
    assert_eq!(again.cables.len(), topology.cables.len());
    if let Some(fabric) = Fabric::from_topology(&topology, 0, &View::default()) {
        assert!(fabric.nodes().len() <= topology.nodes.len());
    }
}

/// The command line, one word a line.
pub fn argv(data: &[u8]) {
    if let Ok(cli::Command::Daemon(args)) = cli::parse(text(data).lines()) {
        let mut options = Options::default();
        args.apply(&mut options);
        options.settle();
    }
}
