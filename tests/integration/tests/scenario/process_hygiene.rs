//! Process hygiene on a laptop: no program is left behind, many start at once, healthy ones are quiet.

use std::path::Path;

use serde_json::{Value, json};
use vmcp_integration::{Fixture, Vmcp, children, eventually};

#[tokio::test]
async fn a_closed_terminal_leaves_no_backend_behind() {
    let echo = Fixture::stdio("echo", "echo").start().await;
    let stubborn = json!({"name": "stubborn", "command": ["sleep", "7771"], "connectionTimeout": "60s"});
    let mut vmcp = Vmcp::new().backend(&echo).backend_entry(stubborn).start().await;
    vmcp.with_tool("echo_add").await;
    let started = eventually("both programs", async || {
        Some(children(vmcp.process.id())).filter(|children| children.len() >= 2)
    })
    .await;
    vmcp.process.signal("HUP").await;
    assert!(vmcp.process.ended().await.success(), "a graceful end");
    eventually("the programs to end", async || {
        started.iter().all(|child| !Path::new(&format!("/proc/{child}")).exists()).then_some(())
    })
    .await;
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_killed_server_leaves_no_backend_behind() {
    let echo = Fixture::stdio("echo", "echo").start().await;
    let parent = json!({"name": "parent", "command": ["sh", "-c", "sleep 7772 & exec sleep 7773"], "connectionTimeout": "60s"});
    let mut vmcp = Vmcp::new().backend(&echo).backend_entry(parent).start().await;
    vmcp.with_tool("echo_add").await;
    let running = || {
        let all = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        all.filter(|one| {
            let line = std::fs::read(one.path().join("cmdline")).unwrap_or_default();
            line.starts_with(b"sleep\x007772\x00") || line.starts_with(b"sleep\x007773\x00")
        })
        .count()
    };
    eventually("the program and its child", async || (running() == 2).then_some(())).await;
    let started = children(vmcp.process.id());
    vmcp.process.signal("KILL").await;
    assert!(!vmcp.process.ended().await.success());
    eventually("the programs to end", async || {
        let gone = |child: &u32| !Path::new(&format!("/proc/{child}")).exists();
        (running() == 0 && started.iter().all(gone)).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_first_start_of_many_servers_brings_every_sound_one_up() {
    let echo = Fixture::stdio("echo", "echo").start().await;
    let named = |name: String, command: Value| json!({"name": name, "command": command});
    let sound = (0..16).map(|number| named(format!("sound-{number}"), echo.backend["command"].clone()));
    let hang = (0..3).map(|number| named(format!("hang-{number}"), json!(["sleep", "7774"])));
    let crash = (0..3).map(|number| named(format!("crash-{number}"), json!(["sh", "-c", "exit 3"])));
    let backends: Vec<_> = hang.chain(crash).chain(sound).collect();
    let mut vmcp = Vmcp::new();
    for backend in backends {
        vmcp = vmcp.backend_entry(backend);
    }
    let vmcp = vmcp.start().await;
    eventually("every sound server, though others hang and crash", async || {
        let status = vmcp.status().await;
        let backends = status["backends"].as_array()?;
        let sound =
            backends.iter().filter(|one| one["name"].as_str().is_some_and(|name| name.starts_with("sound")));
        (sound.filter(|one| one["state"] == "connected").count() == 16).then_some(())
    })
    .await;
}

#[tokio::test]
async fn healthy_servers_leave_no_warning_in_the_log() {
    // It greets twenty times, writes a trace, answers without being asked, and has no templates.
    let missing =
        json!({"do": "error", "code": -32601, "message": "no", "method": "resources/templates/list"});
    let stray = json!({"do": "stray", "method": "tools/list"});
    let chatty = Fixture::stdio("chatty", "echo")
        .args(["--era", "legacy"])
        .fault(&missing)
        .fault(&stray)
        .start()
        .await;
    let mut entry = chatty.backend.clone();
    let words: Vec<_> =
        entry["command"].as_array().expect("a command").iter().filter_map(Value::as_str).collect();
    let line = format!(
        "for n in $(seq 20); do echo \"Server started on stdio $n\"; done; for n in $(seq 90); do echo \"trace $n\" >&2; done; exec '{}'",
        words.join("' '")
    );
    entry["command"] = json!(["sh", "-c", line]);
    let vmcp = Vmcp::new().backend_entry(entry).start().await;
    vmcp.with_tool("chatty_add").await;
    vmcp.modern().call_tool("chatty_add", json!({"a": 1, "b": 2})).await;
    let log = eventually("the call in the log", async || {
        Some(vmcp.process.output()).filter(|log| log.contains("backend is up") && log.contains("trace 1"))
    })
    .await;
    assert!(!log.contains("WARN") && !log.contains("ERROR"), "{log}");
    assert!(!log.contains("trace 60"), "a burst is folded: {log}");
    assert!(log.contains("Server started on stdio 1\""), "the first of what is no message: {log}");
    assert!(!log.contains("Server started on stdio 2"), "no more of it: {log}");
}
