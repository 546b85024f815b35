//! Matrix of identities, ways and items under Cedar policies.

use std::collections::BTreeSet;

use serde_json::json;
use vmcp_config::OptimTool;
use vmcp_wire::lists::pages::List;

use super::*;
use vmcp_engine::access::identity::{Identity, Principal};
use vmcp_engine::optim::names::NameStyle;

/// Alice may do everything, Bob what the backend `two` has, and Carol one tool, by its arguments.
const POLICIES: &str = r#"
incomingAuth:
  authz:
    policies:
    - '@id("all") permit(principal == Client::"alice", action, resource);'
    - '@id("two") permit(principal in THVGroup::"second", action, resource in Backend::"two");'
    - |
      @id("small") permit(principal == Client::"carol", action == Action::"call_tool", resource == Tool::"two_work")
      when { context.arg_n.lessThan(decimal("3.0")) };
    - '@id("no-search") forbid(principal == Client::"dave", action, resource == Tool::"optim_find_tool");'
    - '@id("no-calls") forbid(principal == Client::"dave", action, resource == Tool::"call_tool");'
    - 'permit(principal == Client::"dave", action, resource);'
"#;

fn identity(name: &str) -> Identity {
    let claims = json!({"groups": if name == "bob" { vec!["second"] } else { vec![] }});
    let Value::Object(claims) = claims else { unreachable!() };
    if name == "anonymous" { Identity::Anonymous } else { Identity::known("https://idp", name, claims, None) }
}

fn caller_named(name: &str) -> Caller {
    Caller { principal: Principal::from(identity(name)), ..caller() }
}

async fn restricted() -> Setup {
    setup_with(Options::default(), &format!("{KEYWORDS}{POLICIES}")).await
}

/// The names in a list of an identity.
fn listed(engine: &Engine, name: &str, list: List) -> Vec<String> {
    let view = engine.snapshot().view(&Principal::from(identity(name)));
    view.list(list, NameStyle::Dotted).entries().iter().map(|entry| entry.key.clone()).collect()
}

/// An answer without the names of the view that are like the wanted one: they differ with the wanted name.
fn without_suggestion(answer: &str) -> String {
    answer.replace("; did you mean two_work?", "").replace("; find_tool searches all tools", "")
}

#[tokio::test]
async fn no_identity_reaches_by_any_way_what_policies_do_not_permit() {
    let Setup { engine, backends, seen } = restricted().await;
    for (way, params, known, unknown) in ways() {
        let before = backends[0].methods().len();
        let allowed = go_as(&engine, caller_named("alice"), way, &params).await;
        let counted = ["subscriptions/listen", "renewed subscription"].contains(&way) && allowed != "unknown";
        assert!(backends[0].methods().len() > before || counted, "{way} {params}: {allowed}");
        let reached = backends[0].methods();
        for name in ["bob", "carol", "mallory", "anonymous"] {
            seen.take();
            let refused = go_as(&engine, caller_named(name), way, &params).await;
            let refused = without_suggestion(&refused).replace(known, "X");
            let outcome = seen.take().pop().map(|record| record.outcome);
            // A task of a hidden backend is looked for at the others.
            let elsewhere = ["tasks/", "subscriptions/listen", "one/"].iter().any(|it| way.starts_with(it));
            assert!(elsewhere || outcome == Some(Outcome::Denied), "{name} {way} {params}: {outcome:?}");
            if way != "renewed subscription" {
                let (way, params) = renamed(way, &params, known, unknown);
                let missing = go_as(&engine, caller_named(name), &way, &params).await;
                let missing = without_suggestion(&missing).replace(unknown, "X");
                assert_eq!(refused, missing, "{name} {way}: denied and unknown read the same");
            }
        }
        assert_eq!(backends[0].methods(), reached, "{way}: the backend hears nothing");
    }
}

#[tokio::test]
async fn a_profile_gives_nothing_that_policies_do_not_permit() {
    let profiles = "profiles: { first: { servers: [one] }, second: { servers: [two] } }\n";
    let Setup { engine, backends, .. } =
        setup_with(Options::default(), &format!("{KEYWORDS}{profiles}{POLICIES}")).await;
    let within = |name: &str, profile: &str| {
        let principal = Principal { profile: Some(profile.into()), ..identity(name).into() };
        Caller { principal, ..caller() }
    };
    for (way, params, ..) in ways() {
        let reached = backends[0].methods();
        for (name, profile) in
            [("bob", "first"), ("bob", "second"), ("anonymous", "first"), ("alice", "second")]
        {
            let refused = go_as(&engine, within(name, profile), way, &params).await;
            assert_eq!(backends[0].methods(), reached, "{name} in {profile} {way}: {refused}");
        }
        let allowed = go_as(&engine, within("alice", "first"), way, &params).await;
        let counted = ["subscriptions/listen", "renewed subscription"].contains(&way) && allowed != "unknown";
        assert!(backends[0].methods().len() > reached.len() || counted, "{way}: {allowed}");
    }
}

#[tokio::test]
async fn lists_and_searches_show_what_may_be_called() {
    let Setup { engine, .. } = restricted().await;
    let of = |name| listed(&engine, name, List::Tools);
    assert_eq!(of("alice"), ["one_work", "optim.call_tool", "optim.find_tool", "two_work"]);
    assert_eq!(of("bob"), ["optim.call_tool", "optim.find_tool", "two_work"]);
    assert_eq!(of("carol"), of("bob"));
    assert_eq!(of("mallory"), ["optim.call_tool", "optim.find_tool"]);
    assert_eq!(of("dave"), ["one_work", "two_work"]);
    for list in [List::Prompts, List::Resources, List::ResourceTemplates] {
        assert!(listed(&engine, "alice", list).iter().any(|key| key.starts_with("one")), "{list:?}");
        let bobs = listed(&engine, "bob", list);
        assert!(!bobs.is_empty() && bobs.iter().all(|key| key.starts_with("two")), "{list:?} {bobs:?}");
        assert!(listed(&engine, "carol", list).is_empty(), "{list:?}");
    }
    let find = json!({"name": "optim_find_tool", "arguments": {"tool_description": "work"}});
    let found = async |name| go_as(&engine, caller_named(name), "tools/call", &find).await;
    assert!(found("alice").await.contains("one_work"));
    let bobs = found("bob").await;
    assert!(bobs.contains("two_work") && !bobs.contains("one"), "{bobs}");
    assert!(!found("mallory").await.contains("_work"));
    let snapshot = engine.snapshot();
    let view = |name| snapshot.view(&identity(name).into());
    let baseline = |name| view(name).baseline_tokens;
    assert!(baseline("bob") > 0 && baseline("bob") < baseline("alice"), "savings count the caller's tools");
    assert!(bobs.contains(&format!("\"baseline_tokens\":{}", baseline("bob"))), "{bobs}");
    assert_eq!(baseline("mallory"), 0);
    assert!(Arc::ptr_eq(&view("carol"), &view("carol")), "a view is made once");
    assert!(Arc::ptr_eq(&view("eve"), &view("mallory")), "shared");
}

#[tokio::test]
async fn no_own_tool_shows_what_policies_do_not_permit() {
    let tools = OptimTool::ALL.map(OptimTool::bare).join(", ");
    let all = format!(
        "optimizer: {{ embeddings: {{ provider: none }}, tools: [{tools}], \
         largeResults: {{ enabled: true }} }}\naggregation: {{ aliases: {{ alias_of_one: one_work }} }}"
    );
    let Setup { engine, backends, .. } = setup_with(Options::default(), &format!("{all}{POLICIES}")).await;
    let call = async |name: &str, tool: &str, arguments: &Value| {
        let params = json!({"name": format!("optim.{tool}"), "arguments": arguments});
        go_as(&engine, caller_named(name), "tools/call", &params).await
    };
    let mut asked = BTreeSet::new();
    // The tool has metrics by then.
    let kept = call("alice", "call_tool", &json!({"tool_name": "one_work", "store_result": true})).await;
    let kept = kept.split("res_").nth(1).and_then(|rest| rest.get(..22)).expect("a reference");
    let before = backends[0].methods();
    for (tool, arguments) in [
        ("find_tool", json!({"tool_description": "work"})),
        ("list_tools", json!({})),
        ("list_mcp_servers", json!({})),
        ("search_tools", json!({"query": "work"})),
        ("recommend_tools", json!({"task_description": "work"})),
        ("search_available_tools", json!({"query": "work"})),
        ("set_context", json!({"query": "work"})),
        ("get_tool_alternatives", json!({"tool_name": "two_work"})),
        ("get_tool_metrics", json!({})),
    ] {
        asked.insert(tool);
        for name in ["bob", "mallory", "anonymous"] {
            let answer = call(name, tool, &arguments).await;
            let shown = ["one_work", "\"one\"", "\\\"one\\\""].iter().any(|it| answer.contains(it));
            assert!(!shown, "{name} {tool}: {answer}");
        }
    }
    for (tool, key, known, unknown) in [
        ("get_tool_schema", "tool_name", "one_work", "one_none"),
        ("get_tool_schema", "tool_name", "alias_of_one", "alias_of_nil"),
        ("get_tool_alternatives", "tool_name", "one_work", "one_none"),
        ("get_tool_metrics", "tool_name", "one_work", "one_none"),
        ("call_tool", "tool_name", "one_work", "one_none"),
        ("read_mcp_resource", "resource_uri", "one://note", "none://note"),
    ] {
        asked.insert(tool);
        for name in ["bob", "mallory", "anonymous"] {
            let denied = call(name, tool, &json!({key: known})).await;
            let missing = call(name, tool, &json!({key: unknown})).await;
            let (denied, missing) = (without_suggestion(&denied), without_suggestion(&missing));
            assert_eq!(denied.replace(known, "X"), missing.replace(unknown, "X"), "{name} {tool}");
        }
    }
    for (tool, more) in [
        ("read_result", json!({})),
        ("search_result", json!({"intent": "work"})),
        ("process_large_dataset", json!({"operation": "count"})),
    ] {
        asked.insert(tool);
        for name in ["bob", "mallory", "anonymous"] {
            let mut answers = Vec::new();
            for id in [kept, &"A".repeat(22)] {
                let mut arguments = more.clone();
                arguments["result_ref"] = json!(format!("res_{id}"));
                answers.push(call(name, tool, &arguments).await);
            }
            assert_eq!(answers[0], answers[1], "{name} {tool}");
        }
    }
    assert_eq!(backends[0].methods(), before, "the backend hears nothing");
    let read = call("alice", "read_mcp_resource", &json!({"resource_uri": "one://note"})).await;
    assert!(backends[0].methods().len() > before.len(), "{read}");
    // Tools for operators' clients act on state that all clients share.
    for tool in ["reset_tool_metrics", "refresh_tools", "regenerate_embeddings"] {
        asked.insert(tool);
        let answer = call("bob", tool, &json!({})).await;
        assert!(!answer.contains("one"), "{tool}: {answer}");
    }
    // A client without the action `admin` hears of no such tool, whatever it names.
    for tool in [
        "add_mcp_server",
        "remove_mcp_server",
        "enable_mcp_server",
        "disable_mcp_server",
        "search_registry",
        "install_server",
    ] {
        asked.insert(tool);
        let unknown = call("bob", "no_such_tool", &json!({})).await;
        for server in ["one", "three"] {
            let answer = call("bob", tool, &json!({"name": server})).await;
            assert_eq!(answer.replace(tool, "no_such_tool"), unknown, "{server}");
        }
    }
    // A hook tells of sessions of the caller alone.
    asked.insert("call_hook");
    let hook = call("bob", "call_hook", &json!({"hook_type": "SessionStart"})).await;
    assert!(hook.contains("session-start") && !hook.contains("one"), "{hook}");
    // Calls of scripts are in the tests of execute_code.
    asked.extend(["execute_code", "execute_tool_script"]);
    let all: BTreeSet<&str> = OptimTool::ALL.into_iter().map(OptimTool::bare).collect();
    assert_eq!(asked, all, "a new own tool has its line above");
}

#[tokio::test]
async fn an_alias_of_a_denied_tool_reads_as_unknown_and_is_recorded_as_denied() {
    let aliases = "aggregation: { aliases: { alias_of_one: one_work } }\n";
    let settings = format!("{KEYWORDS}{aliases}{POLICIES}");
    let Setup { engine, seen, backends } = setup_with(Options::default(), &settings).await;
    let call = async |name: &str, tool: &str| {
        let params = json!({"name": "optim.call_tool", "arguments": {"tool_name": tool}});
        go_as(&engine, caller_named(name), "tools/call", &params).await
    };
    for name in ["bob", "mallory", "anonymous"] {
        seen.take();
        let denied = without_suggestion(&call(name, "alias_of_one").await).replace("alias_of_one", "X");
        assert_eq!(seen.take().pop().map(|record| record.outcome), Some(Outcome::Denied), "{name}");
        let missing = without_suggestion(&call(name, "alias_of_nil").await).replace("alias_of_nil", "X");
        assert_eq!(denied, missing, "{name}");
    }
    let before = backends[0].methods().len();
    call("alice", "alias_of_one").await;
    assert!(backends[0].methods().len() > before);
}

#[tokio::test]
async fn policies_judge_arguments_and_own_tools_in_every_spelling() {
    let Setup { engine, seen, backends } = restricted().await;
    let call =
        async |name: &str, params: Value| go_as(&engine, caller_named(name), "tools/call", &params).await;
    let small = call("carol", json!({"name": "two_work", "arguments": {"n": 2}})).await;
    assert!(small.starts_with("result"), "{small}");
    let allowed = seen.take().pop().unwrap();
    assert_eq!(allowed.policy, Some(PolicyId::new("small")));
    let large = json!({"n": 4});
    let direct = call("carol", json!({"name": "two_work", "arguments": large})).await;
    let unknown = call("carol", json!({"name": "two_none", "arguments": large})).await;
    assert_eq!(direct.replace("two_work", "two_none"), unknown);
    let inner = json!({"tool_name": "two_work", "parameters": large});
    // The name of the tool may stand inside of the parameters, too.
    for inner in [inner, json!({"parameters": {"tool_name": "two_work", "n": 4}})] {
        let nested = call("carol", json!({"name": "optim.call_tool", "arguments": inner})).await;
        assert!(nested.contains("NotFound"), "{nested}");
        assert_eq!(seen.take().pop().unwrap().outcome, Outcome::Denied, "{inner}");
    }
    assert_eq!(backends[1].methods().len(), 1);
    for spelling in
        ["optim.find_tool", "optim_find_tool", "find_tool", "optim.call_tool", "optim_call_tool", "call_tool"]
    {
        let arguments = json!({"tool_description": "work", "tool_name": "two_work"});
        let refused = call("dave", json!({"name": spelling, "arguments": arguments})).await;
        assert!(refused.contains(&format!("Unknown tool: {spelling}")), "{refused}");
        let denied = seen.take().pop().unwrap();
        assert_eq!((denied.outcome, denied.requests), (Outcome::Denied, 0), "{spelling}");
    }
    let work = call("dave", json!({"name": "two_work", "arguments": {}})).await;
    assert!(work.starts_with("result"), "{work}");
}

#[tokio::test]
async fn policies_change_without_a_restart() {
    let Setup { engine, backends: servers, .. } = restricted().await;
    let mut generations = engine.generations();
    generations.borrow_and_update();
    let own = listed(&engine, "mallory", List::Tools);
    assert!(!own.is_empty() && own.iter().all(|name| name.starts_with("optim")), "{own:?}");
    let opened = format!(
        "{KEYWORDS}incomingAuth: {{ authz: {{ policies: ['permit(principal, action, resource);'] }} }}\n"
    );
    let yaml = backends(&[("one", &servers[0].url), ("two", &servers[1].url)], &opened);
    engine.apply(crate::testing::config(&yaml)).await;
    assert!(generations.has_changed().unwrap(), "clients are told to list again");
    assert!(listed(&engine, "mallory", List::Tools).contains(&"one_work".to_owned()));
    let before = engine.snapshot();
    engine.apply(crate::testing::config(&yaml)).await;
    assert!(Arc::ptr_eq(&before.policy, &engine.snapshot().policy), "an equal policy stays");
}
