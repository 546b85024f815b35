//! Paths of our binaries and of real servers, and free ports.

use std::fs::File;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU16, Ordering};

use tokio::process::Command;

/// Returns the path of one of our binaries, in the folder that the test itself was built into.
pub fn binary(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("the path of this test");
    let folder = test.parent().expect("a folder");
    // The test is in `deps`, binaries are one folder above.
    let folder = if folder.ends_with("deps") { folder.parent().expect("target/debug") } else { folder };
    let binary = folder.join(name);
    assert!(binary.exists(), "{} is not built: run the tests with `make test-integration`", binary.display());
    binary
}

/// Returns the path of a program or folder that `make setup` installed, such as `python/bin/mcp-server-time`.
pub fn installed(path: &str) -> PathBuf {
    let cache = || {
        let home = || PathBuf::from(std::env::var_os("HOME").expect("HOME")).join(".cache");
        std::env::var_os("XDG_CACHE_HOME").map_or_else(home, PathBuf::from).join("vmcp/servers")
    };
    let path = std::env::var_os("VMCP_SERVERS").map_or_else(cache, PathBuf::from).join(path);
    assert!(path.exists(), "{} is not installed: run `make setup`", path.display());
    path
}

/// Returns the path of a Python program that `make setup` installed.
pub fn python(program: &str) -> PathBuf {
    installed("python/bin").join(program)
}

/// Returns the path of a Node program that `make setup` installed.
pub fn node(program: &str) -> PathBuf {
    installed("node/node_modules/.bin").join(program)
}

/// Returns the path that a script in `scripts/` prints, or the last line of its errors: why there is none.
pub async fn found_by(script: &str) -> Result<String, String> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts").join(script);
    let found = Command::new(script).output().await.expect("a shell");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if found.status.success() {
        return Ok(text(&found.stdout));
    }
    // The lines before it are those of a build or a download.
    Err(text(&found.stderr).lines().last().unwrap_or_default().to_owned())
}

/// Returns a free port on 127.0.0.1.
///
/// It lies below the range of ports for outgoing connections, so that no connection takes it before its
/// server does, and in a block of [`BLOCK_SIZE`] that no other process of tests uses.
pub fn free_port() -> u16 {
    static BLOCK: OnceLock<(u16, Option<File>)> = OnceLock::new();
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let (block, _lock) = BLOCK.get_or_init(free_block);
    loop {
        let port = block + NEXT.fetch_add(1, Ordering::Relaxed) % BLOCK_SIZE;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

const BLOCK_SIZE: u16 = 500;

/// Returns the first port of a block, and the locked file that keeps other processes out of it until this one
/// ends.
fn free_block() -> (u16, Option<File>) {
    let blocks = (20_000..32_000).step_by(BLOCK_SIZE.into());
    let locked = blocks.map(|first| {
        let lock = File::create(std::env::temp_dir().join(format!("vmcp-tests-ports-{first}.lock"))).ok()?;
        lock.try_lock().is_ok().then_some((first, Some(lock)))
    });
    // All blocks are taken: share one, and hope.
    let any = || (20_000 + std::process::id() as u16 % 24 * BLOCK_SIZE, None);
    locked.flatten().next().unwrap_or_else(any)
}
