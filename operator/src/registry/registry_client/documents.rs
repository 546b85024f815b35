//! Documents of the OCI image specification, as far as they are read.

use serde::{Deserialize, Serialize};

/// The types of manifests and indexes, of OCI and of Docker.
pub(super) const MANIFEST_TYPES: &str = "application/vnd.oci.image.index.v1+json, \
     application/vnd.oci.image.manifest.v1+json, application/vnd.docker.distribution.manifest.list.v2+json, \
     application/vnd.docker.distribution.manifest.v2+json, application/json;q=0.5";

/// The program that an image starts by itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ImageProgram {
    /// `Entrypoint`: the program and its first arguments.
    #[serde(default)]
    pub(crate) entrypoint: Vec<String>,
    /// `Cmd`: further arguments, which arguments of the container replace.
    #[serde(default)]
    pub(crate) cmd: Vec<String>,
}

impl ImageProgram {
    /// Returns the words that a container runtime starts: `args` replace `Cmd`.
    pub(crate) fn words(&self, args: &[String]) -> Vec<String> {
        let rest = if args.is_empty() { &self.cmd } else { args };
        self.entrypoint.iter().chain(rest).cloned().collect()
    }
}

/// A manifest, or an index of the manifests of several platforms.
#[derive(Debug, Deserialize)]
pub(super) struct Manifest {
    /// The configuration, unless this is an index.
    pub(super) config: Option<Descriptor>,
    #[serde(default)]
    manifests: Vec<PlatformManifest>,
}

/// A reference to a document.
#[derive(Debug, Deserialize)]
pub(super) struct Descriptor {
    pub(super) digest: String,
}

#[derive(Debug, Deserialize)]
struct PlatformManifest {
    digest: String,
    platform: Option<Platform>,
}

#[derive(Debug, Deserialize)]
struct Platform {
    os: String,
    architecture: String,
}

impl Manifest {
    /// Returns the digest of one platform's manifest if this is an index: Linux on amd64, else any Linux.
    /// Images of all platforms are built from one recipe, and start the same program.
    pub(super) fn platform_digest(&self) -> Option<String> {
        let linux = |manifest: &&PlatformManifest| {
            manifest.platform.as_ref().is_none_or(|platform| platform.os == "linux")
        };
        let is_amd64 = |manifest: &&PlatformManifest| {
            manifest.platform.as_ref().is_some_and(|platform| platform.architecture == "amd64")
        };
        let mut all = self.manifests.iter().filter(linux);
        let chosen = all.clone().find(is_amd64).or_else(|| all.next())?;
        Some(chosen.digest.clone())
    }
}

/// The configuration of an image.
#[derive(Debug, Deserialize)]
pub(super) struct ImageConfig {
    config: Option<RunConfig>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct RunConfig {
    entrypoint: Option<Vec<String>>,
    cmd: Option<Vec<String>>,
}

impl ImageConfig {
    /// Returns the program; `None` if the image starts nothing.
    pub(super) fn program(self) -> Option<ImageProgram> {
        let RunConfig { entrypoint, cmd } = self.config?;
        let program =
            ImageProgram { entrypoint: entrypoint.unwrap_or_default(), cmd: cmd.unwrap_or_default() };
        (!program.words(&[]).is_empty()).then_some(program)
    }
}

/// The answer of a token service.
#[derive(Debug, Deserialize)]
pub(super) struct Token {
    token: Option<String>,
    access_token: Option<String>,
}

impl Token {
    /// Returns the token, which has two names.
    pub(super) fn value(self) -> String {
        self.token.or(self.access_token).unwrap_or_default()
    }
}
