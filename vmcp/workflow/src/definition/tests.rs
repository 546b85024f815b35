use serde_json::json;

use super::*;

fn read(raw: &Value) -> Result<CompositeTool, Vec<String>> {
    let raw: RawCompositeTool = serde_json::from_value(raw.clone()).unwrap();
    CompositeTool::read(&raw).map_err(|mistakes| mistakes.iter().map(ToString::to_string).collect())
}

fn mistakes(raw: &Value) -> String {
    read(raw).unwrap_err().join("\n")
}

/// A definition with these steps.
fn with_steps(steps: &Value) -> Value {
    json!({ "name": "t", "steps": steps })
}

/// The example of ToolHive's configuration.
fn triage() -> Value {
    json!({
        "name": "triage",
        "parameters": { "type": "object", "properties": { "q": { "type": "string", "default": "bug" } } },
        "timeout": "10m",
        "steps": [
            { "id": "search", "type": "tool", "tool": "github.search_code", "arguments": { "query": "{{.params.q}}" },
              "timeout": "30s", "onError": { "action": "retry", "retryCount": 2, "retryDelay": "1s" } },
            { "id": "ask", "type": "elicitation", "dependsOn": ["search"], "message": "File {{.params.q}}?",
              "schema": { "type": "object", "properties": { "ok": { "type": "boolean" } } },
              "onDecline": { "action": "abort" }, "onCancel": { "action": "skip_remaining" } },
            { "id": "each", "type": "forEach", "dependsOn": ["ask"], "condition": "{{.steps.ask.content.ok}}",
              "collection": "{{json .steps.search.output.items}}", "itemVar": "item", "maxIterations": 100, "maxParallel": 5,
              "step": { "type": "tool", "tool": "jira.create_issue", "arguments": { "summary": "{{.forEach.item.title}}" } },
              "defaultResults": {} },
        ],
        "output": {
            "properties": { "count": { "type": "integer", "value": "{{.steps.each.output.count}}", "default": 0 } },
            "required": ["count"],
        },
    })
}

#[test]
fn a_definition_of_toolhive_is_read_unchanged() {
    let tool = read(&triage()).unwrap();
    assert_eq!(tool.tools(), ["github.search_code", "jira.create_issue"]);
    assert!(tool.asks());
    assert_eq!(tool.timeout, Duration::from_mins(10));
    assert_eq!(
        tool.output_schema().unwrap(),
        json!({ "type": "object", "properties": { "count": { "type": "integer" } }, "required": ["count"] })
    );
    // `each` waits for `search`, too, for its template reads it.
    assert_eq!(tool.steps[2].after, BTreeSet::from([0, 1]));
    let Action::Call(call) = &tool.steps[0].action else { panic!("a call") };
    assert_eq!((call.retries, call.timeout), (2, Duration::from_secs(30)));
}

#[test]
fn circles_are_named() {
    let steps = json!([
        { "id": "a", "tool": "x", "dependsOn": ["c"] },
        { "id": "b", "tool": "x", "arguments": { "v": "{{.steps.a.output}}" } },
        { "id": "c", "tool": "x", "dependsOn": ["b"] },
    ]);
    assert_eq!(
        mistakes(&with_steps(&steps)),
        "steps: a circle of dependencies: a after c after b after a; remove one of these dependencies or references"
    );
    let own =
        json!([{ "id": "a", "tool": "x", "dependsOn": ["a"], "arguments": { "v": "{{.steps.a.status}}" } }]);
    let text = mistakes(&with_steps(&own));
    assert!(
        text.contains("steps[0].dependsOn[0]: the step itself") && text.contains("refers to the step itself")
    );
}

#[test]
fn each_mistake_is_named_with_its_path_and_remedy() {
    for (steps, path, message) in [
        (json!([]), "steps", "missing"),
        (json!([{ "id": "a", "tool": "x", "dependsOn": ["b"] }]), "steps[0].dependsOn[0]", "no step `b`"),
        (
            json!([{ "id": "a", "tool": "x", "arguments": { "l": [{ "v": "{{.steps.z.output}}" }] } }]),
            "steps[0]",
            "step `z`, which does not exist",
        ),
        (json!([{ "id": "a" }]), "steps[0].tool", "missing"),
        (json!([{ "id": "a", "tool": "x" }, { "id": "a", "tool": "x" }]), "steps[1].id", "another step"),
        (json!([{ "tool": "x" }]), "steps[0].id", "missing"),
        (json!([{ "id": "a", "tool": "x", "condition": "{{if}}" }]), "steps[0].condition", ""),
        (
            json!([{ "id": "a", "tool": "x", "arguments": { "l": [{ "v": "{{" }] } }]),
            "steps[0].arguments.l[0].v",
            "",
        ),
        (json!([{ "id": "a", "tool": "x", "timeout": "soon" }]), "steps[0].timeout", "no duration"),
        (json!([{ "id": "a", "tool": "x", "timeout": "0s" }]), "steps[0].timeout", "out of range"),
        (
            json!([{ "id": "a", "tool": "x", "onError": { "action": "retry", "retryCount": 11 } }]),
            "steps[0].onError.retryCount",
            "out of range",
        ),
    ] {
        assert_mistake(&steps, path, message);
    }
    let many: Vec<_> = (0..101).map(|at| json!({ "id": format!("s{at}"), "tool": "x" })).collect();
    assert!(mistakes(&with_steps(&json!(many))).contains("101 steps; at most 100"));
}

#[test]
fn each_mistake_of_a_question_a_list_or_a_reference_is_named_too() {
    for (steps, path, message) in [
        (json!([{ "id": "a", "type": "elicitation" }]), "steps[0].message", "missing"),
        (
            json!([{ "id": "a", "type": "elicitation", "message": "?", "timeout": "soon" }]),
            "steps[0].timeout",
            "no duration",
        ),
        (
            json!([{ "id": "a", "type": "elicitation", "message": "?", "schema": { "type": "string" } }]),
            "steps[0].schema.type",
            "\"string\" is no type for a form",
        ),
        (
            json!([{ "id": "a", "type": "elicitation", "message": "?", "schema": nested(11) }]),
            "steps[0].schema",
            "deeper than 10 levels",
        ),
        (
            json!([{ "id": "a", "type": "forEach", "collection": "[]", "timeout": "0s", "step": { "tool": "x" } }]),
            "steps[0].timeout",
            "out of range",
        ),
        (
            json!([{ "id": "a", "type": "forEach", "collection": "[]", "itemVar": "index", "step": { "tool": "x" } }]),
            "steps[0].itemVar",
            "cannot name an item",
        ),
        (
            json!([{ "id": "a", "type": "forEach", "collection": "[]", "itemVar": "my-item", "step": { "tool": "x" } }]),
            "steps[0].itemVar",
            "cannot name an item",
        ),
        (
            json!([{ "id": "a", "type": "elicitation", "message": "?", "tool": "x" }]),
            "steps[0].tool",
            "only a step of type \"tool\"",
        ),
        (
            json!([{ "id": "a", "type": "forEach", "step": { "tool": "x" } }]),
            "steps[0].collection",
            "missing",
        ),
        (
            json!([{ "id": "a", "type": "forEach", "collection": "{{.params.l}}" }]),
            "steps[0].step",
            "missing",
        ),
        (
            json!([{ "id": "a", "type": "forEach", "collection": "[]", "maxIterations": 1_000_000, "step": { "tool": "x" } }]),
            "steps[0].maxIterations",
            "1000000 is out of range",
        ),
        (
            json!([{ "id": "a", "type": "forEach", "collection": json!(vec![0; 1_000_001]).to_string(), "step": { "tool": "x" } }]),
            "steps[0].collection",
            "1000001 items; `maxIterations` is 100",
        ),
        (
            json!([{ "id": "a", "type": "forEach", "collection": "{}", "step": { "tool": "x" } }]),
            "steps[0].collection",
            "not the JSON of a list",
        ),
        (json!([{ "id": "a", "tool": "composite.t" }]), "steps[0].tool", "is a composite tool itself"),
        (
            json!([{ "id": "a", "tool": "x", "condition": "{{define \"r\"}}{{template \"r\"}}{{end}}{{template \"r\"}}" }]),
            "steps[0].condition",
            "always calls itself",
        ),
        (
            json!([{ "id": "a", "type": "forEach", "collection": "[]", "maxParallel": 51, "step": { "tool": "x" } }]),
            "steps[0].maxParallel",
            "out of range",
        ),
        (
            json!([{ "id": "a", "type": "forEach", "collection": "[]", "step": { "type": "elicitation", "tool": "x" } }]),
            "steps[0].step.type",
            "only be given to a tool",
        ),
        (
            json!([{ "id": "a", "tool": "x", "condition": "{{.params.c}}" }, { "id": "b", "tool": "x", "arguments": { "v": "{{.steps.a.output.v}}" } }]),
            "steps[0].defaultResults",
            "may be skipped, and `b` reads",
        ),
        (
            json!([{ "id": "a", "tool": "x", "onError": { "action": "continue" } }, { "id": "b", "tool": "x", "arguments": { "v": "{{.steps.a.output.v}}" } }]),
            "steps[0].defaultResults",
            "may fail",
        ),
    ] {
        assert_mistake(&steps, path, message);
    }
}

fn assert_mistake(steps: &Value, path: &str, message: &str) {
    let text = mistakes(&with_steps(steps));
    let found = text
        .lines()
        .any(|line| line.starts_with(&format!("{path}: ")) && line.contains(message) && line.contains("; "));
    assert!(found, "{path} {message}: {text}");
}

/// Objects in one another.
fn nested(levels: usize) -> Value {
    (1..levels).fold(json!({}), |inner, _| json!({ "properties": inner }))
}

#[test]
fn a_form_of_ten_levels_is_taken() {
    let steps = json!([{ "id": "a", "type": "elicitation", "message": "?", "schema": nested(10) }]);
    assert!(read(&with_steps(&steps)).is_ok());
}

#[test]
fn arguments_of_another_type_than_an_object_are_a_mistake() {
    for (parameters, path, message) in [
        (json!({ "type": "string" }), "parameters.type", "\"string\" is no type for arguments"),
        (json!({ "type": ["object", "null"] }), "parameters.type", "is no type for arguments"),
        (json!({ "type": "object", "properties": ["q"] }), "parameters.properties", "not an object"),
        (json!({ "properties": { "q": "string" } }), "parameters.properties.q", "not a schema"),
    ] {
        let raw = json!({ "name": "t", "parameters": parameters, "steps": [{ "id": "a", "tool": "x" }] });
        let text = mistakes(&raw);
        assert!(text.starts_with(&format!("{path}: ")) && text.contains(message), "{path}: {text}");
    }
    let raw = json!({ "name": "t", "parameters": { "properties": { "q": true } }, "steps": [{ "id": "a", "tool": "x" }] });
    assert_eq!(read(&raw).unwrap().input_schema()["type"], "object");
}

#[test]
fn an_argument_with_a_default_may_be_left_out() {
    let properties = json!({ "q": { "type": "string" }, "n": { "type": "integer", "default": 3 } });
    let parameters = json!({ "type": "object", "properties": properties, "required": ["n", "q"] });
    let raw = json!({ "name": "t", "parameters": parameters, "steps": [{ "id": "a", "tool": "x" }] });
    let tool = read(&raw).unwrap();
    assert_eq!(tool.input_schema()["required"], json!(["q"]));
    assert_eq!(tool.input_schema()["properties"], properties);
}

#[test]
fn mistakes_of_a_result_are_named() {
    let with_output =
        |output: Value| json!({ "name": "t", "steps": [{ "id": "a", "tool": "x" }], "output": output });
    for (output, path) in [
        (json!({ "properties": {} }), "output.properties"),
        (json!({ "properties": { "a": { "value": "x" } } }), "output.properties.a.type"),
        (json!({ "properties": { "a": { "type": "string" } } }), "output.properties.a"),
        (json!({ "properties": { "a": { "type": "string", "value": "{{.steps.b.output}}" } } }), "output"),
        (json!({ "properties": { "a": { "type": "string", "value": "{{" } } }), "output.properties.a.value"),
        (
            json!({ "properties": { "a": { "type": "string", "value": "x" } }, "required": ["b"] }),
            "output.required[0]",
        ),
        (
            json!({ "properties": { "a": { "type": "object", "properties": { "b": { "type": "string" } } } } }),
            "output.properties.a.properties.b",
        ),
    ] {
        let text = mistakes(&with_output(output));
        assert!(text.lines().any(|line| line.starts_with(&format!("{path}: "))), "{path}: {text}");
    }
}

#[test]
fn defaults_of_parameters_are_applied() {
    let tool = read(&triage()).unwrap();
    assert_eq!(Value::Object(tool.with_defaults(Map::new())), json!({ "q": "bug" }));
    let given = Map::from_iter([("q".to_owned(), json!(null))]);
    assert_eq!(Value::Object(tool.with_defaults(given)), json!({ "q": null }));
    assert_eq!(tool.input_schema()["type"], "object");
}
