//! [`Revision`]: the published revisions of MCP; and [`Era`]: legacy (sessions) or modern (stateless).

use std::fmt;

/// The two families of revisions, told apart by where version, identity and capabilities travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum Era {
    /// Sessions: stated once, with `initialize`; up to 2025-11-25.
    #[default]
    Legacy,
    /// Stateless: stated in `_meta` of every request; from 2026-07-28.
    Modern,
}

impl Era {
    /// Returns the name for logs and metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Legacy => "legacy",
            Self::Modern => "modern",
        }
    }
}

impl fmt::Display for Era {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A published revision, ordered by date.
///
/// ```
/// use vmcp_wire::era::{Era, Revision};
///
/// assert_eq!(Revision::parse("2026-07-28").map(Revision::era), Some(Era::Modern));
/// assert_eq!(Revision::negotiate("1999-01-01"), Revision::LATEST_LEGACY);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(missing_docs, reason = "a revision is its date")]
pub enum Revision {
    V2024_11_05,
    V2025_03_26,
    V2025_06_18,
    V2025_11_25,
    V2026_07_28,
}

impl Revision {
    /// All revisions, newest first: the order in which `supported` and `supportedVersions` list them.
    pub const ALL: [Self; 5] =
        [Self::V2026_07_28, Self::V2025_11_25, Self::V2025_06_18, Self::V2025_03_26, Self::V2024_11_05];
    /// The newest revision.
    pub const MODERN: Self = Self::V2026_07_28;
    /// The newest revision that begins with `initialize`.
    pub const LATEST_LEGACY: Self = Self::V2025_11_25;

    /// Returns the revision of that date, if there is one.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|revision| revision.as_str() == text)
    }

    /// Returns the date, as it travels.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::V2024_11_05 => "2024-11-05",
            Self::V2025_03_26 => "2025-03-26",
            Self::V2025_06_18 => "2025-06-18",
            Self::V2025_11_25 => "2025-11-25",
            Self::V2026_07_28 => "2026-07-28",
        }
    }

    /// Returns the date as a JSON string: requests to modern backends carry it.
    pub(crate) fn as_json(self) -> &'static str {
        match self {
            Self::V2024_11_05 => "\"2024-11-05\"",
            Self::V2025_03_26 => "\"2025-03-26\"",
            Self::V2025_06_18 => "\"2025-06-18\"",
            Self::V2025_11_25 => "\"2025-11-25\"",
            Self::V2026_07_28 => "\"2026-07-28\"",
        }
    }

    /// Returns the era of the revision.
    #[must_use]
    pub fn era(self) -> Era {
        if self >= Self::V2026_07_28 { Era::Modern } else { Era::Legacy }
    }

    /// Returns the revision that answers `initialize`: the requested one if it is known and legacy, else the
    /// newest legacy one.
    #[must_use]
    pub fn negotiate(requested: &str) -> Self {
        Self::parse(requested).filter(|revision| revision.era() == Era::Legacy).unwrap_or(Self::LATEST_LEGACY)
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn revisions_negotiate_downwards_only() {
        assert_eq!(Revision::negotiate("2025-06-18"), Revision::V2025_06_18);
        assert_eq!(Revision::negotiate("2026-07-28"), Revision::LATEST_LEGACY);
        assert_eq!(Revision::negotiate("1.0"), Revision::LATEST_LEGACY);
        for revision in Revision::ALL {
            assert_eq!(Revision::parse(&revision.to_string()), Some(revision));
            assert_eq!(revision.as_json(), vmcp_json::text::quoted(revision.as_str()));
        }
    }
}
