use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::http::header::CONTENT_TYPE;
use axum::routing::post;
use tokio::net::TcpListener;
use tokio::time::{sleep, timeout};

use crate::batch::MAX_BULK_REQUESTS;
use crate::testing::{FakeService, fake_vector};
use crate::{EmbedError, Embedder, OpenAiEmbedder, OpenAiSettings};

fn texts(count: usize) -> Vec<String> {
    (0..count).map(|n| format!("text {n}")).collect()
}

#[tokio::test]
async fn vectors_are_put_in_order_of_their_index() {
    let service = FakeService::start().await.unwrap();
    service.set(|behavior| behavior.bearer = Some("key".to_owned()));
    let mut settings = OpenAiSettings::new(format!("{}/v1/", service.url()), "m");
    settings.api_key = Some("key".to_owned());
    settings.batch = 3;
    let openai = OpenAiEmbedder::new(settings).unwrap();

    let texts = texts(10);
    let vectors = openai.embed(&texts).await.unwrap();
    assert_eq!(vectors.len(), texts.len());
    for (text, vector) in texts.iter().zip(vectors) {
        let raw = fake_vector("fake/model", text, 128);
        let cosine: f32 = raw.iter().zip(&vector).map(|(a, b)| a * b).sum();
        let length = raw.iter().map(|x| x * x).sum::<f32>().sqrt();
        assert!((cosine - length).abs() < 1e-4);
    }
    let mut batches = service.batches();
    batches.sort_unstable();
    assert_eq!(batches, [1, 3, 3, 3]);
}

#[tokio::test]
async fn a_request_names_the_model() {
    let service = FakeService::start().await.unwrap();
    for model in [OpenAiSettings::DEFAULT_MODEL, "nomic-embed-text"] {
        let openai = OpenAiEmbedder::new(OpenAiSettings::new(service.url(), model)).unwrap();
        openai.embed(&texts(1)).await.unwrap();
    }
    assert_eq!(service.models(), ["text-embedding-3-small", "nomic-embed-text"]);
}

#[tokio::test]
async fn a_missing_key_is_named_as_such() {
    let service = FakeService::start().await.unwrap();
    service.set(|behavior| behavior.bearer = Some("key".to_owned()));
    let openai = OpenAiEmbedder::new(OpenAiSettings::new(service.url(), "m")).unwrap();
    assert_eq!(openai.embed(&texts(1)).await.unwrap_err().category(), "unauthorized");
}

#[tokio::test]
async fn a_text_too_long_for_the_model_is_cut_until_it_fits() {
    let service = FakeService::start().await.unwrap();
    service.set(|behavior| behavior.failures = [400, 400].into());
    let openai = OpenAiEmbedder::new(OpenAiSettings::new(service.url(), "m")).unwrap();
    openai.embed(&["word ".repeat(1000)]).await.unwrap();
    assert_eq!(service.inputs(), ["word ".repeat(250)]);
}

#[tokio::test]
async fn another_width_than_asked_for_is_refused() {
    let service = FakeService::start().await.unwrap();
    let mut settings = OpenAiSettings::new(service.url(), "m");
    settings.dimensions = Some(64);
    let error = OpenAiEmbedder::new(settings).unwrap().embed(&texts(1)).await.unwrap_err();
    assert!(matches!(error, EmbedError::Answer { .. }), "{error}");
}

#[tokio::test]
async fn queries_are_not_held_up_by_bulk_work() {
    let service = FakeService::start().await.unwrap();
    // Whatever arrives now is answered long after the end of this test.
    service.set(|behavior| behavior.delay = Duration::from_mins(10));
    let mut settings = OpenAiSettings::new(service.url(), "m");
    settings.batch = 1;
    let openai = Arc::new(OpenAiEmbedder::new(settings).unwrap());
    let bulk = tokio::spawn({
        let openai = Arc::clone(&openai);
        async move { openai.embed(&texts(1000)).await }
    });
    let begun = async {
        while service.requests() < MAX_BULK_REQUESTS {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(Duration::from_secs(20), begun).await.expect("bulk work takes all its turns");

    service.set(|behavior| behavior.delay = Duration::ZERO);
    let query = ["query".to_owned()];
    timeout(Duration::from_secs(20), openai.embed_queries(&query))
        .await
        .expect("a query needs no turn of bulk work")
        .unwrap();
    assert_eq!(service.inputs(), ["query"], "no bulk text was answered before the query");
    assert!(!bulk.is_finished(), "the bulk work still waits for its first answers");
    bulk.abort();
}

#[tokio::test]
async fn the_model_id_tells_services_models_and_widths_apart() {
    let id = async |endpoint: &str, dimensions| {
        let settings = OpenAiSettings { dimensions, ..OpenAiSettings::new(endpoint, "m") };
        OpenAiEmbedder::new(settings).unwrap().model_id().await.unwrap()
    };
    assert_eq!(id("https://user:secret@api.example.com/v1", None).await, "openai/https://api.example.com/m");
    assert_eq!(id("http://other:1", Some(256)).await, "openai/http://other:1/m#256");
}

/// Answers each request for vectors with the same body.
async fn answering(body: &'static str) -> OpenAiEmbedder {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let answer = move || async move { ([(CONTENT_TYPE, "application/json")], body) };
    let app = Router::new().route("/v1/embeddings", post(answer));
    tokio::spawn(async move { axum::serve(listener, app).await });
    OpenAiEmbedder::new(OpenAiSettings::new(endpoint, "m")).unwrap()
}

#[tokio::test]
async fn answers_of_other_services_are_read_as_they_are_meant() {
    let both = [vec![0.6_f32, 0.8], vec![1.0, 0.0]];
    for body in [
        r#"{"data": [{"index": 1, "embedding": [2, 0]}, {"index": 0, "embedding": [3, 4]}]}"#,
        r#"{"data": [{"embedding": [3, 4]}, {"embedding": [2, 0]}]}"#,
        r#"{"data": [{"embedding": "AABAQAAAgEA="}, {"embedding": "AAAAQAAAAAA="}]}"#,
    ] {
        assert_eq!(answering(body).await.embed(&texts(2)).await.unwrap(), both, "{body}");
    }
    for body in [
        r#"{"data": [{"index": 1, "embedding": [2, 0]}, {"embedding": [3, 4]}]}"#,
        r#"{"data": [{"index": 0, "embedding": [2, 0]}, {"index": 0, "embedding": [3, 4]}]}"#,
        r#"{"data": [{"embedding": [3, 4]}]}"#,
        r#"{"data": [{"embedding": [3, 4]}, {"embedding": [1]}]}"#,
        r#"{"data": [{"embedding": [null, 4]}, {"embedding": [1, 0]}]}"#,
        r#"{"error": {"message": "quota"}}"#,
        "<html>sign in</html>",
        r#"{"data": [{"embe"#,
    ] {
        let error = answering(body).await.embed(&texts(2)).await.unwrap_err();
        assert_eq!(error.category(), "answer", "{body}: {error}");
    }
    let page = answering("<html>sign in</html>").await.embed(&texts(1)).await.unwrap_err();
    assert!(page.to_string().contains("check host and path of the endpoint"), "{page}");
}
