//! Cost of policies for a search, in questions put to them: none about the tools, whatever their number.
//! `make bench` measures the time of find_tool under policies beside that without.

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;

use super::*;
use vmcp_engine::access::identity::Principal;
use vmcp_engine::access::policy::{Item, ListedRights};

/// Allows everything, and counts the questions.
#[derive(Debug, Default)]
struct CountedPolicy {
    /// Questions about calls.
    decided: AtomicUsize,
    /// Questions about entries of lists.
    listed: AtomicUsize,
}

impl CountedPolicy {
    /// Takes out both counts: questions about calls, and about entries of lists.
    fn take(&self) -> (usize, usize) {
        (self.decided.swap(0, Ordering::SeqCst), self.listed.swap(0, Ordering::SeqCst))
    }
}

impl Policy for CountedPolicy {
    fn decide(&self, _: &AccessRequest<'_>) -> Decision {
        self.decided.fetch_add(1, Ordering::SeqCst);
        Decision::Allow { policy: PolicyId::new("counted") }
    }

    fn restricts_some(&self) -> bool {
        true
    }

    fn listed_rights<'a>(&'a self, _: &Principal) -> Box<dyn ListedRights + 'a> {
        Box::new(CountedRights(&self.listed))
    }
}

struct CountedRights<'a>(&'a AtomicUsize);

impl ListedRights for CountedRights<'_> {
    fn could_allow(&self, _: Item<'_>, _: &str) -> bool {
        self.0.fetch_add(1, Ordering::SeqCst);
        true
    }
}

#[tokio::test]
async fn a_search_asks_the_policy_once_however_many_tools_there_are() {
    const SEARCHES: usize = 20;
    let find = json!({"name": "optim_find_tool", "arguments": {"tool_description": "number 42 of many"}});
    for count in [60, 600] {
        let names: Vec<String> = (0..count).map(|number| format!("tool{number}")).collect();
        let tools: Vec<_> =
            names.iter().map(|name| (name.as_str(), "One of many, with a number.", json!({}))).collect();
        let server = Scripted::start(&tools).await;
        let policy = Arc::<CountedPolicy>::default();
        let options = Options { policy: Some(Arc::clone(&policy) as _), ..Options::default() };
        let engine = engine_with(&backends(&[("big", &server.url)], KEYWORDS), options).await;
        let found = go(&engine, "tools/call", &find).await;
        assert!(found.contains("big_tool"), "{found}");
        // The client's view is made once: a question about each tool, and some about vmcp's own.
        let (_, listed) = policy.take();
        assert!((count..count + 20).contains(&listed), "{listed} questions about {count} tools");
        for _ in 0..SEARCHES {
            go(&engine, "tools/call", &find).await;
        }
        assert_eq!(policy.take(), (SEARCHES, 0), "{count} tools");
    }
}
