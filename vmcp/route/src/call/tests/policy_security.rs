//! Arguments that a policy reads must be of the types of the tool's schema, by every way to the tool.

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
