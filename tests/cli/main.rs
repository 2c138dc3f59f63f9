//! The command line, the subcommands and the configuration files.

mod check;
mod check_torus;
mod config_mistakes;
mod opensm_options;
mod opensm_templates;
mod options;
mod output;
mod packages;
mod partitions;
mod plan;
mod readme;
mod replay;
mod routing_chain;
mod service;
mod torus_config;
mod what_if;
