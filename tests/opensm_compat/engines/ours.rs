//! The plan of a case with OpenSM's LIDs, and its verification.

use super::EngineCase;
use super::theirs::Tables;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use testkit::dumps::{LidLfts, Mfts, SlToVls};
use torus_sm::cli::configuration;
use torus_sm::config::options::Options;
use torus_sm::config::{files, guid2lid};
use torus_sm::fabric::synthetic::SyntheticView;
use torus_sm::fabric::{Fabric, PortId};
use torus_sm::ids::{Guid, Lid, Mlid, PortNum, Sl};
use torus_sm::notes::Severity;
use torus_sm::plan::compute::{PlanInput, Registrations, compute};
use torus_sm::plan::lids::Memory;
use torus_sm::plan::multicast::GroupMembers;
use torus_sm::plan::routing::lash::LashPolicy;
use torus_sm::plan::routing::sssp::SsspPolicy;
use torus_sm::plan::routing::{Lft, PortMask, Routing, RoutingPolicy, dnup, ftree, minhop, updn};
use torus_sm::plan::{Plan, partitions};
use torus_sm::verify::{Checks, Summary, VerifyFailure, verify};

/// Fabric, options and LIDs of a case.
pub(crate) struct Ours<'a> {
    pub case: &'a EngineCase,
    pub fabric: Fabric,
    options: Options,
    memory: Memory,
}

impl<'a> Ours<'a> {
    /// Reads the same files as OpenSM; `lids` is the text of guid2lid.
    pub(crate) fn new(case: &'a EngineCase, lids: &str) -> Self {
        let fabric = Fabric::from_topology(&case.topology, case.local, &SyntheticView::default());
        let mut options = Options { log_flags: 0x43, ..Options::default() };
        let found = options.read(&case.conf, Path::new("opensm.conf"));
        assert!(found.iter().all(|found| found.severity != Severity::Error), "{found:?}");
        let (guid2lid, _) = guid2lid::parse(Path::new("guid2lid"), lids, options.lmc);
        Self { case, fabric: fabric.expect("a node"), options, memory: Memory::new(guid2lid) }
    }

    /// The plan.
    ///
    /// # Errors
    /// The reasons of the engine.
    pub(crate) fn plan(&self) -> Result<Plan, String> {
        self.plan_by(&format!("{},no_fallback", self.case.engine), None)
    }

    /// The plan of minhop if `lfts` are its own tables of the fabric `before`: entries that still have
    /// the least hops stay, and the others are balanced together with them.
    ///
    /// # Errors
    /// The reasons of minhop.
    pub(crate) fn plan_after(&self, before: &Self, lfts: &LidLfts) -> Result<Plan, String> {
        let earlier = before.plan_by(minhop::NAME, None)?;
        let routing = Arc::new(before.with_lfts(&earlier, lfts));
        self.plan_by(minhop::NAME, Some(&Plan { routing, ..earlier }))
    }

    fn plan_by(&self, engines: &str, previous: Option<&Plan>) -> Result<Plan, String> {
        let folder = tempfile::tempdir().expect("a folder");
        self.case.write(folder.path());
        let text = fs::read_to_string(folder.path().join("opensm.conf")).expect("a file");
        let mut options = self.options.clone();
        options.read(&text, &folder.path().join("opensm.conf"));
        options.routing_engine = Some(engines.to_owned());
        let (routing_files, notes) = files::routing_files(&options);
        assert!(notes.is_empty(), "{notes:?}");
        let chain = configuration::chain(&options, routing_files).expect("engines that exist");
        let planned = compute(&PlanInput {
            fabric: &self.fabric,
            options: &options,
            memory: &self.memory,
            torus_config: &files::torus_config(&options),
            partitions: &partitions::default(&options),
            observed_pkeys: &[],
            registrations: Registrations { groups: &self.groups(), ..Registrations::default() },
            previous,
            reregister: &|_| false,
            chain: &chain,
            qos_policy: None,
        });
        let text = |error: &torus_sm::plan::routing::RoutingError| {
            let notes: Vec<String> = error.notes.iter().map(ToString::to_string).collect();
            format!("{}: {}", error.engine, notes.join("\n"))
        };
        let planned = planned.map_err(|failure| {
            failure.routing_errors.iter().map(text).collect::<Vec<_>>().join("\n")
        })?;
        Ok(planned.plan)
    }

    fn groups(&self) -> Vec<GroupMembers> {
        let group = |(mlid, members): (u16, &Vec<Guid>)| GroupMembers {
            mlid: Mlid(mlid),
            sl: Sl(0),
            members: members.iter().filter_map(|&guid| self.fabric.port_by_guid(guid)).collect(),
            senders: Vec::new(),
        };
        self.case.mlids().zip(&self.case.groups).map(group).collect()
    }

    /// Verifies a plan.
    ///
    /// # Errors
    /// The faults, as a text.
    pub(crate) fn verify(&self, plan: Plan) -> Result<Summary, String> {
        let checks = Checks::of(&self.options);
        match verify(&self.fabric, plan, &checks) {
            Ok(verified) => Ok(verified.summary().clone()),
            Err(failure) => Err(failure.to_string()),
        }
    }

    /// Verifies OpenSM's forwarding tables, as those of an engine that uses a single VL.
    ///
    /// # Errors
    /// The reasons of minhop, whose plan the tables replace, if it has none.
    pub(crate) fn verify_theirs(
        &self,
        theirs: &Tables,
    ) -> Result<Result<Summary, VerifyFailure>, String> {
        let plan = self.plan_by(minhop::NAME, None)?;
        let mut routing = self.with_lfts(&plan, &theirs.lfts);
        if [ftree::NAME, updn::NAME, dnup::NAME].contains(&self.case.engine) {
            routing.policy = Arc::new(OmitsSwitchRoutes);
        }
        let plan = Plan { routing: Arc::new(routing), ..plan };
        let result = verify(&self.fabric, plan, &Checks::of(&self.options).strict());
        Ok(result.map(|verified| verified.summary().clone()))
    }

    /// Verifies OpenSM's forwarding tables with the SLs of our plan.
    ///
    /// # Errors
    /// The faults, as a text.
    pub(crate) fn verify_their_lfts(&self, plan: Plan, theirs: &Tables) -> Result<Summary, String> {
        let routing = Arc::new(self.with_lfts(&plan, &theirs.lfts));
        self.verify_strictly(Plan { routing, ..plan })
    }

    /// Our routing with other forwarding tables.
    fn with_lfts(&self, plan: &Plan, lfts: &LidLfts) -> Routing {
        let mut routing = (*plan.routing).clone();
        for switch in self.fabric.switch_ids() {
            let guid = self.fabric.switch(switch).guid().0;
            let mut lft = Lft::empty(plan.lids.max());
            for (lid, _) in plan.lids.iter() {
                if let Some(&port) = lfts.entries.get(&(guid, lid.0)) {
                    lft.set(lid, port);
                }
            }
            routing.lfts[switch.index()] = Arc::new(lft);
        }
        routing
    }

    /// Verifies OpenSM's multicast forwarding tables together with our other tables.
    ///
    /// # Errors
    /// The faults, as a text.
    pub(crate) fn verify_their_mfts(
        &self,
        plan: &Plan,
        theirs: &Tables,
    ) -> Result<Summary, String> {
        let mut multicast = (*plan.multicast).clone();
        multicast.by_switch.iter_mut().for_each(Vec::clear);
        for (&(mlid, switch), ports) in &theirs.mfts {
            let node = self.fabric.node_by_guid(Guid(switch)).map(|node| self.fabric.node(node));
            let switch = node.and_then(|node| node.switch).expect("a switch of the fabric");
            let mut mask = PortMask::default();
            ports.iter().for_each(|&port| mask.insert(port));
            multicast.by_switch[switch.index()].push((Mlid(mlid), mask));
        }
        self.verify(Plan { multicast: Arc::new(multicast), ..plan.clone() })
    }

    pub(crate) fn lfts(&self, plan: &Plan) -> LidLfts {
        let mut lfts = LidLfts::default();
        for (lid, port) in plan.lids.iter() {
            lfts.owners.insert(lid.0, self.fabric.port(port).guid.0);
            for switch in self.fabric.switch_ids() {
                let guid = self.fabric.switch(switch).guid().0;
                if let Some(out) = plan.routing.lft(switch).out(Lid(lid.0)) {
                    lfts.entries.insert((guid, lid.0), out);
                }
            }
        }
        lfts
    }

    pub(crate) fn mfts(&self, plan: &Plan) -> Mfts {
        let mut mfts = Mfts::new();
        for switch in self.fabric.switch_ids() {
            let guid = self.fabric.switch(switch).guid().0;
            for (mlid, mask) in &plan.multicast.by_switch[switch.index()] {
                mfts.insert((mlid.0, guid), mask.iter().collect());
            }
        }
        mfts
    }

    /// The mappings that the engine decides, of all (owner, input, output) in `wanted`.
    pub(crate) fn sl_to_vls(&self, plan: &Plan, wanted: &SlToVls) -> SlToVls {
        let vls = |&(owner, input, output): &(u64, u8, u8)| -> Option<Vec<u8>> {
            let node = self.fabric.node_by_guid(Guid(owner));
            let (input, output) = match node.filter(|&id| self.fabric.node(id).is_switch()) {
                Some(node) => (
                    self.fabric.port_of(node, PortNum(input))?,
                    self.fabric.port_of(node, PortNum(output))?,
                ),
                None => {
                    let port = self.fabric.port_by_guid(Guid(owner))?;
                    (port, port)
                }
            };
            Some(plan.routing.policy.sl_to_vl(input, output)?.vls().to_vec())
        };
        wanted.keys().filter_map(|key| Some((*key, vls(key)?))).collect()
    }
}

impl Ours<'_> {
    /// The lowest VL of each path of DFSSSP, of all (source LID, destination LID) in `wanted`.
    pub(crate) fn path_vls(
        &self,
        plan: &Plan,
        wanted: &BTreeMap<(u16, u16), u8>,
    ) -> BTreeMap<(u16, u16), u8> {
        let policy = Self::policy(plan);
        let vl = |&(source, destination): &(u16, u16)| {
            let source = plan.lids.port(Lid(source))?;
            Some(policy?.base_sl(source, Lid(destination))?.0)
        };
        wanted.keys().filter_map(|pair| Some((*pair, vl(pair)?))).collect()
    }

    /// The policy of SSSP or DFSSSP.
    pub(crate) fn policy(plan: &Plan) -> Option<&SsspPolicy> {
        plan.routing.policy.as_any().downcast_ref()
    }

    /// The number of paths in each layer of LASH before balancing; empty with other engines.
    pub(crate) fn layers<'p>(&self, plan: &'p Plan) -> &'p [usize] {
        let policy = plan.routing.policy.as_any().downcast_ref::<LashPolicy>();
        policy.map_or(&[], LashPolicy::paths_before_balancing)
    }

    /// True if a LID is that of a switch.
    pub(crate) fn is_switch(&self, plan: &Plan, lid: u16) -> bool {
        plan.lids.port(Lid(lid)).is_some_and(|port| self.fabric.node_of(port).is_switch())
    }

    /// Verifies a plan in which packets from switches have SL 0.
    ///
    /// # Errors
    /// The faults, as a text.
    pub(crate) fn verify_switches_on_vl_0(&self, plan: Plan) -> Result<Summary, String> {
        let fabric = &self.fabric;
        let is_switch = fabric.port_ids().map(|port| fabric.node_of(port).is_switch()).collect();
        let mut routing = (*plan.routing).clone();
        routing.policy = Arc::new(SwitchesOnVl0 { inner: routing.policy, is_switch });
        self.verify_strictly(Plan { routing: Arc::new(routing), ..plan })
    }

    /// Verifies a plan by the rules of `refuse_faulty_routes`.
    fn verify_strictly(&self, plan: Plan) -> Result<Summary, String> {
        match verify(&self.fabric, plan, &Checks::of(&self.options).strict()) {
            Ok(verified) => Ok(verified.summary().clone()),
            Err(failure) => Err(failure.to_string()),
        }
    }
}

/// The policy of an engine, except that packets from switches have SL 0.
struct SwitchesOnVl0 {
    inner: Arc<dyn RoutingPolicy>,
    /// By port.
    is_switch: Vec<bool>,
}

impl RoutingPolicy for SwitchesOnVl0 {
    fn path_sl_to_lid(&self, from: PortId, to: PortId, lid: Lid, hint: Sl) -> Sl {
        if self.is_switch[from.index()] {
            Sl(0)
        } else {
            self.inner.path_sl_to_lid(from, to, lid, hint)
        }
    }

    fn destination_group(&self, port: PortId, lid: Lid) -> u32 {
        self.inner.destination_group(port, lid)
    }

    fn guarantees_no_credit_loops(&self) -> bool {
        true
    }

    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}

/// The policy of trees, in which some switches do not reach each other.
struct OmitsSwitchRoutes;

impl RoutingPolicy for OmitsSwitchRoutes {
    fn sl_group(&self, _port: PortId) -> u32 {
        0
    }

    fn may_omit_switch_routes(&self) -> bool {
        true
    }

    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}
