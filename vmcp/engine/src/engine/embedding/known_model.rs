//! [`KnownModel`]: the model behind a provider, told from others of its name by the vector of the canary.

use sha2::{Digest as _, Sha256};
use vmcp_embed::EmbedError;
use vmcp_embed::canary::same_model;
use vmcp_store::StoredCanary;

/// Bytes of a revision; it tells the few models apart that one name had.
const REVISION_BYTES: usize = 4;

/// A model by its name and its canary.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::engine) struct KnownModel {
    /// The provider's name for it.
    pub(in crate::engine) id: String,
    /// Part of the key of each stored vector: the name, and the revision if the name does not decide.
    pub(in crate::engine) key: String,
    /// Its vector of the canary; `None` if the name decides.
    canary: Option<Vec<f32>>,
}

impl KnownModel {
    /// A model whose name always means the same weights.
    pub(in crate::engine) fn pinned(id: String) -> KnownModel {
        KnownModel { key: id.clone(), id, canary: None }
    }

    /// A model of which a stored or new canary is known.
    pub(in crate::engine) fn with_canary(id: String, canary: StoredCanary) -> KnownModel {
        let StoredCanary { revision, vector } = canary;
        KnownModel { key: format!("{id}~{revision}"), id, canary: Some(vector) }
    }

    /// Fails if a request's vector of the canary is another model's.
    pub(in crate::engine) fn check(&self, canary: Option<&[f32]>) -> Result<(), EmbedError> {
        let same = match (&self.canary, canary) {
            (Some(known), Some(answered)) => same_model(known, answered),
            _ => true,
        };
        if same { Ok(()) } else { Err(self.changed()) }
    }

    /// Fails if a vector has another width than the model's.
    pub(in crate::engine) fn check_width(&self, vector: &[f32]) -> Result<(), EmbedError> {
        let fits = self.canary.as_ref().is_none_or(|canary| canary.len() == vector.len());
        if fits { Ok(()) } else { Err(self.changed()) }
    }

    fn changed(&self) -> EmbedError {
        EmbedError::ModelChanged { model: self.id.clone() }
    }
}

/// Returns the stored canary of the model that answered `vector`, or a new one for it.
pub(in crate::engine) fn recognize(stored: Vec<StoredCanary>, vector: Vec<f32>) -> StoredCanary {
    let known = stored.into_iter().find(|known| same_model(&known.vector, &vector));
    known.unwrap_or_else(|| StoredCanary { revision: revision(&vector), vector })
}

fn revision(vector: &[f32]) -> String {
    let mut hash = Sha256::new();
    for value in vector {
        hash.update(value.to_le_bytes());
    }
    hex::encode(hash.finalize().get(..REVISION_BYTES).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_is_recognized_up_to_rounding() {
        let first = recognize(Vec::new(), vec![0.6, 0.8]);
        assert_eq!(recognize(vec![first.clone()], vec![0.600_1, 0.799_9]), first);
        let second = recognize(vec![first.clone()], vec![0.8, 0.6]);
        assert_ne!(second.revision, first.revision);
        assert_eq!(recognize(vec![second, first.clone()], vec![0.6, 0.8]), first, "a way back");
        assert_ne!(recognize(vec![first.clone()], vec![0.6, 0.8, 0.0]).revision, first.revision);
    }

    #[test]
    fn an_answer_of_another_model_is_refused() {
        let canary = recognize(Vec::new(), vec![0.6, 0.8]);
        let known = KnownModel::with_canary("tei/m".to_owned(), canary);
        assert!(known.key.starts_with("tei/m~") && known.key.len() == "tei/m~".len() + 8, "{}", known.key);
        assert!(known.check(Some(&[0.6, 0.8])).is_ok() && known.check_width(&[1.0, 0.0]).is_ok());
        assert_eq!(known.check(Some(&[0.8, -0.6])).unwrap_err().category(), "model_changed");
        assert!(known.check_width(&[1.0, 0.0, 0.0]).is_err());
        let pinned = KnownModel::pinned("local/m".to_owned());
        assert!(pinned.key == "local/m" && pinned.check(None).is_ok() && pinned.check_width(&[1.0]).is_ok());
    }
}
