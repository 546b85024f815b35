//! Container images, built by buildah and given to the node as archives, as no registry can be reached.
//!
//! The sources of an image are hashed and the archive is kept under the hash: nothing is built twice.

mod base;
mod names;
mod ours;
mod programs;
mod servers;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use sha2::{Digest as _, Sha256};
use tempfile::TempDir;
use tokio::process::Command;

pub use names::{all, in_cluster, push, renamed};
pub use ours::{NEXT_VMCP, OPERATOR, VMCP, ours};
pub use servers::{SERVERS, servers};

use crate::cache;

/// A build context: a folder with a `Dockerfile` and the files that it copies. It lies beside the images, so
/// that nothing crosses a file system.
pub struct Context {
    folder: TempDir,
}

impl Context {
    /// Makes a build context with this `Dockerfile`.
    pub fn new(dockerfile: &str) -> Self {
        let parent = cache().join("kubernetes/contexts");
        fs::create_dir_all(&parent).expect("a folder for contexts");
        // Contexts of interrupted runs.
        remove_old(&parent);
        let context = Self { folder: TempDir::new_in(parent).expect("a folder") };
        fs::write(context.path().join("Dockerfile"), dockerfile).expect("the Dockerfile");
        context
    }

    /// Returns its folder.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Copies a file or a folder into it; links stay links.
    pub async fn copy(&self, from: &Path, name: &str) {
        run("cp", Command::new("cp").arg("--archive").arg(from).arg(self.path().join(name))).await;
    }
}

/// A build of an image.
#[derive(Debug, Default)]
pub struct Build {
    /// Name of the image.
    pub tag: String,
    /// Build arguments, `NAME=VALUE`.
    pub arguments: Vec<String>,
    /// Mounts for `RUN`, `HERE:THERE`; the image does not keep them.
    pub volumes: Vec<String>,
    /// Stage to stop at; the last one if empty.
    pub target: String,
}

impl Build {
    /// Returns a build of an image of this name.
    pub fn new(tag: &str) -> Self {
        Self { tag: tag.to_owned(), ..Self::default() }
    }

    /// Returns the archive of the image for `key`, the hash of its sources; builds it from `folder` if there
    /// is none.
    pub async fn archive(&self, key: &str, folder: &Path) -> PathBuf {
        let archive = self.path(key);
        let _alone = alone("images").await;
        if !archive.exists() {
            self.build(folder).await;
            let unfinished = archive.with_extension("unfinished");
            drop(fs::remove_file(&unfinished));
            let to = format!("docker-archive:{}:{}", unfinished.display(), self.tag);
            run("buildah push", buildah().args(["push", "--quiet", &self.tag, &to])).await;
            remove_old(archive.parent().unwrap_or(&archive));
            fs::rename(unfinished, &archive).expect("naming the archive");
        }
        archive
    }

    /// Builds an image that others are based on. No archive of it is needed: an empty file marks it as built.
    pub(crate) async fn base(&self, key: &str, folder: &Path) {
        let mark = self.path(key);
        let _alone = alone("images").await;
        if !mark.exists() {
            self.build(folder).await;
            remove_old(mark.parent().unwrap_or(&mark));
            fs::write(mark, "").expect("the mark of an image");
        }
    }

    async fn build(&self, folder: &Path) {
        let Self { tag, arguments, volumes, target } = self;
        eprintln!("building the image {tag}");
        // An interrupted build may have left containers. No other build runs: the lock is ours.
        run("buildah rm", buildah().args(["rm", "--all"])).await;
        let mut build = buildah();
        build.args(["bud", "--isolation", "chroot", "--layers=false", "--pull-never", "--tag", tag]);
        if !target.is_empty() {
            build.args(["--target", target]);
        }
        build.args(arguments.iter().flat_map(|argument| ["--build-arg", argument]));
        build.args(volumes.iter().flat_map(|volume| ["--volume", volume]));
        // Its output is shown as progress.
        let status = build.arg(folder).stdin(Stdio::null()).status().await.expect("buildah");
        assert!(status.success(), "building {tag} failed: {status}");
    }

    /// Returns the path of the archive, built or not.
    fn path(&self, key: &str) -> PathBuf {
        let folder = cache().join("kubernetes/images").join(self.tag.replace([':', '/'], "-"));
        fs::create_dir_all(&folder).expect("a folder for images");
        folder.join(format!("{}.tar", digest(&[key, &self.arguments.join(" "), &self.target])))
    }

    /// Returns true if there is an archive for `key`.
    pub fn is_built(&self, key: &str) -> bool {
        self.path(key).exists()
    }
}

/// Locks a folder of the cache against other processes while the returned file is held.
async fn alone(folder: &str) -> File {
    let folder = cache().join("kubernetes").join(folder);
    fs::create_dir_all(&folder).expect("a folder");
    let lock = File::create(folder.join("lock")).expect("a lock");
    if lock.try_lock().is_ok() {
        return lock;
    }
    eprintln!("waiting for another process that works in {}", folder.display());
    let taken = tokio::task::spawn_blocking(move || lock.lock().map(|()| lock)).await.expect("waiting");
    taken.expect("a lock")
}

/// Removes entries of a folder that are older than a day; younger ones may be in use by another run.
fn remove_old(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let about = entry.metadata().ok();
        let age = about.as_ref().and_then(|about| about.modified().ok()?.elapsed().ok());
        if age.is_some_and(|age| age > Duration::from_hours(24)) {
            let path = entry.path();
            let is_folder = about.is_some_and(|about| about.is_dir());
            drop(if is_folder { fs::remove_dir_all(path) } else { fs::remove_file(path) });
        }
    }
}

/// Returns a command of buildah with a storage of its own.
fn buildah() -> Command {
    let storage = cache().join("kubernetes/buildah");
    let mut command = Command::new("buildah");
    command.arg("--root").arg(storage.join("root")).arg("--runroot").arg(storage.join("run"));
    // buildah keeps the cache mounts of a Dockerfile in the folder for temporary files.
    let temporary = storage.join("caches");
    fs::create_dir_all(&temporary).expect("a folder for caches");
    command.env("TMPDIR", temporary).env("STORAGE_DRIVER", "overlay");
    command
}

pub(crate) fn digest(parts: &[&str]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part.len().to_le_bytes());
        hash.update(part);
    }
    short(&hash.finalize())
}

fn short(hash: &[u8]) -> String {
    format!("{:016x}", hash.iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

/// Returns the hash of a file in 16 digits.
pub(crate) fn digest_of(file: &Path) -> String {
    let bytes = fs::read(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    short(&Sha256::digest(bytes))
}

/// Runs a command that has to succeed, and returns its output.
pub(crate) async fn run(what: &str, command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).kill_on_drop(true).output().await;
    let output = output.unwrap_or_else(|error| panic!("{what}: {error}; scripts/setup-e2e.sh installs it"));
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{what} failed: {complaint}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}
