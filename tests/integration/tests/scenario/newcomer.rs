//! A newcomer: a fresh home, the pages word for word, and servers that no other test uses.

#[cfg(target_os = "linux")]
mod ten_clients;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::process::Command;
use vmcp_integration::{Packages, PageCommand, binary, free_port, page_commands, python, skipped};

use super::laptop::MOVING_VARIABLES;

/// Time for the first start of all servers, whose packages may have to be downloaded first.
const FIRST_START: Duration = Duration::from_mins(20);
/// Beginnings of commands that a test cannot follow: an hour of compiling, an account, another program, a
/// cluster.
const NOT_FOLLOWED: [&str; 8] =
    ["make ", "docker ", "claude ", "brew ", "cargo ", "gh ", "helm ", "kubectl "];
/// Beginnings of commands that install vmcp. Each takes the packages of this build, not published ones.
const INSTALLERS: [&str; 4] = ["curl ", "npm install ", "uv tool install ", "sh ~/.cache/vmcp/packages/"];
/// Longest time from the installation to the first search of the README.
const FIRST_SEARCH: Duration = Duration::from_mins(1);
/// URL of the newest release's files, as pages write it.
const RELEASE: &str = "https://github.com/OWNER/REPO/releases/latest/download";

/// A home with nothing in it, and a shell as a person has it.
struct Newcomer {
    home: tempfile::TempDir,
    folder: PathBuf,
    ports: [String; 2],
    /// True for a home whose vmcp comes from an installer.
    installs: bool,
}

impl Newcomer {
    /// A newcomer who has to install vmcp first.
    fn without_vmcp() -> Newcomer {
        let mut newcomer = Newcomer::new();
        newcomer.installs = true;
        newcomer
    }

    fn new() -> Newcomer {
        let newcomer = Newcomer::without_downloads();
        let home = newcomer.home.path();
        // Downloads are kept between runs of the tests; everything else is new.
        for (kept, link) in [("npm", ".npm"), ("uv", ".cache/uv")] {
            let (kept, link) = (cache().join("newcomer").join(kept), home.join(link));
            for folder in [Some(&*kept), link.parent()].into_iter().flatten() {
                std::fs::create_dir_all(folder).expect("a folder");
            }
            std::os::unix::fs::symlink(kept, link).expect("a link");
        }
        newcomer
    }

    /// A newcomer to npm and PyPI, too: every package has to be downloaded.
    fn without_downloads() -> Newcomer {
        let home = tempfile::tempdir().expect("a folder");
        let folder = home.path().to_owned();
        let ports = [free_port(), free_port()].map(|port| format!("127.0.0.1:{port}"));
        Newcomer { home, folder, ports, installs: false }
    }

    /// Installs vmcp by a command of a page, from packages of this build; returns its output.
    async fn installs_by(&mut self, command: &str) -> String {
        let packages = Packages::made();
        let (home, cache) = (self.home.path().to_owned(), self.home.path().join(".cache/vmcp/packages"));
        // The packages of a checkout are those of its machine's platform.
        std::fs::create_dir_all(&cache).expect("a folder");
        for file in packages.of_this_platform() {
            let link = cache.join(file.file_name().expect("a name"));
            if !link.exists() {
                std::os::unix::fs::symlink(&file, link).expect("a link");
            }
        }
        let command = command.replace(RELEASE, &format!("{}/files", packages.host));
        let environment = packages.environment(&home);
        let environment: Vec<_> = environment.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let (code, output) = self.types(&command, &environment).await;
        assert_eq!(code, Some(0), "$ {command}\n{output}");
        let program = self.follows("command -v vmcp").await;
        assert!(Path::new(program.trim_end()).starts_with(&home), "$ {command}\ninstalled {program}");
        output
    }

    /// Types a command of a page and returns its output, or `None` for a command that tests cannot follow. A
    /// second installer gets a new home.
    async fn reads(&mut self, command: &PageCommand) -> Option<String> {
        let typed = command.text.as_str();
        if NOT_FOLLOWED.iter().any(|it| typed.starts_with(it)) {
            return None;
        }
        let output = match typed {
            _ if INSTALLERS.iter().any(|it| typed.starts_with(it)) => {
                let (_, program) = self.types("command -v vmcp", &[]).await;
                if Path::new(program.trim_end()).starts_with(self.home.path()) {
                    let mut other = Newcomer::without_vmcp();
                    let output = other.installs_by(typed).await;
                    assert_eq!(other.follows("vmcp --version").await, self.follows("vmcp --version").await);
                    output
                } else {
                    self.installs_by(typed).await
                }
            }
            "vmcp serve" => {
                self.follows("vmcp serve --detach").await;
                self.waits_for(&["time"]).await;
                return Some(String::new());
            }
            "vmcp model pull" => self.gets_the_model().await,
            _ if typed.starts_with("vmcp find") => {
                let found = self.finds(typed).await;
                let first = found.lines().nth(1).unwrap_or_default();
                assert!(first.contains("time_get_current_time"), "{found}");
                found
            }
            _ => self.follows(typed).await,
        };
        assert!(
            has_shown(&output, &command.shown),
            "$ {typed}\n{output}\nbut the page shows {:?}",
            command.shown
        );
        Some(output)
    }

    /// Runs a command as typed; returns its exit code and all that it printed.
    async fn types(&mut self, command: &str, environment: &[(&str, &str)]) -> (Option<i32>, String) {
        // Folders into which installers put vmcp come first, then its build, for tests that install nothing.
        let installed = [".local/bin", ".npm-global/bin", "vmcp/node_modules/.bin"];
        let mut path: Vec<PathBuf> = installed.map(|folder| self.home.path().join(folder)).into();
        let tools = if self.installs { vec![python("uvx")] } else { vec![binary("vmcp"), python("uvx")] };
        path.extend(tools.iter().filter_map(|tool| tool.parent().map(Path::to_owned)));
        path.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()));
        let mut shell = Command::new("bash");
        shell.args(["-c", &format!("{command}\nrc=$?; pwd > \"$HOME/.folder\"; exit $rc")]);
        shell.current_dir(&self.folder).env("HOME", self.home.path()).kill_on_drop(true);
        shell.env("PATH", std::env::join_paths(path).expect("a path"));
        shell.env("VMCP_LISTEN", &self.ports[0]).env("VMCP_ADMIN_LISTEN", &self.ports[1]);
        for name in ["XDG_CACHE_HOME", "XDG_DATA_HOME", "VMCP_MODEL_DIR"].into_iter().chain(MOVING_VARIABLES)
        {
            shell.env_remove(name);
        }
        let output = shell.envs(environment.iter().copied()).output().await.expect("bash");
        if let Ok(folder) = std::fs::read_to_string(self.home.path().join(".folder")) {
            self.folder = folder.trim_end().into();
        }
        let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        (output.status.code(), text.concat())
    }

    /// Runs a command that must succeed.
    async fn follows(&mut self, command: &str) -> String {
        let (code, output) = self.types(command, &[]).await;
        assert_eq!(code, Some(0), "$ {command}\n{output}");
        output
    }

    /// Imports servers that Claude Code knows into a new folder.
    async fn imports(&mut self, servers: &Value) -> String {
        let claude = json!({"mcpServers": servers});
        std::fs::write(self.home.path().join(".claude.json"), claude.to_string()).expect("writing");
        self.follows("mkdir tools && cd tools").await;
        self.follows("vmcp init --from claude").await
    }

    /// Puts the tokens that [`servers`] leave to the environment into `.env`.
    async fn gets_tokens(&mut self) {
        self.follows("printf 'NOTION_TOKEN=ntn_x\\nBRAVE_API_KEY=x\\n' >> .env").await;
    }

    /// Gets the model from the folder where `make model` put it.
    async fn gets_the_model(&mut self) -> String {
        let model = std::env::var("VMCP_MODEL_DIR").expect("VMCP_MODEL_DIR, which `make` sets");
        self.follows(&format!("vmcp model pull --from '{model}'")).await
    }

    /// The states of the backends, by name.
    async fn states(&mut self) -> Vec<(String, String, String)> {
        let (_, report) = self.types("vmcp backends -o json 2>/dev/null", &[]).await;
        let report: Value = serde_json::from_str(&report).unwrap_or_default();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let backends = report["backends"].as_array().cloned().unwrap_or_default();
        let state = |it: &Value| (text(&it["name"]), text(&it["state"]), text(&it["lastError"]));
        backends.iter().map(state).collect()
    }

    /// Waits until these backends are connected.
    async fn waits_for(&mut self, wanted: &[&str]) {
        let begin = Instant::now();
        loop {
            let states = self.states().await;
            let missing: Vec<_> = wanted
                .iter()
                .filter(|name| !states.iter().any(|(known, state, _)| known == *name && state == "connected"))
                .collect();
            if missing.is_empty() {
                return;
            }
            assert!(begin.elapsed() < FIRST_START, "not connected: {missing:?}\n{states:#?}");
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }

    /// Waits until `vmcp doctor` says of these backends that their program is pinned.
    async fn pins(&mut self, wanted: &[&str]) {
        let begin = Instant::now();
        loop {
            let (_, report) = self.types("vmcp doctor -o json 2>/dev/null", &[]).await;
            let report: Value = serde_json::from_str(&report).unwrap_or_default();
            let is_pinned = |name: &str| {
                report.as_array().into_iter().flatten().any(|finding| {
                    let says = finding["says"].as_str().unwrap_or_default();
                    finding["subject"] == name && says.starts_with("pinned to ")
                })
            };
            let missing: Vec<_> = wanted.iter().filter(|name| !is_pinned(name)).collect();
            if missing.is_empty() {
                return;
            }
            assert!(begin.elapsed() < FIRST_START, "not pinned: {missing:?}\n{report:#}");
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }

    /// Repeats a search until every tool has its vector: a reader types more slowly than this test.
    async fn finds(&mut self, command: &str) -> String {
        let begin = Instant::now();
        loop {
            let output = self.follows(command).await;
            if !output.contains("not embedded yet") {
                return output;
            }
            assert!(begin.elapsed() < FIRST_START, "{output}");
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }
}

impl Drop for Newcomer {
    fn drop(&mut self) {
        // A test that failed leaves no server behind; any other has stopped it.
        let mut stop = std::process::Command::new(binary("vmcp"));
        stop.arg("stop").current_dir(&self.folder).env("HOME", self.home.path()).env_remove("XDG_CACHE_HOME");
        stop.env("VMCP_LISTEN", &self.ports[0]).env("VMCP_ADMIN_LISTEN", &self.ports[1]);
        let _ended = stop.output();
    }
}

fn cache() -> PathBuf {
    let base = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let base =
        base.unwrap_or_else(|| PathBuf::from(std::env::var_os("HOME").expect("a home")).join(".cache"));
    base.join("vmcp")
}

/// True if every line that a page shows is in the output, but for numbers and blanks.
fn has_shown(output: &str, shown: &[String]) -> bool {
    let words = |text: &str| {
        let kept: String = text.chars().filter(|c| !c.is_ascii_digit()).collect();
        kept.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let output = words(output);
    shown.iter().filter(|line| !line.contains('…')).all(|line| output.contains(&words(line)))
}

#[tokio::test]
async fn the_tutorial_works_word_for_word() {
    let mut newcomer = Newcomer::without_vmcp();
    let mut followed = 0;
    for command in page_commands("docs/user/tutorial.md") {
        followed += usize::from(newcomer.reads(&command).await.is_some());
        if command.text == "vmcp serve" {
            newcomer.waits_for(&["time", "everything"]).await;
        }
    }
    newcomer.follows("vmcp stop").await;
    assert!(followed >= 12, "the page has commands to follow: {followed}");
}

#[tokio::test]
async fn the_readme_works_from_its_first_line() {
    let mut newcomer = Newcomer::without_vmcp();
    let commands = page_commands("README.md");
    assert!(commands[0].text.starts_with("curl "), "the page begins with the installation");
    let mut typed = Vec::new();
    // Time of all commands from the installation to the first search.
    let (mut spent, mut has_searched) = (Duration::ZERO, false);
    for command in commands {
        // Below are examples whose servers are not those of the page.
        let is_example = command.text.starts_with("vmcp call clock_");
        let begin = Instant::now();
        if is_example || newcomer.reads(&command).await.is_none() {
            continue;
        }
        if !has_searched && !INSTALLERS.iter().any(|it| command.text.starts_with(it)) {
            spent += begin.elapsed();
        }
        has_searched |= command.text.starts_with("vmcp find ");
        typed.push(command.text);
    }
    assert!(has_searched && spent < FIRST_SEARCH, "the first search came after {spent:?}");
    newcomer.follows("vmcp stop").await;
    for wanted in ["npm install ", "uv tool install ", "vmcp init", "vmcp serve", "vmcp find ", "vmcp call "]
    {
        assert!(typed.iter().any(|command| command.starts_with(wanted)), "{wanted}: {typed:#?}");
    }
}

#[tokio::test]
async fn the_page_about_installation_works_word_for_word() {
    let mut newcomer = Newcomer::without_vmcp();
    let mut installers = 0;
    for command in page_commands("docs/user/install.md") {
        if command.text.starts_with("sha256sum ") {
            newcomer.follows(&format!("cd '{}'", Packages::made().folder.display())).await;
        }
        let followed = newcomer.reads(&command).await.is_some();
        installers += usize::from(followed && INSTALLERS.iter().any(|it| command.text.starts_with(it)));
    }
    assert_eq!(installers, 6, "curl, npm, uv; from a checkout: install.sh, uv, npm");
}

fn npx(package: &str) -> Value {
    json!({"command": "npx", "args": ["-y", package]})
}

fn uvx(package: &str) -> Value {
    json!({"command": "uvx", "args": [package]})
}

/// Servers of npm and PyPI, with the variable that some ask for.
fn servers() -> Value {
    let mut servers = json!({
        "thinking": npx("@modelcontextprotocol/server-sequential-thinking@2026.8.31"),
        "context7": npx("@upstash/context7-mcp@4.1.1"),
        "notion": npx("@notionhq/notion-mcp-server@2.5.2"),
        "tavily": npx("tavily-mcp@0.2.22"),
        "brave": npx("@brave/brave-search-mcp-server@2.1.4"),
        "memory": npx("@modelcontextprotocol/server-memory@2026.8.31"),
        "calculator": uvx("mcp-server-calculator@0.2.1"),
        "arxiv": uvx("arxiv-mcp-server@0.8.2"),
        "duckduckgo": uvx("duckduckgo-mcp-server@0.7.0"),
        "wikipedia": uvx("wikipedia-mcp@2.0.1"),
    });
    servers["notion"]["env"] = json!({"NOTION_TOKEN": "${NOTION_TOKEN}"});
    servers["tavily"]["env"] = json!({"TAVILY_API_KEY": "tvly-dev-0123456789abcdef"});
    servers["brave"]["env"] = json!({"BRAVE_API_KEY": "${BRAVE_API_KEY}"});
    servers
}

#[tokio::test]
async fn ten_servers_are_brought_from_claude_with_and_without_their_tokens() {
    let mut newcomer = Newcomer::new();
    let imported = newcomer.imports(&servers()).await;
    assert!(!imported.contains("0123456789abcdef"), "{imported}");
    let yaml = std::fs::read_to_string(newcomer.folder.join("vmcp.yaml")).expect("the file");
    assert!(!yaml.contains("0123456789abcdef"), "a token went to .env: {yaml}");
    let valid = newcomer.follows("vmcp validate").await;
    for name in ["NOTION_TOKEN", "BRAVE_API_KEY"] {
        assert!(valid.contains(name), "the missing variable is named: {valid}");
    }

    // Without two of their tokens: eight serve, two say what they need.
    newcomer.gets_the_model().await;
    newcomer.follows("vmcp serve --detach").await;
    let sound =
        ["thinking", "context7", "tavily", "memory", "calculator", "arxiv", "duckduckgo", "wikipedia"];
    newcomer.waits_for(&sound).await;
    for (name, variable) in [("notion", "NOTION_TOKEN"), ("brave", "BRAVE_API_KEY")] {
        let states = newcomer.states().await;
        let (_, state, error) = states.iter().find(|(known, ..)| known == name).expect("the backend").clone();
        assert!(state == "failed" && error.contains(variable), "{name}: {state}: {error}");
    }
    let called = newcomer.follows("vmcp call calculator_calculate expression='6*7'").await;
    assert!(called.contains("42"), "{called}");
    let found = newcomer.follows("vmcp find 'do some arithmetic for me' -l 3").await;
    assert!(found.contains("calculator_calculate"), "{found}");
    let (_, doctor) = newcomer.types("vmcp doctor", &[]).await;
    assert!(doctor.contains("NOTION_TOKEN") && doctor.contains(".env"), "{doctor}");

    // With tokens in `.env`, which the running server follows.
    newcomer.gets_tokens().await;
    newcomer.waits_for(&["notion", "brave"]).await;
    let tools = newcomer.follows("vmcp tools -b notion").await;
    assert!(tools.contains("notion_API-post-search"), "{tools}");

    // The programs of npx and uvx are pinned, and start without their runners.
    let all: Vec<_> = sound.into_iter().chain(["notion", "brave"]).collect();
    newcomer.pins(&all).await;
    newcomer.follows("vmcp restart").await;
    newcomer.waits_for(&all).await;
    #[cfg(target_os = "linux")]
    {
        let server = newcomer.follows("vmcp status -o json 2>/dev/null").await;
        let server: Value = serde_json::from_str(&server).expect("JSON");
        let pid = u32::try_from(server["pid"].as_u64().expect("a process")).expect("an id");
        let running = package_runners(pid);
        assert!(running.is_empty(), "{running:?}");
    }
    let called = newcomer.follows("vmcp call calculator_calculate expression='6*7'").await;
    assert!(called.contains("42"), "{called}");
    let (_, newest) = newcomer.types("vmcp update --check calculator -o json 2>/dev/null", &[]).await;
    let newest: Value = serde_json::from_str(&newest).expect("JSON");
    assert_eq!((&newest[0]["before"], &newest[0]["newest"]), (&json!("0.2.1"), &json!("0.2.1")), "{newest}");
    newcomer.follows("vmcp stop").await;
}

/// Returns the command lines of npx and uvx among the programs below a process.
#[cfg(target_os = "linux")]
fn package_runners(process: u32) -> Vec<String> {
    let mut found = Vec::new();
    let mut open = vmcp_integration::children(process);
    while let Some(child) = open.pop() {
        open.extend(vmcp_integration::children(child));
        let line = std::fs::read(format!("/proc/{child}/cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        if ["npm exec", "tool uvx", "npx-cli"].iter().any(|sign| line.contains(sign)) {
            found.push(line);
        }
    }
    found
}

/// Sound servers in addition to [`servers`]: with them twenty-two, and more than a gigabyte of packages.
fn more_servers() -> Value {
    let mut servers = json!({
        "everything": npx("@modelcontextprotocol/server-everything@2026.8.31"),
        "filesystem": npx("@modelcontextprotocol/server-filesystem@2026.8.31"),
        "firecrawl": npx("firecrawl-mcp@3.22.2"),
        "playwright": npx("@playwright/mcp@0.0.83"),
        "chrome": npx("chrome-devtools-mcp@1.11.0"),
        "mongodb": npx("mongodb-mcp-server@3.0.4"),
        "kubernetes": npx("mcp-server-kubernetes@4.1.7"),
        "time": uvx("mcp-server-time@2026.10.19"),
        "fetch": uvx("mcp-server-fetch@2026.10.24"),
        "git": uvx("mcp-server-git@2026.10.19"),
        "excel": uvx("excel-mcp-server@2.2.2"),
        "atlassian": uvx("mcp-atlassian@0.23.1"),
    });
    servers["filesystem"]["args"] = json!(["-y", "@modelcontextprotocol/server-filesystem@2026.8.31", "."]);
    servers["firecrawl"]["env"] = json!({"FIRECRAWL_API_KEY": "fc-x"});
    servers["excel"]["args"] = json!(["excel-mcp-server@2.2.2", "stdio"]);
    servers["atlassian"]["env"] =
        json!({"JIRA_URL": "https://example.atlassian.net", "JIRA_USERNAME": "ada", "JIRA_API_TOKEN": "x"});
    servers
}

#[tokio::test]
async fn twenty_two_servers_start_from_an_empty_package_cache() {
    if std::env::var_os("VMCP_FIRST_START").is_none() {
        return skipped("it downloads a gigabyte; `make first-start` runs it and prints the time");
    }
    let mut newcomer = Newcomer::without_downloads();
    let mut all = servers();
    let more = more_servers();
    all.as_object_mut().expect("servers").extend(more.as_object().expect("servers").clone());
    let sound: Vec<String> = all.as_object().expect("servers").keys().cloned().collect();
    assert_eq!(sound.len(), 22);
    // Beside the sound ones stand a missing program and a program that never answers.
    all["missing"] = json!({"command": "no-such-program"});
    all["silent"] = json!({"command": "sleep", "args": ["1000"]});
    newcomer.imports(&all).await;
    newcomer.gets_tokens().await;
    newcomer.gets_the_model().await;
    let begin = Instant::now();
    newcomer.follows("vmcp serve --detach").await;
    newcomer.waits_for(&sound.iter().map(String::as_str).collect::<Vec<_>>()).await;
    println!("22 servers were up after {:.0} s", begin.elapsed().as_secs_f64());
    let log = newcomer.follows("vmcp logs -n 100000").await;
    let of_sound = |line: &&str| sound.iter().any(|name| line.contains(&format!(" {name}: ")));
    let timeouts: Vec<_> =
        log.lines().filter(|line| line.contains("connection timeout")).filter(of_sound).collect();
    assert!(timeouts.is_empty(), "a server that was being installed was cut off: {timeouts:#?}");
    newcomer.follows("vmcp stop").await;
}
