//! Folders on disk: the home, settings, the cache and the local model.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use nix::unistd::{Uid, User};
use vmcp_backend::PinnedPrograms;
use vmcp_config::status::digest;
use vmcp_config::{Config, EmbeddingProvider};
use vmcp_embed::local::LocalModel;

/// Characters of a digest in the name of a folder.
const DIGEST_LENGTH: usize = 16;

/// Returns the home directory: `$HOME`, or the home directory of the user database, if it exists. Some
/// launchers start programs without the variable, or with an empty one.
pub fn home_dir() -> Option<PathBuf> {
    home_by(env::var_os("HOME"))
}

fn home_by(variable: Option<OsString>) -> Option<PathBuf> {
    let of_user = || User::from_uid(Uid::effective()).ok()?.map(|user| user.dir).filter(|dir| dir.is_dir());
    variable.and_then(absolute).or_else(of_user)
}

/// Returns the folder for settings: `$XDG_CONFIG_HOME/vmcp`, or `~/.config/vmcp`; `None` without a home
/// directory.
pub fn config_dir() -> Option<PathBuf> {
    let config = env::var_os("XDG_CONFIG_HOME").and_then(absolute);
    Some(config.or_else(|| Some(home_dir()?.join(".config")))?.join("vmcp"))
}

/// Returns the folder for data that can be made or fetched again: `$XDG_CACHE_HOME/vmcp`, or `~/.cache/vmcp`;
/// without a home directory, one in the folder for temporary files.
pub fn cache_dir() -> PathBuf {
    own_cache().unwrap_or_else(env::temp_dir).join("vmcp")
}

/// Returns the programs that are started in place of package runners. All configurations of a person share
/// them. `None` without a home directory: other users may write to the folder for temporary files, and would
/// choose what is started.
pub fn pinned_programs() -> Option<PinnedPrograms> {
    Some(PinnedPrograms::new(own_cache()?.join("vmcp/programs")))
}

/// Returns the user's own folder for caches.
fn own_cache() -> Option<PathBuf> {
    let cache = env::var_os("XDG_CACHE_HOME").and_then(absolute);
    cache.or_else(|| Some(home_dir()?.join(".cache")))
}

/// Returns the path that a variable holds; a relative one counts as not set.
fn absolute(value: OsString) -> Option<PathBuf> {
    Some(PathBuf::from(value)).filter(|path| path.is_absolute())
}

/// Returns the folder of `embeddings.db`, which several configurations may share.
pub fn storage_dir(config: &Config) -> PathBuf {
    config.optimizer.storage_dir.clone().unwrap_or_else(cache_dir)
}

/// Returns the folder of `state.db` and the files beside it, which belong to one configuration.
pub fn state_dir(config: &Config) -> PathBuf {
    config.optimizer.state_dir.clone().unwrap_or_else(|| storage_dir(config))
}

/// Returns the folder of a configuration file's state below the cache, named by a digest of the file's path.
/// A link to a folder leads to the same state. A link to the file is a configuration of its own: Kubernetes
/// exchanges the target of such links at each update.
pub fn state_dir_of(file: &Path) -> PathBuf {
    let path = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
    let folder = path.parent().and_then(|folder| folder.canonicalize().ok());
    let resolved = folder.zip(path.file_name()).map(|(folder, name)| folder.join(name));
    let path = resolved.unwrap_or(path);
    let mut name = digest(&path.to_string_lossy());
    name.truncate(DIGEST_LENGTH);
    cache_dir().join("state").join(name)
}

/// Returns the configured local model and its folder, into which `vmcp model pull` downloads it; the default
/// model, if another provider is configured.
pub fn local_model(config: &Config) -> (&'static LocalModel, PathBuf) {
    let (name, dir) = match &config.optimizer.embeddings.provider {
        EmbeddingProvider::Local { model, model_dir } => (model.as_str(), model_dir.clone()),
        _ => ("", None),
    };
    let model = LocalModel::named(name).unwrap_or_else(LocalModel::default_model);
    (model, dir.unwrap_or_else(|| default_model_dir(model)))
}

/// Returns the folder of a local model when none is configured.
pub fn default_model_dir(model: &LocalModel) -> PathBuf {
    cache_dir().join("models").join(model.hub_name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_local_model_of_the_configuration_is_there_and_has_a_folder_of_its_own() {
        let embedded: Vec<_> = vmcp_embed::local::MODELS.iter().map(|model| model.name).collect();
        assert_eq!(vmcp_config::LOCAL_MODELS.as_slice(), embedded);
        let dir = |more: &str| {
            let yaml = format!("optimizer: {{ embeddings: {{ provider: local{more} }} }}");
            local_model(&crate::testing::config(&yaml))
        };
        let (default, chosen) = (dir(""), dir(", local: { model: bge-small-en-v1.5 }"));
        assert!(default.1.ends_with("models/sentence-transformers/all-MiniLM-L6-v2"), "{default:?}");
        assert!(chosen.1.ends_with("models/BAAI/bge-small-en-v1.5"), "{chosen:?}");
        let own = dir(", local: { model: bge-small-en-v1.5, modelDir: /models/bge }");
        assert_eq!((own.0, own.1), (chosen.0, "/models/bge".into()));
    }

    #[test]
    fn each_configuration_file_has_a_state_of_its_own() {
        let home = tempfile::tempdir().unwrap();
        let (a, b, link) = (home.path().join("a"), home.path().join("b"), home.path().join("link"));
        for folder in [&a, &b] {
            std::fs::create_dir(folder).unwrap();
        }
        std::os::unix::fs::symlink(&a, &link).unwrap();
        let of_a = state_dir_of(&a.join("vmcp.yaml"));
        assert!(of_a.starts_with(cache_dir().join("state")), "{of_a:?}");
        assert_ne!(of_a, state_dir_of(&b.join("vmcp.yaml")));
        assert_ne!(of_a, state_dir_of(&a.join("other.yaml")));
        assert_eq!(of_a, state_dir_of(&link.join("vmcp.yaml")), "a linked folder");
        // The file of a mounted ConfigMap is a link, whose target changes with each update.
        for target in ["one.yaml", "two.yaml"] {
            std::fs::write(b.join(target), "").unwrap();
            let _none = std::fs::remove_file(a.join("vmcp.yaml"));
            std::os::unix::fs::symlink(b.join(target), a.join("vmcp.yaml")).unwrap();
            assert_eq!(of_a, state_dir_of(&a.join("vmcp.yaml")), "{target}");
        }
        let mut config = crate::testing::config("");
        assert_eq!(state_dir(&config), storage_dir(&config));
        config.optimizer.state_dir = Some(of_a.clone());
        assert_eq!(state_dir(&config), of_a);
    }

    #[test]
    fn a_variable_without_a_folder_is_replaced_by_the_user_database() {
        assert_eq!(home_by(Some("/home/ada".into())), Some("/home/ada".into()));
        let of_user = home_by(None);
        assert!(of_user.as_ref().is_none_or(|home| home.is_dir()), "{of_user:?}");
        for unusable in ["", "relative"] {
            assert_eq!(home_by(Some(unusable.into())), of_user, "{unusable:?}");
        }
    }
}
