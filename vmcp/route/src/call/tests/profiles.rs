//! Matrix of ways and items under a profile.

use serde_json::json;
use vmcp_wire::lists::pages::List;

use super::*;
use vmcp_engine::access::identity::Principal;
use vmcp_engine::optim::names::NameStyle;

/// One profile with the second backend, one with a tool of each, one with what only reads, and one that shows
/// its tools.
const PROFILES: &str = "
profiles:
  second: { servers: [two], exposure: MetaOnly }
  few: { tools: ['two_w*', one_none] }
  reading: { readOnly: true }
  shown: { servers: [two], exposure: All }
";

fn of_profile(name: &str) -> Principal {
    Principal { profile: Some(name.into()), ..Principal::default() }
}

fn caller_of(profile: &str) -> Caller {
    Caller { principal: of_profile(profile), ..caller() }
}

async fn with_profiles() -> Setup {
    setup_with(Options::default(), &format!("{KEYWORDS}{PROFILES}")).await
}

#[tokio::test]
async fn no_way_leads_out_of_a_profile() {
    let Setup { engine, backends, seen } = with_profiles().await;
    for (way, params, ..) in ways() {
        let reached = backends[0].methods();
        for profile in ["second", "removed"] {
            seen.take();
            let refused = go_as(&engine, caller_of(profile), way, &params).await;
            assert_eq!(
                backends[0].methods(),
                reached,
                "{profile} {way}: the backend hears nothing: {refused}"
            );
        }
        let allowed = go_as(&engine, caller(), way, &params).await;
        let counted = ["subscriptions/listen", "renewed subscription"].contains(&way) && allowed != "unknown";
        assert!(backends[0].methods().len() > reached.len() || counted, "{way}: others reach it: {allowed}");
    }
}

#[tokio::test]
async fn a_profile_lists_and_finds_its_part() {
    let Setup { engine, .. } = with_profiles().await;
    let listed = |profile: &str, list| {
        let view = engine.snapshot().view(&of_profile(profile));
        let keys = view.list(list, NameStyle::Dotted).entries().iter().map(|entry| entry.key.clone());
        keys.collect::<Vec<_>>()
    };
    let find = json!({"name": "optim_find_tool", "arguments": {"tool_description": "work"}});
    for (profile, tools) in [
        ("second", vec!["two_work"]),
        ("few", vec!["two_work"]),
        ("reading", vec![]),
        ("shown", vec!["two_work"]),
        ("removed", vec![]),
    ] {
        let view = engine.snapshot().view(&of_profile(profile));
        assert_eq!(view.tools().map(|tool| &*tool.name).collect::<Vec<_>>(), tools, "{profile}");
        let found = go_as(&engine, caller_of(profile), "tools/call", &find).await;
        assert_eq!(found.contains("two_work"), !tools.is_empty(), "{profile}: {found}");
        assert!(!found.contains("one_work"), "{profile}: {found}");
    }
    assert_eq!(listed("second", List::Tools), ["optim.call_tool", "optim.find_tool"]);
    assert_eq!(listed("shown", List::Tools), ["optim.call_tool", "optim.find_tool", "two_work"]);
    for list in [List::Prompts, List::Resources, List::ResourceTemplates] {
        let keys = listed("second", list);
        assert!(!keys.is_empty() && keys.iter().all(|key| key.starts_with("two")), "{list:?} {keys:?}");
        assert!(listed("few", list).len() > keys.len(), "patterns are about tools: {list:?}");
    }
    let whole = engine.snapshot().view(&Principal::default());
    assert!(
        Arc::ptr_eq(&whole, engine.snapshot().whole_view()),
        "clients without a profile share the public lists"
    );
}
