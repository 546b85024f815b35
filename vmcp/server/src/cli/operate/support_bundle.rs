//! `vmcp support-bundle`: packs what helps others to find a fault, without secrets.

mod archive;
mod contents;
mod redaction;

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::PathBuf;
use std::time::SystemTime;

use clap::Args;
use serde::Serialize;

use self::archive::pack;
use self::contents::{BundleFile, manifest};
use self::redaction::Redactor;
use crate::cli::connection::{self, Connection, ServerOptions};
use crate::cli::console::failure::{CommandFailure, Exit};
use crate::cli::console::notes;
use crate::cli::console::output::{self, OutputFormat};
use crate::cli::options::{ConfigFile, GlobalOptions};
use crate::config_file::secret_store::private;
use vmcp_edge::port::admin::diagnosis::support::SupportFiles;

/// Pack what helps to find a fault into a file for support, without secrets
///
/// Packs status, configuration, log, calls, metrics and versions.
/// The file has the mode 0600, and MANIFEST.txt in it lists what is there. Secrets are removed twice: by
/// their values, which the configuration and the environment tell, and by their shape. Look at it before you
/// send it.
#[derive(Debug, Args)]
#[command(after_help = "\
Without a running server, it has the configuration, the log of the server before, and the versions.

Examples:
  vmcp support-bundle
  vmcp support-bundle /tmp/vmcp.tar.gz && tar -tzf /tmp/vmcp.tar.gz")]
pub(in crate::cli) struct Arguments {
    /// File to write [default: vmcp-support-TIME.tar.gz in this folder]
    file: Option<PathBuf>,
    /// Format of the report about the file
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: OutputFormat,
    #[command(flatten)]
    server_options: ServerOptions,
}

/// Report about a written file.
#[derive(Serialize)]
struct Written {
    file: PathBuf,
    bytes: usize,
    contents: Vec<String>,
}

/// Runs the command.
pub(in crate::cli) fn run(arguments: &Arguments, global: &GlobalOptions) -> Result<Exit, CommandFailure> {
    let now = SystemTime::now();
    connection::with_server_if_any(global, &arguments.server_options, async |connection| {
        let of_server = match connection {
            Some(connection) => of_server(connection).await,
            None => Err(CommandFailure::new("no server runs with this configuration")),
        };
        let of_server = of_server.inspect_err(|failure| {
            notes::note(&format!("without status, calls and metrics of a server: {}", failure.message()));
        });
        let config = global.load_if_any();
        let bundle = bundle(global, of_server.ok(), &config, now)?;
        let file = arguments.file.clone().unwrap_or_else(|| default_name(now));
        write_new(&file, &bundle.bytes)?;
        let contents = bundle.files.iter().map(|file| file.name.clone()).collect();
        let written = Written { file: file.clone(), bytes: bundle.bytes.len(), contents };
        output::print(arguments.output, &written, || {
            format!("{}: {} bytes, {}", file.display(), written.bytes, written.contents.join(", "))
        })?;
        Ok(Exit::Done)
    })
}

/// A packed bundle.
struct Bundle {
    bytes: Vec<u8>,
    files: Vec<BundleFile>,
}

async fn of_server(connection: &Connection) -> Result<SupportFiles, CommandFailure> {
    connection.lookup("admin/support").await
}

/// Collects the files, removes secrets, and packs them.
fn bundle(
    global: &GlobalOptions,
    of_server: Option<SupportFiles>,
    config: &Result<Option<ConfigFile>, CommandFailure>,
    now: SystemTime,
) -> Result<Bundle, CommandFailure> {
    let loaded = config.as_ref().ok().and_then(Option::as_ref).map(|file| &file.config);
    let redactor = Redactor::new(loaded);
    let mut files = contents::files(global, of_server, config);
    for file in &mut files {
        file.text = redactor.redact(&file.name, &file.text);
    }
    files.insert(0, manifest(&files, now));
    let bytes = pack(&files, now)?;
    Ok(Bundle { bytes, files })
}

/// Returns a name in this folder that sorts by time.
fn default_name(now: SystemTime) -> PathBuf {
    let time = humantime::format_rfc3339_seconds(now).to_string().replace([':', '-'], "");
    PathBuf::from(format!("vmcp-support-{time}.tar.gz"))
}

/// Writes a file that only its owner can read. An existing one stays.
fn write_new(path: &std::path::Path, bytes: &[u8]) -> Result<(), CommandFailure> {
    let failed = |error: std::io::Error| {
        CommandFailure::new(format!("cannot write {}: {error}", path.display()))
            .remedy("name another file: `vmcp support-bundle FILE`")
    };
    let mut file = private(OpenOptions::new().write(true).create_new(true)).open(path).map_err(failed)?;
    file.write_all(bytes).and_then(|()| file.sync_all()).map_err(failed)
}

#[cfg(test)]
mod tests;
