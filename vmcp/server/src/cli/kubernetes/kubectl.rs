//! [`Kubectl`]: the person's `kubectl`, as a process. Manifests go through its standard input, because an
//! argument would be visible in the list of processes, and a temporary file on the disk.

use std::io::{self, ErrorKind, Write as _};
use std::process::{Command, Stdio};

use serde_json::Value;
use vmcp_config::{MASK, Secret};

use super::{MANAGER, refusal};
use crate::cli::console::failure::CommandFailure;

/// Time limit of each request to the API server; `kubectl` has none by itself.
const REQUEST_TIMEOUT: &str = "--request-timeout=30s";

/// A cluster, as `kubectl` sees it.
#[derive(Debug, Clone)]
pub(in crate::cli) struct Kubectl<'a> {
    /// Options that choose the cluster.
    options: Vec<String>,
    /// Values that are masked in its words.
    secrets: Vec<&'a Secret>,
}

impl<'a> Kubectl<'a> {
    /// Chooses a cluster; `secrets` are masked in the output.
    pub(in crate::cli) fn new(
        context: Option<&str>,
        namespace: Option<&str>,
        secrets: impl Iterator<Item = &'a Secret>,
    ) -> Self {
        let option = |name: &str, value: &str| format!("--{name}={value}");
        let context = context.map(|context| option("context", context));
        let namespace = namespace.map(|namespace| option("namespace", namespace));
        Self { options: context.into_iter().chain(namespace).collect(), secrets: secrets.collect() }
    }

    /// Applies an object (server-side apply) with further arguments; returns the output.
    pub(in crate::cli) fn apply(&self, object: &Value, arguments: &[&str]) -> Result<String, CommandFailure> {
        let manager = format!("--field-manager={MANAGER}");
        let apply = ["apply", "--server-side", &manager, "--filename=-"];
        self.run(&[&apply, arguments].concat(), Some(object))
    }

    /// Returns it with the options that choose the cluster; the subcommand comes behind them.
    pub(super) fn command(&self) -> Command {
        let mut command = Command::new("kubectl");
        command.args(&self.options);
        command
    }

    /// Runs it and returns its output. Neither input nor output is logged.
    pub(in crate::cli) fn run(
        &self,
        arguments: &[&str],
        input: Option<&Value>,
    ) -> Result<String, CommandFailure> {
        tracing::debug!(?arguments, options = ?self.options, "kubectl");
        // Before the subcommand: behind a `--`, options would be names.
        let mut command = self.command();
        command.arg(REQUEST_TIMEOUT).args(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let output = exchange(&mut command, input).map_err(|error| refusal::not_run(&error))?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let words = String::from_utf8_lossy(&output.stderr);
        Err(refusal::explain(&self.masked(&words)))
    }

    /// Masks the values, as they are and as a Secret has them: an API server may quote what it refuses.
    fn masked(&self, words: &str) -> String {
        use base64::Engine as _;
        let encoded = |text: &str| base64::prelude::BASE64_STANDARD.encode(text);
        self.secrets.iter().fold(words.to_owned(), |words, secret| {
            let text = secret.expose();
            words.replace(text, MASK).replace(&encoded(text), MASK)
        })
    }
}

fn exchange(command: &mut Command, input: Option<&Value>) -> io::Result<std::process::Output> {
    let mut child = command.spawn()?;
    if let (Some(mut stdin), Some(input)) = (child.stdin.take(), input) {
        // A `kubectl` that ends without reading prints its reason on standard error.
        match stdin.write_all(input.to_string().as_bytes()) {
            Err(error) if error.kind() != ErrorKind::BrokenPipe => return Err(error),
            _ => {}
        }
    }
    child.wait_with_output()
}
