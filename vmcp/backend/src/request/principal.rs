//! Principals: those on whose behalf requests are sent.

/// The principal of a request, which chooses the credentials that the backend gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Principal {
    /// vmcp itself, or a client that has not proved who it is.
    #[default]
    Anonymous,
}
