//! Tests of the engine with real connections: which snapshots are published, when, and what survives a
//! restart.

use std::time::{Duration, Instant};

use serde_json::json;
use tokio::net::TcpListener;
use vmcp_config::status::EmbeddingState;
use vmcp_embed::testing::FakeService;
use vmcp_store::DefinitionKind;

use vmcp_wire::lists::pages::List;

use std::sync::Arc;

use crate::testing::{KEYWORDS, Scripted, backends, call, config, engine, eventually};
use vmcp_backend::BackendState;
use vmcp_engine::access::identity::Principal;
use vmcp_engine::engine::{Engine, Options, Storage};
use vmcp_engine::optim::names::NameStyle;

fn listed(engine: &Engine) -> Vec<String> {
    let snapshot = engine.snapshot();
    let view = snapshot.view(&Principal::default());
    view.list(List::Tools, NameStyle::Dotted).entries().iter().map(|entry| entry.key.clone()).collect()
}

async fn two_tools() -> Scripted {
    Scripted::start(&[("alpha", "First thing.", json!({})), ("beta", "Second thing.", json!({}))]).await
}

fn with_tei(service: &FakeService) -> String {
    format!("optimizer: {{ embeddings: {{ provider: tei, tei: {{ endpoint: '{}' }} }} }}\n", service.url())
}

#[tokio::test]
async fn lists_are_sorted_and_hold_our_tools() {
    let (one, two) = (two_tools().await, two_tools().await);
    let engine = engine(&backends(&[("b", &two.url), ("a", &one.url)], KEYWORDS)).await;
    assert_eq!(
        listed(&engine),
        ["a_alpha", "a_beta", "b_alpha", "b_beta", "optim.call_tool", "optim.find_tool"]
    );
}

#[tokio::test]
async fn above_the_budget_only_our_tools_and_the_pinned_are_listed() {
    let server = two_tools().await;
    let auto = "optimizer: { autoTokenBudget: 100, pinnedTools: [s_beta], embeddings: { provider: none } }\n";
    let engine = engine(&backends(&[("s", &server.url)], auto)).await;
    assert_eq!(listed(&engine), ["optim.call_tool", "optim.find_tool", "s_beta"]);
    assert_eq!(engine.snapshot().view(&Principal::default()).visible_tools, 2);
    call(&engine, "s_alpha", json!({})).await.expect("what is not listed can still be called");
    let off = backends(&[("s", &server.url)], "optimizer: { enabled: false }\n");
    engine.apply(config(&off)).await;
    assert_eq!(listed(&engine), ["s_alpha", "s_beta"]);
    assert_eq!(call(&engine, "optim.find_tool", json!({})).await.unwrap_err()["code"], -32602);
}

#[tokio::test]
async fn without_the_optimizer_no_service_is_asked_and_nothing_is_stored() {
    let (server, service) = (two_tools().await, FakeService::start().await.unwrap());
    let folder = tempfile::tempdir().unwrap();
    let off = with_tei(&service).replace("optimizer: {", "optimizer: { enabled: false,");
    for (optimizer, is_on) in [(off, false), (with_tei(&service), true)] {
        let options = Options { storage: Storage::Dir(folder.path().to_owned()), ..Options::default() };
        let yaml = backends(&[("s", &server.url)], &optimizer);
        let engine = Engine::start(config(&yaml), options).await.unwrap();
        engine.settled().await;
        let tools = if is_on { 4 } else { 2 };
        eventually("the tools are listed", || listed(&engine).len() == tools).await;
        call(&engine, "s_alpha", json!({})).await.unwrap();
        if is_on {
            // A control: with the optimizer, service and folder are used.
            eventually("both tools are embedded", || engine.embedding_status().embedded == 2).await;
        }
        engine.shutdown(Duration::ZERO).await;
        drop(engine);
        let files = std::fs::read_dir(folder.path()).unwrap().count();
        assert_eq!((service.requests() > 0, files > 0), (is_on, is_on), "{files} files");
    }
}

#[tokio::test]
async fn searches_leave_nothing_in_the_database_of_embeddings() {
    let (server, service) = (two_tools().await, FakeService::start().await.unwrap());
    let folder = tempfile::tempdir().unwrap();
    let options = Options { storage: Storage::Dir(folder.path().to_owned()), ..Options::default() };
    let yaml = backends(&[("s", &server.url)], &with_tei(&service));
    let engine = Engine::start(config(&yaml), options).await.unwrap();
    eventually("both tools are embedded", || engine.embedding_status().embedded == 2).await;
    let query = |number: usize| format!("thing number {number} that nobody else asks for");
    for number in 0..20 {
        let found = json!({"tool_description": query(number)});
        let found = call(&engine, "optim.find_tool", found).await.unwrap();
        assert_eq!(found["structuredContent"]["search_mode"], "hybrid", "{found}");
    }
    call(&engine, "s_alpha", json!({"secret": "an argument"})).await.unwrap();
    engine.shutdown(Duration::ZERO).await;
    drop(engine);
    // Two texts of tools and twenty queries went to the service, and nothing of the call.
    let sent = service.inputs();
    let (queries, tools): (Vec<_>, Vec<_>) = sent.iter().partition(|text| text.contains("nobody else"));
    assert_eq!((queries.len(), tools.len()), (20, 2), "{sent:?}");
    for file in std::fs::read_dir(folder.path()).unwrap().map(Result::unwrap) {
        // The log beside a database goes with its last connection.
        let bytes = std::fs::read(file.path()).unwrap_or_default();
        let text = bytes.windows(11).any(|window| window == b"nobody else");
        assert!(!text, "the text of a query in {:?}", file.file_name());
    }
    // Everything about the one backend goes, and a row of anything else would be counted behind it.
    let store = vmcp_store::Store::open(folder.path()).unwrap();
    assert_eq!(store.forget_backends(&["s"]).unwrap(), 2, "a vector for each tool");
    assert_eq!(store.retain_backends(&[], i64::MAX).unwrap(), 0, "and for nothing else");
}

#[tokio::test]
async fn a_hung_and_a_dead_backend_delay_nobody() {
    let quick = two_tools().await;
    // Accepts connections and never answers.
    let hung = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let hung = (format!("http://{}/mcp", hung.local_addr().unwrap()), hung);
    let yaml =
        backends(&[("quick", &quick.url), ("hung", &hung.0), ("dead", "http://127.0.0.1:1/mcp")], KEYWORDS);
    let started = Instant::now();
    let options = Options { storage: Storage::Memory, ..Options::default() };
    let engine = Engine::start(config(&yaml), options).await.unwrap();
    eventually("the quick backend is listed", || listed(&engine).len() == 4).await;
    // Half of the time that a connection may take.
    assert!(started.elapsed() < Duration::from_secs(15), "{:?}", started.elapsed());
    call(&engine, "quick_alpha", json!({})).await.unwrap();
    let states: Vec<_> = engine.backend_status().into_iter().map(|status| status.name).collect();
    assert_eq!(states, ["dead", "hung", "quick"]);
}

#[tokio::test]
async fn a_changed_definition_is_an_event_and_one_embedding() {
    let (server, service) = (two_tools().await, FakeService::start().await.unwrap());
    let engine = engine(&backends(&[("s", &server.url)], &with_tei(&service))).await;
    let ready = || {
        engine.embedding_status().state == EmbeddingState::Ready && engine.embedding_status().embedded == 2
    };
    eventually("both tools are embedded", ready).await;
    assert_eq!(service.inputs().len(), 2);
    let found = call(&engine, "find_tool", json!({"tool_description": "first thing"})).await.unwrap();
    assert_eq!(found["structuredContent"]["search_mode"], "hybrid");
    assert!(found["structuredContent"].get("degraded").is_none());
    eventually("the first listing is recorded", || engine.changes().contains_key("s")).await;

    let before = *engine.generations().borrow();
    let embedded = service.inputs().len();
    server.set("alpha", "Another thing altogether.", &json!({}));
    engine.refresh(Some("s"));
    eventually("the change is recorded", || engine.changes()["s"].updated == 1).await;
    eventually("the new text is embedded", || service.inputs().len() > embedded && ready()).await;
    assert_eq!(service.inputs().len(), embedded + 1);
    let after = *engine.generations().borrow();
    assert!(after.tools > before.tools && after.prompts == before.prompts, "{before:?} {after:?}");
    let changes = engine.store().changes(10).unwrap();
    assert_eq!((changes.len(), changes[0].definition.1.as_str()), (1, "alpha"));

    server.remove("beta");
    engine.refresh(None);
    eventually("the removal is recorded", || engine.changes()["s"].removed == 1).await;
    assert!(!listed(&engine).contains(&"s_beta".to_owned()));
}

#[tokio::test]
async fn a_cache_that_cannot_be_used_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, "").unwrap();
    for (storage, lacks) in [(Storage::Dir(file), true), (Storage::Dir(dir.path().join("new")), false)] {
        let engine =
            Engine::start(config(KEYWORDS), Options { storage, ..Options::default() }).await.unwrap();
        assert_eq!(engine.lacks_cache(), lacks);
    }
}

#[tokio::test]
async fn metrics_tell_which_backends_are_up() {
    let server = two_tools().await;
    let yaml = backends(&[("s", &server.url), ("dead", "http://127.0.0.1:1/mcp")], KEYWORDS);
    let options = Options { storage: Storage::Memory, ..Options::default() };
    let engine = Engine::start(config(&yaml), options).await.unwrap();
    eventually("one is up", || engine.render_metrics().contains(r#"vmcp_backend_up{backend="s"} 1"#)).await;
    assert!(engine.render_metrics().contains(r#"vmcp_backend_up{backend="dead"} 0"#));
    engine.apply(config(KEYWORDS)).await;
    assert!(!engine.render_metrics().contains("vmcp_backend_up{"));
}

#[tokio::test]
async fn embeddings_and_definitions_survive_a_restart() {
    let (server, service) = (two_tools().await, FakeService::start().await.unwrap());
    let dir = tempfile::tempdir().unwrap();
    let yaml = backends(&[("s", &server.url)], &with_tei(&service));
    let options = || Options { storage: Storage::Dir(dir.path().to_owned()), ..Options::default() };
    let ready = |engine: &Engine| engine.embedding_status().embedded == 2;

    let first = Engine::start(config(&yaml), options()).await.unwrap();
    eventually("the first run embeds", || ready(&first) && first.changes().contains_key("s")).await;
    first.shutdown(Duration::from_secs(5)).await;
    let inputs = service.inputs().len();

    let second = Engine::start(config(&yaml), options()).await.unwrap();
    assert_eq!(listed(&second).len(), 4, "the saved definitions are there at once");
    eventually("the second run reads the cache", || ready(&second)).await;
    assert_eq!(service.inputs().len(), inputs);
    let states: Vec<_> = second.backend_status().into_iter().map(|status| status.state).collect();
    assert_eq!(states, [BackendState::Configured], "nothing connects before the first use");
    call(&second, "s_alpha", json!({})).await.unwrap();
}

#[tokio::test]
async fn a_removed_backend_is_forgotten_and_a_disabled_one_is_not() {
    let server = two_tools().await;
    let dir = tempfile::tempdir().unwrap();
    let options = Options { storage: Storage::Dir(dir.path().to_owned()), ..Options::default() };
    let both = [("kept", server.url.as_str()), ("gone", server.url.as_str())];
    let engine = Engine::start(config(&backends(&both, KEYWORDS)), options).await.unwrap();
    let known = |backend: &str| !engine.store().schema_hashes(backend).unwrap().is_empty();
    eventually("both are recorded", || known("kept") && known("gone")).await;

    let disabled = format!("backends: [{{ name: kept, url: '{}', enabled: false }}]\n{KEYWORDS}", server.url);
    engine.apply(config(&disabled)).await;
    eventually("the removed backend is forgotten", || !known("gone")).await;
    let saved = both.map(|(name, url)| {
        let spec = config(&backends(&[(name, url)], KEYWORDS)).backends[0].clone();
        engine.store().definitions(name, &spec.fingerprint()).unwrap().is_some()
    });
    assert!(known("kept") && saved == [true, false], "{saved:?}");
    assert!(!engine.changes().contains_key("gone"));
}

#[tokio::test]
async fn a_start_forgets_what_no_process_has_used_for_a_month() {
    let server = two_tools().await;
    let dir = tempfile::tempdir().unwrap();
    let store = vmcp_store::Store::open(dir.path()).unwrap();
    let now = vmcp_engine::random::milliseconds(std::time::SystemTime::now());
    for (backend, at) in [("s", 1), ("long-unused", 1), ("of-another-process", now)] {
        store.set_schema_hashes(backend, [(DefinitionKind::Tool, "t", "1")], at).unwrap();
    }
    let known = |backend: &str| !store.schema_hashes(backend).unwrap().is_empty();
    let start = async |yaml: &str| {
        let options = Options { storage: Storage::Dir(dir.path().to_owned()), ..Options::default() };
        Engine::start(config(yaml), options).await.unwrap()
    };
    let empty = start(KEYWORDS).await;
    empty.shutdown(Duration::from_secs(5)).await;
    assert!(known("long-unused"), "a configuration without backends is no reason to forget any");
    let _engine = start(&backends(&[("s", &server.url)], KEYWORDS)).await;
    eventually("the unused backend is forgotten", || !known("long-unused")).await;
    assert!(known("s") && known("of-another-process"));
}

#[tokio::test]
async fn searches_degrade_while_the_provider_is_down_and_recover() {
    let (server, mut service) = (two_tools().await, FakeService::start().await.unwrap());
    service.stop().await;
    let engine = engine(&backends(&[("s", &server.url)], &with_tei(&service))).await;
    let degraded = || matches!(engine.embedding_status().state, EmbeddingState::Degraded);
    eventually("the outage is noticed", degraded).await;
    let search = || call(&engine, "find_tool", json!({"tool_description": "second thing"}));
    let found = search().await.unwrap();
    let found = &found["structuredContent"];
    assert_eq!((&found["search_mode"], &found["degraded"]), (&json!("keyword"), &json!(true)));
    assert_eq!(found["tools"][0]["name"], "s_beta");
    service.restart().await.unwrap();
    eventually("the tools are embedded", || engine.embedding_status().state == EmbeddingState::Ready).await;
    assert_eq!(search().await.unwrap()["structuredContent"]["search_mode"], "hybrid");
    let asked = r#"vmcp_embedding_duration_seconds_count{kind="query"} 1"#;
    let metrics = engine.render_metrics();
    assert!(metrics.lines().any(|line| line == asked), "only the search that reached it counts:\n{metrics}");

    // An outage that a query meets first; the vectors of earlier queries are cached.
    service.stop().await;
    assert_eq!(search().await.unwrap()["structuredContent"]["search_mode"], "hybrid");
    let search = || call(&engine, "find_tool", json!({"tool_description": "first thing"}));
    let found = search().await.unwrap();
    assert_eq!(found["structuredContent"]["degraded"], true, "{found}");
    assert!(degraded());
    service.restart().await.unwrap();
    eventually("the provider is found again", || !degraded()).await;
    assert!(search().await.unwrap()["structuredContent"].get("degraded").is_none());
}

#[tokio::test]
async fn tools_with_the_same_text_all_have_their_vector() {
    let twins = [("list-files", "Lists files.", json!({})), ("list_files", "Lists files.", json!({}))];
    let (server, service) = (Scripted::start(&twins).await, FakeService::start().await.unwrap());
    let engine = engine(&backends(&[("s", &server.url)], &with_tei(&service))).await;
    eventually("both are embedded", || engine.embedding_status().embedded == 2).await;
    let found = call(&engine, "find_tool", json!({"tool_description": "lists files"})).await.unwrap();
    assert!(found["structuredContent"].get("degraded").is_none(), "{found}");
}

#[tokio::test]
async fn on_unavailable_fail_fails() {
    let (server, mut service) = (two_tools().await, FakeService::start().await.unwrap());
    service.stop().await;
    let yaml = with_tei(&service).replace("provider: tei", "onUnavailable: fail, provider: tei");
    let engine = engine(&backends(&[("s", &server.url)], &yaml)).await;
    let found = call(&engine, "find_tool", json!({"tool_description": "thing"})).await.unwrap();
    assert_eq!(found["isError"], true);
}

#[tokio::test]
async fn a_swapped_model_embeds_everything_anew() {
    let (server, service) = (two_tools().await, FakeService::start().await.unwrap());
    let yaml = backends(&[("s", &server.url)], &with_tei(&service));
    let engine = engine(&yaml).await;
    eventually("embedded", || engine.embedding_status().embedded == 2).await;
    let model = engine.embedding_status().model;
    let other = FakeService::start().await.unwrap();
    other.set(|behavior| {
        behavior.model = "other/model".into();
        behavior.dimensions = 64;
    });
    engine.apply(config(&backends(&[("s", &server.url)], &with_tei(&other)))).await;
    eventually("embedded anew", || engine.embedding_status().embedded == 2 && other.inputs().len() == 2)
        .await;
    assert_ne!(engine.embedding_status().model, model);
    assert_eq!(engine.snapshot().index.vectors().dims(), 64);
}

#[tokio::test]
async fn a_missing_local_model_says_how_to_get_it() {
    let server = two_tools().await;
    let dir = tempfile::tempdir().unwrap();
    let local =
        format!("optimizer: {{ embeddings: {{ local: {{ modelDir: '{}' }} }} }}\n", dir.path().display());
    let engine = engine(&backends(&[("s", &server.url)], &local)).await;
    eventually("the model is missed", || engine.embedding_status().hint.is_some()).await;
    let status = engine.embedding_status();
    assert!(status.hint.unwrap().contains("vmcp model pull"));
    assert_eq!((&*status.provider, status.wanted, status.embedded), ("local", 2, 0));
}

#[tokio::test]
async fn a_reload_leaves_alone_what_did_not_change() {
    let (kept, gone, new) = (two_tools().await, two_tools().await, two_tools().await);
    let engine = engine(&backends(&[("kept", &kept.url), ("gone", &gone.url)], KEYWORDS)).await;
    let connected = |name: &str| {
        engine
            .backend_status()
            .into_iter()
            .find(|status| status.name == name)
            .and_then(|status| status.connected_at)
    };
    let since = connected("kept");
    let slow = {
        let engine = engine.clone();
        gone.set("slow", "Takes its time.", &json!({}));
        engine.refresh(Some("gone"));
        eventually("slow is listed", || listed(&engine).contains(&"gone_slow".to_owned())).await;
        tokio::spawn(async move {
            call(&engine, "optim.call_tool", json!({"tool_name": "gone_slow", "timeout": 2})).await
        })
    };
    eventually("the call is under way", || gone.calls().len() == 1).await;

    let applied = engine.apply(config(&backends(&[("kept", &kept.url), ("new", &new.url)], KEYWORDS))).await;
    let names = |names: &[Arc<str>]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(
        (names(&applied.added), names(&applied.removed)),
        (vec!["new".to_owned()], vec!["gone".to_owned()])
    );
    assert_eq!((applied.unchanged, applied.changed.len()), (1, 0));
    assert!(!listed(&engine).contains(&"gone_alpha".to_owned()));
    engine.settled().await;
    assert!(listed(&engine).contains(&"new_alpha".to_owned()));
    assert_eq!(connected("kept"), since, "it was not reconnected");
    let ended = slow.await.unwrap().unwrap();
    assert!(ended.to_string().contains("timed out"), "the call ran to its own end: {ended}");
}

#[tokio::test]
async fn a_compiled_schema_outlives_a_rebuild_that_does_not_concern_it() {
    let server = two_tools().await;
    let engine = engine(&backends(&[("s", &server.url)], KEYWORDS)).await;
    let check = |name: &str| {
        let snapshot = engine.snapshot();
        let tool = snapshot.whole_view().tool(name).unwrap();
        snapshot.check(tool)
    };
    let (alpha, beta) = (check("s_alpha"), check("s_beta"));
    server.set("alpha", "Changed.", &json!({}));
    server.set("aardvark", "Shifts every position.", &json!({}));
    engine.refresh(None);
    eventually("the change is published", || listed(&engine).contains(&"s_aardvark".to_owned())).await;
    assert!(check("s_beta").is(&beta) && !check("s_alpha").is(&alpha));
}

#[tokio::test]
async fn an_unwritable_folder_is_no_reason_not_to_start() {
    let server = two_tools().await;
    let file = tempfile::NamedTempFile::new().unwrap();
    let options = Options { storage: Storage::Dir(file.path().join("below-a-file")), ..Options::default() };
    let engine = Engine::start(config(&backends(&[("s", &server.url)], KEYWORDS)), options).await.unwrap();
    engine.settled().await;
    assert_eq!(listed(&engine).len(), 4);
}

#[tokio::test]
async fn another_time_limit_of_calls_restarts_no_backend() {
    let server = two_tools().await;
    let yaml = |timeout| {
        format!("backends: [{{ name: s, url: '{}', timeout: {timeout}s }}]\n{KEYWORDS}", server.url)
    };
    let engine = engine(&yaml(30)).await;
    let connected_at = || engine.backend_status().remove(0).connected_at;
    let before = connected_at();
    let applied = engine.apply(config(&yaml(40))).await;
    assert_eq!((applied.changed.len(), applied.unchanged), (0, 1));
    assert_eq!(connected_at(), before);
    assert_eq!(engine.snapshot().tool_timeout("s"), Duration::from_secs(40));
}

#[tokio::test]
async fn the_first_lists_wait_for_backends_that_start_and_for_no_hung_one() {
    let server = two_tools().await;
    let start = async |yaml: &str| {
        let options = Options { storage: Storage::Memory, ..Options::default() };
        Engine::start(config(yaml), options).await.unwrap()
    };
    let engine = start(&backends(&[("s", &server.url)], KEYWORDS)).await;
    assert!(engine.wait_for_first_listings().await);
    assert!(listed(&engine).contains(&"s_alpha".to_owned()));
    assert!(!engine.wait_for_first_listings().await, "only a fresh start waits");

    let hung = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", hung.local_addr().unwrap());
    let engine =
        start(&backends(&[("hung", &url)], &format!("proxy: {{ firstListWait: 100ms }}\n{KEYWORDS}"))).await;
    engine.wait_for_first_listings().await;
    assert!(!engine.wait_for_first_listings().await);

    let with_wait = |seconds: u64| {
        let wait = format!("proxy: {{ firstListWait: {seconds}s }}\n{KEYWORDS}");
        backends(&[("hung", &url), ("s", &server.url)], &wait)
    };
    // Long enough that a busy machine does not blur the two limits.
    let engine = start(&with_wait(30)).await;
    let begun = Instant::now();
    assert!(engine.wait_for_first_listings().await);
    assert!(listed(&engine).contains(&"s_alpha".to_owned()));
    assert!(engine.wait_for_backend_of("s_alpha").await);
    let waited = begun.elapsed();
    assert!(waited < Duration::from_secs(15), "{waited:?}: one that hangs is not waited for like the others");

    let begun = Instant::now();
    let engine = start(&with_wait(2)).await;
    assert!(engine.wait_for_backend_of("hung_tool").await);
    assert!(begun.elapsed() >= Duration::from_secs(2), "{:?}", begun.elapsed());
}
