//! Reads the end of a transcript that a hook names by its path. The file lies below a configured folder, or
//! is not read.

use std::fs::{self, File};
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

/// Bytes of a transcript that are read: its end. Transcripts grow to 100 MB.
const MAX_READ_BYTES: u64 = 8 * 1024 * 1024;

/// A transcript that is not read. All reasons read alike, so that a path tells nothing about other files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "params.transcript_path was not read: it is no file below optimizer.sessionHooks.transcriptDirs; send \
     params.transcript"
)]
pub(super) struct UnreadTranscript;

/// Returns the last [`MAX_READ_BYTES`] of a file below one of `dirs`, from the begin of a line. Links are
/// followed before the path is compared.
pub(super) fn read_end(path: &Path, dirs: &[PathBuf]) -> Result<String, UnreadTranscript> {
    if dirs.is_empty() || !path.is_absolute() {
        return Err(UnreadTranscript);
    }
    let path = fs::canonicalize(path).map_err(|_| UnreadTranscript)?;
    let is_below = |dir: &PathBuf| fs::canonicalize(dir).is_ok_and(|dir| path.starts_with(dir));
    // A device or a pipe would block the reader.
    let is_file = || fs::symlink_metadata(&path).is_ok_and(|found| found.is_file());
    if !dirs.iter().any(is_below) || !is_file() {
        return Err(UnreadTranscript);
    }
    end_of(&path, MAX_READ_BYTES).map_err(|_| UnreadTranscript)
}

/// Returns at most `limit` bytes of the end of a file, from the begin of a line; an error of the operating
/// system otherwise. The caller has checked that the path is that of a file.
pub fn end_of(path: &Path, limit: u64) -> std::io::Result<String> {
    let mut file = File::open(path)?;
    let from = file.metadata()?.len().saturating_sub(limit);
    file.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    file.take(limit).read_to_end(&mut bytes)?;
    let cut = if from == 0 { 0 } else { bytes.iter().position(|byte| *byte == b'\n').map_or(0, |at| at + 1) };
    Ok(String::from_utf8_lossy(bytes.get(cut..).unwrap_or_default()).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_below_a_configured_folder_only() {
        let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let dirs = [dir.path().to_owned()];
        let (inside, outside) = (dir.path().join("a.jsonl"), other.path().join("secret"));
        fs::write(&inside, "User: hi").unwrap();
        fs::write(&outside, "User: secret").unwrap();
        assert_eq!(read_end(&inside, &dirs).as_deref(), Ok("User: hi"));
        assert_eq!(read_end(&inside, &[]), Err(UnreadTranscript));
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&outside, &link).unwrap();
        // A folder whose path begins like the configured one.
        let sibling = PathBuf::from(format!("{}x", dir.path().display()));
        fs::create_dir(&sibling).unwrap();
        let beside = sibling.join("a.jsonl");
        fs::write(&beside, "User: secret").unwrap();
        for path in [
            outside.clone(),
            link,
            dir.path().join("..").join(other.path().file_name().unwrap()).join("secret"),
            dir.path().to_owned(),
            dir.path().join("absent"),
            beside,
            PathBuf::from("a.jsonl"),
            PathBuf::from("/dev/zero"),
        ] {
            assert_eq!(read_end(&path, &dirs), Err(UnreadTranscript), "{}", path.display());
        }
        fs::remove_dir_all(sibling).unwrap();
    }

    #[test]
    fn of_a_transcript_of_100_mb_the_end_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("long.jsonl");
        let file = File::create(&path).unwrap();
        file.set_len(100 * 1024 * 1024).unwrap();
        drop(file);
        let mut file = File::options().append(true).open(&path).unwrap();
        std::io::Write::write_all(&mut file, b"\nUser: the end").unwrap();
        assert_eq!(read_end(&path, &[dir.path().to_owned()]).as_deref(), Ok("User: the end"));
    }
}
