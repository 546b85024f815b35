//! npm's cache: `_npx/HASH/` holds the packages of one npx command line, and `node_modules/.bin/` their
//! programs. The order of search is npx's own (npm's `libnpmexec`).

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;

use super::command_line::npm_name;
use super::pinned_program::PinnedProgram;

/// Folders of npx that are looked at; more are left out.
const MAX_FOLDERS: usize = 1000;
/// Bytes of a `package.json`; a larger one counts as unreadable.
const MAX_MANIFEST_BYTES: u64 = 1024 * 1024;

/// The part of `_npx/HASH/package.json` that names its command line.
#[derive(Deserialize)]
struct NpxFolder {
    #[serde(rename = "_npx")]
    npx: NpxPackages,
}

#[derive(Deserialize)]
struct NpxPackages {
    packages: Vec<String>,
}

/// The part of a package's `package.json` that names its programs.
#[derive(Deserialize)]
struct Manifest {
    version: String,
    #[serde(default)]
    bin: Value,
}

/// Places where npx and bunx look for a program before their cache.
#[derive(Clone, Debug, Default)]
pub(super) struct OwnInstallations {
    /// Working directory: its packages and those of the folders above come first.
    pub(super) cwd: PathBuf,
    /// Prefixes of global installations.
    pub(super) prefixes: Vec<PathBuf>,
    /// Folders of `PATH`, for a runner that looks there.
    pub(super) path: Vec<PathBuf>,
}

impl OwnInstallations {
    /// True if the runner may start a package that is installed outside of its cache.
    pub(super) fn may_have(&self, name: &str, program: &str) -> bool {
        let in_folder = |folder: &Path| {
            let modules = folder.join("node_modules");
            modules.join(name).exists() || modules.join(".bin").join(program).exists()
        };
        // A project may be the package itself.
        let of_project = read(&self.cwd.join("package.json")).is_some_and(|text| text.contains("\"bin\""));
        let global = |prefix: &PathBuf| {
            prefix.join("lib/node_modules").join(name).exists() || prefix.join("bin").join(program).exists()
        };
        of_project
            || self.cwd.ancestors().any(in_folder)
            || self.prefixes.iter().any(global)
            || self.path.iter().any(|folder| folder.join(program).is_file())
    }
}

/// Returns the program that npx has installed for `package` in the cache folder `cache`. `program` is its
/// name, if the command line has one.
pub(super) fn installed(
    package: &str,
    program: Option<&str>,
    cache: &Path,
    own: &OwnInstallations,
) -> Option<PinnedProgram> {
    let name = npm_name(package)?;
    let is_of_package = |folder: &PathBuf| {
        let text = read(&folder.join("package.json"))?;
        let folder: NpxFolder = serde_json::from_str(&text).ok()?;
        (folder.npx.packages == [package]).then_some(())
    };
    let folders = fs::read_dir(cache.join("_npx")).ok()?.flatten().take(MAX_FOLDERS);
    let folder = folders.map(|entry| entry.path()).find(|folder| is_of_package(folder).is_some())?;
    let found = in_modules(&folder.join("node_modules"), name, program)?;
    let program = Path::new(&found.program).file_name()?.to_str()?;
    (!own.may_have(name, program)).then_some(())?;
    Some(found)
}

/// Returns the program of the package `name` that is installed in a folder `node_modules`. `program` is its
/// name, if the command line has one.
pub(super) fn in_modules(modules: &Path, name: &str, program: Option<&str>) -> Option<PinnedProgram> {
    let manifest: Manifest = serde_json::from_str(&read(&modules.join(name).join("package.json"))?).ok()?;
    let program = match program {
        Some(program) => program.to_owned(),
        None => program_of(name, &manifest.bin)?,
    };
    let file = modules.join(".bin").join(program);
    is_executable(&file).then_some(())?;
    let program = file.to_str()?.to_owned();
    Some(PinnedProgram { package: name.to_owned(), version: manifest.version, program, skipped: 0 })
}

/// Returns the version of a pinned program's package now: an npx by hand installs a newer one in the same
/// folder. `None` for a program of uv.
pub(super) fn installed_version(pinned: &PinnedProgram) -> Option<String> {
    let modules = Path::new(&pinned.program).parent()?.parent()?;
    let text = read(&modules.join(&pinned.package).join("package.json"))?;
    let manifest: Manifest = serde_json::from_str(&text).ok()?;
    Some(manifest.version)
}

/// Returns the name of a package's program: the only one, or the one with the package's name.
fn program_of(name: &str, bin: &Value) -> Option<String> {
    let base = name.rsplit('/').next()?;
    let found = match bin {
        Value::String(_) => base,
        Value::Object(programs) => {
            let files: BTreeSet<_> = programs.values().filter_map(Value::as_str).collect();
            match programs.keys().next() {
                Some(only) if files.len() == 1 => only.as_str(),
                _ => programs.contains_key(base).then_some(base)?,
            }
        }
        _ => return None,
    };
    (!found.is_empty() && !found.contains('/')).then(|| found.to_owned())
}

/// True for a file that may be executed.
pub(super) fn is_executable(file: &Path) -> bool {
    fs::metadata(file).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

/// Returns the value of a setting of `.npmrc` files, the first file first; `None` for a value that refers to
/// variables.
pub(super) fn npmrc_value(name: &str, files: &[PathBuf]) -> Option<String> {
    let in_text = |text: &str| {
        text.lines().find_map(|line| {
            let (key, value) = line.split_once('=')?;
            (key.trim() == name).then(|| value.trim().trim_matches('"').to_owned())
        })
    };
    let value = files.iter().filter_map(|file| read(file)).find_map(|text| in_text(&text))?;
    (!value.is_empty() && !value.contains('$')).then_some(value)
}

fn read(file: &Path) -> Option<String> {
    let is_small = fs::metadata(file).is_ok_and(|found| found.len() <= MAX_MANIFEST_BYTES);
    if is_small { fs::read_to_string(file).ok() } else { None }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use serde_json::json;

    use super::*;

    /// Makes `_npx/HASH` of a package with a program, as npm writes it.
    fn install(cache: &Path, hash: &str, package: &str, manifest: &Value) -> PathBuf {
        let folder = cache.join("_npx").join(hash);
        let name = npm_name(package).unwrap();
        let home = folder.join("node_modules").join(name);
        let bin = folder.join("node_modules/.bin");
        fs::create_dir_all(&home).unwrap();
        fs::create_dir_all(&bin).unwrap();
        fs::write(folder.join("package.json"), json!({"_npx": {"packages": [package]}}).to_string()).unwrap();
        fs::write(home.join("package.json"), manifest.to_string()).unwrap();
        let script = home.join("index.js");
        fs::write(&script, "#!/usr/bin/env node\n").unwrap();
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
        for program in ["server", "first", "mcp"] {
            let _there = symlink(&script, bin.join(program));
        }
        bin
    }

    #[test]
    fn the_program_of_a_package_is_the_one_that_npx_runs() {
        let home = tempfile::tempdir().unwrap();
        let own = OwnInstallations { cwd: home.path().join("work"), ..OwnInstallations::default() };
        for (hash, package, bin, program, expected) in [
            ("a", "server", json!("index.js"), None, Some("server")),
            ("b", "@me/server@1.0.0", json!("index.js"), None, Some("server")),
            ("c", "@me/server@latest", json!({"first": "a.js", "mcp": "a.js"}), None, Some("first")),
            ("d", "server@^1", json!({"first": "a.js", "server": "b.js"}), None, Some("server")),
            ("e", "server@2", json!({"first": "a.js", "mcp": "b.js"}), None, None),
            ("f", "server@3", json!({"first": "a.js", "mcp": "b.js"}), Some("mcp"), Some("mcp")),
            ("g", "server@4", json!({"absent": "a.js"}), None, None),
            ("h", "server@5", Value::Null, None, None),
        ] {
            let bins = install(home.path(), hash, package, &json!({"version": "1.0.0", "bin": bin}));
            let found = installed(package, program, home.path(), &own);
            let file = found.as_ref().map(|found| found.program.clone());
            assert_eq!(file, expected.map(|name| bins.join(name).display().to_string()), "{package}");
            assert!(found.is_none_or(|found| found.version == "1.0.0"), "{package}");
        }
        assert_eq!(installed("server@9", None, home.path(), &own), None, "never installed");
    }

    #[test]
    fn the_version_of_a_pinned_program_is_the_one_that_is_there() {
        let home = tempfile::tempdir().unwrap();
        let own = OwnInstallations { cwd: home.path().join("work"), ..OwnInstallations::default() };
        let installed_at = |version: &str| {
            install(home.path(), "a", "@me/server", &json!({"version": version, "bin": "index.js"}))
        };
        installed_at("1.0.0");
        let pinned = installed("@me/server", None, home.path(), &own).unwrap();
        assert_eq!(installed_version(&pinned).as_deref(), Some("1.0.0"));
        let bins = installed_at("1.1.0");
        assert_eq!(installed_version(&pinned).as_deref(), Some("1.1.0"));
        let of_uv = bins.with_file_name("bin").join("server").display().to_string();
        assert_eq!(
            installed_version(&PinnedProgram { package: "other".to_owned(), program: of_uv, ..pinned }),
            None
        );
    }

    #[test]
    fn installations_that_npx_prefers_are_left_to_npx() {
        let home = tempfile::tempdir().unwrap();
        let cache = home.path().join("cache");
        install(&cache, "a", "server", &json!({"version": "1.0.0", "bin": "index.js"}));
        let own = |cwd: &str, prefix: &str| OwnInstallations {
            cwd: home.path().join(cwd),
            prefixes: vec![home.path().join(prefix)],
            path: Vec::new(),
        };
        let is_found = |own: &OwnInstallations| installed("server", None, &cache, own).is_some();
        for folder in ["project/node_modules/server", "global/lib/node_modules/server", "itself"] {
            fs::create_dir_all(home.path().join(folder)).unwrap();
        }
        fs::write(home.path().join("itself/package.json"), r#"{"bin": "x.js"}"#).unwrap();
        assert!(is_found(&own("elsewhere", "usr")));
        assert!(!is_found(&own("project/below", "usr")), "a project's own");
        assert!(!is_found(&own("elsewhere", "global")), "a global one");
        assert!(!is_found(&own("itself", "usr")), "a project that is a program");
        let file = cache.join("_npx/a/node_modules/server/index.js");
        fs::set_permissions(file, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(!is_found(&own("elsewhere", "usr")), "not executable");
    }

    #[test]
    fn settings_of_npmrc_are_read_unless_they_refer_to_variables() {
        let home = tempfile::tempdir().unwrap();
        let (project, person) = (home.path().join("a"), home.path().join("b"));
        fs::write(&project, "registry=https://host/\ncache = /project\n").unwrap();
        fs::write(&person, "cache=/person\nprefix=\"/opt\"\nother=${HOME}/x\n").unwrap();
        let files = [project, home.path().join("none"), person];
        let value = |name: &str| npmrc_value(name, &files);
        assert_eq!(value("cache").as_deref(), Some("/project"));
        assert_eq!(value("prefix").as_deref(), Some("/opt"));
        assert_eq!((value("other"), value("absent")), (None, None));
    }
}
