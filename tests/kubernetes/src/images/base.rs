//! Base images with a Debian or Ubuntu userland of the release of this machine, so that programs built here
//! run there.

use std::fs;

use tokio::process::Command;

use super::{Build, alone, digest, run};
use crate::cache;

/// Packages to compile Rust with parts in C, for musl and for glibc.
pub(super) const RUST: &str = "ca-certificates,clang,gcc,git,libc6-dev,make,mold,musl-tools";
/// Packages that MCP servers of npm and PyPI need besides Node, which comes from npm too.
pub(super) const NODE_AND_PYTHON: &str = "ca-certificates,git,libstdc++6,python3";

/// Builds an image of this name with the essential packages and these.
pub(super) async fn base(tag: &str, packages: &str) {
    let release =
        run("sh", Command::new("sh").args(["-c", ". /etc/os-release; echo $VERSION_CODENAME"])).await;
    let release = release.trim();
    let folder = cache().join("kubernetes/userlands");
    let userland = folder.join(format!("{release}-{}", digest(&[packages])));
    let alone = alone("userlands").await;
    if !userland.join("Dockerfile").exists() {
        eprintln!("fetching the packages of {tag}: {packages}");
        fs::create_dir_all(&userland).expect("a folder");
        let tree = userland.join("tree");
        drop(fs::remove_dir_all(&tree));
        // Mounts of debootstrap go with its mount namespace, even if it is killed.
        let mut debootstrap = Command::new("unshare");
        debootstrap
            .args(["--mount", "--propagation", "private", "debootstrap"])
            .args(["--variant", "minbase", "--include", packages, release])
            .arg(&tree)
            .arg(mirror(release).await);
        run("debootstrap", &mut debootstrap).await;
        // Caches of apt and documentation are of no use in an image.
        for rest in
            ["var/cache/apt", "var/lib/apt/lists", "usr/share/doc", "usr/share/man", "usr/share/locale"]
        {
            drop(fs::remove_dir_all(tree.join(rest)));
        }
        let mut pack = Command::new("tar");
        pack.arg("--create")
            .arg("--file")
            .arg(userland.join("tree.tar"))
            .arg("--directory")
            .arg(&tree)
            .arg(".");
        run("tar", &mut pack).await;
        drop(fs::remove_dir_all(&tree));
        fs::write(userland.join("Dockerfile"), "FROM scratch\nADD tree.tar /\n").expect("a Dockerfile");
    }
    drop(alone);
    Build::new(tag).base(&userland.display().to_string(), &userland).await;
}

/// Returns the mirror that apt takes packages of this release from.
async fn mirror(release: &str) -> String {
    let mut apt = Command::new("apt-get");
    apt.args([
        "indextargets",
        "--format",
        "$(SITE)",
        "Created-By: Packages",
        &format!("Codename: {release}"),
    ]);
    let sites = run("apt-get", &mut apt).await;
    sites.lines().next().unwrap_or("http://deb.debian.org/debian").to_owned()
}
