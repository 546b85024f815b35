//! [`ContextKey`]: whose context it is.

use vmcp_backend::SessionId;

/// Owner of a context.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ContextKey {
    /// A legacy session.
    Session(SessionId),
    /// A handle that a client without a session passes with its calls.
    Handle(u64),
}

impl ContextKey {
    /// Returns the key of a handle as set_context gave it out.
    pub fn of_handle(text: &str) -> Option<ContextKey> {
        let well_formed = text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        u64::from_str_radix(text, 16).ok().filter(|_| well_formed).map(ContextKey::Handle)
    }

    /// Returns the text of a handle, 16 hexadecimal digits.
    pub fn handle(self) -> Option<String> {
        match self {
            ContextKey::Session(_) => None,
            ContextKey::Handle(number) => Some(format!("{number:016x}")),
        }
    }
}
