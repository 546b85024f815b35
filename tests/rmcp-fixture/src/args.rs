//! Command line of the server.

use clap::{Parser, ValueEnum};
use rmcp::model::ProtocolVersion;

/// An MCP server that passes the official conformance suite
#[derive(Debug, Parser)]
pub(crate) struct Args {
    /// Port on 127.0.0.1; 0 takes a free one
    #[arg(long, default_value_t = 0)]
    pub port: u16,
    /// Protocol revisions that the server speaks
    #[arg(long, value_enum, default_value = "dual")]
    pub era: Era,
}

/// Protocol revisions that the server speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Era {
    /// 2025-11-25 and older.
    Legacy,
    /// 2026-07-28 only.
    Modern,
    /// Both on one URL.
    Dual,
}

impl Era {
    /// Returns the revisions of this era.
    pub(crate) fn revisions(self) -> Vec<ProtocolVersion> {
        let modern = |version: &ProtocolVersion| *version == ProtocolVersion::V_2026_07_28;
        let wanted = |version: &&ProtocolVersion| match self {
            Self::Legacy => !modern(version),
            Self::Modern => modern(version),
            Self::Dual => true,
        };
        ProtocolVersion::KNOWN_VERSIONS.iter().filter(wanted).cloned().collect()
    }
}
