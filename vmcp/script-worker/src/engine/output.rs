//! [`Output`]: text that a script prints, up to a bound.

use std::borrow::Cow;

use monty_types::{ExcType, MontyException, PrintWriterCallback};

/// Printed text. Beyond its bound, every further print fails.
#[derive(Debug)]
pub(super) struct Output {
    pub(super) text: String,
    most: usize,
    /// True if the script tried to print more.
    pub(super) is_over: bool,
}

impl Output {
    /// `most`: bytes of all text.
    pub(super) fn new(most: usize) -> Output {
        Output { text: String::new(), most, is_over: false }
    }

    /// The output of a script that has printed before, in another process.
    pub(super) fn continued(text: String, is_over: bool, most: usize) -> Output {
        Output { text, most, is_over }
    }

    fn push(&mut self, text: &str) -> Result<(), MontyException> {
        if self.is_over || self.text.len().saturating_add(text.len()) > self.most {
            if !self.is_over {
                let rest = text.floor_char_boundary(self.most.saturating_sub(self.text.len()));
                self.text.push_str(text.get(..rest).unwrap_or_default());
            }
            self.is_over = true;
            let message = format!("the script printed more than {} bytes", self.most);
            return Err(MontyException::new(ExcType::MemoryError, Some(message)));
        }
        self.text.push_str(text);
        Ok(())
    }
}

impl PrintWriterCallback for Output {
    fn stdout_write(&mut self, output: Cow<'_, str>) -> Result<(), MontyException> {
        self.push(&output)
    }

    fn stdout_push(&mut self, end: char) -> Result<(), MontyException> {
        self.push(end.encode_utf8(&mut [0; 4]))
    }
}
