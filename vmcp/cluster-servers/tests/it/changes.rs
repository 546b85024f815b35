//! Servers that are added, switched and removed.

use serde_json::{Value, json};
use vmcp_cluster_servers::{ADDED_BY, INSTALLED_FROM};
use vmcp_engine::server_registrar::{
    RegistrarError, SecretReference, ServerChange, ServerPlace, ServerRegistrar as _,
};

use super::fake_api::{ENTRIES, FakeApi, PROGRAMS, SECRETS, image, of_registry, program, remote};

const VALUE: &str = "Bearer hunter2";

fn set(name: &str, enabled: bool) -> ServerChange {
    ServerChange::SetEnabled { name: name.to_owned(), enabled }
}

fn remove(name: &str) -> ServerChange {
    ServerChange::Remove { name: name.to_owned() }
}

/// Returns the body of the only creation at a path.
fn created(seen: &[(String, String, Value)], path: &str) -> Value {
    let mut bodies = seen.iter().filter(|(method, at, _)| method == "POST" && at == path);
    let body = bodies.next().expect("a creation").2.clone();
    assert!(bodies.next().is_none(), "{seen:?}");
    body
}

#[tokio::test]
async fn a_remote_server_is_an_entry_of_the_group_and_its_values_are_in_a_secret_that_it_owns() {
    let api = FakeApi::default();
    let new =
        remote("supabase", "https://mcp.supabase.com/mcp", &[("Authorization", VALUE), ("X-Team", "a")]);
    api.registrar(false).change(ServerChange::Add(new)).await.unwrap();
    let seen = api.take_seen();
    let lines: Vec<_> = seen.iter().map(|(method, path, _)| format!("{method} {path}")).collect();
    assert_eq!(
        lines,
        [format!("POST {ENTRIES}"), format!("POST {SECRETS}")],
        "the entry claims the name first"
    );

    let entry = created(&seen, ENTRIES);
    assert!(!entry.to_string().contains("hunter2"), "{entry}");
    assert_eq!(entry["kind"], "MCPServerEntry");
    assert_eq!(entry["metadata"]["labels"][ADDED_BY], "x");
    assert_eq!(entry["metadata"]["ownerReferences"][0]["kind"], "VirtualMCPServer");
    assert_eq!(entry["metadata"]["ownerReferences"][0]["uid"], "uid-of-x");
    assert_eq!(entry["spec"]["groupRef"], json!({ "name": "tools" }));
    assert_eq!(entry["spec"]["remoteUrl"], "https://mcp.supabase.com/mcp");
    assert_eq!(entry["spec"]["enabled"], true);
    let secret = created(&seen, SECRETS);
    let name = secret["metadata"]["name"].as_str().unwrap();
    assert!(name.starts_with("x.added.supabase-"), "{name}");
    let reference = |key: &str| json!({ "name": name, "key": key });
    let headers = json!([
        { "headerName": "Authorization", "valueSecretRef": reference("0-Authorization") },
        { "headerName": "X-Team", "valueSecretRef": reference("1-X-Team") },
    ]);
    assert_eq!(entry["spec"]["headerForward"]["addHeadersFromSecret"], headers);
    assert_eq!(secret["stringData"], json!({ "0-Authorization": VALUE, "1-X-Team": "a" }));
    assert_eq!((&secret["type"], &secret["metadata"]["labels"][ADDED_BY]), (&json!("Opaque"), &json!("x")));
    let owner = &secret["metadata"]["ownerReferences"][0];
    assert_eq!((&owner["kind"], &owner["uid"]), (&json!("MCPServerEntry"), &json!("uid-1")));
}

#[tokio::test]
async fn a_secret_that_a_client_names_is_referred_to_and_not_copied() {
    let shared =
        |key: &str| SecretReference { name: "x.shared.weather".to_owned(), key: Some(key.to_owned()) };
    let api = FakeApi::default();
    let mut new = remote("docs", "https://docs.example.com/mcp", &[("Authorization", ""), ("X-Team", "a")]);
    new.secret_refs.insert("Authorization".to_owned(), shared("header"));
    api.registrar(false).change(ServerChange::Add(new)).await.unwrap();
    let seen = api.take_seen();
    let headers = &created(&seen, ENTRIES)["spec"]["headerForward"]["addHeadersFromSecret"];
    assert_eq!(headers[0]["valueSecretRef"], json!({ "name": "x.shared.weather", "key": "header" }));
    assert_eq!(headers[1]["valueSecretRef"]["key"], "1-X-Team");
    assert_eq!(created(&seen, SECRETS)["stringData"], json!({ "1-X-Team": "a" }));

    let mut new = program("time", "npx -y @acme/mcp-time", &[("API_KEY", "")]);
    new.secret_refs.insert("API_KEY".to_owned(), shared("token"));
    api.registrar(true).change(ServerChange::Add(new)).await.unwrap();
    let seen = api.take_seen();
    let variable = json!({ "name": "x.shared.weather", "key": "token", "targetEnvName": "API_KEY" });
    assert_eq!(created(&seen, PROGRAMS)["spec"]["secrets"], json!([variable]));
    let is_secret = |(method, path, _): &(String, String, Value)| method == "POST" && path == SECRETS;
    assert!(!seen.iter().any(is_secret), "no value of its own: {seen:?}");
}

#[tokio::test]
async fn a_program_is_a_server_in_a_pod_of_the_image_of_its_rule() {
    let api = FakeApi::default();
    let new = program("time", "npx -y @acme/mcp-time", &[("API_KEY", VALUE)]);
    let registrar = api.registrar(true);
    assert!(registrar.runs_programs_in_pods());
    registrar.change(ServerChange::Add(new)).await.unwrap();
    let seen = api.take_seen();
    let server = created(&seen, PROGRAMS);
    assert!(!server.to_string().contains("hunter2"), "{server}");
    let spec = &server["spec"];
    assert_eq!((&spec["image"], &spec["transport"]), (&json!("node:22"), &json!("stdio")));
    assert_eq!((&spec["command"], &spec["args"]), (&json!(["npx"]), &json!(["-y", "@acme/mcp-time"])));
    assert_eq!(spec["secrets"][0]["targetEnvName"], "API_KEY");
    assert_eq!(created(&seen, SECRETS)["stringData"], json!({ "0-API_KEY": VALUE }));
}

#[tokio::test]
async fn a_websocket_is_an_entry_of_that_transport() {
    let api = FakeApi::default();
    let new = remote("live", "wss://live.example.com/mcp", &[]);
    api.registrar(false).change(ServerChange::Add(new)).await.unwrap();
    let spec = api.object(ENTRIES, "live").unwrap()["spec"].take();
    assert_eq!(spec["remoteUrl"], "wss://live.example.com/mcp");
    assert_eq!(spec["transport"], "websocket");
}

#[tokio::test]
async fn an_image_of_a_rule_is_a_server_whose_program_the_operator_finds() {
    let api = FakeApi::default();
    let registrar = api.registrar(true);
    let new = image("clock", "ghcr.io/acme/clock:1.0.0", &["--utc"]);
    registrar.change(ServerChange::Add(new)).await.unwrap();
    let spec = api.object(PROGRAMS, "clock").unwrap()["spec"].take();
    assert_eq!((&spec["image"], &spec["args"]), (&json!("ghcr.io/acme/clock:1.0.0"), &json!(["--utc"])));
    assert_eq!((spec.get("command"), &spec["transport"]), (None, &json!("stdio")));
    let place = registrar.place("clock").await.unwrap();
    let Some(ServerPlace::Image { image, args, .. }) = place else { panic!("{place:?}") };
    assert_eq!((image.as_str(), args.join(" ").as_str()), ("ghcr.io/acme/clock:1.0.0", "--utc"));
}

#[tokio::test]
async fn secrets_of_a_registrys_server_are_keys_that_the_user_sets() {
    let api = FakeApi::default();
    let remote = json!({ "remotes": [{
        "type": "sse", "url": "https://weather.example.com/sse",
        "headers": [
            { "name": "Authorization", "value": "Bearer {token}",
              "variables": { "token": { "isRequired": true, "isSecret": true } } },
            { "name": "X-City", "value": "Rome" },
        ],
    }] });
    let new = of_registry("weather", &remote);
    let made = api.registrar(false).change(ServerChange::Add(new)).await.unwrap();
    let seen = api.take_seen();
    let entry = created(&seen, ENTRIES);
    assert_eq!(entry["spec"]["transport"], "sse");
    assert_eq!(entry["metadata"]["annotations"][INSTALLED_FROM], "com.example/weather 1.0.0");
    let secret = created(&seen, SECRETS);
    assert_eq!(secret["stringData"], json!({ "1-X-City": "Rome" }), "the placeholder is written nowhere");
    assert!(!entry.to_string().contains("placeholder"), "{entry}");
    let name = secret["metadata"]["name"].as_str().unwrap();
    let reference = json!({ "name": name, "key": "0-Authorization" });
    let headers = &entry["spec"]["headerForward"]["addHeadersFromSecret"];
    assert_eq!(headers[0], json!({ "headerName": "Authorization", "valueSecretRef": reference }));
    assert_eq!(
        made.needed.into_iter().collect::<Vec<_>>(),
        [("token".to_owned(), "0-Authorization".to_owned())]
    );
    let form = "; 0-Authorization holds `Bearer <token>`";
    assert_eq!(made.needed_in, format!("the Secret `{name}` in namespace n{form}"));
}

#[tokio::test]
async fn a_server_without_values_has_no_secret() {
    let api = FakeApi::default();
    let mut new = remote("docs", "https://docs.example.com/mcp", &[]);
    new.enabled = false;
    api.registrar(false).change(ServerChange::Add(new)).await.unwrap();
    assert_eq!(api.take_lines(), [format!("POST {ENTRIES}")]);
    assert_eq!(api.object(ENTRIES, "docs").unwrap()["spec"]["enabled"], false);
}

#[tokio::test]
async fn an_added_server_is_switched_and_removed_as_the_object_that_was_read() {
    let api = FakeApi::default();
    let registrar = api.registrar(true);
    let add = |new| registrar.change(ServerChange::Add(new));
    add(remote("docs", "https://docs.example.com/mcp", &[])).await.unwrap();
    add(program("time", "npx -y @acme/mcp-time", &[])).await.unwrap();
    api.take_seen();
    registrar.change(set("docs", false)).await.unwrap();
    assert_eq!(api.object(ENTRIES, "docs").unwrap()["spec"]["enabled"], false);
    let seen = api.take_seen();
    let (method, path, sent) = seen.last().unwrap();
    assert_eq!((method.as_str(), path.as_str()), ("PATCH", format!("{ENTRIES}/docs").as_str()));
    let metadata = json!({ "uid": "uid-1", "resourceVersion": "1" });
    assert_eq!(*sent, json!({ "metadata": metadata, "spec": { "enabled": false } }));
    registrar.change(set("docs", true)).await.unwrap();
    assert_eq!(api.object(ENTRIES, "docs").unwrap()["spec"]["enabled"], true);

    api.take_seen();
    registrar.change(remove("time")).await.unwrap();
    assert_eq!(api.object(PROGRAMS, "time"), None);
    let seen = api.take_seen();
    let preconditions = json!({ "uid": "uid-2", "resourceVersion": "1" });
    assert_eq!(seen.last().unwrap().2["preconditions"], preconditions);
}

#[tokio::test]
async fn of_two_additions_at_once_by_two_replicas_one_wins() {
    let api = FakeApi::default();
    let (one, other) = (api.registrar(true), api.registrar(true));
    let new = || remote("docs", "https://docs.example.com/mcp", &[("Authorization", VALUE)]);
    let (first, second) =
        tokio::join!(one.change(ServerChange::Add(new())), other.change(ServerChange::Add(new())));
    let taken = Err(RegistrarError::Taken("docs".to_owned()));
    assert!((first.is_ok() && second == taken) || (second.is_ok() && first == taken), "{first:?} {second:?}");
    let secrets = api.take_lines().into_iter().filter(|line| *line == format!("POST {SECRETS}")).count();
    assert_eq!(secrets, 1, "the other replica leaves nothing");
}

#[tokio::test]
async fn a_name_is_that_of_one_kind() {
    let api = FakeApi::default();
    let registrar = api.registrar(true);
    api.put(PROGRAMS, "docs", json!({}));
    let entry = remote("docs", "https://docs.example.com/mcp", &[]);
    let taken = Err(RegistrarError::Taken("docs".to_owned()));
    assert_eq!(registrar.change(ServerChange::Add(entry)).await, taken);
    assert_eq!(api.object(ENTRIES, "docs"), None);
    api.put(ENTRIES, "time", json!({}));
    let again = program("time", "npx -y @acme/mcp-time", &[]);
    assert_eq!(
        registrar.change(ServerChange::Add(again)).await,
        Err(RegistrarError::Taken("time".to_owned()))
    );
}
