//! Files of a bundle, before secrets are removed, and their list.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::Path;
use std::time::SystemTime;

use serde_json::json;

use crate::cli::console::failure::CommandFailure;
use crate::cli::options::{ConfigFile, GlobalOptions};
use crate::cli::running_server::log_path;
use crate::config_file::source::is_in_cluster;
use vmcp_edge::port::admin::diagnosis::support::SupportFiles;

/// Most bytes of the end of the server's log file.
const MAX_LOG_BYTES: u64 = 256 << 10;
/// Variables whose names are in the bundle: settings of vmcp and of the libraries in it. Their values are
/// not.
const VARIABLE_PREFIXES: [&str; 6] = ["VMCP_", "OTEL_", "SSL_CERT_", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"];

/// One file of a bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BundleFile {
    pub(super) name: String,
    pub(super) text: String,
}

impl BundleFile {
    fn new(name: &str, text: String) -> BundleFile {
        BundleFile { name: name.to_owned(), text }
    }
}

/// Collects the files.
pub(super) fn files(
    global: &GlobalOptions,
    of_server: Option<SupportFiles>,
    config: &Result<Option<ConfigFile>, CommandFailure>,
) -> Vec<BundleFile> {
    let mut files = vec![BundleFile::new("versions.json", versions())];
    files.push(match config {
        Ok(Some(file)) => BundleFile::new("vmcp.yaml", configuration(file)),
        Ok(None) => {
            BundleFile::new("configuration-missing.txt", "there is no configuration file\n".to_owned())
        }
        Err(failure) => BundleFile::new("configuration-errors.txt", format!("{}\n", failure.message())),
    });
    if let Some(SupportFiles { files: texts }) = of_server {
        files.extend(texts.into_iter().map(|(name, text)| BundleFile::new(&plain_name(&name), text)));
    } else {
        // A running server gives its log without the secrets that it alone knows; its file may have them.
        let path = global.config_path().ok().and_then(|config| log_path(&config));
        let log = path.and_then(|path| end_of(&path));
        files.extend(log.map(|log| BundleFile::new("server-log.txt", log)));
    }
    files
}

/// Returns the file that lists the others.
pub(super) fn manifest(files: &[BundleFile], now: SystemTime) -> BundleFile {
    let mut text = format!(
        "Support bundle of vmcp {}, {}\n\nSecrets are `***`: values that the configuration and the environment tell, and \
         everything that has the shape of a key or a token.\nvmcp adds neither arguments nor results of calls; lines and \
         errors that servers wrote may quote them. Names of\nservers, tools, people and hosts are in it.\n\n",
        env!("CARGO_PKG_VERSION"),
        humantime::format_rfc3339_seconds(now)
    );
    for file in files {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{:>9}  {:28} {}", file.text.len(), file.name, purpose(&file.name));
    }
    BundleFile::new("MANIFEST.txt", text)
}

fn purpose(name: &str) -> &'static str {
    match name {
        "versions.json" => "versions, platform, names of variables",
        "vmcp.yaml" => "configuration file, defaults filled in, with its warnings",
        "configuration-errors.txt" => "why the configuration file is refused",
        "status.json" => "GET /admin/status",
        "config.json" => "GET /admin/config_dump: settings of the running server and their sources",
        "tools.json" => "names, hashes and sizes of tools",
        "calls.json" => "the latest calls",
        "log.json" => "the latest log lines",
        "log-level.json" => "levels of log lines",
        "metrics.txt" => "GET /metrics",
        "server-log.txt" => "end of the log file of the server that ran before",
        _ => "",
    }
}

/// Keeps a name of a server within the folder of the archive.
fn plain_name(name: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    let name: String = name.chars().filter(|c| plain(*c)).take(64).collect();
    name.trim_start_matches('.').to_owned()
}

fn versions() -> String {
    let mut variables: Vec<_> = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok()).collect();
    variables
        .retain(|name| VARIABLE_PREFIXES.iter().any(|prefix| name.to_ascii_uppercase().starts_with(prefix)));
    variables.sort_unstable();
    let read = |path: &str| std::fs::read_to_string(path).ok().map(|text| text.trim().to_owned());
    let report = json!({
        "vmcp": env!("CARGO_PKG_VERSION"),
        "os": std::env::consts::OS,
        "architecture": std::env::consts::ARCH,
        "kernel": read("/proc/sys/kernel/osrelease"),
        "processors": std::thread::available_parallelism().ok().map(std::num::NonZero::get),
        "inCluster": is_in_cluster(),
        "variables": variables,
    });
    // Values of JSON always serialize.
    serde_json::to_string_pretty(&report).unwrap_or_default()
}

/// Returns the configuration of a file, secrets masked, behind its warnings.
fn configuration(file: &ConfigFile) -> String {
    let name = file.path.display().to_string();
    let warnings = file.warnings.iter().map(|warning| format!("# {}\n", warning.render(&name)));
    warnings.chain([file.config.effective_yaml().to_owned()]).collect()
}

/// Returns the end of a file, from the begin of a line.
fn end_of(path: &Path) -> Option<String> {
    let mut file = File::open(path).ok()?;
    let length = file.metadata().ok()?.len();
    let from = length.saturating_sub(MAX_LOG_BYTES);
    file.seek(SeekFrom::Start(from)).ok()?;
    let mut bytes = Vec::new();
    file.take(MAX_LOG_BYTES).read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    if from == 0 {
        return Some(text);
    }
    // A secret that is cut at the begin has no shape.
    text.split_once('\n').map(|(_, whole_lines)| whole_lines.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_file_is_read_from_its_end_in_whole_lines() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.log");
        std::fs::write(&path, "one\ntwo\n").unwrap();
        assert_eq!(end_of(&path).as_deref(), Some("one\ntwo\n"));
        let long = format!("{}\nlast\n", "x".repeat(300 << 10));
        std::fs::write(&path, long).unwrap();
        assert_eq!(end_of(&path).as_deref(), Some("last\n"));
        assert_eq!(end_of(&dir.path().join("none")), None);
    }

    #[test]
    fn a_name_of_a_server_stays_in_the_folder() {
        assert_eq!(plain_name("../../etc/passwd"), "etcpasswd");
        assert_eq!(plain_name("status.json"), "status.json");
    }
}
