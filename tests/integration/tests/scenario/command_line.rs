//! Command line for people and scripts, against a running server and against a file.

use serde_json::{Value, json};
use vmcp_integration::{Cli, Fixture, Vmcp, eventually};

async fn running() -> (Fixture, Fixture, Vmcp) {
    let (jira, echo) =
        (Fixture::http("jira", "jira").start().await, Fixture::http("echo", "echo").start().await);
    let vmcp = Vmcp::new().backend(&jira).backend(&echo).start().await;
    vmcp.with_tool("jira_create_note").await;
    vmcp.with_tool("echo_echo").await;
    (jira, echo, vmcp)
}

#[tokio::test]
async fn tools_and_backends_are_listed() {
    let (_jira, _echo, vmcp) = running().await;
    let tools = vmcp.cli(&["tools"]).await;
    assert!(
        tools.success && tools.stdout.contains("jira_get_jira_issue") && tools.stdout.contains("echo_add"),
        "{tools:?}"
    );
    let tools = vmcp.cli(&["tools", "--backend", "echo", "-o", "json"]).await;
    let listed: Value = serde_json::from_str(&tools.stdout).expect("JSON");
    let text = listed.to_string();
    assert!(text.contains("echo_add") && !text.contains("jira_"), "{text}");
    let backends = vmcp.cli(&["backends"]).await;
    assert!(
        backends.success && backends.stdout.contains("jira") && backends.stdout.contains("connected"),
        "{backends:?}"
    );
}

#[tokio::test]
async fn a_refresh_counts_what_changed_and_fails_with_a_server_that_does_not_answer() {
    let (_jira, mut echo, vmcp) = running().await;
    let refreshed = vmcp.cli(&["tools", "refresh", "jira", "--output", "json"]).await;
    assert!(refreshed.success, "{refreshed:?}");
    let report: Value = serde_json::from_str(&refreshed.stdout).expect("JSON");
    assert_eq!(
        (&report["servers"][0]["server"], &report["servers"][0]["unchanged"]),
        (&json!("jira"), &json!(9))
    );
    let forced = vmcp.cli(&["tools", "refresh", "jira", "--force"]).await;
    assert!(
        forced.success && forced.stdout.contains("UNCHANGED") && forced.stdout.contains('9'),
        "{forced:?}"
    );
    echo.kill().await;
    let failed = vmcp.cli(&["tools", "refresh"]).await;
    assert_eq!(failed.code, Some(1), "{failed:?}");
    assert!(failed.stdout.contains("failed") && failed.stderr.contains("echo"), "{failed:?}");
}

#[tokio::test]
async fn a_guarded_admin_port_wants_its_token_which_may_change_while_running() {
    let folder = tempfile::tempdir().expect("a folder");
    let (file, next) = (folder.path().join("token"), folder.path().join("next"));
    let write = |token: &str| {
        std::fs::write(&next, format!("{token}\n")).expect("writing");
        std::fs::rename(&next, &file).expect("replacing");
    };
    let (first, second) = ("the first token of the admin port", "the second token of the admin port");
    write(first);
    let tokens = json!({"server": {"adminTokens": [format!("${{file:{}}}", file.display())]}});
    let vmcp = Vmcp::new().config(tokens).start().await;
    let refused = vmcp.cli(&["backends"]).await;
    assert!(!refused.success && refused.stderr.contains("--admin-token"), "{refused:?}");
    // Without backends the command exits with 3.
    let with = async |token: &str| vmcp.cli(&["backends", "--admin-token", token]).await.code == Some(3);
    assert!(with(first).await);
    write(second);
    eventually("the second token to be in force", async || with(second).await.then_some(())).await;
    assert!(!with(first).await);
}

#[tokio::test]
async fn find_and_call_work_from_the_shell() {
    let (jira, _echo, vmcp) = running().await;
    let found = vmcp.cli(&["find", "who is watching a ticket"]).await;
    assert!(found.success && found.stdout.contains("jira_get_jira_issue_watchers"), "{found:?}");
    let explained = vmcp.cli(&["find", "who is watching a ticket", "--explain"]).await;
    for explanation in ["BM25", "BEST CLAUSE", "FUSED"] {
        assert!(explained.stdout.contains(explanation), "{explanation} in {explained:?}");
        assert!(!found.stdout.contains(explanation), "{explanation} in {found:?}");
    }
    let called = vmcp.cli(&["call", "jira_get_jira_issue", "issueKey=PROJ-123"]).await;
    assert!(called.success && called.stdout.contains("Login fails on Safari"), "{called:?}");
    let added = vmcp.cli(&["call", "echo_add", "--json", r#"{"a": 2, "b": 3}"#]).await;
    assert!(added.success && added.stdout.contains('5'), "{added:?}");
    let added = vmcp.cli(&["call", "echo_add", "a=2", "b=3"]).await;
    assert!(added.success && added.stdout.contains('5'), "numbers by the tool's schema: {added:?}");
    for failing in [
        vec!["call", "made_up"],
        vec!["call", "echo_fail", "message=no"],
        vec!["call", "jira_get_jira_issue"],
    ] {
        let run = vmcp.cli(&failing).await;
        assert!(!run.success && run.code != Some(101), "{failing:?}: {run:?}");
    }
    assert_eq!(jira.calls("get_jira_issue").await, 1, "the call without its argument never left");
}

#[tokio::test]
async fn doctor_says_what_is_wrong_with_a_backend() {
    let jira = Fixture::http("jira", "jira").start().await;
    let vmcp = Vmcp::new().backend(&jira);
    let vmcp = vmcp.backend_entry(json!({"name": "nothing", "command": ["no-such-program"]})).start().await;
    vmcp.with_tool("jira_create_note").await;
    let doctor = vmcp.cli(&["doctor"]).await;
    let said = format!("{}{}", doctor.stdout, doctor.stderr);
    assert!(said.contains("nothing") && said.contains("no-such-program"), "{said}");
}

#[tokio::test]
async fn a_search_names_the_server_that_does_not_run() {
    let vmcp = Vmcp::new();
    let vmcp = vmcp.backend_entry(json!({"name": "nothing", "command": ["no-such-program"]})).start().await;
    for place in [&[][..], &["--local"][..]] {
        let find = || async {
            let found = vmcp.cli(&[&["find", "anything"], place].concat()).await;
            assert!(!found.success, "{found:?}");
            // A running server may not have tried its backend yet.
            found.stderr.contains("nothing is not available").then_some(found)
        };
        let found = eventually("the server to be named", find).await;
        assert_eq!(found.code, Some(4), "{found:?}");
        assert!(found.stderr.contains("is the program installed"), "{found:?}");
        assert!(!found.stderr.contains("other words"), "{found:?}");
    }
}

#[tokio::test]
async fn a_newcomer_gets_a_file_that_is_valid_and_can_import_others() {
    let folder = tempfile::tempdir().expect("a folder");
    let written = Cli::run(&["init"], folder.path()).await;
    assert!(written.success, "{written:?}");
    assert!(Cli::run(&["validate"], folder.path()).await.success);
    assert!(!Cli::run(&["init"], folder.path()).await.success, "never over an existing file");
    let bare = [("PATH", "/nowhere")];
    for command in [&["init", "--force"][..], &["init", "-"], &["add", "other", "--", "uvx", "other"]] {
        let told = Cli::run_with(command, &bare, folder.path()).await;
        assert!(told.success, "{told:?}");
        let server = if command[0] == "add" { "other" } else { "time" };
        let missing = format!("`uvx` is missing, and {server} needs it: install uv: ");
        assert!(told.stderr.contains(&missing), "{command:?}: {told:?}");
    }
    let theirs = json!({"mcpServers": {"time": {"command": "uvx", "args": ["mcp-server-time"]},
        "remote": {"type": "http", "url": "https://example.com/mcp"}}});
    std::fs::write(folder.path().join(".mcp.json"), theirs.to_string()).expect("writing");
    std::fs::remove_file(folder.path().join("vmcp.yaml")).expect("removing");
    let imported = Cli::run(&["init", "--from", ".mcp.json"], folder.path()).await;
    assert!(imported.success, "{imported:?}");
    let yaml = std::fs::read_to_string(folder.path().join("vmcp.yaml")).expect("the file");
    assert!(yaml.contains("mcp-server-time") && yaml.contains("https://example.com/mcp"), "{yaml}");
    assert!(Cli::run(&["validate"], folder.path()).await.success, "{yaml}");
}

#[tokio::test]
async fn a_file_will_do_where_no_server_runs() {
    let jira = Fixture::stdio("jira", "jira").start().await;
    let folder = tempfile::tempdir().expect("a folder");
    let config = json!({"backends": [jira.backend], "optimizer": {"embeddings": {"provider": "none"},
        "storage": {"dir": "storage"}, "pinnedTools": ["jira_nothing"]}});
    std::fs::write(folder.path().join("vmcp.yaml"), config.to_string()).expect("writing");
    let pinned = ["backends", "-v", "--config", "vmcp.yaml"];
    let pinned = Cli::run(&pinned, folder.path()).await;
    assert!(pinned.stdout.contains("jira_nothing: pinned"), "{pinned:?}");
    let called = ["call", "--config", "vmcp.yaml", "jira_get_jira_issue", "issueKey=PROJ-123"];
    let called = Cli::run(&called, folder.path()).await;
    assert!(called.success && called.stdout.contains("Login fails on Safari"), "{called:?}");
    std::fs::write(folder.path().join(".env"), "hunter2hunter2\n").expect("writing");
    let doctor = Cli::run(&["doctor", "--config", "vmcp.yaml"], folder.path()).await;
    assert!(doctor.stdout.contains("configuration  .env:1: not readable as NAME=value"), "{doctor:?}");
    assert!(!doctor.stdout.contains("hunter2"), "{doctor:?}");
}

#[tokio::test]
async fn the_configuration_in_force_is_printed_with_its_defaults() {
    let folder = tempfile::tempdir().expect("a folder");
    let print = async |yaml: &str| {
        std::fs::write(folder.path().join("vmcp.yaml"), yaml).expect("writing");
        let printed = Cli::run(&["serve", "--print-config", "--config", "vmcp.yaml"], folder.path()).await;
        assert!(printed.success, "{printed:?}");
        printed.stdout
    };
    let has = |printed: &str, setting: &str| printed.lines().any(|line| line.trim_start() == setting);
    let printed = print("").await;
    for setting in [
        "lazyConnect: true",
        "preconnectServers: []",
        "connectionTimeout: 30s",
        "maxConnectionRetries: 3",
        "toolTimeout: 60s",
        "maxFallbacks: 3",
        "previewRows: 0",
        "maxCalls: 100",
        "llm: configured",
        "autoRetryFallback: \"Off\"",
        "searchMode: hybrid",
        "includeMetrics: true",
        "metricsRetentionDays: 7",
    ] {
        assert!(has(&printed, setting), "{setting}: {printed}");
    }
    let service = "optimizer: {embeddings: {provider: openai, openai: {apiKey: hunter2hunter2}}}";
    let printed = print(service).await;
    assert!(has(&printed, "model: text-embedding-3-small"), "{printed}");
    assert!(!printed.contains("hunter2"), "{printed}");
    let first = "recommend_tools: {search_mode: llm, include_metrics: false}\nmetrics_retention_days: 30";
    let printed = print(first).await;
    for setting in ["searchMode: llm", "includeMetrics: false", "metricsRetentionDays: 30"] {
        assert!(has(&printed, setting), "{setting}: {printed}");
    }
}

#[tokio::test]
async fn shells_complete_and_help_is_there() {
    let folder = tempfile::tempdir().expect("a folder");
    for shell in ["bash", "zsh", "fish"] {
        let script = Cli::run(&["completions", shell], folder.path()).await;
        assert!(script.success && script.stdout.contains("vmcp"), "{script:?}");
    }
    let help = Cli::run(&["--help"], folder.path()).await;
    for command in
        ["serve", "validate", "init", "tools", "find", "call", "backends", "doctor", "eval", "model"]
    {
        assert!(help.stdout.contains(command), "{command} in {}", help.stdout);
    }
}
