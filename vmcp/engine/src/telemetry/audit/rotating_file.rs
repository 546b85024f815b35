//! [`RotatingFile`]: a file that is renamed when it is full. `tracing_appender` rotates by time only, which
//! bounds no disk.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use super::chain::MAX_LINE_BYTES;

/// Appends to `PATH`; a full one becomes `PATH.1`, that one `PATH.2`, and so on. Every write is of whole
/// lines, and no line is torn between two files. A file that cannot be opened is tried again with each line.
#[derive(Debug)]
pub(super) struct RotatingFile {
    path: PathBuf,
    max_bytes: u64,
    max_files: u32,
    open: Option<(File, u64)>,
    rotated: bool,
}

impl RotatingFile {
    /// Prepares the file; the first line opens it.
    pub(super) fn new(path: PathBuf, max_bytes: u64, max_files: u32) -> RotatingFile {
        RotatingFile { path, max_bytes, max_files, open: None, rotated: false }
    }

    /// Returns the last whole line that an earlier process wrote.
    pub(super) fn last_line(&self) -> Option<Vec<u8>> {
        let newest = [self.path.clone(), self.numbered(1)];
        let mut file = newest.into_iter().find_map(|path| {
            File::open(path).ok().filter(|file| file.metadata().is_ok_and(|about| about.len() > 0))
        })?;
        let length = file.metadata().ok()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(MAX_LINE_BYTES))).ok()?;
        let mut tail = Vec::new();
        file.take(MAX_LINE_BYTES).read_to_end(&mut tail).ok()?;
        tail.split(|byte| *byte == b'\n').rfind(|line| !line.is_empty()).map(<[u8]>::to_vec)
    }

    /// Returns true if another file was begun since this was asked.
    pub(super) fn take_rotated(&mut self) -> bool {
        std::mem::take(&mut self.rotated)
    }

    fn numbered(&self, number: u32) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(format!(".{number}"));
        name.into()
    }

    /// Renames every file by one number; the oldest one is replaced by the one before it.
    fn rotate(&self) -> io::Result<()> {
        for number in (1..self.max_files).rev() {
            rename_if_there(&self.numbered(number), &self.numbered(number + 1))?;
        }
        rename_if_there(&self.path, &self.numbered(1))
    }
}

impl RotatingFile {
    /// Appends a line. A line that is written in part is taken back, so that later lines can be read.
    pub(super) fn append(&mut self, line: &[u8]) -> io::Result<()> {
        let (mut file, mut size) = match self.open.take() {
            Some(open) => open,
            None => open(&self.path)?,
        };
        if size > 0 && size + line.len() as u64 > self.max_bytes {
            drop(file);
            self.rotate()?;
            self.rotated = true;
            (file, size) = open(&self.path)?;
        }
        // With an error the file is opened again for the next line.
        if let Err(error) = file.write_all(line) {
            let _ = file.set_len(size);
            return Err(error);
        }
        self.open = Some((file, size + line.len() as u64));
        Ok(())
    }
}

/// Opens a file to append to it; returns it with its size.
fn open(path: &Path) -> io::Result<(File, u64)> {
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        std::fs::create_dir_all(folder)?;
    }
    let mut options = OpenOptions::new();
    options.append(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    let mut size = file.metadata()?.len();
    // A process that was killed may have left half a line, to which the next one must not be added.
    if size > 0 && !ends_with_line(path)? {
        file.write_all(b"\n")?;
        size += 1;
    }
    Ok((file, size))
}

fn ends_with_line(path: &Path) -> io::Result<bool> {
    let mut file = File::open(path)?;
    file.seek(SeekFrom::End(-1))?;
    let mut last = [0];
    file.read_exact(&mut last)?;
    Ok(last == *b"\n")
}

fn rename_if_there(from: &Path, to: &Path) -> io::Result<()> {
    match std::fs::rename(from, to) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_file_is_renamed_and_the_oldest_one_goes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("logs/audit.jsonl");
        let mut file = RotatingFile::new(path.clone(), 10, 2);
        for line in ["one 56789\n", "two\n", "three\n", "four 6789\n", "five\n"] {
            file.append(line.as_bytes()).unwrap();
        }
        let read = |path: PathBuf| std::fs::read_to_string(path).unwrap();
        assert_eq!(read(file.numbered(1)), "four 6789\n");
        assert_eq!(read(file.numbered(2)), "two\nthree\n");
        assert_eq!(read(path.clone()), "five\n");
        assert!(!file.numbered(3).exists());
        // Another process goes on where this one ended.
        drop(file);
        RotatingFile::new(path.clone(), 10, 2).append(b"six\n").unwrap();
        assert_eq!(read(path), "five\nsix\n");
    }

    #[test]
    fn half_a_line_of_a_killed_process_costs_itself_only() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.jsonl");
        std::fs::write(&path, "whole\nhal").unwrap();
        let mut file = RotatingFile::new(path.clone(), 1000, 2);
        assert_eq!(file.last_line().as_deref(), Some(b"hal".as_slice()));
        file.append(b"next\n").unwrap();
        assert_eq!(std::fs::read_to_string(path).unwrap(), "whole\nhal\nnext\n");
    }

    #[cfg(unix)]
    #[test]
    fn only_the_owner_reads_the_file_and_it_comes_back_after_a_fault() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/audit.jsonl");
        std::fs::write(folder.path().join("a"), "a file in place of the folder").unwrap();
        let mut file = RotatingFile::new(path.clone(), 1000, 2);
        assert!(file.append(b"lost\n").is_err());
        std::fs::remove_file(folder.path().join("a")).unwrap();
        file.append(b"kept\n").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "kept\n");
        assert_eq!(std::fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600);
    }
}
