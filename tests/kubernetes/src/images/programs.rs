//! Images of programs that are built already: the program, the shared libraries that it loads, certificates.
//!
//! They differ from what users run in one thing: the Dockerfile's programs are static. Bridges run in the
//! tests' own image of servers, which has the same libraries.

use std::fs;
use std::path::{Path, PathBuf};

use tokio::process::Command;
use vmcp_integration::binary;

use super::{Build, Context, digest, digest_of, run};

/// As the stages of the Dockerfile end.
const DOCKERFILE: &str = r#"FROM scratch
COPY root /
USER 65532:65532
ENTRYPOINT ["/PROGRAM"]
"#;
/// Command of the server's image, as in the Dockerfile.
const SERVE: &str = "CMD [\"serve\", \"--config\", \"/etc/vmcp/config/vmcp.yaml\"]\n";

/// Builds an image that starts one of our programs, and holds all of `programs`; returns its archive.
pub(super) async fn from_programs(program: &str, programs: &[&str], tag: &str) -> PathBuf {
    let paths = programs.iter().map(|name| binary(name));
    let paths: Vec<PathBuf> = paths.collect();
    let mut dockerfile = DOCKERFILE.replace("PROGRAM", program);
    if program == "vmcp" {
        dockerfile.push_str(SERVE);
    }
    let build = Build::new(tag);
    let digests: Vec<String> = paths.iter().map(|path| digest_of(path)).collect();
    let parts = std::iter::once(dockerfile.as_str()).chain(digests.iter().map(String::as_str));
    let key = digest(&parts.collect::<Vec<_>>());
    let context = Context::new(&dockerfile);
    if !build.is_built(&key) {
        let root = context.path().join("root");
        fs::create_dir_all(root.join("etc/ssl/certs")).expect("a folder for certificates");
        for (name, path) in programs.iter().zip(&paths) {
            run("strip", Command::new("strip").arg("-o").arg(root.join(name)).arg(path)).await;
            for library in libraries(path).await {
                let to = root.join(library.strip_prefix("/").unwrap_or(&library));
                fs::create_dir_all(to.parent().unwrap_or(&root)).expect("a folder for libraries");
                fs::copy(&library, to).expect("copying a library");
            }
        }
        let certificates = "etc/ssl/certs/ca-certificates.crt";
        fs::copy(Path::new("/").join(certificates), root.join(certificates)).expect("the certificates");
    }
    build.archive(&key, context.path()).await
}

/// Returns the paths of the loader and of the shared libraries of a program, as `ldd` prints them.
async fn libraries(program: &Path) -> Vec<PathBuf> {
    let printed = run("ldd", Command::new("ldd").arg(program)).await;
    let paths = printed.lines().filter_map(|line| line.split_whitespace().find(|word| word.starts_with('/')));
    paths.map(PathBuf::from).collect()
}
