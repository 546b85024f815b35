//! [`FileContent`]: the content of a file that a configuration refers to.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use vmcp_config::MAX_FILE_BYTES;

/// Content of a referenced file: `None` if it does not exist, else its text or the reason why it cannot be
/// read.
pub(crate) type FileContent = Result<Option<String>, String>;

/// Reads a file, at most one byte more than a value may have.
pub(crate) fn read_file(path: &Path) -> FileContent {
    read_at_most(path, MAX_FILE_BYTES)
}

/// Reads a file, at most one byte more than `bytes`. Only regular files are read: a pipe could block for
/// ever.
pub(super) fn read_at_most(path: &Path, bytes: usize) -> FileContent {
    let missing = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
    match path.metadata() {
        Err(error) if missing(&error) => return Ok(None),
        Err(error) => return Err(error.to_string()),
        Ok(metadata) if !metadata.is_file() => return Err("it is not a regular file".to_owned()),
        Ok(_) => {}
    }
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(bytes as u64 + 1).read_to_string(&mut text));
    match read {
        Ok(_) => Ok(Some(text)),
        // The file existed a moment ago: Kubernetes swaps the symbolic link of a mounted volume.
        Err(error) if missing(&error) => Ok(None),
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_regular_files_of_text_are_read_and_no_more_than_a_value_may_have() {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str, bytes: &[u8]| {
            let path = dir.path().join(name);
            std::fs::write(&path, bytes).unwrap();
            read_file(&path)
        };
        assert_eq!(file("token", b"abc\n"), Ok(Some("abc\n".to_owned())));
        assert_eq!(read_file(&dir.path().join("none")), Ok(None));
        assert_eq!(read_file(dir.path()), Err("it is not a regular file".to_owned()));
        assert!(file("binary", &[0xff]).unwrap_err().contains("UTF-8"));
        let large = file("large", &vec![b'x'; 1 << 20]).unwrap().unwrap();
        assert_eq!(large.len(), MAX_FILE_BYTES + 1, "which is refused");
    }
}
