//! Programs that package runners install are started in their place.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::json;
use tempfile::TempDir;
use vmcp_backend::{Backend, BackendSettings, PinnedPrograms};
use vmcp_config::{Secret, Transport};

use crate::processes::{SHELL, legacy};
use crate::support::{call, eventually, settings, spec};

/// A home with an npx, in whose cache a package is installed. Both add a line to the file `starts`.
struct Home(TempDir);

impl Home {
    fn new() -> Self {
        let home = Self(tempfile::tempdir().unwrap());
        let modules = home.path("../.npm/_npx/abc/node_modules");
        fs::create_dir_all(modules.join(".bin")).unwrap();
        fs::create_dir_all(modules.join("notes-mcp")).unwrap();
        let folder = json!({"_npx": {"packages": ["notes-mcp"]}});
        fs::write(modules.with_file_name("package.json"), folder.to_string()).unwrap();
        let package = json!({"name": "notes-mcp", "version": "1.2.3", "bin": "index.js"});
        fs::write(modules.join("notes-mcp/package.json"), package.to_string()).unwrap();
        let server = format!(
            "#!/bin/sh\nif [ -e \"$HOME/broken\" ] && [ -z \"$BY_NPX\" ]\n\
             then echo failed >> \"$LOG\"; exit 3; fi\n\
             if [ -e \"$HOME/hanging\" ] && [ -z \"$BY_NPX\" ]\n\
             then echo hanging >> \"$LOG\"; read line; exec sleep 600; fi\n\
             echo \"server $*\" >> \"$LOG\"; printf %s \"$PATH\" > \"$HOME/path\"\n\
             answer() {{\n{}\n}}\n{SHELL}",
            legacy("reply '{}'")
        );
        program(&home.server(), &server);
        let npx = "#!/bin/sh\necho npx >> \"$LOG\"; shift 2; export BY_NPX=1\n\
                   if [ -e \"$HOME/offline\" ]; then exit 4; fi\n\
                   exec sh \"$HOME/.npm/_npx/abc/node_modules/.bin/notes-mcp\" \"$@\"\n";
        program(&home.path("npx"), npx);
        home
    }

    /// Returns a path in the folder of programs.
    fn path(&self, name: &str) -> PathBuf {
        let bin = self.0.path().join("bin");
        fs::create_dir_all(&bin).unwrap();
        bin.join(name)
    }

    fn server(&self) -> PathBuf {
        self.0.path().join(".npm/_npx/abc/node_modules/.bin/notes-mcp")
    }

    fn settings(&self) -> BackendSettings {
        let pinned_programs = Some(PinnedPrograms::new(self.0.path().join("pins")));
        BackendSettings { pinned_programs, ..settings() }
    }

    /// Starts the backend and calls it.
    async fn start(&self, settings: BackendSettings) -> Backend {
        let backend = self.open(settings);
        call(&backend, "echo").await.unwrap();
        backend
    }

    /// Starts the backend by npx, with an empty file `starts`.
    fn open(&self, settings: BackendSettings) -> Backend {
        self.open_by("npx", &["-y", "notes-mcp", "--port", "1"], settings)
    }

    /// As [`Home::open`], by another package runner.
    fn open_by(&self, runner: &str, args: &[&str], settings: BackendSettings) -> Backend {
        let log = self.log();
        let _none = fs::remove_file(&log);
        let variable = |name: &str, path: &Path| (name.to_owned(), Secret::from(path.to_str().unwrap()));
        let transport = Transport::Stdio {
            command: self.path(runner).to_str().unwrap().to_owned(),
            args: args.iter().map(|each| (*each).to_owned()).collect(),
            env: ["HOME", "TMPDIR"]
                .map(|name| variable(name, self.0.path()))
                .into_iter()
                .chain([variable("LOG", &log), variable("XDG_CACHE_HOME", &self.0.path().join("caches"))])
                .collect(),
            cwd: Some(self.0.path().to_owned()),
            inherit_env: Vec::new(),
            idle_timeout: None,
        };
        Backend::start(spec("notes", transport), settings, None)
    }

    fn log(&self) -> PathBuf {
        self.0.path().join("starts")
    }

    /// Returns the lines of `starts`.
    fn starts(&self) -> Vec<String> {
        fs::read_to_string(self.log()).unwrap_or_default().lines().map(str::to_owned).collect()
    }

    /// Starts the backend, calls it, and stops it; returns the lines that were added to `starts`.
    async fn run(&self, settings: BackendSettings) -> Vec<String> {
        let backend = self.start(settings).await;
        backend.stop().await;
        self.starts()
    }

    /// Starts the backend by npx, and waits until its program is pinned.
    async fn pin(&self) {
        let backend = self.start(self.settings()).await;
        assert_eq!(self.starts(), ["npx", "server --port 1"]);
        self.pinned().await;
        backend.stop().await;
    }

    /// Waits until the program is pinned.
    async fn pinned(&self) {
        let is_pin = |path: &Path| path.extension().is_some_and(|extension| extension == "json");
        eventually("the pin", || {
            let files = fs::read_dir(self.0.path().join("pins")).ok()?;
            files.flatten().any(|entry| is_pin(&entry.path())).then_some(())
        })
        .await;
    }
}

/// Writes a program. A shell writes it: a file that this process writes could not be started while another
/// test starts a program (`ETXTBSY`).
fn program(file: &Path, script: &str) {
    let mut write = Command::new("sh");
    write.args(["-c", "printf %s \"$2\" > \"$1\" && chmod 755 \"$1\"", "sh"]).arg(file).arg(script);
    assert!(write.status().unwrap().success());
}

#[tokio::test]
async fn npx_starts_a_program_once_and_is_left_out_from_then_on() {
    let home = Home::new();
    home.pin().await;
    assert_eq!(home.run(home.settings()).await, ["server --port 1"]);
    let path = fs::read_to_string(home.0.path().join("path")).unwrap();
    assert!(path.starts_with(&format!("{}:", home.server().parent().unwrap().display())), "{path}");
    assert_eq!(home.run(settings()).await, ["npx", "server --port 1"], "switched off");
}

#[tokio::test]
async fn a_pinned_program_that_is_gone_or_fails_is_started_by_npx() {
    let home = Home::new();
    home.pin().await;
    fs::write(home.0.path().join("broken"), "").unwrap();
    let starts = home.run(home.settings()).await;
    assert_eq!(starts.first().map(String::as_str), Some("failed"), "{starts:?}");
    assert!(starts.ends_with(&["npx".to_owned(), "server --port 1".to_owned()]), "{starts:?}");
    fs::remove_file(home.0.path().join("broken")).unwrap();
    fs::set_permissions(home.server(), fs::Permissions::from_mode(0o644)).unwrap();
    assert_eq!(home.run(home.settings()).await, ["npx", "server --port 1"], "not executable any more");
}

#[tokio::test]
async fn a_pin_outlives_a_failure_that_its_runner_shares() {
    let home = Home::new();
    home.pin().await;
    for file in ["broken", "offline"] {
        fs::write(home.0.path().join(file), "").unwrap();
    }
    let backend = home.open(home.settings());
    eventually("a start by npx", || home.starts().contains(&"npx".to_owned()).then_some(())).await;
    fs::remove_file(home.0.path().join("broken")).unwrap();
    eventually("a start without npx", || home.starts().last()?.starts_with("server").then_some(())).await;
    backend.stop().await;
}

#[tokio::test]
async fn a_package_that_the_project_installs_after_its_pin_is_started_by_npx() {
    let home = Home::new();
    home.pin().await;
    fs::create_dir_all(home.0.path().join("node_modules/notes-mcp")).unwrap();
    assert_eq!(home.run(home.settings()).await, ["npx", "server --port 1"]);
    fs::remove_dir_all(home.0.path().join("node_modules")).unwrap();
    assert_eq!(home.run(home.settings()).await, ["server --port 1"], "the pin has stayed");
}

#[tokio::test]
async fn programs_of_npm_exec_pnpm_dlx_and_bunx_are_started_by_themselves() {
    // Asked for its folder of programs, pnpm starts a shell.
    let pnpm = "if [ \"$2\" = --package=notes-mcp ] && [ \"$3\" = -c ]; then \
                PATH=\"$HOME/.npm/_npx/abc/node_modules/.bin:$PATH\" exec sh -c \"$4\"; fi; shift 2";
    let pnx = "if [ \"$1\" = --package=notes-mcp ] && [ \"$2\" = -c ]; then \
               PATH=\"$HOME/.npm/_npx/abc/node_modules/.bin:$PATH\" exec sh -c \"$3\"; fi; shift";
    // bun's folder: in its cache, and among temporary files for versions before 1.4.
    for (runner, args, script, of_bun) in [
        ("npm", &["exec", "-y", "notes-mcp", "--", "--port", "1"][..], "shift 4", None),
        ("pnpm", &["dlx", "notes-mcp", "--port", "1"][..], pnpm, None),
        ("pnx", &["notes-mcp", "--port", "1"][..], pnx, None),
        ("bunx", &["-y", "notes-mcp", "--port", "1"][..], "shift 2", Some("bunx-UID-")),
        ("bunx", &["notes-mcp", "--port", "1"][..], "shift", Some("caches/.bun/install/cache/.bunx-UID/")),
    ] {
        let home = Home::new();
        if let Some(prefix) = of_bun {
            let owner = fs::metadata(home.0.path()).unwrap().uid();
            let folder = prefix.replace("UID", &owner.to_string()) + "notes-mcp@latest";
            let folder = home.0.path().join(folder);
            fs::create_dir_all(&folder).unwrap();
            symlink(home.0.path().join(".npm/_npx/abc/node_modules"), folder.join("node_modules")).unwrap();
        }
        let run = "exec sh \"$HOME/.npm/_npx/abc/node_modules/.bin/notes-mcp\" \"$@\"";
        let log = format!("echo {runner} >> \"$LOG\"");
        program(&home.path(runner), &format!("#!/bin/sh\n{script}\n{log}\n{run}\n"));

        let first = home.open_by(runner, args, home.settings());
        call(&first, "echo").await.unwrap();
        assert_eq!(home.starts(), [runner, "server --port 1"]);
        home.pinned().await;
        first.stop().await;
        let second = home.open_by(runner, args, home.settings());
        call(&second, "echo").await.unwrap();
        second.stop().await;
        assert_eq!(home.starts(), ["server --port 1"], "{runner} is left out");
    }
}

#[tokio::test]
async fn a_pinned_program_that_hangs_has_the_usual_time_before_its_runner_starts_it() {
    let home = Home::new();
    home.pin().await;
    fs::write(home.0.path().join("hanging"), "").unwrap();
    let limit = Duration::from_secs(3);
    let begin = Instant::now();
    let backend = home.open(BackendSettings { connection_timeout: limit, ..home.settings() });
    eventually("a start by npx", || home.starts().contains(&"npx".to_owned()).then_some(())).await;
    assert_eq!(home.starts().first().map(String::as_str), Some("hanging"));
    // A runner's first start has four times the limit.
    assert!(begin.elapsed() < limit * 4, "{:?}", begin.elapsed());
    backend.stop().await;
}

#[tokio::test]
async fn a_program_that_fails_each_time_without_its_runner_stays_with_it() {
    let home = Home::new();
    home.pin().await;
    fs::write(home.0.path().join("broken"), "").unwrap();
    for attempt in 1..=3 {
        let backend = home.start(home.settings()).await;
        let mut starts = home.starts();
        // Once for each era that the server might speak.
        starts.dedup();
        assert_eq!(starts, ["failed", "npx", "server --port 1"], "start {attempt}");
        if attempt < 3 {
            home.pinned().await;
        }
        backend.stop().await;
    }
    assert_eq!(home.run(home.settings()).await, ["npx", "server --port 1"]);
}
