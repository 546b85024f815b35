//! Path of this program for the files of clients and service managers: a path that outlives an upgrade.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use crate::cli::console::notes;

/// Mark of Linux on the path of a running program whose file was replaced.
const REPLACED: &str = " (deleted)";
/// Folders within the cache of uv, each with a version behind its name.
const UV_FOLDERS: [&str; 2] = ["archive-v", "environments-v"];

/// Returns the path at which later versions of this program lie, too.
pub(in crate::cli) fn installed_program() -> io::Result<PathBuf> {
    std::env::current_exe().map(|path| lasting_path(path, &Path::exists))
}

/// Returns [`installed_program`] for a file that outlives this process, and tells a person if the path is one
/// in a cache.
pub(in crate::cli) fn program_to_write() -> io::Result<PathBuf> {
    let program = installed_program()?;
    if let Some(install) = installation_instead_of_cache(&program) {
        notes::note(&format!(
            "{} is in a cache, which may be cleared: `{install}`, then run this again with the installed vmcp",
            program.display()
        ));
    }
    Ok(program)
}

fn lasting_path(path: PathBuf, exists: &dyn Fn(&Path) -> bool) -> PathBuf {
    let unmarked = path.to_str().and_then(|text| text.strip_suffix(REPLACED)).map(PathBuf::from);
    let path = match unmarked {
        Some(unmarked) if !exists(&path) => unmarked,
        _ => path,
    };
    homebrew_link(&path).filter(|link| exists(link)).unwrap_or(path)
}

/// Returns `PREFIX/bin/vmcp` for `PREFIX/Cellar/vmcp/VERSION/bin/vmcp`, which an upgrade removes.
fn homebrew_link(path: &Path) -> Option<PathBuf> {
    let (bin, name) = (path.parent()?, path.file_name()?);
    let cellar =
        bin.ancestors().nth(3).filter(|cellar| bin.ends_with("bin") && cellar.ends_with("Cellar"))?;
    Some(cellar.parent()?.join("bin").join(name))
}

/// Returns the command that installs vmcp, for a path in the cache of npx or uvx.
fn installation_instead_of_cache(path: &Path) -> Option<&'static str> {
    let is_version = |rest: &str| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit());
    let is_of_uv =
        |name: &str| UV_FOLDERS.iter().any(|folder| name.strip_prefix(*folder).is_some_and(is_version));
    path.iter().filter_map(OsStr::to_str).find_map(|name| match name {
        "_npx" => Some("npm install --global vmcp"),
        name if is_of_uv(name) => Some("uv tool install vmcp-server"),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_of_one_version_becomes_the_path_of_all() {
        let link = "/home/linuxbrew/.linuxbrew/bin/vmcp";
        let lasting = |path: &str, there: &[&str]| {
            let exists = |path: &Path| there.iter().any(|there| Path::new(there) == path);
            lasting_path(path.into(), &exists).display().to_string()
        };
        let cellar = "/home/linuxbrew/.linuxbrew/Cellar/vmcp/1.2.3/bin/vmcp";
        assert_eq!(lasting(cellar, &[cellar, link]), link);
        assert_eq!(lasting(&format!("{cellar} (deleted)"), &[link]), link, "after an upgrade");
        assert_eq!(lasting(cellar, &[cellar]), cellar, "not linked");
        assert_eq!(lasting("/usr/local/bin/vmcp (deleted)", &["/usr/local/bin/vmcp"]), "/usr/local/bin/vmcp");
        let odd = "/opt/vmcp (deleted)";
        assert_eq!(lasting(odd, &[odd]), odd, "a file of this very name");
        assert_eq!(lasting("/opt/Cellar/bin/vmcp", &[]), "/opt/Cellar/bin/vmcp");
    }

    #[test]
    fn a_path_in_a_cache_names_the_installation() {
        for (path, expected) in [
            ("/me/.npm/_npx/0a1b/node_modules/vmcp/bin/vmcp", Some("npm install --global vmcp")),
            ("/me/.cache/uv/archive-v0/x1/bin/vmcp", Some("uv tool install vmcp-server")),
            ("/me/.cache/uv/environments-v2/x1/bin/vmcp", Some("uv tool install vmcp-server")),
            ("/me/.local/share/uv/tools/vmcp-server/bin/vmcp", None),
            ("/me/archive-vmcp/bin/vmcp", None),
        ] {
            assert_eq!(installation_instead_of_cache(Path::new(path)), expected, "{path}");
        }
    }
}
