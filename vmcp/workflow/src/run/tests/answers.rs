//! Answers of users: answers that end a run early, and answers that do not fit their form.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_run_that_is_cut_short_has_the_results_so_far() {
    let property =
        |step: &str| json!({ "type": "string", "value": format!("{{{{.steps.{step}.output.got.t}}}}") });
    for (required, expected) in [
        (json!(["first"]), End::Complete(json!({ "first": "a" }))),
        (json!(["last"]), End::Failed("output.last: it is required and has no value".to_owned())),
    ] {
        let tool = tool(json!({
            "name": "t",
            "steps": [
                { "id": "first", "tool": "x", "arguments": { "t": "a" } },
                { "id": "ask", "type": "elicitation", "dependsOn": ["first"], "message": "Go on?",
                  "onCancel": { "action": "skip_remaining" } },
                { "id": "last", "tool": "x", "dependsOn": ["ask"], "arguments": { "t": "b" } },
            ],
            "output": {
                "properties": { "first": property("first"), "last": property("last") },
                "required": required,
            },
        }));
        let (_, state) = asked(start(&tool, &Lab::default(), json!({})).await);
        let elsewhere = Lab::default();
        let end = go_on(&tool, &elsewhere, &state, json!({ "ask": { "action": "cancel" } })).await;
        assert_eq!(end, expected);
        assert!(elsewhere.steps().is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_is_of_the_values_that_its_form_offers() {
    let tool = with_steps(json!([{
        "id": "ask", "type": "elicitation", "message": "Which?",
        "schema": { "properties": {
            "size": { "type": "string", "enum": ["s", "m"] },
            "count": { "type": "integer" },
            "color": { "type": "string", "oneOf": [{ "const": "red", "title": "Red" }] },
            "days": { "type": "array", "items": { "enum": ["mon", "tue"] } },
            "rooms": { "type": "array", "items": { "anyOf": [{ "const": "r1", "title": "Hall" }] } },
        } },
    }]));
    let (_, state) = asked(start(&tool, &Lab::default(), json!({})).await);
    for (content, error) in [
        (json!({ "size": "xl" }), Some("has a `size` that the form does not offer")),
        (json!({ "count": 1.5 }), Some("has a `count` of another type than integer")),
        (json!({ "color": "blue" }), Some("has a `color` that the form does not offer")),
        (json!({ "days": ["mon", "sun"] }), Some("has a `days` that the form does not offer")),
        (json!({ "rooms": ["r2"] }), Some("has a `rooms` that the form does not offer")),
        (json!({ "days": ["tue"], "rooms": ["r1"] }), None),
        (json!({ "size": "m", "count": 2, "color": "red", "more": [] }), None),
        (json!({ "size": null }), None),
    ] {
        let answer = json!({ "ask": { "action": "accept", "content": content } });
        let end = go_on(&tool, &Lab::default(), &state, answer).await;
        match error {
            Some(error) => assert!(failure(end).contains(error), "{error}"),
            None => assert!(matches!(end, End::Complete(_)), "{end:?}"),
        }
    }
}
