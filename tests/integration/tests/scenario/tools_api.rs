//! `GET /tools`: tools by topic over plain HTTP.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};

use reqwest::Method;
use serde_json::{Value, json};
use tokio::time::timeout;
use vmcp_integration::{Fixture, Vmcp, http_client};
use vmcp_tools_client::{DynamicToolClient, ToolOptions};

async fn jira(settings: Value) -> (Fixture, Vmcp) {
    let jira = Fixture::http("jira", "jira").start().await;
    let on = json!({"optimizer": {"discovery": {"enabled": true}}});
    let vmcp = Vmcp::new().backend(&jira).config(on).config(settings).start().await;
    vmcp.with_tool("jira_create_note").await;
    (jira, vmcp)
}

async fn get(vmcp: &Vmcp, path: &str) -> (u16, Value) {
    let url = vmcp.url.replace("/mcp", path);
    let answer = http_client().get(url).send().await.expect("an answer");
    (answer.status().as_u16(), answer.json().await.expect("JSON"))
}

fn names(answer: &Value) -> Vec<&str> {
    let tools = answer["tools"].as_array().expect("tools").iter();
    tools.map(|tool| tool["name"].as_str().expect("a name")).collect()
}

fn keys(object: &Value) -> Vec<&str> {
    let mut keys: Vec<_> = object.as_object().expect("an object").keys().map(String::as_str).collect();
    keys.sort_unstable();
    keys
}

/// Reads a time of ISO 8601.
fn moment(text: &Value) -> SystemTime {
    humantime::parse_rfc3339(text.as_str().expect("a text")).expect("a time")
}

#[tokio::test]
async fn the_ticket_servers_own_tags_count() {
    let (_jira, vmcp) = jira(json!({})).await;
    for (context, count) in [("jira", 8), ("notes", 1), ("writing", 1), ("documents", 2), ("billing", 0)] {
        let (status, answer) = get(&vmcp, &format!("/tools?context={context}")).await;
        assert_eq!((status, names(&answer).len()), (200, count), "{context}: {answer}");
    }
    let (_, notes) = get(&vmcp, "/tools?context=notes").await;
    assert_eq!(notes["tools"][0]["name"], "jira_create_note");
    assert_eq!(notes["tools"][0]["contexts"], json!(["notes", "writing", "document", "text"]));
    assert_eq!(notes["tools"][0]["categories"], json!(["creation", "notes"]));
}

#[tokio::test]
async fn tools_are_chosen_by_contexts_categories_and_messages() {
    let (_jira, vmcp) =
        jira(json!({"optimizer": {"discovery": {
            "contexts": {"billing": {"keywords": ["invoice"], "patterns": ["\\bR\\d{4}\\b"]}},
            "tags": {"jira_create_note": {"contexts": ["notes", "document", "billing"], "categories": ["creation"]}},
        }}}))
        .await;
    let tools = async |query: &str| {
        let (status, answer) = get(&vmcp, &format!("/tools?{query}")).await;
        assert_eq!(status, 200, "{query}: {answer}");
        answer
    };
    let mut ids = BTreeSet::new();
    for (context, count, reduction) in [
        ("jira", 8, 11),
        ("notes", 1, 89),
        ("agile", 1, 89),
        ("communication", 1, 89),
        ("search", 1, 89),
        ("documents", 2, 78),
        ("users", 1, 89),
        ("agile,notes", 2, 78),
        ("jira,%20notes", 9, 0),
    ] {
        let answer = tools(&format!("context={context}")).await;
        let metadata = &answer["metadata"];
        assert_eq!(names(&answer).len(), count, "{context}: {answer}");
        assert_eq!((&metadata["originalCount"], &metadata["returnedCount"]), (&json!(9), &json!(count)));
        assert_eq!((&metadata["reductionPercent"], &metadata["filtered"]), (&json!(reduction), &json!(true)));
        assert!(moment(&metadata["timestamp"]) <= SystemTime::now(), "{metadata}");
        let id = metadata["requestId"].as_str().expect("an id");
        assert_eq!(id.split('-').map(str::len).collect::<Vec<_>>(), [8, 4, 4, 4, 12], "a UUID: {id}");
        ids.insert(id.to_owned());
    }
    assert_eq!(ids.len(), 9, "each request has an id of its own");
    let agile = tools("context=agile").await;
    let sprint = &agile["tools"][0];
    assert_eq!(sprint["name"], "jira_get_jira_issue_sprints");
    assert_eq!(sprint["inputSchema"]["type"], "object", "the real schema: {sprint}");
    assert_eq!(sprint["contexts"], json!(["jira", "sprints", "agile", "scrum"]));
    assert_eq!(sprint["categories"], json!(["jira", "sprints", "agile"]));
    assert_eq!(agile["metadata"]["appliedContext"], "agile");

    let limited = tools("context=jira&limit=3").await;
    assert_eq!((names(&limited).len(), &limited["metadata"]["reductionPercent"]), (3, &json!(67)));
    assert_eq!(names(&tools("context=jira&category=search").await), ["jira_search_jira_issues"]);
    let billing = tools("message=my+invoices").await;
    assert_eq!(names(&billing), ["jira_create_note"]);
    assert_eq!(billing["tools"][0]["categories"], json!(["creation"]));
    assert_eq!(names(&tools("message=what+became+of+R2024").await), ["jira_create_note"], "by a pattern");
    for nothing in ["context=jira&category=finance", "context=email"] {
        let answer = tools(nothing).await;
        let metadata = &answer["metadata"];
        assert_eq!(
            (names(&answer).len(), &metadata["reason"]),
            (0, &json!("no_matching_tools")),
            "{nothing}"
        );
        assert_eq!((&metadata["filtered"], &metadata["reductionPercent"]), (&json!(true), &json!(100)));
        assert_eq!((&metadata["originalCount"], &metadata["returnedCount"]), (&json!(9), &json!(0)));
    }
    for unknown in ["", "message=hello+there"] {
        let answer = tools(unknown).await;
        let metadata = &answer["metadata"];
        assert_eq!((names(&answer).len(), &metadata["reason"]), (0, &json!("no_context_detected")));
        assert_eq!(
            (&metadata["filtered"], &metadata["originalCount"], &metadata["reductionPercent"]),
            (&json!(false), &json!(0), &json!(0))
        );
        assert_eq!(metadata["returnedCount"], 0);
    }
    let undetected = tools("").await;
    let exactly = "filtered originalCount reason reductionPercent requestId returnedCount timestamp";
    assert_eq!(keys(&undetected["metadata"]).join(" "), exactly);
    let message = "message=I+need+to+check+PROJ-123+ticket+comments";
    let answer = tools(message).await;
    assert_eq!(answer["metadata"]["detectedContexts"], json!(["jira", "communication"]), "{answer}");
    assert_eq!(names(&answer)[0], "jira_get_jira_issue_comments", "both contexts are the best fit");
    let (_, contexts) = get(&vmcp, &format!("/tools/contexts?{message}")).await;
    assert_eq!(contexts, json!({"contexts": ["jira", "communication"]}));
    let (_, contexts) = get(&vmcp, "/tools/contexts?message=my+invoices").await;
    assert_eq!(contexts, json!({"contexts": ["billing"]}));
    let (status, mistake) = get(&vmcp, "/tools?context=jira&limit=abc").await;
    assert_eq!((status, &mistake["error"]), (400, &json!("bad_request")));
    assert!(mistake["message"].as_str().is_some_and(|message| message.contains("limit")), "{mistake}");
}

#[tokio::test]
async fn answers_are_counted_against_the_whole_list() {
    let (_jira, vmcp) = jira(json!({})).await;
    let (_, answer) = get(&vmcp, "/tools?context=agile").await;
    assert_eq!(names(&answer).len(), 1);
    get(&vmcp, "/tools?context=email").await;
    let (_, figures) = get(&vmcp, "/tools/metrics").await;
    let (baseline, filtered) = (&figures["baseline"], &figures["filtered"]);
    assert_eq!((&baseline["requests"], &filtered["requests"]), (&json!(1), &json!(1)), "{figures}");
    let tokens = |of: &Value| of["totalTokens"].as_f64().expect("a number");
    let reduction = ((tokens(baseline) - tokens(filtered)) / tokens(baseline) * 100.0).round();
    assert_eq!(figures["reduction"], format!("{reduction}%"));
    assert_eq!(baseline["avgTokensPerRequest"], baseline["totalTokens"]);
    assert_eq!(keys(&figures), ["baseline", "filtered", "reduction"]);
    for (name, of) in [("baseline", baseline), ("filtered", filtered)] {
        assert_eq!(keys(of), ["avgTokensPerRequest", "requests", "since", "totalTokens"]);
        assert!(of["avgTokensPerRequest"].is_u64(), "{of}");
        for (field, counter) in [("requests", "requests"), ("totalTokens", "tokens")] {
            let counted = vmcp.metric(&format!("vmcp_tools_{name}_{counter}_total")).await;
            assert_eq!(Some(counted), of[field].as_u64(), "{name} {field}");
        }
    }
    let since = moment(&baseline["since"]);
    assert!(since <= SystemTime::now() && since == moment(&filtered["since"]), "{figures}");
    assert_eq!(vmcp.metric(r#"vmcp_tools_contexts_total{context="agile"}"#).await, 1);

    let reset = vmcp.url.replace("/mcp", "/tools/metrics/reset");
    let refused = http_client().get(&reset).send().await.expect("an answer");
    assert_eq!(refused.status(), 405);
    let answer: Value =
        http_client().post(&reset).send().await.expect("an answer").json().await.expect("JSON");
    assert_eq!(answer, json!({"message": "Metrics reset successfully"}));
    let (_, figures) = get(&vmcp, "/tools/metrics").await;
    assert_eq!((&figures["baseline"]["requests"], &figures["reduction"]), (&json!(0), &json!("0%")));
    assert!(moment(&figures["baseline"]["since"]) > since, "the count begins with the reset: {figures}");
}

#[tokio::test]
async fn the_command_line_tells_the_contexts_of_a_message() {
    let (_jira, vmcp) = jira(json!({})).await;
    let message = "I need to check PROJ-123 ticket comments";
    let told = vmcp.cli(&["tools", "contexts", message, "--output", "json"]).await;
    assert!(told.success, "{told:?}");
    let (_, served) = get(&vmcp, "/tools/contexts?message=I+need+to+check+PROJ-123+ticket+comments").await;
    assert_eq!(served, json!({"contexts": ["jira", "communication"]}));
    assert_eq!(serde_json::from_str::<Value>(&told.stdout).expect("JSON"), served);
    let words = vmcp.cli(&["tools", "contexts", message]).await;
    assert!(
        words.success && words.stdout.contains("jira") && words.stdout.contains("communication"),
        "{words:?}"
    );
}

#[tokio::test]
async fn filtering_and_the_whole_api_can_be_switched_off_and_profiles_narrow_it() {
    let frontend = json!({"optimizer": {"discovery": {"contextFiltering": false}}, "profiles": {"frontend": {"tools": ["*_create_note"]}}});
    let (_jira, mut vmcp) = jira(frontend).await;
    let (_, all) = get(&vmcp, "/tools?context=agile").await;
    let metadata = &all["metadata"];
    assert_eq!((names(&all).len(), &metadata["filtered"]), (9, &json!(false)), "{metadata}");
    assert_eq!(
        (&metadata["reason"], &metadata["reductionPercent"]),
        (&json!("context_filtering_disabled"), &json!(0))
    );
    let (_, narrowed) = get(&vmcp, "/tools?context=agile&userId=frontend").await;
    assert_eq!(names(&narrowed), ["jira_create_note"]);
    let (status, refused) = get(&vmcp, "/tools?context=agile&userId=somebody").await;
    assert_eq!((status, &refused["error"]), (403, &json!("forbidden")));

    vmcp.reconfigure(json!({"optimizer": {"discovery": {"enabled": false}}}));
    vmcp_integration::eventually("the API to be off", async || {
        let answer = http_client().get(vmcp.url.replace("/mcp", "/tools")).send().await;
        (answer.expect("an answer").status() == 404).then_some(())
    })
    .await;
}

#[tokio::test]
async fn only_whole_lists_may_count_as_baseline() {
    let (_jira, vmcp) = jira(json!({"optimizer": {"discovery": {"metricsMode": "Observed"}}})).await;
    get(&vmcp, "/tools?context=agile").await;
    let (_, figures) = get(&vmcp, "/tools/metrics").await;
    assert_eq!(figures["filtered"]["requests"], 1, "{figures}");
    assert_eq!((&figures["baseline"]["requests"], &figures["reduction"]), (&json!(0), &json!("0%")));
}

#[tokio::test]
async fn operators_see_and_reset_the_figures_and_clients_with_an_identity_do_not() {
    let keys = json!({"incomingAuth": {"type": "apiKeys", "apiKeys": [{"subject": "alice", "key": "alice-0123456789abcdef"}]}});
    let (_jira, vmcp) = jira(keys).await;
    let send = async |method: Method, path: &str| {
        let request = http_client().request(method, vmcp.url.replace("/mcp", path));
        request.bearer_auth("alice-0123456789abcdef").send().await.expect("an answer")
    };
    let listed = send(Method::GET, "/tools?context=agile").await;
    assert_eq!(names(&listed.json().await.expect("JSON")).len(), 1);
    let shown = async || {
        let shown = vmcp.cli(&["tools", "metrics", "--output", "json"]).await;
        assert!(shown.success, "{shown:?}");
        serde_json::from_str::<Value>(&shown.stdout).expect("JSON")
    };
    let (figures, of_client) = (shown().await, send(Method::GET, "/tools/metrics").await);
    assert_eq!(figures["filtered"]["requests"], 1, "{figures}");
    assert_eq!(of_client.json::<Value>().await.expect("JSON"), figures);

    let refused = send(Method::POST, "/tools/metrics/reset").await;
    assert_eq!(refused.status(), 403);
    let words = refused.text().await.expect("a body");
    assert!(words.contains("vmcp tools metrics --reset"), "{words}");
    assert_eq!(shown().await["filtered"]["requests"], 1);
    let reset = vmcp.cli(&["tools", "metrics", "--reset"]).await;
    assert!(reset.success, "{reset:?}");
    let figures = shown().await;
    assert_eq!((&figures["filtered"]["requests"], &figures["baseline"]["requests"]), (&json!(0), &json!(0)));
}

#[tokio::test]
async fn a_client_that_called_a_tool_forgets_its_answers_when_the_list_changes() {
    let (_jira, mut vmcp) = jira(json!({})).await;
    let client = DynamicToolClient::new(&vmcp.url.replace("/mcp", "")).expect("a client");
    let options = ToolOptions { contexts: vec!["jira".to_owned()], ..ToolOptions::default() };
    assert_eq!(client.get_tools(&options).await.expect("tools").tools.len(), 8);
    let arguments = json!({"issueKey": "PROJ-123"}).as_object().cloned().expect("an object");
    let called = client.call_tool("jira_get_jira_issue", arguments).await.expect("an answer");
    assert_ne!(called.is_error, Some(true), "{called:?}");

    let only = json!({"aggregation": {"tools": [{"workload": "jira", "filter": ["get_jira_issue"]}]}});
    vmcp.reconfigure(only);
    // Half of the minute for which an answer is kept.
    let limit = Duration::from_secs(30);
    let forgotten = async {
        while client.get_tools(&options).await.expect("tools").tools.len() != 1 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(limit, forgotten).await.expect("the answer to be forgotten");
    client.close().await;
}
