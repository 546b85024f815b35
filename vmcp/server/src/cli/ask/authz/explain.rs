//! `vmcp authz explain`: decides about one call, and names the policy that decided.

use std::time::Duration;

use clap::{Args, ValueEnum};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::cli::connection::{ClaimsFile, InProcessEngine, Readiness, duration};
use crate::cli::console::failure::{CommandFailure, Exit};
use crate::cli::console::output::{self, OutputFormat};
use crate::cli::options::{GlobalOptions, no_file};
use crate::cli::process::block_on;
use vmcp_engine::access::identity::{Identity, Principal};
use vmcp_engine::access::policy::{AccessRequest, Explanation, Item};
use vmcp_engine::engine::Snapshot;
use vmcp_engine::optim::names::{OwnName, own_name};

/// Say whether a client may call a tool, and which policy decides
#[derive(Debug, Args)]
#[command(after_help = "\
Starts the backends of the configuration file, to know their tools. Exits with 0 when the call is allowed, with
1 when it is denied, with 3 when there is no such item.

Examples:
  vmcp authz explain --as alice.json github_create_issue
  vmcp authz explain --as alice.json fs_write --arguments '{\"path\": \"/tmp/x\"}'
  vmcp authz explain --kind resource file:///notes.txt

alice.json holds the claims of a token: {\"sub\": \"alice\", \"groups\": [\"dev\"]}")]
pub(super) struct Arguments {
    /// Listed name of a tool or prompt, or URI of a resource
    item: String,
    /// File with the claims of the client's token, as JSON [default: a client without credentials]
    #[arg(long = "as", value_name = "FILE")]
    claims: Option<ClaimsFile>,
    /// Arguments of the call, as JSON [default: none are known, as for a list]
    #[arg(long = "arguments", value_name = "JSON")]
    call: Option<String>,
    /// Kind of the item
    #[arg(long, value_name = "KIND", default_value = "tool")]
    kind: ItemKind,
    /// Format of the result
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: OutputFormat,
    /// Time to wait for backends to start; the command then goes on without those that are missing
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration)]
    wait: Duration,
}

/// Kinds of items.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum ItemKind {
    Tool,
    Prompt,
    Resource,
}

/// A decision, with its reasons.
#[derive(Debug, Serialize)]
struct Report {
    subject: String,
    item: String,
    #[serde(flatten)]
    explanation: Explanation,
}

/// Runs the command.
pub(super) fn run(arguments: Arguments, global: &GlobalOptions) -> Result<Exit, CommandFailure> {
    let Arguments { item, claims, call, kind, output: format, wait } = arguments;
    if let Some(call) = &call {
        serde_json::from_str::<&RawValue>(call).map_err(|error| {
            CommandFailure::new(format!("--arguments is not JSON: {error}")).exit(Exit::Usage)
        })?;
    }
    let file = global.load_or_running()?.ok_or_else(no_file)?;
    global.start_logs()?;
    let identity = claims.map(ClaimsFile::into_identity).unwrap_or_default();
    let need = match kind {
        ItemKind::Tool => Readiness::Tool(&item),
        ItemKind::Prompt | ItemKind::Resource => Readiness::Backends,
    };
    let explanation = block_on(async {
        let engine = InProcessEngine::start(file.config, &need, wait, Some(identity.clone())).await?;
        let explanation = explain(&engine.snapshot(), kind, &identity, &item, call.as_deref());
        engine.stop().await;
        Ok::<_, CommandFailure>(explanation)
    })?;
    let Some(explanation) = explanation else {
        return Err(CommandFailure::new(format!("no backend has the {} `{item}`", kind.name()))
            .exit(Exit::NothingFound)
            .remedy("`vmcp tools --all` lists the tools of all backends"));
    };
    let allowed = explanation.allowed;
    let report = Report { subject: identity.subject().to_owned(), item, explanation };
    output::print(format, &report, || report.human_text())?;
    Ok(if allowed { Exit::Done } else { Exit::Failed })
}

/// Asks about an item; `None` if no item has this name.
fn explain(
    snapshot: &Snapshot,
    kind: ItemKind,
    identity: &Identity,
    name: &str,
    arguments: Option<&str>,
) -> Option<Explanation> {
    let catalog = snapshot.unfiltered();
    let own = own_name(name).filter(|_| snapshot.config.optimizer.enabled);
    let own = match own {
        Some(OwnName::Reserved(tool)) => Some(tool),
        Some(OwnName::Bare(tool)) if catalog.tool(name).is_none() => Some(tool),
        Some(OwnName::Bare(_) | OwnName::Unknown) | None => None,
    };
    let (backend, item) = match (kind, own) {
        (ItemKind::Tool, Some(own)) => ("", Item::OwnTool(own.dotted())),
        (ItemKind::Tool, None) => catalog.tool(name).map(|tool| (&*tool.backend, Item::Tool(tool)))?,
        (ItemKind::Prompt, _) => {
            catalog.prompt(name).map(|prompt| (&*prompt.backend, Item::Prompt(prompt)))?
        }
        (ItemKind::Resource, _) => {
            let target = catalog.resources_for(name).next()?;
            (&**target.backend(), Item::Resource(name))
        }
    };
    let principal = Principal::from(identity.clone());
    let request = AccessRequest { principal: &principal, action: "", backend, item, arguments };
    Some(snapshot.policy.explain(&request))
}

impl ItemKind {
    fn name(self) -> &'static str {
        match self {
            ItemKind::Tool => "tool",
            ItemKind::Prompt => "prompt",
            ItemKind::Resource => "resource",
        }
    }
}

impl Report {
    fn human_text(&self) -> String {
        let Report { subject, item, explanation } = self;
        let Explanation { allowed, policy, could_allow, errors, shadow } = explanation;
        let decision = if *allowed { "may use" } else { "may not use" };
        let mut lines = vec![format!("{subject} {decision} {item}: decided by `{policy}`")];
        lines.push(match (*allowed, *could_allow) {
            (false, true) => "listed: with other arguments, a call could be allowed".to_owned(),
            (_, true) => "listed".to_owned(),
            (_, false) => "not listed".to_owned(),
        });
        lines.extend(shadow.iter().map(|policy| {
            let decision = if *allowed { "deny" } else { "allow" };
            format!("not enforced: `{policy}` would {decision} it")
        }));
        lines.extend(errors.iter().map(|error| format!("not evaluated: {error}")));
        lines.join("\n")
    }
}
