use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;
use tokio::time::{Instant, sleep};

use super::*;
use crate::raw::RawCompositeTool;

/// Tools that answer after a while, as their name says: `slow200` takes 200 ms.
#[derive(Default)]
struct Lab {
    calls: Mutex<Vec<ToolCall>>,
    times: Mutex<HashMap<String, (Duration, Duration)>>,
    begun: Mutex<Option<Instant>>,
    running: AtomicUsize,
    most: AtomicUsize,
    failures: AtomicUsize,
    mute: bool,
}

impl ToolCaller for Lab {
    async fn call(&self, call: ToolCall) -> CallEnd {
        let begun = *self.begun.lock().unwrap().get_or_insert_with(Instant::now);
        let start = begun.elapsed();
        self.calls.lock().unwrap().push(call.clone());
        self.most.fetch_max(self.running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        let pause = call.tool.strip_prefix("slow").and_then(|it| it.parse().ok()).unwrap_or(10);
        sleep(Duration::from_millis(pause)).await;
        self.running.fetch_sub(1, Ordering::SeqCst);
        self.times.lock().unwrap().insert(call.step.clone(), (start, begun.elapsed()));
        match call.tool.as_str() {
            "fail" => CallEnd::Failed("it broke".to_owned()),
            "refused" => CallEnd::Refused("not permitted".to_owned()),
            "fails_twice" if self.failures.fetch_add(1, Ordering::SeqCst) < 2 => {
                CallEnd::Failed("not yet".to_owned())
            }
            "fails_on_two" if call.arguments["v"] == 2 => CallEnd::Failed("two".to_owned()),
            "asks" => match call.answers {
                None => {
                    let form = json!({ "method": "elicitation/create", "params": { "message": "sure?" } });
                    let questions = Map::from_iter([("q".to_owned(), form)]);
                    CallEnd::Asks { questions, state: Some(format!("state of {}", call.step)) }
                }
                Some(answers) => CallEnd::Complete {
                    output: json!({ "said": answers.responses["q"], "state": answers.state }),
                    content: Value::Null,
                },
            },
            _ => CallEnd::Complete { output: json!({ "got": call.arguments }), content: json!([]) },
        }
    }

    fn cannot_ask(&self) -> Option<String> {
        self.mute.then(|| "the client cannot be asked".to_owned())
    }

    fn may_repeat(&self, tool: &str) -> bool {
        tool.starts_with("read") || tool.starts_with("slow")
    }
}

impl Lab {
    fn times(&self, step: &str) -> (u128, u128) {
        let (begin, end) = self.times.lock().unwrap()[step];
        (begin.as_millis(), end.as_millis())
    }

    fn steps(&self) -> Vec<String> {
        self.calls.lock().unwrap().iter().map(|call| call.step.clone()).collect()
    }
}

#[allow(clippy::needless_pass_by_value, reason = "calls are shorter")]
fn tool(raw: Value) -> Arc<CompositeTool> {
    let raw: RawCompositeTool = serde_json::from_value(raw).unwrap();
    Arc::new(CompositeTool::read(&raw).unwrap())
}

#[allow(clippy::needless_pass_by_value, reason = "calls are shorter")]
fn with_steps(steps: Value) -> Arc<CompositeTool> {
    tool(json!({ "name": "t", "steps": steps }))
}

async fn start(tool: &Arc<CompositeTool>, lab: &Lab, arguments: Value) -> End {
    let Value::Object(arguments) = arguments else { panic!("an object") };
    let begin = Begin::New { id: "run".to_owned(), arguments };
    run(tool, lab, &(), begin, Duration::from_secs(1_000)).await.unwrap().end
}

async fn go_on(tool: &Arc<CompositeTool>, lab: &Lab, state: &str, answers: Value) -> End {
    let Value::Object(answers) = answers else { panic!("an object") };
    let begin = Begin::Continued { state: state.to_owned(), answers };
    run(tool, lab, &(), begin, Duration::from_secs(1_001)).await.unwrap().end
}

fn asked(end: End) -> (Map<String, Value>, String) {
    match end {
        End::Asks { questions, state } => (questions, state),
        other => panic!("{other:?}"),
    }
}

fn failure(end: End) -> String {
    match end {
        End::Failed(error) => error,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_step_begins_as_soon_as_its_own_dependencies_have_ended() {
    let tool = with_steps(json!([
        { "id": "a", "tool": "slow100", "arguments": { "v": "{{.params.x}}" } },
        { "id": "b", "tool": "slow300", "dependsOn": ["a"] },
        { "id": "c", "tool": "slow50", "arguments": { "from": "{{.steps.a.output.got.v}}" } },
        { "id": "after_c", "tool": "slow50", "dependsOn": ["c"] },
        { "id": "d", "tool": "slow10", "arguments": { "b": "{{.steps.b.output}}", "c": "{{.steps.c.output.got.from}}" } },
    ]));
    let lab = Lab::default();
    let end = start(&tool, &lab, json!({ "x": 7 })).await;
    assert_eq!(lab.times("a"), (0, 100));
    assert_eq!((lab.times("b").0, lab.times("c").0), (100, 100));
    // No barrier: it does not wait for `b`.
    assert_eq!(lab.times("after_c").0, 150);
    assert_eq!(lab.times("d"), (400, 410));
    assert_eq!(end, End::Complete(json!({ "got": { "b": { "got": {} }, "c": 7 } })));
}

#[tokio::test(start_paused = true)]
async fn at_most_ten_calls_are_under_way() {
    let steps: Vec<_> = (0..25).map(|at| json!({ "id": format!("s{at}"), "tool": "slow100" })).collect();
    let lab = Lab::default();
    assert!(matches!(start(&with_steps(json!(steps)), &lab, json!({})).await, End::Complete(_)));
    assert_eq!((lab.most.load(Ordering::SeqCst), lab.steps().len()), (10, 25));
}

#[tokio::test(start_paused = true)]
async fn conditions_skip_steps_and_defaults_stand_in() {
    let tool = with_steps(json!([
        { "id": "a", "tool": "x", "condition": "{{eq .params.go \"yes\"}}", "defaultResults": { "got": "default" } },
        { "id": "b", "tool": "x", "arguments": { "v": "{{.steps.a.output.got}}", "s": "{{.steps.a.status}}" } },
    ]));
    let lab = Lab::default();
    let end = start(&tool, &lab, json!({ "go": "no" })).await;
    assert_eq!(end, End::Complete(json!({ "got": { "v": "default", "s": "skipped" } })));
    assert_eq!(lab.steps(), ["b"]);
    let wrong = with_steps(json!([{ "id": "a", "tool": "x", "condition": "{{.params.go}}" }]));
    let error = failure(start(&wrong, &lab, json!({ "go": "maybe" })).await);
    assert_eq!(
        error,
        "step `a` failed: condition: {{.params.go}} yields `maybe`, neither `true` nor `false`"
    );
}

#[tokio::test(start_paused = true)]
async fn failures_abort_continue_or_are_retried() {
    let lab = Lab::default();
    let aborts = with_steps(json!([
        { "id": "a", "tool": "fail" },
        { "id": "slow", "tool": "slow900" },
        { "id": "b", "tool": "x", "dependsOn": ["a"] },
    ]));
    assert_eq!(failure(start(&aborts, &lab, json!({})).await), "step `a` failed: fail: it broke");
    assert_eq!(lab.steps(), ["a", "slow"], "the slow call is cancelled, and nothing begins any more");

    let continues = with_steps(json!([
        { "id": "a", "tool": "fail", "onError": { "action": "continue" }, "defaultResults": { "v": 1 } },
        { "id": "b", "tool": "x", "arguments": { "v": "{{.steps.a.output.v}}", "e": "{{.steps.a.error}}" } },
    ]));
    let end = start(&continues, &lab, json!({})).await;
    assert_eq!(end, End::Complete(json!({ "got": { "v": 1, "e": "fail: it broke" } })));

    let lab = Lab::default();
    let retries = |count: u32| {
        let on_error = json!({ "action": "retry", "retryCount": count, "retryDelay": "1s" });
        with_steps(json!([{ "id": "a", "tool": "fails_twice", "onError": on_error }]))
    };
    assert!(matches!(start(&retries(2), &lab, json!({})).await, End::Complete(_)));
    // 10 ms a call, 1 s and 2 s between them.
    assert_eq!(lab.times("a").1, 3030);
    let lab = Lab::default();
    assert_eq!(failure(start(&retries(1), &lab, json!({})).await), "step `a` failed: fails_twice: not yet");

    let on_error = json!({ "action": "retry", "retryCount": 3, "retryDelay": "1s" });
    let refused = with_steps(json!([{ "id": "a", "tool": "refused", "onError": on_error }]));
    let lab = Lab::default();
    assert_eq!(failure(start(&refused, &lab, json!({})).await), "step `a` failed: refused: not permitted");
    assert_eq!(lab.steps(), ["a"], "a refused call is not repeated");
}

#[tokio::test(start_paused = true)]
async fn times_are_limited() {
    let lab = Lab::default();
    let step = with_steps(json!([{ "id": "a", "tool": "slow9000", "timeout": "1s" }]));
    assert_eq!(
        failure(start(&step, &lab, json!({})).await),
        "step `a` failed: slow9000: no result within 1s"
    );
    let whole = tool(json!({ "name": "t", "timeout": "2s", "steps": [{ "id": "a", "tool": "slow9000" }] }));
    assert_eq!(failure(start(&whole, &lab, json!({})).await), "the run had no result within 2s");
}

#[tokio::test(start_paused = true)]
async fn a_question_has_the_time_of_its_step() {
    let asks = |timeout: &str, action: &str| {
        with_steps(json!([
            { "id": "ask", "type": "elicitation", "message": "Well?", "timeout": timeout,
              "onError": { "action": action }, "defaultResults": { "action": "none" } },
            { "id": "last", "tool": "x", "arguments": { "a": "{{.steps.ask.output.action}}", "s": "{{.steps.ask.status}}" } },
        ]))
    };
    let accepted = json!({ "ask": { "action": "accept", "content": {} } });
    let late = "step `ask` failed: no answer within 500ms";
    // The second part begins a second after the first.
    for (timeout, action, answers, expected) in [
        ("2s", "abort", &accepted, Ok(json!({ "got": { "a": "accept", "s": "completed" } }))),
        ("500ms", "continue", &accepted, Ok(json!({ "got": { "a": "none", "s": "failed" } }))),
        ("500ms", "abort", &accepted, Err(late)),
        ("500ms", "abort", &json!({}), Err(late)),
    ] {
        let (tool, lab) = (asks(timeout, action), Lab::default());
        let (_, state) = asked(start(&tool, &lab, json!({})).await);
        let end = match go_on(&tool, &lab, &state, answers.clone()).await {
            End::Complete(value) => Ok(value),
            other => Err(failure(other)),
        };
        assert_eq!(end, expected.map_err(str::to_owned), "{timeout} {action}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_items_of_a_list_have_the_time_of_their_step_together() {
    let each = |action: &str| {
        with_steps(json!([{
            "id": "each", "type": "forEach", "collection": "[1, 2, 3]", "maxParallel": 1, "timeout": "500ms",
            "onError": { "action": action }, "step": { "tool": "slow300" },
        }]))
    };
    let over = "no result within the time of the step";
    let lab = Lab::default();
    let error = failure(start(&each("abort"), &lab, json!({})).await);
    assert_eq!(error, format!("step `each` failed: item 1: slow300: {over}"));
    let lab = Lab::default();
    let End::Complete(output) = start(&each("continue"), &lab, json!({})).await else { panic!("it goes on") };
    assert_eq!((&output["completed"], &output["failed"]), (&json!(1), &json!(2)), "{output}");
    assert_eq!(output["iterations"][2]["error"], over);
    assert_eq!(lab.steps(), ["each[0]", "each[1]"], "the last item is not called");
}

#[tokio::test(start_paused = true)]
async fn a_missing_value_fails_the_step_and_is_named() {
    let lab = Lab::default();
    let tool =
        with_steps(json!([{ "id": "a", "tool": "x", "arguments": { "l": [{ "v": "{{.params.no}}" }] } }]));
    let error = failure(start(&tool, &lab, json!({})).await);
    assert!(
        error.contains("step `a`")
            && error.contains("arguments.l[0].v")
            && error.contains(".params.no is missing"),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn each_item_of_a_list_is_called() {
    let each = |extra: Value| {
        let mut step = json!({
            "id": "each", "type": "forEach", "collection": "{{.params.list}}", "itemVar": "it", "maxParallel": 2,
            "maxIterations": 5,
            "step": { "tool": "fails_on_two", "arguments": { "v": "{{.forEach.it}}", "at": "{{.forEach.index}}" } },
        });
        step.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        with_steps(json!([step]))
    };
    let lab = Lab::default();
    let end =
        start(&each(json!({ "onError": { "action": "continue" } })), &lab, json!({ "list": [1, 2, 3] }))
            .await;
    let End::Complete(output) = end else { panic!("{end:?}") };
    assert_eq!(output["count"], 3);
    assert_eq!((&output["completed"], &output["failed"]), (&json!(2), &json!(1)));
    assert_eq!(output["iterations"][2]["output"], json!({ "got": { "v": 3, "at": 2 } }));
    assert_eq!(output["iterations"][1]["status"], "failed");
    assert_eq!(lab.most.load(Ordering::SeqCst), 2);

    let error = failure(start(&each(json!({})), &lab, json!({ "list": [1, 2, 3] })).await);
    assert_eq!(error, "step `each` failed: item 1: fails_on_two: two");
    let error = failure(start(&each(json!({})), &lab, json!({ "list": [1, 2, 3, 4, 5, 6] })).await);
    assert!(error.contains("6 items; `maxIterations` is 5"), "{error}");
    let end = start(&each(json!({})), &lab, json!({ "list": "[]" })).await;
    assert_eq!(end, End::Complete(json!({ "iterations": [], "count": 0, "completed": 0, "failed": 0 })));
    let error = failure(start(&each(json!({})), &lab, json!({ "list": { "a": 1 } })).await);
    assert!(error.contains("yields no list"), "{error}");
}

fn asking(on_decline: &str) -> Arc<CompositeTool> {
    tool(json!({
        "name": "t",
        "steps": [
            { "id": "first", "tool": "x" },
            { "id": "ask", "type": "elicitation", "dependsOn": ["first"], "message": "File {{.params.q}}?",
              "schema": { "properties": { "ok": { "type": "boolean" } }, "required": ["ok"] },
              "onDecline": { "action": on_decline } },
            { "id": "beside", "tool": "slow500" },
            { "id": "last", "tool": "x", "condition": "{{eq .steps.ask.status \"completed\"}}", "arguments": { "ok": "{{json .steps.ask.content}}" } },
        ],
    }))
}

#[tokio::test(start_paused = true)]
async fn a_run_waits_for_an_answer_and_goes_on_elsewhere() {
    let tool = asking("abort");
    let lab = Lab::default();
    let (questions, state) = asked(start(&tool, &lab, json!({ "q": "bug" })).await);
    assert_eq!(
        json!(questions),
        json!({ "ask": { "method": "elicitation/create", "params": { "mode": "form", "message": "File bug?",
            "requestedSchema": { "type": "object", "properties": { "ok": { "type": "boolean" } }, "required": ["ok"] } } } })
    );
    assert_eq!(lab.steps(), ["first", "beside"], "what needs no answer has ended");

    let elsewhere = Lab::default();
    let answers = json!({ "ask": { "action": "accept", "content": { "ok": true } } });
    let end = go_on(&tool, &elsewhere, &state, answers).await;
    assert_eq!(end, End::Complete(json!({ "got": { "ok": "{\"ok\":true}" } })));
    assert_eq!(elsewhere.steps(), ["last"], "no step runs twice");

    let error = failure(go_on(&tool, &elsewhere, &state, json!({ "ask": { "action": "decline" } })).await);
    assert_eq!(error, "step `ask` failed: the user declined");
    let lacking = json!({ "ask": { "action": "accept", "content": {} } });
    assert!(failure(go_on(&tool, &elsewhere, &state, lacking).await).contains("lacks `ok`"));
    for (content, error) in
        [(json!({ "ok": "yes" }), "has a `ok` of another type than boolean"), (json!([true]), "is no object")]
    {
        let unfit = json!({ "ask": { "action": "accept", "content": content } });
        assert!(failure(go_on(&tool, &elsewhere, &state, unfit).await).contains(error), "{error}");
    }
    // Without an answer, the question stays open.
    let (again, _) = asked(go_on(&tool, &elsewhere, &state, json!({})).await);
    assert_eq!(again, questions);
}

#[tokio::test(start_paused = true)]
async fn declining_may_skip_what_remains_or_go_on() {
    let lab = Lab::default();
    for (action, steps) in [("skip_remaining", 0), ("continue", 1)] {
        let tool = asking(action);
        let (_, state) = asked(start(&tool, &lab, json!({ "q": "bug" })).await);
        let elsewhere = Lab::default();
        let end = go_on(&tool, &elsewhere, &state, json!({ "ask": { "action": "decline" } })).await;
        assert!(matches!(end, End::Complete(_)), "{end:?}");
        assert_eq!(elsewhere.steps().len(), steps, "{action}");
    }
}

#[tokio::test(start_paused = true)]
async fn questions_of_tools_reach_the_user() {
    let tool = with_steps(json!([
        { "id": "a", "tool": "asks", "arguments": { "now": "{{.workflow.duration_ms}}" } },
        { "id": "each", "type": "forEach", "collection": "[1,2]", "step": { "tool": "asks", "arguments": { "v": "{{.forEach.item}}" } } },
        { "id": "b", "tool": "x", "arguments": { "a": "{{.steps.a.output}}", "n": "{{.steps.each.output.completed}}" } },
    ]));
    let lab = Lab::default();
    let (questions, state) = asked(start(&tool, &lab, json!({})).await);
    assert_eq!(questions.keys().collect::<Vec<_>>(), ["a/q", "each[0]/q", "each[1]/q"]);
    let first = lab.calls.lock().unwrap()[0].arguments.clone();

    // Some answers only: the others are asked again.
    let elsewhere = Lab::default();
    let (open, state) = asked(go_on(&tool, &elsewhere, &state, json!({ "a/q": 1, "each[1]/q": 2 })).await);
    assert_eq!(open.keys().collect::<Vec<_>>(), ["each[0]/q"]);
    assert_eq!(elsewhere.calls.lock().unwrap()[0].arguments, first, "the same arguments as before");
    let end = go_on(&tool, &elsewhere, &state, json!({ "each[0]/q": 3 })).await;
    assert_eq!(end, End::Complete(json!({ "got": { "a": { "said": 1, "state": "state of a" }, "n": 2 } })));
    assert_eq!(elsewhere.steps(), ["a", "each[1]", "each[0]", "b"]);
}

#[tokio::test(start_paused = true)]
async fn a_run_is_continued_by_its_own_definition_within_its_time_only() {
    let tool = asking("abort");
    let lab = Lab::default();
    let (_, state) = asked(start(&tool, &lab, json!({ "q": "bug" })).await);
    let continued = |tool: Arc<CompositeTool>, state: String, now| {
        let begin = Begin::Continued { state, answers: Map::new() };
        async move { run(&tool, &Lab::default(), &(), begin, Duration::from_secs(now)).await }
    };
    let other = asking("continue");
    assert_eq!(continued(other, state.clone(), 1001).await.unwrap_err(), ContinueError::Changed);
    assert_eq!(continued(tool.clone(), "{}".to_owned(), 1001).await.unwrap_err(), ContinueError::Unreadable);
    let late = continued(tool.clone(), state.clone(), 1000 + 1801).await.unwrap_err();
    assert!(late.to_string().starts_with("the run had 30m and is over; check which steps"), "{late}");
    assert_eq!(continued(tool, state, 1000 + 1799).await.unwrap().id, "run");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_cannot_be_asked_fails_the_step() {
    let lab = Lab { mute: true, ..Lab::default() };
    let error = failure(start(&asking("abort"), &lab, json!({ "q": "bug" })).await);
    assert_eq!(error, "step `ask` failed: the client cannot be asked");
}

#[tokio::test(start_paused = true)]
async fn results_have_the_types_of_their_definition() {
    let tool = tool(json!({
        "name": "t",
        "steps": [{ "id": "a", "tool": "x", "arguments": { "n": "{{.params.n}}", "l": [1], "t": "12" } }],
        "output": { "properties": {
            "whole": { "type": "integer", "value": "{{.steps.a.output.got.t}}" },
            "number": { "type": "number", "value": "{{.steps.a.output.got.n}}" },
            "text": { "type": "string", "value": "{{.steps.a.output.got.n}}" },
            "yes": { "type": "boolean", "value": "{{eq .steps.a.status \"completed\"}}" },
            "list": { "type": "array", "value": "{{json .steps.a.output.got.l}}" },
            "object": { "type": "object", "value": "{{.steps.a.output.got}}" },
            "nested": { "type": "object", "properties": { "id": { "type": "string", "value": "{{.workflow.id}}" } } },
            "missing": { "type": "integer", "value": "{{.steps.a.output.none}}", "default": "5" },
        }, "required": ["whole"] },
    }));
    let end = start(&tool, &Lab::default(), json!({ "n": 2.5 })).await;
    assert_eq!(
        end,
        End::Complete(json!({
            "whole": 12, "number": 2.5, "text": "2.5", "yes": true, "list": [1],
            "object": { "n": 2.5, "l": [1], "t": "12" }, "nested": { "id": "run" }, "missing": 5,
        }))
    );
}

#[tokio::test(start_paused = true)]
async fn a_result_that_does_not_fit_fails_the_run() {
    for (property, error) in [
        (json!({ "type": "integer", "value": "{{.params.t}}" }), "output.p: `\"x\"` is no integer"),
        (
            json!({ "type": "string", "value": "{{.params.none}}" }),
            "output.p: execution error: .params.none is missing or null",
        ),
        (
            json!({ "type": "integer", "value": "{{.params.t}}", "default": null }),
            "output.p: `\"x\"` is no integer",
        ),
    ] {
        let tool = tool(json!({
            "name": "t", "steps": [{ "id": "a", "tool": "x" }],
            "output": { "properties": { "p": property }, "required": ["p"] },
        }));
        assert_eq!(failure(start(&tool, &Lab::default(), json!({ "t": "x" })).await), error);
    }
}

mod answers;
mod kept;
