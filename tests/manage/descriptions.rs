//! Every resource and action answers as etc/torus-sm-openapi.json describes it.

use crate::client::Managed;
use jsonschema::Validator;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::Command;
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
        "/v1/traffic" => "?pattern=shift",
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
    // A missing cable fills the lists that are empty in a whole torus.
    let last = managed.events(0).len() as u64;
    crate::events::break_cable(&managed);
    managed.event(last, "link_lost").await;
    managed.until(|| managed.json("/v1/torus")["missing_cables"] != json!([])).await;
    check_all(&managed, &description).await;
    let problem = managed.get("/v1/routes");
    let schema = json!({ "$ref": "#/components/schemas/Problem" });
    assert_eq!(problem.status, 400);
    check(&description, &schema, &problem.json(), "an error");
}

/// A value that a schema describes: an example if it has one, and required members only.
fn example(description: &Value, schema: &Value) -> Value {
    if let Some(name) = schema["$ref"].as_str().and_then(|path| path.rsplit('/').next()) {
        return example(description, &description["components"]["schemas"][name]);
    }
    if let Some(given) = schema["examples"].get(0) {
        return given.clone();
    }
    match schema["type"].as_str() {
        Some("object") => {
            let names = schema["required"].as_array().into_iter().flatten();
            let names = names.filter_map(Value::as_str);
            names
                .map(|name| (name.to_owned(), example(description, &schema["properties"][name])))
                .collect()
        }
        Some("integer") => schema["minimum"].as_u64().unwrap_or(0).into(),
        other => panic!("no example for the type {other:?}: {schema}"),
    }
}

/// Calls an action as described, and checks that its reply is as described. Returns its status.
fn act(managed: &Managed, description: &Value, path: &str, body: &str) -> u16 {
    let described = &description["paths"][path]["post"]["responses"];
    let response = managed.post(path, body);
    let reply = &described[response.status.to_string()];
    let reply = if reply.is_null() { &described["default"] } else { reply };
    let schema = &reply["content"]["application/json"]["schema"];
    assert!(schema["$ref"].is_string(), "{path}: {}", response.body);
    check(description, schema, &response.json(), path);
    response.status
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn actions_are_as_described() {
    let description: Value = serde_json::from_str(OPENAPI).expect("JSON");
    let managed = Managed::start("3x3x1").await;
    // The examples name no link of this fabric, and the log has no flags in this process.
    let impossible = ["loglevel", "quarantine", "release"];
    let paths = ENDPOINTS.iter().map(|it| it.path);
    let mut actions: Vec<&str> = paths.filter(|path| path.starts_with("/v1/actions/")).collect();
    // The one that ends the daemon comes last.
    actions.sort_by_key(|path| path.ends_with("/exit"));
    assert!(actions.len() >= 12, "{actions:?}");
    for path in actions {
        let name = path.strip_prefix("/v1/actions/").expect("an action");
        let wrong = act(&managed, &description, path, "{\"unknown\": 1}");
        assert_eq!(wrong, 400, "{path} takes an unknown member");
        let content = &description["paths"][path]["post"]["requestBody"]["content"];
        let schema = &content["application/json"]["schema"];
        let body = if schema.is_null() {
            String::new()
        } else {
            example(&description, schema).to_string()
        };
        let status = act(&managed, &description, path, &body);
        let expected = if impossible.contains(&name) { 409 } else { 202 };
        assert_eq!(status, expected, "{path} {body}");
    }
}

/// The program openapi-spec-validator of the Python package of this name.
fn openapi_validator() -> Option<PathBuf> {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let mut programs =
        std::env::split_paths(&folders).map(|dir| dir.join("openapi-spec-validator"));
    let found = programs.find(|path| path.is_file());
    if found.is_none() {
        println!("SKIPPED: openapi-spec-validator is not installed");
    }
    found
}

#[test]
fn the_description_is_valid_openapi() {
    let Some(program) = openapi_validator() else { return };
    let validate = |text: &str| {
        let file = tempfile::NamedTempFile::with_suffix(".json").expect("a file");
        std::fs::write(file.path(), text).expect("a file");
        let output = Command::new(&program).arg(file.path()).output().expect("it starts");
        let [out, error] =
            [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
        (output.status.success(), out + &error)
    };
    let (is_valid, text) = validate(OPENAPI);
    assert!(is_valid, "{text}");
    let (is_valid, _) = validate(&OPENAPI.replace("\"responses\"", "\"answers\""));
    assert!(!is_valid, "an operation without responses is found");
}
