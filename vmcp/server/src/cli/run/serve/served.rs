//! Detection of a vmcp that is started by a backend of the very configuration it would serve: each would
//! start the next, without end.

use std::path::Path;

use vmcp_config::status::digest;

use crate::cli::console::failure::CommandFailure;

/// Returns the digest of the path of a configuration file, whatever name leads to it.
pub(in crate::cli::run) fn digest_of(config: &Path) -> String {
    let config = config.canonicalize().unwrap_or_else(|_| config.to_owned());
    digest(&config.to_string_lossy())
}

/// Fails if `served` is among `list`, the configurations whose servers started this process.
pub(in crate::cli::run) fn refuse_loop(served: &str, list: Option<&str>) -> Result<(), CommandFailure> {
    if list.is_some_and(|list| list.split(':').any(|one| one == served)) {
        return Err(CommandFailure::new(
            "this configuration leads back to this vmcp: one of its backends starts it",
        )
        .remedy("take that backend out of the file, or give it a configuration of its own"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_of_its_own_configuration_is_refused_at_any_depth() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("vmcp.yaml");
        std::fs::write(&file, "").unwrap();
        let (own, other) = (digest_of(&file), digest_of(Path::new("/other.yaml")));
        assert_eq!(own, digest_of(&folder.path().join("./vmcp.yaml")));
        assert!(refuse_loop(&own, None).is_ok() && refuse_loop(&own, Some(&other)).is_ok());
        assert!(refuse_loop(&own, Some(&format!("{own}:{other}"))).is_err());
    }
}
