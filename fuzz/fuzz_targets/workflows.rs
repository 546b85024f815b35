//! Fuzzes definitions of composite tools: one is refused with its mistakes, or runs to an end, and the state
//! of a run that asks is continued.
#![no_main]

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use serde_json::{Map, Value, json};
use tokio::runtime::{Builder, Runtime};
use vmcp_workflow::CompositeTool;
use vmcp_workflow::raw::RawCompositeTool;
use vmcp_workflow::run::{Begin, CallEnd, End, ToolCall, ToolCaller, run};

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    // Timeouts and pauses of a definition pass at once.
    Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime")
});

/// Answers, fails or asks, as the length of the tool's name says.
struct Any;

impl ToolCaller for Any {
    async fn call(&self, call: ToolCall) -> CallEnd {
        match (call.tool.len() % 4, call.answers) {
            (0, _) => CallEnd::Failed("it broke".to_owned()),
            (1, None) => {
                let question = json!({ "method": "elicitation/create", "params": {} });
                CallEnd::Asks { questions: Map::from_iter([("q".to_owned(), question)]), state: None }
            }
            _ => CallEnd::Complete { output: Value::Object(call.arguments), content: Value::Null },
        }
    }

    fn cannot_ask(&self) -> Option<String> {
        None
    }

    fn may_repeat(&self, tool: &str) -> bool {
        tool.len().is_multiple_of(2)
    }
}

fuzz_target!(|text: &str| {
    let Ok(raw) = serde_json::from_str::<RawCompositeTool>(text) else { return };
    let tool = match CompositeTool::read(&raw) {
        Ok(tool) => Arc::new(tool),
        Err(mistakes) => {
            assert!(!mistakes.is_empty(), "a refusal without a reason");
            assert!(mistakes.iter().all(|mistake| !mistake.remedy.is_empty()), "{mistakes:?}");
            return;
        }
    };
    let _ = (tool.input_schema(), tool.output_schema());
    let mut begin = Begin::New { id: "r".to_owned(), arguments: Map::new() };
    // A definition of 4 KiB has fewer rounds of questions than this.
    for _ in 0..200 {
        let finished = RUNTIME.block_on(run(&tool, &Any, &(), begin, Duration::from_secs(1)));
        let Ok(finished) = finished else { return };
        assert_eq!(finished.id, "r");
        let End::Asks { questions, state } = finished.end else { return };
        assert!(!questions.is_empty());
        let answer = json!({ "action": "accept", "content": { "a": 1 } });
        let answers = questions.keys().map(|key| (key.clone(), answer.clone())).collect();
        begin = Begin::Continued { state, answers };
    }
    panic!("a run that never ends: {text}");
});
