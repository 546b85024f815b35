//! Socket of a server that a client started (`vmcp serve --stdio`): commands of this user ask it there. It
//! has no port, which every program on this machine could reach.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use tokio::net::UnixListener;

use super::process_files;
use crate::config_file::secret_store::private_folder;
use vmcp_engine::folders;

/// Bytes of a path that the address of a socket holds, with its last zero: 108 on Linux, 104 on macOS.
const MAX_ADDRESS: usize = if cfg!(target_os = "linux") { 108 } else { 104 };

/// Folders with sockets whose paths are too long for an address; open until this process ends.
static LONG_FOLDERS: Mutex<BTreeMap<PathBuf, File>> = Mutex::new(BTreeMap::new());

/// The socket of this process; removed when dropped.
pub(in crate::cli) struct LocalSocket(PathBuf);

impl Drop for LocalSocket {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Opens the socket of this process, which serves `config`. `None` without a writable cache folder, or,
/// except on Linux, if the path is too long for a socket.
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
    let listener = UnixListener::bind(address(&path)?)?;
    Ok((listener, LocalSocket(path)))
}

/// Returns the path by which the socket at `path` is bound and connected to. Where its own path is too long,
/// as in a home deep below other folders, Linux takes one through the open folder.
pub(in crate::cli) fn address(path: &Path) -> io::Result<PathBuf> {
    let is_short = path.as_os_str().len() < MAX_ADDRESS;
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { return Ok(path.to_owned()) };
    if is_short || !cfg!(target_os = "linux") {
        return Ok(path.to_owned());
    }
    let mut folders = LONG_FOLDERS.lock();
    let identity = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
    let wanted = identity(fs::metadata(folder)?);
    let descriptor = match folders.get(folder) {
        Some(open) if identity(open.metadata()?) == wanted => open.as_raw_fd(),
        // The folder is new, or was removed and made again.
        _ => {
            let open = File::open(folder)?;
            let descriptor = open.as_raw_fd();
            folders.insert(folder.to_owned(), open);
            descriptor
        }
    };
    Ok(Path::new("/proc/self/fd").join(descriptor.to_string()).join(name))
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

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn a_socket_deep_below_other_folders_is_reached() {
        let dir = tempfile::tempdir().unwrap();
        let folder = folder(&dir.path().join("d".repeat(120)));
        for _ in 0..2 {
            let (listener, socket) = bind(&folder, "abc", std::process::id(), ".mcp").unwrap();
            assert!(socket.0.exists());
            let (client, server) =
                tokio::join!(tokio::net::UnixStream::connect(address(&socket.0).unwrap()), listener.accept());
            assert!(client.is_ok() && server.is_ok());
            drop(socket);
            fs::remove_dir_all(&folder).unwrap();
        }
    }

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
