//! What an error means to a controller.

/// An error of a reconciler.
///
/// Its category is at once the metric's label, the event's reason and the condition's reason.
pub trait Failure: std::error::Error + Send + Sync + 'static {
    /// One CamelCase word of a small, fixed set: `NameTaken`, `Forbidden`.
    fn category(&self) -> &'static str;

    /// When it makes sense to try again.
    fn retry(&self) -> Retry {
        Retry::Backoff
    }

    /// Whether the reconciler went on to the status and told it there itself.
    fn is_told(&self) -> bool {
        false
    }
}

/// When to try again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    /// Never by itself: only an edit (of the object or of what it refers to) can help.
    WhenEdited,
    /// Shortly, and without a word, as long as that helps: somebody else was quicker.
    Soon,
    /// Again and again, at longer and longer intervals.
    Backoff,
    /// Not at all, and without a word: the namespace is being deleted, and this object with it.
    NotNeeded,
}

/// An error and its causes in one line.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        // Some libraries repeat their source in their own message.
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}
