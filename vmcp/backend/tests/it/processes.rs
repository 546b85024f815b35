//! Child processes.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use vmcp_backend::{Backend, BackendSettings, BackendState, CallError, Event, Request, event_queue};
use vmcp_config::Transport;
use vmcp_config::rules::NamePattern;
use vmcp_wire::era::Era;

use crate::support::{
    cached, call, eventually, params_of, result, settings, spec, wait_for_definitions, wait_for_state,
};

/// A server in the shell: `answer` runs for every line, with `$line`, `$method` and `$id`.
pub(crate) const SHELL: &str = r#"
reply() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$1"; }
refuse() { printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}\n' "$id"; }
initialized='{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"sh","version":"1"}}'
tools='{"tools":[{"name":"echo","inputSchema":{}}]}'
while IFS= read -r line; do
  id=${line#*'"id":'}; id=${id%%,*}
  method=${line#*'"method":"'}; method=${method%%'"'*}
  answer
done
"#;

/// `handler` is the body of `answer`.
pub(crate) fn shell(handler: &str) -> Transport {
    shell_with(handler, &[])
}

/// As [`shell`], with variables.
pub(crate) fn shell_with(handler: &str, env: &[(&str, &str)]) -> Transport {
    Transport::Stdio {
        command: "sh".to_owned(),
        args: vec!["-c".to_owned(), format!("answer() {{\n{handler}\n}}\n{SHELL}")],
        env: env
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).into()))
            .collect::<BTreeMap<_, _>>(),
        cwd: None,
        inherit_env: Vec::new(),
        idle_timeout: None,
    }
}

/// The handshake of a legacy server; `call` handles the rest.
pub(crate) fn legacy(call: &str) -> String {
    format!(
        "case $method in initialize) reply \"$initialized\";; tools/list) reply \"$tools\";; \
         server/discover) refuse;; notifications/initialized) ;; *) {call};; esac"
    )
}

#[tokio::test]
async fn a_process_of_either_era_is_spoken_to_line_by_line() {
    let modern = r#"case $method in
      server/discover) reply '{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}';;
      tools/list) reply "$tools";;
      *) case $line in *'"io.modelcontextprotocol/protocolVersion":"2026-07-28"'*) reply '{"ok":1e400}';; esac;;
    esac"#;
    let noisy = format!("echo 'warming up...'; echo; echo '[1,2'; {}", legacy(r#"reply '{"ok":1e400}'"#));
    for (handler, era) in [(modern, Era::Modern), (&noisy, Era::Legacy)] {
        let backend = Backend::start(spec("b", shell(handler)), settings(), None);
        let response = call(&backend, "echo").await.unwrap();
        assert_eq!((response.era, result(&response)), (era, r#"{"ok":1e400}"#));
        wait_for_definitions(&backend, |found| found.tools.len() == 1).await;
        // Params that a client wrote over several lines reach the process as one.
        let params = params_of("{\n  \"name\": \"echo\"\r\n}");
        backend.request(Request::new("tools/call", &params)).await.unwrap();
        backend.stop().await;
    }
}

#[tokio::test]
async fn servers_that_ignore_the_probe_or_die_of_it_are_initialized() {
    let silent = legacy("reply '{}'").replace("refuse", ":");
    let mortal = legacy("reply '{}'").replace("refuse", "exit 3");
    for handler in [silent, mortal] {
        let settings = BackendSettings { stdio_probe_timeout: Duration::from_millis(200), ..settings() };
        let backend = Backend::start(spec("b", shell(&handler)), settings, None);
        assert_eq!(call(&backend, "echo").await.unwrap().era, Era::Legacy);
        backend.stop().await;
    }
}

#[tokio::test]
async fn an_exit_fails_the_call_at_once_is_explained_to_operators_and_mended_by_the_next_call() {
    let handler =
        legacy("case $line in *fatal*) echo 'token=hunter2 is bad' >&2; exit 7;; *) reply '{}';; esac");
    let backend = Backend::start(spec("b", shell(&handler)), settings(), None);
    call(&backend, "echo").await.unwrap();
    let started = Instant::now();
    let error = call(&backend, "fatal").await.unwrap_err();
    assert!(started.elapsed() < Duration::from_secs(20), "not by the deadline");
    assert!(matches!(error, CallError::Unavailable { .. }));
    assert!(!error.to_string().contains("hunter2"), "{error}");
    call(&backend, "echo").await.unwrap();
    assert_eq!(backend.status().restarts, 1);
    backend.stop().await;
}

#[tokio::test]
async fn a_line_without_end_ends_the_process() {
    let handler = legacy("head -c 300000 /dev/zero | tr '\\0' x; sleep 100");
    let settings = BackendSettings { max_message_bytes: 100_000, ..settings() };
    let backend = Backend::start(spec("b", shell(&handler)), settings, None);
    let error = call(&backend, "echo").await.unwrap_err();
    assert_eq!(error.category(), "unavailable");
    // The reconnect has cleared the reason in the status by now, or will.
    wait_for_state(&backend, BackendState::Connected).await;
    backend.stop().await;
}

#[tokio::test]
async fn grandchildren_do_not_outlive_the_backend() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pid");
    let handler = legacy(&format!(
        "sh -c 'trap \"\" TERM; echo $$ > {}; sleep 300; sleep 300' & reply '{{}}'",
        file.display()
    ));
    let backend = Backend::start(spec("b", shell(&handler)), settings(), None);
    call(&backend, "echo").await.unwrap();
    let read = || std::fs::read_to_string(&file).ok()?.trim().parse::<u32>().ok();
    let pid = eventually("the grandchild", read).await;
    backend.stop().await;
    let gone = || {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok();
        // Killed and not yet reaped by its new parent counts.
        stat.is_none_or(|stat| stat.contains(") Z ")).then_some(())
    };
    eventually("its end", gone).await;
}

#[tokio::test]
async fn progress_comes_in_order_and_cancellation_is_forwarded() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("cancelled");
    let handler = legacy(&format!(
        r#"case $line in
          *'"slow"'*) ;;
          *notifications/cancelled*) printf '%s' "$line" > {};;
          *) for n in 1 2 3; do
            printf '{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":%s,"progress":%s}}}}\n' "$id" $n
          done; reply '{{}}';;
        esac"#,
        file.display()
    ));
    let backend = Backend::start(spec("b", shell(&handler)), settings(), None);
    let (sender, mut notifications) = event_queue(8);
    let params = params_of(r#"{"name":"echo","_meta":{"progressToken":"mine"}}"#);
    backend.request(Request { events: Some(sender), ..Request::new("tools/call", &params) }).await.unwrap();
    for progress in 1..=3 {
        let expected = format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":"mine","progress":{progress}}}}}"#
        );
        let Some(Event::Notification(notification)) = notifications.recv().await else { panic!("none") };
        assert_eq!(notification.get(), expected);
    }
    assert!(notifications.recv().await.is_none());
    let params = params_of(r#"{"name":"slow"}"#);
    let deadline = Duration::from_millis(200);
    let error =
        backend.request(Request { deadline, ..Request::new("tools/call", &params) }).await.unwrap_err();
    assert_eq!(error.category(), "timeout");
    let line =
        eventually("the cancellation", || std::fs::read_to_string(&file).ok().filter(|l| !l.is_empty()))
            .await;
    assert!(line.contains(r#""requestId":"#), "{line}");
    call(&backend, "echo").await.unwrap();
    backend.stop().await;
}

#[tokio::test]
async fn a_child_inherits_little_and_gets_what_is_configured() {
    let handler =
        legacy(r#"reply "{\"home\":\"$HOME\",\"cargo\":\"$CARGO_MANIFEST_DIR\",\"key\":\"$KEY\"}""#);
    let home = std::env::var("HOME").unwrap();
    assert!(std::env::var("CARGO_MANIFEST_DIR").is_ok(), "there is something to leak");
    // The variables of one child are neither those of another nor of this process.
    for (env, key) in [(&[("KEY", "k1")][..], "k1"), (&[], "")] {
        let backend = Backend::start(spec("b", shell_with(&handler, env)), settings(), Some(cached()));
        let response = call(&backend, "echo").await.unwrap();
        assert_eq!(result(&response), format!(r#"{{"home":"{home}","cargo":"","key":"{key}"}}"#));
        assert!(std::env::var("KEY").is_err());
        backend.stop().await;
    }
}

#[tokio::test]
async fn a_child_inherits_the_variables_that_a_pattern_names() {
    let handler = legacy(r#"reply "{\"version\":\"$CARGO_PKG_NAME\",\"dir\":\"$CARGO_MANIFEST_DIR\"}""#);
    let mut transport = shell(&handler);
    let Transport::Stdio { inherit_env, .. } = &mut transport else { panic!("a program") };
    inherit_env.push(NamePattern::new("CARGO_PKG_*"));
    let backend = Backend::start(spec("b", transport), settings(), Some(cached()));
    let response = call(&backend, "echo").await.unwrap();
    let name = std::env::var("CARGO_PKG_NAME").unwrap();
    assert_eq!(result(&response), format!(r#"{{"version":"{name}","dir":""}}"#));
    backend.stop().await;
}

#[tokio::test]
async fn an_idle_program_is_stopped_and_started_again_by_the_next_call() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pids");
    let handler = legacy(&format!("echo $$ >> {}; sleep 1; reply '{{}}'", file.display()));
    let idle = BackendSettings { idle_timeout: Duration::from_millis(300), ..settings() };
    let backend = Backend::start(spec("b", shell(&handler)), idle, None);
    for round in 1..=2 {
        // The call takes longer than the program may be idle.
        call(&backend, "echo").await.unwrap();
        let status = wait_for_state(&backend, BackendState::Configured).await;
        assert_eq!((status.tools, status.last_error), (Some(1), None), "its tools stay listed");
        let pids = std::fs::read_to_string(&file).unwrap();
        let pids: Vec<_> = pids.lines().collect();
        assert_eq!(pids.len(), round);
        let stat = format!("/proc/{}/stat", pids.last().unwrap());
        let gone = || std::fs::read_to_string(&stat).map_or(true, |stat| stat.contains(") Z ")).then_some(());
        eventually("the end of the program", gone).await;
    }
    backend.stop().await;
    // A timeout of its own wins: 0 never stops it.
    let mut transport = shell(&legacy("reply '{}'"));
    let Transport::Stdio { idle_timeout, .. } = &mut transport else { panic!("a program") };
    *idle_timeout = Some(Duration::ZERO);
    let idle = BackendSettings { idle_timeout: Duration::from_millis(100), ..settings() };
    let backend = Backend::start(spec("b", transport), idle, None);
    call(&backend, "echo").await.unwrap();
    tokio::time::sleep(Duration::from_millis(600)).await;
    assert_eq!(backend.status().state, BackendState::Connected);
    backend.stop().await;
}

#[tokio::test]
async fn the_idle_time_of_all_programs_spares_slow_starts_wanted_connections_and_tasks() {
    let idle = BackendSettings { idle_timeout: Duration::from_millis(100), ..settings() };
    let slow = BackendSettings { max_idle_start: Duration::ZERO, ..idle.clone() };
    let program = || spec("b", shell(&legacy("reply '{}'")));
    let wanted = vmcp_config::Backend { preconnect: true, ..program() };
    let with_task = spec("b", shell(&legacy(r#"reply '{"task":{"taskId":"t"}}'"#)));
    // The last one is wanted since a reload.
    for (spec, settings, reloaded) in [
        (program(), slow.clone(), program()),
        (wanted.clone(), idle.clone(), wanted.clone()),
        (with_task.clone(), idle.clone(), with_task),
        (program(), idle, wanted),
    ] {
        let backend = Backend::start(spec, settings.clone(), None);
        backend.reconfigure(&reloaded, settings);
        call(&backend, "echo").await.unwrap();
        tokio::time::sleep(Duration::from_millis(600)).await;
        assert_eq!(backend.status().state, BackendState::Connected);
        backend.stop().await;
    }
    // A timeout of its own stops a slow one, too.
    let mut transport = shell(&legacy("reply '{}'"));
    let Transport::Stdio { idle_timeout, .. } = &mut transport else { panic!("a program") };
    *idle_timeout = Some(Duration::from_millis(100));
    let backend = Backend::start(spec("b", transport), slow, None);
    call(&backend, "echo").await.unwrap();
    wait_for_state(&backend, BackendState::Configured).await;
    backend.stop().await;
}

/// A legacy program with tools, prompts and resources; `resources` answers `resources/list`.
fn listing(resources: &str) -> Transport {
    let declared = r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"prompts":{},"resources":{}},"serverInfo":{"name":"sh","version":"1"}}"#;
    shell(&format!(
        "case $method in initialize) reply '{declared}';; tools/list) reply \"$tools\";; \
         prompts/list) reply '{{\"prompts\":[{{\"name\":\"p\"}}]}}';; resources/list) {resources};; \
         resources/templates/list) reply null;; notifications/*) ;; *) refuse;; esac"
    ))
}

#[tokio::test]
async fn lists_that_are_null_are_absent_over_stdio_too() {
    for absent in ["null", "[]", "{}"] {
        let backend = Backend::start(spec("b", listing(&format!("reply '{absent}'"))), settings(), None);
        let found = wait_for_definitions(&backend, |found| found.prompts.len() == 1).await;
        assert_eq!((found.tools.len(), found.resources.len()), (1, 0));
        assert!(found.faults.is_empty(), "{absent}: {:?}", found.faults);
        backend.stop().await;
    }
}

#[tokio::test]
async fn a_program_that_dies_over_one_list_keeps_the_others() {
    let backend = Backend::start(spec("b", listing("exit 3")), settings(), None);
    let found = wait_for_definitions(&backend, |found| {
        found.faults.iter().any(|fault| fault.reason.contains("the server ends when it is asked"))
    })
    .await;
    assert_eq!((found.tools.len(), found.prompts.len()), (1, 1));
    let restarts = backend.status().restarts;
    backend.relist().await.unwrap();
    call(&backend, "{}").await.unwrap();
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(backend.status().restarts, restarts, "it is not asked again");
    assert_eq!(restarts, 2, "once beside other lists, once alone");
    backend.stop().await;
}
