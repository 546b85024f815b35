//! The fixture server `vmcp-fixture` as a backend.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tokio::process::Command;

use crate::paths::binary;
use crate::{Process, eventually, http_client};

/// A fixture server that is yet to be started.
pub struct FixtureBuilder {
    name: String,
    transport: &'static str,
    args: Vec<String>,
    is_shared: bool,
}

impl FixtureBuilder {
    /// Adds command line arguments, such as `["--era", "legacy"]`.
    #[must_use]
    pub fn args<const N: usize>(mut self, args: [&str; N]) -> Self {
        self.args.extend(args.map(ToOwned::to_owned));
        self
    }

    /// Makes all clients share one process, so that its control endpoint and its counts are about all calls.
    #[must_use]
    pub fn shared(mut self) -> Self {
        self.is_shared = true;
        self
    }

    /// Adds a fault that is there from the start.
    #[must_use]
    pub fn fault(self, fault: &Value) -> Self {
        self.args(["--fault", &fault.to_string()])
    }

    /// Starts the server; over stdio, vmcp is the one to start it.
    pub async fn start(self) -> Fixture {
        let scratch = tempfile::tempdir().expect("a temporary folder");
        let address = scratch.path().join("address");
        let mut args = vec!["--transport".to_owned(), self.transport.to_owned()];
        args.extend(["--name".to_owned(), self.name.clone()]);
        args.extend(["--announce".to_owned(), address.display().to_string()]);
        args.extend(self.args);
        let mut backend = json!({"name": self.name});
        if self.is_shared {
            backend["isolation"] = "shared".into();
        }
        let process = if self.transport == "stdio" {
            let command: Vec<String> =
                [binary("vmcp-fixture").display().to_string()].into_iter().chain(args).collect();
            backend["command"] = json!(command);
            None
        } else {
            let process = Process::start(&self.name, Command::new(binary("vmcp-fixture")).args(args));
            backend["url"] = process.line_after("listening on ").await.into();
            if self.transport == "sse" {
                backend["transport"] = "sse".into();
            }
            Some(process)
        };
        Fixture { name: self.name, backend, process, address, _scratch: scratch }
    }
}

/// A fixture server. Over HTTP it is a child of the test, over stdio of vmcp; the control endpoint is there
/// in either case.
pub struct Fixture {
    /// Its name as a backend.
    pub name: String,
    /// Its entry in the `backends` of a configuration.
    pub backend: Value,
    process: Option<Process>,
    address: PathBuf,
    _scratch: tempfile::TempDir,
}

impl Fixture {
    /// Starts the server on rmcp, the official Rust SDK; `era` is legacy, modern or dual.
    pub async fn rmcp(name: &str, era: &str) -> Self {
        let scratch = tempfile::tempdir().expect("a temporary folder");
        let process = Process::start(name, Command::new(binary("vmcp-rmcp-fixture")).args(["--era", era]));
        let backend = json!({"name": name, "url": process.line_after("listening on ").await});
        let address = scratch.path().join("none");
        Self { name: name.to_owned(), backend, process: Some(process), address, _scratch: scratch }
    }

    /// Returns a server over streamable HTTP; of both eras unless arguments say otherwise.
    pub fn http(name: &str, toolset: &str) -> FixtureBuilder {
        Self::over("http", name, toolset)
    }

    /// Returns a server over standard input and output.
    pub fn stdio(name: &str, toolset: &str) -> FixtureBuilder {
        Self::over("stdio", name, toolset)
    }

    /// Returns a server over HTTP with server-sent events, the transport of 2024-11-05.
    pub fn sse(name: &str, toolset: &str) -> FixtureBuilder {
        Self::over("sse", name, toolset)
    }

    fn over(transport: &'static str, name: &str, toolset: &str) -> FixtureBuilder {
        let args = vec!["--toolset".to_owned(), toolset.to_owned()];
        FixtureBuilder { name: name.to_owned(), transport, args, is_shared: false }
    }

    /// Returns the command line of a server over stdio.
    pub fn command(&self) -> Vec<String> {
        let words = self.backend["command"].as_array().expect("a command").iter();
        words.map(|word| word.as_str().expect("a word").to_owned()).collect()
    }

    /// Returns the URL of a server over HTTP.
    pub fn url(&self) -> &str {
        self.backend["url"].as_str().expect("a fixture over HTTP")
    }

    /// Sends a command or a fault to its control endpoint.
    pub async fn control(&self, command: Value) {
        let url = format!("{}/control", self.control_address().await);
        let sent = http_client().post(url).json(&command).send().await;
        let answer = sent.unwrap_or_else(|error| panic!("no control over {}: {error}", self.name));
        let (status, text) = (answer.status(), answer.text().await.unwrap_or_default());
        assert!(status.is_success(), "{} refuses {command}: {text}", self.name);
    }

    /// Returns its counts so far.
    pub async fn stats(&self) -> Value {
        let url = format!("{}/control/stats", self.control_address().await);
        let answer = http_client().get(url).send().await.expect("a running fixture");
        answer.json().await.expect("the fixture's counts")
    }

    /// Returns the number of messages of `method` that arrived.
    pub async fn received(&self, method: &str) -> u64 {
        self.stats().await["methods"][method].as_u64().unwrap_or_default()
    }

    /// Returns the number of calls of `tool` that arrived.
    pub async fn calls(&self, tool: &str) -> u64 {
        self.stats().await["tools"][tool].as_u64().unwrap_or_default()
    }

    /// Kills a server over HTTP, as a crash would.
    pub async fn kill(&mut self) {
        let process = self.process.as_mut().expect("a fixture over HTTP");
        process.signal("KILL").await;
        process.ended().await;
    }

    /// Sends a signal by name, such as `STOP`, to a server over HTTP.
    pub async fn signal(&self, signal: &str) {
        self.process.as_ref().expect("a fixture over HTTP").signal(signal).await;
    }

    async fn control_address(&self) -> String {
        let read = |path: &Path| std::fs::read_to_string(path).ok().filter(|text| !text.is_empty());
        eventually(&format!("{} to start", self.name), async || read(&self.address)).await
    }
}
