//! Images that users run: from the Dockerfile of the repository where one of its inputs changed, otherwise
//! from the programs that are built for the tests already.

use std::path::{Path, PathBuf};

use tokio::process::Command;

use super::base::{RUST, base};
use super::programs::from_programs;
use super::{Build, Context, digest, digest_of, run};
use crate::{cache, repository};

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
/// Files that the Dockerfile's build depends on besides the sources.
const INPUTS: [&str; 3] = ["Dockerfile", ".dockerignore", "Cargo.toml"];

/// Builds both images, and returns their archives.
///
/// `VMCP_E2E_IMAGES=dockerfile` asks for the Dockerfile, as the nightly workflow does; `programs` for the
/// programs of the tests. Without it, the Dockerfile builds both when one of its [`INPUTS`], or a package of
/// others in `Cargo.lock`, differs from those of its last build on this machine. With an empty cache there is
/// nothing to compare with, and the time of a cold run is short: the programs are taken, and the next change
/// is built by the Dockerfile.
pub async fn ours() -> Vec<PathBuf> {
    let root = repository();
    let mut inputs: Vec<String> = INPUTS.iter().map(|name| digest_of(&root.join(name))).collect();
    let lock = std::fs::read_to_string(root.join("Cargo.lock")).expect("Cargo.lock");
    inputs.push(packages_of_others(&lock));
    let inputs = digest(&inputs.iter().map(String::as_str).collect::<Vec<_>>());
    let built = cache().join("kubernetes/dockerfile-inputs");
    let by_dockerfile = match std::env::var("VMCP_E2E_IMAGES").as_deref() {
        Ok("dockerfile") => true,
        Ok("programs") => false,
        Ok(other) => panic!("VMCP_E2E_IMAGES is {other:?}; it can be `dockerfile` or `programs`"),
        Err(_) => {
            if let Ok(before) = std::fs::read_to_string(&built) {
                before != inputs
            } else {
                std::fs::write(&built, &inputs).expect("the mark of the Dockerfile's inputs");
                false
            }
        }
    };
    if !by_dockerfile {
        eprintln!(
            "images of the programs that the tests use; VMCP_E2E_IMAGES=dockerfile compiles static ones by the Dockerfile"
        );
        let server = from_programs("vmcp", &["vmcp"], VMCP).await;
        // The operator checks policies by `vmcp`.
        let operator = from_programs("vmcp-operator", &["vmcp-operator", "vmcp"], OPERATOR).await;
        return vec![server, operator];
    }
    let archives = by_the_dockerfile(&root).await;
    std::fs::write(built, inputs).expect("the mark of the Dockerfile's inputs");
    archives
}

/// Returns the part of `Cargo.lock` about packages of others. The dependencies of our own packages change
/// more often, and change nothing about how others are fetched and compiled into static programs.
fn packages_of_others(lock: &str) -> String {
    lock.split("[[package]]").filter(|package| package.contains("\nsource = ")).collect()
}

/// Builds both images as users do, but for the profile.
async fn by_the_dockerfile(root: &Path) -> Vec<PathBuf> {
    let mut list = Command::new("git");
    list.args(["ls-files", "--cached", "--others", "--exclude-standard"]).current_dir(root);
    let files = run("git", &mut list).await;
    let matters = |name: &&str| {
        let schema = "docs/reference/vmcp.schema.json";
        let inputs = ["crds/", "operator/", "vmcp/", schema, ".dockerignore", "Dockerfile"];
        inputs.iter().any(|input| name.starts_with(input)) || name.contains("Cargo.")
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
        archives.push(build.archive(&key, root).await);
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

#[cfg(test)]
mod tests {
    use super::packages_of_others;

    #[test]
    fn own_packages_of_the_lock_are_left_out() {
        let own = |dependency: &str| {
            format!(
                "[[package]]\nname = \"vmcp\"\nversion = \"0.1.0\"\ndependencies = [\n \"{dependency}\",\n]\n\n"
            )
        };
        let other = "[[package]]\nname = \"serde\"\nversion = \"1.0.0\"\nsource = \"registry\"\n\n";
        let lock = |dependency: &str, other: &str| format!("version = 4\n\n{other}{}", own(dependency));
        let before = packages_of_others(&lock("serde", other));
        assert!(before.contains("serde") && !before.contains("vmcp"), "{before}");
        assert_eq!(packages_of_others(&lock("tokio", other)), before);
        assert_ne!(packages_of_others(&lock("serde", &other.replace("1.0.0", "1.0.1"))), before);
    }
}
