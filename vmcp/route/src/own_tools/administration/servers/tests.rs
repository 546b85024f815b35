//! Tests of the tools that change servers, over a registrar in memory.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::time::timeout;
use vmcp_backend::{ClientFacts, Event, RpcOutcome, event_queue};
use vmcp_config::edit;
use vmcp_engine::access::identity::Principal;
use vmcp_engine::engine::{Engine, Options, Storage};

use super::*;
use crate::Caller;
use crate::testing::{KEYWORDS, Scripted, SeenCalls, call_with, config, engine_with};

const TOOLS: &str = "find_tool, call_tool, list_mcp_servers, add_mcp_server, remove_mcp_server, enable_mcp_server, \
                     disable_mcp_server, search_registry, install_server";

mod in_pods;
mod registry;

/// A registrar that keeps the configuration in memory and applies each change at once.
struct InMemory {
    engine: OnceLock<Engine>,
    text: Mutex<String>,
    changes: Mutex<Vec<ServerChange>>,
}

impl ServerRegistrar for InMemory {
    fn change(&self, change: ServerChange) -> BoxFuture<'_, Result<MadeChange, RegistrarError>> {
        Box::pin(async move {
            let text = self.text.lock().clone();
            let mut made = MadeChange::default();
            let edited = match &change {
                ServerChange::Add(NewServer { name, registered: Some(registered), .. }) => {
                    let draft = &registered.draft;
                    let variable = |label: &str| format!("VMCP_ADDED_{label}");
                    made.needed = draft
                        .secrets()
                        .into_keys()
                        .map(|label| (label.to_owned(), variable(label)))
                        .collect();
                    if !made.needed.is_empty() {
                        made.needed_in = "`.env`".to_owned();
                    }
                    let entry = draft.yaml(name, &variable);
                    edit::append(&text, &entry, std::slice::from_ref(name))
                }
                ServerChange::Add(NewServer {
                    name,
                    enabled,
                    place: ServerPlace::Remote { url, .. },
                    ..
                }) => {
                    let off = if *enabled { "" } else { "  enabled: false\n" };
                    let entry = format!("- name: {name}\n  url: {url}\n{off}");
                    edit::append(&text, &entry, std::slice::from_ref(name))
                }
                ServerChange::Add(NewServer { name, .. }) => {
                    let entry = format!("- name: {name}\n  command: [none]\n  enabled: false\n");
                    edit::append(&text, &entry, std::slice::from_ref(name))
                }
                ServerChange::Remove { name } => edit::remove(&text, name),
                ServerChange::SetEnabled { name, enabled } => edit::set_enabled(&text, name, *enabled),
            };
            let edited = edited.map_err(|error| RegistrarError::Invalid(error.to_string()))?;
            self.text.lock().clone_from(&edited);
            self.changes.lock().push(change);
            self.engine.get().unwrap().apply(config(&edited)).await;
            Ok(made)
        })
    }
}

struct Setup {
    engine: Engine,
    registrar: Arc<InMemory>,
    calls: Arc<SeenCalls>,
}

/// An engine with the server `jira` at `url`, and with settings of `optimizer.admin`.
async fn setup(url: &str, admin: &str) -> Setup {
    let optimizer = format!("optimizer: {{ embeddings: {{ provider: none }}, tools: [{TOOLS}]{admin} }}\n");
    let text = format!("{optimizer}backends:\n- name: jira\n  url: {url}\n");
    let options = |registrar: &Arc<InMemory>| Options {
        registrar: Some(Arc::clone(registrar) as _),
        registry: Some(Arc::new(registry::Catalog) as _),
        ..Options::default()
    };
    setup_with(text, options).await
}

/// An engine of this configuration, whose options know the registrar.
async fn setup_with(text: String, options: impl FnOnce(&Arc<InMemory>) -> Options) -> Setup {
    let registrar = Arc::new(InMemory {
        engine: OnceLock::new(),
        text: Mutex::new(text.clone()),
        changes: Mutex::default(),
    });
    let calls = Arc::<SeenCalls>::default();
    let observers = vec![Arc::clone(&calls) as _];
    let options = Options { observers, storage: Storage::Memory, ..options(&registrar) };
    let engine = engine_with(&text, options).await;
    assert!(registrar.engine.set(engine.clone()).is_ok());
    Setup { engine, registrar, calls }
}

async fn server(tool: &str) -> Scripted {
    Scripted::start(&[(tool, "Creates an invoice for a customer.", json!({}))]).await
}

fn of(result: Result<Value, Value>) -> Value {
    result.unwrap()["structuredContent"].clone()
}

impl Setup {
    /// Calls a tool for a client that cannot ask its user.
    async fn call(&self, tool: &str, arguments: Value) -> Value {
        of(call_with(&self.engine, &Caller::default(), json!({"name": tool, "arguments": arguments})).await)
    }

    /// Calls a tool for a client whose user answers each question with `action`; returns the questions too.
    async fn ask(&self, action: &'static str, tool: &str, arguments: Value) -> (Value, Vec<String>) {
        self.answer(json!({"action": action}), tool, arguments).await
    }

    /// Calls a tool for a client whose user answers each question with `said`; returns the questions too.
    async fn answer(&self, said: Value, tool: &str, arguments: Value) -> (Value, Vec<String>) {
        let (events, mut asked) = event_queue(8);
        let capabilities = RawValue::from_string(r#"{"elicitation":{}}"#.to_owned()).unwrap();
        let client = ClientFacts { capabilities: Some(Arc::from(capabilities)), ..ClientFacts::default() };
        let caller = Caller { client, events: Some(events), ..Caller::default() };
        let user = tokio::spawn(async move {
            let mut questions = Vec::new();
            while let Some(Event::Question(question)) = asked.recv().await {
                let params: Value = serde_json::from_str(question.params.unwrap().get()).unwrap();
                questions.push(params["message"].as_str().unwrap().to_owned());
                let said = RawValue::from_string(said.to_string()).unwrap();
                drop(question.answer.send(RpcOutcome::result(&said)));
            }
            questions
        });
        let answer =
            of(call_with(&self.engine, &caller, json!({"name": tool, "arguments": arguments})).await);
        drop(caller);
        (answer, user.await.unwrap())
    }

    fn changes(&self) -> usize {
        self.registrar.changes.lock().len()
    }
}

fn http(name: &str, url: &str) -> Value {
    json!({"name": name, "transport": "http", "url": url})
}

fn error(answer: &Value) -> &str {
    assert_eq!(answer["success"], false, "{answer}");
    answer["error"].as_str().unwrap()
}

#[tokio::test]
async fn the_host_of_an_added_server_has_the_addresses_that_rule_or_user_saw() {
    use ReachableAddresses::{Any, Local, Public};
    let jira = server("get_issue").await;
    let rules = ", admin: { allow: [{ url: 'http://tools.example/*' }, { url: 'http://*.corp.example/*' }, \
                 { url: 'http://169.254.1.2/mcp' }] }";
    for (admin, url, expected) in [
        // The question to the user shows `localhost`; it cannot show the address of a public name.
        ("", "http://localhost:9/mcp", Some(Local)),
        ("", "http://127.0.0.1:9/mcp", Some(Local)),
        ("", "http://mcp.corp/mcp", Some(Local)),
        ("", "http://tools.example/mcp", Some(Public)),
        ("", "http://10.0.0.1.nip.io/mcp", Some(Public)),
        ("", "http://169.254.169.254/latest", None),
        ("", "http://[::ffff:169.254.169.254]/", None),
        ("", "http://0.0.0.0:9/", None),
        (rules, "http://tools.example/mcp", Some(Local)),
        (rules, "http://a.corp.example/mcp", Some(Public)),
        (rules, "http://169.254.1.2/mcp", Some(Any)),
    ] {
        let setup = setup(&jira.url, admin).await;
        // Switched off: the addresses are written all the same, and nothing connects.
        let arguments = json!({"name": "new", "transport": "http", "url": url, "enabled": false});
        let (answer, _) = setup.ask("accept", "optim.add_mcp_server", arguments).await;
        let changes = setup.registrar.changes.lock();
        let added = changes.iter().find_map(|change| match change {
            ServerChange::Add(server) => Some(server.addresses),
            _ => None,
        });
        assert_eq!(added, expected, "{url}: {answer}");
        if expected.is_none() {
            assert!(error(&answer).starts_with("url leads to "), "{answer}");
        }
    }
}

#[tokio::test]
async fn a_secret_that_exists_is_lent_by_a_rule_alone() {
    let jira = server("get_issue").await;
    let rules = ", admin: { allow: [{ url: 'http://127.0.0.1:9/*', headers: [X-Key], secrets: [weather] }] }";
    for (admin, secret, is_lent) in
        [(rules, "weather", true), (rules, "database", false), ("", "weather", false)]
    {
        let setup = setup(&jira.url, admin).await;
        let arguments = json!({"name": "new", "transport": "http", "url": "http://127.0.0.1:9/mcp",
            "enabled": false, "headers": {"X-Key": {"secretRef": {"name": secret}}}});
        let (answer, asked) = setup.ask("accept", "optim.add_mcp_server", arguments).await;
        assert_eq!(answer["success"], is_lent, "{answer}");
        if is_lent {
            assert!(asked[0].contains("headers.X-Key: the existing secret weather"), "{asked:?}");
        } else {
            assert!(error(&answer).contains("lends the secret"), "{answer}");
            assert_eq!((asked.len(), setup.changes()), (0, 0), "{answer}");
        }
    }
}

#[tokio::test]
async fn a_server_is_added_found_switched_and_removed() {
    let (jira, billing) = (server("get_issue").await, server("create_invoice").await);
    let setup = setup(&jira.url, "").await;
    let (added, asked) = setup.ask("accept", "optim.add_mcp_server", http("Billing", &billing.url)).await;
    let expected = json!({"success": true, "server": "billing", "enabled": true, "connected": true,
        "tool_count": 1, "message": "Server added and connected"});
    assert_eq!(added, expected);
    assert_eq!(asked.len(), 1);
    assert!(asked[0].starts_with("Allow the call of optim.add_mcp_server?\nserver: billing\n"), "{asked:?}");
    let names = async || {
        let found = setup.call("optim.find_tool", json!({"tool_description": "create an invoice"})).await;
        found["tools"].to_string()
    };
    assert!(names().await.contains("billing_create_invoice"));
    let billing = json!({"name": "billing"});
    let (off, _) = setup.ask("accept", "optim.disable_mcp_server", billing.clone()).await;
    assert_eq!((&off["enabled"], &off["connected"]), (&json!(false), &json!(false)), "{off}");
    assert!(!names().await.contains("billing_create_invoice"));
    for called in [
        json!({"tool_name": "billing_create_invoice"}),
        json!({"tool_name": "create_invoice", "server_name": "BILLING"}),
    ] {
        let refused = setup.call("optim.call_tool", called).await;
        assert_eq!(refused["error_type"], "NotFound", "{refused}");
        assert!(error(&refused).ends_with("the server billing is switched off"), "{refused}");
    }
    let listed = setup.call("optim.list_mcp_servers", json!({})).await;
    let billing_listed = &listed["servers"][1];
    assert_eq!((&billing_listed["enabled"], &billing_listed["connected"]), (&json!(false), &json!(false)));
    let (on, _) = setup.ask("accept", "optim.enable_mcp_server", billing.clone()).await;
    assert_eq!(on["message"], "Server enabled and connected", "{on}");
    assert!(names().await.contains("billing_create_invoice"));
    let (removed, _) = setup.ask("accept", "optim.remove_mcp_server", billing.clone()).await;
    assert_eq!(removed["message"], "Server 'billing' removed", "{removed}");
    assert!(!names().await.contains("billing_create_invoice"));
    let (unknown, _) = setup.ask("accept", "optim.remove_mcp_server", billing).await;
    assert_eq!(error(&unknown), "server not found: billing");
    assert_eq!(unknown["available_servers"], json!(["jira"]));
}

#[tokio::test]
async fn a_client_that_cannot_ask_and_a_user_who_declines_change_nothing() {
    let jira = server("get_issue").await;
    let setup = setup(&jira.url, "").await;
    for (tool, arguments) in [
        ("optim.add_mcp_server", http("new", "http://127.0.0.1:9/")),
        ("optim.remove_mcp_server", json!({"name": "jira"})),
        ("optim.enable_mcp_server", json!({"name": "jira"})),
        ("optim.disable_mcp_server", json!({"name": "jira"})),
    ] {
        let refused = setup.call(tool, arguments.clone()).await;
        assert!(error(&refused).contains("`vmcp add` on the command line"), "{tool}: {refused}");
        for action in ["decline", "cancel"] {
            let (refused, asked) = setup.ask(action, tool, arguments.clone()).await;
            assert!(error(&refused).contains("the user declined"), "{tool}: {refused}");
            assert_eq!(asked.len(), 1);
        }
    }
    assert_eq!(setup.changes(), 0);
}

#[tokio::test]
async fn rules_bound_what_a_user_can_agree_to_and_stand_for_a_user_who_cannot_be_asked() {
    let (jira, billing) = (server("get_issue").await, server("create_invoice").await);
    let rules =
        format!(", admin: {{ allow: [{{ url: '{}' }}, {{ command: [uv, run, 'a-*.py'] }}] }}", billing.url);
    let setup = setup(&jira.url, &rules).await;
    let program = |script: &str, env: Value| json!({"name": "p", "transport": "stdio", "command": "uv", "args": ["run", script], "env": env});
    for (tool, arguments) in [
        ("optim.add_mcp_server", http("new", "http://127.0.0.1:9/")),
        ("optim.add_mcp_server", program("b.py", json!({}))),
        ("optim.add_mcp_server", program("a-b.py", json!({"LD_PRELOAD": "/tmp/x.so"}))),
        ("optim.remove_mcp_server", json!({"name": "jira"})),
        ("optim.enable_mcp_server", json!({"name": "jira"})),
    ] {
        let (refused, asked) = setup.ask("accept", tool, arguments).await;
        assert!(error(&refused).contains("no rule of `optimizer.admin.allow`"), "{tool}: {refused}");
        assert!(asked.is_empty());
    }
    assert_eq!(setup.changes(), 0);
    let added = setup.call("optim.add_mcp_server", http("billing", &billing.url)).await;
    assert_eq!(added["connected"], true, "{added}");
    let (_, asked) = setup.ask("accept", "optim.remove_mcp_server", json!({"name": "billing"})).await;
    assert_eq!(asked.len(), 1, "a user who can be asked is asked");
}

#[tokio::test]
async fn the_question_shows_every_word_and_hides_the_secrets() {
    let jira = server("get_issue").await;
    let setup = setup(&jira.url, "").await;
    let arguments = json!({"name": "weather", "transport": "stdio", "command": "uv",
        "args": ["run", "a\u{202e}b.py"], "enabled": false,
        "env": {"API_KEY": "hunter2", "NODE_OPTIONS": "--require=/tmp/x.js"}});
    let (added, asked) = setup.ask("accept", "optim.add_mcp_server", arguments).await;
    assert_eq!((&added["success"], &added["enabled"]), (&json!(true), &json!(false)), "{added}");
    let shown =
        "\n\"uv\"\n\"run\"\n\"a\\u{202e}b.py\"\nenv.API_KEY: ***\nenv.NODE_OPTIONS: \"--require=/tmp/x.js\"";
    assert!(asked[0].ends_with(shown), "{}", asked[0]);
    assert!(!added.to_string().contains("hunter2"));
    let records = setup.calls.take();
    assert!(!format!("{records:?}").contains("hunter2"), "{records:?}");
}

#[tokio::test]
async fn the_question_about_a_configured_server_shows_what_would_run_and_none_of_its_secrets() {
    let jira = server("get_issue").await;
    let setup = setup(&jira.url, "").await;
    let text = "\
        - name: files\n  command: [npx, -y, '@acme/files', /etc, --api-key, hunter2]\n  env: { TOKEN: hunter3 }\n  \
        cwd: /srv\n  enabled: false\n\
        - name: api\n  url: https://mcp.example.com/v1/mcp?key=hunter4\n  headers: { X-Team: hunter5 }\n  enabled: false\n";
    let text = format!("{}{text}", setup.registrar.text.lock());
    setup.registrar.text.lock().clone_from(&text);
    setup.engine.apply(config(&text)).await;
    for (tool, action) in [("optim.enable_mcp_server", "decline"), ("optim.disable_mcp_server", "cancel")] {
        let (_, asked) = setup.ask(action, tool, json!({"name": "files"})).await;
        let words = "\"npx\"\n\"-y\"\n\"@acme/files\"\n\"/etc\"\n\"--api-key\"\n***\n";
        assert!(asked[0].contains(words), "{}", asked[0]);
        assert!(asked[0].ends_with("in the directory: /srv\nwith the variables: TOKEN"), "{}", asked[0]);
        let (_, of_api) = setup.ask(action, tool, json!({"name": "api"})).await;
        assert!(of_api[0].contains("https://mcp.example.com/v1/mcp?"), "{}", of_api[0]);
        assert!(of_api[0].to_lowercase().contains("x-team"), "{}", of_api[0]);
        for question in asked.iter().chain(&of_api) {
            assert!(!question.contains("hunter"), "{question}");
        }
    }
}

#[tokio::test]
async fn a_server_that_is_away_is_kept_and_said_to_be() {
    let jira = server("get_issue").await;
    let setup = setup(&jira.url, "").await;
    let (added, _) =
        setup.ask("accept", "optim.add_mcp_server", http("away", "http://127.0.0.1:9/mcp")).await;
    assert_eq!((&added["success"], &added["connected"]), (&json!(true), &json!(false)), "{added}");
    assert!(added["last_error"].as_str().is_some_and(|error| !error.is_empty()), "{added}");
    let (again, asked) = setup.ask("accept", "optim.add_mcp_server", http("AWAY", "http://a/")).await;
    assert!(error(&again).contains("`away` already exists"), "{again}");
    assert!(asked.is_empty());
}

#[tokio::test]
async fn a_server_is_known_by_the_name_that_it_was_added_by() {
    let (jira, billing) = (server("get_issue").await, server("create_invoice").await);
    let setup = setup(&jira.url, "").await;
    let (added, _) =
        setup.ask("accept", "optim.add_mcp_server", http("My Billing (new)", &billing.url)).await;
    assert_eq!(added["server"], "my-billing-new", "{added}");
    for (tool, name) in [
        ("optim.disable_mcp_server", "My Billing (new)"),
        ("optim.enable_mcp_server", " MY-BILLING-NEW "),
        ("optim.remove_mcp_server", "my billing/new"),
    ] {
        let (changed, _) = setup.ask("accept", tool, json!({"name": name})).await;
        assert_eq!(
            (&changed["success"], &changed["server"]),
            (&json!(true), &json!("my-billing-new")),
            "{changed}"
        );
    }
    let (unknown, asked) = setup.ask("accept", "optim.remove_mcp_server", json!({"name": "日本"})).await;
    assert_eq!(error(&unknown), "server not found: 日本");
    assert!(asked.is_empty());
}

/// A server that answers each request with a redirect; returns its URL.
async fn redirecting(target: &str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let answer = format!(
        "HTTP/1.1 307 Temporary Redirect\r\nlocation: {target}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
    );
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let answer = answer.clone();
            tokio::spawn(async move {
                let mut bytes = [0; 8192];
                let _ = stream.read(&mut bytes).await;
                let _ = stream.write_all(answer.as_bytes()).await;
                // Until the client closes, so that no reset overtakes the answer.
                while stream.read(&mut bytes).await.is_ok_and(|count| count > 0) {}
            });
        }
    });
    url
}

#[tokio::test]
async fn a_named_server_that_redirects_leads_to_no_other_address() {
    let (jira, inside) = (server("get_issue").await, TcpListener::bind("127.0.0.1:0").await.unwrap());
    let url = redirecting(&format!("http://{}/mcp", inside.local_addr().unwrap())).await;
    let setup = setup(&jira.url, &format!(", admin: {{ allow: [{{ url: '{url}' }}] }}")).await;
    let added = setup.call("optim.add_mcp_server", http("moved", &url)).await;
    assert_eq!((&added["success"], &added["connected"]), (&json!(true), &json!(false)), "{added}");
    assert!(added["last_error"].as_str().is_some_and(|error| error.contains("it redirects to")), "{added}");
    let reached = timeout(Duration::from_millis(50), inside.accept()).await;
    assert!(reached.is_err(), "{reached:?}");
}

#[tokio::test]
async fn strangers_and_processes_without_a_registrar_are_told_why() {
    let jira = server("get_issue").await;
    let with_registrar = setup(&jira.url, "").await;
    let stranger = Caller { principal: Principal::at("192.0.2.1"), ..Caller::default() };
    let params = json!({"name": "optim.add_mcp_server", "arguments": http("new", "http://127.0.0.1:9/")});
    let refused = of(call_with(&with_registrar.engine, &stranger, params.clone()).await);
    assert!(error(&refused).contains("`incomingAuth`"), "{refused}");
    let optimizer = format!("optimizer: {{ embeddings: {{ provider: none }}, tools: [{TOOLS}] }}\n");
    let engine = engine_with(&optimizer, Options { storage: Storage::Memory, ..Options::default() }).await;
    let refused = of(call_with(&engine, &Caller::default(), params).await);
    assert!(error(&refused).contains("MCPServerEntry"), "{refused}");
}

#[tokio::test]
async fn call_tool_does_not_reach_the_tools_that_change_servers() {
    let jira = server("get_issue").await;
    let setup = setup(&jira.url, "").await;
    let arguments = json!({"tool_name": "optim.add_mcp_server", "parameters": http("n", "http://a/")});
    let (refused, asked) = setup.ask("accept", "optim.call_tool", arguments).await;
    assert!(refused["error"].as_str().unwrap().contains("cannot be invoked through"), "{refused}");
    assert!(asked.is_empty() && setup.changes() == 0);
}

#[tokio::test]
async fn without_being_configured_the_tools_do_not_exist() {
    let options = Options { storage: Storage::Memory, ..Options::default() };
    let engine = engine_with(KEYWORDS, options).await;
    for tool in OptimTool::OF_ADMIN {
        let answer = call_with(&engine, &Caller::default(), json!({"name": tool.dotted()})).await;
        assert!(answer.unwrap_err().to_string().contains("Unknown tool"), "{tool:?}");
    }
}
