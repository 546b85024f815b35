//! Failed calls, and the answers that name or call a similar tool.

use serde_json::{Value, json};
use vmcp_embed::testing::{FakeService, fake_vector};

use crate::Caller;
use crate::testing::{
    DenyTool, KEYWORDS, Scripted, backends, call, call_with, engine, engine_with, eventually,
};
use vmcp_engine::access::identity::{Identity, Principal};
use vmcp_engine::engine::{Engine, Options};

const DESCRIPTION: &str = "Reads the weather forecast of a city.";

/// Two servers with similar tools: `a_fail`, `a_slow` and `a_refuse` do as they are called, `b_forecast`
/// works.
struct Weather {
    broken: Scripted,
    works: Scripted,
}

impl Weather {
    async fn start() -> Weather {
        let names = ["fail", "slow", "refuse"];
        let broken = Scripted::start(&names.map(|name| (name, DESCRIPTION, json!({})))).await;
        let works = Scripted::start(&[
            ("forecast", DESCRIPTION, json!({"city": {"type": "string"}})),
            ("send_mail", "Sends a mail to somebody.", json!({})),
        ])
        .await;
        Weather { broken, works }
    }

    /// Gives all tools the word that they only read.
    fn read_only(&self) {
        for name in ["fail", "slow", "refuse"] {
            self.broken.annotate(name, json!({"readOnlyHint": true}));
        }
        self.works.annotate("forecast", json!({"readOnlyHint": true}));
    }

    fn yaml(&self, optimizer: &str) -> String {
        let more = format!("optimizer: {{ embeddings: {{ provider: none }}{optimizer} }}\n");
        backends(&[("a", &self.broken.url), ("b", &self.works.url)], &more)
    }
}

async fn call_tool(engine: &Engine, tool: &str, more: Value) -> Value {
    let mut arguments = json!({"tool_name": tool, "parameters": {"city": "Basel"}});
    arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    call(engine, "optim.call_tool", arguments).await.unwrap()
}

#[tokio::test]
async fn with_vectors_the_similarity_of_an_alternative_is_their_cosine() {
    let (weather, service) = (Weather::start().await, FakeService::start().await.unwrap());
    let tei = format!("embeddings: {{ provider: tei, tei: {{ endpoint: '{}' }} }}", service.url());
    let engine = engine(&weather.yaml("").replace("embeddings: { provider: none }", &tei)).await;
    eventually("all tools are embedded", || engine.embedding_status().embedded == 5).await;
    let failed = call_tool(&engine, "a_fail", json!({})).await;
    let suggestions = failed["structuredContent"]["fallback_suggestions"].as_array().unwrap();
    let other = suggestions.iter().find(|suggestion| suggestion["tool"] == "b_forecast").unwrap();
    let texts = service.inputs();
    let vector = |name: &str| {
        let text = texts.iter().find(|text| text.contains(name)).unwrap();
        fake_vector("fake/model", text, 128)
    };
    let (one, two) = (vector("a fail"), vector("b forecast"));
    let dot =
        |one: &[f32], two: &[f32]| one.iter().zip(two).map(|(one, two)| f64::from(one * two)).sum::<f64>();
    let cosine = dot(&one, &two) / (dot(&one, &one) * dot(&two, &two)).sqrt();
    let similarity = other["similarity"].as_f64().unwrap();
    // Answers round it to two digits.
    assert!((similarity - cosine).abs() < 0.006, "{similarity} instead of {cosine}: {texts:?}");
}

#[tokio::test]
async fn the_answer_to_a_failed_call_names_the_tool_that_may_take_its_place() {
    let weather = Weather::start().await;
    let engine = engine(&weather.yaml("")).await;
    for (tool, more) in [("a_fail", json!({})), ("a_refuse", json!({})), ("a_slow", json!({"timeout": 0.2}))]
    {
        let answer = call_tool(&engine, tool, more).await;
        assert_eq!(answer["isError"], true, "{tool}");
        let named = &answer["structuredContent"];
        let suggestions = named["fallback_suggestions"].as_array().unwrap();
        let other = suggestions.iter().find(|suggestion| suggestion["server"] == "b").unwrap();
        assert_eq!(other["tool"], "b_forecast", "{tool}");
        let similarity = other["similarity"].as_f64().unwrap();
        assert!(similarity > 0.0 && similarity <= 1.0);
        assert!(!other["reason"].as_str().unwrap().is_empty());
        assert!(
            suggestions
                .iter()
                .all(|suggestion| suggestion["tool"] != tool && suggestion["tool"] != "b_send_mail")
        );
        let last = answer["content"].as_array().unwrap().last().unwrap()["text"].as_str().unwrap();
        assert_eq!(serde_json::from_str::<Value>(last).unwrap(), *named, "{tool}");
    }
    let failed = call_tool(&engine, "a_fail", json!({})).await;
    assert_eq!(failed["content"][0]["text"], "it is broken", "the tool's own words come first");
    assert_eq!(failed["_meta"]["vmcp/fallback"], failed["structuredContent"]);
    let envelope = call_tool(&engine, "a_fail", json!({"response_format": "envelope"})).await;
    assert!(envelope["structuredContent"]["fallback_suggestions"].is_array());
    let works = call_tool(&engine, "b_forecast", json!({})).await;
    assert!(works.get("_meta").is_none() && works.get("structuredContent").is_none(), "{works}");
}

#[tokio::test]
async fn an_empty_answer_names_alternatives_and_is_no_error() {
    let blank = Scripted::start(&[("blank", DESCRIPTION, json!({}))]).await;
    let weather = Weather::start().await;
    let yaml = backends(
        &[("a", &blank.url), ("b", &weather.works.url)],
        "optimizer: { embeddings: { provider: none } }\n",
    );
    let engine = engine(&yaml).await;
    let answer = call_tool(&engine, "a_blank", json!({})).await;
    assert_ne!(answer["isError"], true, "an empty answer may be a right one: {answer}");
    let suggestions = answer["_meta"]["vmcp/fallback"]["fallback_suggestions"].as_array().unwrap();
    assert_eq!(suggestions[0]["tool"], "b_forecast", "{answer}");
    assert!(answer.get("structuredContent").is_none(), "{answer}");
}

#[tokio::test]
async fn an_answer_that_breaks_its_own_schema_names_alternatives_and_is_no_error() {
    let answers = Scripted::start(&[("typed", DESCRIPTION, json!({}))]).await;
    answers.promise(
        "typed",
        json!({"type": "object", "required": ["degrees"], "properties": {
        "degrees": {"type": "number"}}}),
    );
    let weather = Weather::start().await;
    let yaml = backends(
        &[("a", &answers.url), ("b", &weather.works.url)],
        "optimizer: { embeddings: { provider: none } }\n",
    );
    let engine = engine(&yaml).await;
    for (structured, words) in [
        (json!({"degrees": "warm"}), "/degrees: "),
        (json!({}), "/degrees: is required"),
        (Value::Null, "lacks the structured content"),
    ] {
        let mut parameters = json!({"city": "Basel"});
        if structured != Value::Null {
            parameters["structured"] = structured.clone();
        }
        let answer = call_tool(&engine, "a_typed", json!({"parameters": parameters})).await;
        assert_ne!(answer["isError"], true, "{answer}");
        let named = &answer["_meta"]["vmcp/fallback"];
        assert_eq!(named["fallback_suggestions"][0]["tool"], "b_forecast", "{answer}");
        assert!(named["error"].as_str().unwrap().contains(words), "{answer}");
        assert_eq!(answer.get("structuredContent"), Some(&structured).filter(|it| !it.is_null()), "kept");
    }
    let fits = json!({"parameters": {"structured": {"degrees": 21}}});
    let answer = call_tool(&engine, "a_typed", fits).await;
    assert!(answer.get("_meta").is_none(), "{answer}");
}

/// Starts a server of seven alike tools and twenty others, and an engine before it.
async fn siblings() -> (Engine, Scripted) {
    let alike = ["fail", "refuse", "m", "n", "o", "p", "q"];
    let server = Scripted::start(&alike.map(|name| (name, DESCRIPTION, json!({})))).await;
    for number in 0..20 {
        server.set(&format!("other{number}"), "Does something else.", &json!({}));
    }
    let engine = engine(&backends(&[("s", &server.url)], KEYWORDS)).await;
    (engine, server)
}

#[tokio::test]
async fn three_alternatives_are_named_and_none_of_a_sibling_that_often_fails() {
    let (engine, _server) = siblings().await;
    let alternatives = async |tool: &str| {
        let answer = call_tool(&engine, tool, json!({})).await;
        let suggestions = answer["structuredContent"]["fallback_suggestions"].clone();
        let tools = suggestions.as_array().unwrap().iter();
        tools.map(|suggestion| suggestion["tool"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let names = alternatives("s_refuse").await;
    assert!(names.len() == 3 && names.contains(&"s_fail".to_owned()), "{names:?}");
    for _ in 0..9 {
        assert_eq!(alternatives("s_fail").await.len(), 3);
    }
    engine.tool_metrics().flush().await;
    let names = alternatives("s_refuse").await;
    assert!(names.len() == 3 && !names.contains(&"s_fail".to_owned()), "{names:?}");
}

#[tokio::test]
async fn failures_of_one_identity_take_no_alternative_from_another() {
    let (engine, _server) = siblings().await;
    let call_as = async |name: &str, tool: &str| {
        let identity = Identity::known("https://idp", name, serde_json::Map::new(), None);
        let caller = Caller { principal: Principal::from(identity), ..Caller::default() };
        let arguments = json!({"tool_name": tool, "parameters": {"city": "Basel"}});
        let params = json!({"name": "optim.call_tool", "arguments": arguments});
        call_with(&engine, &caller, params).await.unwrap().to_string()
    };
    for _ in 0..9 {
        call_as("alice", "s_fail").await;
    }
    engine.tool_metrics().flush().await;
    let (alice, bob) = (call_as("alice", "s_refuse").await, call_as("bob", "s_refuse").await);
    assert!(!alice.contains("s_fail"), "{alice}");
    assert!(bob.contains("s_fail"), "{bob}");
}

#[tokio::test]
async fn a_server_whose_circuit_is_open_offers_no_alternatives() {
    let weather = Weather::start().await;
    weather.works.set("down", "Is down.", &json!({}));
    let breaker = "operational: { failureHandling: { circuitBreaker: { failureThreshold: 1 } } }\n";
    let engine = engine(&format!("{}{breaker}", weather.yaml(""))).await;
    assert!(call_tool(&engine, "a_fail", json!({})).await.to_string().contains("b_forecast"));
    call_tool(&engine, "b_down", json!({})).await;
    let answer = call_tool(&engine, "a_fail", json!({})).await;
    assert!(!answer.to_string().contains("b_forecast"), "{answer}");
}

#[tokio::test]
async fn suggestions_can_be_switched_off_by_the_caller_and_by_configuration() {
    let weather = Weather::start().await;
    let named = async |optimizer: &str, more: Value| {
        let engine = engine(&weather.yaml(optimizer)).await;
        call_tool(&engine, "a_fail", more).await.to_string().contains("fallback_suggestions")
    };
    assert!(named("", json!({})).await);
    assert!(!named("", json!({"include_fallbacks": false})).await);
    assert!(!named(", maxFallbacks: 0", json!({})).await);
}

#[tokio::test]
async fn a_tool_that_the_caller_may_not_call_is_never_named_or_called() {
    let weather = Weather::start().await;
    weather.read_only();
    let options = Options { policy: Some(DenyTool::named("b_forecast")), ..Options::default() };
    let engine = engine_with(&weather.yaml(", autoRetryFallback: SafeOnly"), options).await;
    let answer = call_tool(&engine, "a_fail", json!({})).await;
    assert!(!answer.to_string().contains("b_forecast"), "{answer}");
    assert!(weather.works.calls().is_empty());
}

#[tokio::test]
async fn a_safe_alternative_is_called_once_and_the_result_says_so() {
    let weather = Weather::start().await;
    weather.read_only();
    let engine = engine(&weather.yaml(", autoRetryFallback: SafeOnly")).await;
    let answer = call_tool(&engine, "a_fail", json!({})).await;
    assert_ne!(answer["isError"], true, "{answer}");
    let meta = &answer["_meta"]["vmcp/fallback"];
    assert_eq!(meta["original_error"], "it is broken");
    assert_eq!(meta["fallback"], json!({"server": "b", "tool": "b_forecast"}));
    let notice = answer["content"][0]["text"].as_str().unwrap();
    assert!(notice.contains("a_fail failed: it is broken") && notice.contains("b_forecast"), "{notice}");
    assert!(answer["content"][1]["text"].as_str().unwrap().contains("Basel"), "the result itself");
    assert_eq!(weather.works.calls().len(), 1);
}

#[tokio::test]
async fn a_tool_that_may_write_is_named_but_not_called() {
    for read_only in ["neither", "broken", "works", "idempotent", "destructive"] {
        let weather = Weather::start().await;
        match read_only {
            "broken" => weather.broken.annotate("fail", json!({"readOnlyHint": true})),
            "works" => weather.works.annotate("forecast", json!({"readOnlyHint": true})),
            // An overwrite is idempotent, and no safe thing to try.
            "idempotent" => {
                weather.broken.annotate("fail", json!({"readOnlyHint": true}));
                weather.works.annotate("forecast", json!({"idempotentHint": true}));
            }
            "destructive" => {
                weather.broken.annotate("fail", json!({"readOnlyHint": true}));
                weather.works.annotate("forecast", json!({"readOnlyHint": true, "destructiveHint": true}));
            }
            _ => {}
        }
        let engine = engine(&weather.yaml(", autoRetryFallback: SafeOnly")).await;
        let answer = call_tool(&engine, "a_fail", json!({})).await;
        assert_eq!(answer["isError"], true, "{read_only}: {answer}");
        assert!(answer.to_string().contains("b_forecast"), "{read_only}");
        assert!(weather.works.calls().is_empty(), "{read_only}");
    }
}

#[tokio::test]
async fn a_call_whose_arguments_do_not_fit_the_alternative_is_not_repeated() {
    let weather = Weather::start().await;
    weather.read_only();
    let engine = engine(&weather.yaml(", autoRetryFallback: SafeOnly")).await;
    let answer = call_tool(&engine, "a_fail", json!({"parameters": {"town": 7}})).await;
    assert_eq!(answer["isError"], true);
    assert!(weather.works.calls().is_empty());
}
