//! Dialogues with a scripted Codex, message by message.

use super::*;

/// An adapter after its handshake, in the workspace `/w`.
struct Dialogue {
    adapter: Adapter,
}

impl Dialogue {
    fn new(capabilities: &Value) -> Dialogue {
        let settings = AdapterSettings {
            version: "1".to_owned(),
            allow_dangerous: false,
            workspaces: vec!["/w".into()],
        };
        let mut adapter = Adapter::new(settings);
        let params = json!({"protocolVersion": "2025-06-18", "capabilities": capabilities});
        let asked = adapter.take_from_client(&json!({"id": "i", "method": "initialize", "params": params}));
        let [Effect::ToCodex(handshake)] = &asked[..] else { panic!("{asked:?}") };
        let done = adapter.take_from_codex(&json!({"id": handshake["id"], "result": {}}));
        let Some(Effect::ToClient(answer)) = done.last() else { panic!("{done:?}") };
        assert_eq!(answer["result"]["protocolVersion"], "2025-06-18");
        Dialogue { adapter }
    }

    fn asks() -> Dialogue {
        Dialogue::new(&json!({"elicitation": {}}))
    }

    /// Takes a message of the client; carries out what concerns directories.
    fn client(&mut self, message: &Value) -> Vec<Effect> {
        let mut effects = self.adapter.take_from_client(message);
        while let Some(at) = effects.iter().position(|effect| matches!(effect, Effect::Locate(..))) {
            if let Effect::Locate(call, path) = effects.remove(at) {
                effects.extend(self.adapter.located(call, Ok(path)));
            }
        }
        effects
    }

    fn call(&mut self, id: u64, tool: &str, arguments: &Value) -> Vec<Effect> {
        let params = json!({"name": tool, "arguments": arguments, "_meta": {"progressToken": id}});
        self.client(&json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}))
    }

    fn codex(&mut self, message: &Value) -> Vec<Effect> {
        self.adapter.take_from_codex(message)
    }

    /// Answers the one request to Codex among the effects.
    fn reply(&mut self, effects: &[Effect], result: &Value) -> Vec<Effect> {
        self.codex(&json!({"id": to_codex(effects)["id"], "result": result}))
    }

    /// Begins a turn of the thread `t`; returns the effects of its begin.
    fn turn(&mut self, id: u64, arguments: &Value) {
        let started = self.call(id, "codex", arguments);
        let begun = self.reply(&started, &json!({"thread": {"id": "t"}}));
        assert_eq!(to_codex(&begun)["method"], "turn/start");
        assert!(self.reply(&begun, &json!({"turn": {"id": "u", "status": "inProgress"}})).is_empty());
    }

    fn note(&mut self, method: &str, params: &Value) -> Vec<Effect> {
        let mut params = params.clone();
        params["threadId"] = "t".into();
        self.codex(&json!({"method": method, "params": params}))
    }

    fn complete(&mut self, turn: &Value) -> Value {
        let ended = self.note("turn/completed", &json!({"turn": turn}));
        to_client(&ended)["result"]["structuredContent"].clone()
    }
}

fn to_codex(effects: &[Effect]) -> &Value {
    let sent = effects.iter().find_map(|effect| match effect {
        Effect::ToCodex(message) => Some(message),
        _ => None,
    });
    sent.unwrap_or_else(|| panic!("nothing to Codex: {effects:?}"))
}

fn to_client(effects: &[Effect]) -> &Value {
    let sent = effects.iter().find_map(|effect| match effect {
        Effect::ToClient(message) => Some(message),
        _ => None,
    });
    sent.unwrap_or_else(|| panic!("nothing to the client: {effects:?}"))
}

#[test]
fn a_turn_returns_its_response_items_and_usage() {
    let mut dialogue = Dialogue::asks();
    let started = dialogue.call(7, "codex", &json!({"prompt": "go", "sandbox": "workspaceWrite"}));
    let start = to_codex(&started);
    assert_eq!(
        (&start["method"], &start["params"]["sandbox"]),
        (&json!("thread/start"), &json!("workspace-write"))
    );
    assert_eq!(start["params"]["cwd"], "/w");
    let begun = dialogue.reply(&started, &json!({"thread": {"id": "t"}}));
    assert_eq!(to_codex(&begun)["params"]["sandboxPolicy"], json!({"type": "workspaceWrite"}));
    dialogue.reply(&begun, &json!({"turn": {"id": "u"}}));
    let item = json!({"type": "commandExecution", "id": "1", "command": "ls"});
    let progress = dialogue.note("item/started", &json!({"item": item}));
    assert_eq!(
        to_client(&progress)["params"],
        json!({"progressToken": 7, "progress": 1, "message": "Codex runs ls"})
    );
    dialogue.note("item/completed", &json!({"item": item}));
    dialogue.note("item/completed", &json!({"item": {"type": "agentMessage", "text": "done"}}));
    dialogue.note("thread/tokenUsage/updated", &json!({"tokenUsage": {"total": {"totalTokens": 14}}}));
    assert!(dialogue.note("something/new", &json!({})).is_empty());
    let other = json!({"turn": {"id": "another", "status": "completed"}});
    assert!(dialogue.note("turn/completed", &other).is_empty());
    let result = dialogue.complete(&json!({"id": "u", "status": "completed", "items": []}));
    assert_eq!(
        result,
        json!({
            "success": true, "thread_id": "t", "session_id": null, "turn_id": "u", "response": "done",
            "items": [item, {"type": "agentMessage", "text": "done"}],
            "usage": {"total": {"totalTokens": 14}}, "is_continuation": false,
        })
    );
}

#[test]
fn a_thread_is_resumed_and_takes_one_turn_at_a_time() {
    let mut dialogue = Dialogue::asks();
    let arguments = json!({"prompt": "on", "thread_id": "t"});
    let resumed = dialogue.call(1, "codex", &arguments);
    assert_eq!(to_codex(&resumed)["method"], "thread/resume");
    let busy = dialogue.call(2, "codex", &arguments);
    let refused = &to_client(&busy)["result"];
    assert!(refused["structuredContent"]["error"].as_str().unwrap().contains("busy"), "{refused}");
    let busy = dialogue.call(2, "codex_archive_thread", &json!({"thread_id": "t"}));
    assert_eq!(to_client(&busy)["result"]["isError"], true);
    let begun = dialogue.reply(&resumed, &json!({"thread": {"id": "t"}}));
    // The end may overtake the reply that names the turn.
    assert!(dialogue.note("turn/completed", &json!({"turn": {"id": "u", "status": "completed"}})).is_empty());
    let ended = dialogue.reply(&begun, &json!({"turn": {"id": "u"}}));
    assert_eq!(to_client(&ended)["result"]["structuredContent"]["is_continuation"], true);
}

#[test]
fn failures_of_codex_are_told_with_its_words() {
    let mut dialogue = Dialogue::asks();
    dialogue.turn(1, &json!({"prompt": "go"}));
    let failed = dialogue.complete(&json!({"id": "u", "status": "failed", "error": {"message": "no quota"}}));
    assert_eq!((&failed["success"], &failed["error"]), (&json!(false), &json!("no quota")));
    let resumed = dialogue.call(3, "codex", &json!({"prompt": "on", "thread_id": "x"}));
    let unknown = json!({"id": to_codex(&resumed)["id"], "error": {"message": "no such thread"}});
    let expected = json!({"success": false, "error": "no such thread"});
    assert_eq!(to_client(&dialogue.codex(&unknown))["result"]["structuredContent"], expected);
    let asked = dialogue.call(2, "codex_archive_thread", &json!({"thread_id": "x"}));
    let id = &to_codex(&asked)["id"];
    let refused =
        dialogue.codex(&json!({"id": id, "error": {"code": -32600, "message": "thread not found"}}));
    let expected = json!({"success": false, "thread_id": "x", "error": "thread not found"});
    assert_eq!(to_client(&refused)["result"]["structuredContent"], expected);
}

#[test]
fn a_thread_that_cannot_be_continued_is_answered_with_the_way_on() {
    let mut dialogue = Dialogue::asks();
    // The words of Codex 0.171.
    for (said, expected) in [
        ("session x is archived. Run `codex unarchive x` to unarchive it first.", "leave thread_id out"),
        ("no rollout found for thread id x", "codex_list_threads lists"),
        ("the disk is full", "the disk is full"),
    ] {
        let resumed = dialogue.call(1, "codex", &json!({"prompt": "on", "thread_id": "x"}));
        let error = json!({"id": to_codex(&resumed)["id"], "error": {"code": -32600, "message": said}});
        let answer = dialogue.codex(&error);
        let told = &to_client(&answer)["result"];
        assert_eq!(told["isError"], true);
        assert!(told["structuredContent"]["error"].as_str().unwrap().contains(expected), "{told}");
    }
}

#[test]
fn approvals_are_asked_and_answered() {
    let mut dialogue = Dialogue::asks();
    dialogue.turn(1, &json!({"prompt": "go"}));
    let mut approve = |answer: &Value| {
        let params = json!({"threadId": "t", "itemId": "i", "command": "rm x"});
        let request = json!({"id": "q", "method": "item/commandExecution/requestApproval", "params": params});
        let asked = dialogue.codex(&request);
        let question = to_client(&asked);
        assert_eq!(question["method"], "elicitation/create");
        assert!(question["params"]["message"].as_str().unwrap().contains("rm x"));
        let mut answer = answer.clone();
        answer["id"] = question["id"].clone();
        let answered = dialogue.client(&answer);
        assert_eq!(to_codex(&answered)["id"], "q");
        to_codex(&answered)["result"]["decision"].clone()
    };
    let accept = json!({"result": {"action": "accept", "content": {"decision": "approve"}}});
    assert_eq!(approve(&accept), "accept");
    assert_eq!(approve(&json!({"result": {"action": "decline"}})), "decline");
    assert_eq!(approve(&json!({"error": {"code": -1, "message": "no"}})), "decline");
    let result = dialogue.complete(&json!({"id": "u", "status": "completed"}));
    assert_eq!(result["declined"].as_array().unwrap().len(), 1, "{result}");
}

#[test]
fn a_client_that_cannot_be_asked_declines_and_is_told() {
    let mut dialogue = Dialogue::new(&json!({}));
    dialogue.turn(1, &json!({"prompt": "go"}));
    let params = json!({"threadId": "t", "itemId": "i", "command": "rm x"});
    let request = json!({"id": 5, "method": "item/commandExecution/requestApproval", "params": params});
    let declined = dialogue.codex(&request);
    assert_eq!(to_codex(&declined), &json!({"id": 5, "result": {"decision": "decline"}}));
    let unknown = json!({"id": 6, "method": "item/permissions/requestApproval", "params": {"threadId": "t"}});
    assert_eq!(to_codex(&dialogue.codex(&unknown))["result"], json!({"permissions": {}}));
    let result = dialogue.complete(&json!({"id": "u", "status": "completed"}));
    let told = result["declined"].to_string();
    assert!(told.contains("declares no elicitation") && told.contains("item/permissions"), "{told}");
}

#[test]
fn a_cancelled_turn_is_interrupted_and_its_questions_are_closed() {
    let mut dialogue = Dialogue::asks();
    dialogue.turn(9, &json!({"prompt": "go"}));
    let params = json!({"threadId": "t", "itemId": "i", "command": "rm x"});
    let request = json!({"id": "q", "method": "item/commandExecution/requestApproval", "params": params});
    dialogue.codex(&request);
    let cancel = json!({"method": "notifications/cancelled", "params": {"requestId": 9}});
    let effects = dialogue.client(&cancel);
    let codex: Vec<_> =
        effects.iter().filter(|effect| matches!(effect, Effect::ToCodex(_))).cloned().collect();
    assert_eq!(to_codex(&codex), &json!({"id": "q", "result": {"decision": "cancel"}}));
    let interrupt = to_codex(&codex[1..]);
    assert_eq!(interrupt["method"], "turn/interrupt");
    assert_eq!(interrupt["params"], json!({"threadId": "t", "turnId": "u"}));
    let ended = dialogue.note("turn/completed", &json!({"turn": {"id": "u", "status": "interrupted"}}));
    assert_archives(&ended, "a thread that nobody was told of");
    dialogue.turn(10, &json!({"prompt": "again", "thread_id": "t"}));
    dialogue.client(&json!({"method": "notifications/cancelled", "params": {"requestId": 10}}));
    let ended = dialogue.note("turn/completed", &json!({"turn": {"id": "u", "status": "interrupted"}}));
    assert!(ended.is_empty(), "a continued thread stays, and a cancelled call has no answer: {ended:?}");
}

/// Checks that the only effect is the request to archive the thread `t`.
fn assert_archives(effects: &[Effect], why: &str) {
    let [Effect::ToCodex(archive)] = effects else { panic!("{why}: {effects:?}") };
    assert_eq!(archive["method"], "thread/archive", "{why}");
    assert_eq!(archive["params"], json!({"threadId": "t"}), "{why}");
}

#[test]
fn a_refused_interrupt_ends_the_cancelled_call() {
    let mut dialogue = Dialogue::asks();
    dialogue.turn(9, &json!({"prompt": "go", "thread_id": "t"}));
    let cancelled = json!({"method": "notifications/cancelled", "params": {"requestId": 9}});
    let interrupt = to_codex(&dialogue.client(&cancelled)).clone();
    let busy = dialogue.call(10, "codex", &json!({"prompt": "on", "thread_id": "t"}));
    assert!(to_client(&busy).to_string().contains("busy"), "{busy:?}");
    let refused = json!({"id": interrupt["id"], "error": {"message": "no active turn"}});
    assert!(dialogue.codex(&refused).is_empty());
    dialogue.turn(11, &json!({"prompt": "on", "thread_id": "t"}));
}

#[test]
fn a_turn_is_interrupted_also_after_the_late_end_of_an_earlier_one() {
    let mut dialogue = Dialogue::asks();
    let resumed = dialogue.call(9, "codex", &json!({"prompt": "go", "thread_id": "t"}));
    let begun = dialogue.reply(&resumed, &json!({"thread": {"id": "t"}}));
    dialogue.note("turn/completed", &json!({"turn": {"id": "earlier", "status": "interrupted"}}));
    dialogue.client(&json!({"method": "notifications/cancelled", "params": {"requestId": 9}}));
    let started = dialogue.reply(&begun, &json!({"turn": {"id": "u"}}));
    assert_eq!(to_codex(&started)["method"], "turn/interrupt");
    assert_eq!(to_codex(&started)["params"]["turnId"], "u");
}

#[test]
fn a_call_cancelled_before_its_turn_begins_starts_none() {
    let mut dialogue = Dialogue::asks();
    let started = dialogue.call(9, "codex", &json!({"prompt": "go"}));
    dialogue.client(&json!({"method": "notifications/cancelled", "params": {"requestId": 9}}));
    assert_archives(&dialogue.reply(&started, &json!({"thread": {"id": "t"}})), "a thread without a turn");
}

#[test]
fn threads_are_listed_by_pages() {
    let mut dialogue = Dialogue::asks();
    let asked = dialogue.call(1, "codex_list_threads", &json!({"limit": 2}));
    assert_eq!(to_codex(&asked)["params"]["limit"], 2);
    let thread = json!({"id": "t", "preview": "Help me", "modelProvider": "openai", "createdAt": 1_704_067_200, "turns": []});
    let page = dialogue.reply(&asked, &json!({"data": [thread], "nextCursor": "c"}));
    let expected = json!({
        "success": true,
        "threads": [{
            "id": "t", "preview": "Help me", "model_provider": "openai", "created_at": "2024-01-01T00:00:00Z",
        }],
        "next_cursor": "c",
    });
    assert_eq!(to_client(&page)["result"]["structuredContent"], expected);
    assert_eq!(to_client(&page)["result"]["content"][0]["text"], expected.to_string());
    let asked = dialogue.call(2, "codex_archive_thread", &json!({"thread_id": "t"}));
    let archived = dialogue.reply(&asked, &json!({}));
    assert_eq!(to_client(&archived)["result"]["structuredContent"]["message"], "Thread t archived");
}

#[test]
fn calls_beyond_the_limit_are_refused() {
    let mut dialogue = Dialogue::asks();
    for id in 0..MAX_CALLS as u64 {
        assert_eq!(to_codex(&dialogue.call(id, "codex", &json!({"prompt": "go"})))["method"], "thread/start");
    }
    let refused = dialogue.call(99, "codex_list_threads", &json!({}));
    let error = to_client(&refused)["result"]["structuredContent"]["error"].clone();
    assert!(error.as_str().unwrap().starts_with("64 calls"), "{error}");
}
