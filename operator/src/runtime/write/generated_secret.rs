//! Random values (tokens, keys) that the operator generates once for a resource and keeps in a Secret that
//! the resource owns.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;

/// The values that the Secret holds already; missing ones are generated.
pub(crate) struct GeneratedSecret(BTreeMap<String, ByteString>);

impl GeneratedSecret {
    /// Takes the values of the Secret, if it exists.
    pub(crate) fn from_secret(secret: Option<Secret>) -> Self {
        Self(secret.and_then(|secret| secret.data).unwrap_or_default())
    }

    /// Takes the value of a key, or a new random one if it is missing or empty.
    pub(crate) fn take(&mut self, key: &str) -> Result<Vec<u8>, getrandom::Error> {
        match self.0.remove(key) {
            Some(ByteString(value)) if !value.is_empty() => Ok(value),
            _ => random(),
        }
    }
}

/// Returns 32 random bytes in base64.
fn random() -> Result<Vec<u8>, getrandom::Error> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes)?;
    Ok(STANDARD.encode(bytes).into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_is_kept_and_what_is_missing_or_empty_is_made_up() {
        let bytes = |text: &str| ByteString(text.as_bytes().to_vec());
        let data = [("kept".to_owned(), bytes("value")), ("empty".to_owned(), bytes(""))];
        let mut generated =
            GeneratedSecret::from_secret(Some(Secret { data: Some(data.into()), ..Secret::default() }));
        assert_eq!(generated.take("kept").unwrap(), b"value");
        let [empty, missing] = ["empty", "missing"].map(|key| generated.take(key).unwrap());
        assert!(empty.len() >= 32 && empty != missing);
    }
}
