//! bun's cache: `bunx-UID-PACKAGE@VERSION/` in the folder of temporary files holds the packages of one bunx
//! command line. Its layout is that of bun's `bunx_command`.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::command_line::npm_name;

/// Version in the name of a folder, for a command line that names none.
const NO_VERSION: &str = "latest";

/// Returns the folder in which bunx has installed `package`, below `temporary`. `None` for a folder of
/// another owner than the home's: every account may write into the folder of temporary files. A folder of a
/// scope is judged as well, because its owner may exchange what is in it.
pub(super) fn folder(package: &str, temporary: &Path, home: &Path) -> Option<PathBuf> {
    let name = npm_name(package)?;
    let version = package.strip_prefix(name)?.strip_prefix('@').filter(|version| !version.is_empty());
    let owner = fs::metadata(home).ok()?.uid();
    let folder = temporary.join(format!("bunx-{owner}-{name}@{}", version.unwrap_or(NO_VERSION)));
    let is_own =
        |path: &Path| fs::symlink_metadata(path).is_ok_and(|found| found.is_dir() && found.uid() == owner);
    let are_own = folder.ancestors().take_while(|path| *path != temporary).all(is_own);
    are_own.then_some(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_have_the_owner_the_package_and_the_version_in_their_name() {
        let home = tempfile::tempdir().unwrap();
        let temporary = tempfile::tempdir().unwrap();
        let owner = fs::metadata(home.path()).unwrap().uid();
        let found = |package: &str| folder(package, temporary.path(), home.path());
        for (package, name) in [
            ("server", format!("bunx-{owner}-server@latest")),
            ("server@1.2.3", format!("bunx-{owner}-server@1.2.3")),
            ("@me/server@latest", format!("bunx-{owner}-@me/server@latest")),
        ] {
            assert_eq!(found(package), None, "{package}: absent");
            let expected = temporary.path().join(name);
            fs::create_dir_all(&expected).unwrap();
            assert_eq!(found(package), Some(expected), "{package}");
        }
        let linked = temporary.path().join(format!("bunx-{owner}-linked@latest"));
        std::os::unix::fs::symlink(temporary.path(), linked).unwrap();
        assert_eq!(found("linked"), None, "a link may be of another account");
        let elsewhere = tempfile::tempdir().unwrap();
        fs::create_dir(elsewhere.path().join("server@latest")).unwrap();
        let scope = temporary.path().join(format!("bunx-{owner}-@other"));
        std::os::unix::fs::symlink(elsewhere.path(), scope).unwrap();
        assert_eq!(found("@other/server"), None, "so may the folder of a scope");
        assert_eq!(found("github:me/server"), None);
    }
}
