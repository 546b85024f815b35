//! Time of refusals: a hidden item and an unknown one take the same.

use std::time::Instant;

use serde_json::json;

use super::*;
use vmcp_engine::access::identity::{Identity, Principal};

/// Samples that an attacker averages for one guess.
const SAMPLES: usize = 20;
/// Guesses of each kind without `VMCP_TIMING_GUESSES`; the first half teaches the attacker, the second half
/// is guessed.
const GUESSES: usize = 2;
/// Guesses of each kind from which on the rate is more than chance.
const ENOUGH_GUESSES: usize = 60;
/// The highest rate of right guesses.
const MAX_RATE: f64 = 0.6;

/// Policies that hide everything of `one`, among many others.
fn policies() -> String {
    let other = |n: u32| {
        format!("    - 'permit(principal == Client::\"c{n}\", action, resource == Tool::\"t{n}\");'\n")
    };
    let others = (0..50).map(other).collect::<Vec<_>>().concat();
    format!(
        "incomingAuth:\n  authz:\n    policies:\n    - 'permit(principal, action, resource in Backend::\"two\");'\n{others}"
    )
}

fn bob() -> Caller {
    let identity = Identity::known("https://idp", "bob", serde_json::Map::new(), None);
    Caller { principal: Principal::from(identity), ..caller() }
}

async fn mean(engine: &Engine, way: &str, params: &Value) -> f64 {
    let mut all = Duration::ZERO;
    for _ in 0..SAMPLES {
        let begun = Instant::now();
        go_as(engine, bob(), way, params).await;
        all += begun.elapsed();
    }
    all.as_secs_f64() / SAMPLES as f64
}

/// The share of right guesses, from 0.5 (none but by chance) to 1.
async fn guess_rate(engine: &Engine, guesses: usize, way: &str, hidden: &Value, unknown: &Value) -> f64 {
    let mut means = Vec::new();
    for _ in 0..guesses {
        means.push([mean(engine, way, hidden).await, mean(engine, way, unknown).await]);
    }
    let (learned, tested) = means.split_at(guesses / 2);
    let average = |kind: usize| learned.iter().map(|pair| pair[kind]).sum::<f64>() / learned.len() as f64;
    let (of_hidden, of_unknown) = (average(0), average(1));
    let middle = f64::midpoint(of_hidden, of_unknown);
    let is_right = |kind: usize, took: f64| ((took > middle) == (of_hidden > of_unknown)) == (kind == 0);
    let right = tested.iter().flat_map(|pair| [is_right(0, pair[0]), is_right(1, pair[1])]);
    let rate = right.filter(|right| *right).count() as f64 / (2 * tested.len()) as f64;
    println!(
        "{way} {hidden}: guess rate {:.0} % with {SAMPLES} samples; hidden {:.1} µs, unknown {:.1} µs",
        rate * 100.0,
        of_hidden * 1e6,
        of_unknown * 1e6
    );
    rate
}

/// Prints the guess rates: `VMCP_TIMING_GUESSES=60 cargo test-one vmcp-route timing -- --nocapture`.
#[tokio::test]
async fn hidden_items_cannot_be_told_from_unknown_ones_by_time() {
    let Setup { engine, .. } = setup_with(Options::default(), &format!("{KEYWORDS}{}", policies())).await;
    let guesses = std::env::var("VMCP_TIMING_GUESSES").ok().and_then(|guesses| guesses.parse().ok());
    let guesses: usize = guesses.unwrap_or(GUESSES).max(GUESSES);
    let own = |tool: &str| json!({"name": "optim.call_tool", "arguments": {"tool_name": tool}});
    for (way, hidden, unknown) in [
        ("tools/call", json!({"name": "one_work"}), json!({"name": "one_none"})),
        ("tools/call", own("one_work"), own("one_none")),
        ("prompts/get", json!({"name": "one_ask"}), json!({"name": "one_none"})),
        ("resources/read", json!({"uri": "one://note"}), json!({"uri": "non://note"})),
    ] {
        let rate = guess_rate(&engine, guesses, way, &hidden, &unknown).await;
        assert!(guesses < ENOUGH_GUESSES || rate <= MAX_RATE, "{way} {hidden}: {rate}");
    }
}

#[tokio::test]
async fn refusals_of_hidden_and_unknown_items_end_at_the_same_time() {
    let Setup { engine, seen, .. } =
        setup_with(Options::default(), &format!("{KEYWORDS}{}", policies())).await;
    // The client has the extension of the hidden server alone.
    let extension = json!({"extensions": {"example.com/one": {}}});
    let capabilities = Some(Arc::from(to_raw_value(&extension).unwrap()));
    let client = ClientFacts { capabilities, ..ClientFacts::default() };
    for (way, name, words) in [
        ("tools/call", "one_work", "Unknown tool"),
        ("tools/call", "one_none", "Unknown tool"),
        ("one/search", "", "method not found"),
        ("none/search", "", "method not found"),
    ] {
        seen.take();
        let asking = Caller { client: client.clone(), ..bob() };
        let begun = Instant::now();
        let refused = go_as(&engine, asking, way, &json!({"name": name})).await;
        assert!(refused.contains(words), "{refused}");
        assert!(begun.elapsed() >= Duration::from_millis(5), "{way} {name}: {:?}", begun.elapsed());
    }
}

#[tokio::test]
async fn resources_that_an_own_tool_reads_are_refused_at_the_same_time() {
    let optimizer = "optimizer: { embeddings: { provider: none }, tools: [read_mcp_resource] }\n";
    let Setup { engine, .. } = setup_with(Options::default(), &format!("{optimizer}{}", policies())).await;
    for uri in ["one://note", "none://note"] {
        let params = json!({"name": "optim.read_mcp_resource", "arguments": {"resource_uri": uri}});
        let begun = Instant::now();
        let refused = go_as(&engine, bob(), "tools/call", &params).await;
        assert!(refused.contains("resource not found"), "{refused}");
        assert!(begun.elapsed() >= Duration::from_millis(5), "{uri}: {:?}", begun.elapsed());
    }
}
