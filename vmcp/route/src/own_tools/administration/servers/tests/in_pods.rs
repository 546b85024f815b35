//! A registrar that runs programs in pods: it knows the program behind an address, and the servers of others.

use super::*;

/// A registrar that knows `time` as a program of its own, `parked` as another one that the configuration
/// leaves out, and `broken`, whose resource is unusable.
struct InPods(Arc<InMemory>);

impl ServerRegistrar for InPods {
    fn change(&self, change: ServerChange) -> BoxFuture<'_, Result<MadeChange, RegistrarError>> {
        if matches!(&change, ServerChange::Remove { name } if name == "parked") {
            self.0.changes.lock().push(change);
            return Box::pin(std::future::ready(Ok(MadeChange::default())));
        }
        self.0.change(change)
    }

    fn runs_programs_in_pods(&self) -> bool {
        true
    }

    fn check(&self, server: &NewServer) -> Result<(), RegistrarError> {
        match (&server.place, &server.image) {
            (ServerPlace::Program { .. }, None) => Err(RegistrarError::Invalid("no image".to_owned())),
            _ => Ok(()),
        }
    }

    fn place<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Option<ServerPlace>, RegistrarError>> {
        Box::pin(async move {
            match name {
                "time" | "parked" => {}
                "broken" => return Err(RegistrarError::Invalid("no usable URL".to_owned())),
                _ => return Err(RegistrarError::Foreign(format!("`{name}` is defined elsewhere"))),
            }
            let words = ["npx", "-y", "@acme/time"].map(str::to_owned).to_vec();
            Ok(Some(ServerPlace::Program { words, env: std::collections::BTreeMap::new() }))
        })
    }
}

/// An engine with the servers `jira` and `time` at `url`, and a rule about programs with an image.
async fn setup_in_pods(url: &str) -> Setup {
    let rules = "admin: { allow: [{ command: [npx, -y, '@acme/*'], image: 'node:22' }, { command: [uvx, a] }, \
         { image: 'ghcr.io/example/clock:*', args: ['--utc'], env: [TOKEN] }] }";
    let optimizer = format!("optimizer: {{ embeddings: {{ provider: none }}, tools: [{TOOLS}], {rules} }}\n");
    let text = format!("{optimizer}backends:\n- name: jira\n  url: {url}\n- name: time\n  url: {url}\n");
    let options = |registrar: &Arc<InMemory>| Options {
        registrar: Some(Arc::new(InPods(Arc::clone(registrar))) as _),
        registry: Some(Arc::new(registry::Catalog) as _),
        ..Options::default()
    };
    setup_with(text, options).await
}

#[tokio::test]
async fn a_server_of_others_is_refused_before_the_user_is_asked() {
    let jira = server("get_issue").await;
    let setup = setup_in_pods(&jira.url).await;
    for tool in ["optim.remove_mcp_server", "optim.enable_mcp_server", "optim.disable_mcp_server"] {
        let (refused, asked) = setup.ask("accept", tool, json!({"name": "jira"})).await;
        assert_eq!(error(&refused), "`jira` is defined elsewhere", "{tool}");
        assert!(asked.is_empty() && setup.changes() == 0);
    }
}

#[tokio::test]
async fn rules_judge_the_program_behind_the_address_of_a_pod() {
    let jira = server("get_issue").await;
    let setup = setup_in_pods(&jira.url).await;
    let (removed, asked) = setup.ask("accept", "optim.remove_mcp_server", json!({"name": "time"})).await;
    assert_eq!(removed["message"], "Server 'time' removed", "{removed}");
    let words = "server: time\na pod of its own runs this program:\n\"npx\"\n\"-y\"\n\"@acme/time\"";
    assert!(asked[0].ends_with(words), "{asked:?}");
}

#[tokio::test]
async fn a_server_that_the_configuration_leaves_out_is_removed_and_one_of_others_is_unknown() {
    let jira = server("get_issue").await;
    let setup = setup_in_pods(&jira.url).await;
    let (unknown, asked) =
        setup.ask("accept", "optim.remove_mcp_server", json!({"name": "of-a-person"})).await;
    assert_eq!(error(&unknown), "server not found: of-a-person");
    assert_eq!(unknown["available_servers"], json!(["jira", "time"]), "{unknown}");
    let (broken, _) = setup.ask("accept", "optim.remove_mcp_server", json!({"name": "broken"})).await;
    assert_eq!(error(&broken), "no usable URL");
    assert!(asked.is_empty() && setup.changes() == 0);
    let (declined, _) = setup.ask("decline", "optim.remove_mcp_server", json!({"name": "parked"})).await;
    assert!(error(&declined).contains("the user declined"), "{declined}");
    let (removed, asked) = setup.ask("accept", "optim.remove_mcp_server", json!({"name": "Parked"})).await;
    assert_eq!(removed["message"], "Server 'parked' removed", "{removed}");
    assert!(asked[0].contains("\"@acme/time\""), "{asked:?}");
    assert_eq!(setup.changes(), 1);
}

/// Every client may change servers, and call the tools of a scope (`resource …)` and the conditions).
async fn with_policies(setup: &Setup, scope: &str) {
    let policies = format!(
        "incomingAuth:\n  authz:\n    policies:\n    - 'permit(principal, action == Action::\"admin\", resource);'\n    \
         - 'permit(principal, action == Action::\"call_tool\", {scope};'\n"
    );
    let text = format!("{policies}{}", setup.registrar.text.lock());
    setup.registrar.text.lock().clone_from(&text);
    setup.engine.apply(config(&text)).await;
}

#[tokio::test]
async fn a_server_outside_of_the_callers_view_stays_unknown_also_to_its_registrar() {
    let jira = server("get_issue").await;
    for (scope, known) in [
        ("resource in Backend::\"jira\")", json!(["jira"])),
        ("resource == Tool::\"jira_get_issue\")", json!(["jira"])),
        ("resource) when { resource has readOnlyHint && resource.readOnlyHint }", json!([])),
    ] {
        let setup = setup_in_pods(&jira.url).await;
        with_policies(&setup, scope).await;
        for hidden in ["time", "parked", "broken"] {
            let (unknown, asked) =
                setup.ask("accept", "optim.remove_mcp_server", json!({"name": hidden})).await;
            assert_eq!(error(&unknown), format!("server not found: {hidden}"), "{scope}");
            assert_eq!(unknown["available_servers"], known, "{scope}");
            assert!(asked.is_empty() && setup.changes() == 0);
        }
    }
}

#[tokio::test]
async fn a_policy_about_calls_shows_servers_that_have_no_tools_yet() {
    let jira = server("get_issue").await;
    let setup = setup_in_pods(&jira.url).await;
    with_policies(&setup, "resource)").await;
    let (off, _) = setup.ask("accept", "optim.disable_mcp_server", json!({"name": "time"})).await;
    assert_eq!(off["message"], "Server 'time' disabled", "{off}");
    let (on, _) = setup.ask("accept", "optim.enable_mcp_server", json!({"name": "time"})).await;
    assert_eq!(on["message"], "Server enabled and connected", "{on}");
    let (removed, _) = setup.ask("accept", "optim.remove_mcp_server", json!({"name": "parked"})).await;
    assert_eq!(removed["message"], "Server 'parked' removed", "{removed}");
}

#[tokio::test]
async fn a_program_gets_the_image_of_its_rule_and_without_one_is_refused_unasked() {
    let jira = server("get_issue").await;
    let setup = setup_in_pods(&jira.url).await;
    let program = |name: &str, command: &str, args: Value| json!({"name": name, "transport": "stdio", "command": command, "args": args, "enabled": false});
    let (added, asked) = setup
        .ask("accept", "optim.add_mcp_server", program("clock", "npx", json!(["-y", "@acme/clock"])))
        .await;
    assert_eq!(added["success"], true, "{added}");
    assert!(asked[0].contains("a pod of its own runs this program, from the image node:22:"), "{asked:?}");
    let images: Vec<_> = setup
        .registrar
        .changes
        .lock()
        .iter()
        .map(|change| match change {
            ServerChange::Add(server) => server.image.clone(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(images, [Some("node:22".to_owned())]);
    let (refused, asked) =
        setup.ask("accept", "optim.add_mcp_server", program("b", "uvx", json!(["a"]))).await;
    assert_eq!(error(&refused), "no image");
    assert!(asked.is_empty());
}

#[tokio::test]
async fn an_image_of_the_registry_runs_in_a_pod_if_a_rule_names_it() {
    let jira = server("get_issue").await;
    let setup = setup_in_pods(&jira.url).await;
    let clock = json!({"name": "com.example/clock"});
    let (installed, asked) = setup.ask("accept", "optim.install_server", clock).await;
    assert_eq!(installed["origin"], "oci ghcr.io/example/clock:1.0.0", "{installed}");
    assert_eq!(installed["runs"], "ghcr.io/example/clock:1.0.0 --utc", "Docker runs nowhere: {installed}");
    assert_eq!(installed["needs"][0]["input"], "TOKEN", "{installed}");
    let lines = "a pod of its own runs the program of this image: ghcr.io/example/clock:1.0.0\n\"--utc\"";
    assert!(asked[0].contains(lines), "{asked:?}");
    let changes = setup.registrar.changes.lock();
    let ServerChange::Add(added) = &changes[0] else { panic!("{changes:?}") };
    let ServerPlace::Image { image, args, env } = &added.place else { panic!("{added:?}") };
    assert_eq!((image.as_str(), args.as_slice()), ("ghcr.io/example/clock:1.0.0", &["--utc".to_owned()][..]));
    assert_eq!(env.keys().collect::<Vec<_>>(), ["TOKEN"]);
}

#[tokio::test]
async fn a_package_without_an_image_and_a_folder_of_the_user_are_refused_unasked() {
    let jira = server("get_issue").await;
    let setup = setup_in_pods(&jira.url).await;
    for (arguments, reason) in [
        (json!({"name": "com.example/unmarked"}), "no image"),
        (json!({"name": "com.example/folder", "values": {"source": "/srv"}}), "`--mount`"),
    ] {
        let (refused, asked) = setup.ask("accept", "optim.install_server", arguments).await;
        assert!(error(&refused).contains(reason), "{refused}");
        assert!(asked.is_empty() && setup.changes() == 0, "{asked:?}");
    }
}
