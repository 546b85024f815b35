//! [`Cursor`]: the place in the calls of each replica behind which a page goes on.

use std::collections::BTreeMap;
use std::fmt;

/// Most replicas of a cursor; further ones begin with their first kept call.
const MAX_REPLICAS: usize = 64;

/// Number of the next call, by the id of the replica.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Cursor(BTreeMap<String, u64>);

impl Cursor {
    /// Reads what [`Cursor`] displays; parts that cannot be read are left out.
    pub(super) fn parse(text: &str) -> Cursor {
        let parts = text.split(',').take(MAX_REPLICAS);
        let part = |part: &str| {
            let (replica, next) = part.rsplit_once('.')?;
            Some((replica.to_owned(), next.parse().ok()?))
        };
        Cursor(parts.filter_map(part).collect())
    }

    /// Returns the number for a replica; 0 for an unknown one.
    pub(super) fn of(&self, replica: &str) -> u64 {
        self.0.get(replica).copied().unwrap_or_default()
    }

    /// Moves the place in the calls of a replica.
    pub(super) fn set(&mut self, replica: String, next: u64) {
        self.0.insert(replica, next);
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (replica, next)) in self.0.iter().enumerate() {
            let separator = if at == 0 { "" } else { "," };
            write!(f, "{separator}{replica}.{next}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_goes_on_at_each_replica_where_it_was() {
        let mut cursor = Cursor::parse("");
        assert_eq!((cursor.of("0a"), cursor.to_string()), (0, String::new()));
        cursor.set("0b".to_owned(), 7);
        cursor.set("0a".to_owned(), u64::MAX);
        assert_eq!(cursor.to_string(), format!("0a.{},0b.7", u64::MAX));
        assert_eq!(Cursor::parse(&cursor.to_string()), cursor);
        assert_eq!(Cursor::parse("x,.,0a.-1,0b.seven,0c.1").to_string(), "0c.1");
        let many = (0..1000).map(|number| format!("{number}.1")).collect::<Vec<_>>().join(",");
        assert_eq!(Cursor::parse(&many).0.len(), MAX_REPLICAS);
    }
}
