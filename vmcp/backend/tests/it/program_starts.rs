//! Starts of programs: slots, package runners, pauses between attempts, and the words of a failure.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use vmcp_backend::{Backend, BackendSettings, BackendState};
use vmcp_config::Transport;

use crate::processes::{SHELL, legacy, shell, shell_with};
use crate::support::{call, eventually, settings, spec, wait_for_state};

#[tokio::test]
async fn a_program_that_cannot_run_or_gives_up_says_why() {
    let nowhere = Transport::Stdio {
        command: "vmcp-no-such-program".to_owned(),
        args: Vec::new(),
        env: BTreeMap::new(),
        cwd: None,
        inherit_env: Vec::new(),
        idle_timeout: None,
    };
    let quitter = shell("echo 'no database' >&2; exit 4");
    let astray = Transport::Stdio {
        command: "sh".to_owned(),
        args: Vec::new(),
        env: BTreeMap::new(),
        cwd: Some("/nonexistent/folder".into()),
        inherit_env: Vec::new(),
        idle_timeout: None,
    };
    for (transport, parts) in [
        (nowhere, &["vmcp-no-such-program"][..]),
        (quitter, &["exit status: 4", "no database"]),
        (astray, &["its working directory /nonexistent/folder does not exist"]),
    ] {
        let settings = BackendSettings { max_connection_retries: 0, ..settings() };
        let backend = Backend::start(spec("b", transport), settings, None);
        let reason = wait_for_state(&backend, BackendState::Failed).await.last_error.unwrap();
        assert!(parts.iter().all(|part| reason.contains(part)), "{reason}");
        backend.stop().await;
    }
}

#[tokio::test]
async fn a_start_beyond_the_slots_waits_for_one() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let handler = "case $method in server/discover) echo begin >> \"$LOG\"; refuse;; \
                   initialize) echo end >> \"$LOG\"; reply \"$initialized\";; tools/list) reply \"$tools\";; esac";
    let settings = BackendSettings { starts: Arc::new(Semaphore::new(1)), ..settings() };
    let start = |name: &str| {
        let transport = shell_with(handler, &[("LOG", log.to_str().unwrap())]);
        Backend::start(spec(name, transport), settings.clone(), None)
    };
    let backends = ["a", "b", "c"].map(start);
    for backend in &backends {
        wait_for_state(backend, BackendState::Connected).await;
    }
    let order = std::fs::read_to_string(&log).unwrap();
    assert_eq!(order.lines().collect::<Vec<_>>(), ["begin", "end"].repeat(3), "one at a time");
    for backend in backends {
        backend.stop().await;
    }
}

/// A package runner in `folder`, which computes until the file `installed` is there and is then a server.
/// Each start adds a line to the file `starts`.
fn package_runner(folder: &Path) -> Transport {
    use std::os::unix::fs::PermissionsExt as _;
    let runner = folder.join("npx");
    let server = format!("answer() {{\n{}\n}}\n{SHELL}", legacy("reply '{}'"));
    let script = format!(
        "#!/bin/sh\ncd \"$1\"; echo started >> starts; while [ ! -e installed ]; do :; done\n{server}"
    );
    std::fs::write(&runner, script).unwrap();
    std::fs::set_permissions(&runner, std::fs::Permissions::from_mode(0o755)).unwrap();
    Transport::Stdio {
        command: runner.to_str().unwrap().to_owned(),
        args: vec![folder.to_str().unwrap().to_owned()],
        env: BTreeMap::new(),
        cwd: None,
        inherit_env: Vec::new(),
        idle_timeout: None,
    }
}

#[tokio::test]
async fn a_package_runner_that_works_is_not_cut_off_and_keeps_its_slot() {
    let folder = tempfile::tempdir().unwrap();
    let settings = BackendSettings {
        starts: Arc::new(Semaphore::new(1)),
        connection_timeout: Duration::from_millis(100),
        idle_start_after: Duration::from_secs(3),
        ..settings()
    };
    let installing = Backend::start(spec("a", package_runner(folder.path())), settings.clone(), None);
    let started = || folder.path().join("starts").exists().then_some(());
    eventually("the start of the package runner", started).await;
    // Its slot is taken, so that this one has to wait.
    let settings = BackendSettings { connection_timeout: Duration::from_secs(30), ..settings };
    let next = Backend::start(spec("b", shell(&legacy("reply '{}'"))), settings, None);
    // Longer than a first run may take without work: four time limits, and the time to notice.
    tokio::time::sleep(Duration::from_secs(5)).await;
    let (status, waiting) = (installing.status(), next.status());
    assert_eq!((status.state, status.last_error), (BackendState::Connecting, None));
    assert_eq!(waiting.state, BackendState::Connecting, "no slot is free");
    std::fs::write(folder.path().join("installed"), "").unwrap();
    for backend in [installing, next] {
        wait_for_state(&backend, BackendState::Connected).await;
        backend.stop().await;
    }
    assert_eq!(std::fs::read_to_string(folder.path().join("starts")).unwrap(), "started\n");
}

#[tokio::test]
async fn a_program_that_hangs_gives_its_slot_to_another() {
    let settings = BackendSettings {
        starts: Arc::new(Semaphore::new(1)),
        connection_timeout: Duration::from_mins(2),
        idle_start_after: Duration::from_millis(300),
        ..settings()
    };
    let hanging = Backend::start(spec("a", shell("sleep 1000")), settings.clone(), None);
    wait_for_state(&hanging, BackendState::Connecting).await;
    let next = Backend::start(spec("b", shell(&legacy("reply '{}'"))), settings, None);
    wait_for_state(&next, BackendState::Connected).await;
    let status = hanging.status();
    assert_eq!((status.state, status.last_error), (BackendState::Connecting, None));
    for backend in [hanging, next] {
        backend.stop().await;
    }
}

#[tokio::test]
async fn a_process_that_keeps_crashing_is_restarted_with_pauses() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("crashes");
    let crash = legacy(&format!("date +%s%N >> {}; exit 1", file.display()));
    let first_pause = Duration::from_millis(100);
    let patient = BackendSettings { first_pause, ..settings() };
    let backend = Backend::start(spec("b", shell(&crash)), patient, None);
    for _ in 0..4 {
        assert_eq!(call(&backend, "echo").await.unwrap_err().category(), "unavailable");
    }
    assert!(backend.status().restarts >= 3);
    let crashes = std::fs::read_to_string(&file).unwrap();
    let crashes: Vec<u64> = crashes.lines().map(|line| line.parse().unwrap()).collect();
    let gaps = crashes.windows(2).map(|pair| Duration::from_nanos(pair[1] - pair[0])).collect::<Vec<_>>();
    // The first crash may be a restart, and is followed by no pause; then the pause doubles.
    assert!(gaps.len() == 3 && gaps[1] >= first_pause && gaps[2] >= 2 * first_pause, "{gaps:?}");
    backend.stop().await;
}

#[tokio::test]
async fn a_broken_program_is_started_once_an_attempt_and_ever_less_often() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("starts");
    let broken = format!("date +%s%N >> {}; exit 1", file.display());
    let pause = Duration::from_millis(100);
    let settings = BackendSettings { max_connection_retries: 0, retry_failed_every: pause, ..settings() };
    let backend = Backend::start(spec("b", shell(&broken)), settings, None);
    let starts = || {
        let starts = std::fs::read_to_string(&file).ok()?;
        let starts: Vec<u64> = starts.lines().filter_map(|line| line.parse().ok()).collect();
        (starts.len() >= 6).then_some(starts)
    };
    let starts = eventually("six starts", starts).await;
    let gaps = starts.windows(2).map(|pair| Duration::from_nanos(pair[1] - pair[0])).collect::<Vec<_>>();
    // The first attempt probes for the era with a process of its own; each later one has a longer pause.
    let grows = gaps.iter().skip(1).zip([1, 2, 4, 8]).all(|(gap, factor)| *gap >= pause * factor);
    assert!(grows, "{gaps:?}");
    backend.stop().await;
}

#[tokio::test]
async fn a_timeout_says_the_last_words_of_the_program() {
    let hang = Transport::Stdio {
        command: "sh".to_owned(),
        args: vec![
            "-c".to_owned(),
            "echo getaddrinfo ENOTFOUND api.example >&2; echo Listening on port 3000; sleep 77".to_owned(),
        ],
        env: BTreeMap::new(),
        cwd: None,
        inherit_env: Vec::new(),
        idle_timeout: None,
    };
    let settings = BackendSettings { connection_timeout: Duration::from_secs(2), ..settings() };
    let backend = Backend::start(spec("b", hang), settings, None);
    wait_for_state(&backend, BackendState::Failed).await;
    let error = backend.status().last_error.expect("an error");
    for words in
        ["connection timeout after 2s", "ENOTFOUND api.example", "on standard output: Listening on port 3000"]
    {
        assert!(error.contains(words), "{error}");
    }
}
