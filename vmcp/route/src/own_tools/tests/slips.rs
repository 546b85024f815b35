//! Tests of slips in the queries of find_tool.

use serde_json::{Value, json};

use crate::testing::{KEYWORDS, Scripted, backends, call, engine};

#[tokio::test]
async fn a_slip_is_corrected_and_the_answer_says_so() {
    let names = ["create_invoice", "list_invoices", "send_reminder"];
    let server = Scripted::start(&names.map(|name| (name, "", json!({})))).await;
    let engine = engine(&backends(&[("s", &server.url)], KEYWORDS)).await;
    for (query, keywords, first, corrected) in [
        ("send a remindr", "", "send_reminder", json!("send a reminder")),
        ("please creat", "inovice", "create_invoice", json!("creat invoice")),
        ("sendreminder", "", "send_reminder", Value::Null),
        ("create an invoice", "", "create_invoice", Value::Null),
    ] {
        let asked = json!({"tool_description": query, "tool_keywords": keywords});
        let found = call(&engine, "optim.find_tool", asked).await.unwrap();
        let found = &found["structuredContent"];
        let name = found["tools"][0]["name"].as_str().unwrap();
        assert!(name.ends_with(first), "{query}: {found}");
        assert_eq!(found.get("corrected_query").cloned().unwrap_or_default(), corrected, "{query}");
    }
}
