//! JSON paths of RFC 9535 without filters: names, indexes, slices, wildcards, unions, one descendant segment.
//! Own code, because libraries evaluate a tree in memory and bound neither their work nor their matches;
//! here values stay text, and a budget ends a path that multiplies.

mod parse;

use serde_json::value::RawValue;

use crate::json;

pub(crate) use parse::quoted_name;
pub use parse::{MAX_PATH_CHARS, PathError};

/// Values that one path may visit; beyond it the path is an error.
const MAX_VISITED: usize = 1_000_000;
/// Bytes that one path may read, since each level reads its values again: 1 GiB.
const MAX_READ_BYTES: usize = 1 << 30;
/// Levels that `..` goes down.
const MAX_DEPTH: usize = 64;

/// A parsed path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Path(Vec<Segment>);

/// One step of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Segment {
    /// True for `..`: the selectors apply to the value and to all values within it.
    descends: bool,
    selectors: Vec<Selector>,
}

/// A choice of children.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Selector {
    Name(String),
    Index(i64),
    Slice { start: Option<i64>, end: Option<i64>, step: i64 },
    Wildcard,
}

/// A path that multiplies beyond what is read for one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the path visits more than {MAX_VISITED} values or {MAX_READ_BYTES} bytes; name a part of the result"
)]
pub struct TooMuch;

/// The work that is left to a path.
struct Budget {
    visits: usize,
    bytes: usize,
}

impl Budget {
    fn take(&mut self, raw: &RawValue) -> Result<(), TooMuch> {
        self.visits = self.visits.checked_sub(1).ok_or(TooMuch)?;
        self.bytes = self.bytes.checked_sub(raw.get().len()).ok_or(TooMuch)?;
        Ok(())
    }
}

impl Path {
    /// Parses a path such as `$.items[0].name`, `items[-10:]` or `$..id`. `$` may be left out.
    pub fn parse(text: &str) -> Result<Path, PathError> {
        parse::parse(text).map(Path)
    }

    /// True if the path leads to one value at most.
    pub(crate) fn is_singular(&self) -> bool {
        self.0.iter().all(|segment| {
            !segment.descends
                && matches!(segment.selectors.as_slice(), [Selector::Name(_) | Selector::Index(_)])
        })
    }

    /// Returns the values that the path leads to, in document order of each segment.
    pub(crate) fn find<'a>(&self, root: &'a RawValue) -> Result<Vec<&'a RawValue>, TooMuch> {
        let mut budget = Budget { visits: MAX_VISITED, bytes: MAX_READ_BYTES };
        let mut found = vec![root];
        for segment in &self.0 {
            let mut next = Vec::new();
            for value in found {
                if segment.descends {
                    segment.descend(value, 0, &mut next, &mut budget)?;
                } else {
                    segment.select(value, &mut next, &mut budget)?;
                }
            }
            found = next;
        }
        Ok(found)
    }
}

impl Segment {
    fn descend<'a>(
        &self,
        value: &'a RawValue,
        depth: usize,
        found: &mut Vec<&'a RawValue>,
        budget: &mut Budget,
    ) -> Result<(), TooMuch> {
        self.select(value, found, budget)?;
        if depth >= MAX_DEPTH {
            return Ok(());
        }
        for child in children(value, budget.visits) {
            self.descend(child, depth + 1, found, budget)?;
        }
        Ok(())
    }

    fn select<'a>(
        &self,
        value: &'a RawValue,
        found: &mut Vec<&'a RawValue>,
        budget: &mut Budget,
    ) -> Result<(), TooMuch> {
        budget.take(value)?;
        for selector in &self.selectors {
            for selected in selector.select(value, budget.visits) {
                budget.visits = budget.visits.checked_sub(1).ok_or(TooMuch)?;
                found.push(selected);
            }
        }
        Ok(())
    }
}

impl Selector {
    /// Selects children of a value: all, or at least one more than `most`.
    fn select<'a>(&self, value: &'a RawValue, most: usize) -> Vec<&'a RawValue> {
        match self {
            Selector::Name(name) => {
                // The last of equal keys counts, as for most readers.
                let mut found = None;
                json::each_entry(value, |key, value| {
                    found = Some(value).filter(|_| key == *name).or(found);
                    true
                });
                found.into_iter().collect()
            }
            Selector::Index(index) => {
                let place = json::length(value).and_then(|length| place(*index, length));
                place.and_then(|place| element(value, place)).into_iter().collect()
            }
            Selector::Slice { start, end, step } => slice(value, *start, *end, *step, most),
            Selector::Wildcard => children(value, most),
        }
    }
}

/// Returns the children of a value: all, or one more than `most`.
fn children(value: &RawValue, most: usize) -> Vec<&RawValue> {
    let mut found = Vec::new();
    json::each_item(value, |item| {
        found.push(item);
        found.len() <= most
    });
    json::each_entry(value, |_, value| {
        found.push(value);
        found.len() <= most
    });
    found
}

fn element(list: &RawValue, place: usize) -> Option<&RawValue> {
    let (mut found, mut position) = (None, 0);
    json::each_item(list, |item| {
        found = (position == place).then_some(item);
        position += 1;
        found.is_none()
    });
    found
}

/// Returns the position that an index means; a negative one counts from the end.
fn place(index: i64, length: usize) -> Option<usize> {
    let length = i64::try_from(length).ok()?;
    usize::try_from(if index < 0 { index.checked_add(length)? } else { index }).ok()
}

/// Slices as RFC 9535 (2.3.4) does; ends with one more element than `most`.
fn slice(list: &RawValue, start: Option<i64>, end: Option<i64>, step: i64, most: usize) -> Vec<&RawValue> {
    let length = json::length(list).and_then(|length| i64::try_from(length).ok()).unwrap_or(0);
    let normal = |index: i64| if index < 0 { index.saturating_add(length) } else { index };
    let (first, end) = if step > 0 {
        (normal(start.unwrap_or(0)).clamp(0, length), normal(end.unwrap_or(length)).clamp(0, length))
    } else {
        (
            start.map_or(length - 1, normal).clamp(-1, length - 1),
            end.map_or(-1, |end| normal(end).clamp(-1, length - 1)),
        )
    };
    let is_selected = |position: i64| match step {
        0 => false,
        1.. => position >= first && position < end && (position - first) % step == 0,
        _ => position <= first && position > end && (first - position) % step == 0,
    };
    let (mut sliced, mut position) = (Vec::new(), 0);
    json::each_item(list, |item| {
        if is_selected(position) {
            sliced.push(item);
        }
        position += 1;
        sliced.len() <= most
    });
    if step < 0 {
        sliced.reverse();
    }
    sliced
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(path: &str, text: &str) -> String {
        let found = Path::parse(path).unwrap().find(json::parse(text).unwrap()).unwrap();
        found.iter().map(|raw| raw.get()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn paths_lead_where_the_standard_says() {
        let text = r#"{"a":[0,1,2,3,4],"b":{"c d":{"id":1}},"e":[{"id":2},{"id":3,"x":{"id":4}}]}"#;
        for (path, found) in [
            ("$", text),
            ("a[1]", "1"),
            ("$.a[-1]", "4"),
            ("$.a[1:3]", "1 2"),
            ("$.a[::-2]", "4 2 0"),
            ("$.a[5:1:-1]", "4 3 2"),
            ("$.a[-2:]", "3 4"),
            ("$.a[0,-1]", "0 4"),
            ("$['b']['c d'].id", "1"),
            (r#"$.b["c d"]"#, r#"{"id":1}"#),
            ("$.e[*].id", "2 3"),
            ("$..id", "1 2 3 4"),
            ("$.e..id", "2 3 4"),
            ("$.a[9]", ""),
            ("$.a.nope", ""),
            ("$.a[::0]", ""),
            ("$.a[1::3]", "1 4"),
            ("$.a[3::-2]", "3 1"),
            ("$.b[0:1]", ""),
        ] {
            assert_eq!(find(path, text), found, "{path}");
        }
        let odd = r#"{"a\nb":1,"ü":2,"😀":3,"x'y":4,"":5,"c\\d\"":6,"a.b":7}"#;
        for (path, found) in [
            (r"$['a\nb']", "1"),
            (r"$['\u00fc']", "2"),
            (r"$['\ud83d\uDE00']", "3"),
            (r"$['x\'y']", "4"),
            ("$['']", "5"),
            (r#"$["c\\d\""]"#, "6"),
            ("$['a.b']", "7"),
        ] {
            assert_eq!(find(path, odd), found, "{path}");
        }
        assert!(Path::parse("$.a[0]['b']").unwrap().is_singular());
        assert!(!Path::parse("$.a[0:1]").unwrap().is_singular());
    }

    #[test]
    fn a_path_that_multiplies_ends_in_an_error() {
        let rows = format!("[{}]", vec!["[1,1,1,1,1,1,1,1,1,1]"; 2_000].join(","));
        let path = format!("$[{}][{}]", ["*"; 16].join(","), ["*"; 16].join(","));
        assert_eq!(Path::parse(&path).unwrap().find(json::parse(&rows).unwrap()).unwrap_err(), TooMuch);
        let long = format!("[{}1]", "1,".repeat(MAX_VISITED));
        for path in ["$[*]", "$[::-1]"] {
            assert_eq!(Path::parse(path).unwrap().find(json::parse(&long).unwrap()).unwrap_err(), TooMuch);
        }
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        let found = Path::parse("$..*").unwrap().find(json::parse(&deep).unwrap()).unwrap();
        assert_eq!(found.len(), MAX_DEPTH + 1);
    }
}
