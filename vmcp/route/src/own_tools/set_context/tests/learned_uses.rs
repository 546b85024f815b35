//! Uses of tools within a context: which of them teach, how much, and what is stored.

use super::*;

/// All ways to find a tool, and their arguments for the task.
fn searches() -> [(&'static str, Value); 4] {
    [
        ("find_tool", json!({"tool_description": TASK})),
        ("search_tools", json!({"query": TASK})),
        ("recommend_tools", json!({"task_description": TASK})),
        ("search_available_tools", json!({"query": "ticket"})),
    ]
}

#[tokio::test]
async fn a_tool_that_any_search_found_teaches_most() {
    for (search, mut arguments) in searches() {
        let (server, service) = (tracker().await, FakeService::start().await.unwrap());
        let tools = "tools: [find_tool, call_tool, set_context, search_available_tools, search_tools, \
                     recommend_tools], exposure: Contextual";
        let settings = yaml(&server, &service, "", "").replace("exposure: Contextual", tools);
        let engine = engine_of(&settings, Storage::Memory).await;
        let (id, _) = set_context(&engine, TASK).await;
        let caller = Caller { context: ContextKey::of_handle(&id), ..Caller::default() };
        arguments["context_id"] = id.as_str().into();
        let asked = json!({"name": format!("optim.{search}"), "arguments": arguments});
        let found = call_with(&engine, &caller, asked).await.unwrap();
        assert_ne!(found["isError"], true, "{search}: {found}");
        let mut tools = found["structuredContent"]["tools"].as_array().unwrap().iter();
        let works = |tool: &Value| {
            let name = tool["tool"].as_str().or(tool["name"].as_str()).unwrap().to_owned();
            (name != "s_fail").then_some(name)
        };
        let name = tools.find_map(works).unwrap();
        use_tool(&engine, &id, &name).await;
        let tool = name.trim_start_matches("s_").to_owned();
        assert_eq!(learned(&engine).await, [(tool, 1.5)], "{search}");
    }
}

#[tokio::test]
async fn of_the_chosen_tools_only_the_used_one_teaches_and_only_while_its_context_lasts() {
    let all = Contextual::start().await;
    let engine = &all.engine;
    let (id, _) = set_context(engine, TASK).await;
    for tool in ["s_get_weather", "s_draw_chart", "s_add_user"] {
        use_tool(engine, &id, tool).await;
    }
    let before = learned(engine).await;
    let (id, _) = set_context(engine, TASK).await;
    assert!(listed(engine, &id).contains(&"s_draw_chart".to_owned()));
    use_tool(engine, &id, "s_draw_chart").await;
    let after = learned(engine).await;
    let changed: Vec<_> = after.iter().filter(|pair| !before.contains(pair)).collect();
    assert_eq!((after.len(), changed.len()), (3, 1), "{after:?}");
    assert_eq!(changed[0].0, "draw_chart");

    // The list that was chosen for the context before counts no more.
    let set = json!({"query": "something new", "context_id": id});
    call(engine, "optim.set_context", set).await.unwrap();
    use_tool(engine, &id, "s_add_user").await;
    let learned_pairs = engine.learner();
    learned_pairs.flush().await;
    let pairs = learned_pairs.learned();
    // One pair of each context: the new one counts the use as of a tool from elsewhere.
    let of_tool: Vec<_> =
        pairs.all().filter(|pair| &*pair.tool.1 == "add_user").map(|pair| pair.confidence).collect();
    assert_eq!(of_tool.len(), 2, "{of_tool:?}");
    assert!(of_tool.iter().all(|confidence| (confidence - 0.5).abs() < 1e-9), "{of_tool:?}");
}

#[tokio::test]
async fn fifteen_of_forty_tools_are_listed_for_a_known_task() {
    let names: Vec<_> = (0..40).map(|number| format!("tool_{number}")).collect();
    let tools: Vec<_> = names.iter().map(|name| (name.as_str(), "Does something.", json!({}))).collect();
    let (server, service) = (Scripted::start(&tools).await, FakeService::start().await.unwrap());
    let settings = yaml(&server, &service, "", "").replace("contextual: { topK: 4 }, ", "");
    let engine = engine_of(&settings, Storage::Memory).await;
    eventually("all tools are embedded", || engine.embedding_status().embedded == 40).await;
    let (id, _) = set_context(&engine, TASK).await;
    assert_eq!(listed(&engine, &id).len(), 40 + 4, "everything at first");
    for tool in ["s_tool_1", "s_tool_2", "s_tool_3", "s_tool_4"] {
        use_tool(&engine, &id, tool).await;
    }
    learned(&engine).await;
    let (id, set) = set_context(&engine, TASK).await;
    assert_eq!(set["structuredContent"]["listed_tools"], 15, "{set}");
    let names = listed(&engine, &id);
    assert!(names.len() == 15 + 4 && names.is_sorted(), "{names:?}");
    let ranks = ranks(&engine, &id);
    let mut best_first: Vec<_> = ranks.iter().map(|(rank, _)| *rank).collect();
    best_first.sort_unstable();
    assert_eq!(best_first, (1..=15).collect::<Vec<_>>(), "vmcp's own tools have none: {ranks:?}");
    let mut used: Vec<_> = ranks.iter().filter(|(rank, _)| *rank <= 4).map(|(_, name)| &**name).collect();
    used.sort_unstable();
    assert_eq!(used, ["s_tool_1", "s_tool_2", "s_tool_3", "s_tool_4"], "{ranks:?}");
}

/// Returns the ranks of the tools in the list of a context, each with its tool.
fn ranks(engine: &Engine, id: &str) -> Vec<(u64, String)> {
    let (snapshot, caller) = (engine.snapshot(), Caller::default());
    let view = snapshot.view(&caller.principal);
    let key = ContextKey::of_handle(id);
    let list = engine.contextual_list(&snapshot, &view, key, caller.principal.key(), NameStyle::Underscore);
    let list = list.expect("a list of its own");
    let ranked = list.entries().iter().filter_map(|entry| {
        let definition: Value = serde_json::from_str(entry.raw.get()).unwrap();
        Some((definition["_meta"]["vmcp/rank"].as_u64()?, entry.key.clone()))
    });
    ranked.collect()
}

#[tokio::test]
async fn without_embeddings_a_context_is_acknowledged_and_nothing_is_learned() {
    let server = tracker().await;
    let settings = "optimizer: { exposure: Contextual, embeddings: { provider: none } }\n";
    let engine = crate::testing::engine(&backends(&[("s", &server.url)], settings)).await;
    let (id, set) = set_context(&engine, TASK).await;
    assert!(set["content"][0]["text"].as_str().unwrap().starts_with("Context updated."), "{set}");
    assert_eq!(set["isError"], Value::Null);
    assert_eq!(listed(&engine, &id).len(), 12 + 4);
    assert_eq!(use_tool(&engine, &id, "s_read_issue").await["isError"], Value::Null);
    assert_eq!(learned(&engine).await, []);
}

#[tokio::test]
async fn the_text_of_a_query_is_stored_only_where_that_is_configured() {
    for (stores, expected) in [(false, None), (true, Some(TASK.to_owned()))] {
        let (server, service) = (tracker().await, FakeService::start().await.unwrap());
        let dir = tempfile::tempdir().unwrap();
        let learning = format!("exposure: Contextual, learning: {{ storeQueryText: {stores} }}");
        let settings = yaml(&server, &service, "", "").replace("exposure: Contextual", &learning);
        let engine = engine_of(&settings, Storage::Dir(dir.path().to_owned())).await;
        let (id, _) = set_context(&engine, TASK).await;
        use_tool(&engine, &id, "s_read_issue").await;
        learned(&engine).await;
        let stored = vmcp_store::StateStore::open(dir.path()).unwrap().all_learned().unwrap();
        assert_eq!(stored.len(), 1);
        assert_eq!(stored[0].query, expected);
    }
}

/// Returns the names of the tools that a search for the task finds, best first.
async fn found(engine: &Engine) -> Vec<String> {
    let find = json!({"tool_description": TASK, "limit": 12});
    let found = call(engine, "optim.find_tool", find).await.unwrap();
    let tools = found["structuredContent"]["tools"].as_array().unwrap();
    tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_tool_used_twice_for_a_query_comes_among_the_first_three_and_the_seed_only_adds_a_bonus() {
    for (mode, comes) in [("promote", true), ("seed", false)] {
        let (server, service) = (tracker().await, FakeService::start().await.unwrap());
        let learning = format!(
            "learning: {{ mode: {mode} }}, search: {{ learnedWeight: '0.01' }}, exposure: Contextual"
        );
        let settings = yaml(&server, &service, "", "").replace("exposure: Contextual", &learning);
        let engine = engine_of(&settings, Storage::Memory).await;
        let before = found(&engine).await;
        let last = before.iter().rfind(|tool| *tool != "s_fail").unwrap().clone();
        for uses in 0..3 {
            let after = found(&engine).await;
            let place = after.iter().position(|tool| *tool == last).unwrap();
            assert_eq!(place < 3, comes && uses > 1, "{mode}, {uses} uses: {after:?}");
            assert_eq!(after.first(), before.first(), "the first hit keeps its place");
            assert_eq!(after.len(), before.len());
            let (id, _) = set_context(&engine, TASK).await;
            use_tool(&engine, &id, &last).await;
            learned(&engine).await;
        }
    }
}
