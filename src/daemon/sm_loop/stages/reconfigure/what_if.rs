//! The effect of the loss of a link on the running subnet, planned and verified before it is pulled.

use super::Reconfigurer;
use super::registry_queries;
use crate::config::options::Options;
use crate::contained;
use crate::daemon::process::priority::spawn_idle;
use crate::daemon::sm_loop::context::ManagerContext;
use crate::daemon::sm_loop::planning::PlanRequest;
use crate::fabric::quarantined::{QuarantineCause, QuarantinedLink};
use crate::fabric::{End, Fabric};
use crate::incidents::fact::Cable;
use crate::notes::counted;
use crate::observe::{Observation, quarantine};
use crate::plan::Plan;
use crate::publish::report::{link_loads, worst_link};
use crate::verify::Verified;
use std::sync::Arc;

/// A link that may be pulled, and the input of the plan without it.
pub struct LinkStudy {
    name: String,
    /// The fabric with the link.
    whole: Arc<Fabric>,
    in_force: Arc<Plan>,
    request: PlanRequest,
}

impl Reconfigurer {
    /// The input of the plan without the link at a port.
    ///
    /// # Errors
    /// There is no plan or no such link, or a part of the fabric is reached by it alone.
    pub async fn study_link(
        &mut self,
        context: &ManagerContext,
        options: &Arc<Options>,
        observation: &Observation,
        end: End,
    ) -> Result<LinkStudy, String> {
        let in_force = self.plan.in_force.clone().ok_or("no plan is in force yet")?;
        let whole = observation.fabric.clone();
        let port = whole.port_by_end(end);
        let cable = port.and_then(|port| Cable::of(&whole, port));
        let cable = cable.ok_or_else(|| format!("{}[{}] has no link", end.0, end.1))?;
        let cause = QuarantineCause::Operator;
        let link = QuarantinedLink { ends: cable.key(), cause, calm: None };
        let (without, needed) = quarantine::without_links(observation.clone(), &[link]);
        if !needed.is_empty() {
            return Err(format!(
                "without the cable {cable}, a switch or this SM would be cut off: no other path leads there"
            ));
        }
        let (_, groups) = registry_queries::groups(&context.sa_server, &without).await;
        let request = self.request(context, options, &without, groups).await?;
        Ok(LinkStudy { name: cable.to_string(), whole, in_force, request })
    }
}

impl LinkStudy {
    /// Plans and verifies the fabric without the link, beside all other work. Returns the effect in
    /// words.
    ///
    /// # Errors
    /// Planning has failed.
    pub async fn run(self) -> Result<String, String> {
        let planned = spawn_idle(move || contained::run(|| self.effect())).await;
        match planned {
            Ok(Ok(text)) => Ok(text),
            Ok(Err(panic)) => {
                contained::log("planning without a link", &panic, "the request fails");
                Err("planning has failed; the log has the reason".to_owned())
            }
            Err(problem) => Err(format!("planning has failed: {problem}")),
        }
    }

    fn effect(&self) -> String {
        let Self { name, in_force, request, .. } = self;
        let verified = match request.plan(Some(in_force), None) {
            Ok(outcome) => outcome.verdict.map_err(|failure| failure.to_string()),
            Err(rejected) => Err(match rejected.routing_errors.iter().find_map(|it| it.reason()) {
                Some(reason) => reason.to_string(),
                None => "no routing engine routes the rest".to_owned(),
            }),
        };
        match verified {
            Ok(verified) => {
                let parts = self.parts(&verified);
                format!("without the cable {name}: {}", parts.join("; "))
            }
            Err(reason) => format!(
                "without the cable {name} there is NO VALID PLAN, and the devices would keep their tables: {reason}"
            ),
        }
    }

    fn parts(&self, verified: &Verified) -> Vec<String> {
        let Self { whole, in_force, request, .. } = self;
        let left = &request.fabric;
        let plan = verified.plan();
        let summary = verified.summary();
        let engine = plan.routing.engine;
        let mut parts = vec![if engine == in_force.routing.engine {
            format!("{engine} routes the rest")
        } else {
            format!("{engine} routes the rest INSTEAD OF {}", in_force.routing.engine)
        }];
        parts.push(match &summary.cycle {
            None => "verified, no credit loop".to_owned(),
            Some(cycle) => format!("verified with a CREDIT LOOP: {cycle}"),
        });
        let lost = whole.nodes().len() - left.nodes().len();
        if lost > 0 {
            parts.push(format!("{} CUT OFF", counted(lost, "node is", "nodes are")));
        }
        let hosts = summary.unrouted.hosts;
        if hosts > 0 {
            parts.push(format!(
                "{} NO ROUTE",
                counted(hosts, "pair of hosts has", "pairs of hosts have")
            ));
        }
        let longest = summary.longest_path as usize;
        parts.push(format!("longest path {}", counted(longest, "switch", "switches")));
        let before = worst_link(whole, &link_loads(whole, in_force)).map(|(_, lids)| lids);
        let after = worst_link(left, &link_loads(left, plan)).map(|(_, lids)| lids);
        if let (Some(before), Some(after)) = (before, after) {
            parts.push(format!(
                "at most {} on one link, now {before}",
                counted(after, "LID", "LIDs")
            ));
        }
        parts
    }
}
