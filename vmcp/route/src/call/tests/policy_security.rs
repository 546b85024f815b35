//! Arguments that a policy reads must be of the types of the tool's schema, by every way to the tool. Values
//! of completions are arguments, too. Keys count in every letter case.

use serde_json::json;

use super::*;

const POLICIES: &str = r#"
incomingAuth:
  authz:
    policies:
    - 'permit(principal, action, resource);'
    - |
      forbid(principal, action, resource == Tool::"one_pay")
      when { context has arg_amount && context.arg_amount == decimal("5000.0") };
"#;

#[tokio::test]
async fn a_direct_call_fits_the_schema_where_a_policy_reads_arguments() {
    let properties = json!({"amount": {"type": "number"}});
    let tools = ["pay", "note"].map(|tool| (tool, "Pays.", properties.clone()));
    let backend = Scripted::start(&tools).await;
    let seen = Arc::<SeenCalls>::default();
    let options = Options { observers: vec![Arc::clone(&seen) as _], ..Options::default() };
    let yaml = backends(&[("one", &backend.url)], &format!("{KEYWORDS}{POLICIES}"));
    let (engine, name) = (engine_with(&yaml, options).await, "one_pay");
    let reached = backend.methods().len();
    for amount in [json!("5000"), json!([5000]), json!({"v": 5000}), json!(null), json!(true)] {
        let direct = json!({"name": name, "arguments": {"amount": amount}});
        let refused = go(&engine, "tools/call", &direct).await;
        assert!(!refused.starts_with("result"), "{amount}: {refused}");
        let within = json!({"tool_name": name, "parameters": {"amount": amount}});
        go(&engine, "tools/call", &json!({"name": "optim.call_tool", "arguments": within})).await;
    }
    let missing = go(&engine, "tools/call", &json!({"name": name})).await;
    assert!(missing.contains("schema"), "the tool is known, and its schema is told: {missing}");
    assert_eq!(backend.methods().len(), reached, "the backend hears nothing");
    assert!(seen.take().iter().all(|record| record.requests == 0), "no call went out");
    let good = go(&engine, "tools/call", &json!({"name": name, "arguments": {"amount": 5}})).await;
    assert!(good.starts_with("result"), "{good}");
    let unread = go(&engine, "tools/call", &json!({"name": "one_note", "arguments": {"amount": "5"}})).await;
    assert!(unread.starts_with("result"), "no policy reads arguments of this tool: {unread}");
}

const ABOUT_COMPLETIONS: &str = r#"
incomingAuth:
  authz:
    policies:
    - 'permit(principal, action, resource);'
    - |
      forbid(principal, action == Action::"get_prompt", resource)
      when { context has arg_repo && context.arg_repo == "secret" };
    - |
      forbid(principal, action == Action::"read_resource", resource)
      when { resource.uri like "one://private*" };
"#;

#[tokio::test]
async fn values_of_a_completion_are_judged_as_arguments_and_in_the_uri() {
    let settings = format!("{KEYWORDS}{ABOUT_COMPLETIONS}");
    let Setup { engine, backends, seen } = setup_with(Options::default(), &settings).await;
    let prompt = json!({"type": "ref/prompt", "name": "one_ask"});
    let template = json!({"type": "ref/resource", "uri": "one://{id}"});
    let ask = async |reference: &Value, name: &str, value: &str, given: Value| {
        let argument = json!({"name": name, "value": value});
        let params = json!({"ref": reference, "argument": argument, "context": {"arguments": given}});
        go(&engine, "completion/complete", &params).await
    };
    let reached = backends[0].methods().len();
    for (reference, name, value, given, error) in [
        (&prompt, "branch", "", json!({"repo": "secret"}), "Unknown prompt"),
        (&prompt, "repo", "secret", json!({}), "Unknown prompt"),
        (&template, "id", "private/plans", json!({}), "Resource not found"),
        (&template, "part", "", json!({"id": "private"}), "Resource not found"),
        // The context has another value for the argument itself, which a backend may read.
        (&prompt, "repo", "", json!({"repo": "secret"}), "Unknown prompt"),
        (&template, "id", "", json!({"id": "private"}), "Resource not found"),
        (&template, "id", &*"x".repeat(9000), json!({}), "more than 8192 bytes"),
        (&prompt, "branch", "", json!({"repo": 5}), "must hold texts"),
    ] {
        let refused = ask(reference, name, value, given.clone()).await;
        assert!(refused.starts_with("error") && refused.contains(error), "{name} {given}: {refused}");
    }
    for argument in [json!({"name": "repo", "value": ["secret"]}), json!({"name": "repo"})] {
        let refused = go(&engine, "completion/complete", &json!({"ref": prompt, "argument": argument})).await;
        assert!(refused.starts_with("error") && refused.contains("must have the texts"), "{refused}");
    }
    assert_eq!(backends[0].methods().len(), reached, "the backend hears nothing");
    let denials: Vec<_> = seen.take().into_iter().map(|record| (record.outcome, record.policy)).collect();
    let by = |policy: &str| (Outcome::Denied, Some(PolicyId::new(policy)));
    let (prompts, templates) = (by("policy1"), by("policy2"));
    assert_eq!(
        denials,
        [&prompts, &prompts, &templates, &templates, &prompts, &templates].map(Clone::clone),
        "each denial names its policy"
    );
    for (reference, name, value, given) in [
        (&prompt, "branch", "secret", json!({"repo": "open"})),
        (&prompt, "repo", "sec", Value::Null),
        (&prompt, "repo", "open", json!({"repo": "other"})),
        (&template, "id", "public", json!({})),
    ] {
        let completed = ask(reference, name, value, given.clone()).await;
        assert!(completed.starts_with("result"), "{name} {given}: {completed}");
    }
}

#[tokio::test]
async fn a_hidden_uri_is_hidden_from_extensions_in_every_letter_case() {
    let permit =
        |action: &str| format!("    - 'permit(principal, action == Action::\"{action}\", resource);'\n");
    let permits = ["call_tool", "use_backend"].map(permit).concat();
    let settings = format!("{KEYWORDS}incomingAuth:\n  authz:\n    policies:\n{permits}");
    let Setup { engine, backends, .. } = setup_with(Options::default(), &settings).await;
    let reached = backends[0].methods().len();
    for key in ["uri", "Uri", "URI"] {
        let refused = go(&engine, "one/search", &json!({ (key): "one://note" })).await;
        assert!(refused.contains("method not found"), "{key}: {refused}");
    }
    assert_eq!(backends[0].methods().len(), reached, "the backend hears nothing");
    let open = go(&engine, "one/search", &json!({"Uri": "unlisted://note"})).await;
    assert!(open.starts_with("result"), "{open}");
}
