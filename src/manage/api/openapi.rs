//! Keeps etc/torus-sm-openapi.json true: it is what the table of resources and the types of the
//! replies make. UPDATE_GOLDEN=1 writes it.

use super::*;
use crate::manage::action::{
    HandoverBody, IncidentBody, LinkBody, LogLevelBody, PerfmgrBody, PriorityBody,
};
use crate::manage::event_log::EventRecord;
use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

/// The types of replies.
fn add_replies(generator: &mut SchemaGenerator) {
    generator.subschema_for::<status::StatusView>();
    generator.subschema_for::<incidents::IncidentsView>();
    generator.subschema_for::<health::HealthView>();
    generator.subschema_for::<fabric::FabricView>();
    generator.subschema_for::<fabric::NodesView>();
    generator.subschema_for::<fabric::PortsView>();
    generator.subschema_for::<fabric::LinksView>();
    generator.subschema_for::<routes::RouteView>();
    generator.subschema_for::<groups::GroupsView>();
    generator.subschema_for::<partitions::PartitionsView>();
    generator.subschema_for::<torus::TorusView>();
    generator.subschema_for::<adaptive::SwitchAdaptiveView>();
    generator.subschema_for::<traffic::TrafficView>();
    generator.subschema_for::<sa::SaView>();
    generator.subschema_for::<quarantine::QuarantineView>();
    generator.subschema_for::<counters::PerfmgrView>();
    generator.subschema_for::<counters::CountersView>();
    generator.subschema_for::<recorded::RecordedView>();
    generator.subschema_for::<EventRecord<'_>>();
    generator.subschema_for::<reply::Accepted<'_>>();
    generator.subschema_for::<reply::Problem<'_>>();
}

/// The types of the bodies of actions.
fn add_bodies(generator: &mut SchemaGenerator) {
    generator.subschema_for::<LogLevelBody>();
    generator.subschema_for::<PriorityBody>();
    generator.subschema_for::<HandoverBody>();
    generator.subschema_for::<LinkBody>();
    generator.subschema_for::<PerfmgrBody>();
    generator.subschema_for::<IncidentBody>();
}

fn reference(schema: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{schema}") })
}

fn operation(endpoint: &ApiEndpoint) -> Value {
    let problem = json!({
        "description": "The request failed.",
        "content": { "application/json": { "schema": reference("Problem") } },
    });
    let mut operation = json!({ "summary": endpoint.summary });
    if matches!(endpoint.handler, Handler::Page(_)) {
        // The page has no data of the fabric, and asks for the token itself.
        operation["security"] = json!([]);
    }
    let schema = match endpoint.schema {
        "" => json!({}),
        schema => reference(schema),
    };
    let (status, content) = match endpoint.handler {
        Handler::Events => (
            "200",
            json!({
                "text/event-stream": { "schema": schema },
                "application/x-ndjson": { "schema": schema },
            }),
        ),
        Handler::Page(_) => ("200", json!({ "text/html": {} })),
        Handler::Read(_) if endpoint.path == "/metrics" => ("200", json!({ "text/plain": {} })),
        Handler::Read(_) | Handler::Replay => {
            ("200", json!({ "application/json": { "schema": schema } }))
        }
        Handler::Act(_) => {
            ("202", json!({ "application/json": { "schema": reference("Accepted") } }))
        }
    };
    operation["responses"] = json!({
        (status): { "description": "Success.", "content": content },
        "default": problem,
    });
    if !endpoint.parameters.is_empty() {
        operation["parameters"] = endpoint
            .parameters
            .iter()
            .map(|parameter| {
                json!({
                    "name": parameter.name,
                    "in": "query",
                    "description": parameter.help,
                    "required": parameter.is_required,
                    "schema": { "type": "string" },
                })
            })
            .collect();
    }
    if let Some(body) = request_body(endpoint, &schema) {
        operation["requestBody"] = body;
    }
    operation
}

fn request_body(endpoint: &ApiEndpoint, schema: &Value) -> Option<Value> {
    match endpoint.handler {
        Handler::Act(_) if !endpoint.schema.is_empty() => Some(json!({
            "required": endpoint.path != "/v1/actions/handover",
            "content": { "application/json": { "schema": schema } },
        })),
        Handler::Replay => {
            Some(json!({ "required": false, "content": { "application/octet-stream": {} } }))
        }
        _ => None,
    }
}

/// Joins the lines of the descriptions, which are wrapped in the source; paragraphs stay apart.
fn join_lines(value: &mut Value) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                match member {
                    Value::String(text) if name == "description" => {
                        let paragraphs = text.split("\n\n").map(|text| text.replace('\n', " "));
                        *text = paragraphs.collect::<Vec<_>>().join("\n\n");
                    }
                    other => join_lines(other),
                }
            }
        }
        Value::Array(values) => values.iter_mut().for_each(join_lines),
        _ => {}
    }
}

fn description() -> Value {
    let settings = SchemaSettings::draft2020_12()
        .with(|settings| settings.definitions_path = "/components/schemas".into());
    // A member that may be left out of a body is always in a reply.
    let mut replies = SchemaGenerator::new(settings.clone().for_serialize());
    add_replies(&mut replies);
    let mut bodies = SchemaGenerator::new(settings.for_deserialize());
    add_bodies(&mut bodies);
    let mut schemas: Map<String, Value> = replies.take_definitions(true);
    schemas.append(&mut bodies.take_definitions(true));
    schemas.values_mut().for_each(join_lines);
    let mut paths = Map::new();
    for endpoint in ENDPOINTS {
        let method = endpoint.method.to_lowercase();
        paths.insert(endpoint.path.to_owned(), json!({ (method): operation(endpoint) }));
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "torus-sm",
            "description": "Management interface of the InfiniBand subnet manager torus-sm, on a Unix socket and, if management_tcp is set, at an address of TCP. Large replies are compressed for clients that accept gzip; HEAD is answered as GET.",
            "version": "1",
            "license": { "name": "MIT OR Apache-2.0" },
        },
        "servers": [
            {
                "url": "http://localhost",
                "description": "The Unix socket, with any host name.",
            },
            {
                "url": "{scheme}://{address}",
                "description": "The address of management_tcp, with TLS if it has a certificate.",
                "variables": {
                    "scheme": { "default": "http", "enum": ["http", "https"] },
                    "address": { "default": "127.0.0.1:8080" },
                },
            },
        ],
        // Clients of the socket have the permissions of their users, those of management_tcp may read.
        "security": [{}, { "token": [] }, { "clientCertificate": [] }],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "The token of management_token_file, if it is set; it is necessary for actions by management_tcp.",
                },
                "clientCertificate": {
                    "type": "mutualTLS",
                    "description": "A certificate of an authority in management_tls_client_ca, if it is set, in place of the token.",
                },
            },
        },
    })
}

#[test]
fn the_description_has_every_resource_and_type() {
    let wanted = serde_json::to_string_pretty(&description()).expect("JSON") + "\n";
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/etc/torus-sm-openapi.json");
        std::fs::write(path, wanted).expect("a file");
        return;
    }
    for (line, (ours, theirs)) in (1..).zip(OPENAPI.lines().zip(wanted.lines())) {
        assert_eq!(ours, theirs, "line {line}: UPDATE_GOLDEN=1 rewrites etc/torus-sm-openapi.json");
    }
    assert_eq!(OPENAPI.lines().count(), wanted.lines().count());
}

#[test]
fn every_schema_that_an_endpoint_names_is_described() {
    let description = description();
    for endpoint in ENDPOINTS.iter().filter(|endpoint| !endpoint.schema.is_empty()) {
        let schema = &description["components"]["schemas"][endpoint.schema];
        assert!(schema.is_object(), "{}: {}", endpoint.path, endpoint.schema);
    }
}
