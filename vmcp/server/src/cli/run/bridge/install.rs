//! Copies this executable into a folder that another container mounts.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use crate::cli::console::failure::CommandFailure;

const NAME: &str = "vmcp";
/// Mode of the copy: readable and executable by every user, since the other container may run as any.
const MODE: u32 = 0o755;

/// Copies this executable to `folder`, atomically: under a temporary name first, then renamed.
pub(super) fn into(folder: &Path) -> Result<(), CommandFailure> {
    let copied = std::env::current_exe().and_then(|own| copy(&own, folder));
    copied.map_err(|error| {
        CommandFailure::new(format!("cannot install into {}: {error}", folder.display()))
            .remedy("give a folder that exists and can be written to")
    })
}

fn copy(own: &Path, folder: &Path) -> io::Result<()> {
    let unfinished = folder.join(format!(".{NAME}-{}", std::process::id()));
    let write = || {
        let mut to = File::create(&unfinished)?;
        io::copy(&mut File::open(own)?, &mut to)?;
        to.set_permissions(Permissions::from_mode(MODE))?;
        to.sync_all()?;
        fs::rename(&unfinished, folder.join(NAME))
    };
    write().inspect_err(|_| {
        // The temporary file is of no use; the first error is the one to report.
        let _ = fs::remove_file(&unfinished);
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_can_be_run_and_replaces_the_one_before() {
        let folder = tempfile::tempdir().unwrap();
        let own = folder.path().join("own");
        for content in ["one", "another"] {
            fs::write(&own, content).unwrap();
            copy(&own, folder.path()).unwrap();
            let copied = folder.path().join(NAME);
            assert_eq!(fs::read_to_string(&copied).unwrap(), content);
            assert_eq!(copied.metadata().unwrap().permissions().mode() & 0o777, MODE);
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "nothing unfinished is left");
        assert!(copy(&own, &folder.path().join("none")).is_err());
    }
}
