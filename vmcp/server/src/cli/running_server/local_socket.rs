//! Socket of a server that a client started (`vmcp serve --stdio`): commands of this user ask it there. It
//! has no port, which every program on this machine could reach.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use tokio::net::UnixListener;

use super::process_files;
use crate::config_file::secret_store::private_folder;
use vmcp_engine::folders;

/// The socket of this process; removed when dropped.
pub(in crate::cli) struct LocalSocket(PathBuf);

impl Drop for LocalSocket {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Opens the socket of this process, which serves `config`. `None` without a writable cache folder, or if the
/// path is too long for a socket.
pub(in crate::cli) fn listen(config: &Path) -> Option<(UnixListener, LocalSocket)> {
    let prefix = super::file_prefix(config)?;
    let folder = folder(&folders::cache_dir());
    match bind(&folder, &prefix, std::process::id(), "") {
        Ok(opened) => Some(opened),
        Err(error) => {
            tracing::debug!(%error, folder = %folder.display(), "no local socket; commands do not find this server");
            None
        }
    }
}

pub(super) fn folder(cache: &Path) -> PathBuf {
    cache.join("run").join("local")
}

/// Binds the socket of a process in `folder`, which is made if missing.
pub(super) fn bind(
    folder: &Path,
    prefix: &str,
    pid: u32,
    suffix: &str,
) -> io::Result<(UnixListener, LocalSocket)> {
    private_folder(folder)?;
    let path = process_files::path(folder, prefix, pid, suffix);
    // A former process of this id left it behind.
    let _ = fs::remove_file(&path);
    let listener = UnixListener::bind(&path)?;
    Ok((listener, LocalSocket(path)))
}

/// Returns the sockets of living servers over `config`, the newest first. Those of dead ones are removed.
pub(in crate::cli) fn sockets_for(config: &Path) -> Vec<PathBuf> {
    let prefix = super::file_prefix(config);
    prefix
        .map(|prefix| process_files::of_living(&folder(&folders::cache_dir()), Some(&prefix), ""))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn sockets_of_the_living_are_found_and_those_of_the_dead_removed() {
        let dir = tempfile::tempdir().unwrap();
        let folder = folder(dir.path());
        let own = std::process::id();
        let (_listener, socket) = bind(&folder, "abc", own, "").unwrap();
        let (_other, _of_another_file) = bind(&folder, "abd", own, "").unwrap();
        let mode = std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&folder).unwrap().permissions());
        assert_eq!(mode & 0o777, 0o700, "no other user reaches the sockets");
        fs::write(folder.join(format!("abc-{}", i32::MAX)), "").unwrap();
        assert_eq!(process_files::of_living(&folder, Some("abc"), ""), [folder.join(format!("abc-{own}"))]);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 2);
        drop(socket);
        assert!(process_files::of_living(&folder, Some("abc"), "").is_empty());
    }
}
