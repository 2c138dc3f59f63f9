//! Writes a generated torus as the two files that subnet managers and simulators read:
//! `make_fabric SHAPE HOSTS FOLDER`.
use std::path::Path;
use torus_sm::fabric::ibnet;
use torus_sm::sim::generate::Shape;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().collect();
    let [_, shape, hosts, folder] = &args[..] else {
        return Err("usage: make_fabric SHAPE HOSTS FOLDER".into());
    };
    let mut shape: Shape = shape.parse()?;
    shape.hosts = hosts.parse()?;
    let folder = Path::new(folder);
    std::fs::create_dir_all(folder)?;
    std::fs::write(folder.join("fabric.net"), ibnet::write(&shape.build()?))?;
    std::fs::write(folder.join("torus-2QoS.conf"), shape.torus_conf())?;
    Ok(())
}
