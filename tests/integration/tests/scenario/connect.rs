//! vmcp in the files of other clients, and servers that are tried before they are added.

use serde_json::{Value, json};
use vmcp_integration::{Cli, Fixture, Vmcp};

use super::laptop::{Laptop, settings};

#[tokio::test]
async fn a_client_is_connected_and_disconnected_again() {
    let laptop = Laptop::new(&settings(&[json!({"name": "db", "command": ["true"]})]));
    let before = json!({
        "theme": "dark",
        "mcpServers": {"DB": {"command": "true", "env": {"URI": "postgresql://bob:hunter2@db/x"}}, "own": {"url": "https://own.example"}},
    });
    laptop.write(".claude.json", &before.to_string());
    let read = || -> Value {
        let text = std::fs::read_to_string(laptop.path(".claude.json")).expect("the client's file");
        serde_json::from_str(&text).expect("JSON")
    };
    for again in [false, true] {
        let connected = laptop.run(&["connect", "claude"]).await;
        assert_eq!(connected.code, Some(0), "{}", connected.stderr);
        assert!(connected.stderr.contains("still there: own"), "{}", connected.stderr);
        assert_eq!(connected.stderr.contains("taken out"), !again, "{}", connected.stderr);
        assert!(!connected.stderr.contains("hunter2"), "{}", connected.stderr);
    }
    let file = read();
    assert_eq!((&file["theme"], &file["mcpServers"]["DB"]), (&json!("dark"), &Value::Null));
    let entry = &file["mcpServers"]["vmcp"];
    let args = entry["args"].as_array().expect("arguments");
    assert!(
        args.contains(&json!("mcp-server"))
            && entry["command"].as_str().expect("a program").ends_with("vmcp")
    );
    // The entry leads back to vmcp, so an import does not take it.
    let imported = laptop.run(&["init", "--from", "claude", "other.yaml"]).await;
    assert!(imported.stderr.contains("imported 1 server of"), "{}", imported.stderr);
    let undone = laptop.run(&["connect", "claude", "--undo"]).await;
    assert_eq!(undone.code, Some(0), "{}", undone.stderr);
    assert_eq!(read(), before);
    assert_eq!(laptop.run(&["connect", "claude", "--undo"]).await.code, Some(3));
}

#[tokio::test]
async fn a_file_that_only_vmcp_edited_is_put_back_to_the_letter() {
    let laptop = Laptop::new(&settings(&[json!({"name": "db", "command": ["true"]})]));
    let run = async |words: &[&str]| {
        let ended = laptop.run(&[&["connect", "cursor", "--file", "cursor.json"], words].concat()).await;
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    };
    let text = || std::fs::read_to_string(laptop.path("cursor.json")).ok();
    let servers = "\u{feff}{\r\n\t\"mcpServers\": {\r\n\t\t\"db\": {\"command\": \"true\"}, // mine\r\n\t\t\"own\": {},\r\n\t},\r\n}";
    for before in [None, Some(""), Some("{}"), Some(servers)] {
        if let Some(before) = before {
            laptop.write("cursor.json", before);
        }
        run(&[]).await;
        run(&["--keep"]).await;
        assert!(text().is_some_and(|text| text.contains("mcp-server")), "{before:?}");
        run(&["--undo"]).await;
        assert_eq!(text().as_deref(), before);
    }
    // An edit of another program stays, and no earlier entry of vmcp returns.
    run(&["--own-server"]).await;
    run(&[]).await;
    let edited = text().expect("the client's file").replacen('{', "{ \"theme\": 1,", 1);
    laptop.write("cursor.json", &edited);
    run(&["--undo"]).await;
    let after = text().expect("the client's file");
    assert!(after.contains("theme") && after.contains("\"db\"") && !after.contains("vmcp"), "{after}");
}

#[tokio::test]
async fn a_clients_files_are_where_its_variable_says() {
    let laptop = Laptop::new(&settings(&[json!({"name": "db", "command": ["true"]})]));
    let run = async |home: &str, words: &[&str]| {
        let mut command = laptop.command(words);
        let output = command.env("CODEX_HOME", laptop.path(home)).output().await.expect("vmcp");
        let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        (output.status.code(), said)
    };
    let config =
        |home: &str| std::fs::read_to_string(laptop.path(home).join("config.toml")).expect("the file");
    let before = "# mine\n\n[mcp_servers.db]\ncommand = \"true\"\n";
    for home in ["work", "private"] {
        std::fs::create_dir(laptop.path(home)).expect("a folder");
        laptop.write(&format!("{home}/config.toml"), before);
        let (code, said) = run(home, &["connect", "codex"]).await;
        assert!(code == Some(0) && said.contains("taken out, because vmcp serves them: db"), "{said}");
        assert!(
            config(home).contains("[mcp_servers.vmcp]") && !config(home).contains("servers.db"),
            "{said}"
        );
        let (code, said) = run(home, &["init", "--from", "codex", &format!("{home}.yaml")]).await;
        assert!(code == Some(0) && said.contains(&format!("{home}/config.toml")), "read there: {said}");
    }
    assert!(!laptop.path(".codex").exists(), "the usual folder stays out of it");
    let (code, said) = run("work", &["hooks", "install", "codex"]).await;
    assert!(code == Some(0) && laptop.path("work/hooks.json").is_file(), "{said}");
    // Each home of the client gets its own servers back: by the variable, or by the file.
    let (code, said) = run("work", &["connect", "codex", "--undo"]).await;
    assert!(code == Some(0) && said.contains("servers put back: db"), "{said}");
    assert!(config("work").contains("[mcp_servers.db]") && config("private").contains("servers.vmcp"));
    let undone = laptop.run(&["connect", "codex", "--undo", "--file", "private/config.toml"]).await;
    assert_eq!(undone.code, Some(0), "{}", undone.stderr);
    assert!(config("private").contains("[mcp_servers.db]") && !config("private").contains("servers.vmcp"));
}

#[tokio::test]
async fn what_connect_writes_serves_a_client() {
    let mut config = settings(&[]);
    config["profiles"] = json!({"work": {"readOnly": true}});
    let laptop = Laptop::new(&config);
    let connected = laptop.run(&["connect", "codex"]).await;
    assert_eq!(connected.code, Some(0), "{}", connected.stderr);
    let file = std::fs::read_to_string(laptop.path(".codex/config.toml")).expect("the client's file");
    assert!(file.contains("[mcp_servers.vmcp]"), "{file}");
    let imported = laptop.run(&["connect", "claude-desktop", "--file", "desktop.json"]).await;
    assert_eq!(imported.code, Some(0), "{}", imported.stderr);
    let desktop = std::fs::read_to_string(laptop.path("desktop.json")).expect("the client's file");
    let desktop: Value = serde_json::from_str(&desktop).expect("JSON");
    let words = desktop["mcpServers"]["vmcp"]["args"].as_array().expect("arguments");
    let words: Vec<_> = words.iter().filter_map(Value::as_str).collect();
    let initialize = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}});
    let answer = laptop.run_with_input(&words, &format!("{initialize}\n")).await;
    assert!(answer.stdout.contains("\"serverInfo\""), "{}{}", answer.stdout, answer.stderr);
    assert_eq!(laptop.run(&["stop"]).await.code, Some(0), "the client left the server that it started");
    let path = desktop["mcpServers"]["vmcp"]["env"]["PATH"].as_str();
    assert_eq!(path, std::env::var("PATH").ok().as_deref());
    assert_eq!(laptop.run(&["connect", "claude-desktop", "--http"]).await.code, Some(1));
    let of_profile = async |arguments: &[&str]| {
        let words = [&["connect", "cursor", "--file", "cursor.json", "--profile"], arguments].concat();
        let connected = laptop.run(&words).await;
        (connected.code, std::fs::read_to_string(laptop.path("cursor.json")).unwrap_or_default())
    };
    assert_eq!(of_profile(&["nobody"]).await, (Some(3), String::new()));
    let (code, file) = of_profile(&["work"]).await;
    let file: Value = serde_json::from_str(&file).expect("JSON");
    let words = file["mcpServers"]["vmcp"]["args"].as_array().expect("arguments");
    assert_eq!((code, &words[words.len() - 2..]), (Some(0), &[json!("--profile"), json!("work")][..]));
    let (_, file) = of_profile(&["work", "--http"]).await;
    assert!(file.contains("/mcp/work\""), "{file}");
    assert_eq!(laptop.run(&["connect", "emacs"]).await.code, Some(2));
}

#[tokio::test]
async fn a_server_is_tried_without_a_configuration() {
    let laptop = Laptop::new(&json!({}));
    std::fs::remove_file(laptop.path("vmcp.yaml")).expect("removing");
    let echo = Fixture::http("echo", "echo").start().await;
    let url = echo.backend["url"].as_str().expect("a URL");
    let tried = laptop.run(&["try", url, "--header", "Authorization: Bearer t0ken-of-some-length"]).await;
    assert_eq!(tried.code, Some(0), "{}", tried.stderr);
    assert!(tried.stdout.contains(" tools") && tried.stdout.contains("\nadd "), "{}", tried.stdout);
    let broken = laptop.run(&["try", "--", "sh", "-c", "echo no such day >&2; exit 3"]).await;
    assert_eq!(broken.code, Some(4), "{}", broken.stdout);
    assert!(broken.stderr.contains("no such day"), "{}", broken.stderr);
    // A tried program stands in no file.
    let by_hand = broken.stderr.contains("by hand: `sh …`, with the same arguments");
    assert!(by_hand && !broken.stderr.contains("of the configuration"), "{}", broken.stderr);
    assert!(!laptop.path("vmcp.yaml").exists() && !laptop.path(".env").exists());
}

#[tokio::test]
async fn every_failure_answers_programs_by_one_object() {
    let laptop = Laptop::new(&json!({}));
    laptop.write("vmcp.yaml", "proxy: { port: 1 }\n");
    for (code, words) in [
        (1, &["find", "x"][..]),
        (1, &["call", "x_y", "a=1"]),
        (1, &["tools"]),
        (1, &["doctor"]),
        (1, &["explain-tool", "x"]),
        (2, &["finde"]),
        (2, &["call"]),
    ] {
        let ended = laptop.run(&[words, &["-o", "json"]].concat()).await;
        assert_eq!(ended.code, Some(code), "{words:?}: {}", ended.stderr);
        let failure: Value =
            serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{words:?}: {error}"));
        assert_eq!(failure["exitCode"], code, "{words:?}: {failure}");
        assert!(failure["error"].is_string() && !ended.stderr.is_empty(), "{words:?}: {failure}");
    }
}

#[tokio::test]
async fn commands_that_change_files_answer_programs_too() {
    let laptop = Laptop::new(&json!({}));
    laptop.write("vmcp.yaml", "backends:\n  - name: db\n    command: ['true']\n");
    laptop.write("cursor.json", r#"{"mcpServers": {"DB": {"command": "true"}, "own": {"command": "own"}}}"#);
    let client = json!({"mcpServers": {
        "db": {"command": "other"},
        "gh": {"url": "https://gh.example/mcp", "headers": {"Authorization": "Bearer t0ken-0123456789"}},
    }});
    laptop.write("client.json", &client.to_string());
    let run = async |code: i32, words: &[&str]| -> Value {
        let (command, rest) = words.split_at(1);
        let ended = laptop.run(&[command, &["-o", "json"], rest].concat()).await;
        assert_eq!(ended.code, Some(code), "{words:?}: {}", ended.stderr);
        assert!(!ended.stdout.contains("t0ken"), "{}", ended.stdout);
        serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {}", ended.stdout))
    };

    let connected = run(0, &["connect", "cursor", "--file", "cursor.json"]).await;
    assert_eq!((&connected["client"], &connected["connected"]), (&json!("cursor"), &json!(true)));
    assert_eq!((&connected["taken"], &connected["left"]), (&json!(["DB"]), &json!(["own"])));
    let undone = run(0, &["connect", "cursor", "--file", "cursor.json", "--undo"]).await;
    assert_eq!((&undone["connected"], &undone["restored"]), (&json!(false), &json!(["DB"])));
    let absent = run(3, &["connect", "cursor", "--file", "cursor.json", "--undo"]).await;
    assert_eq!(absent["exitCode"], 3);
    assert!(absent["error"].as_str().is_some_and(|error| error.contains("was not connected")), "{absent}");

    let merged = run(0, &["init", "--from", "client.json", "--merge"]).await;
    assert_eq!((&merged["imported"], &merged["skipped"]), (&json!(["gh"]), &json!(["db"])));
    assert_eq!((&merged["secrets"], &merged["written"]), (&json!(["GH_TOKEN"]), &json!(true)));
    assert_eq!(run(0, &["init", "--from", "client.json", "--merge"]).await["written"], false);
    let exists = run(1, &["init"]).await;
    assert!(exists["remedy"].as_str().is_some_and(|remedy| remedy.contains("--force")), "{exists}");

    let added = run(0, &["add", "own", "--env", "API_KEY=t0ken", "--", "true"]).await;
    assert_eq!((&added["backend"], &added["created"]), (&json!("own"), &json!(false)));
    assert_eq!(run(1, &["add", "own", "https://own.example/mcp"]).await["exitCode"], 1);
    assert_eq!(run(2, &["add", "Own One", "https://own.example/mcp"]).await["exitCode"], 2);
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let mut unread = laptop.command(&["add", "Own One", "https://own.example/mcp", "-o", "json"]);
    let status = unread.stdout(writer).stderr(std::process::Stdio::null()).status().await.expect("vmcp");
    assert_eq!(status.code(), Some(2), "a result that nothing reads");
    assert_eq!(run(0, &["disable", "own"]).await["change"], "disabled");
    let removed = run(0, &["remove", "gh", "--secrets"]).await;
    assert_eq!((&removed["change"], &removed["secretsRemoved"]), (&json!("removed"), &json!(["GH_TOKEN"])));
    let kept = run(0, &["remove", "own"]).await;
    assert_eq!(kept["secretsKept"].as_array().map(Vec::len), Some(1), "{kept}");
    assert_eq!(run(3, &["remove", "own"]).await["exitCode"], 3);
}

#[tokio::test]
async fn servers_and_secrets_that_are_added_at_once_are_all_kept() {
    let laptop = Laptop::new(&json!({}));
    laptop.write("vmcp.yaml", "# mine\nbackends: []\n");
    let names: Vec<_> = (1..=8).map(|number| format!("server{number}")).collect();
    let added = names.iter().map(|name| {
        let secret = format!("API_KEY=secret-of-{name}");
        let mut command = laptop.command(&["add", name, "--env", &secret, "--", "true"]);
        async move { command.output().await.expect("vmcp") }
    });
    for output in futures::future::join_all(added).await {
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    let text = std::fs::read_to_string(laptop.path("vmcp.yaml")).expect("the file");
    let secrets = std::fs::read_to_string(laptop.path(".env")).expect("the secrets");
    let stored = names.iter().map(|name| {
        laptop.write(&format!("value-{name}"), "v4lue");
        let value = std::fs::File::open(laptop.path(&format!("value-{name}"))).expect("the value");
        let mut command = laptop.command(&["secret", "set", name, "--file"]);
        command.stdin(value);
        async move { command.output().await.expect("vmcp") }
    });
    for output in futures::future::join_all(stored).await {
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    let listed = laptop.run(&["secret", "list"]).await;
    assert_eq!(listed.stdout.lines().collect::<Vec<_>>(), names);
    for name in &names {
        assert!(text.contains(&format!("- name: {name}\n")), "{name}: {text}");
        assert!(secrets.contains(&format!("=secret-of-{name}\n")), "{name}: {secrets}");
    }
}

#[tokio::test]
async fn a_read_only_file_of_a_client_stays_and_the_entry_is_told() {
    let laptop = Laptop::new(&settings(&[json!({"name": "db", "command": ["true"]})]));
    let before = r#"{"mcpServers": {"db": {"command": "true"}}}"#;
    laptop.write("cursor.json", before);
    let file = laptop.path("cursor.json");
    let mut permissions = std::fs::metadata(&file).expect("the file").permissions();
    permissions.set_readonly(true);
    std::fs::set_permissions(&file, permissions).expect("a mode");
    let refused = laptop.run(&["connect", "cursor", "--file", "cursor.json"]).await;
    assert_eq!(refused.code, Some(1), "{}", refused.stderr);
    assert!(refused.stderr.contains("it is read-only"), "{}", refused.stderr);
    assert!(refused.stderr.contains("write it by hand, as `vmcp`"), "{}", refused.stderr);
    assert_eq!(std::fs::read_to_string(&file).expect("the file"), before);
    assert_eq!(laptop.run(&["connect", "cursor", "--undo", "--file", "cursor.json"]).await.code, Some(3));
}

#[tokio::test]
async fn a_client_gets_the_folders_and_proxies_of_the_shell_without_passwords() {
    let laptop = Laptop::new(&settings(&[json!({"name": "db", "command": ["true"]})]));
    let cache = laptop.path("cache").display().to_string();
    let mut command = laptop.command(&["connect", "cursor", "--file", "cursor.json", "-o", "json"]);
    command.env("XDG_CACHE_HOME", &cache).env("HTTPS_PROXY", "http://proxy.corp:3128");
    command.env("HTTP_PROXY", "http://me:hunter2@proxy.corp:3128");
    let output = command.output().await.expect("vmcp");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && said.contains("HTTP_PROXY may hold a password"), "{said}");
    let told: Value = serde_json::from_slice(&output.stdout).expect("a result as JSON");
    assert!(told["notes"].to_string().contains("HTTP_PROXY may hold a password"), "{told}");
    let text = std::fs::read_to_string(laptop.path("cursor.json")).expect("the file");
    assert!(!text.contains("hunter2") && !said.contains("hunter2"), "{text}");
    let file: Value = serde_json::from_str(&text).expect("JSON");
    let env = &file["mcpServers"]["vmcp"]["env"];
    assert_eq!(
        (&env["XDG_CACHE_HOME"], &env["HTTPS_PROXY"]),
        (&json!(cache), &json!("http://proxy.corp:3128"))
    );
    assert_eq!(env["HTTP_PROXY"], Value::Null);
}

#[tokio::test]
async fn a_command_reaches_the_server_of_its_own_machine_without_the_proxy() {
    let echo = Fixture::http("echo", "echo").start().await;
    let vmcp = Vmcp::new().backend(&echo).start().await;
    vmcp.with_tool("echo_add").await;
    let environment = [
        ("VMCP_URL", vmcp.url.as_str()),
        ("VMCP_ADMIN_URL", vmcp.admin.as_str()),
        ("HTTP_PROXY", "http://127.0.0.1:1"),
        ("http_proxy", "http://127.0.0.1:1"),
        ("NO_PROXY", ""),
        ("no_proxy", ""),
    ];
    let folder = tempfile::tempdir().expect("a folder");
    let called = Cli::run_with(&["call", "echo_add", "a=1", "b=2"], &environment, folder.path()).await;
    assert!(called.success, "{called:?}");
}
