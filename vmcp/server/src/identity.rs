//! The identity of a client. All clients are one identity until there is authentication.

/// An identity with rights of its own. [`crate::engine::View`] alone decides which items it may see.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Identity {
    /// A client without credentials.
    #[default]
    Anonymous,
}

impl Identity {
    /// Returns the value that sealed tokens are bound to: a session or a state is of use only to the identity
    /// it was made for.
    pub fn digest(self) -> [u8; 32] {
        match self {
            Identity::Anonymous => [0; 32],
        }
    }
}
