//! Tests of the engine with an embedding service that changes its model, refuses and slows down.

use std::time::Duration;

use serde_json::{Value, json};
use vmcp_config::status::EmbeddingState;
use vmcp_embed::testing::{FakeService, fake_vector};
use vmcp_engine::engine::{Engine, Options, Storage};
use vmcp_engine::telemetry::metrics::EmbeddingLabels;

use crate::testing::{Scripted, backends, call, config, engine, eventually};

/// Labels of requests to the provider while a client waits.
const QUERY: EmbeddingLabels = EmbeddingLabels { kind: "query" };

async fn two_tools() -> Scripted {
    Scripted::start(&[("alpha", "First thing.", json!({})), ("beta", "Second thing.", json!({}))]).await
}

fn with_tei(service: &FakeService) -> String {
    format!("optimizer: {{ embeddings: {{ provider: tei, tei: {{ endpoint: '{}' }} }} }}\n", service.url())
}

fn is_embedded(engine: &Engine) -> bool {
    let status = engine.embedding_status();
    status.state == EmbeddingState::Ready && status.embedded == 2
}

async fn find(engine: &Engine, what: &str) -> Value {
    let found = call(engine, "optim.find_tool", json!({"tool_description": what})).await.unwrap();
    found["structuredContent"].clone()
}

/// True if the snapshot's vectors are those of a fake model.
fn are_of(engine: &Engine, model: &str, width: usize) -> bool {
    let snapshot = engine.snapshot();
    let vectors = snapshot.index.vectors();
    vectors.count() == 2
        && ["s alpha: First thing.", "s beta: Second thing."].iter().enumerate().all(|(at, text)| {
            let expected = fake_vector(model, text, width);
            let norm = expected.iter().map(|value| value * value).sum::<f32>().sqrt();
            let same = |row: &[f32]| {
                row.len() == width
                    && row.iter().zip(&expected).all(|(one, other)| (one - other / norm).abs() < 1e-4)
            };
            vectors.row(at).is_some_and(same)
        })
}

#[tokio::test]
async fn other_weights_under_one_name_embed_every_tool_anew_and_the_way_back_is_free() {
    let (server, service) = (two_tools().await, FakeService::start().await.unwrap());
    let folder = tempfile::tempdir().unwrap();
    let yaml = backends(&[("s", &server.url)], &with_tei(&service));
    for (weights, embedded) in [("", 2), (" other", 4), ("", 4)] {
        service.set(|behavior| weights.clone_into(&mut behavior.weights));
        let options = Options { storage: Storage::Dir(folder.path().to_owned()), ..Options::default() };
        let engine = Engine::start(config(&yaml), options).await.unwrap();
        let model = format!("fake/model{weights}");
        eventually("vectors of the present weights", || are_of(&engine, &model, 128)).await;
        assert_eq!(service.inputs().len(), embedded, "{weights:?}");
        assert_eq!(engine.embedding_status().model.unwrap(), "tei/fake/model#float32,mean");
        engine.shutdown(Duration::ZERO).await;
    }
}

#[tokio::test]
async fn another_width_under_one_name_is_noticed_by_the_next_search() {
    let (server, service) = (two_tools().await, FakeService::start().await.unwrap());
    let engine = engine(&backends(&[("s", &server.url)], &with_tei(&service))).await;
    eventually("embedded", || is_embedded(&engine)).await;
    service.set(|behavior| behavior.dimensions = 64);
    let found = find(&engine, "first thing").await;
    assert_eq!(found["search_mode"], "keyword", "{found}");
    assert!(found["degraded_reason"].as_str().unwrap().contains("model has changed"), "{found}");
    eventually("vectors of the new width", || are_of(&engine, "fake/model", 64)).await;
    assert_eq!(find(&engine, "first thing").await["search_mode"], "hybrid");
}

#[tokio::test]
async fn an_answer_of_a_replica_with_another_model_is_never_stored() {
    let (server, service) = (two_tools().await, FakeService::start().await.unwrap());
    // The old replica answers the canary, the new one the tools, then the old one is gone.
    service.set(|behavior| {
        behavior.weights = " new".to_owned();
        behavior.next_weights = [String::new()].into();
    });
    let engine = engine(&backends(&[("s", &server.url)], &with_tei(&service))).await;
    eventually("vectors of the new replica", || are_of(&engine, "fake/model new", 128)).await;
    assert!(service.inputs().len() >= 4, "the first answer was not used: {:?}", service.inputs());
}

#[tokio::test]
async fn a_refused_search_takes_vectors_from_no_other() {
    let (server, service) = (two_tools().await, FakeService::start().await.unwrap());
    let engine = engine(&backends(&[("s", &server.url)], &with_tei(&service))).await;
    eventually("embedded", || is_embedded(&engine)).await;
    for round in 0..4 {
        service.set(|behavior| behavior.failures = [429, 429].into());
        let refused = find(&engine, &format!("first refused {round}")).await;
        assert_eq!(refused["degraded_reason"], "the query could not be embedded (overloaded)");
        let found = find(&engine, &format!("first found {round}")).await;
        assert_eq!(found["search_mode"], "hybrid", "{found}");
    }
    let errors = engine.metrics().embedding_errors.get_or_create(&QUERY).get();
    assert_eq!((errors, engine.embedding_status().state), (4, EmbeddingState::Ready));
}

#[tokio::test]
async fn searches_of_an_outage_are_no_failed_requests() {
    let (server, mut service) = (two_tools().await, FakeService::start().await.unwrap());
    let engine = engine(&backends(&[("s", &server.url)], &with_tei(&service))).await;
    eventually("embedded", || is_embedded(&engine)).await;
    service.stop().await;
    for number in 0..5 {
        let found = find(&engine, &format!("first thing {number}")).await;
        assert_eq!((&found["search_mode"], &found["degraded"]), (&json!("keyword"), &json!(true)));
    }
    assert!(engine.metrics().embedding_errors.get_or_create(&QUERY).get() <= 2, "one made the outage");
    service.restart().await.unwrap();
    eventually("answers again", || engine.embedding_status().state == EmbeddingState::Ready).await;
}

#[tokio::test]
async fn other_weights_beside_searches_show_in_the_canary() {
    let (server, service) = (two_tools().await, FakeService::start().await.unwrap());
    let engine = engine(&backends(&[("s", &server.url)], &with_tei(&service))).await;
    eventually("embedded", || is_embedded(&engine)).await;
    service.set(|behavior| " other".clone_into(&mut behavior.weights));
    assert_eq!(find(&engine, "first thing").await["search_mode"], "hybrid", "no answer tells");
    eventually("vectors of the other weights", || are_of(&engine, "fake/model other", 128)).await;
}

#[tokio::test]
async fn a_text_that_the_service_refuses_costs_no_other_its_vector() {
    for refusal in [None, Some(422), Some(424)] {
        let (server, service) = (two_tools().await, FakeService::start().await.unwrap());
        service.set(|behavior| behavior.poison = Some(("Second", refusal)));
        let engine = engine(&backends(&[("s", &server.url)], &with_tei(&service))).await;
        eventually("embedded", || is_embedded(&engine)).await;
        for number in 0..7 {
            let refused = find(&engine, &format!("Second {number}")).await;
            assert_eq!(refused["search_mode"], "keyword", "{refused}");
            assert_eq!(engine.embedding_status().state, EmbeddingState::Ready, "{refusal:?}");
            let found = find(&engine, &format!("first {number}")).await;
            assert_eq!((&found["search_mode"], found.get("degraded")), (&json!("hybrid"), None), "{found}");
        }
        for number in 0..7 {
            find(&engine, &format!("Second again {number}")).await;
        }
        let found = find(&engine, "first thing").await;
        assert_eq!(found["search_mode"], "hybrid", "queries of one client took vectors from all: {found}");
    }
}
