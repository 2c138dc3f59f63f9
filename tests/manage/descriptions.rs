//! Every resource answers as etc/torus-sm-openapi.json describes it.

use crate::client::Managed;
use jsonschema::Validator;
use serde_json::{Value, json};
use torus_sm::manage::api::{ENDPOINTS, Handler, OPENAPI};

/// A validator of a schema of the description.
fn validator(description: &Value, schema: &Value) -> Validator {
    let root = json!({ "$schema": "https://json-schema.org/draft/2020-12/schema",
        "allOf": [schema], "components": description["components"] });
    jsonschema::validator_for(&root).expect("a valid schema")
}

fn check(description: &Value, schema: &Value, reply: &Value, what: &str) {
    let errors: Vec<String> = validator(description, schema)
        .iter_errors(reply)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    assert!(errors.is_empty(), "{what}: {}", errors.join("\n"));
    // A schema that accepts anything would show nothing.
    assert!(!validator(description, schema).is_valid(&json!({ "unknown": 1 })), "{what}");
}

/// The query that a resource needs.
fn query(path: &str) -> &'static str {
    match path {
        "/v1/routes" => "?from=1&to=2",
        "/v1/events" => "?after=0&follow=false",
        _ => "",
    }
}

async fn check_all(managed: &Managed, description: &Value) {
    for endpoint in ENDPOINTS.iter().filter(|endpoint| endpoint.method == "GET") {
        let described = &description["paths"][endpoint.path]["get"];
        let content = &described["responses"]["200"]["content"];
        if let Handler::Events = endpoint.handler {
            let schema = &content["application/x-ndjson"]["schema"];
            for event in managed.events(0) {
                check(description, schema, &event, &event.to_string());
            }
            continue;
        }
        let response = managed.get(&format!("{}{}", endpoint.path, query(endpoint.path)));
        assert_eq!(response.status, 200, "{}: {}", endpoint.path, response.body);
        let media = content.as_object().and_then(|content| content.keys().next()).expect("a type");
        assert!(response.head.contains(&format!("content-type: {media}")), "{}", response.head);
        let schema = &content[media]["schema"];
        if schema["$ref"].is_string() {
            check(description, schema, &response.json(), endpoint.path);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replies_are_as_described() {
    let description: Value = serde_json::from_str(OPENAPI).expect("JSON");
    let described = description["paths"].as_object().expect("paths");
    assert_eq!(
        described.len(),
        ENDPOINTS.len(),
        "each path is served, and each served one described"
    );
    let managed = Managed::start("3x3x2").await;
    check_all(&managed, &description).await;
    // A broken cable fills the lists that are empty in a whole torus.
    let last = managed.events(0).len() as u64;
    crate::events::break_cable(&managed);
    managed.event(last, "link_lost").await;
    managed.until(|| managed.json("/v1/torus")["broken_cables"] != json!([])).await;
    check_all(&managed, &description).await;
    let problem = managed.get("/v1/routes");
    let schema = json!({ "$ref": "#/components/schemas/Problem" });
    assert_eq!(problem.status, 400);
    check(&description, &schema, &problem.json(), "an error");
}
