//! Packs files into a compressed tar archive.

use std::io;
use std::time::{SystemTime, UNIX_EPOCH};

use flate2::Compression;
use flate2::write::GzEncoder;
use tar::{Builder, Header};

use super::contents::BundleFile;

/// Folder of all files in the archive: unpacking leaves no files beside others.
pub(super) const FOLDER: &str = "vmcp-support";
/// Mode of each file.
const MODE: u32 = 0o600;

/// Returns the archive, gzip over tar.
pub(super) fn pack(files: &[BundleFile], now: SystemTime) -> io::Result<Vec<u8>> {
    let mut archive = Builder::new(GzEncoder::new(Vec::new(), Compression::default()));
    let seconds = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    for file in files {
        let mut header = Header::new_gnu();
        header.set_size(file.text.len() as u64);
        header.set_mode(MODE);
        header.set_mtime(seconds);
        archive.append_data(&mut header, format!("{FOLDER}/{}", file.name), file.text.as_bytes())?;
    }
    archive.into_inner()?.finish()
}
