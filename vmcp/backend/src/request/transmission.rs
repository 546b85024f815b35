//! Transmission of a failed call: the part of its way that it is known to have made.

/// Part of its way that a failed call made. Sending it again, or elsewhere, executes nothing twice only after
/// [`Transmission::NotSent`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transmission {
    /// The backend has not executed the call: nothing was sent, or the backend refused it unread.
    NotSent,
    /// The backend received the call and answered something; it may have executed the call.
    Sent,
    /// The call was sent and its end is lost: it may have been executed, or be under way still.
    Unknown,
}

impl Transmission {
    /// The word for records and metrics: `not_sent`, `sent` or `unknown`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NotSent => "not_sent",
            Self::Sent => "sent",
            Self::Unknown => "unknown",
        }
    }
}
