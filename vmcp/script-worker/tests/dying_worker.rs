//! A worker that is killed in the middle of its script. The test is alone in its process, whose only children
//! are the workers.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use serde_json::json;
use vmcp_script::pool::{Called, PoolSettings, Ran, Script, ScriptEnd, ToolHost, WorkerPool, WorkerProgram};
use vmcp_script::protocol::{CallEnd, HostCall, StartScript};
use vmcp_script::{ResourceBounds, ScriptLimits};

/// A host whose every tool kills the worker that calls it.
struct KillingHost;

impl ToolHost for KillingHost {
    type Asking = String;

    async fn call(&self, _: HostCall) -> Called<String> {
        for thread in std::fs::read_dir("/proc/self/task").unwrap() {
            let children = thread.unwrap().path().join("children");
            for worker in std::fs::read_to_string(children).unwrap_or_default().split_whitespace() {
                assert!(Command::new("kill").args(["-9", worker]).status().unwrap().success());
            }
        }
        Called::Ended(CallEnd::Value(json!("killed")))
    }

    async fn go_on(&self, _: String) -> Called<String> {
        Called::Ended(CallEnd::Value(json!(null)))
    }
}

async fn run(pool: &Arc<WorkerPool<&'static str>>, code: &str) -> Ran {
    let settings = PoolSettings {
        // A warm worker would be killed, too.
        warm: 0,
        running: 1,
        running_per_principal: 1,
        bounds: ResourceBounds { memory: 128 << 20, cpu_seconds: 9 },
    };
    let script = StartScript {
        code: code.to_owned(),
        tool_script: None,
        context: None,
        namespaces: vec!["fs".to_owned()],
        limits: ScriptLimits::default(),
    };
    match pool.run(&"me", settings, Script::New(script), &KillingHost).await {
        ScriptEnd::Ended(ran) => ran,
        ScriptEnd::Waits(_) => panic!("the script waits"),
    }
}

#[tokio::test]
async fn the_call_says_that_its_worker_died_and_the_next_script_gets_a_new_one() {
    let program = WorkerProgram {
        program: PathBuf::from(env!("CARGO_BIN_EXE_vmcp-test-worker")),
        arguments: Vec::new(),
    };
    let pool = Arc::new(WorkerPool::new(program));
    for _ in 0..2 {
        let ran = run(&pool, "print('before')\nfs.kill()\n'after'").await;
        let failure = ran.finished.end.unwrap_err();
        assert_eq!((failure.error_type.as_str(), ran.calls), ("WorkerError", 1), "{failure:?}");
        assert!(failure.error.contains("SIGKILL") && failure.error.contains("gets a new one"), "{failure:?}");
        assert_eq!(run(&pool, "1 + 1").await.finished.end.unwrap(), json!(2));
    }
}
