//! [`WordRows`]: the table of word embeddings, a row for each token of the vocabulary.

use std::fs::File;
use std::io;

/// Bytes of an `f32`.
const ELEMENT: usize = size_of::<f32>();

/// Word embeddings by token. The table is half of a small encoder's weights, and a text reads a few rows of
/// it: they are read from the file, which the operating system keeps in its page cache and takes back when
/// memory is short.
pub(super) struct WordRows {
    source: Source,
    rows: usize,
    width: usize,
}

enum Source {
    /// The table begins at the position. The file stays open, so that a renamed or replaced one does no harm.
    File { file: File, start: u64 },
    /// Little-endian `f32`.
    Memory(Vec<u8>),
}

impl WordRows {
    /// Reads rows from `file`, in which the table of the shape begins at `start`.
    pub(super) fn of_file(file: File, start: u64, &[rows, width]: &[usize; 2]) -> WordRows {
        WordRows { source: Source::File { file, start }, rows, width }
    }

    /// Takes rows from a table in little-endian `f32`.
    pub(super) fn in_memory(bytes: Vec<u8>, &[rows, width]: &[usize; 2]) -> WordRows {
        WordRows { source: Source::Memory(bytes), rows, width }
    }

    /// Returns the rows of `tokens`, one behind the other. A token outside of the vocabulary is an error.
    pub(super) fn gather(&self, tokens: &[i32]) -> io::Result<Vec<f32>> {
        let mut gathered = Vec::with_capacity(tokens.len() * self.width);
        let mut read = vec![0; self.width * ELEMENT];
        let mut extend = |row: &[u8]| {
            gathered.extend(row.as_chunks().0.iter().map(|element| f32::from_le_bytes(*element)));
        };
        for &token in tokens {
            let outside =
                || io::Error::new(io::ErrorKind::InvalidInput, format!("there is no token {token}"));
            let row = usize::try_from(token).ok().filter(|row| *row < self.rows).ok_or_else(outside)?;
            let at = row * self.width * ELEMENT;
            match &self.source {
                Source::File { file, start } => {
                    read_exact_at(file, &mut read, start + at as u64)?;
                    extend(&read);
                }
                Source::Memory(bytes) => {
                    extend(bytes.get(at..at + self.width * ELEMENT).ok_or_else(outside)?);
                }
            }
        }
        Ok(gathered)
    }
}

/// Fills `bytes` from a position, without moving the file's own.
#[cfg(unix)]
fn read_exact_at(file: &File, bytes: &mut [u8], at: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, bytes, at)
}

/// Fills `bytes` from a position; the file's own is of no interest.
#[cfg(windows)]
fn read_exact_at(file: &File, mut bytes: &mut [u8], mut at: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        let read = std::os::windows::fs::FileExt::seek_read(file, bytes, at)?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        bytes = bytes.get_mut(read..).unwrap_or_default();
        at += read as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    /// Three rows of two elements: 0 1, 2 3, 4 5.
    fn table() -> Vec<u8> {
        (0u8..6).flat_map(|element| f32::from(element).to_le_bytes()).collect()
    }

    #[test]
    fn rows_come_in_the_order_of_their_tokens_from_a_file_and_from_memory() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"header").unwrap();
        file.write_all(&table()).unwrap();
        for rows in [WordRows::of_file(file, 6, &[3, 2]), WordRows::in_memory(table(), &[3, 2])] {
            assert_eq!(rows.gather(&[2, 0, 2]).unwrap(), [4., 5., 0., 1., 4., 5.]);
            assert_eq!(rows.gather(&[3]).unwrap_err().to_string(), "there is no token 3");
            assert_eq!(rows.gather(&[-1]).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        }
    }

    #[test]
    fn a_file_that_was_cut_off_is_an_error() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&table()[..20]).unwrap();
        let rows = WordRows::of_file(file, 0, &[3, 2]);
        assert_eq!(rows.gather(&[1]).unwrap(), [2., 3.]);
        assert_eq!(rows.gather(&[2]).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}
