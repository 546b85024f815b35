//! The resources of both kinds, and what is refused before `kubectl` is asked.

use super::*;

const VALUE: &str = "hunter2-hunter2";

fn values(names: &[&str]) -> Vec<(String, Secret)> {
    names.iter().map(|name| ((*name).to_owned(), VALUE.into())).collect()
}

fn a_program(words: &[&str], env: &[&str]) -> Description {
    Description::Program { command: words.iter().map(ToString::to_string).collect(), env: values(env) }
}

fn a_remote(headers: &[&str]) -> Description {
    Description::Remote { url: "https://mcp.example.com/mcp".to_owned(), headers: values(headers) }
}

fn manifests(server: Description) -> Result<Manifests, CommandFailure> {
    let image = matches!(server, Description::Program { .. }).then(|| "x:1".to_owned());
    Manifests::new("search", Some("tools"), Some("team"), image, server)
}

#[test]
fn a_program_refers_to_the_secret_of_its_variables() {
    let made = manifests(a_program(&["npx", "-y", "server"], &["API_KEY"])).unwrap();
    assert_eq!(
        *made.resource(),
        json!({
            "apiVersion": "toolhive.stacklok.com/v1alpha1", "kind": "MCPServer",
            "metadata": { "name": "search", "namespace": "tools" },
            "spec": {
                "image": "x:1", "transport": "stdio", "command": ["npx"], "args": ["-y", "server"],
                "secrets": [{ "name": "search-env", "key": "API_KEY", "targetEnvName": "API_KEY" }],
                "groupRef": { "name": "team" },
            },
        })
    );
    let owner = json!([{
        "apiVersion": "toolhive.stacklok.com/v1alpha1", "kind": "MCPServer", "name": "search", "uid": "u-1",
    }]);
    let secret = made.secret(Some("u-1"));
    assert_eq!(
        (&secret["metadata"]["ownerReferences"], &secret["metadata"]["namespace"]),
        (&owner, &json!("tools"))
    );
    assert_eq!(secret["data"], json!({ "API_KEY": BASE64_STANDARD.encode(VALUE) }));
    assert!(made.secret(None).pointer("/metadata/ownerReferences").is_none());
}

#[test]
fn a_url_refers_to_the_secret_of_its_headers() {
    let made = manifests(a_remote(&["Authorization", "X-Team"])).unwrap();
    let reference = |header: &str, key: &str| json!({ "headerName": header, "valueSecretRef": { "name": "search-headers", "key": key } });
    let headers = [reference("Authorization", "authorization"), reference("X-Team", "x-team")];
    assert_eq!(made.resource()["kind"], "MCPServerEntry");
    assert_eq!(made.resource()["spec"]["headerForward"], json!({ "addHeadersFromSecret": headers }));
    assert_eq!(made.values().count(), 2);
}

#[test]
fn a_websocket_is_named_by_its_transport() {
    for (url, transport) in [
        ("wss://live.example.com/mcp", Some("websocket")),
        ("WS://live.example.com/mcp", Some("websocket")),
        ("https://live.example.com/mcp", None),
    ] {
        let made = manifests(Description::Remote { url: url.to_owned(), headers: Vec::new() }).unwrap();
        let spec = &made.resource()["spec"];
        assert_eq!(spec.get("transport").and_then(Value::as_str), transport, "{url}");
    }
}

#[test]
fn a_server_without_values_has_no_secret() {
    for server in [a_program(&[], &[]), a_remote(&[])] {
        let made = manifests(server).unwrap();
        assert!(!made.has_values() && !made.shown().unwrap().contains("Secret"), "{made:?}");
    }
}

#[test]
fn no_value_is_shown_in_any_form() {
    for server in [a_program(&["run"], &["API_KEY"]), a_remote(&["Authorization"])] {
        let made = manifests(server).unwrap();
        let shown = made.shown().unwrap();
        assert!(
            shown.contains("kind: Secret") && shown.contains("---\n") && shown.contains(HIDDEN),
            "{shown}"
        );
        for text in [shown, made.resource().to_string(), format!("{made:?}")] {
            assert!(!text.contains(VALUE) && !text.contains(&BASE64_STANDARD.encode(VALUE)), "{text}");
        }
    }
}

#[test]
fn what_kubernetes_would_refuse_or_misread_is_refused_before() {
    let value = |text: &str| vec![("API_KEY".to_owned(), Secret::from(text))];
    let with = |env| Description::Program { command: Vec::new(), env };
    for (server, expected) in [
        (a_program(&[], &["API KEY"]), "API KEY"),
        (a_program(&[], &["A", "A"]), "given twice"),
        (a_remote(&["X", "x"]), "given twice"),
        (a_remote(&["X~Y"]), "X~Y"),
        (with(value("")), "empty"),
        (with(value("Bearer ${TOKEN}")), "a reference"),
    ] {
        let refused = manifests(server).unwrap_err();
        assert!(refused.message().contains(expected), "{refused:?}");
        assert!(!format!("{refused:?}").contains(VALUE), "{refused:?}");
    }
    for name in ["--all", "a_b", "A", "-", "a-", "a.b", "a/b", ""] {
        assert!(names::check("resource", name).is_err(), "{name}");
    }
}

#[test]
fn a_missing_image_is_named_for_the_usual_programs() {
    let refused = Manifests::new("a", None, None, None, a_program(&["uvx", "x"], &[])).unwrap_err();
    assert!(format!("{refused:?}").contains("--image ghcr.io/astral-sh/uv"), "{refused:?}");
}
