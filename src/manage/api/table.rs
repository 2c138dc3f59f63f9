//! The table of resources and actions.

use super::endpoint::{ApiEndpoint, Handler};
use super::error::ApiError;
use super::query::Parameter;
use super::reply::{HttpReply, JSON};
use super::{
    OPENAPI, actions, adaptive, counters, fabric, groups, health, incidents, partitions,
    quarantine, routes, sa, status, torus, traffic,
};
use crate::manage::metrics::metrics;
use crate::manage::page::PAGE;

const EVENT_PARAMETERS: &[Parameter] = &[
    Parameter {
        name: "after",
        help: "Number of an event: later ones are sent. Without it, that of the header Last-Event-ID, \
               else only new events are sent.",
        is_required: false,
    },
    Parameter {
        name: "follow",
        help: "false ends the stream after the events that exist already; default true.",
        is_required: false,
    },
    Parameter {
        name: "event",
        help: "Only events with these names, separated by commas, such as incident_opened.",
        is_required: false,
    },
];

const ROUTE_PARAMETERS: &[Parameter] = &[
    Parameter {
        name: "from",
        help: "The source: LID, port or node GUID, or description of its node.",
        is_required: true,
    },
    Parameter {
        name: "to",
        help: "The destination: LID, port or node GUID, or description of its node.",
        is_required: true,
    },
    Parameter {
        name: "sl",
        help: "SL that a QoS level or partition requests, 0 to 15; default 0.",
        is_required: false,
    },
];

const COUNTER_PARAMETERS: &[Parameter] = &[
    NODE,
    Parameter { name: "port", help: "Only the port with this number.", is_required: false },
    Parameter {
        name: "errors_only",
        help: "true leaves out ports whose error counters are all 0.",
        is_required: false,
    },
    Parameter {
        name: "format",
        help: "json (the default), or opensm for the text of OpenSM's print_counters.",
        is_required: false,
    },
];

const NODE: Parameter = Parameter {
    name: "node",
    help: "Only this node: its GUID, or its description, also as of a port: \"node\"[3].",
    is_required: false,
};

const INCIDENT_PARAMETERS: &[Parameter] = &[
    Parameter {
        name: "id",
        help: "Only the incident with this identifier; 404 if there is none.",
        is_required: false,
    },
    Parameter { name: "severity", help: "Only critical, or only warning.", is_required: false },
    Parameter {
        name: "kind",
        help: "Only incidents of this kind, such as lost_cable.",
        is_required: false,
    },
];

const NODE_PARAMETERS: &[Parameter] = &[
    NODE,
    Parameter {
        name: "kind",
        help: "Only nodes of this kind: switch, ca or router.",
        is_required: false,
    },
];

const PORT_PARAMETERS: &[Parameter] = &[
    NODE,
    Parameter { name: "port", help: "Only the port with this number.", is_required: false },
    Parameter {
        name: "errors_only",
        help: "true leaves out ports whose error counters are all 0 or not read.",
        is_required: false,
    },
];

const LINK_PARAMETERS: &[Parameter] = &[
    NODE,
    Parameter { name: "down", help: "true leaves out links that are ACTIVE.", is_required: false },
    Parameter {
        name: "degraded",
        help: "true leaves out links that run at what both ends enable.",
        is_required: false,
    },
];

const fn get(
    path: &'static str,
    summary: &'static str,
    schema: &'static str,
    handler: Handler,
) -> ApiEndpoint {
    ApiEndpoint { method: "GET", path, summary, parameters: &[], schema, handler }
}

const fn post(
    path: &'static str,
    summary: &'static str,
    schema: &'static str,
    handler: Handler,
) -> ApiEndpoint {
    ApiEndpoint { method: "POST", path, summary, parameters: &[], schema, handler }
}

const fn with(parameters: &'static [Parameter], endpoint: ApiEndpoint) -> ApiEndpoint {
    ApiEndpoint { parameters, ..endpoint }
}

/// All resources and actions.
pub static ENDPOINTS: &[ApiEndpoint] = &[
    get("/", "A page that shows the fabric, for browsers.", "", Handler::Page(PAGE)),
    get(
        "/v1/status",
        "The state of the daemon: role, routing, sweeps, refusals, configuration.",
        "Status",
        Handler::Read(status::status),
    ),
    with(
        INCIDENT_PARAMETERS,
        get(
            "/v1/incidents",
            "Open incidents, the one to repair first first, and the last ones that have ended.",
            "IncidentsView",
            Handler::Read(incidents::incidents),
        ),
    ),
    get("/healthz", "200 while the daemon runs.", "HealthView", Handler::Read(health::healthz)),
    get(
        "/readyz",
        "200 while this SM is master of a configured subnet, or stands by for another; 503 else.",
        "HealthView",
        Handler::Read(health::readyz),
    ),
    get(
        "/v1/fabric",
        "Counts of nodes, ports and links.",
        "FabricView",
        Handler::Read(fabric::fabric),
    ),
    with(
        NODE_PARAMETERS,
        get("/v1/nodes", "All nodes.", "NodesView", Handler::Read(fabric::nodes)),
    ),
    with(
        PORT_PARAMETERS,
        get(
            "/v1/ports",
            "All ports that exist, with their states.",
            "PortsView",
            Handler::Read(fabric::ports),
        ),
    ),
    with(
        LINK_PARAMETERS,
        get("/v1/links", "All links.", "LinksView", Handler::Read(fabric::links)),
    ),
    with(
        ROUTE_PARAMETERS,
        get(
            "/v1/routes",
            "The path between two end ports, hop by hop, with SL and VLs.",
            "RouteView",
            Handler::Read(routes::routes),
        ),
    ),
    get(
        "/v1/groups",
        "Multicast groups and their members.",
        "GroupsView",
        Handler::Read(groups::groups),
    ),
    get(
        "/v1/partitions",
        "Partitions and their members.",
        "PartitionsView",
        Handler::Read(partitions::partitions),
    ),
    get(
        "/v1/torus",
        "Coordinates, rings and missing parts of the torus.",
        "TorusView",
        Handler::Read(torus::torus),
    ),
    with(
        &[NODE],
        get(
            "/v1/adaptive",
            "Switches with adaptive routing and their groups of ports.",
            "AdaptiveView",
            Handler::Read(adaptive::adaptive),
        ),
    ),
    with(
        traffic::PARAMETERS,
        get(
            "/v1/traffic",
            "The load of the links between switches under a pattern of traffic between hosts.",
            "TrafficView",
            Handler::Read(traffic::traffic),
        ),
    ),
    get("/v1/sa", "Counters of subnet administration.", "SaView", Handler::Read(sa::sa)),
    get(
        "/v1/perfmgr",
        "The state of the performance manager.",
        "PerfmgrView",
        Handler::Read(counters::perfmgr),
    ),
    with(
        COUNTER_PARAMETERS,
        get(
            "/v1/counters",
            "The counters of all ports with their rates, as JSON or in OpenSM's format.",
            "CountersView",
            Handler::Read(counters::counters),
        ),
    ),
    get(
        "/v1/quarantine",
        "Links that are treated as down, because they flap, report errors or an operator requested it.",
        "QuarantineView",
        Handler::Read(quarantine::quarantine),
    ),
    with(
        EVENT_PARAMETERS,
        get(
            "/v1/events",
            "Events as server-sent events, or as JSON lines if the client accepts application/x-ndjson.",
            "EventRecord",
            Handler::Events,
        ),
    ),
    get(
        "/metrics",
        "Metrics in the format of Prometheus, or of OpenMetrics if the client accepts that.",
        "",
        Handler::Read(metrics),
    ),
    get(
        "/v1/openapi.json",
        "This description.",
        "",
        Handler::Read(|_, _| Ok(HttpReply::text(JSON, OPENAPI.to_owned()))),
    ),
    post(
        "/v1/replay",
        "The fabric at the moments of the recording in the body, or of the flight recorder of this daemon if \
         the body is empty; it needs the permission to act.",
        "RecordedView",
        Handler::Replay,
    ),
    post("/v1/actions/resweep", "Run a heavy sweep.", "", Handler::Act(actions::resweep)),
    post(
        "/v1/actions/reroute",
        "Plan again for the observed fabric, and write the differences.",
        "",
        Handler::Act(actions::reroute),
    ),
    post(
        "/v1/actions/reload",
        "Read the configuration again, as SIGHUP does.",
        "",
        Handler::Act(actions::reload),
    ),
    post(
        "/v1/actions/loglevel",
        "Set the log flags until the next reload.",
        "LogLevelBody",
        Handler::Act(actions::loglevel),
    ),
    post(
        "/v1/actions/priority",
        "Set the priority of this SM until the next reload.",
        "PriorityBody",
        Handler::Act(actions::priority),
    ),
    post(
        "/v1/actions/dump",
        "Write the dump files, those of routes included.",
        "",
        Handler::Act(actions::dump),
    ),
    post(
        "/v1/actions/handover",
        "Hand over to a standby SM.",
        "HandoverBody",
        Handler::Act(actions::handover),
    ),
    post(
        "/v1/actions/record",
        "Write a recording of the flight recorder; 409 if it is off.",
        "",
        Handler::Act(actions::record),
    ),
    post(
        "/v1/actions/quarantine",
        "Treat a link as down until it is released; 409 if the port has no link.",
        "LinkBody",
        Handler::Act(actions::quarantine),
    ),
    post(
        "/v1/actions/release",
        "End the quarantine of a link; 409 if it is not quarantined.",
        "LinkBody",
        Handler::Act(actions::release),
    ),
    post(
        "/v1/actions/what-if",
        "Plan and verify the fabric without a link, and write nothing; the effect is the text of action_done.",
        "LinkBody",
        Handler::Act(actions::what_if),
    ),
    post(
        "/v1/actions/perfmgr",
        "Give a command to the performance manager.",
        "PerfmgrBody",
        Handler::Act(actions::perfmgr),
    ),
    post(
        "/v1/actions/accept",
        "Accept what an incident has lost: it does not count as missing any more.",
        "IncidentBody",
        Handler::Act(actions::accept),
    ),
    post("/v1/actions/exit", "End the daemon, as SIGTERM does.", "", Handler::Act(actions::exit)),
];

/// The row for a method and a path.
///
/// # Errors
/// There is no such path (404), or it has another method (405).
pub fn find(method: &str, path: &str) -> Result<&'static ApiEndpoint, ApiError> {
    let Some(endpoint) = ENDPOINTS.iter().find(|endpoint| endpoint.path == path) else {
        let text = format!("there is no {path}; /v1/openapi.json describes what there is");
        return Err(ApiError::new(404, text));
    };
    if endpoint.method != method {
        let error = ApiError::new(405, format!("{path} is for {} only", endpoint.method));
        return Err(ApiError { allowed: Some(endpoint.method), ..error });
    }
    Ok(endpoint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_paths_and_methods_are_rejected() {
        assert_eq!(find("GET", "/v1/status").map(|found| found.path), Ok("/v1/status"));
        assert_eq!(
            find("GET", "/v1/statu").map(|found| found.path).map_err(|e| e.status),
            Err(404)
        );
        let error = find("GET", "/v1/actions/exit").map(|found| found.path).expect_err("wrong");
        assert_eq!((error.status, error.allowed), (405, Some("POST")));
    }

    #[test]
    fn every_path_is_in_the_table_once() {
        for (index, endpoint) in ENDPOINTS.iter().enumerate() {
            assert!(ENDPOINTS[..index].iter().all(|other| other.path != endpoint.path));
        }
    }
}
