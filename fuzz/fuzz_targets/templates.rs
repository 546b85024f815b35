//! Fuzzes templates of composite tools: the text before the first line end is a template, the rest is the
//! JSON of its parameters. A template is refused with its path and a remedy, or yields a value or an error
//! within its bounds.
#![no_main]

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use serde_json::{Map, Value, json};
use tokio::runtime::{Builder, Runtime};
use vmcp_workflow::CompositeTool;
use vmcp_workflow::run::{Begin, CallEnd, End, ToolCall, ToolCaller, run};

/// Bytes that a text may have, with some room for its keys.
const MOST: usize = 4 * 1024 * 1024 + 1024;

static RUNTIME: LazyLock<Runtime> =
    LazyLock::new(|| Builder::new_current_thread().enable_time().build().expect("a runtime"));

/// Answers with the arguments of the call.
struct Echo;

impl ToolCaller for Echo {
    async fn call(&self, call: ToolCall) -> CallEnd {
        CallEnd::Complete { output: Value::Object(call.arguments), content: Value::Null }
    }

    fn cannot_ask(&self) -> Option<String> {
        None
    }

    fn may_repeat(&self, _: &str) -> bool {
        true
    }
}

fuzz_target!(|text: &str| {
    let (template, parameters) = text.split_once('\n').unwrap_or((text, "{}"));
    let written = json!({ "name": "t", "steps": [
        { "id": "a", "tool": "x.y", "arguments": { "v": template } },
        { "id": "b", "tool": "x.y", "arguments": { "v": "{{.steps.a.output.v}}" } },
    ] });
    let raw = serde_json::from_value(written).expect("a definition");
    let tool = match CompositeTool::read(&raw) {
        Ok(tool) => Arc::new(tool),
        Err(mistakes) => {
            assert!(!mistakes.is_empty(), "a refusal without a reason");
            for mistake in mistakes {
                assert!(mistake.path.starts_with("steps") && !mistake.remedy.is_empty(), "{mistake:?}");
            }
            return;
        }
    };
    let arguments: Map<String, Value> = serde_json::from_str(parameters).unwrap_or_default();
    let begin = Begin::New { id: "r".to_owned(), arguments };
    let finished = RUNTIME.block_on(run(&tool, &Echo, &(), begin, Duration::from_secs(1)));
    match finished.expect("a new run begins").end {
        End::Complete(value) => assert!(value.to_string().len() <= 6 * MOST, "a text beyond its bound"),
        End::Failed(error) => assert!(error.contains("step `"), "{error}"),
        end @ (End::Asks { .. } | End::Unknown(_)) => panic!("{end:?}"),
    }
});
