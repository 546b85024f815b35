//! Reads a configuration file and the files it refers to, and keeps their content to notice changes.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use vmcp_config::rules::trusted_tools::{MAX_TRUSTED_TOOLS_BYTES, TrustedTools};
use vmcp_config::{Loaded, Problem, Problems, ReferenceSources, Secret};
use vmcp_engine::folders;

use super::env_file;
use super::file_content::{FileContent, read_at_most, read_file};
use super::reference_lookup::{ReferenceLookup, Unreadable};

/// Largest configuration file, in bytes; some 100,000 backends. A larger one is refused.
const MAX_CONFIG_BYTES: u64 = 16 << 20;

/// All input of a configuration outside the process. Equal inputs make equal configurations.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct ConfigInputs {
    /// Text of the configuration file.
    pub text: String,
    /// Content of each referenced file, by its path.
    files: BTreeMap<PathBuf, FileContent>,
}

/// Reason why a configuration file was not loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file cannot be read.
    #[error("cannot read {}: {reason}", path.display())]
    Unreadable {
        /// Path of the file.
        path: PathBuf,
        /// Error of the operating system.
        reason: io::Error,
    },
    /// The file has mistakes.
    #[error(transparent)]
    Invalid(#[from] Problems),
}

/// Reads and validates a configuration file.
pub fn load(path: &Path, lookup: &ReferenceLookup) -> Result<(ConfigInputs, Loaded), LoadError> {
    let (source, loaded) = ConfigInputs::read(path, lookup)
        .map_err(|reason| LoadError::Unreadable { path: path.to_owned(), reason })?;
    Ok((source, loaded?))
}

impl ConfigInputs {
    /// Reads a file and the files it refers to; returns their content, and the configuration or its mistakes.
    pub fn read(
        path: &Path,
        lookup: &ReferenceLookup,
    ) -> io::Result<(ConfigInputs, Result<Loaded, Problems>)> {
        Ok(ConfigInputs::of_text(read_config(path)?, path, lookup, &BTreeMap::new()))
    }

    /// As [`ConfigInputs::read`], of a text in place of the file's, with `further` variables that no file has
    /// yet.
    pub(crate) fn of_text(
        text: String,
        path: &Path,
        lookup: &ReferenceLookup,
        further: &BTreeMap<String, Secret>,
    ) -> (ConfigInputs, Result<Loaded, Problems>) {
        let files = RefCell::new(BTreeMap::new());
        let keep = |path: &Path, content: FileContent| {
            files.borrow_mut().insert(path.to_owned(), content.clone());
            content
        };
        let read = |path: &Path| keep(path, read_file(path));
        let values = lookup.values(path, &text, read, |path| keep(path, env_file::read(path)));
        let sources = ReferenceSources {
            variables: &|name| {
                further.get(name).map(|value| value.expose().to_owned()).or_else(|| values.variable(name))
            },
            settings: &|name| values.variable(name),
            files: &|path| read(Path::new(path)),
            secrets: &|name| values.secret(name),
        };
        let name = path.display().to_string();
        let mut loaded = vmcp_config::load_from(&text, &name, sources, &vmcp_access::findings);
        if let Ok(loaded) = &mut loaded {
            if let Err(problem) = check_jobs(loaded, vmcp_script_job::is_in_server_pod(), is_in_cluster()) {
                let problems = Problems { source_name: name, list: vec![problem] };
                return (ConfigInputs { text, files: files.into_inner() }, Err(problems));
            }
            if let Err(problem) = read_trusted_tools(loaded, |path| keep(path, read_trusted_file(path))) {
                let problems = Problems { source_name: name, list: vec![problem] };
                return (ConfigInputs { text, files: files.into_inner() }, Err(problems));
            }
            lookup.sign_in(&mut loaded.config, read);
            let optimizer = &mut loaded.config.optimizer;
            if optimizer.storage_dir.is_none() {
                optimizer.state_dir = Some(folders::state_dir_of(path));
            }
            loaded.warnings.extend(values.unreadable.iter().map(Unreadable::warning));
        }
        (ConfigInputs { text, files: files.into_inner() }, loaded)
    }

    /// Returns the folders to watch for changes of these files. For a folder that does not exist, the nearest
    /// existing ancestor is watched, where its creation shows.
    pub fn folders(&self, path: &Path) -> BTreeSet<PathBuf> {
        let files = self.files.keys().map(PathBuf::as_path);
        files.chain([path]).map(nearest_existing_folder).collect()
    }

    /// Returns the names of these files, and those of the files to which they are links.
    pub fn names(&self, path: &Path) -> BTreeSet<OsString> {
        let files = self.files.keys().map(PathBuf::as_path).chain([path]);
        let both = files.flat_map(|file| [Some(file.to_owned()), file.canonicalize().ok()]);
        both.flatten().filter_map(|file| file.file_name().map(OsStr::to_owned)).collect()
    }
}

/// Adds the content of the file of `server.trustedToolsPath`. Without it nothing may be trusted on first
/// use: a missing file, or another document, refuses the configuration.
fn read_trusted_tools(loaded: &mut Loaded, read: impl Fn(&Path) -> FileContent) -> Result<(), Problem> {
    let Some(path) = loaded.config.server.trusted_tools_path.clone() else { return Ok(()) };
    let document = read(&path).and_then(|text| text.ok_or_else(|| "there is no such file".to_owned()));
    match document.and_then(|text| TrustedTools::parse(&text)) {
        Ok(document) => loaded.config.trusted_tools = Arc::new(document),
        Err(reason) => {
            let message = format!("the file `{}` cannot be used: {reason}", path.display());
            let remedy = "write `{}` into a new file, or the answer of `GET /admin/tools/trusted`";
            return Err(Problem::new("server.trustedToolsPath", message, remedy));
        }
    }
    Ok(())
}

/// Returns true in a pod, where resources are the source of the configuration.
pub(crate) fn is_in_cluster() -> bool {
    std::env::var_os("KUBERNETES_SERVICE_HOST").is_some()
}

/// Refuses a file that asks for Jobs outside of a cluster. In a pod that may make none it is a warning, and
/// all else is served: the pod is from before the change, or the installation has lost the right.
fn check_jobs(loaded: &mut Loaded, may_make_jobs: bool, is_in_cluster: bool) -> Result<(), Problem> {
    if loaded.config.code.job.is_none() || may_make_jobs {
        return Ok(());
    }
    let problem = Problem::new(
        "code.engine",
        "`job` runs each script as a Kubernetes Job, and this is no pod that the operator has made with that right",
        "use `worker` here; in a cluster, set `scriptJobs.enabled` of the operator's chart",
    );
    if is_in_cluster {
        loaded.warnings.push(problem);
        return Ok(());
    }
    Err(problem)
}

/// Reads the text of a configuration file. A device or a pipe could fill the memory or block for ever.
pub(crate) fn read_config(path: &Path) -> io::Result<String> {
    if !path.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut text = String::new();
    File::open(path)?.take(MAX_CONFIG_BYTES + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MAX_CONFIG_BYTES {
        return Err(io::Error::other(format!("it is larger than {} MiB", MAX_CONFIG_BYTES >> 20)));
    }
    Ok(text)
}

fn nearest_existing_folder(file: &Path) -> PathBuf {
    let mut folders = file.ancestors().skip(1).filter(|folder| folder.is_dir());
    folders.next().unwrap_or(Path::new(".")).to_owned()
}

/// Reads a file of trusted tools, at most one byte more than it may have.
fn read_trusted_file(path: &Path) -> FileContent {
    read_at_most(path, MAX_TRUSTED_TOOLS_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_file_is_named() {
        let error = load(Path::new("/nonexistent/vmcp.yaml"), &ReferenceLookup::new(|_| None)).err().unwrap();
        assert!(error.to_string().contains("/nonexistent/vmcp.yaml"), "{error}");
    }

    #[test]
    fn jobs_need_a_cluster_and_its_rights() {
        let load = |text: &str| vmcp_config::load(text, "vmcp.yaml", &|_| None).unwrap();
        let mut asked = load("code: { engine: job }");
        let before = asked.warnings.len();
        let problem = check_jobs(&mut asked, false, false).unwrap_err().to_string();
        assert!(problem.contains("code.engine: `job` runs each script as a Kubernetes Job"), "{problem}");
        assert!(problem.contains("use `worker` here"), "{problem}");
        assert_eq!(check_jobs(&mut asked, true, true), Ok(()));
        assert_eq!(asked.warnings.len(), before);
        assert_eq!(check_jobs(&mut asked, false, true), Ok(()), "all else is served");
        assert_eq!(asked.warnings.len(), before + 1);
        assert_eq!(check_jobs(&mut load("code: { engine: worker }"), false, false), Ok(()));
    }

    #[test]
    fn a_device_a_folder_and_a_huge_file_are_no_configuration() {
        let dir = tempfile::tempdir().unwrap();
        let huge = dir.path().join("huge.yaml");
        File::create(&huge).unwrap().set_len(MAX_CONFIG_BYTES + 1).unwrap();
        for (path, reason) in
            [(Path::new("/dev/zero"), "regular"), (dir.path(), "regular"), (&huge, "larger than 16 MiB")]
        {
            let error = load(path, &ReferenceLookup::new(|_| None)).err().unwrap();
            assert!(error.to_string().contains(reason), "{error}");
        }
    }

    #[test]
    fn nothing_is_trusted_anew_without_the_file_of_trusted_tools() {
        let dir = tempfile::tempdir().unwrap();
        let (path, trusted) = (dir.path().join("vmcp.yaml"), dir.path().join("trusted/tools.json"));
        std::fs::write(&path, format!("server: {{ trustedToolsPath: '{}' }}", trusted.display())).unwrap();
        let load = || ConfigInputs::read(&path, &ReferenceLookup::new(|_| None)).unwrap();
        let refused = || load().1.unwrap_err().to_string();
        assert!(refused().contains("server.trustedToolsPath: the file"), "{}", refused());
        assert!(refused().contains("there is no such file"));
        assert!(load().0.folders(&path).contains(dir.path()), "a file that appears is noticed");
        std::fs::create_dir(dir.path().join("trusted")).unwrap();
        std::fs::write(&trusted, r#"{"trusted":{"jira":{"add":"x"}}}"#).unwrap();
        assert!(refused().contains("no document of trusted tools"), "{}", refused());
        let text = r#"{"trusted":{"jira":{"add":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA@7"}}}"#;
        std::fs::write(&trusted, text).unwrap();
        let (inputs, loaded) = load();
        let tool = loaded.unwrap().config.trusted_tools.tool("jira", "add").unwrap().clone();
        assert_eq!(tool.approved_at, 7);
        std::fs::write(&trusted, "{}").unwrap();
        assert!(load().0 != inputs, "a change of the file is a change of the configuration");
        std::fs::write(&path, "server: { trustedToolsPath: tools.json }").unwrap();
        assert!(refused().contains("not an absolute path"), "{}", refused());
    }

    #[test]
    fn a_folder_that_is_missing_is_announced_by_the_nearest_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("vmcp.yaml");
        let text = format!("telemetry: {{ serviceName: '${{file:{}/a/b/name}}' }}", dir.path().display());
        std::fs::write(&path, text).unwrap();
        let lookup = ReferenceLookup::new(|_| None);
        let folders = |path: &Path| ConfigInputs::read(path, &lookup).unwrap().0.folders(path);
        assert_eq!(folders(&path), BTreeSet::from([dir.path().to_owned()]));
        std::fs::create_dir_all(dir.path().join("a/b")).unwrap();
        assert_eq!(folders(&path), BTreeSet::from([dir.path().to_owned(), dir.path().join("a/b")]));
    }
}
