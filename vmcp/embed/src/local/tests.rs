//! With the real models, which are pulled when they are not there.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use tokio::sync::{OnceCell, Semaphore};
use tokio::time::{sleep, timeout};

use super::{LocalModel, MAX_BATCH_TOKENS, batches};
use crate::{EmbedError, Embedder, LocalEmbedder, LocalSettings, testing};

#[derive(Deserialize)]
struct Reference {
    text: String,
    head: Vec<f32>,
    sum: f32,
}

/// Made by a forward pass in numpy (float64) over the same weights, and checked against ONNX Runtime with an
/// independently exported int8 model (cosine over 0.998).
const REFERENCE: &str = include_str!("tests/reference.json");
/// Made by ONNX Runtime with the published graph.
const REFERENCE_OF_BGE: &str = include_str!("tests/reference-bge.json");

/// One for all tests: loading takes a while in a debug build.
async fn embedder() -> &'static LocalEmbedder {
    static EMBEDDER: OnceCell<LocalEmbedder> = OnceCell::const_new();
    let load = || async {
        let dir = testing::local_model().await.expect("the local model can be pulled");
        LocalEmbedder::new(LocalSettings::new(LocalModel::default_model(), dir))
    };
    EMBEDDER.get_or_init(load).await
}

async fn embed(texts: &[&str]) -> Vec<Vec<f32>> {
    let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
    embedder().await.embed(&texts).await.unwrap()
}

fn cosine(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Embeds the texts of a reference, and compares.
async fn assert_equals(reference: &str, embedder: &LocalEmbedder) {
    let references: Vec<Reference> = serde_json::from_str(reference).unwrap();
    let texts: Vec<String> = references.iter().map(|reference| reference.text.clone()).collect();
    let vectors = embedder.embed(&texts).await.unwrap();
    assert!(!references.is_empty() && vectors.len() == references.len(), "{} vectors", vectors.len());
    for (vector, Reference { text, head, sum }) in vectors.iter().zip(&references) {
        assert_eq!(vector.len(), 384);
        assert!(!head.is_empty(), "{text}");
        assert!((cosine(vector, vector) - 1.0).abs() < 1e-5);
        for (got, expected) in vector.iter().zip(head) {
            assert!((got - expected).abs() < 2e-6, "{text}: {got} instead of {expected}");
        }
        assert!((vector.iter().sum::<f32>() - sum).abs() < 5e-5, "{text}");
    }
}

#[tokio::test]
async fn vectors_equal_those_of_the_reference() {
    assert_equals(REFERENCE, embedder().await).await;
}

/// The second model computes the values of its published graph, and values that others have measured.
#[tokio::test]
async fn vectors_of_the_second_model_equal_those_of_its_reference() {
    let (model, dir) = match testing::second_local_model().await {
        Ok(found) => found,
        Err(reason) => return vmcp_tidy::skipped(&reason),
    };
    let embedder = LocalEmbedder::new(LocalSettings::new(model, dir));
    assert!(embedder.model_id().await.unwrap().starts_with("local/BAAI/bge-small-en-v1.5@"));
    assert_equals(REFERENCE_OF_BGE, &embedder).await;
    let texts = [
        "I need to search for information online",
        "tavily_search: Search the web for current information on any topic",
        "browser_navigate: Navigate to a URL",
        "get-sum: Returns the sum of two numbers",
        "echo: Echoes back the input string",
    ];
    let vectors = embedder.embed(&texts.map(str::to_owned)).await.unwrap();
    let (query, tools) = vectors.split_first().unwrap();
    let instructed = format!("{}{}", model.query_instruction, texts[0]);
    let instructed = embedder.embed(&[instructed]).await.unwrap();
    assert_eq!(embedder.embed_queries(&[texts[0].to_owned()]).await.unwrap(), instructed);
    assert!(instructed[0] != *query, "queries have an instruction");
    for (tool, expected) in tools.iter().zip([0.8080, 0.5996, 0.4564, 0.4478]) {
        assert!(
            (cosine(query, tool) - expected).abs() < 1e-4,
            "{} instead of {expected}",
            cosine(query, tool)
        );
    }
}

#[tokio::test]
async fn neither_batch_nor_padding_changes_a_vector() {
    let long = "Reads a file. ".repeat(100);
    let texts = ["echo", "", "Search the web for current information", &long, "create_issue"];
    let many: Vec<&str> = texts.iter().copied().cycle().take(45).collect();
    let together = embed(&many).await;
    for (at, text) in texts.iter().enumerate() {
        let alone = embed(&[text]).await.remove(0);
        for other in together.iter().skip(at).step_by(texts.len()) {
            assert!(cosine(&alone, other) > 0.999_999, "{text}");
        }
    }
}

/// A query is nearest to the tool that does what it asks for, by a margin of 0.1.
#[tokio::test]
async fn the_search_tool_is_nearest_to_a_wish_to_search() {
    let tools = [
        "tavily tavily search: Search the web for current information on any topic",
        "playwright browser navigate: Navigate to a URL",
        "taskmanager add tasks: Add new tasks to a request",
        "everything get sum: Returns the sum of two numbers",
        "everything echo: Echoes back the input string",
    ];
    let tool_vectors = embed(&tools).await;
    let query = embed(&["I need to search for information online"]).await.remove(0);
    let scores: Vec<f32> = tool_vectors.iter().map(|vector| cosine(&query, vector)).collect();
    let (best, others) = scores.split_first().unwrap();
    assert!(others.iter().all(|other| best - other > 0.1), "{scores:?}");
}

#[tokio::test]
async fn queries_run_beside_bulk_work() {
    // The model of all tests, with lanes of its own: bulk work of other tests does not count.
    let shared = embedder().await;
    shared.model().await.unwrap();
    let lane = || Arc::new(Semaphore::new(1));
    let embedder = Arc::new(LocalEmbedder {
        settings: shared.settings.clone(),
        model: shared.model.clone(),
        query_lane: lane(),
        bulk_lane: lane(),
    });
    let bulk: Vec<String> =
        (0..200).map(|n| format!("tool {n}: ") + &"does something useful ".repeat(10)).collect();
    let bulk = tokio::spawn({
        let embedder = Arc::clone(&embedder);
        async move { embedder.embed(&bulk).await.map(|vectors| vectors.len()) }
    });
    let begun = async {
        while embedder.bulk_lane.available_permits() > 0 {
            sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(Duration::from_mins(1), begun).await.expect("bulk work takes its lane");

    embedder.embed(&["a query".to_owned()]).await.unwrap();
    assert!(!bulk.is_finished(), "the query waited for all of the bulk work");
    assert_eq!(bulk.await.unwrap().unwrap(), 200);
}

#[tokio::test]
async fn a_missing_model_is_said_at_the_first_text_and_with_its_remedy() {
    let dir = tempfile::tempdir().unwrap();
    let embedder = LocalEmbedder::new(LocalSettings::new(LocalModel::default_model(), dir.path()));
    assert!(embedder.model_id().await.unwrap().starts_with("local/sentence-transformers/all-MiniLM-L6-v2@"));
    let error = embedder.embed(&["text".to_owned()]).await.unwrap_err();
    assert!(matches!(error, EmbedError::ModelMissing { .. }), "{error}");
    assert!(error.to_string().contains("vmcp model pull"), "{error}");

    std::fs::write(dir.path().join("tokenizer.json"), "{}").unwrap();
    let error = embedder.embed(&["text".to_owned()]).await.unwrap_err();
    assert!(matches!(error, EmbedError::ModelCorrupt { .. }), "{error}");
}

#[test]
fn batches_hold_every_text_once_and_stay_within_the_limit() {
    let texts: Vec<Vec<i32>> = (0..100).map(|n| vec![0; 2 + (n * 37) % 255]).collect();
    let batches = batches(texts.clone());
    let mut places: Vec<usize> = batches.iter().flat_map(|(places, _)| places.clone()).collect();
    places.sort_unstable();
    assert_eq!(places, (0..100).collect::<Vec<_>>());
    for (places, batch) in batches {
        let longest = batch.iter().map(Vec::len).max().unwrap();
        assert!(longest * batch.len() <= MAX_BATCH_TOKENS);
        assert!(places.iter().zip(batch).all(|(place, tokens)| texts[*place] == tokens));
    }
}
