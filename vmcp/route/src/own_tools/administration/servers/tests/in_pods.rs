//! A registrar that runs programs in pods: it knows the program behind an address, and the servers of others.

use super::*;

/// A registrar that knows `time` as a program of its own, and no other server.
struct InPods(Arc<InMemory>);

impl ServerRegistrar for InPods {
    fn change(&self, change: ServerChange) -> BoxFuture<'_, Result<MadeChange, RegistrarError>> {
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
            if name != "time" {
                return Err(RegistrarError::Foreign(format!("`{name}` is defined elsewhere")));
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
    assert!(asked[0].ends_with("server: time\nprogram: npx"), "{asked:?}");
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
