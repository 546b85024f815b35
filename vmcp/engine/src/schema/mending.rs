//! Mends arguments whose types a model got wrong: numbers, booleans, lists and objects sent as text, `null`
//! for "no value", one value for a list.
//!
//! The validator leads: its errors name the place, the types it wants there and the branches of a union, so
//! that references, `allOf`, `additionalProperties`, `patternProperties`, tuples and conditions need no walk
//! of their own. A branch of a union that fits without mending gives no error and therefore wins. Each round
//! mends one level, such as a list that was text and then the items in it.

mod conversion;

use jsonschema::error::{TypeKind, ValidationErrorKind};
use jsonschema::{JsonType, ValidationError, Validator};
use serde_json::Value;

use conversion::{Wrapping, converted, listed_value};

/// Most rounds of validation and mending: levels of text within text.
const MAX_ROUNDS: usize = 12;
/// Most errors that one round mends; further ones wait for the next round.
const MAX_ERRORS: usize = 64;
/// Most branches of a union that are looked at, and most errors in one of them.
const MAX_BRANCHES: usize = 32;
/// Deepest union within a union that is looked at.
const MAX_UNION_DEPTH: usize = 8;
/// Most validations of one mending, tried branches of unions included; costly ones are fewer.
pub(super) const MAX_VALIDATIONS: usize = 48;
/// Most numbers of an instance that are looked at for a needless fraction, as in `3.0`.
const MAX_WHOLE_FLOATS: usize = 64;

/// The end of a mending.
pub(super) struct Mended {
    /// The arguments as far as they could be mended.
    pub(super) value: Value,
    /// Their fit.
    pub(super) fit: Fit,
}

/// Fit of mended arguments to their schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fit {
    /// They fit.
    Whole,
    /// Scalars of another type than the schema's are left; servers convert more of them than a schema says.
    ScalarsLeft,
    /// Something else does not fit.
    No,
}

/// A change of one value: to another one, or its removal from its object.
#[derive(Clone)]
struct Change {
    /// JSON pointer.
    place: String,
    /// The new value; `None` removes the property.
    value: Option<Value>,
}

/// Mends `written` for a schema, with at most this many validations. `may_hold` says if the work of
/// validating a value is bounded: text that becomes a list or an object makes an instance larger.
pub(super) fn mend(
    validator: &Validator,
    written: &Value,
    validations: usize,
    may_hold: impl Fn(&Value) -> bool,
) -> Mended {
    let mut mender = Mender { validator, validations_left: validations };
    let mut value = written.clone();
    for _ in 0..MAX_ROUNDS {
        let Some(changes) = mender.round(&value) else { break };
        let mut next = value.clone();
        let is_other = changes.into_iter().fold(false, |so_far, change| change.apply(&mut next) | so_far);
        if !is_other || !may_hold(&next) {
            break;
        }
        value = next;
    }
    let fit = mender.fit(&value);
    if fit != Fit::No {
        mender.drop_fractions(&mut value);
    }
    Mended { value, fit }
}

/// True if an instance has a number such as `3.0`: validators take it for an integer, and some servers do
/// not.
pub(super) fn has_whole_float(value: &Value) -> bool {
    match value {
        Value::Number(_) => whole(value).is_some(),
        Value::Array(items) => items.iter().any(has_whole_float),
        Value::Object(entries) => entries.values().any(has_whole_float),
        Value::Null | Value::Bool(_) | Value::String(_) => false,
    }
}

/// Returns the integer that a number with a needless fraction stands for.
fn whole(value: &Value) -> Option<i64> {
    value.as_f64().filter(|_| value.is_f64()).and_then(conversion::integer)
}

struct Mender<'a> {
    validator: &'a Validator,
    validations_left: usize,
}

impl Mender<'_> {
    /// Counts a validation; false if none is left.
    fn may_validate(&mut self) -> bool {
        let left = self.validations_left.checked_sub(1);
        self.validations_left = left.unwrap_or_default();
        left.is_some()
    }

    /// Returns the changes that the errors of a value suggest; `None` without errors.
    fn round(&mut self, value: &Value) -> Option<Vec<Change>> {
        if !self.may_validate() {
            return None;
        }
        let errors: Vec<_> = self.validator.iter_errors(value).take(MAX_ERRORS).collect();
        let mut changes: Vec<Change> = Vec::new();
        for error in &errors {
            let new = self.changes_of(error, value).unwrap_or_default();
            // Of two changes of one place, such as by two members of `allOf`, the first counts.
            changes.extend(
                new.into_iter()
                    .filter(|new| changes.iter().all(|old| old.place != new.place))
                    .collect::<Vec<_>>(),
            );
        }
        Some(changes).filter(|changes| !changes.is_empty())
    }

    /// Returns the changes for one error. Of the branches of a union that can be mended, the one after which
    /// the fewest errors are left is chosen.
    fn changes_of(&mut self, error: &ValidationError<'_>, root: &Value) -> Option<Vec<Change>> {
        let (ValidationErrorKind::AnyOf { context } | ValidationErrorKind::OneOfNotValid { context }) =
            error.kind()
        else {
            return changes_of(error, Wrapping::Allowed, 0);
        };
        let mut best: Option<(usize, Vec<Change>)> = None;
        for wrapping in [Wrapping::Forbidden, Wrapping::Allowed] {
            let mut candidates = branches(context, wrapping, 0).collect::<Vec<_>>();
            if candidates.len() == 1 && best.is_none() {
                return candidates.pop();
            }
            for candidate in candidates {
                let Some(left) = self.errors_after(&candidate, root) else { break };
                if best.as_ref().is_none_or(|(fewest, _)| left < *fewest) {
                    best = Some((left, candidate));
                }
            }
            if best.is_some() {
                break;
            }
        }
        best.map(|(_, changes)| changes).or_else(|| removal(error))
    }

    /// Returns the number of errors after changes.
    fn errors_after(&mut self, changes: &[Change], root: &Value) -> Option<usize> {
        if !self.may_validate() {
            return None;
        }
        let mut tried = root.clone();
        for change in changes {
            change.clone().apply(&mut tried);
        }
        Some(self.validator.iter_errors(&tried).take(MAX_ERRORS).count())
    }

    fn fit(&self, value: &Value) -> Fit {
        if self.validator.is_valid(value) {
            return Fit::Whole;
        }
        let mut errors = self.validator.iter_errors(value).take(MAX_ERRORS + 1);
        let are_scalars = errors.by_ref().take(MAX_ERRORS).all(|error| is_scalar_type_error(&error));
        if are_scalars && errors.next().is_none() { Fit::ScalarsLeft } else { Fit::No }
    }

    /// Writes `3.0` as `3` where the schema wants an integer: there it refuses `3.5`, the probe.
    fn drop_fractions(&mut self, value: &mut Value) {
        let mut places = Vec::new();
        whole_floats(value, &mut String::new(), &mut places);
        if places.is_empty() || places.len() > MAX_WHOLE_FLOATS || !self.may_validate() {
            return;
        }
        let mut probe = value.clone();
        for place in &places {
            if let Some(number) = probe.pointer_mut(place) {
                *number = number.as_f64().map(|number| number + 0.5).into();
            }
        }
        let mut integers = Vec::new();
        for error in self.validator.iter_errors(&probe).take(MAX_ERRORS) {
            integer_places(&error, 0, &mut integers);
        }
        for place in places.iter().filter(|place| integers.contains(place)) {
            if let Some(number) = value.pointer_mut(place)
                && let Some(integer) = whole(number)
            {
                *number = integer.into();
            }
        }
    }
}

impl Change {
    /// Makes the change; false if its place has gone or nothing can be removed there.
    fn apply(self, root: &mut Value) -> bool {
        if let Some(new) = self.value {
            return root.pointer_mut(&self.place).is_some_and(|old| {
                let is_other = *old != new;
                *old = new;
                is_other
            });
        }
        let Some((parent, name)) = self.place.rsplit_once('/') else { return false };
        let name = name.replace("~1", "/").replace("~0", "~");
        let parent = root.pointer_mut(parent).and_then(Value::as_object_mut);
        // `shift_remove` keeps the order of the other properties.
        parent.is_some_and(|object| object.shift_remove(&name).is_some())
    }
}

/// Returns the changes for an error that may be one of a branch; of unions within, the first branch counts.
fn changes_of(error: &ValidationError<'_>, wrapping: Wrapping, depth: usize) -> Option<Vec<Change>> {
    let value = error.instance().as_ref();
    let set =
        |new: Value| vec![Change { place: error.instance_path().as_str().to_owned(), value: Some(new) }];
    let changes = match error.kind() {
        ValidationErrorKind::Type { kind } => {
            converted(value, &|wanted| wants(kind, wanted), wrapping).map(set)
        }
        ValidationErrorKind::Enum { options } => {
            options.as_array().and_then(|options| listed_value(value, options)).map(set)
        }
        ValidationErrorKind::Constant { expected_value } => {
            listed_value(value, std::slice::from_ref(expected_value)).map(set)
        }
        ValidationErrorKind::AnyOf { context } | ValidationErrorKind::OneOfNotValid { context } => {
            branches(context, wrapping, depth + 1).next()
        }
        ValidationErrorKind::AdditionalProperties { unexpected }
        | ValidationErrorKind::UnevaluatedProperties { unexpected } => nulls_among(error, unexpected),
        _ => None,
    };
    changes.or_else(|| removal(error))
}

/// Yields the changes of each branch of a union of which every error can be mended.
fn branches<'a>(
    context: &'a [Vec<ValidationError<'static>>],
    wrapping: Wrapping,
    depth: usize,
) -> impl Iterator<Item = Vec<Change>> + 'a {
    let mendable = move |errors: &'a Vec<ValidationError<'static>>| {
        if errors.is_empty() || errors.len() > MAX_BRANCHES || depth > MAX_UNION_DEPTH {
            return None;
        }
        let changes: Option<Vec<_>> = errors.iter().map(|error| changes_of(error, wrapping, depth)).collect();
        Some(changes?.into_iter().flatten().collect())
    };
    context.iter().take(MAX_BRANCHES).filter_map(mendable)
}

/// Returns the removal of a property whose value says nothing: `null`, or an empty text where no text is
/// wanted. A property that is required is missed by the next round, whose error names it.
fn removal(error: &ValidationError<'_>) -> Option<Vec<Change>> {
    let says_nothing = match error.instance().as_ref() {
        Value::Null => true,
        Value::String(text) => text.trim().is_empty() && wants_no_text(error, 0),
        _ => false,
    };
    let place = error.instance_path().as_str();
    (says_nothing && !place.is_empty()).then(|| vec![Change { place: place.to_owned(), value: None }])
}

/// Returns the removal of unexpected properties, if all of them are `null`.
fn nulls_among(error: &ValidationError<'_>, unexpected: &[String]) -> Option<Vec<Change>> {
    let place = error.instance_path().as_str();
    let removal = |name: &String| {
        error.instance().get(name).filter(|value| value.is_null())?;
        let name = name.replace('~', "~0").replace('/', "~1");
        Some(Change { place: format!("{place}/{name}"), value: None })
    };
    unexpected.iter().map(removal).collect()
}

fn wants(kind: &TypeKind, wanted: JsonType) -> bool {
    match kind {
        TypeKind::Single(only) => *only == wanted,
        TypeKind::Multiple(several) => several.contains(wanted),
    }
}

/// True if an error is about the type of its own instance, in each branch of a union too, and no branch
/// takes text.
fn wants_no_text(error: &ValidationError<'_>, depth: usize) -> bool {
    match error.kind() {
        ValidationErrorKind::Type { .. } => true,
        ValidationErrorKind::AnyOf { context } | ValidationErrorKind::OneOfNotValid { context } => {
            depth <= MAX_UNION_DEPTH
                && context.iter().take(MAX_BRANCHES).flatten().all(|error| wants_no_text(error, depth + 1))
        }
        _ => false,
    }
}

/// True if an error says no more than that a scalar has another type, in each branch of a union too. `null`
/// and whole lists or objects in a scalar's place are for the model to correct.
fn is_scalar_type_error(error: &ValidationError<'_>) -> bool {
    let instance = error.instance();
    (instance.is_string() || instance.is_number() || instance.is_boolean()) && wants_no_text(error, 0)
}

/// Collects the places of whole floats.
fn whole_floats(value: &Value, place: &mut String, found: &mut Vec<String>) {
    let length = place.len();
    let mut below = |name: &str, value: &Value| {
        if found.len() <= MAX_WHOLE_FLOATS {
            place.push('/');
            place.push_str(name);
            whole_floats(value, place, found);
            place.truncate(length);
        }
    };
    match value {
        Value::Array(items) => items.iter().enumerate().for_each(|(at, item)| below(&at.to_string(), item)),
        Value::Object(entries) => {
            entries
                .iter()
                .for_each(|(name, value)| below(&name.replace('~', "~0").replace('/', "~1"), value));
        }
        Value::Number(_) if whole(value).is_some() => found.push(place.clone()),
        _ => {}
    }
}

/// Collects the places at which an error, or one of a union's branches, wants an integer.
fn integer_places(error: &ValidationError<'_>, depth: usize, found: &mut Vec<String>) {
    match error.kind() {
        ValidationErrorKind::Type { kind } if wants(kind, JsonType::Integer) => {
            found.push(error.instance_path().as_str().to_owned());
        }
        ValidationErrorKind::AnyOf { context } | ValidationErrorKind::OneOfNotValid { context }
            if depth <= MAX_UNION_DEPTH =>
        {
            let errors = context.iter().take(MAX_BRANCHES).flatten().take(MAX_ERRORS);
            errors.for_each(|error| integer_places(error, depth + 1, found));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests;
