//! Outgoing requests in a company's network, and `.env` files as people have them.

use serde_json::json;
use vmcp_integration::{Cli, Fixture, ForwardProxy, Vmcp};

#[tokio::test]
async fn a_backend_behind_the_companys_proxy_is_reached_and_doctor_says_so() {
    let far = Fixture::http("far", "echo").start().await;
    let near = Fixture::http("near", "echo").start().await;
    let address = far.url().trim_start_matches("http://").split('/').next().expect("an address").to_owned();
    let proxy = ForwardProxy::start(&[("tools.corp.example", address.as_str())]).await;
    let url = far.url().replace(&address, "tools.corp.example");
    let vmcp = Vmcp::new()
        .backend_entry(json!({"name": "far", "url": url}))
        .backend(&near)
        .config(json!({"operational": {"logLevel": "debug"}}))
        .env("http_proxy", &format!("http://me:hunter2@{}", proxy.address))
        .start()
        .await;
    let client = vmcp.with_tool("far_add").await;
    let answer = client.call_tool("far_add", json!({"a": 1, "b": 2})).await;
    assert!(answer.text.contains('3'), "{}", answer.text);
    vmcp.with_tool("near_add").await;
    let heads = proxy.heads();
    assert!(
        !heads.is_empty() && heads.iter().all(|head| head.contains(" http://tools.corp.example")),
        "{heads:?}"
    );
    assert!(heads.iter().all(|head| head.contains("Basic bWU6aHVudGVyMg==")), "{heads:?}");

    let shown = format!("through the proxy http://{}", proxy.address);
    let doctor = vmcp.cli(&["doctor"]).await.stdout;
    assert_eq!(doctor.matches(&shown).count(), 1, "{doctor}");
    let log = vmcp.process.output();
    assert!(log.contains(&format!("http://{}", proxy.address)), "{log}");
    for text in [doctor, log, vmcp.status().await.to_string()] {
        assert!(!text.contains("hunter2"), "{text}");
    }
}

#[tokio::test]
async fn an_odd_line_of_a_dot_env_file_costs_itself_and_no_secret_is_lost() {
    let folder = tempfile::tempdir().expect("a folder");
    let env = folder.path().join(".env");
    let odd = "\u{feff}FIRST=two words\r\nhunter2 is no entry\r\nPRICE=it's 5$\r\n";
    std::fs::write(&env, odd).expect("writing");
    std::fs::write(folder.path().join("vmcp.yaml"), "backends: []\n").expect("writing");
    let secret = "pa$$'word # \"x\"";
    let add = ["add", "own", "--env", &format!("API_KEY={secret}"), "--", "echo"];
    let added = Cli::run(&add, folder.path()).await;
    assert!(added.success, "{}{}", added.stdout, added.stderr);
    let text = std::fs::read_to_string(&env).expect("reading");
    assert!(text.starts_with(odd) && text.contains("API_KEY="), "{text}");
    let validated = Cli::run(&["validate"], folder.path()).await;
    let said = format!("{}{}", validated.stdout, validated.stderr);
    assert!(said.contains(".env:2: not readable as NAME=value") && !said.contains("hunter2"), "{said}");
    assert!(!said.contains("is not set"), "{said}");

    // A file that cannot take the secret leaves everything as it was.
    std::fs::remove_file(&env).expect("removing");
    std::fs::create_dir(&env).expect("a folder in its place");
    let before = std::fs::read_to_string(folder.path().join("vmcp.yaml")).expect("reading");
    let refused =
        Cli::run(&["add", "other", "--env", "API_TOKEN=s3cret-value", "--", "echo"], folder.path()).await;
    assert!(!refused.success);
    let after = std::fs::read_to_string(folder.path().join("vmcp.yaml")).expect("reading");
    assert_eq!(before, after);
}
