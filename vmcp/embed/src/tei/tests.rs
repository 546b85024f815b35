use std::time::{Duration, Instant};

use crate::testing::{FakeService, InfoAnswer};
use crate::{EmbedError, Embedder, TeiEmbedder, TeiSettings};

fn texts(count: usize) -> Vec<String> {
    (0..count).map(|n| format!("text {n}")).collect()
}

async fn started() -> (FakeService, TeiEmbedder) {
    let service = FakeService::start().await.unwrap();
    let settings = TeiSettings { info_ttl: Duration::ZERO, ..TeiSettings::new(service.url()) };
    (service, TeiEmbedder::new(settings).unwrap())
}

#[tokio::test]
async fn seventy_texts_travel_as_32_32_and_6_and_come_back_in_order() {
    let (service, tei) = started().await;
    let texts = texts(70);
    let vectors = tei.embed(&texts).await.unwrap();
    let mut batches = service.batches();
    batches.sort_unstable();
    assert_eq!(batches, [6, 32, 32]);
    assert_eq!(vectors.len(), texts.len());
    for (text, vector) in texts.iter().zip(&vectors) {
        let alone = tei.embed(std::slice::from_ref(text)).await.unwrap();
        assert_eq!(alone, std::slice::from_ref(vector));
        assert!((vector.iter().map(|x| x * x).sum::<f32>() - 1.0).abs() < 1e-5);
    }
}

#[tokio::test]
async fn a_lost_vector_is_an_error() {
    let (service, tei) = started().await;
    service.set(|behavior| behavior.lose_a_vector = true);
    let error = tei.embed(&texts(40)).await.unwrap_err();
    assert!(matches!(error, EmbedError::Answer { .. }), "{error}");
    assert!(error.to_string().contains("31 vectors for 32 texts"), "{error}");
}

#[tokio::test]
async fn overload_and_crashes_are_tried_again_but_not_a_wrong_model() {
    let (service, tei) = started().await;
    service.set(|behavior| behavior.failures = [429, 503, 500].into());
    assert_eq!(tei.embed(&texts(20)).await.unwrap().len(), 20);
    assert_eq!(service.requests(), 4);

    service.set(|behavior| behavior.failures = [424].into());
    let error = tei.embed(&texts(1)).await.unwrap_err();
    assert!(matches!(error, EmbedError::Status { status: 424, .. }), "{error}");
    assert_eq!(service.requests(), 5);
}

#[tokio::test]
async fn a_query_gives_up_after_one_more_try() {
    let (service, tei) = started().await;
    service.set(|behavior| behavior.failures = [503, 503, 503].into());
    let error = tei.embed_queries(&texts(1)).await.unwrap_err();
    assert_eq!(error.category(), "overloaded");
    assert_eq!(service.requests(), 2);
}

#[tokio::test]
async fn a_query_does_not_wait_as_long_as_an_overloaded_service_asks() {
    let (service, tei) = started().await;
    service.set(|behavior| (behavior.failures, behavior.retry_after) = ([429, 429].into(), Some(20)));
    let error = tei.embed_queries(&texts(1)).await.unwrap_err();
    assert_eq!(error.retry_after(), Some(Duration::from_secs(20)));
    assert_eq!(service.requests(), 1);
}

#[tokio::test]
async fn bulk_requests_are_small_after_a_query() {
    let (service, tei) = started().await;
    tei.embed(&texts(32)).await.unwrap();
    tei.embed_queries(&texts(1)).await.unwrap();
    assert_eq!(tei.batch_size(), 8);
    tei.embed(&texts(20)).await.unwrap();
    let mut batches = service.batches();
    batches.sort_unstable();
    assert_eq!(batches, [1, 4, 8, 8, 32]);
}

#[tokio::test]
async fn a_service_that_hides_its_description_is_known_from_before() {
    let (service, tei) = started().await;
    service.set(|behavior| behavior.info = InfoAnswer::Status(503));
    assert_eq!(tei.embed_queries(&texts(1)).await.unwrap_err().category(), "overloaded");
    service.set(|behavior| behavior.info = InfoAnswer::Description);
    let model = tei.model_id().await.unwrap();
    // An ingress without endpoints for a moment answers 404 or a page; a busy service answers late.
    for hidden in [InfoAnswer::Status(503), InfoAnswer::Status(404), InfoAnswer::Page, InfoAnswer::Late] {
        service.set(|behavior| behavior.info = hidden);
        let asked = Instant::now();
        assert_eq!(tei.embed_queries(&texts(1)).await.unwrap().len(), 1, "{hidden:?}");
        assert_eq!(tei.model_id().await.unwrap(), model, "{hidden:?}");
        // Two questions of a second each, and time for a busy machine; the settings allow 30 s.
        assert!(asked.elapsed() < Duration::from_secs(20), "{hidden:?}: {:?}", asked.elapsed());
    }
}

#[tokio::test]
async fn a_service_has_no_need_of_a_description() {
    for hidden in [InfoAnswer::Status(404), InfoAnswer::Page] {
        let service = FakeService::start().await.unwrap();
        service.set(|behavior| behavior.info = hidden);
        let settings = TeiSettings { model: Some("m".to_owned()), ..TeiSettings::new(service.url()) };
        let tei = TeiEmbedder::new(settings).unwrap();
        assert_eq!(tei.embed(&texts(1)).await.unwrap().len(), 1, "{hidden:?}");
        assert_eq!(tei.model_id().await.unwrap(), "tei/m");
    }
}

#[tokio::test]
async fn a_text_without_a_vector_is_cut_and_costs_no_other_its_own() {
    for refusal in [None, Some(400), Some(422), Some(424)] {
        let (service, tei) = started().await;
        service.set(|behavior| behavior.poison = Some(("poison", refusal)));
        let mut texts = texts(20);
        texts[7] = "server tool: says poison to everyone".to_owned();
        let vectors = tei.embed(&texts).await.unwrap();
        assert_eq!(vectors.len(), 20, "{refusal:?}");
        let of_half = tei.embed(&["server tool: says ".to_owned()]).await.unwrap();
        assert_eq!(vectors[7], of_half[0], "{refusal:?}");
        // A service that makes no vector of anything is not asked for every text.
        service.set(|behavior| behavior.poison = Some(("", refusal)));
        let before = service.requests();
        assert!(tei.embed(&texts).await.is_err(), "{refusal:?}");
        let asked = service.requests() - before;
        assert!(asked <= 10, "{refusal:?}: {asked} requests");
    }
}

#[tokio::test]
async fn models_that_want_instructions_get_them() {
    let (service, tei) = started().await;
    let (text, query) = (["a tool".to_owned()], ["a wish".to_owned()]);
    for (model, id, expected) in [
        (
            "BAAI/bge-small-en-v1.5",
            "",
            ["a tool", "Represent this sentence for searching relevant passages: a wish"],
        ),
        ("intfloat/e5-small-v2", "+instructed", ["passage: a tool", "query: a wish"]),
        ("fake/model", "", ["a tool", "a wish"]),
    ] {
        service.set(|behavior| model.clone_into(&mut behavior.model));
        assert_eq!(tei.model_id().await.unwrap(), format!("tei/{model}#float32,mean{id}"));
        let before = service.inputs().len();
        tei.embed(&text).await.unwrap();
        tei.embed_queries(&query).await.unwrap();
        assert_eq!(service.inputs()[before..], expected);
    }
}

#[tokio::test]
async fn an_endpoint_may_have_a_prefix_and_name_the_request() {
    let (service, _) = started().await;
    let tei = TeiEmbedder::new(TeiSettings::new(format!("{}/embed", service.url()))).unwrap();
    assert_eq!(tei.embed(&texts(1)).await.unwrap().len(), 1);
    assert_eq!(tei.model_id().await.unwrap(), "tei/fake/model#float32,mean");
    let elsewhere = TeiEmbedder::new(TeiSettings::new(format!("{}/tei", service.url()))).unwrap();
    let error = elsewhere.embed(&texts(1)).await.unwrap_err();
    assert!(matches!(error, EmbedError::Status { status: 404, .. }), "{error}");
}

#[tokio::test]
async fn batches_fit_what_info_says_about_permits() {
    let (service, tei) = started().await;
    service.set(|behavior| behavior.max_concurrent = 8);
    tei.embed(&texts(5)).await.unwrap();
    assert_eq!(service.batches().iter().max(), Some(&2));
    assert_eq!(tei.batch_size(), 2);
}

#[tokio::test]
async fn a_batch_that_is_too_large_is_split_in_old_and_new_versions() {
    for status in [413, 422] {
        let service = FakeService::start().await.unwrap();
        let tei = TeiEmbedder::new(TeiSettings::new(service.url())).unwrap();
        tei.model_id().await.unwrap();
        // Smaller than it said: a proxy's limit, or a restart with other flags.
        service.set(|behavior| (behavior.max_batch, behavior.batch_status) = (10, status));
        assert_eq!(tei.embed(&texts(32)).await.unwrap().len(), 32);
        assert_eq!(service.batches(), [8, 8, 8, 8]);
    }
}

#[tokio::test]
async fn a_single_text_that_is_refused_is_an_error() {
    let (service, tei) = started().await;
    service.set(|behavior| behavior.max_batch = 0);
    let error = tei.embed(&texts(1)).await.unwrap_err();
    assert!(matches!(error, EmbedError::Status { status: 422, .. }), "{error}");
    assert!(error.to_string().contains("batch size 1"), "{error}");
}

#[tokio::test]
async fn empty_texts_do_not_fail_their_batch() {
    let (service, tei) = started().await;
    let vectors = tei.embed(&[String::new(), "word".to_owned()]).await.unwrap();
    assert_eq!(vectors.len(), 2);
    assert_eq!(service.inputs(), [" ", "word"]);
    assert!(tei.embed(&[]).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_swapped_model_shows_in_the_id_and_may_have_another_width() {
    let (service, tei) = started().await;
    let before = (tei.model_id().await.unwrap(), tei.embed(&texts(1)).await.unwrap());
    assert_eq!(before.0, "tei/fake/model#float32,mean");
    service.set(|behavior| {
        behavior.model = "other/model".to_owned();
        behavior.dimensions = 64;
    });
    assert_eq!(tei.model_id().await.unwrap(), "tei/other/model#float32,mean");
    assert_eq!(tei.embed(&texts(1)).await.unwrap()[0].len(), 64);
}

#[tokio::test]
async fn a_stopped_service_is_unreachable_and_works_again_when_it_is_back() {
    let (mut service, tei) = started().await;
    tei.embed(&texts(1)).await.unwrap();
    service.stop().await;
    let error = tei.embed(&texts(1)).await.unwrap_err();
    assert!(matches!(error, EmbedError::Unreachable { .. }), "{error}");
    assert!(error.to_string().contains("(Connect): tcp connect error: "), "the whole chain: {error}");
    service.restart().await.unwrap();
    tei.embed(&texts(1)).await.unwrap();
}

#[tokio::test]
async fn a_slow_service_times_out() {
    let service = FakeService::start().await.unwrap();
    service.set(|behavior| behavior.delay = Duration::from_mins(1));
    let settings = TeiSettings { timeout: Duration::from_millis(300), ..TeiSettings::new(service.url()) };
    let error = TeiEmbedder::new(settings).unwrap().embed(&texts(1)).await.unwrap_err();
    assert!(matches!(error, EmbedError::Timeout { .. }), "{error}");
}

#[tokio::test]
async fn configured_headers_are_sent() {
    let service = FakeService::start().await.unwrap();
    service.set(|behavior| behavior.bearer = Some("secret".to_owned()));
    let headers = vec![("Authorization".to_owned(), "Bearer secret".to_owned())];
    let settings = TeiSettings { headers, ..TeiSettings::new(service.url()) };
    TeiEmbedder::new(settings).unwrap().embed(&texts(1)).await.unwrap();

    let error =
        TeiEmbedder::new(TeiSettings::new(service.url())).unwrap().embed(&texts(1)).await.unwrap_err();
    assert_eq!(error.category(), "unauthorized");
}

#[test]
fn settings_that_cannot_work_are_refused_without_repeating_secrets() {
    let wrong = |settings| TeiEmbedder::new(settings).err().unwrap().to_string();
    assert!(wrong(TeiSettings::new("tei:8080/x")).contains("scheme"));
    assert!(wrong(TeiSettings::new("not a url")).contains("endpoint"));
    let headers = vec![("Authorization".to_owned(), "Bearer sec\nret".to_owned())];
    let message = wrong(TeiSettings { headers, ..TeiSettings::new("http://tei") });
    assert!(message.contains("Authorization") && !message.contains("sec"), "{message}");
}
