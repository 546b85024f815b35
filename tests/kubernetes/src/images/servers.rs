//! Image of the MCP servers that pods of the tests run.

use std::path::PathBuf;

use tokio::process::Command;
use vmcp_integration::{binary, installed};

use super::base::{NODE_AND_PYTHON, base};
use super::{Build, Context, digest, digest_of, run};

/// Name of the image of the servers in the tests.
pub const SERVERS: &str = "localhost/vmcp-tests/servers:1";
const BASE: &str = "localhost/vmcp-tests/node-and-python:1";
const DOCKERFILE: &str = include_str!("servers.Dockerfile");
const TEI: &str = include_str!("tei.py");

/// Builds the image with real MCP servers of npm and PyPI, as `make setup` installed them, the fixture
/// server, and a stand-in for Text Embeddings Inference, which runs unless a command says otherwise. Returns
/// the archive.
pub async fn servers() -> PathBuf {
    let (fixture, stamp) = (binary("vmcp-fixture"), installed("stamp"));
    let build = Build::new(SERVERS);
    let key = digest(&[DOCKERFILE, TEI, &digest_of(&fixture), &digest_of(&stamp), NODE_AND_PYTHON]);
    let context = Context::new(DOCKERFILE);
    if !build.is_built(&key) {
        base(BASE, NODE_AND_PYTHON).await;
        std::fs::write(context.path().join("tei"), TEI).expect("writing into the context");
        context.copy(&fixture, "vmcp-fixture").await;
        context.copy(&installed("node/node_modules"), "node").await;
        let mut site = Command::new(installed("python/bin/python"));
        site.args(["-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]);
        let site = run("python", &mut site).await;
        context.copy(site.trim().as_ref(), "python").await;
    }
    build.archive(&key, context.path()).await
}
