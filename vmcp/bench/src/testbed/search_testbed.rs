//! An engine of vmcp and a SQLite database with the same synthetic tools, to be searched side by side.

use std::time::Duration;

use anyhow::Result;
use vmcp_engine::engine::Engine;

use super::sqlite_peer::SqlitePeer;
use super::synthetic_servers::SyntheticServers;
use crate::synthetic_tools::{self, SyntheticTool};

/// An engine and SQLite over one catalog.
pub(crate) struct SearchTestbed {
    /// Tools of the catalog.
    pub(crate) definitions: Vec<SyntheticTool>,
    /// MCP servers that offer them.
    pub(crate) servers: SyntheticServers,
    /// Engine of vmcp over the servers, with all vectors.
    pub(crate) engine: Engine,
    /// Search to compare with.
    pub(crate) peer: SqlitePeer,
}

impl SearchTestbed {
    /// Generates `size` tools and waits until the engine has all their vectors.
    pub(crate) async fn new(size: usize) -> Result<SearchTestbed> {
        let definitions = synthetic_tools::generate(size);
        let servers = SyntheticServers::start(&definitions).await?;
        let engine = servers.engine(size).await?;
        let peer = SqlitePeer::new(&definitions)?;
        Ok(SearchTestbed { definitions, servers, engine, peer })
    }

    /// Stops the engine.
    pub(crate) async fn end(self) {
        self.engine.shutdown(Duration::from_secs(5)).await;
    }
}
