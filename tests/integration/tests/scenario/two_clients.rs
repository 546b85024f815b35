//! Two clients with different names, roots, log levels and state use one server at the same time, and each
//! gets what it would get alone: in all pairings of eras, over each transport, through the bridge, at two
//! replicas.

use serde_json::{Value, json};
use vmcp_integration::{Bridge, Client, Fixture, Vmcp, VmcpBuilder};

const KEY: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Era {
    Legacy,
    Modern,
}

/// A server, and the era in which a client of each era reaches it.
struct Server {
    entry: Value,
    /// The era for a legacy client, and for a modern one.
    spoken: [Era; 2],
    _fixture: Fixture,
    _bridge: Option<Bridge>,
}

impl Server {
    /// Starts a server of the kind `era` over one transport, or behind a bridge.
    async fn start(era: &str, transport: &str) -> Self {
        let name = format!("{era}-{transport}");
        let fixture = match transport {
            "http" => Fixture::http(&name, "owner"),
            "sse" => Fixture::sse(&name, "owner"),
            _ => Fixture::stdio(&name, "owner"),
        };
        let fixture = fixture.args(["--era", era]).start().await;
        let mut entry = fixture.backend.clone();
        let mut bridge = None;
        if transport == "bridge" {
            let command = fixture.command();
            let started = Bridge::start(&command.iter().map(String::as_str).collect::<Vec<_>>(), &[]).await;
            entry = json!({"name": name, "url": started.url});
            bridge = Some(started);
        }
        let spoken = match era {
            "legacy" => [Era::Legacy; 2],
            "modern" => [Era::Modern; 2],
            _ => [Era::Legacy, Era::Modern],
        };
        Self { entry, spoken, _fixture: fixture, _bridge: bridge }
    }

    fn name(&self) -> &str {
        self.entry["name"].as_str().expect("a name")
    }

    /// Returns the era in which a client of `era` reaches the server.
    fn spoken_with(&self, era: Era) -> Era {
        self.spoken[usize::from(era == Era::Modern)]
    }
}

/// A person with a client.
struct Person {
    name: String,
    level: &'static str,
    era: Era,
    client: Client,
}

impl Person {
    async fn new(name: String, level: &'static str, era: Era, url: &str) -> Self {
        let able = json!({"elicitation": {}, "roots": {}});
        let client = match era {
            Era::Legacy => Client::legacy_with(url, "2025-11-25", &name, able).await,
            Era::Modern => Client::modern(url).named(&name).declaring(able),
        };
        Self { name, level, era, client }.leveled().await
    }

    /// Goes on at another replica: with the session, or, as a client without one, under another name.
    async fn moved(self, url: &str) -> Self {
        match &self.client.session {
            Some(session) => {
                let client = Client::modern(url).as_legacy().with_session(session);
                Self { client, ..self }.leveled().await
            }
            None => Self::new(format!("{}-moved", self.name), self.level, self.era, url).await,
        }
    }

    /// Sets the log level, which is kept in one process.
    async fn leveled(self) -> Self {
        if self.era == Era::Legacy {
            self.client.request("logging/setLevel", json!({"level": self.level})).await.result();
        }
        self
    }

    fn roots(&self) -> Value {
        json!([{"uri": format!("file:///home/{}", self.name)}])
    }

    /// Calls the tool; returns what the server was told, the log messages that came, and the questions.
    async fn call(&self, server: &Server) -> Value {
        let mut params = json!({"name": format!("{}_me", server.name()), "arguments": {}});
        if self.era == Era::Modern {
            params["_meta"] = json!({"io.modelcontextprotocol/logLevel": self.level});
        }
        let user = |method: &str, _: &Value| match method {
            "roots/list" => json!({"roots": self.roots()}),
            _ => json!({"action": "accept", "content": {"name": self.name}}),
        };
        let (answer, asked) = self.client.converse("tools/call", params, &user).await;
        let mut asked: Vec<_> = asked.into_iter().map(|question| question[0].clone()).collect();
        asked.sort_by_key(ToString::to_string);
        let logged = answer.notifications.iter().map(|message| message["params"]["data"].clone());
        let told: Value = serde_json::from_str(&answer.content_text()).unwrap_or_default();
        json!({"told": told, "logged": logged.collect::<Vec<_>>(), "asked": asked})
    }

    /// Returns what [`Self::call`] returns alone, the `n`th time.
    fn alone(&self, server: &Server, n: u64) -> Value {
        let calls = (server.spoken_with(self.era) == Era::Legacy).then_some(n);
        let logged = if self.level == "error" { json!(["error"]) } else { json!(["info", "error"]) };
        json!({
            "told": {"name": self.name, "roots": self.roots(), "calls": calls},
            "logged": logged,
            "asked": ["elicitation/create", "roots/list"],
        })
    }
}

/// Lets both use each server at the same time, twice.
async fn compare(servers: &[Server], ann: &Person, bob: &Person, place: &str) {
    for server in servers {
        for n in 1..=2 {
            let (by_ann, by_bob) = futures::join!(ann.call(server), bob.call(server));
            let what = format!("{} {place}: {:?} beside {:?}", server.name(), ann.era, bob.era);
            assert_eq!(by_ann, ann.alone(server, n), "{what}");
            assert_eq!(by_bob, bob.alone(server, n), "{what}");
        }
    }
}

#[tokio::test]
async fn each_gets_what_it_would_get_alone() {
    let mut servers = Vec::new();
    for (era, transports) in [
        ("legacy", &["stdio", "sse", "http", "bridge"][..]),
        ("modern", &["stdio", "http", "bridge"]),
        ("dual", &["stdio", "http", "bridge"]),
    ] {
        for transport in transports {
            servers.push(Server::start(era, transport).await);
        }
    }
    let replica = async || {
        let entries = servers.iter().map(|server| server.entry.clone());
        let builder = entries.fold(Vmcp::new(), VmcpBuilder::backend_entry);
        let keys = json!({"server": {"sessionKeys": ["${SESSION_KEY}"]}});
        let vmcp = builder.config(keys).env("SESSION_KEY", KEY).start().await;
        for server in &servers {
            vmcp.with_tool(&format!("{}_me", server.name())).await;
        }
        vmcp
    };
    let (one, other) = futures::join!(replica(), replica());
    for (n, eras) in [[Era::Legacy, Era::Legacy], [Era::Modern, Era::Modern], [Era::Legacy, Era::Modern]]
        .iter()
        .enumerate()
    {
        let ann = Person::new(format!("ann-{n}"), "error", eras[0], &one.url).await;
        let bob = Person::new(format!("bob-{n}"), "debug", eras[1], &one.url).await;
        compare(&servers, &ann, &bob, "at one replica").await;
        let ann = ann.moved(&other.url).await;
        let carl = Person::new(format!("carl-{n}"), "info", eras[1], &other.url).await;
        compare(&servers, &ann, &carl, "at the other replica").await;
    }
}

/// Two windows of one application, or two people behind a proxy, have one name and one address.
#[tokio::test]
async fn each_of_two_modern_clients_with_one_name_gets_its_own() {
    let mut servers = Vec::new();
    for (era, transports) in [("legacy", &["stdio", "sse", "http"][..]), ("modern", &["stdio", "http"])] {
        for transport in transports {
            servers.push(Server::start(era, transport).await);
        }
    }
    let entries = servers.iter().map(|server| server.entry.clone());
    let vmcp = entries.fold(Vmcp::new(), VmcpBuilder::backend_entry).start().await;
    for server in &servers {
        vmcp.with_tool(&format!("{}_me", server.name())).await;
    }
    let twin = |name: &str, level| {
        let able = json!({"elicitation": {}, "roots": {}});
        let client = Client::modern(&vmcp.url).named("twin").declaring(able);
        Person { name: name.to_owned(), level, era: Era::Modern, client }
    };
    let (ann, bob) = (twin("ann", "error"), twin("bob", "debug"));
    for server in &servers {
        for round in 1..=2 {
            let told = futures::join!(ann.call(server), bob.call(server));
            for (person, told) in [(&ann, told.0), (&bob, told.1)] {
                assert_eq!(told, person.alone(server, round), "{} in round {round}", server.name());
            }
        }
    }
    // State lasts, whatever the client asks in between.
    let carl = twin("carl", "error");
    for n in 1..=3 {
        carl.client.request("tools/list", json!({})).await.result();
        assert_eq!(carl.call(&servers[0]).await["told"]["calls"], n);
    }
}
