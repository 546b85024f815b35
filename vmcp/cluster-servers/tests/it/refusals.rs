//! Changes that are refused, fail or meet other writers.

use http::{Method, StatusCode};
use serde_json::{Value, json};
use vmcp_cluster_servers::ADDED_BY;
use vmcp_engine::server_registrar::{
    RegistrarError, SecretReference, ServerChange, ServerPlace, ServerRegistrar as _,
};

use super::fake_api::{ENTRIES, FakeApi, PROGRAMS, SECRETS, image, of_registry, program, remote};

const URL: &str = "https://docs.example.com/mcp";

fn set(name: &str, enabled: bool) -> ServerChange {
    ServerChange::SetEnabled { name: name.to_owned(), enabled }
}

fn remove(name: &str) -> ServerChange {
    ServerChange::Remove { name: name.to_owned() }
}

/// Returns the metadata of an object that the server `x` added.
fn of_x() -> Value {
    json!({ "labels": { ADDED_BY: "x" }, "ownerReferences": [{ "uid": "uid-of-x" }] })
}

#[tokio::test]
async fn servers_of_people_of_gitops_and_of_other_servers_are_left_alone() {
    let api = FakeApi::default();
    let registrar = api.registrar(true);
    api.put(ENTRIES, "by-hand", json!({}));
    api.put(PROGRAMS, "program", json!({}));
    api.put(ENTRIES, "of-y", json!({ "metadata": { "labels": { ADDED_BY: "y" } } }));
    let mut tracked = of_x();
    tracked["annotations"] = json!({ "argocd.argoproj.io/tracking-id": "app:x/y:n/tracked" });
    api.put(ENTRIES, "tracked", json!({ "metadata": tracked }));
    for (name, expected) in [
        ("by-hand", "MCPServerEntry by-hand in namespace n, which this server did not add"),
        ("program", "MCPServer program in namespace n, which this server did not add"),
        ("of-y", "MCPServerEntry of-y in namespace n"),
        ("tracked", "Argo CD (annotation argocd.argoproj.io/tracking-id: app:x/y:n/tracked)"),
        ("nowhere", "an MCPRemoteProxy of this name defines the server"),
    ] {
        for change in [remove(name), set(name, true), set(name, false)] {
            let refused = registrar.change(change).await.unwrap_err();
            assert!(matches!(refused, RegistrarError::Foreign(_)), "{refused:?}");
            assert!(refused.to_string().contains(expected), "{refused}");
        }
        assert!(registrar.place(name).await.is_err(), "refused before the user is asked");
    }
    let writes: Vec<_> = api.take_lines().into_iter().filter(|line| !line.starts_with("GET ")).collect();
    assert_eq!(writes, Vec::<String>::new());
}

#[tokio::test]
async fn without_the_right_to_programs_they_are_not_asked_for() {
    let api = FakeApi::default();
    let registrar = api.registrar(false);
    let refused = registrar.change(remove("docs")).await.unwrap_err().to_string();
    assert!(refused.contains("an MCPServer or MCPRemoteProxy of this name"), "{refused}");
    registrar.change(ServerChange::Add(remote("docs", URL, &[]))).await.unwrap();
    let lines = api.take_lines();
    assert!(lines.iter().all(|line| !line.contains("/mcpservers")), "{lines:?}");
}

#[tokio::test]
async fn servers_that_no_resource_describes_are_refused_without_a_call() {
    let api = FakeApi::default();
    let (with, without) = (api.registrar(true), api.registrar(false));
    let mut no_image = program("time", "npx -y @acme/mcp-time", &[]);
    no_image.image = None;
    let naming = |secret: &str, key: Option<&str>| {
        let mut new = remote("docs", URL, &[("X-Key", "")]);
        let reference = SecretReference { name: secret.to_owned(), key: key.map(str::to_owned) };
        new.secret_refs.insert("X-Key".to_owned(), reference);
        new
    };
    let secret_argument = json!({ "packages": [{
        "registryType": "npm", "identifier": "@acme/time", "version": "1.0.0", "transport": { "type": "stdio" },
        "packageArguments": [{ "type": "named", "name": "--token", "isRequired": true, "isSecret": true }],
    }] });
    let secret_in_url = json!({ "remotes": [{
        "type": "streamable-http", "url": "https://{key}.example.com/mcp",
        "variables": { "key": { "isRequired": true, "isSecret": true } },
    }] });
    for (registrar, new, expected) in [
        (&with, remote("a_b", URL, &[]), "use `a-b`"),
        (&with, remote("a.b", URL, &[]), "use `a-b`"),
        (&with, remote("inside", "ws://10.0.0.1/mcp", &[]), "leads to a private address"),
        (&without, image("time", "ghcr.io/acme/time:1", &[]), "add `image: ghcr.io/acme/time:1`"),
        (&with, image(&"a".repeat(60), "ghcr.io/acme/time:1", &[]), "at most 59"),
        (
            &with,
            of_registry("time", &secret_argument),
            "the secret token is part of the URL or of the arguments",
        ),
        (&with, of_registry("time", &secret_in_url), "the secret key is part of the URL or of the arguments"),
        (&with, remote("inside", "http://169.254.169.254/", &[]), "leads to a link-local address"),
        (&with, remote("inside", "http://other.n.svc.cluster.local/", &[]), "allowPrivateEndpoint"),
        (&with, remote("inside", "https://kubernetes.default/", &[]), "which the cluster's DNS completes"),
        (&with, remote("inside", "http://169.254.169.254.nip.io/", &[]), "written into a name"),
        (&with, naming("tools-vmcp-keys", Some("k")), "names a Secret `x.shared.…`"),
        (&with, naming("x.added.docs-1a2b3c4d", Some("k")), "names a Secret `x.shared.…`"),
        (&with, naming("y.shared.docs", Some("k")), "names a Secret `x.shared.…`"),
        (&with, naming("x.shared.docs", None), "needs its `key`"),
        (&with, no_image, "`spec.optimizer.admin.allow` has an `image`"),
        (&without, program("time", "npx -y @acme/mcp-time", &[]), "`spec.optimizer.admin.allow`"),
        (&with, program(&"a".repeat(60), "npx", &[]), "at most 59"),
    ] {
        let checked = registrar.check(&new).unwrap_err();
        assert!(checked.to_string().contains(expected), "{checked}");
        assert_eq!(registrar.change(ServerChange::Add(new)).await, Err(checked));
    }
    assert_eq!(api.take_lines(), Vec::<String>::new());
}

#[tokio::test]
async fn an_entry_without_its_secret_is_taken_back_and_no_error_shows_a_value() {
    let api = FakeApi::default();
    api.refuse_once(Method::POST, SECRETS, StatusCode::FORBIDDEN);
    let new = remote("docs", URL, &[("Authorization", "Bearer hunter2")]);
    let refused = api.registrar(false).change(ServerChange::Add(new)).await.unwrap_err();
    assert!(matches!(refused, RegistrarError::Unwritable(_)), "{refused:?}");
    assert!(refused.to_string().contains("the Secret was refused (403"), "{refused}");
    assert!(!refused.to_string().contains("hunter2"), "{refused}");
    assert_eq!(api.object(ENTRIES, "docs"), None);
}

#[tokio::test]
async fn a_change_of_others_in_between_is_read_and_the_write_is_tried_once_more() {
    let api = FakeApi::default();
    let registrar = api.registrar(false);
    api.put(ENTRIES, "docs", json!({ "metadata": of_x(), "spec": { "remoteUrl": URL } }));
    let path = format!("{ENTRIES}/docs");
    api.refuse_once(Method::PATCH, &path, StatusCode::CONFLICT);
    registrar.change(set("docs", false)).await.unwrap();
    assert_eq!(api.take_lines().len(), 4, "two looks, two writes");
    api.refuse_once(Method::DELETE, &path, StatusCode::CONFLICT);
    api.refuse_once(Method::DELETE, &path, StatusCode::CONFLICT);
    let refused = registrar.change(remove("docs")).await.unwrap_err();
    assert!(matches!(refused, RegistrarError::Unwritable(_)), "{refused:?}");
    assert_eq!(api.take_lines().len(), 4);
    // Removed by another replica between the look and the write.
    api.refuse_once(Method::DELETE, &path, StatusCode::NOT_FOUND);
    assert_eq!(registrar.change(remove("docs")).await, Err(RegistrarError::Unknown("docs".to_owned())));
}

#[tokio::test]
async fn a_huge_answer_and_an_api_server_that_refuses_are_errors_of_one_line() {
    let api = FakeApi::default();
    let registrar = api.registrar(false);
    api.put(ENTRIES, "docs", json!({ "metadata": of_x() }));
    api.pad(5 << 20);
    let refused = registrar.change(remove("docs")).await.unwrap_err().to_string();
    assert!(refused.contains("the answer cannot be read"), "{refused}");
    api.pad(0);
    api.refuse_once(Method::DELETE, &format!("{ENTRIES}/docs"), StatusCode::FORBIDDEN);
    let refused = registrar.change(remove("docs")).await.unwrap_err().to_string();
    assert!(refused.contains("403") && !refused.contains('\n') && refused.len() < 700, "{refused}");
}

#[tokio::test]
async fn the_place_of_a_server_is_read_from_its_resource() {
    let api = FakeApi::default();
    let registrar = api.registrar(true);
    let new = program("time", "npx -y @acme/mcp-time", &[("API_KEY", "hunter2")]);
    registrar.change(ServerChange::Add(new)).await.unwrap();
    let place = registrar.place("time").await.unwrap().expect("a place");
    let ServerPlace::Program { words, env } = place else { panic!("{place:?}") };
    assert_eq!(words.join(" "), "npx -y @acme/mcp-time");
    assert_eq!(
        env.into_iter().map(|(name, value)| (name, value.expose().to_owned())).collect::<Vec<_>>(),
        [("API_KEY".to_owned(), String::new())]
    );
}
