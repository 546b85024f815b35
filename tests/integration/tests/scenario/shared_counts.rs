//! Replicas share what they know of tools: counts of calls are summed, learned pairs and approvals taken
//! over.

use std::time::Duration;

use serde_json::{Value, json};
use vmcp_embed::testing::FakeService;
use vmcp_integration::{Client, Fixture, Vmcp, eventually, http_client};

const TASK: &str = "see who follows the tickets of my team";

/// Starts replicas that know each other's admin ports.
async fn replicas(backend: &Fixture, tool: &str, settings: &Value) -> [Vmcp; 2] {
    let start = || async { Vmcp::new().backend(backend).config(settings.clone()).start().await };
    let (mut one, mut other) = futures::join!(start(), start());
    let peers = [&one, &other].map(|vmcp| vmcp.admin.trim_start_matches("http://").to_owned());
    for vmcp in [&mut one, &mut other] {
        vmcp.reconfigure(json!({"server": {"peers": peers}}));
    }
    for vmcp in [&one, &other] {
        vmcp.with_tool(tool).await;
        eventually("the replicas to know each other", async || {
            (vmcp.admin_json("admin/tool-metrics").await["replicas"] == 2).then_some(())
        })
        .await;
    }
    [one, other]
}

async fn calls(vmcp: &Vmcp, scope: &str) -> u64 {
    let report = vmcp.admin_json(&format!("admin/tool-metrics?scope={scope}")).await;
    let tools = report["tools"].as_array().expect("tools").iter();
    tools.map(|tool| tool["call_count"].as_u64().expect("a count")).sum()
}

/// Returns the console's page of usage over days.
async fn usage_page(vmcp: &Vmcp) -> String {
    let answer = http_client().get(format!("{}/console/usage?days=7", vmcp.admin)).send().await;
    answer.expect("an answer").text().await.expect("a page")
}

/// Waits until the calls of all replicas are this many.
async fn summed(vmcp: &Vmcp, expected: u64) {
    eventually("the sum of all replicas", async || (calls(vmcp, "all").await == expected).then_some(()))
        .await;
}

async fn fetch(client: &Client, times: usize) {
    for _ in 0..times {
        let called = client.call_tool("jira_get_jira_issue", json!({"issueKey": "PROJ-123"})).await;
        assert!(!called.is_failure(), "{}", called.text);
    }
}

#[tokio::test]
async fn counts_are_summed_and_outlive_their_replica() {
    let jira = Fixture::http("jira", "jira").start().await;
    let settings = json!({"optimizer": {"exposure": "All", "tools":
        ["find_tool", "call_tool", "get_tool_metrics", "reset_tool_metrics"]}});
    let [mut one, other] = replicas(&jira, "jira_create_note", &settings).await;
    fetch(&one.modern(), 3).await;
    fetch(&other.modern(), 5).await;
    for vmcp in [&one, &other] {
        summed(vmcp, 8).await;
        eventually("the tool to sum too", async || {
            let figures = vmcp.modern().call_tool("optim_get_tool_metrics", json!({"server": "jira"})).await;
            let figures = figures.structured();
            (figures["tools"][0]["call_count"] == 8 && figures["replicas"] == 2).then_some(())
        })
        .await;
    }
    assert_eq!((calls(&one, "own").await, calls(&other, "own").await), (3, 5));
    for vmcp in [&one, &other] {
        let usage = usage_page(vmcp).await;
        assert!(usage.contains("<strong>8</strong>calls"), "{usage}");
        assert!(usage.contains("Sums of 2 replicas, this one included."), "{usage}");
    }
    let report = async |tag: Option<&str>| {
        let mut request = http_client().get(format!("{}/admin/replica", one.admin));
        if let Some(tag) = tag {
            request = request.header("if-none-match", tag);
        }
        let answer = request.send().await.expect("an answer");
        let tag = answer.headers()["etag"].to_str().expect("a tag").to_owned();
        (answer.status().as_u16(), tag, answer.text().await.expect("a body"))
    };
    let tag = eventually("an unchanged report to be spared", async || {
        let (_, tag, whole) = report(None).await;
        assert!(whole.contains("get_jira_issue"), "{whole}");
        let (status, _, body) = report(Some(&tag)).await;
        (status == 304 && body.is_empty()).then_some(tag)
    })
    .await;
    fetch(&one.modern(), 1).await;
    eventually("one call more to be reported", async || (report(Some(&tag)).await.0 == 200).then_some(()))
        .await;
    for vmcp in [&one, &other] {
        summed(vmcp, 9).await;
    }

    // A pod that is gone takes its database with it, and nothing that was counted.
    one.terminate().await;
    eventually("the other to be missed", async || {
        let report = other.admin_json("admin/tool-metrics").await;
        let missing = report["unreachable"].as_array().map(Vec::len);
        (report["replicas"] == 1 && missing == Some(1)).then_some(())
    })
    .await;
    assert_eq!(calls(&other, "all").await, 9);
    // The days of a replica are in its database alone: the page says that they are missing.
    let usage = usage_page(&other).await;
    assert!(usage.contains("<strong>5</strong>calls") && usage.contains("missing in the sums"), "{usage}");

    // It comes back with its database, and is not counted twice.
    one.start_again().await;
    one.with_tool("jira_create_note").await;
    for vmcp in [&one, &other] {
        eventually("both to be there", async || {
            (vmcp.admin_json("admin/tool-metrics").await["replicas"] == 2).then_some(())
        })
        .await;
        summed(vmcp, 9).await;
    }

    eventually("the counts to be forgotten everywhere", async || {
        other.modern().call_tool("optim_reset_tool_metrics", json!({})).await;
        (calls(&one, "all").await + calls(&one, "own").await + calls(&other, "all").await == 0).then_some(())
    })
    .await;
}

#[tokio::test]
async fn one_console_shows_the_calls_logs_and_figures_of_all_replicas() {
    let jira = Fixture::http("jira", "jira").start().await;
    let settings = json!({"optimizer": {"exposure": "All"}});
    let [one, mut other] = replicas(&jira, "jira_create_note", &settings).await;
    fetch(&one.modern(), 2).await;
    other.modern().call_tool("jira_create_note", json!({"title": "a", "content": "b"})).await;
    let page = async |path: &str| {
        let answer =
            http_client().get(format!("{}/console/{path}", one.admin)).send().await.expect("an answer");
        let next = answer.headers().get("x-next").map(|next| next.to_str().expect("text").to_owned());
        (next, answer.text().await.expect("a page"))
    };
    let list = eventually("three calls", async || {
        let (_, list) = page("calls").await;
        (list.matches("/console/call?number=").count() == 3).then_some(list)
    })
    .await;
    assert!(list.contains("Of 2 replicas, this one included.") && list.contains("this one"), "{list}");
    // A page waits for a second: on a busy machine, the answer of the other replica may come later.
    let shows = async |path: &str, part: &str| {
        eventually(part, async || {
            let (_, shown) = page(path).await;
            shown.contains(part).then_some(shown)
        })
        .await
    };
    let of_other = shows("calls?tool=create_note", "href=\"/console/call?").await;
    let (_, link) = of_other.split_once("href=\"/console/call?").expect("the call of the other replica");
    let link = link.split('"').next().expect("a query").replace("&amp;", "&");
    assert!(link.contains("replica="), "{link}");
    let (_, call) = page(&format!("call?{link}")).await;
    let address = other.admin.trim_start_matches("http://").to_owned();
    assert!(call.contains("jira_create_note") && call.contains(&address), "{call}");
    assert!(page(&format!("call?{link}0")).await.1.contains("not kept"), "another replica's id");

    // New rows come from both, each once.
    let (_, rest) = list.split_once("data-after=\"").expect("a place to go on behind");
    let after = rest.split('"').next().expect("a cursor");
    let (next, rows) = page(&format!("calls/rows?after={after}")).await;
    assert_eq!(rows.matches("<tr>").count(), 0, "{rows}");
    other.modern().call_tool("jira_create_note", json!({"title": "c", "content": "d"})).await;
    let next = next.expect("a cursor");
    let (next, rows) = eventually("the next call", async || {
        let (after, rows) = page(&format!("calls/rows?after={next}")).await;
        (rows.matches("<tr>").count() == 1).then_some((after, rows))
    })
    .await;
    assert!(rows.contains(&address), "{rows}");

    shows("", "<strong>4</strong>calls in the last minute").await;
    shows("logs", &format!("<td><bdi>{address}</bdi></td>")).await;
    // The caller of both has four calls.
    shows("clients", ">4</td>").await;

    // A replica that is gone is named, and costs the others nothing but its time limit.
    other.terminate().await;
    for path in ["", "calls", "logs", "clients", "wanted"] {
        let (_, listed) = page(path).await;
        assert!(listed.contains(&address) && listed.contains("ithout an answer"), "{path}: {listed}");
    }
    let (_, list) = page("calls").await;
    assert_eq!(list.matches("/console/call?number=").count(), 2, "those of this process stay: {list}");
    let rows = http_client().get(format!("{}/console/calls/rows?after=", one.admin)).send().await;
    let missing = rows.expect("rows").headers().get("x-missing-replicas").cloned();
    let missing = missing.expect("a header");
    assert!(missing.to_str().is_ok_and(|names| names.contains(&address)), "{missing:?} lacks {address}");
    assert!(page(&format!("call?{link}")).await.1.contains("must answer"));
    // It comes back with numbers that begin again: the cursor of the process before leaves no call out.
    other.start_again().await;
    other.with_tool("jira_create_note").await;
    other.modern().call_tool("jira_create_note", json!({"title": "e", "content": "f"})).await;
    let next = next.expect("a cursor");
    eventually("its call", async || {
        let (_, rows) = page(&format!("calls/rows?after={next}")).await;
        rows.contains(&address).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_killed_replica_takes_no_call_along_that_is_older_than_a_second() {
    let jira = Fixture::http("jira", "jira").start().await;
    let settings = json!({"optimizer": {"exposure": "All"}});
    let [mut one, other] = replicas(&jira, "jira_create_note", &settings).await;
    fetch(&one.modern(), 7).await;
    // Nothing asks for figures meanwhile, which would gather them: without the commit each second they would
    // be lost at any time. Three times that second, for a busy machine.
    tokio::time::sleep(Duration::from_secs(3)).await;
    one.process.signal("KILL").await;
    one.process.ended().await;
    assert_eq!(calls(&other, "all").await, 7, "the other replica knows them");
    assert_eq!(calls(&other, "own").await, 0);

    one.start_again().await;
    assert_eq!(calls(&one, "own").await, 7, "and so does the database of the killed one");
    one.with_tool("jira_create_note").await;
    fetch(&one.modern(), 1).await;
    summed(&other, 8).await;
}

#[tokio::test]
async fn failures_at_one_replica_rank_a_tool_lower_at_the_other() {
    let echo = Fixture::http("echo", "echo").start().await;
    let [one, other] = replicas(&echo, "echo_fail", &json!({"optimizer": {"exposure": "All"}})).await;
    for _ in 0..20 {
        let called = one.modern().call_tool("echo_fail", json!({"message": "no"})).await;
        assert!(called.is_tool_error(), "{}", called.text);
    }
    let find = json!({"tool_description": "fail with a message", "explain": true});
    eventually("the other replica to rank by it", async || {
        let found = other.modern().find_tool(find.clone()).await;
        let tools = found.structured()["tools"].as_array().expect("tools").clone();
        let failing = tools.iter().find(|tool| tool["name"] == "echo_fail")?;
        let penalty = failing["explanation"]["reliability_penalty"].as_f64()?;
        (failing["explanation"]["reliability"]["calls"] == 20 && penalty > 0.0).then_some(())
    })
    .await;
}

#[tokio::test]
async fn learned_uses_and_approvals_reach_the_other_replica() {
    let service = FakeService::start().await.expect("a port");
    let jira = Fixture::http("jira", "jira").start().await;
    let settings = json!({"aggregation": {"onToolChange": "Quarantine"}, "optimizer": {"exposure": "Contextual",
        "embeddings": {"provider": "tei", "tei": {"endpoint": service.url(), "timeout": "30s"}}}});
    let [one, other] = replicas(&jira, "jira_create_note", &settings).await;
    for vmcp in [&one, &other] {
        eventually("every tool to be embedded", async || {
            (vmcp.status().await["embeddings"]["embedded"] == 9).then_some(())
        })
        .await;
    }
    let client = one.legacy().await;
    client.call_tool("optim_set_context", json!({"query": TASK})).await;
    fetch(&client, 1).await;
    let elsewhere = other.legacy().await;
    eventually("the use to be known at the other replica", async || {
        let set = elsewhere.call_tool("optim_set_context", json!({"query": TASK})).await;
        (set.structured()["confidence"] == 0.1).then_some(())
    })
    .await;

    jira.control(json!({"do": "describe", "tool": "create_note", "description": "Erase everything"})).await;
    for vmcp in [&one, &other] {
        eventually("the tool to be in quarantine", async || {
            (vmcp.status().await["backends"][0]["quarantined"] == json!(["create_note"])).then_some(())
        })
        .await;
    }
    let approved = one.cli(&["tools", "approve", "create_note"]).await;
    assert!(approved.success, "{}{}", approved.stdout, approved.stderr);
    eventually("the approval to reach the other replica", async || {
        let status = other.status().await;
        status["backends"][0].get("quarantined").is_none().then_some(())
    })
    .await;
    assert!(other.modern().tools().await.contains_key("jira_create_note"));
}
