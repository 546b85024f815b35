//! [`AnsweredVector`]: one vector in the answer of a service, in each of the forms that services write.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::de::{Deserialize, Deserializer, Error, SeqAccess, Visitor};

/// A vector as JSON numbers, or as base64 of little-endian floats, which OpenAI's clients ask for and some
/// proxies therefore always send. `null` is a NaN: JSON has no other way to write it.
pub(crate) struct AnsweredVector(pub(crate) Vec<f32>);

impl<'de> Deserialize<'de> for AnsweredVector {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<AnsweredVector, D::Error> {
        deserializer.deserialize_any(VectorVisitor)
    }
}

struct VectorVisitor;

impl<'de> Visitor<'de> for VectorVisitor {
    type Value = AnsweredVector;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a list of numbers, or base64 of floats")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<AnsweredVector, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = sequence.next_element::<Option<f32>>()? {
            values.push(value.unwrap_or(f32::NAN));
        }
        Ok(AnsweredVector(values))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<AnsweredVector, E> {
        let bytes = STANDARD.decode(text).map_err(E::custom)?;
        let (floats, rest) = bytes.as_chunks::<4>();
        if !rest.is_empty() {
            return Err(E::custom("base64 whose length is not a multiple of 4 bytes"));
        }
        Ok(AnsweredVector(floats.iter().map(|float| f32::from_le_bytes(*float)).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Result<Vec<f32>, String> {
        let vector: Result<AnsweredVector, _> = serde_json::from_str(json);
        vector.map(|AnsweredVector(values)| values).map_err(|error| error.to_string())
    }

    #[test]
    fn numbers_and_base64_are_one_vector() {
        assert_eq!(read("[0.5, -1, 2e0]").unwrap(), [0.5, -1.0, 2.0]);
        assert_eq!(read(r#""AAAAPwAAgL8AAABA""#).unwrap(), [0.5, -1.0, 2.0]);
        assert_eq!(read("[]").unwrap(), [0.0; 0]);
    }

    #[test]
    fn null_is_not_a_number_and_other_forms_are_errors() {
        assert!(read("[null, 1]").unwrap()[0].is_nan());
        for json in [r#""AAAA""#, r#""*""#, "7", "null", r#"["a"]"#, r#"{"a": 1}"#] {
            assert!(read(json).is_err(), "{json}");
        }
    }
}
