//! The web console in a real browser, Chromium driven by Playwright: each page in light, in dark and on a
//! phone; texts and answers of hostile servers; people who sign in.

use std::time::Duration;

use serde_json::{Map, Value, json};
use vmcp_integration::{
    Fixture, IdentityProvider, Vmcp, eventually, found_by, http_client, installed, node, python, run_script,
    skipped,
};

const SCRIPT: &str = include_str!("../../clients/console.mjs");
const TOKEN: &str = "an admin token of this test";
/// Most characters of a page with texts of a hostile server.
const MAX_PAGE: u64 = 900_000;

/// Returns the path of a Chromium, or says that the test is skipped.
pub(super) async fn chromium() -> Option<String> {
    found_by("chromium.sh").await.inspect_err(|reason| skipped(reason)).ok()
}

/// Runs the script at the console of a server and returns its answer, which must hold no failure.
pub(super) async fn browse(what: &str, chromium: &str, vmcp: &Vmcp, input: &Value) -> Value {
    browse_at(&format!("{}/console/", vmcp.admin), what, chromium, input).await
}

/// Runs the script at the console with this URL and returns its answer, which must hold no failure.
pub(super) async fn browse_at(url: &str, what: &str, chromium: &str, input: &Value) -> Value {
    let input = input.to_string();
    let args = ["--input-type=module", "-", what, chromium, url, &input];
    let seen = run_script(&node("node"), &args, SCRIPT, &installed("node")).await;
    let failures = seen["failures"].as_array().expect("a list of failures");
    let failures: Vec<_> = failures.iter().filter_map(Value::as_str).collect();
    assert!(failures.is_empty(), "{what}:\n{}", failures.join("\n"));
    seen
}

#[tokio::test]
async fn every_page_is_accessible_in_light_in_dark_and_on_a_phone() {
    let Some(chromium) = chromium().await else { return };
    let jira = Fixture::http("jira", "jira").start().await;
    let gone = json!({"name": "gone", "url": "http://127.0.0.1:1/mcp"});
    let quarantine = json!({"aggregation": {"onToolChange": "Quarantine"}});
    let vmcp = Vmcp::new().backend(&jira).backend_entry(gone).config(quarantine).start().await;
    let client = vmcp.with_tool("jira_create_note").await;
    client.call_found("jira_create_note", json!({"title": "a", "content": "b"})).await;
    client.call_found("jira_create_note", json!({"title": 7})).await;
    client.find_tool(json!({"tool_description": "zebra crossing"})).await;
    jira.control(json!({"do": "describe", "tool": "create_note", "description": "Erases a note"})).await;
    eventually("the change to be noticed", async || {
        let status = vmcp.status().await;
        status.to_string().contains("create_note").then_some(())
    })
    .await;
    let tool = "server=jira&tool=create_note";
    let mut pages = Map::new();
    for (name, path) in [
        ("overview", ""),
        ("tools", "tools"),
        ("server", "server?server=jira"),
        ("tool", &format!("tool?{tool}&who=bob")),
        ("try", &format!("try?{tool}")),
        ("offer", "offer?kind=resource&key=fixture%3A%2F%2Fjira%2Fgreeting"),
        ("search", "search?q=who+is+watching+an+issue&wanted=gone_tool"),
        ("calls", "calls"),
        ("call", "call?number=0"),
        ("usage", "usage?days=7"),
        ("clients", "clients"),
        ("logins", "logins"),
        ("sent", "sent?era=legacy"),
        ("wanted", "wanted"),
        ("connect", "connect"),
        ("configuration", "configuration"),
        ("logs", "logs"),
    ] {
        pages.insert(name.to_owned(), path.into());
    }
    // `VMCP_PICTURES=FOLDER` keeps a picture of each page, to be compared by eye.
    let pictures = std::env::var("VMCP_PICTURES").unwrap_or_default();
    let seen = browse("pages", &chromium, &vmcp, &json!({"pages": pages, "pictures": pictures})).await;
    assert_eq!(seen["seen"], 3 * pages.len(), "{seen}");
}

#[tokio::test]
async fn one_tool_of_a_thousand_is_found_while_its_words_are_typed() {
    let Some(chromium) = chromium().await else { return };
    let many = Fixture::http("many", "synthetic:1200").start().await;
    // Its tools come last, on the third page.
    let zebra = Fixture::http("zebra", "jira").start().await;
    let vmcp = Vmcp::new().backend(&many).backend(&zebra).start().await;
    vmcp.with_tool("zebra_create_note").await;
    eventually("all tools", async || {
        let tools = vmcp.status().await["tools"].as_u64();
        tools.is_some_and(|tools| tools > 1200).then_some(())
    })
    .await;
    let questions = json!({
        "all": [{"link": "Tools"}],
        "typed": [{"link": "Tools"}, {"type": "Words", "text": "NOTE zebra"}, {"appears": "zebra_create_note"}],
        "sent": [{"link": "Tools"}, {"type": "Words", "text": "create zebra note"}, {"button": "Find"}],
        "of a server": [{"link": "Tools"}, {"link": "zebra"}],
    });
    let seen = browse("newcomer", &chromium, &vmcp, &json!({"questions": questions})).await;
    let text = |question: &str| seen["found"][question]["text"].as_str().expect("text").to_owned();
    assert!(!text("all").contains("zebra_create_note") && text("all").contains("here are 1 to 500"));
    for question in ["typed", "sent", "of a server"] {
        let text = text(question);
        assert!(text.contains("zebra_create_note") && text.contains("tools fit"), "{question}: {text}");
    }
}

/// Tools of a server that attacks the readers of their texts, each with the words of its attack.
fn attacks() -> Vec<Value> {
    let script = "<script>window.owned=1</script><img src=x onerror=\"window.owned=1\">";
    let svg = "<svg onload=\"window.owned=1\"><script>window.owned=1</script></svg>";
    let link =
        "[click](javascript:window.owned=1) javascript:window.owned=1 <a href=\"javascript:owned=1\">x</a>";
    let texts = [
        ("html", script.to_owned()),
        ("svg", svg.to_owned()),
        ("link", link.to_owned()),
        ("bidi", "Harmless\u{202e}ssel\u{200b}mrah\u{2066}\u{200f}".to_owned()),
        ("long", format!("{script}{}", "very long ".repeat(20_000))),
    ];
    let tool = |(name, text): &(&str, String)| {
        let short: String = text.chars().take(1000).collect();
        let property = json!({"type": "string", "description": short, "default": short, "enum": [short]});
        let schema = json!({"type": "object", "properties": {(format!("{name}{svg}")): property}});
        json!({"name": name, "title": short, "description": text, "inputSchema": schema})
    };
    texts.iter().map(tool).collect()
}

#[tokio::test]
async fn texts_and_answers_of_hostile_servers_are_inert_and_bounded() {
    let Some(chromium) = chromium().await else { return };
    let echo = Fixture::http("echo", "echo").start().await;
    for tool in attacks() {
        echo.control(json!({"do": "add_tool", "tool": tool})).await;
    }
    let vmcp = Vmcp::new().backend(&echo).start().await;
    vmcp.with_tool("echo_long").await;
    let mut pages = Map::new();
    for path in [
        "",
        "tools",
        "server?server=echo",
        "search?q=harmless+click",
        "calls",
        "logs",
        "sent",
        "clients",
        "logins",
        "usage",
    ] {
        pages.insert(format!("/{path}"), path.into());
    }
    for tool in attacks() {
        let name = tool["name"].as_str().expect("a name");
        for page in ["tool", "try"] {
            pages.insert(format!("{page} {name}"), format!("{page}?server=echo&tool={name}").into());
        }
    }
    let script = "<script>window.owned=1</script>\u{202e}<svg onload=\"window.owned=1\"></svg>";
    let forms = json!({
        "an answer with a script": {"path": "try?server=echo&tool=echo", "fields": {"message": script}},
        "an error with a script": {"path": "try?server=echo&tool=fail", "fields": {"message": script}},
        "50 MB": {"path": "try?server=echo&tool=big", "fields": {"bytes": "50000000"}},
    });
    let seen = browse("hostile", &chromium, &vmcp, &json!({"pages": pages, "forms": forms})).await;
    let sizes = seen["sizes"].as_object().expect("sizes");
    assert_eq!(sizes.len(), pages.len() + 3, "{seen}");
    for (page, size) in sizes {
        assert!(size.as_u64().is_some_and(|size| size < MAX_PAGE), "{page}: {size} characters");
    }
    assert_eq!(echo.calls("big").await, 1, "the large answer was asked for");
}

#[tokio::test]
async fn a_question_of_a_server_is_answered_by_keyboard() {
    let Some(chromium) = chromium().await else { return };
    let servers = [Fixture::rmcp("old", "legacy").await, Fixture::rmcp("new", "modern").await];
    let vmcp = Vmcp::new().backend(&servers[0]).backend(&servers[1]).start().await;
    for server in ["old", "new"] {
        vmcp.with_tool(&format!("{server}_test_elicitation")).await;
        let script = "<script>window.owned=1</script>\u{202e}Who?";
        let input = json!({
            "path": format!("try?server={server}&tool=test_elicitation"), "fields": {"message": script},
            "answer": {"username": "Ada", "email": "ada@example.com"},
        });
        let seen = browse("tryTool", &chromium, &vmcp, &input).await;
        let (asked, answered) =
            (seen["asked"].as_str().expect("text"), seen["answered"].as_str().expect("text"));
        for part in ["The server asks", "<script>window.owned=1</script>⟨U+202E⟩Who?", "username"] {
            assert!(asked.contains(part), "{server}: no `{part}` in\n{asked}");
        }
        assert!(answered.contains("action=accept") && answered.contains("Ada"), "{server}: {answered}");
        assert!(seen["size"].as_u64().is_some_and(|size| size < MAX_PAGE), "{server}: {}", seen["size"]);
    }
}

#[tokio::test]
async fn a_person_signs_in_in_a_browser_and_no_script_reads_the_cookie() {
    let Some(chromium) = chromium().await else { return };
    let jira = Fixture::http("jira", "jira").start().await;
    let server = json!({"server": {"adminTokens": [TOKEN], "console": "tokens"}});
    let vmcp = Vmcp::new().backend(&jira).config(server).start().await;
    let seen = browse("signIn", &chromium, &vmcp, &json!({"token": TOKEN})).await;
    assert_eq!((&seen["closed"], &seen["open"]), (&json!(401), &json!("Overview")), "{seen}");
    assert_eq!((&seen["script"], &seen["left"]), (&json!(""), &json!(0)), "{seen}");
    let [cookie] = seen["cookies"].as_array().expect("cookies").as_slice() else { panic!("one: {seen}") };
    assert_eq!((&cookie["httpOnly"], &cookie["sameSite"]), (&json!(true), &json!("Strict")), "{seen}");
    assert!(!cookie["value"].as_str().expect("a value").contains(TOKEN));
}

#[tokio::test]
async fn new_calls_appear_by_themselves_until_the_session_ends() {
    let Some(chromium) = chromium().await else { return };
    let echo = Fixture::http("echo", "echo").start().await;
    let server = json!({"server": {"adminTokens": [TOKEN], "console": "tokens"}});
    let vmcp = Vmcp::new().backend(&echo).config(server).start().await;
    let client = vmcp.modern();
    let call = async || !client.call_tool("echo_echo", json!({"message": "x"})).await.is_failure();
    eventually("the tool", async || call().await.then_some(())).await;
    let calling = async {
        for _ in 0..1_000 {
            call().await;
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
    };
    let token = json!({"token": TOKEN});
    let seen = tokio::select! {
        seen = browse("signInAndWatch", &chromium, &vmcp, &token) => seen,
        () = calling => panic!("the page took longer than 1000 calls"),
    };
    for (at, words) in [
        ("live", "New calls appear by themselves."),
        ("paused", "Paused."),
        ("ended", "Your session has ended: load this page again to sign in."),
    ] {
        assert_eq!(seen[at], words, "{seen}");
    }
    assert_eq!(seen["still"], true, "a paused page changes no more: {seen}");
    let asked = seen["asked"].as_str().expect("text");
    assert!(asked.contains("Sign in to the console"), "{asked}");
}

/// Registers a client of the provider that people come back from at `redirect_uri`.
async fn client_of(provider: &IdentityProvider, redirect_uri: &str) -> Value {
    let client = json!({
        "application_type": "native", "redirect_uris": [redirect_uri], "client_name": "vmcp",
        "grant_types": ["authorization_code", "refresh_token"],
    });
    let answer = http_client().post(format!("{}/reg", provider.issuer)).json(&client).send().await;
    answer.expect("the provider").json().await.expect("a client")
}

/// Registers the console of a server as a client of the provider. Returns its settings for
/// `server.consoleSignIn`.
async fn registered(provider: &IdentityProvider, vmcp: &Vmcp) -> Value {
    registered_at(provider, &vmcp.admin).await
}

/// As [`registered`], for a console below the URL `base`.
pub(super) async fn registered_at(provider: &IdentityProvider, base: &str) -> Value {
    let redirect_uri = format!("{base}/console/oidc/callback");
    let client = client_of(provider, &redirect_uri).await;
    json!({
        "issuerUrl": provider.issuer, "clientId": client["client_id"], "clientSecret": client["client_secret"],
        "redirectUri": redirect_uri, "insecureAllowHttp": true, "allowPrivateIPs": true, "roleClaim": "sub",
    })
}

#[tokio::test]
async fn a_person_signs_in_at_a_provider_by_role() {
    let Some(chromium) = chromium().await else { return };
    let jira = Fixture::http("jira", "jira").start().await;
    let provider = IdentityProvider::start().await;
    let mut vmcp = Vmcp::new().backend(&jira).start().await;
    let mut sign_in = registered(&provider, &vmcp).await;
    for (roles, heading, status, orders) in [
        (json!({"operators": ["carol"], "viewers": []}), "Overview", 200, 3),
        (json!({"operators": ["dave"], "viewers": ["carol"]}), "Overview", 200, 0),
        (json!({"operators": ["dave"], "viewers": ["erin"]}), "Sign in to the console", 401, 0),
    ] {
        for (role, people) in roles.as_object().expect("roles") {
            sign_in[role] = people.clone();
        }
        vmcp.reconfigure(json!({"server": {"console": "oidc", "consoleSignIn": sign_in}}));
        let wanted = format!("roles of {roles}");
        eventually(&wanted, async || {
            let dump = vmcp.admin_json("admin/config_dump").await.to_string();
            let names = roles["operators"][0].as_str().expect("a name");
            let is_new = dump
                .contains(&format!("\"path\":\"server.consoleSignIn.operators[0]\",\"value\":\"{names}\""));
            let viewer = roles["viewers"][0].as_str().unwrap_or("-");
            let has_viewer = viewer == "-" || dump.contains(&format!("\"value\":\"{viewer}\""));
            (is_new && has_viewer).then_some(())
        })
        .await;
        let input = json!({"provider": provider.issuer});
        let seen = browse("signInAtProvider", &chromium, &vmcp, &input).await;
        assert_eq!(
            (&seen["heading"], &seen["status"], &seen["orders"]),
            (&json!(heading), &json!(status), &json!(orders)),
            "{roles}: {seen}"
        );
        assert_eq!(seen["script"], "", "no script reads the cookies: {seen}");
        let cookies = seen["cookies"].as_array().expect("cookies");
        assert!(cookies.iter().all(|cookie| cookie["httpOnly"] == true), "{seen}");
        let session = cookies.iter().find(|cookie| cookie["path"] == "/console");
        let same_site = session.and_then(|cookie| cookie["sameSite"].as_str());
        assert_eq!(same_site, (status == 200).then_some("Strict"), "{roles}: {seen}");
    }
}

#[tokio::test]
async fn a_person_sees_their_own_logins_and_ends_them() {
    let Some(chromium) = chromium().await else { return };
    let provider = IdentityProvider::start().await;
    let forge = Fixture::http("forge", "echo").start().await;
    let other = Fixture::http("other", "echo").start().await;
    let mut vmcp = Vmcp::new().backend(&forge).backend(&other).start().await;
    vmcp.with_tool("forge_inspect").await;
    let issuer = vmcp.url.trim_end_matches("/mcp").to_owned();
    let client = client_of(&provider, &format!("{issuer}/oauth/callback")).await;
    let mut sign_in = registered(&provider, &vmcp).await;
    sign_in["viewers"] = json!(["carol"]);
    let inject = json!({"type": "upstreamInject", "upstreamInject": {"providerName": "corp"}});
    vmcp.reconfigure(json!({
        "authServer": {"issuer": issuer, "upstreamProviders": [{
            "name": "corp", "type": "oidc", "oidcConfig": {
                "issuerUrl": provider.issuer, "clientId": client["client_id"],
                "clientSecret": client["client_secret"], "insecureAllowHttp": true, "allowPrivateIPs": true,
            },
        }]},
        "outgoingAuth": {"backends": {"forge": inject}},
        "server": {"console": "oidc", "consoleSignIn": sign_in},
    }));
    eventually("strangers to be refused", async || {
        (vmcp.modern().request("tools/list", json!({})).await.status == 401).then_some(())
    })
    .await;
    let script = include_str!("../../clients/sign_in.py");
    let signed_in = run_script(&python("python"), &["-", &vmcp.url], script, &installed("python")).await;
    let token = signed_in["tokens"][1]["access_token"].as_str().expect("a token");
    let carol = vmcp.modern().bearing(token);
    assert_eq!(carol.request("tools/list", json!({})).await.status, 200);
    let seen = browse("signInForLogins", &chromium, &vmcp, &json!({"provider": provider.issuer})).await;
    let (before, after) = (seen["before"].as_str().expect("text"), seen["after"].as_str().expect("text"));
    for part in ["You are carol.", "forge", "of the provider corp", "upstreamInject", "Sign in again"] {
        assert!(before.contains(part), "{part}: {before}");
    }
    assert!(!before.contains("other"), "no token goes there: {before}");
    assert!(after.contains("Your tokens for the server are forgotten."), "{after}");
    assert!(after.contains("vmcp keeps no token of yours now"), "{after}");
    assert_eq!(carol.request("tools/list", json!({})).await.status, 401, "her clients sign in again");
}
