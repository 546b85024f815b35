//! What to measure, and of what.

use std::net::SocketAddr;

use clap::{Args, Parser, ValueEnum};
use vmcp_wire::era::Era;

use crate::roles::Role;

/// Measures vmcp.
#[derive(Debug, Parser)]
pub(crate) struct Options {
    /// A fifth of the repetitions
    #[arg(long, env = "VMCP_BENCH_QUICK")]
    pub(crate) quick: bool,
    /// What to measure [default: everything]
    pub(crate) stages: Vec<Stage>,
    /// Calls and lists: only this target (direct, axum, hyper, vmcp, or the name of a gateway; repeatable)
    #[arg(long)]
    target: Vec<String>,
    /// Calls: one round of so many seconds, for a profiler
    #[arg(long)]
    pub(crate) seconds: Option<f64>,
    /// Calls: only so many clients (1, 16; 4 with results of 1 MB)
    #[arg(long)]
    clients: Option<usize>,
    /// Calls: only results of this size
    #[arg(long, value_enum)]
    size: Option<Size>,
    /// Calls: only clients of this era
    #[arg(long, value_enum)]
    era: Option<ClientEra>,
    /// Another gateway that runs in front of the backend, e.g. other=http://127.0.0.1:3000/mcp
    #[arg(long, value_name = "NAME=URL", value_parser = pair)]
    pub(crate) gateway: Vec<(String, String)>,
    /// The process of a gateway: its CPU time and memory are measured too
    #[arg(long, value_name = "NAME=PID", value_parser = pair)]
    pub(crate) gateway_pid: Vec<(String, String)>,
    /// Where the backend of the calls listens, so that another gateway can be put before it
    #[arg(long, default_value = "127.0.0.1:0")]
    pub(crate) backend_listen: SocketAddr,
    #[command(flatten)]
    pub(crate) process_role: RoleOptions,
}

/// This program as one of the processes that it starts.
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
    Embedding,
    Calls,
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

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ClientEra {
    Legacy,
    Modern,
}

impl Options {
    /// Whether a stage is to be run.
    pub(crate) fn runs(&self, stage: Stage) -> bool {
        self.stages.is_empty() || self.stages.contains(&stage)
    }

    /// Whether results of this size are to be asked for by so many clients.
    pub(crate) fn wants(&self, size: &str, clients: usize) -> bool {
        let name = match self.size {
            None => size,
            Some(Size::Small) => "1 KB",
            Some(Size::Medium) => "100 KB",
            Some(Size::Large) => "1 MB",
        };
        name == size && self.clients.is_none_or(|wanted| wanted == clients)
    }

    /// Whether clients of this era are to ask.
    pub(crate) fn wants_era(&self, era: Era) -> bool {
        match self.era {
            None => true,
            Some(ClientEra::Legacy) => era == Era::Legacy,
            Some(ClientEra::Modern) => era == Era::Modern,
        }
    }

    /// Whether a target is to be asked; `word` is its short name.
    pub(crate) fn wants_target(&self, word: &str) -> bool {
        self.target.is_empty() || self.target.iter().any(|wanted| wanted == word)
    }
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("must be NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}
