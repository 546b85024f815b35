//! Tests of the CustomResourceDefinitions: they are committed and structural, and refuse mistakes.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "helpers of tests fail like tests"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::core::cel::Validator;
use serde_json::{Value, json};
use vmcp_crds::definitions;
use vmcp_crds::lower::{EmbeddingService, ReferencedObjects};
use vmcp_crds::{
    EmbeddingServer, GROUP, MCPAuthzConfig, MCPExternalAuthConfig, MCPGroup, MCPOIDCConfig, MCPRegistry,
    MCPRemoteProxy, MCPServer, MCPServerEntry, MCPTelemetryConfig, MCPToolConfig, MCPWebhookConfig, VERSION,
    VirtualMCPCompositeToolDefinition, VirtualMCPServer, reference_markdown,
};

const ACCEPTED: &str = include_str!("resources/accepted.yaml");
const REFUSED: &str = include_str!("resources/refused.yaml");

fn schema(kind: &str) -> Value {
    let definition =
        definitions::all().into_iter().find(|definition| definition.spec.names.kind == kind).unwrap();
    json!(definition.spec.versions[0].schema.as_ref().unwrap().open_api_v3_schema)
}

/// Returns the manifest of an entry in `accepted.yaml` or `refused.yaml`.
fn manifest(entry: &Value) -> Value {
    json!({
        "apiVersion": format!("{GROUP}/{VERSION}"),
        "kind": entry["kind"],
        "metadata": { "name": entry["name"].as_str().unwrap_or("x"), "namespace": "ns" },
        "spec": entry["spec"],
    })
}

/// Validates strictly, as `kubectl` does: returns unknown fields, values that do not fit, and rules that do
/// not hold.
fn complaints(manifest: &Value) -> Vec<String> {
    let mut schema = schema(manifest["kind"].as_str().unwrap());
    let mut complaints = Vec::new();
    unknown_fields(&schema["properties"]["spec"], &manifest["spec"], "spec", &mut complaints);
    let fits = jsonschema::options().with_draft(jsonschema::Draft::Draft4).build(&schema).unwrap();
    complaints.extend(fits.iter_errors(manifest).map(|error| format!("{}: {error}", error.instance_path())));
    // The validator reads the name only where the schema has it.
    schema["properties"]["metadata"]["properties"] = json!({ "name": { "type": "string" } });
    if complaints.is_empty()
        && let Err(errors) = Validator::new().validate(&schema, manifest, None)
    {
        complaints
            .extend(errors.as_slice().iter().map(|error| format!("{}: {}", error.field_path, error.message)));
    }
    complaints
}

fn unknown_fields(schema: &Value, value: &Value, path: &str, complaints: &mut Vec<String>) {
    if schema["x-kubernetes-preserve-unknown-fields"] == true {
        return;
    }
    match value {
        Value::Object(entries) => {
            for (key, value) in entries {
                let path = format!("{path}.{key}");
                match schema["properties"].get(key).or_else(|| schema.get("additionalProperties")) {
                    Some(schema) => unknown_fields(schema, value, &path, complaints),
                    None => complaints.push(format!("unknown field {path}")),
                }
            }
        }
        Value::Array(items) => {
            for item in items {
                unknown_fields(&schema["items"], item, path, complaints);
            }
        }
        _ => {}
    }
}

/// Fails if the committed file is not the generated text; `VMCP_UPDATE_CRDS=1` writes it.
fn assert_committed(file: &str, generated: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    if std::env::var_os("VMCP_UPDATE_CRDS").is_some() {
        fs::write(&path, generated).unwrap();
    }
    let committed = fs::read_to_string(&path).unwrap_or_default();
    assert!(committed == generated, "{file} is out of date; regenerate it: make crds");
}

#[test]
fn the_committed_reference_is_the_one_of_the_code() {
    let page = reference_markdown();
    for row in page.lines().filter(|line| line.starts_with("| `") || line.starts_with("| **")) {
        let cells: Vec<_> = row.trim_matches('|').split(" | ").map(str::trim).collect();
        assert_eq!(cells.len(), 5, "{row}");
        assert!(cells.iter().all(|cell| !cell.is_empty()), "something is not said: {row}");
    }
    assert_committed("../docs/reference/resources.md", &page);
}

/// Artifact Hub shows the kinds of a chart by this annotation.
#[test]
fn the_chart_lists_every_kind() {
    let chart = include_str!("../../charts/vmcp-operator/Chart.yaml");
    let chart: Value = serde_saphyr::from_str(chart).unwrap();
    let listed = chart["annotations"]["artifacthub.io/crds"].as_str().unwrap();
    let listed: Vec<Value> = serde_saphyr::from_str(listed).unwrap();
    let text = |entry: &Value, key: &str| entry[key].as_str().unwrap().to_owned();
    let listed: BTreeSet<_> =
        listed.iter().map(|entry| ["kind", "name", "version"].map(|key| text(entry, key))).collect();
    let served = definitions::all().into_iter().map(|definition| {
        let kind = definition.spec.names.kind.clone();
        [kind, definition.metadata.name.unwrap(), VERSION.to_owned()]
    });
    assert_eq!(listed, served.collect::<BTreeSet<_>>());
}

/// A new key of `vmcp.yaml` is a field of the resource, or has a reason not to be one. `incomingAuth` has a
/// form of its own in a resource, where providers and keys are referred to.
#[test]
fn every_setting_of_the_file_is_a_field_of_the_resource() {
    let model = vmcp_config::json_schema();
    let spec = &schema("VirtualMCPServer")["properties"]["spec"];
    for (setting, field) in [
        ("aggregation", "config.aggregation"),
        ("operational", "config.operational"),
        ("proxy", "config.proxy"),
        ("server", "config.server"),
        ("optimizer", "optimizer"),
        ("audit", "config.audit"),
        ("code", "config.code"),
        ("compositeTools", "config.compositeTools"),
        ("profiles", "config.profiles"),
        ("rateLimiting", "config.rateLimiting"),
    ] {
        let found = field.split('.').fold(spec, |schema, key| &schema["properties"][key]);
        compare(&model, &model["properties"][setting], found, setting);
    }
}

/// Settings that a resource gives in another form, or that the operator decides.
const OTHERWISE: [&str; 17] = [
    // Ports and secrets of the pods.
    "server.listen",
    "server.adminListen",
    "server.eventsListen",
    "server.sessionKeys",
    "server.peerAddress",
    "server.peers",
    "server.trustedToolsPath",
    "server.adminTokens",
    "server.metricsTokens",
    // `spec.console`, with references to Secrets.
    "server.console",
    "server.consoleSignIn",
    "server.viewerTokens",
    // An Ingress or a Gateway ends TLS: a port with TLS takes no requests from other pods.
    "server.tls",
    // Volume of the pods; `apiKeySecretRef`.
    "optimizer.storage.dir",
    "optimizer.embeddings.openai.apiKey",
    "optimizer.llm.apiKey",
    // A webhook may have a secret, which a resource holds by reference only.
    "optimizer.sessionHooks.webhooks",
];

fn compare(model: &Value, setting: &Value, field: &Value, path: &str) {
    let reference = setting["$ref"].as_str().and_then(|reference| reference.strip_prefix('#'));
    let setting = reference.and_then(|reference| model.pointer(reference)).unwrap_or(setting);
    for (key, setting) in setting["properties"].as_object().into_iter().flatten() {
        let path = format!("{path}.{key}");
        if !OTHERWISE.contains(&path.as_str()) {
            assert!(
                field["properties"].get(key).is_some(),
                "{path} is no field; add it, or a reason to OTHERWISE"
            );
            compare(model, setting, &field["properties"][key], &path);
        }
    }
    // Entries of lists and maps.
    for entries in ["items", "additionalProperties"] {
        if setting[entries].is_object() {
            compare(model, &setting[entries], &field[entries], &format!("{path}.*"));
        }
    }
}

#[test]
fn the_committed_definitions_are_those_of_the_code() {
    for definition in definitions::all() {
        let (name, text) = definitions::yaml_file(&definition);
        assert_committed(&name, &text);
        let read: CustomResourceDefinition = serde_saphyr::from_str(&text).unwrap();
        assert_eq!(read, definition, "what is written is what was meant");
        assert_eq!(
            (definition.spec.group.as_str(), definition.spec.versions[0].name.as_str()),
            (GROUP, VERSION)
        );
    }
}

#[test]
fn schemas_are_structural_and_every_field_says_what_it_is_for() {
    for definition in definitions::all() {
        let kind = definition.spec.names.kind;
        for part in ["spec", "status"] {
            check(&schema(&kind)["properties"][part], &format!("{kind}.{part}"), true);
        }
    }
}

/// Checks the rules of the API server for definitions, and one more: every property has a description.
fn check(schema: &Value, path: &str, has_description: bool) {
    if let Some(default) = schema.get("default") {
        let own = jsonschema::options().with_draft(jsonschema::Draft::Draft4).build(schema).unwrap();
        assert!(own.is_valid(default), "{path}: its default {default} is refused by its own schema");
    }
    let either = schema["x-kubernetes-int-or-string"] == true;
    // A pending field takes whatever ToolHive takes.
    let any = schema["x-kubernetes-preserve-unknown-fields"] == true && schema.get("type").is_none();
    assert!(schema["type"].is_string() != (either || any), "{path}: one type");
    assert!(!has_description || schema["description"].is_string(), "{path}: a description");
    for key in ["$ref", "oneOf", "allOf", "not", "nullable", "title", "const", "x-range"] {
        assert!(schema.get(key).is_none(), "{path}: {key}");
    }
    assert!(either || schema.get("anyOf").is_none(), "{path}: anyOf");
    assert_eq!(schema["type"] == "array", schema.get("items").is_some(), "{path}: items");
    assert!(
        schema.get("properties").is_none() || schema.get("additionalProperties").is_none(),
        "{path}: keys of its own, or any keys"
    );
    if let Some(default) = schema.get("default") {
        // The default of a status says that the operator has not seen the object yet.
        let is_status = path.ends_with(".status") && *default == json!({ "observedGeneration": -1 });
        assert!(is_status || !default.is_object() && !default.is_null(), "{path}: default {default}");
        if let Some(words) = schema["enum"].as_array() {
            assert!(words.contains(default), "{path}: default {default}");
        }
    }
    for key in schema["x-kubernetes-list-map-keys"].as_array().into_iter().flatten() {
        let is_required = |list: &Value| list.as_array().is_some_and(|list| list.contains(key));
        assert!(is_required(&schema["items"]["required"]), "{path}: {key} is required of every item");
    }
    if let Some(items) = schema.get("items") {
        check(items, &format!("{path}[]"), false);
    }
    if let Some(entries) = schema.get("additionalProperties") {
        check(entries, &format!("{path}.*"), false);
    }
    for (key, property) in schema["properties"].as_object().into_iter().flatten() {
        check(property, &format!("{path}.{key}"), true);
    }
}

#[test]
fn manifests_are_accepted_and_come_back_unchanged() {
    let accepted: Vec<Value> = serde_saphyr::from_str(ACCEPTED).unwrap();
    let examples = examples();
    assert!(examples.len() > 5, "there are examples");
    for manifest in accepted.iter().map(manifest).chain(examples) {
        assert_eq!(complaints(&manifest), Vec::<String>::new(), "{manifest}");
        let written = round_trip(&manifest);
        contains(&written["spec"], &manifest["spec"], "spec");
    }
}

/// Examples that users apply, and the manifest of the RFC.
fn examples() -> Vec<Value> {
    let folder = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/examples")).unwrap();
    let texts = folder.map(|file| fs::read_to_string(file.unwrap().path()).unwrap());
    let all = texts.flat_map(|text| serde_saphyr::from_multiple::<Value>(&text).unwrap());
    all.filter(|manifest| manifest["apiVersion"] == format!("{GROUP}/{VERSION}")).collect()
}

/// Parses and writes a resource through the type of its kind.
fn round_trip(manifest: &Value) -> Value {
    fn through<K: serde::de::DeserializeOwned + serde::Serialize>(manifest: &Value) -> Value {
        json!(serde_json::from_value::<K>(manifest.clone()).unwrap())
    }
    match manifest["kind"].as_str().unwrap() {
        "VirtualMCPServer" => through::<VirtualMCPServer>(manifest),
        "MCPGroup" => through::<MCPGroup>(manifest),
        "MCPServer" => through::<MCPServer>(manifest),
        "MCPRegistry" => through::<MCPRegistry>(manifest),
        "MCPServerEntry" => through::<MCPServerEntry>(manifest),
        "MCPRemoteProxy" => through::<MCPRemoteProxy>(manifest),
        "EmbeddingServer" => through::<EmbeddingServer>(manifest),
        "MCPTelemetryConfig" => through::<MCPTelemetryConfig>(manifest),
        "MCPAuthzConfig" => through::<MCPAuthzConfig>(manifest),
        "MCPOIDCConfig" => through::<MCPOIDCConfig>(manifest),
        "MCPExternalAuthConfig" => through::<MCPExternalAuthConfig>(manifest),
        "MCPToolConfig" => through::<MCPToolConfig>(manifest),
        "MCPWebhookConfig" => through::<MCPWebhookConfig>(manifest),
        "VirtualMCPCompositeToolDefinition" => through::<VirtualMCPCompositeToolDefinition>(manifest),
        other => panic!("{other}"),
    }
}

/// Returns true if `whole` contains all of `part`; a quantity may have become text.
fn contains(whole: &Value, part: &Value, path: &str) {
    match (whole, part) {
        (Value::Object(whole), Value::Object(part)) => {
            for (key, value) in part {
                let path = format!("{path}.{key}");
                // Empty blocks are left out.
                match whole.get(key) {
                    Some(found) => contains(found, value, &path),
                    None => assert_eq!(*value, json!({}), "{path} is lost"),
                }
            }
        }
        (Value::Array(whole), Value::Array(part)) => {
            assert_eq!(whole.len(), part.len(), "{path}");
            whole.iter().zip(part).for_each(|(whole, part)| contains(whole, part, path));
        }
        (Value::String(text), Value::Number(number)) => assert_eq!(*text, number.to_string(), "{path}"),
        _ => assert_eq!(whole, part, "{path}"),
    }
}

#[test]
fn mistakes_are_refused_with_what_to_do() {
    let refused: Vec<Value> = serde_saphyr::from_str(REFUSED).unwrap();
    for entry in &refused {
        let (manifest, says) = (manifest(entry), entry["says"].as_str().unwrap());
        let complaints = complaints(&manifest);
        assert!(
            complaints.iter().any(|complaint| complaint.contains(says)),
            "{says:?} of {manifest}: {complaints:?}"
        );
    }
    // Every rule has an example that breaks it.
    let said: String = refused.iter().map(|entry| complaints(&manifest(entry)).join("\n")).collect();
    for definition in definitions::all() {
        let mut messages = BTreeSet::new();
        collect_messages(&schema(&definition.spec.names.kind), &mut messages);
        for message in messages.iter().filter(|message| !message.starts_with("must be a ")) {
            assert!(said.contains(message), "refused.yaml has no example of: {message}");
        }
    }
}

fn collect_messages(schema: &Value, messages: &mut BTreeSet<String>) {
    match schema {
        Value::Object(entries) => {
            for rule in schema["x-kubernetes-validations"].as_array().into_iter().flatten() {
                messages.insert(rule["message"].as_str().unwrap().to_owned());
            }
            entries.values().for_each(|value| collect_messages(value, messages));
        }
        Value::Array(items) => items.iter().for_each(|value| collect_messages(value, messages)),
        _ => {}
    }
}

/// A cluster whose definition is older than the operator lets mistakes pass; validation must still find them.
#[test]
fn what_slips_past_an_older_schema_is_found_by_the_operator() {
    let refused: Vec<Value> = serde_saphyr::from_str(REFUSED).unwrap();
    let service = EmbeddingService { endpoint: "http://tei:8080".to_owned(), model: None };
    let mut found_by_operator = 0;
    for entry in refused.iter().filter(|entry| entry["kind"] == "VirtualMCPServer") {
        // A missing backend is a warning, not a mistake.
        if entry["spec"].pointer("/config/operational/timeouts/perWorkload").is_some() {
            continue;
        }
        let Ok(server) = serde_json::from_value::<VirtualMCPServer>(manifest(entry)) else { continue };
        let referenced =
            ReferencedObjects { embedding_service: Some(&service), ..ReferencedObjects::default() };
        let lowered = server.validate().and_then(|validated| validated.lower(&referenced));
        assert!(lowered.is_err(), "{entry}");
        found_by_operator += 1;
    }
    assert!(found_by_operator >= 27, "only {found_by_operator} entries fit the type and were examined");
}

/// Returns the YAML blocks of README, SECURITY and the pages in `docs/`, each with its page and line.
fn yaml_blocks() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut pages = vec![root.join("README.md"), root.join("SECURITY.md")];
    let mut folders = vec![root.join("docs")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                pages.push(path);
            }
        }
    }
    let mut blocks = Vec::new();
    for page in pages {
        let text = fs::read_to_string(&page).unwrap();
        let mut lines = text.lines().enumerate();
        while let Some((number, line)) = lines.next() {
            let fence = line.trim_start();
            if !fence.starts_with("```yaml") {
                continue;
            }
            // A block in a list is indented as its fence is.
            let indent = line.len() - fence.len();
            let block = lines.by_ref().map(|(_, line)| line).take_while(|line| line.trim() != "```");
            let block: Vec<_> = block.map(|line| line.get(indent..).unwrap_or_default()).collect();
            blocks.push((format!("{}:{}", page.display(), number + 1), block.join("\n")));
        }
    }
    blocks
}

#[test]
fn the_yaml_of_the_pages_has_keys_and_values_that_exist() {
    let file = vmcp_config::json_schema();
    let fits = jsonschema::options().with_draft(jsonschema::Draft::Draft202012).build(&file).unwrap();
    let kinds = definitions::all().into_iter().map(|definition| definition.spec.names.kind);
    let schemas: BTreeMap<String, Value> = kinds.map(|kind| (kind.clone(), schema(&kind))).collect();
    let unknown = |schema: &Value, document: &Value| {
        let mut found = Vec::new();
        unknown_fields(&schema["properties"]["spec"], &document["spec"], "spec", &mut found);
        found
    };
    let (mut files, mut resources, mut parts) = (0, 0, 0);
    for (place, block) in yaml_blocks() {
        let documents: Result<Vec<Value>, _> = serde_saphyr::from_multiple(&block);
        for document in documents.unwrap_or_else(|error| panic!("{place}: {error}")) {
            let Some(keys) = document.as_object() else { continue };
            let kind = document["kind"].as_str();
            let found: Vec<String> = match kind.map(|kind| schemas.get(kind)) {
                Some(Some(_)) if keys.contains_key("apiVersion") => {
                    resources += 1;
                    complaints(&document)
                }
                Some(Some(schema)) => {
                    parts += 1;
                    unknown(schema, &document)
                }
                None if keys.keys().all(|key| file["properties"].get(key).is_some()) => {
                    files += 1;
                    let errors = fits.iter_errors(&document);
                    errors.map(|error| format!("{}: {error}", error.instance_path())).collect()
                }
                // A part of a resource whose kind the text names.
                None if keys.contains_key("spec") => {
                    parts += 1;
                    let of_kinds = schemas.values().map(|schema| unknown(schema, &document));
                    of_kinds.min_by_key(Vec::len).unwrap_or_default()
                }
                _ => continue,
            };
            assert!(found.is_empty(), "{place}: {found:?}");
        }
    }
    let seen = (files, resources, parts);
    assert!(files > 50 && resources > 5 && parts > 20, "not all blocks were read: {seen:?}");
}
