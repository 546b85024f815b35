//! Where the programs of Kubernetes are.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The folder where the project keeps what it builds and fetches for itself.
pub fn cache() -> PathBuf {
    let home = || PathBuf::from(std::env::var_os("HOME").expect("HOME")).join(".cache");
    std::env::var_os("XDG_CACHE_HOME").map_or_else(home, PathBuf::from).join("vmcp")
}

/// The programs of Kubernetes, found or built.
#[derive(Debug, Clone)]
pub struct Programs {
    folder: PathBuf,
}

impl Programs {
    /// What `KUBEBUILDER_ASSETS` points to, or else our own build; the first build takes minutes and shows its progress.
    pub fn find() -> Self {
        if let Some(folder) = std::env::var_os("KUBEBUILDER_ASSETS") {
            return Self { folder: folder.into() };
        }
        Self::built()
    }

    /// Our own build, which has everything a node needs.
    pub fn built() -> Self {
        let script = crate::repository().join("tests/kubernetes/components/build.sh");
        let build = Command::new(&script).stdin(Stdio::null()).stderr(Stdio::inherit()).output();
        let build = build.unwrap_or_else(|error| panic!("{}: {error}", script.display()));
        assert!(build.status.success(), "{} failed: {}", script.display(), build.status);
        Self { folder: String::from_utf8_lossy(&build.stdout).trim().into() }
    }

    /// Where they are.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The path of a program, if there is such a program.
    pub fn get(&self, name: &str) -> Option<PathBuf> {
        let program = self.folder.join(name);
        program.exists().then_some(program)
    }

    /// The path of a program.
    pub fn path(&self, name: &str) -> PathBuf {
        self.get(name).unwrap_or_else(|| panic!("there is no {name} in {}", self.folder.display()))
    }
}
