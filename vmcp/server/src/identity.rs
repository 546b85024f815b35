//! Who asks. Everybody is the same until there is authentication.

/// Somebody with rights of their own. What they may see is decided in [`crate::engine::View`], and nowhere else.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Identity {
    /// Nobody in particular.
    #[default]
    Anonymous,
}

impl Identity {
    /// What sealed tokens are bound to: a session or a state belongs to whoever it was made for.
    pub fn digest(self) -> [u8; 32] {
        match self {
            Identity::Anonymous => [0; 32],
        }
    }
}
