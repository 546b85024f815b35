//! Images that users run, built from the Dockerfile of the repository.

use std::path::PathBuf;

use tokio::process::Command;

use super::base::{RUST, base};
use super::{Build, Context, digest, digest_of, run};
use crate::repository;

/// Name of the image of the server in the tests.
pub const VMCP: &str = "localhost/vmcp-tests/vmcp:1";
/// Another name of the same image, for an upgrade that changes the image of the pods; on the tests' own node
/// only.
pub const NEXT_VMCP: &str = "localhost/vmcp-tests/vmcp:2";
/// Name of the image of the operator in the tests.
pub const OPERATOR: &str = "localhost/vmcp-tests/vmcp-operator:1";

const USERLAND: &str = "localhost/vmcp-tests/build-packages:1";
const BUILD: &str = "localhost/vmcp-tests/build:1";
/// Rust and the crates of this machine are mounted while the image is built, so that nothing is fetched.
const DOCKERFILE: &str = "FROM localhost/vmcp-tests/build-packages:1
ENV CARGO_HOME=/cargo CARGO_NET_OFFLINE=true PATH=/rust/bin:/usr/bin:/bin
";

/// Builds both images, and returns their archives.
pub async fn ours() -> Vec<PathBuf> {
    let root = repository();
    let mut list = Command::new("git");
    list.args(["ls-files", "--cached", "--others", "--exclude-standard"]).current_dir(&root);
    let files = run("git", &mut list).await;
    let matters = |name: &&str| {
        let folders = ["crds/", "operator/", "vmcp/", ".dockerignore", "Dockerfile"];
        folders.iter().any(|folder| name.starts_with(folder)) || name.contains("Cargo.")
    };
    let files = files.lines().filter(matters).map(|name| (name, root.join(name)));
    let files = files.filter(|(_, path)| path.is_file());
    let key: Vec<String> = files.map(|(name, path)| format!("{name} {}", digest_of(&path))).collect();
    let key = key.join("\n");
    let builds = [("vmcp", VMCP), ("operator", OPERATOR)].map(|(target, tag)| Build {
        tag: tag.to_owned(),
        arguments: vec![format!("BUILD_IMAGE={BUILD}"), "CARGO_PROFILE=image-test".to_owned()],
        target: target.to_owned(),
        ..Build::default()
    });
    let mut archives = Vec::new();
    for mut build in builds {
        if !build.is_built(&key) {
            build.volumes = prepare().await;
        }
        archives.push(build.archive(&key, &root).await);
    }
    archives
}

/// Builds the image to compile in, and returns the mounts that it needs.
async fn prepare() -> Vec<String> {
    base(USERLAND, RUST).await;
    let context = Context::new(DOCKERFILE);
    Build::new(BUILD).base(&digest(&[DOCKERFILE, RUST]), context.path()).await;
    run("cargo fetch", Command::new("cargo").args(["fetch", "--locked"]).current_dir(repository())).await;
    let rust =
        run("rustc", Command::new("rustc").args(["--print", "sysroot"]).current_dir(repository())).await;
    let cargo = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let cargo =
        cargo.unwrap_or_else(|| PathBuf::from(std::env::var_os("HOME").expect("HOME")).join(".cargo"));
    vec![format!("{}:/rust", rust.trim()), format!("{}:/cargo/registry", cargo.join("registry").display())]
}
