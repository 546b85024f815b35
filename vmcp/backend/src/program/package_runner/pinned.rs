//! [`PinnedPrograms`]: programs that package runners have installed, one file each in a folder of the cache.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::npm_cache::{installed_version, is_executable};
use super::package_run::PackageRun;
use super::pinned_program::PinnedProgram;

/// Failed starts in a row, each followed by a start of the runner that succeeded, after which a program is
/// pinned no longer: it needs its runner.
const MAX_FAILURES: u32 = 3;

/// A program that failed where its runner succeeded.
#[derive(Debug, Serialize, Deserialize)]
struct FailedProgram {
    program: String,
    version: String,
    failures: u32,
}

/// Folder of the pinned programs. Several processes may share it.
#[derive(Clone, Debug)]
pub struct PinnedPrograms {
    folder: PathBuf,
}

impl PinnedPrograms {
    /// Returns the programs in a folder, which need not exist.
    pub fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// Returns the pinned program of a backend; `None` if its file is gone, or if the runner would now start
    /// another installation of the package.
    pub fn find(&self, run: &PackageRun) -> Option<PinnedProgram> {
        let text = fs::read_to_string(self.file(run)).ok()?;
        let pinned: PinnedProgram = serde_json::from_str(&text).ok()?;
        if !is_executable(Path::new(&pinned.program)) || run.has_other_installation(&pinned) {
            return None;
        }
        let version = installed_version(&pinned).unwrap_or_else(|| pinned.version.clone());
        Some(PinnedProgram { version, ..pinned })
    }

    /// Pins a program.
    pub fn save(&self, run: &PackageRun, program: &PinnedProgram) -> io::Result<()> {
        fs::create_dir_all(&self.folder)?;
        let file = self.file(run);
        // A reader sees the former file or the whole new one.
        let new = file.with_extension(format!("{}.new", std::process::id()));
        fs::write(&new, serde_json::to_vec(program)?)?;
        fs::rename(new, file)
    }

    /// Removes the pin, so that the runner starts the program again.
    pub fn forget(&self, run: &PackageRun) {
        // Fails if the file is gone, which is the aim.
        let _ = fs::remove_file(self.file(run));
    }

    /// Counts a start that failed, and that the runner repeated with success.
    pub(crate) fn add_failure(&self, run: &PackageRun, pinned: &PinnedProgram) -> io::Result<()> {
        let failures = self.failures(run, pinned).saturating_add(1);
        let PinnedProgram { program, version, .. } = pinned.clone();
        fs::write(self.failures_file(run), serde_json::to_vec(&FailedProgram { program, version, failures })?)
    }

    /// Forgets failures after a start that succeeded.
    pub(crate) fn clear_failures(&self, run: &PackageRun) {
        // Fails where nothing failed.
        let _ = fs::remove_file(self.failures_file(run));
    }

    /// True for a program that starts with success by its runner alone. Another version is tried again, and
    /// so is a program that `vmcp update` pins.
    pub(crate) fn needs_runner(&self, run: &PackageRun, program: &PinnedProgram) -> bool {
        self.failures(run, program) >= MAX_FAILURES
    }

    fn failures(&self, run: &PackageRun, pinned: &PinnedProgram) -> u32 {
        let text = fs::read(self.failures_file(run)).unwrap_or_default();
        let failed: Option<FailedProgram> = serde_json::from_slice(&text).ok();
        let is_it =
            |failed: &FailedProgram| failed.program == pinned.program && failed.version == pinned.version;
        failed.filter(is_it).map_or(0, |failed| failed.failures)
    }

    fn failures_file(&self, run: &PackageRun) -> PathBuf {
        self.folder.join(format!("{}.failures", run.key()))
    }

    fn file(&self, run: &PackageRun) -> PathBuf {
        self.folder.join(format!("{}.json", run.key()))
    }
}
