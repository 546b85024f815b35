//! The meaning of an error to a controller: its category, and when to try again.

/// An error of a reconciler.
///
/// Its category is at once the metric's label, the event's reason and the condition's reason.
///
/// ```
/// # use vmcp_operator::runtime::{Failure, Retry};
/// #[derive(Debug, thiserror::Error)]
/// #[error("there is no Secret {0}; create it")]
/// struct SecretMissing(String);
///
/// impl Failure for SecretMissing {
///     fn category(&self) -> &'static str {
///         "SecretNotFound"
///     }
///
///     // The change of the Secret triggers the next reconcile.
///     fn retry(&self) -> Retry {
///         Retry::WhenEdited
///     }
/// }
/// assert!(!SecretMissing("s".to_owned()).is_in_status());
/// ```
pub trait Failure: std::error::Error + Send + Sync + 'static {
    /// Returns one CamelCase word of a small, fixed set, such as `NameTaken` or `Forbidden`.
    fn category(&self) -> &'static str;

    /// Returns when to try again.
    fn retry(&self) -> Retry {
        Retry::Backoff
    }

    /// Returns true if the reconciler wrote the error into the status itself.
    fn is_in_status(&self) -> bool {
        false
    }
}

/// When to try again after an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    /// Not until a person edits the object or an object that it refers to.
    WhenEdited,
    /// After half a second, silently: a conflict with another writer. An error that lasts for ten attempts
    /// counts as `Backoff`.
    Soon,
    /// With exponential backoff: 0.5 s, doubling up to 2 min.
    Backoff,
    /// Not at all, silently: the namespace is being deleted, and the object with it.
    NotNeeded,
}
