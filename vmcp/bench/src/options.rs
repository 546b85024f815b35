//! Options of the command line: stages, targets and loads.

use std::net::SocketAddr;

use clap::{Args, Parser, ValueEnum};
use vmcp_wire::era::Era;

use crate::roles::Role;

/// Measures vmcp.
#[derive(Debug, Parser)]
pub(crate) struct Options {
    /// Repeat a fifth as often
    #[arg(long, env = "VMCP_BENCH_QUICK")]
    pub(crate) quick: bool,
    /// Stages to run [default: all]
    pub(crate) stages: Vec<Stage>,
    /// Calls and lists: measure only this target (direct, axum, hyper, per-core, vmcp, or the name of a
    /// gateway; repeatable)
    #[arg(long)]
    target: Vec<String>,
    /// Calls: run one round of this many seconds, for a profiler
    #[arg(long)]
    pub(crate) seconds: Option<f64>,
    /// Calls: run only with this many clients (1 or 16; with results of 1 MB, 1 or 4)
    #[arg(long)]
    clients: Option<usize>,
    /// Calls: run only with results of this size
    #[arg(long, value_enum)]
    size: Option<Size>,
    /// Calls: run only with answers of this kind
    #[arg(long, value_enum)]
    answer: Option<AnswerKind>,
    /// Calls: run only with clients of this era
    #[arg(long, value_enum)]
    era: Option<ClientEra>,
    /// Gateway that runs in front of the backend, such as other=http://127.0.0.1:3000/mcp (repeatable)
    #[arg(long, value_name = "NAME=URL", value_parser = pair)]
    pub(crate) gateway: Vec<(String, String)>,
    /// Process of a gateway, whose CPU time and memory are measured too (repeatable)
    #[arg(long, value_name = "NAME=PID", value_parser = pair)]
    pub(crate) gateway_pid: Vec<(String, String)>,
    /// Address of the backend of the calls, so that another gateway can be put in front of it
    #[arg(long, default_value = "127.0.0.1:0")]
    pub(crate) backend_listen: SocketAddr,
    #[command(flatten)]
    pub(crate) process_role: RoleOptions,
}

/// Options with which this program starts itself as a backend or proxy.
#[derive(Debug, Args)]
pub(crate) struct RoleOptions {
    #[arg(long, hide = true, value_enum)]
    pub(crate) role: Option<Role>,
    #[arg(long, hide = true, default_value = "127.0.0.1:0")]
    pub(crate) listen: SocketAddr,
    #[arg(long, hide = true)]
    pub(crate) upstream: Option<SocketAddr>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Stage {
    Start,
    Memory,
    FindTool,
    Composites,
    Code,
    Embedding,
    Calls,
    Audit,
    Telemetry,
    Allocations,
    Streaming,
    HalfSent,
    Hostile,
    Lists,
    Sessions,
    Storm,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Size {
    #[value(name = "1k")]
    Small,
    #[value(name = "100k")]
    Medium,
    #[value(name = "1m")]
    Large,
}

/// Kind of an answer to `tools/call`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum AnswerKind {
    /// A JSON document with one text.
    Text,
    /// A JSON document with `structuredContent`.
    Structured,
    /// An event stream with one text.
    Sse,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ClientEra {
    Legacy,
    Modern,
}

impl Options {
    /// Returns true if a stage is to be run.
    pub(crate) fn runs(&self, stage: Stage) -> bool {
        self.stages.is_empty() || self.stages.contains(&stage)
    }

    /// Returns true if answers of this kind and size are to be requested by this many clients.
    pub(crate) fn wants(&self, kind: AnswerKind, size: &str, clients: usize) -> bool {
        let name = match self.size {
            None => size,
            Some(Size::Small) => "1 KB",
            Some(Size::Medium) => "100 KB",
            Some(Size::Large) => "1 MB",
        };
        name == size
            && self.clients.is_none_or(|wanted| wanted == clients)
            && self.answer.is_none_or(|wanted| wanted == kind)
    }

    /// Returns true if clients of this era are to run.
    pub(crate) fn wants_era(&self, era: Era) -> bool {
        match self.era {
            None => true,
            Some(ClientEra::Legacy) => era == Era::Legacy,
            Some(ClientEra::Modern) => era == Era::Modern,
        }
    }

    /// Returns true if a target is to be measured; `word` is its short name.
    pub(crate) fn wants_target(&self, word: &str) -> bool {
        self.target.is_empty() || self.target.iter().any(|wanted| wanted == word)
    }
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("must be NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}
