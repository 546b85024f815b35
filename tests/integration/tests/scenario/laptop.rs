//! First hour on a laptop: secrets that are absent, commands beside a running server.

use std::path::Path;

use serde_json::{Value, json};
use tokio::process::Command;
use vmcp_integration::{Fixture, Process, Vmcp, eventually, free_port, vmcp_command};

/// Variables that move the files of vmcp and of other clients out of the home.
pub(crate) const MOVING_VARIABLES: [&str; 10] = [
    "XDG_CONFIG_HOME",
    "AMP_SETTINGS_FILE",
    "CLAUDE_CONFIG_DIR",
    "CODEX_HOME",
    "CONTINUE_GLOBAL_DIR",
    "COPILOT_HOME",
    "GEMINI_CLI_HOME",
    "GOOSE_PATH_ROOT",
    "OPENCODE_CONFIG",
    "APPDATA",
];

/// A home of its own, and a folder with a configuration.
pub(crate) struct Laptop {
    home: tempfile::TempDir,
}

/// A finished command.
pub(crate) struct Run {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Laptop {
    pub(crate) fn new(config: &Value) -> Laptop {
        let home = tempfile::tempdir().expect("a folder");
        let laptop = Laptop { home };
        laptop.write("vmcp.yaml", &config.to_string());
        laptop
    }

    pub(crate) fn path(&self, name: &str) -> std::path::PathBuf {
        self.home.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).expect("writing");
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = vmcp_command();
        command.args(args).current_dir(self.home.path()).env("HOME", self.home.path());
        command.env_remove("XDG_CACHE_HOME").kill_on_drop(true);
        for name in MOVING_VARIABLES {
            command.env_remove(name);
        }
        command
    }

    pub(crate) async fn run(&self, args: &[&str]) -> Run {
        self.run_with_input(args, "").await
    }

    pub(crate) async fn run_with_input(&self, args: &[&str], input: &str) -> Run {
        self.write("input", input);
        let input = std::fs::File::open(self.path("input")).expect("the input");
        let output = self.command(args).stdin(input).output().await.expect("vmcp");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Run { code: output.status.code(), stdout: text(&output.stdout), stderr: text(&output.stderr) }
    }
}

pub(crate) fn settings(backends: &[Value]) -> Value {
    json!({"backends": backends, "optimizer": {"embeddings": {"provider": "none"}}})
}

/// State and last error of a backend, as `vmcp backends` shows them.
async fn backend(laptop: &Laptop, args: &[&str], name: &str) -> Option<(String, String)> {
    let shown = laptop.run(&[&["backends", "-o", "json"], args].concat()).await;
    let report: Value = serde_json::from_str(&shown.stdout).ok()?;
    let found = report["backends"].as_array()?.iter().find(|backend| backend["name"] == name)?;
    let text = |key: &str| found[key].as_str().unwrap_or_default().to_owned();
    Some((text("state"), text("lastError")))
}

#[tokio::test]
async fn an_absent_secret_stops_its_backend_only_and_env_files_bring_it() {
    let echo = Fixture::http("echo", "echo").start().await;
    let mut secret = echo.backend.clone();
    secret["name"] = json!("secret");
    secret["headers"] = json!({"X-Token": "${LAPTOP_TEST_TOKEN}"});
    let mut vmcp = Vmcp::new().backend(&echo).backend_entry(secret).start().await;
    vmcp.with_tool("echo_add").await;
    let status = vmcp.status().await;
    let of = |status: &Value| {
        let backends = status["backends"].as_array().expect("backends").clone();
        backends.into_iter().find(|backend| backend["name"] == "secret").expect("the backend")
    };
    assert_eq!(of(&status)["state"], "failed", "{status}");
    let error = of(&status)["lastError"].to_string();
    assert!(error.contains("`LAPTOP_TEST_TOKEN` is not set; set it"), "{error}");
    let valid = vmcp.cli(&["validate", &vmcp.config_file().display().to_string()]).await;
    assert!(valid.success && valid.stdout.contains("warning: "), "{valid:?}");
    // A `.env` beside the file is followed as the file is.
    let beside = vmcp.config_file().with_file_name(".env");
    std::fs::write(beside, "LAPTOP_TEST_TOKEN=t0ken\n").expect("writing");
    vmcp.with_tool("secret_add").await;
    vmcp.process.assert_running();
}

#[tokio::test]
async fn stored_secrets_reach_a_backend() {
    let echo = Fixture::http("echo", "echo").start().await;
    let mut secret = echo.backend.clone();
    secret["headers"] = json!({"X-Token": "${secret:LAPTOP_TOKEN}"});
    let laptop = Laptop::new(&settings(&[secret]));
    let (state, error) = backend(&laptop, &[], "echo").await.expect("the backend");
    assert!(state == "failed" && error.contains("`vmcp secret set LAPTOP_TOKEN`"), "{state}: {error}");
    let stored = laptop.run_with_input(&["secret", "set", "LAPTOP_TOKEN"], "t0ken\n").await;
    assert_eq!(stored.code, Some(0), "{}", stored.stderr);
    assert!(stored.stderr.contains("secrets.json, which only you can read"), "{}", stored.stderr);
    let listed = laptop.run(&["secret", "list"]).await;
    assert_eq!(listed.stdout, "LAPTOP_TOKEN\n", "names only");
    assert_eq!(backend(&laptop, &[], "echo").await.expect("the backend").0, "connected");
    assert_eq!(laptop.run(&["secret", "rm", "LAPTOP_TOKEN"]).await.code, Some(0));
    assert_eq!(laptop.run(&["secret", "rm", "LAPTOP_TOKEN"]).await.code, Some(3));
}

#[tokio::test]
async fn a_keyring_keeps_secrets_where_there_is_one() {
    let echo = Fixture::http("echo", "echo").start().await;
    let mut secret = echo.backend.clone();
    secret["headers"] = json!({"X-Token": "${secret:LAPTOP_TOKEN}"});
    let laptop = Laptop::new(&settings(&[secret]));
    // As libsecret's program: one file for each name, which comes last.
    let program = "#!/bin/sh\nfor name; do :; done\ncase $1 in store) cat > ring-$name;; lookup) cat ring-$name;; \
                   clear) rm ring-$name;; esac\n";
    laptop.write("secret-tool", program);
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(laptop.path("secret-tool"), mode).expect("a program");
    let folder = laptop.path(".").display().to_string();
    let path = format!("{folder}:{}", std::env::var("PATH").expect("a path"));
    let run = async |args: &[&str]| {
        laptop.write("input", "t0ken\n");
        let input = std::fs::File::open(laptop.path("input")).expect("the input");
        let mut command = laptop.command(args);
        command.stdin(input).env("PATH", &path).env("DBUS_SESSION_BUS_ADDRESS", "unix:path=/nowhere");
        let output = command.output().await.expect("vmcp");
        (output.status.code(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
    };
    let (code, said) = run(&["secret", "set", "LAPTOP_TOKEN"]).await;
    assert!(code == Some(0) && said.contains("stored in the keyring"), "{said}");
    let file = std::fs::read_to_string(laptop.path(".config/vmcp/secrets.json")).expect("the file");
    assert!(file.contains("LAPTOP_TOKEN") && !file.contains("t0ken"), "{file}");
    assert_eq!(run(&["secret", "list"]).await.1, "LAPTOP_TOKEN\n");
    let (_, states) = run(&["backends"]).await;
    assert!(states.contains("connected"), "{states}");
    std::fs::remove_file(laptop.path("ring-LAPTOP_TOKEN")).expect("the secret");
    let (_, states) = run(&["backends"]).await;
    assert!(states.contains("is in the keyring"), "one that is gone is told: {states}");
    let (code, said) = run(&["secret", "set", "LAPTOP_TOKEN", "--file"]).await;
    assert!(code == Some(0) && said.contains("secrets.json"), "{said}");
    assert!(run(&["backends"]).await.1.contains("connected"));
    assert_eq!(run(&["secret", "rm", "LAPTOP_TOKEN"]).await.0, Some(0));
}

#[tokio::test]
async fn commands_find_the_server_of_their_file_wherever_it_listens() {
    let echo = Fixture::http("echo", "echo").start().await;
    let mut secret = echo.backend.clone();
    secret["headers"] = json!({"X-Token": "${LAPTOP_TEST_TOKEN}"});
    let laptop = Laptop::new(&settings(&[secret]));
    let ports = [free_port(), free_port()].map(|port| format!("127.0.0.1:{port}"));
    let mut serve = laptop.command(&["serve", "--listen", &ports[0], "--admin-listen", &ports[1]]);
    let mut server = Process::start("vmcp", serve.env("LAPTOP_TEST_TOKEN", "t0ken"));
    eventually("the backend to connect", async || {
        // This command has no token; the server has.
        let (state, _) = backend(&laptop, &[], "echo").await?;
        (state == "connected").then_some(())
    })
    .await;
    let called = laptop.run(&["call", "echo_add", "a=2", "b=3"]).await;
    assert_eq!((called.code, called.stdout.trim()), (Some(0), "5"), "{}", called.stderr);
    let states = laptop.path(".cache/vmcp/run");
    // Sockets of clients lie in a folder of their own.
    let files = |folder: &Path| {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        entries.filter(|entry| entry.path().is_file()).count()
    };
    assert_eq!(files(&states), 1);
    server.signal("TERM").await;
    assert!(server.ended().await.success());
    assert_eq!(files(&states), 0, "the state file goes with its server");
    assert_eq!(backend(&laptop, &[], "echo").await.expect("the backend").0, "failed", "no server, no token");
}

#[tokio::test]
async fn a_second_server_hides_the_first_for_its_own_time_only() {
    let laptop = Laptop::new(&settings(&[]));
    let ports = || [free_port(), free_port()].map(|port| format!("127.0.0.1:{port}"));
    let serve = |ports: &[String; 2]| {
        Process::start(
            "vmcp",
            &mut laptop.command(&["serve", "--listen", &ports[0], "--admin-listen", &ports[1]]),
        )
    };
    let served_at = async |port: &String| {
        eventually("the server to be found", async || {
            let status = laptop.run(&["status"]).await;
            status.stdout.contains(port.as_str()).then_some(())
        })
        .await;
    };
    let (first_ports, second_ports) = (ports(), ports());
    let mut first = serve(&first_ports);
    served_at(&first_ports[0]).await;
    let again = laptop.run(&["serve", "--listen", &first_ports[0], "--admin-listen", &second_ports[1]]).await;
    assert!(again.stderr.contains("serves this configuration already"), "{}", again.stderr);
    let mut second = serve(&second_ports);
    served_at(&second_ports[0]).await;
    second.signal("TERM").await;
    second.ended().await;
    served_at(&first_ports[0]).await;
    first.signal("TERM").await;
    first.ended().await;
    let wrong = laptop.run(&["serve", "--listen", "8080"]).await;
    assert!(wrong.stderr.contains("such as 127.0.0.1:8080"), "{}", wrong.stderr);
}

#[cfg(unix)]
#[tokio::test]
async fn a_clients_servers_are_imported_without_their_passwords() {
    use std::os::unix::fs::PermissionsExt as _;
    let laptop = Laptop::new(&json!({}));
    std::fs::remove_file(laptop.path("vmcp.yaml")).expect("removing");
    let local =
        json!({"mcpServers": {"db": {"command": "true", "env": {"URI": "postgresql://bob:hunter2@db/x"}}}});
    let vmcp = json!({"vmcp": {"command": "vmcp", "args": ["serve", "--stdio"]}});
    laptop.write(".claude.json", &json!({"mcpServers": vmcp, "projects": {"/work": local}}).to_string());
    let imported = laptop.run(&["init", "--from", "claude"]).await;
    assert_eq!(imported.code, Some(0), "{}", imported.stderr);
    assert!(!imported.stderr.contains("hunter2"), "{}", imported.stderr);
    let read = |name: &str| std::fs::read_to_string(laptop.path(name)).expect("the file");
    let yaml = read("vmcp.yaml");
    assert!(yaml.contains("${URI_PASSWORD}") && yaml.contains("leads to vmcp itself"), "{yaml}");
    assert!(!yaml.contains("hunter2") && read(".env").contains("URI_PASSWORD=hunter2"), "{yaml}");
    for name in ["vmcp.yaml", ".env"] {
        let mode = laptop.path(name).metadata().expect("the file").permissions().mode();
        assert_eq!(mode & 0o077, 0, "{name}");
    }
    let valid = laptop.run(&["validate"]).await;
    assert!(valid.stdout.contains("1 backend, 0 warnings"), "{}{}", valid.stdout, valid.stderr);
}

#[tokio::test]
async fn blocks_of_continue_are_imported_with_its_own_file() {
    let laptop = Laptop::new(&json!({}));
    std::fs::remove_file(laptop.path("vmcp.yaml")).expect("removing");
    std::fs::create_dir_all(laptop.path(".continue/mcpServers")).expect("a folder");
    let block = |name: &str| format!("name: {name}\nmcpServers:\n  - name: {name}\n    command: {name}\n");
    laptop.write(".continue/config.yaml", &block("own"));
    laptop.write(".continue/mcpServers/notes.yaml", &block("notes"));
    let of_another = json!({"mcpServers": {"mail": {"command": "mail"}}});
    laptop.write(".continue/mcpServers/mail.json", &of_another.to_string());
    laptop.write(".continue/mcpServers/notes.md", "no server");
    let imported = laptop.run(&["init", "--from", "continue"]).await;
    assert_eq!(imported.code, Some(0), "{}", imported.stderr);
    let yaml = std::fs::read_to_string(laptop.path("vmcp.yaml")).expect("the file");
    let names: Vec<_> = yaml.lines().filter_map(|line| line.trim_start().strip_prefix("- name: ")).collect();
    assert_eq!(names, ["own", "mail", "notes"], "{yaml}");
}

#[tokio::test]
async fn backends_are_added_switched_and_removed_while_a_server_runs_and_comments_stay() {
    let echo = Fixture::http("echo", "echo").start().await;
    let laptop = Laptop::new(&json!({}));
    laptop.write("vmcp.yaml", "# mine\noptimizer: { embeddings: { provider: none } }\n");
    let ports = [free_port(), free_port()].map(|port| format!("127.0.0.1:{port}"));
    let mut serve = laptop.command(&["serve", "--listen", &ports[0], "--admin-listen", &ports[1]]);
    let _server = Process::start("vmcp", &mut serve);
    let is_up = || std::fs::read_dir(laptop.path(".cache/vmcp/run")).ok()?.next();
    eventually("the server", async || is_up().map(drop)).await;
    let url = echo.backend["url"].as_str().expect("a URL");
    let added = laptop.run(&["add", "echo", url, "--header", "Authorization: Bearer t0ken"]).await;
    assert_eq!(added.code, Some(0), "{}", added.stderr);
    let connected = async || Some(backend(&laptop, &[], "echo").await?.0 == "connected");
    eventually("the backend to connect", async || connected().await.filter(|is| *is)).await;
    let text = std::fs::read_to_string(laptop.path("vmcp.yaml")).expect("the file");
    assert!(text.starts_with("# mine\n") && text.contains("Bearer ${ECHO_TOKEN}"), "{text}");
    assert_eq!(laptop.run(&["add", "echo", url]).await.code, Some(1), "the name is taken");
    assert_eq!(laptop.run(&["disable", "echo"]).await.code, Some(0));
    eventually("the backend to stop", async || connected().await.filter(|is| !*is)).await;
    assert_eq!(laptop.run(&["enable", "echo"]).await.code, Some(0));
    // Its tools are known, so that it connects at its first call only.
    let serves =
        async || Some(["connected", "configured"].contains(&&*backend(&laptop, &[], "echo").await?.0));
    eventually("the backend to serve again", async || serves().await.filter(|is| *is)).await;
    let removed = laptop.run(&["remove", "echo"]).await;
    assert!(removed.code == Some(0) && removed.stderr.contains("removed echo from"), "{}", removed.stderr);
    eventually("the backend to go", async || backend(&laptop, &[], "echo").await.is_none().then_some(()))
        .await;
    assert_eq!(laptop.run(&["remove", "echo"]).await.code, Some(3));
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn colors_are_for_terminals_and_for_those_who_want_them() {
    let laptop = Laptop::new(&settings(&[json!({"name": "gone", "command": ["false"]})]));
    let shown = async |variables: &[(&str, &str)]| {
        let mut command = laptop.command(&["backends", "--wait", "30s"]);
        command.env_remove("NO_COLOR").env_remove("CLICOLOR_FORCE").envs(variables.iter().copied());
        String::from_utf8(command.output().await.expect("vmcp").stdout).expect("text")
    };
    let forced = shown(&[("CLICOLOR_FORCE", "1")]).await;
    assert!(forced.starts_with("\u{1b}[1mNAME") && forced.contains("\u{1b}[31mgone"), "{forced:?}");
    for variables in [&[][..], &[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")]] {
        let plain = shown(variables).await;
        assert!(plain.starts_with("NAME") && !plain.contains('\u{1b}'), "{plain:?}");
    }
}

#[tokio::test]
async fn a_search_without_a_server_waits_for_no_server_that_is_down_and_shells_complete_what_is_known() {
    let echo = Fixture::stdio("echo", "echo").start().await;
    let laptop = Laptop::new(&settings(std::slice::from_ref(&echo.backend)));
    let program = vmcp_integration::binary("vmcp");
    let complete_in = async |folder: std::path::PathBuf, words: &str| {
        let script = format!(
            "source <({program} completions bash); COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}}-1)); \
             COMP_TYPE=9; _clap_complete_vmcp; printf '%s\n' \"${{COMPREPLY[@]}}\"",
            program = program.display()
        );
        let programs = program.parent().expect("a folder").display();
        let path = format!("{programs}:{}", std::env::var("PATH").expect("a path"));
        let mut bash = Command::new("bash");
        bash.args(["-c", &script]).current_dir(folder).env("HOME", laptop.path(".")).env("PATH", path);
        bash.env_remove("XDG_CONFIG_HOME").env_remove("VMCP_CONFIG");
        let output = bash.env_remove("XDG_CACHE_HOME").output().await.expect("bash");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let complete = async |words: &str| complete_in(laptop.path("."), words).await;
    eventually("the saved listing", async || {
        laptop.run(&["tools"]).await;
        complete("vmcp call echo_a").await.contains("echo_add").then_some(())
    })
    .await;
    // A cursor that stands behind a blank completes parameters of the tool, and clients.
    let parameters = complete("vmcp call echo_add ''").await;
    assert!(parameters.contains("a=") && parameters.contains("b="), "{parameters}");
    let clients = complete("vmcp init --from c").await;
    for client in ["claude", "codex", "cursor", "copilot-cli"] {
        assert!(clients.contains(client), "{client}: {clients}");
    }
    let hang = json!({"name": "hang", "command": ["sleep", "7773"]});
    let mut config = settings(&[echo.backend.clone(), hang]);
    config["profiles"] = json!({"work": {"readOnly": true}});
    laptop.write("vmcp.yaml", &config.to_string());
    let backends = complete("vmcp doctor ''").await;
    assert!(backends.contains("echo") && backends.contains("hang"), "{backends}");
    assert!(complete("vmcp connect cursor --profile w").await.contains("work"));
    assert!(complete("vmcp metrics --backend e").await.contains("echo"));
    assert_eq!(laptop.run_with_input(&["secret", "set", "NOTES_TOKEN", "--file"], "x").await.code, Some(0));
    assert!(complete("vmcp secret rm N").await.contains("NOTES_TOKEN"));
    let listed = laptop.run(&["secret", "list", "-o", "json"]).await.stdout;
    assert_eq!(serde_json::from_str::<Value>(&listed).expect("JSON"), json!(["NOTES_TOKEN"]));

    let found = laptop.run(&["find", "add two numbers"]).await;
    assert!(found.stdout.contains("echo_add"), "{}", found.stderr);
    assert!(found.stderr.contains("not listed yet: hang;"), "{}", found.stderr);

    // In another folder, names are those of the running server.
    let elsewhere = tempfile::tempdir().expect("a folder");
    let nothing = complete_in(elsewhere.path().to_owned(), "vmcp doctor e").await;
    assert!(!nothing.contains("echo"), "{nothing}");
    let ports = [free_port(), free_port()].map(|port| format!("127.0.0.1:{port}"));
    let serve = ["serve", "--detach", "--listen", &ports[0], "--admin-listen", &ports[1]];
    let started = laptop.run(&serve).await;
    assert_eq!(started.code, Some(0), "{}", started.stderr);
    let backends = complete_in(elsewhere.path().to_owned(), "vmcp doctor e").await;
    let tools = complete_in(elsewhere.path().to_owned(), "vmcp call echo_a").await;
    // So are files, of commands that read one.
    let mut refused = Vec::new();
    for words in [
        &["validate"][..],
        &["doctor", "echo"],
        &["backends", "--local", "--wait", "1s"],
        &["find", "add two numbers"],
        &["connect", "cursor", "--profile", "work"],
        &["connect", "cursor", "--undo"],
        &["update", "--check", "echo"],
    ] {
        let ran = laptop.command(words).current_dir(elsewhere.path()).output().await.expect("vmcp");
        let said = String::from_utf8_lossy(&ran.stderr).into_owned();
        if said.contains("no configuration file") || said.contains("no backend is called") {
            refused.push(format!("{words:?}: {said}"));
        }
    }
    let checked = laptop.command(&["doctor", "-o", "json"]).current_dir(elsewhere.path()).output().await;
    let checked = String::from_utf8_lossy(&checked.expect("vmcp").stdout).into_owned();
    laptop.run(&["stop"]).await;
    assert!(backends.contains("echo") && tools.contains("echo_add"), "{backends} {tools}");
    assert!(refused.is_empty(), "{refused:#?}");
    assert!(checked.contains("vmcp.yaml is valid"), "{checked}");
}

/// Last error of a backend, once it has one.
async fn error_of(vmcp: &Vmcp, name: &str) -> String {
    eventually(&format!("an error of {name}"), async || {
        let status = vmcp.status().await;
        let backends = status["backends"].as_array()?.clone();
        let backend = backends.into_iter().find(|backend| backend["name"] == name)?;
        backend["lastError"].as_str().map(str::to_owned)
    })
    .await
}

#[tokio::test]
async fn vmcp_behind_itself_is_noticed_and_its_tools_do_not_multiply() {
    let echo = Fixture::http("echo", "echo").start().await;
    let mut one = Vmcp::new().backend(&echo).start().await;
    one.with_tool("echo_add").await;
    // Directly, and through a gateway in between.
    let other = Vmcp::new().backend_entry(json!({"name": "one", "url": one.url})).start().await;
    other.with_tool("one_echo_add").await;
    let tools = async |vmcp: &Vmcp| vmcp.status().await["tools"].clone();
    let before = tools(&one).await;
    let looped = [json!({"name": "direct", "url": one.url}), json!({"name": "around", "url": other.url})];
    one.reconfigure(json!({"backends": [echo.backend, looped[0], looped[1]]}));
    for name in ["direct", "around"] {
        let error = error_of(&one, name).await;
        assert!(error.contains("leads back to this vmcp"), "{error}");
    }
    assert_eq!(tools(&one).await, before, "nothing of the loop is listed");
    // A chain of different servers does not lead back.
    other.with_tool("one_echo_add").await;
}

#[tokio::test]
async fn a_program_that_is_vmcp_with_the_same_file_is_refused() {
    let laptop = Laptop::new(&json!({}));
    let program = vmcp_command().as_std().get_program().to_string_lossy().into_owned();
    let config = laptop.path("vmcp.yaml").display().to_string();
    // A shell in between, as a gateway would be; the environment goes through.
    let line = format!("exec '{program}' serve --stdio --config '{config}'");
    laptop
        .write("vmcp.yaml", &settings(&[json!({"name": "loop", "command": ["sh", "-c", line]})]).to_string());
    let ports = [free_port(), free_port()].map(|port| format!("127.0.0.1:{port}"));
    let mut serve = laptop.command(&["serve", "--listen", &ports[0], "--admin-listen", &ports[1]]);
    let _server = Process::start("vmcp", &mut serve);
    let error = eventually("the refusal", async || {
        let (state, error) = backend(&laptop, &[], "loop").await?;
        (state == "failed" || error.contains("leads back")).then_some(error)
    })
    .await;
    assert!(error.contains("leads back to this vmcp"), "{error}");
}

#[tokio::test]
async fn a_port_in_use_is_the_one_error_that_is_told() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("its address").to_string();
    let laptop = Laptop::new(&settings(&[json!({"name": "a", "command": ["sleep", "7775"]})]));
    let admin = format!("127.0.0.1:{}", free_port());
    let run = laptop.run(&["serve", "--listen", &address, "--admin-listen", &admin]).await;
    let said = format!("{}{}", run.stdout, run.stderr);
    assert_eq!(run.code, Some(1), "{said}");
    assert!(said.contains(&format!("cannot listen on {address}")), "{said}");
    assert!(!said.contains("ERROR") && !said.contains("cancelled"), "{said}");
}
