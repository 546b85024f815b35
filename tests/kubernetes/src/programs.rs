//! Programs of Kubernetes: those of `KUBEBUILDER_ASSETS`, or our own build.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Returns the folder in which the project keeps everything that it builds and fetches for itself.
pub fn cache() -> PathBuf {
    let home = || PathBuf::from(std::env::var_os("HOME").expect("HOME")).join(".cache");
    std::env::var_os("XDG_CACHE_HOME").map_or_else(home, PathBuf::from).join("vmcp")
}

/// Programs of Kubernetes in one folder.
#[derive(Debug, Clone)]
pub struct Programs {
    folder: PathBuf,
    left_out: Option<&'static str>,
}

impl Programs {
    /// Returns the programs in `KUBEBUILDER_ASSETS`, or else our own build; the first build takes minutes and
    /// shows its progress.
    pub fn find() -> Self {
        if let Some(folder) = std::env::var_os("KUBEBUILDER_ASSETS") {
            return Self { folder: folder.into(), left_out: None };
        }
        Self::built()
    }

    /// Returns our own build, which has everything that a node needs.
    pub fn built() -> Self {
        Self::build(&[])
    }

    /// Returns the program that asks Argo CD's and Flux's libraries for the health of objects; `None` without
    /// Go, which builds it.
    pub fn gitops() -> Option<Self> {
        has_go().then(|| Self::build(&["gitops"]))
    }

    /// Returns the folder with the definition of HTTPRoutes, `httproutes.yaml`, of the Gateway API; `None`
    /// without Go, which fetches it.
    pub fn gateway_api() -> Option<Self> {
        has_go().then(|| Self::build(&["gateway-api"]))
    }

    /// Returns the folder with the example manifests of ToolHive; `None` without Go, which fetches them.
    pub fn toolhive() -> Option<Self> {
        has_go().then(|| Self::build(&["toolhive"]))
    }

    fn build(arguments: &[&str]) -> Self {
        let script = crate::repository().join("tests/kubernetes/components/build.sh");
        let mut build = Command::new(&script);
        let build = build.args(arguments).stdin(Stdio::null()).stderr(Stdio::inherit()).output();
        let build = build.unwrap_or_else(|error| panic!("{}: {error}", script.display()));
        assert!(build.status.success(), "{} failed: {}", script.display(), build.status);
        Self { folder: String::from_utf8_lossy(&build.stdout).trim().into(), left_out: None }
    }

    /// Leaves one of them out, as a folder does that lacks it.
    pub(crate) fn without(self, name: &'static str) -> Self {
        Self { left_out: Some(name), ..self }
    }

    /// Returns their folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the path of a program, if there is such a program.
    pub fn get(&self, name: &str) -> Option<PathBuf> {
        let program = self.folder.join(name);
        (self.left_out != Some(name) && program.exists()).then_some(program)
    }

    /// Returns the path of a program, which has to be there.
    pub fn path(&self, name: &str) -> PathBuf {
        self.get(name).unwrap_or_else(|| panic!("there is no {name} in {}", self.folder.display()))
    }
}

fn has_go() -> bool {
    let go = Command::new("go").arg("version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    go.is_ok_and(|go| go.success())
}
