//! The strategic merge patch of Kubernetes: lists are merged by the key that the schema names for them, and
//! directives (`$patch`, `$retainKeys`) replace or delete.

use serde_json::{Map, Value};

use super::{PodTemplateError, is_nothing};
use crate::runtime::{Field, PodSchema, Shape};

/// The directive of an object or of an entry of a list.
const PATCH: &str = "$patch";
/// The directive with the fields that an object keeps.
const RETAIN_KEYS: &str = "$retainKeys";

/// Merges a patch of a pod template into it.
pub(super) fn merge(base: &mut Value, overlay: &Value, schema: &PodSchema) -> Result<(), PodTemplateError> {
    Merge { schema }.value(base, overlay, &PodSchema::root(), "")
}

/// Values of `$patch`.
#[derive(PartialEq)]
enum Directive {
    Merge,
    Replace,
    Delete,
}

impl Directive {
    fn read(overlay: &Value, path: &str) -> Result<Self, PodTemplateError> {
        match overlay.get(PATCH).map(Value::as_str) {
            None | Some(Some("merge")) => Ok(Self::Merge),
            Some(Some("replace")) => Ok(Self::Replace),
            Some(Some("delete")) => Ok(Self::Delete),
            Some(_) => Err(PodTemplateError::Directive { path: format!("{path}.{PATCH}") }),
        }
    }
}

struct Merge<'a> {
    schema: &'a PodSchema,
}

impl Merge<'_> {
    fn value(
        &self,
        base: &mut Value,
        overlay: &Value,
        shape: &Shape,
        path: &str,
    ) -> Result<(), PodTemplateError> {
        match overlay {
            Value::Object(fields) => {
                if Directive::read(overlay, path)? != Directive::Merge || !base.is_object() {
                    *base = Value::Object(Map::new());
                }
                match base {
                    Value::Object(base) => self.object(base, fields, shape, path),
                    _ => Ok(()),
                }
            }
            Value::Array(entries) => {
                let of = if let Shape::List(of) = shape { of.as_ref() } else { &Shape::Any };
                let mut list = Vec::with_capacity(entries.len());
                for (index, entry) in entries.iter().enumerate() {
                    list.push(self.fresh(entry, of, &format!("{path}[{index}]"))?);
                }
                *base = Value::Array(list);
                Ok(())
            }
            scalar => {
                *base = scalar.clone();
                Ok(())
            }
        }
    }

    /// Returns a value of the patch as it is where nothing was before.
    fn fresh(&self, overlay: &Value, shape: &Shape, path: &str) -> Result<Value, PodTemplateError> {
        let mut value = Value::Null;
        self.value(&mut value, overlay, shape, path)?;
        Ok(value)
    }

    fn object(
        &self,
        base: &mut Map<String, Value>,
        overlay: &Map<String, Value>,
        shape: &Shape,
        path: &str,
    ) -> Result<(), PodTemplateError> {
        if let Some(retained) = overlay.get(RETAIN_KEYS) {
            let bad = || PodTemplateError::Directive { path: format!("{path}.{RETAIN_KEYS}") };
            let retained = retained.as_array().ok_or_else(bad)?;
            base.retain(|name, _| retained.iter().any(|retained| retained == name));
        }
        let of_map = match shape {
            Shape::Map(of) => Field { shape: of.as_ref().clone(), ..Field::default() },
            _ => Field::default(),
        };
        for (name, value) in overlay {
            if [PATCH, RETAIN_KEYS].contains(&name.as_str()) {
                continue;
            }
            let path = format!("{path}.{name}");
            let fields = if let Shape::Type(of) = shape { self.schema.fields(of) } else { None };
            let field = match fields.map(|fields| fields.get(name)) {
                None => &of_map,
                Some(Some(field)) => field,
                // Templating leaves an empty value under an unknown name; it is accepted.
                Some(None) if is_nothing(value) => continue,
                Some(None) => return Err(PodTemplateError::Unknown { path }),
            };
            match (value, &field.merge_key) {
                (Value::Null, _) => {
                    base.shift_remove(name);
                }
                (Value::Array(entries), Some(key)) if field.merges => {
                    let list = base.entry(name.clone()).or_insert(Value::Null);
                    self.list(list, entries, key, field, &path)?;
                }
                (Value::Array(entries), None) if field.merges => {
                    add(base.entry(name.clone()).or_insert(Value::Null), entries);
                }
                _ => {
                    self.value(base.entry(name.clone()).or_insert(Value::Null), value, &field.shape, &path)?;
                }
            }
        }
        Ok(())
    }

    /// Merges a list whose entries are told apart by `key`.
    fn list(
        &self,
        base: &mut Value,
        entries: &[Value],
        key: &str,
        field: &Field,
        path: &str,
    ) -> Result<(), PodTemplateError> {
        let of = if let Shape::List(of) = &field.shape { of.as_ref() } else { &Shape::Any };
        let mut list = match base.take() {
            Value::Array(list) => list,
            _ => Vec::new(),
        };
        let mut patches = Vec::with_capacity(entries.len());
        for (index, entry) in entries.iter().enumerate() {
            let path = format!("{path}[{index}]");
            match Directive::read(entry, &path)? {
                // An entry of its own that stands for the whole list.
                Directive::Replace => list.clear(),
                directive => patches.push((entry, directive, path)),
            }
        }
        for (entry, directive, path) in patches {
            let Some(id) = entry.get(key) else {
                return Err(PodTemplateError::Key { path, key: key.to_owned() });
            };
            if directive == Directive::Delete {
                list.retain(|existing| existing.get(key) != Some(id));
                continue;
            }
            match list.iter_mut().find(|existing| existing.get(key) == Some(id)) {
                Some(existing) => {
                    if field.retains_keys {
                        retain_named(existing, entry, key);
                    }
                    self.value(existing, entry, of, &path)?;
                }
                None => list.push(self.fresh(entry, of, &path)?),
            }
        }
        *base = Value::Array(list);
        Ok(())
    }
}

/// Drops the fields of an entry that the patch does not name; an entry that names nothing but itself changes
/// nothing.
fn retain_named(existing: &mut Value, overlay: &Value, key: &str) {
    let (Some(existing), Some(overlay)) = (existing.as_object_mut(), overlay.as_object()) else { return };
    if overlay.keys().any(|name| name != key && !name.starts_with('$')) {
        existing.retain(|name, _| overlay.contains_key(name));
    }
}

/// Adds the values that a list of scalars lacks.
fn add(base: &mut Value, values: &[Value]) {
    let mut list = match base.take() {
        Value::Array(list) => list,
        _ => Vec::new(),
    };
    for value in values {
        if !list.contains(value) {
            list.push(value.clone());
        }
    }
    *base = Value::Array(list);
}
