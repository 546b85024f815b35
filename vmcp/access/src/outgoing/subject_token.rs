//! [`SubjectToken`]: which token of a client is exchanged.

use crate::identity::KnownIdentity;

/// The token of a client that is exchanged: of an upstream provider, or the client's own.
#[derive(Debug)]
pub(super) struct SubjectToken {
    provider: Option<String>,
    is_id_token: bool,
}

impl SubjectToken {
    pub(super) fn new(provider: Option<&String>, kind: &str) -> Self {
        Self { provider: provider.cloned(), is_id_token: kind.ends_with(":id_token") }
    }

    /// Returns the token. A client that signed in through vmcp has a token of vmcp's own, which means nothing
    /// elsewhere: that of its first provider stands for it.
    pub(super) fn token_for<'a>(&self, known: &'a KnownIdentity) -> Option<&'a str> {
        let upstream = known.upstream_tokens();
        match self.provider.as_deref().or_else(|| upstream.first()) {
            Some(provider) if self.is_id_token => upstream.id(provider),
            Some(provider) => upstream.access(provider),
            None => known.token(),
        }
    }
}
