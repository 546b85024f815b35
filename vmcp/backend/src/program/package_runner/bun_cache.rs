//! bun's cache: one folder holds the packages of one bunx command line. bun 1.4 has it in its cache,
//! `.bunx-UID/PACKAGE@VERSION/`; older versions have it among temporary files, `bunx-UID-PACKAGE@VERSION/`.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::command_line::npm_name;

/// Version in the name of a folder, for a command line that names none.
const NO_VERSION: &str = "latest";

/// Returns the folder in which bunx has installed `package`, with the variables of its environment; the one
/// of a newer bun comes first. `None` for a folder of another owner than the home's: every account may write
/// into a folder of temporary files. A folder of a scope is judged as well, because its owner may exchange
/// its contents.
pub(super) fn folder<'a>(package: &str, variable: impl Fn(&str) -> Option<&'a str>) -> Option<PathBuf> {
    let home = Path::new(variable("HOME")?);
    let temporary = ["TMPDIR", "TMP", "TEMP"].iter().find_map(|name| variable(name)).map(Path::new);
    let usual = Path::new(if cfg!(target_os = "macos") { "/private/tmp" } else { "/tmp" });
    let of_variable = |name: &str| variable(name).map(PathBuf::from);
    let cache = of_variable("BUN_INSTALL_CACHE_DIR")
        .or_else(|| of_variable("BUN_INSTALL").map(|bun| bun.join("install/cache")))
        .or_else(|| of_variable("XDG_CACHE_HOME").map(|caches| caches.join(".bun/install/cache")))
        .unwrap_or_else(|| home.join(".bun/install/cache"));

    let name = npm_name(package)?;
    let version = package.strip_prefix(name)?.strip_prefix('@').filter(|version| !version.is_empty());
    let package = format!("{name}@{}", version.unwrap_or(NO_VERSION));
    let owner = fs::metadata(home).ok()?.uid();
    let of_package = |root: &Path, prefix: &str| {
        let folder = root.join(format!("{prefix}{package}"));
        let are_own = folder.ancestors().take_while(|path| *path != root).all(|path| is_own(path, owner));
        are_own.then_some(folder)
    };
    let in_temporary = |root| of_package(root, &format!("bunx-{owner}-"));
    of_package(&cache, &format!(".bunx-{owner}/"))
        .or_else(|| temporary.into_iter().chain([usual]).find_map(in_temporary))
}

/// True for a folder of `owner`, and false for a link to one.
fn is_own(folder: &Path, owner: u32) -> bool {
    fs::symlink_metadata(folder).is_ok_and(|found| found.is_dir() && found.uid() == owner)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// A home, and a folder of temporary files.
    struct Places {
        home: tempfile::TempDir,
        temporary: tempfile::TempDir,
        owner: u32,
    }

    impl Places {
        fn new() -> Self {
            let home = tempfile::tempdir().unwrap();
            let owner = fs::metadata(home.path()).unwrap().uid();
            Self { home, temporary: tempfile::tempdir().unwrap(), owner }
        }

        /// Finds the folder of a package, with `more` variables.
        fn find(&self, package: &str, more: &[(&str, &Path)]) -> Option<PathBuf> {
            let usual = [("HOME", self.home.path()), ("TMPDIR", self.temporary.path())];
            let all: Vec<_> = usual.iter().chain(more).collect();
            folder(package, |name| all.iter().find(|(each, _)| *each == name)?.1.to_str())
        }
    }

    #[test]
    fn folders_have_the_owner_the_package_and_the_version_in_their_name() {
        let places = Places::new();
        let owner = places.owner;
        for (package, name) in [
            ("server", format!("bunx-{owner}-server@latest")),
            ("server@1.2.3", format!("bunx-{owner}-server@1.2.3")),
            ("@me/server@latest", format!("bunx-{owner}-@me/server@latest")),
        ] {
            assert_eq!(places.find(package, &[]), None, "{package}: absent");
            let expected = places.temporary.path().join(name);
            fs::create_dir_all(&expected).unwrap();
            assert_eq!(places.find(package, &[]), Some(expected), "{package}");
        }
        assert_eq!(places.find("github:me/server", &[]), None);
    }

    #[test]
    fn a_newer_bun_has_them_in_its_cache() {
        let places = Places::new();
        let owner = places.owner;
        let older = places.temporary.path().join(format!("bunx-{owner}-@me/server@^1"));
        fs::create_dir_all(older).unwrap();
        let roots = ["of-cache", "of-bun", "of-xdg"].map(|name| places.home.path().join(name));
        let [of_cache, of_bun, of_xdg] = roots.each_ref().map(PathBuf::as_path);
        let variables =
            [("XDG_CACHE_HOME", of_xdg), ("BUN_INSTALL", of_bun), ("BUN_INSTALL_CACHE_DIR", of_cache)];
        // Each variable wins over those in front of it.
        for (set, cache) in [
            places.home.path().join(".bun/install/cache"),
            of_xdg.join(".bun/install/cache"),
            of_bun.join("install/cache"),
            of_cache.to_owned(),
        ]
        .into_iter()
        .enumerate()
        {
            let expected = cache.join(format!(".bunx-{owner}/@me/server@^1"));
            fs::create_dir_all(&expected).unwrap();
            assert_eq!(places.find("@me/server@^1", &variables[..set]), Some(expected));
        }
    }

    #[test]
    fn folders_that_another_account_may_have_made_are_left_alone() {
        let places = Places::new();
        let (temporary, owner) = (places.temporary.path(), places.owner);
        symlink(temporary, temporary.join(format!("bunx-{owner}-linked@latest"))).unwrap();
        assert_eq!(places.find("linked", &[]), None, "a link may be of another account");
        let elsewhere = tempfile::tempdir().unwrap();
        fs::create_dir(elsewhere.path().join("server@latest")).unwrap();
        symlink(elsewhere.path(), temporary.join(format!("bunx-{owner}-@other"))).unwrap();
        assert_eq!(places.find("@other/server", &[]), None, "so may the folder of a scope");
    }
}
