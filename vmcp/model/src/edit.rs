//! Sets top-level keys of a definition and leaves every other byte as it was.

use serde_json::value::RawValue;
use vmcp_json::object::{Object, ObjectError};

/// Sets keys to values, which are JSON texts. An existing key keeps its place, a new key comes last.
///
/// Fails unless `object` is a JSON object without repeated keys, and each value is JSON.
pub(crate) fn set(object: &RawValue, changes: &[(&str, String)]) -> Result<Box<RawValue>, EditError> {
    let object = Object::parse(object)?;
    let mut edit = object.edit();
    for (key, json) in changes {
        edit.set(key, json.clone());
    }
    Ok(edit.finish().into_raw()?)
}

/// Sets keys to JSON texts as [`set`] does, and removes those without one.
pub(crate) fn change(
    object: &RawValue,
    changes: &[(&str, Option<String>)],
) -> Result<Box<RawValue>, EditError> {
    let object = Object::parse(object)?;
    let mut edit = object.edit();
    for (key, json) in changes {
        match json {
            Some(json) => edit.set(key, json.clone()),
            None => edit.remove(key),
        };
    }
    Ok(edit.finish().into_raw()?)
}

/// The reason why a definition cannot be edited.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EditError {
    /// The definition cannot be read as an object.
    #[error(transparent)]
    Object(#[from] ObjectError),
    /// A value cannot be written or read as JSON.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(json: &str) -> Box<RawValue> {
        RawValue::from_string(json.to_owned()).unwrap()
    }

    #[test]
    fn replaces_in_place_and_appends() {
        let object = raw("{ \"n\\u0061me\" : \"a\" , \"x\": [1.0e5, {\"name\":2}],\n \"d\":null }");
        let edited =
            set(&object, &[("d", "\"D\"".into()), ("new", "{}".into()), ("name", "\"b\"".into())]).unwrap();
        assert_eq!(
            edited.get(),
            "{ \"n\\u0061me\" : \"b\" , \"x\": [1.0e5, {\"name\":2}],\n \"d\":\"D\",\"new\":{} }"
        );
    }

    #[test]
    fn what_has_no_single_meaning_is_not_edited() {
        assert!(matches!(
            set(&raw(r#"{"a":1,"a":2}"#), &[("a", "3".into())]),
            Err(EditError::Object(ObjectError::DuplicateKey(_)))
        ));
        assert!(set(&raw("[]"), &[("a", "1".into())]).is_err());
        assert!(matches!(set(&raw("{}"), &[("a", "1 2".into())]), Err(EditError::Json(_))));
    }
}
