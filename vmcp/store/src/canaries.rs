//! Canary vectors: what each model that had a name answered to one fixed text.

use rusqlite::params;

use crate::error::StoreError;
use crate::store::Store;
use crate::vectors::{decode, encode};

/// Models that are remembered for one name; a further one forgets the oldest, and with it the way back to
/// its vectors.
const MAX_CANARIES: usize = 8;

/// One of the models that had a name.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredCanary {
    /// Tells it from other models of the name.
    pub revision: String,
    /// Its vector of the fixed text.
    pub vector: Vec<f32>,
}

impl Store {
    /// Returns the models that had the name `model_id`, the newest first.
    pub fn canaries(&self, model_id: &str) -> Result<Vec<StoredCanary>, StoreError> {
        self.read(|connection| {
            let mut select = connection.prepare_cached(
                "SELECT revision, vector, dimensions FROM embedding_canaries WHERE model_id = ?1
                 ORDER BY rowid DESC",
            )?;
            let mut rows = select.query([model_id])?;
            let mut found = Vec::new();
            while let Some(row) = rows.next()? {
                if let Some(vector) = decode(row.get_ref(1)?.as_blob()?, row.get(2)?) {
                    found.push(StoredCanary { revision: row.get(0)?, vector });
                }
            }
            Ok(found)
        })
    }

    /// Stores a model of the name `model_id`.
    pub fn put_canary(&self, model_id: &str, canary: &StoredCanary) -> Result<(), StoreError> {
        let StoredCanary { revision, vector } = canary;
        self.write(|transaction| {
            transaction.execute(
                "INSERT OR REPLACE INTO embedding_canaries (model_id, revision, vector, dimensions)
                 VALUES (?1, ?2, ?3, ?4)",
                params![model_id, revision, encode(vector), vector.len()],
            )?;
            transaction.execute(
                "DELETE FROM embedding_canaries WHERE model_id = ?1 AND rowid NOT IN
                   (SELECT rowid FROM embedding_canaries WHERE model_id = ?1 ORDER BY rowid DESC LIMIT ?2)",
                params![model_id, MAX_CANARIES],
            )?;
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_remembers_its_last_models() {
        let store = Store::in_memory().unwrap();
        let canary =
            |number: usize| StoredCanary { revision: number.to_string(), vector: vec![number as f32, 1.0] };
        assert_eq!(store.canaries("m").unwrap(), []);
        for number in 0..MAX_CANARIES + 2 {
            store.put_canary("m", &canary(number)).unwrap();
        }
        store.put_canary("other", &canary(0)).unwrap();
        let expected: Vec<_> = (2..MAX_CANARIES + 2).rev().map(canary).collect();
        assert_eq!(store.canaries("m").unwrap(), expected);
        assert_eq!(store.canaries("other").unwrap(), [canary(0)]);
    }
}
