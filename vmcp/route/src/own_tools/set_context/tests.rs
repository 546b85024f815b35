//! Contexts: what is listed and learned within them.

mod learned_uses;

use serde_json::{Value, json};
use vmcp_config::status::EmbeddingState;
use vmcp_embed::testing::FakeService;
use vmcp_wire::lists::pages::List;

use crate::Caller;
use crate::testing::{Scripted, backends, call, call_with, config, eventually};
use vmcp_engine::access::identity::{Identity, Principal};
use vmcp_engine::context_key::ContextKey;
use vmcp_engine::engine::{Engine, Options, Storage};
use vmcp_engine::optim::names::NameStyle;

const TASK: &str = "follow the tickets of my team";

/// Twelve tools, of which `fail` fails.
async fn tracker() -> Scripted {
    let tools = [
        ("read_issue", "Reads a ticket."),
        ("list_issues", "Lists the tickets."),
        ("watch_issue", "Follows a ticket of Jira."),
        ("send_mail", "Sends a mail."),
        ("read_mail", "Reads the mails."),
        ("get_weather", "Tells the weather."),
        ("book_flight", "Books a flight."),
        ("add_user", "Adds a person."),
        ("draw_chart", "Draws a chart."),
        ("run_query", "Asks the database."),
        ("make_note", "Writes a note."),
        ("fail", "Breaks."),
    ];
    Scripted::start(&tools.map(|(name, description)| (name, description, json!({})))).await
}

/// An engine under `exposure: Contextual` with lists of four tools, and what it is made of.
struct Contextual {
    engine: Engine,
    service: FakeService,
    server: Scripted,
}

impl Contextual {
    async fn start() -> Contextual {
        let (server, service) = (tracker().await, FakeService::start().await.unwrap());
        let engine = engine_of(&yaml(&server, &service, "", ""), Storage::Memory).await;
        Contextual { engine, service, server }
    }
}

fn yaml(server: &Scripted, service: &FakeService, contextual: &str, more: &str) -> String {
    let optimizer = format!(
        "optimizer: {{ exposure: Contextual, contextual: {{ topK: 4{contextual} }}, \
         embeddings: {{ provider: tei, tei: {{ endpoint: '{}' }} }} }}\n",
        service.url()
    );
    backends(&[("s", &server.url)], &(optimizer + more))
}

async fn engine_of(yaml: &str, storage: Storage) -> Engine {
    let options = Options { storage, ..Options::default() };
    let engine = Engine::start(config(yaml), options).await.unwrap();
    let ready = || {
        let status = engine.embedding_status();
        status.state == EmbeddingState::Ready && status.embedded >= 11
    };
    eventually("the tools are embedded", ready).await;
    engine
}

/// Sets a context; returns its handle and the whole answer.
async fn set_context(engine: &Engine, query: &str) -> (String, Value) {
    let set = call(engine, "optim.set_context", json!({"query": query})).await.unwrap();
    (set["structuredContent"]["context_id"].as_str().unwrap().to_owned(), set)
}

async fn use_tool(engine: &Engine, id: &str, tool: &str) -> Value {
    let arguments = json!({"tool_name": tool, "parameters": {}, "context_id": id});
    call(engine, "optim.call_tool", arguments).await.unwrap()
}

fn listed(engine: &Engine, id: &str) -> Vec<String> {
    listed_for(engine, &Caller::default(), id)
}

fn listed_for(engine: &Engine, caller: &Caller, id: &str) -> Vec<String> {
    let snapshot = engine.snapshot();
    let view = snapshot.view(&caller.principal);
    let key = ContextKey::of_handle(id);
    let list = engine.contextual_list(&snapshot, &view, key, caller.principal.key(), NameStyle::Underscore);
    let names =
        |entries: &[vmcp_engine::engine::ListEntry]| entries.iter().map(|entry| entry.key.clone()).collect();
    match &list {
        Some(own) => names(own.entries()),
        None => names(view.list(List::Tools, NameStyle::Underscore).entries()),
    }
}

/// Confidences of learned pairs, by tool.
async fn learned(engine: &Engine) -> Vec<(String, f64)> {
    engine.learner().flush().await;
    let learned = engine.learner().learned();
    let mut pairs: Vec<_> = learned.all().map(|pair| (pair.tool.1.to_string(), pair.confidence)).collect();
    pairs.sort_by(|one, other| one.0.cmp(&other.0));
    pairs
}

#[tokio::test]
async fn a_context_is_acknowledged_and_a_mistake_named() {
    let Contextual { engine, service, server: _server } = Contextual::start().await;
    let set = json!({"query": "file operations", "intent": "files"});
    let set = call(&engine, "optim_set_context", set).await.unwrap();
    let text = set["content"][0]["text"].as_str().unwrap();
    assert!(text.starts_with("Context updated."), "{text}");
    assert!(text.contains("file operations") && text.contains("Intent: files"), "{text}");
    let empty = call(&engine, "optim.set_context", json!({"query": " "})).await.unwrap();
    assert_eq!(empty["isError"], true);

    // Without its model, a context is acknowledged all the same, and says so.
    drop(service);
    let (id, set) = set_context(&engine, "something new").await;
    assert!(set["structuredContent"]["degraded_reason"].is_string(), "{set}");
    assert_eq!(listed(&engine, &id).len(), 12 + 4, "all tools, and vmcp's own");
    assert_eq!(use_tool(&engine, &id, "s_read_issue").await["isError"], Value::Null);
    assert_eq!(learned(&engine).await, []);
}

#[tokio::test]
async fn little_known_tasks_list_everything_and_known_ones_the_tools_that_fit() {
    let all = Contextual::start().await;
    let engine = &all.engine;
    let (id, set) = set_context(engine, TASK).await;
    assert_eq!(set["structuredContent"]["confidence"], 0.0);
    assert_eq!(listed(engine, &id).len(), 12 + 4, "a cold start hides nothing");
    for tool in ["s_watch_issue", "s_get_weather", "s_draw_chart"] {
        use_tool(engine, &id, tool).await;
    }
    assert_eq!(learned(engine).await.len(), 3);

    let (id, set) = set_context(engine, TASK).await;
    assert_eq!(set["structuredContent"]["confidence"], 0.3);
    assert_eq!(set["structuredContent"]["listed_tools"], 4);
    let names = listed(engine, &id);
    assert!(names.is_sorted(), "{names:?}");
    let own = ["optim_call_tool", "optim_find_tool", "optim_search_available_tools", "optim_set_context"];
    for name in own.into_iter().chain(["s_watch_issue", "s_get_weather", "s_draw_chart"]) {
        assert!(names.iter().any(|listed| listed == name), "{name} in {names:?}");
    }
    assert_eq!(names.len(), 4 + own.len());
    let unlisted = call(engine, "s_book_flight", json!({})).await.unwrap();
    assert!(unlisted.get("isError").is_none(), "what is not listed can be called");

    let (other, _) = set_context(engine, "book a flight").await;
    assert_eq!(listed(engine, &other).len(), 12 + 4, "another task is as unknown as before");
    assert_eq!(listed(engine, "0000000000000000").len(), 12 + 4, "and so is a client without a context");
}

#[tokio::test]
async fn a_profile_has_lists_that_fit_by_its_own_exposure() {
    let (server, service) = (tracker().await, FakeService::start().await.unwrap());
    let profiles = "profiles: { fits: { exposure: Contextual }, all: { exposure: All } }\n";
    for (everyone, fitting) in [("All", Some("fits")), ("Contextual", None)] {
        let settings = yaml(&server, &service, "", profiles);
        let settings = settings
            .replace("exposure: Contextual, contextual", &format!("exposure: {everyone}, contextual"));
        let engine = engine_of(&settings, Storage::Memory).await;
        let of = |profile: Option<&str>| Caller {
            principal: Principal { profile: profile.map(Into::into), ..Principal::default() },
            ..Caller::default()
        };
        let mut sizes = Vec::new();
        for caller in [of(fitting), of(Some("all"))] {
            let set = json!({"name": "optim.set_context", "arguments": {"query": TASK}});
            let set = call_with(&engine, &caller, set).await.unwrap();
            let id = set["structuredContent"]["context_id"].as_str().unwrap().to_owned();
            for tool in ["s_watch_issue", "s_get_weather", "s_draw_chart"] {
                let arguments = json!({"tool_name": tool, "parameters": {}, "context_id": id});
                let used = json!({"name": "optim.call_tool", "arguments": arguments});
                call_with(&engine, &caller, used).await.unwrap();
            }
            engine.learner().flush().await;
            let set = json!({"name": "optim.set_context", "arguments": {"query": TASK}});
            let set = call_with(&engine, &caller, set).await.unwrap()["structuredContent"].clone();
            let id = set["context_id"].as_str().unwrap();
            sizes.push((listed_for(&engine, &caller, id).len(), set["listed_tools"].clone()));
        }
        assert_eq!(sizes, [(4 + 4, json!(4)), (12 + 4, json!(null))], "{everyone} for everyone");
    }
}

#[tokio::test]
async fn each_use_teaches_by_the_way_in_which_the_tool_was_found() {
    let all = Contextual::start().await;
    let engine = &all.engine;
    let (id, _) = set_context(engine, TASK).await;
    let search = json!({"query": "ticket", "context_id": id});
    let found = call(engine, "optim.search_available_tools", search).await.unwrap();
    let text = found["content"][0]["text"].as_str().unwrap();
    assert!(text.starts_with("Found 3 tool(s) matching \"ticket\"\n- **s_"), "{text}");
    for tool in ["s_read_issue", "s_watch_issue", "s_add_user", "s_fail"] {
        use_tool(engine, &id, tool).await;
    }
    // A direct call of a client that names its context in `_meta`.
    let caller = Caller { context: ContextKey::of_handle(&id), ..Caller::default() };
    call_with(engine, &caller, json!({"name": "s_make_note", "arguments": {}})).await.unwrap();
    call(engine, "s_send_mail", json!({})).await.unwrap();
    let pairs = learned(engine).await;
    let expected = [("add_user", 0.5), ("make_note", 0.5), ("read_issue", 1.5), ("watch_issue", 1.5)];
    assert_eq!(
        pairs,
        expected.map(|(tool, confidence)| (tool.to_owned(), confidence)),
        "neither failures nor calls without a context"
    );

    // Known by now; a tool of the list counts more than one from elsewhere, and a search more than both.
    let (id, _) = set_context(engine, TASK).await;
    assert!(listed(engine, &id).iter().any(|name| name == "s_add_user"));
    use_tool(engine, &id, "s_add_user").await;
    use_tool(engine, &id, "s_run_query").await;
    let pairs = learned(engine).await;
    let of = |tool: &str| pairs.iter().find(|pair| pair.0 == tool).unwrap().1;
    // Two thirds of the gap between .5 and 1.5.
    assert!((of("add_user") - (0.5 + 1.0 / 1.5)).abs() < 1e-9, "{pairs:?}");
    assert!((of("run_query") - 0.5).abs() < 1e-9, "{pairs:?}");

    // A new context forgets the search before.
    call(engine, "optim.find_tool", json!({"tool_description": "books a flight", "context_id": id}))
        .await
        .unwrap();
    let set = json!({"query": "something else altogether", "context_id": id});
    call(engine, "optim.set_context", set).await.unwrap();
    use_tool(engine, &id, "s_book_flight").await;
    let pairs = learned(engine).await;
    let of_flight: Vec<_> = pairs.iter().filter(|pair| pair.0 == "book_flight").map(|pair| pair.1).collect();
    assert_eq!(of_flight, [0.5], "{pairs:?}");
}

#[tokio::test]
async fn what_was_learned_outlives_the_process_and_shows_nothing_that_is_hidden() {
    let (server, service) = (tracker().await, FakeService::start().await.unwrap());
    let dir = tempfile::tempdir().unwrap();
    let storage = || Storage::Dir(dir.path().to_owned());
    let engine = engine_of(&yaml(&server, &service, "", ""), storage()).await;
    let (id, _) = set_context(&engine, TASK).await;
    for tool in ["s_get_weather", "s_draw_chart", "s_add_user", "s_run_query"] {
        use_tool(&engine, &id, tool).await;
    }
    engine.shutdown(std::time::Duration::ZERO).await;
    drop(engine);

    let hides = "aggregation: { tools: [{ workload: s, exclude: [get_weather] }] }\n";
    let engine = engine_of(&yaml(&server, &service, "", hides), storage()).await;
    eventually("the pairs are loaded", || engine.learner().learned().len() == 4).await;
    let (id, set) = set_context(&engine, TASK).await;
    assert_eq!(set["structuredContent"]["listed_tools"], 4, "{set}");
    let names = listed(&engine, &id);
    assert!(names.iter().any(|name| name == "s_draw_chart"), "{names:?}");
    assert!(!names.iter().any(|name| name == "s_get_weather"), "{names:?}");
    let find = json!({"tool_description": TASK, "explain": true});
    let found = call(&engine, "optim.find_tool", find).await.unwrap();
    let tools = found["structuredContent"]["tools"].as_array().unwrap();
    assert!(tools.iter().all(|tool| tool["name"] != "s_get_weather"), "{found}");
    let chart = tools.iter().find(|tool| tool["name"] == "s_draw_chart").unwrap();
    assert!(chart["explanation"]["learned_bonus"].as_f64().unwrap() > 0.0, "{chart}");
}

#[tokio::test]
async fn without_a_context_the_list_may_be_of_own_tools_alone() {
    let all = Contextual::start().await;
    let engine = &all.engine;
    assert_eq!(listed(engine, "").len(), 12 + 4);
    engine.apply(config(&yaml(&all.server, &all.service, ", noContext: None", ""))).await;
    assert_eq!(listed(engine, "").len(), 4, "vmcp's own");
    let (id, _) = set_context(engine, TASK).await;
    assert_eq!(listed(engine, &id).len(), 12 + 4, "an unknown task hides nothing");
}

/// Bob may not use the tool that Alice uses most.
const POLICIES: &str = r#"
incomingAuth:
  authz:
    policies:
    - 'permit(principal, action, resource);'
    - 'forbid(principal == Client::"bob", action, resource == Tool::"s_watch_issue");'
"#;

#[tokio::test]
async fn what_one_identity_taught_changes_nothing_for_another() {
    let (server, service) = (tracker().await, FakeService::start().await.unwrap());
    let engine = engine_of(&yaml(&server, &service, "", POLICIES), Storage::Memory).await;
    let of = |name: &str| {
        let identity = Identity::known("https://idp", name, serde_json::Map::new(), None);
        Caller { principal: Principal::from(identity), ..Caller::default() }
    };
    let (alice, bob) = (of("alice"), of("bob"));
    let ask = async |caller: &Caller, tool: &str, arguments: Value| {
        call_with(&engine, caller, json!({"name": tool, "arguments": arguments})).await.unwrap()
    };
    let enter = async |caller: &Caller| {
        let set = ask(caller, "optim.set_context", json!({"query": TASK})).await;
        (set["structuredContent"]["context_id"].as_str().unwrap().to_owned(), set)
    };
    let (id, _) = enter(&alice).await;
    for tool in ["s_watch_issue", "s_get_weather", "s_draw_chart"] {
        let used = json!({"tool_name": tool, "parameters": {}, "context_id": id});
        ask(&alice, "optim.call_tool", used).await;
    }
    assert_eq!(learned(&engine).await.len(), 3);

    let (id, _) = enter(&alice).await;
    assert!(listed_for(&engine, &alice, &id).contains(&"s_watch_issue".to_owned()));
    let (id, set) = enter(&bob).await;
    assert_eq!(set["structuredContent"]["confidence"], 0.0, "{set}");
    assert_eq!(set["structuredContent"]["listed_tools"], Value::Null, "{set}");
    let names = listed_for(&engine, &bob, &id);
    assert!(names.contains(&"s_get_weather".to_owned()), "his list is whole: {names:?}");
    assert!(!names.contains(&"s_watch_issue".to_owned()), "{names:?}");
    let find = json!({"tool_description": TASK, "explain": true, "limit": 12});
    let learned_for = async |caller: &Caller| {
        let found = ask(caller, "optim.find_tool", find.clone()).await;
        let tools = found["structuredContent"]["tools"].as_array().unwrap();
        let gained = |tool: &&Value| tool["explanation"]["learned_bonus"].as_f64().unwrap() > 0.0;
        tools.iter().filter(gained).count()
    };
    assert_eq!((learned_for(&alice).await, learned_for(&bob).await), (3, 0));
    for (tool, arguments) in [
        ("optim.set_context", json!({"query": TASK})),
        ("optim.search_available_tools", json!({"query": TASK, "context_id": id})),
        ("optim.find_tool", json!({"tool_description": TASK})),
    ] {
        let answer = ask(&bob, tool, arguments).await.to_string();
        assert!(!answer.contains("watch_issue"), "{tool}: {answer}");
    }
}

#[tokio::test]
async fn a_client_is_shown_no_tool_by_anothers_uses_that_it_may_not_call() {
    let (server, service) = (tracker().await, FakeService::start().await.unwrap());
    let profiles =
        "profiles: { bob: { tools: ['s_draw_chart', 's_add_user', 's_run_query', 's_read_issue'] } }\n";
    let engine = engine_of(&yaml(&server, &service, "", profiles), Storage::Memory).await;
    let (id, _) = set_context(&engine, TASK).await;
    for tool in ["s_get_weather", "s_draw_chart", "s_add_user", "s_run_query"] {
        use_tool(&engine, &id, tool).await;
    }
    assert_eq!(learned(&engine).await.len(), 4);
    let bob = Caller {
        principal: Principal { profile: Some("bob".into()), ..Principal::default() },
        ..Caller::default()
    };
    let ask = async |tool: &str, arguments: Value| {
        call_with(&engine, &bob, json!({"name": tool, "arguments": arguments})).await.unwrap()
    };
    let set = ask("optim.set_context", json!({"query": TASK})).await;
    let id = set["structuredContent"]["context_id"].as_str().unwrap();
    let names = listed_for(&engine, &bob, id);
    assert!(names.iter().any(|name| name == "s_draw_chart"), "{names:?}");
    assert!(!names.iter().any(|name| name == "s_get_weather"), "{names:?}");
    for (tool, arguments) in [
        ("optim.find_tool", json!({"tool_description": TASK, "context_id": id})),
        ("optim.search_available_tools", json!({"query": "get the weather", "context_id": id})),
    ] {
        let found = ask(tool, arguments).await.to_string();
        assert!(!found.contains("s_get_weather"), "{tool}: {found}");
    }
}

#[tokio::test]
async fn a_context_may_choose_by_the_words_of_its_query() {
    for source in ["Keywords", "Both"] {
        let all = Contextual::start().await;
        let engine = &all.engine;
        let settings = format!(", noContext: None, contextSource: {source}");
        engine.apply(config(&yaml(&all.server, &all.service, &settings, ""))).await;
        assert_eq!(listed(engine, "").len(), 4, "vmcp's own");
        let (id, set) = set_context(engine, "PROJ-1 comments").await;
        assert_eq!(set["structuredContent"]["listed_tools"], 3, "{set}");
        let names = listed(engine, &id);
        for tool in ["s_list_issues", "s_read_issue", "s_watch_issue"] {
            assert!(names.iter().any(|name| name == tool), "{tool} in {names:?}");
        }
        assert_eq!(names.len(), 3 + 4, "{names:?}");
        let (id, _) = set_context(engine, "something without such a word").await;
        assert_eq!(listed(engine, &id).len(), 12 + 4, "uncertain, nothing is hidden");
    }
}

#[tokio::test]
async fn a_context_names_the_topics_of_its_words_or_of_the_nearest_tool() {
    let all = Contextual::start().await;
    let engine = &all.engine;
    let words = json!(["jira", "communication"]);
    for (source, query, expected) in [
        // No word means a topic; the text of `add_user` is the nearest.
        ("Embeddings", "adds a", json!(["users"])),
        ("Both", "adds a", json!(["users"])),
        ("Keywords", "adds a", Value::Null),
        ("Both", "PROJ-1 comments", words.clone()),
        ("Keywords", "PROJ-1 comments", words),
    ] {
        let settings = format!(", contextSource: {source}");
        engine.apply(config(&yaml(&all.server, &all.service, &settings, ""))).await;
        let (_, set) = set_context(engine, query).await;
        assert_eq!(set["structuredContent"]["contexts"], expected, "{source} {query}: {set}");
    }
}

#[tokio::test]
async fn a_tool_that_was_just_used_stays_listed_after_a_change_of_the_context() {
    for (retained, stays) in [(0, false), (3, true)] {
        let all = Contextual::start().await;
        let engine = &all.engine;
        let settings = format!(", contextSource: Keywords, retainRecentCalls: {retained}");
        engine.apply(config(&yaml(&all.server, &all.service, &settings, ""))).await;
        let (id, _) = set_context(engine, "PROJ-1 comments").await;
        use_tool(engine, &id, "s_book_flight").await;
        let set = json!({"query": "PROJ-2 comments", "context_id": id});
        let set = call(engine, "optim.set_context", set).await.unwrap();
        let count = if stays { 4 } else { 3 };
        assert_eq!(set["structuredContent"]["listed_tools"], count, "{set}");
        let names = listed(engine, &id);
        assert_eq!(names.iter().any(|name| name == "s_book_flight"), stays, "{names:?}");
        assert_eq!(names.len(), count + 4, "{names:?}");
    }
}
