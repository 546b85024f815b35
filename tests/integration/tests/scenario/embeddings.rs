//! Search with vectors: from a fake embedding service that fails on command, and from the real local model.
//!
//! Embedding happens in the background, each text once; a service that is slow, dead or wrong degrades search
//! to keywords and never stops it.

use futures::StreamExt as _;
use serde_json::{Value, json};
use vmcp_embed::testing::{FakeService, local_model};
use vmcp_integration::{Client, Fixture, HttpAnswer, Vmcp, VmcpBuilder, WAIT_TIMEOUT, eventually};

fn tei(service: &FakeService) -> Value {
    json!({"optimizer": {"embeddings": {"provider": "tei", "tei": {"endpoint": service.url(), "timeout": "2s"}}}})
}

async fn find(client: &Client, what: &str) -> HttpAnswer {
    client.find_tool(json!({"tool_description": what})).await
}

/// Waits until every tool has its vector and a search is no longer degraded; returns that search.
async fn search_with_vectors(client: &Client) -> HttpAnswer {
    eventually("a search with vectors", async || {
        let found = find(client, "who watches an issue").await;
        (found.structured()["search_mode"] == "hybrid"
            && found.structured().get("degraded").is_none_or(|d| d == false))
        .then_some(found)
    })
    .await
}

async fn start(service: &FakeService, backends: &[&Fixture]) -> (Vmcp, Client) {
    let vmcp =
        backends.iter().copied().fold(Vmcp::new(), VmcpBuilder::backend).config(tei(service)).start().await;
    let client = vmcp.with_tool("jira_create_note").await;
    (vmcp, client)
}

/// Returns the texts that were embedded, without the queries of these tests.
fn tool_texts(service: &FakeService) -> Vec<String> {
    let is_query = |text: &String| ["who watches an issue", "watchers of an issue"].contains(&text.as_str());
    service.inputs().into_iter().filter(|text| !is_query(text)).collect()
}

/// Waits until at least `count` texts of tools were embedded, of whichever backend. A search has vectors with
/// those of one backend already.
async fn await_tool_texts(service: &FakeService, count: usize) {
    let what = format!("{count} embedded texts of tools");
    eventually(&what, async || (tool_texts(service).len() >= count).then_some(())).await;
}

#[tokio::test]
async fn every_tool_is_embedded_once_whoever_asks_and_however_often() {
    let service = FakeService::start().await.expect("a port");
    let jira = Fixture::http("jira", "jira").start().await;
    let (vmcp, client) = start(&service, &[&jira]).await;
    futures::future::join_all(
        (0..10).map(|_| async { find(&vmcp.legacy().await, "who watches an issue").await }),
    )
    .await;
    let found = search_with_vectors(&client).await;
    assert_eq!(found.structured()["tools"][0]["name"], "jira_get_jira_issue_watchers", "{}", found.text);
    assert_eq!(tool_texts(&service).len(), 9, "{:?}", service.inputs());
}

/// Number of times that all tools were embedded after a start, as the histogram has it.
async fn cold_starts(vmcp: &Vmcp) -> u64 {
    vmcp.metric("vmcp_embedding_cold_start_seconds_count").await
}

#[tokio::test]
async fn a_process_without_its_cache_pays_one_cold_start_and_answers_all_the_while() {
    let service = FakeService::start().await.expect("a port");
    let jira = Fixture::http("jira", "jira").start().await;
    let (mut vmcp, client) = start(&service, &[&jira]).await;
    search_with_vectors(&client).await;
    vmcp.terminate().await;
    // As a pod that is deleted loses its emptyDir.
    std::fs::remove_dir_all(vmcp.storage()).expect("the cache");
    vmcp.start_again().await;
    vmcp.with_tool("jira_create_note").await;
    let first = vmcp.legacy().await;
    let found = find(&first, "watchers of an issue").await;
    assert_eq!(found.structured()["tools"][0]["name"], "jira_get_jira_issue_watchers", "{}", found.text);
    eventually("the cold start to be measured", async || (cold_starts(&vmcp).await == 1).then_some(())).await;
    let embedded = tool_texts(&service).len();
    assert_eq!(embedded, 18, "every tool once in each process");
    search_with_vectors(&vmcp.legacy().await).await;
    assert_eq!((cold_starts(&vmcp).await, tool_texts(&service).len()), (1, embedded));
}

#[tokio::test]
async fn a_session_over_three_backends_is_served_before_any_tool_is_embedded() {
    let service = FakeService::start().await.expect("a port");
    service.set(|fake| fake.delay = std::time::Duration::from_mins(1));
    let mut all = Vec::new();
    for name in ["one", "two", "three"] {
        all.push(Fixture::http(name, "jira").start().await);
    }
    let backends: Vec<&Fixture> = all.iter().collect();
    let vmcp =
        backends.iter().copied().fold(Vmcp::new(), VmcpBuilder::backend).config(tei(&service)).start().await;
    for name in ["one", "two", "three"] {
        vmcp.with_tool(&format!("{name}_create_note")).await;
    }
    eventually("the service to be asked", async || (service.requests() > 0).then_some(())).await;
    let session = vmcp.legacy().await;
    assert!(session.tools().await.contains_key("optim_find_tool"));
    let found = find(&session, "watchers of an issue").await;
    let best = found.structured()["tools"][0]["name"].as_str().expect("a hit").to_owned();
    assert!(best.ends_with("_get_jira_issue_watchers"), "{}", found.text);
    assert_eq!(found.structured()["search_mode"], "keyword", "{}", found.text);
    assert_eq!(vmcp.status().await["embeddings"]["embedded"], 0);
    // Once the service answers, this session has vectors too.
    service.set(|fake| fake.delay = std::time::Duration::ZERO);
    search_with_vectors(&session).await;
}

#[tokio::test]
async fn vectors_outlive_the_process_and_a_new_model_makes_them_anew() {
    let service = FakeService::start().await.expect("a port");
    let jira = Fixture::http("jira", "jira").start().await;
    let storage = tempfile::tempdir().expect("a folder");
    let settings = json!({"optimizer": {"storage": {"dir": storage.path()}}});
    let start =
        async || Vmcp::new().backend(&jira).config(tei(&service)).config(settings.clone()).start().await;
    for (round, expected) in [9, 9, 18].into_iter().enumerate() {
        if round == 2 {
            // The new vectors have another width: old ones are passed over, not compared.
            service.set(|fake| {
                fake.model = "other/model".to_owned();
                fake.dimensions = 64;
            });
        }
        let mut vmcp = start().await;
        let client = vmcp.with_tool("jira_create_note").await;
        search_with_vectors(&client).await;
        assert_eq!(tool_texts(&service).len(), expected, "round {round}");
        vmcp.terminate().await;
    }
}

#[tokio::test]
async fn a_dead_service_degrades_search_and_its_return_mends_it() {
    let mut service = FakeService::start().await.expect("a port");
    service.stop().await;
    let jira = Fixture::http("jira", "jira").start().await;
    let (vmcp, client) = start(&service, &[&jira]).await;
    let asked = std::time::Instant::now();
    let session = vmcp.legacy().await;
    // A handshake takes milliseconds; waiting for the service would take its timeouts and pauses.
    assert!(asked.elapsed() < std::time::Duration::from_secs(5), "{:?}", asked.elapsed());
    for client in [&client, &session] {
        let found = find(client, "watchers of an issue").await;
        assert_eq!(found.structured()["tools"][0]["name"], "jira_get_jira_issue_watchers", "{}", found.text);
        assert_eq!(found.structured()["search_mode"], "keyword", "{}", found.text);
        assert_eq!(found.structured()["degraded"], true, "{}", found.text);
    }
    service.restart().await.expect("the same port");
    search_with_vectors(&session).await;
    service.stop().await;
    let found = find(&session, "watchers of an issue").await;
    assert_eq!(found.structured()["degraded"], true, "{}", found.text);
    assert_eq!(found.structured()["tools"][0]["name"], "jira_get_jira_issue_watchers", "{}", found.text);
}

#[tokio::test]
async fn failures_and_lost_vectors_are_asked_for_again_and_never_stored() {
    let service = FakeService::start().await.expect("a port");
    service.set(|fake| {
        fake.failures = [429, 503, 500].into();
        fake.lose_a_vector = true;
    });
    let jira = Fixture::http("jira", "jira").start().await;
    let (_vmcp, client) = start(&service, &[&jira]).await;
    eventually("an answer without its last vector", async || (!service.batches().is_empty()).then_some(()))
        .await;
    let found = find(&client, "watchers of an issue").await;
    assert_eq!(found.structured()["search_mode"], "keyword", "{}", found.text);
    service.set(|fake| fake.lose_a_vector = false);
    search_with_vectors(&client).await;
    // Nothing of the short answer was stored: every text was sent again, those with a vector too.
    let texts = tool_texts(&service);
    for text in &texts {
        assert!(texts.iter().filter(|other| *other == text).count() >= 2, "{text} was sent once: {texts:?}");
    }
}

#[tokio::test]
async fn a_slow_service_costs_a_search_its_time_out_and_no_more() {
    let service = FakeService::start().await.expect("a port");
    let jira = Fixture::http("jira", "jira").start().await;
    let (_vmcp, client) = start(&service, &[&jira]).await;
    search_with_vectors(&client).await;
    service.set(|fake| fake.delay = std::time::Duration::from_mins(1));
    let start = std::time::Instant::now();
    let found = find(&client, "who watches it now").await;
    assert_eq!(found.structured()["search_mode"], "keyword", "{}", found.text);
    // Five times the timeout of 2 s, for a busy machine, and a sixth of the service's delay.
    assert!(start.elapsed() < std::time::Duration::from_secs(10), "{:?}", start.elapsed());
}

#[tokio::test]
async fn batches_are_as_large_as_the_service_allows() {
    let service = FakeService::start().await.expect("a port");
    let jira = Fixture::http("jira", "jira").start().await;
    let many = Fixture::http("many", "synthetic:61").start().await;
    let (_vmcp, client) = start(&service, &[&jira, &many]).await;
    await_tool_texts(&service, 70).await;
    search_with_vectors(&client).await;
    assert_eq!(tool_texts(&service).len(), 70);
    // The service allows 32: the largest batch is as large as that, with the canary.
    let batches = service.batches();
    assert_eq!(batches.iter().max(), Some(&31), "{batches:?}");
    // 61 texts that come together are two batches, the 9 of the other backend at most two, the query one.
    assert!(batches.len() <= 5, "{batches:?}");
}

#[tokio::test]
async fn one_changed_description_is_one_text_to_embed_and_one_announcement() {
    const LIST_CHANGED: &str = "notifications/tools/list_changed";
    let service = FakeService::start().await.expect("a port");
    let jira = Fixture::http("jira", "jira").start().await;
    let all = json!({"optimizer": {"exposure": "All"}});
    let vmcp = Vmcp::new().backend(&jira).config(tei(&service)).config(all).start().await;
    let client = vmcp.with_tool("jira_create_note").await;
    search_with_vectors(&client).await;
    await_tool_texts(&service, 9).await;
    let session = vmcp.legacy().await;
    let mut stream = session.listen().await.bytes_stream();
    let mut seen = String::new();
    let mut times = Vec::new();
    for number in 0..3 {
        let description = format!("Paint picture {number}");
        let changed = std::time::Instant::now();
        jira.control(json!({"do": "describe", "tool": "create_note", "description": &description})).await;
        let announced = tokio::time::timeout(WAIT_TIMEOUT, async {
            while seen.matches(LIST_CHANGED).count() <= number {
                let chunk = stream.next().await.expect("an open stream").expect("a chunk");
                seen.push_str(&String::from_utf8_lossy(&chunk));
            }
        });
        assert!(announced.await.is_ok(), "change {number} is announced: {seen}");
        await_tool_texts(&service, 10 + number).await;
        times.push(changed.elapsed());
        let listed = client.tools().await["jira_create_note"]["description"].clone();
        assert_eq!(listed, description, "what was announced is listed");
        let new = tool_texts(&service).split_off(9 + number);
        assert!(new.len() == 1 && new[0].contains(&description), "{new:?}");
    }
    assert_eq!(seen.matches(LIST_CHANGED).count(), 3, "once for each change: {seen}");
    // The quickest of three: a busy machine delays one, a longer debounce all of them.
    let quickest = times.iter().min().expect("three times");
    assert!(*quickest <= std::time::Duration::from_secs(2), "{times:?}");
}

#[tokio::test]
async fn nothing_but_clean_tool_texts_and_queries_leaves_the_process() {
    let service = FakeService::start().await.expect("a port");
    let jira = Fixture::http("jira", "jira").start().await;
    let nasty = Fixture::http("nasty", "nasty").start().await;
    let (_vmcp, client) = start(&service, &[&jira, &nasty]).await;
    client
        .call_found("jira_create_note", json!({"title": "secret title", "content": "secret text"}))
        .await
        .result();
    find(&client, &"x".repeat(2001)).await;
    search_with_vectors(&client).await;
    // `bidi` of `nasty` has a description with control characters, which is embedded without them.
    eventually("the texts of the nasty backend", async || {
        service.inputs().iter().any(|text| text.contains("Harmless")).then_some(())
    })
    .await;
    for text in service.inputs() {
        let bad = |c: char| {
            c.is_control() || ('\u{200b}'..='\u{200f}').contains(&c) || ('\u{202a}'..='\u{2069}').contains(&c)
        };
        // At most 8 KiB of a description, behind the names of its backend and its tool.
        assert!(
            !text.contains(bad) && text.len() <= 8192 + "nasty verbose: ".len(),
            "{}: {text:?}",
            text.len()
        );
        assert!(
            !text.contains("secret") && !text.contains("Login fails") && !text.contains("xxxx"),
            "{text}"
        );
    }
}

#[tokio::test]
async fn an_openai_service_with_a_key_from_the_environment_does_as_well() {
    let service = FakeService::start().await.expect("a port");
    service.set(|fake| fake.bearer = Some("s3cret-key".to_owned()));
    let jira = Fixture::http("jira", "jira").start().await;
    let openai =
        json!({"endpoint": format!("{}/v1", service.url()), "model": "small", "apiKey": "${EMBED_KEY}"});
    let embeddings = json!({"optimizer": {"embeddings": {"provider": "openai", "openai": openai}}});
    let vmcp = Vmcp::new().backend(&jira).config(embeddings).env("EMBED_KEY", "s3cret-key").start().await;
    let found = search_with_vectors(&vmcp.with_tool("jira_create_note").await).await;
    assert_eq!(found.structured()["tools"][0]["name"], "jira_get_jira_issue_watchers", "{}", found.text);
    assert_eq!(tool_texts(&service).len(), 9, "{:?}", service.inputs());
    assert!(!vmcp.process.output().contains("s3cret-key"), "a secret in the log");
}

#[tokio::test]
async fn the_local_model_finds_what_shares_no_word_with_the_question() {
    let model = local_model().await.expect("the model");
    let jira = Fixture::http("jira", "jira").start().await;
    let embeddings =
        json!({"optimizer": {"embeddings": {"provider": "local", "local": {"modelDir": model}}}});
    let vmcp = Vmcp::new().backend(&jira).config(embeddings).start().await;
    let client = vmcp.with_tool("jira_create_note").await;
    search_with_vectors(&client).await;
    for (question, expected) in [
        ("see who is following a ticket", "jira_get_jira_issue_watchers"),
        ("jot something down for later", "jira_create_note"),
        ("which scrum iteration is this planned for", "jira_get_jira_issue_sprints"),
    ] {
        let found = find(&client, question).await;
        assert_eq!(found.structured()["tools"][0]["name"], expected, "{question}: {}", found.text);
    }
}

#[tokio::test]
async fn without_the_local_model_keywords_answer_and_the_log_says_how_to_get_it() {
    let empty = tempfile::tempdir().expect("a folder");
    let jira = Fixture::http("jira", "jira").start().await;
    let local = json!({"provider": "local", "local": {"modelDir": empty.path()}});
    let vmcp = Vmcp::new().backend(&jira).config(json!({"optimizer": {"embeddings": local}})).start().await;
    let client = vmcp.with_tool("jira_create_note").await;
    let found = find(&client, "watchers of an issue").await;
    assert_eq!(found.structured()["tools"][0]["name"], "jira_get_jira_issue_watchers", "{}", found.text);
    assert_eq!(found.structured()["degraded"], true, "{}", found.text);
    vmcp.process.line_after("vmcp model pull").await;
}
