//! Tables as text: a header, and records of as many fields, apart by commas, tabs, semicolons or bars and
//! quoted as in RFC 4180. A text is a table as a whole or not at all: prose with commas keeps its lines.

use std::borrow::Cow;
use std::collections::HashSet;

use serde_json::value::RawValue;

use crate::json::{self, Kind, quoted};

/// Separators that are tried.
const SEPARATORS: [char; 4] = [',', '\t', ';', '|'];
/// Longest name of a column, in characters.
const MAX_NAME_CHARS: usize = 64;
/// Most fields of a record; a text with a longer record stays a text.
const MAX_FIELDS: usize = 2_000;

/// A table as text.
pub(crate) struct Delimited<'a> {
    /// Names of the header.
    pub(crate) names: Vec<String>,
    pub(crate) records: Records<'a>,
    /// Number of the records.
    pub(crate) count: usize,
}

impl<'a> Delimited<'a> {
    /// Reads a table; `None` for any other text.
    pub(crate) fn of(text: &'a str) -> Option<Delimited<'a>> {
        SEPARATORS.into_iter().find_map(|separator| Delimited::separated(text, separator))
    }

    fn separated(text: &'a str, separator: char) -> Option<Delimited<'a>> {
        let mut records = Records { rest: text.strip_prefix('\u{feff}').unwrap_or(text), separator };
        let names: Vec<String> = records.next()?.ok()?.into_iter().map(Cow::into_owned).collect();
        let different: HashSet<String> = names.iter().map(|name| name.to_lowercase()).collect();
        // Two columns whose names have blanks are more often a line of prose than a header.
        let is_header = names.len() >= 2
            && different.len() == names.len()
            && names.iter().all(|name| is_name(name))
            && (names.len() > 2 || !names.iter().any(|name| name.contains(' ')));
        if !is_header {
            return None;
        }
        let mut count = 0;
        for record in records.clone() {
            let record = record.ok()?;
            // A value of the first line that comes again is a value, not a name.
            if record.len() != names.len() || record.iter().zip(&names).any(|(field, name)| field == name) {
                return None;
            }
            count += 1;
        }
        (count > 0).then_some(Delimited { names, records, count })
    }
}

fn is_name(name: &str) -> bool {
    let is_first = |c: char| c.is_alphabetic() || c == '_';
    let is_allowed = |c: char| c.is_alphanumeric() || " _-./()%#:".contains(c);
    name.starts_with(is_first)
        && name.chars().all(is_allowed)
        && name.chars().count() <= MAX_NAME_CHARS
        && name.trim() == name
}

/// Returns the value of a field: a number as JSON writes it, nothing, or a text.
pub(crate) fn value(field: &str) -> Box<RawValue> {
    plain(field).map_or_else(|| quoted(field), ToOwned::to_owned)
}

/// Returns the value of a field: a number, a boolean or null.
pub(crate) fn plain(field: &str) -> Option<&RawValue> {
    if field.is_empty() { Some(RawValue::NULL) } else { number(field) }
}

/// Returns a field that is a number. Codes are texts: a postal code with a zero in front, a
/// commit such as `12e4567`, and a whole number beyond 64 bits.
fn number(field: &str) -> Option<&RawValue> {
    if !field.starts_with(|c: char| c.is_ascii_digit() || c == '-') {
        return None;
    }
    let raw = json::parse(field)?;
    let text = raw.get();
    // Programs write a sign in an exponent, or a point before it.
    let is_code = text
        .split_once(['e', 'E'])
        .is_some_and(|(digits, exponent)| !digits.contains('.') && !exponent.starts_with(['+', '-']));
    let is_number = match json::kind(raw) {
        Kind::Integer => text.parse::<i64>().is_ok(),
        Kind::Number => !is_code && text.parse::<f64>().is_ok_and(f64::is_finite),
        Kind::Null | Kind::Boolean | Kind::String | Kind::Array | Kind::Object => false,
    };
    is_number.then_some(raw)
}

/// Records of a text, from the place that is read.
#[derive(Clone)]
pub(crate) struct Records<'a> {
    rest: &'a str,
    separator: char,
}

/// A quoted field that does not end, or is followed by more text; more fields than [`MAX_FIELDS`].
#[derive(Debug)]
pub(crate) struct Malformed;

impl<'a> Iterator for Records<'a> {
    type Item = Result<Vec<Cow<'a, str>>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        self.rest = self.rest.trim_start_matches(['\r', '\n']);
        if self.rest.is_empty() {
            return None;
        }
        let mut fields = Vec::new();
        loop {
            let field = if fields.len() < MAX_FIELDS { self.field() } else { None };
            let Some((field, is_last)) = field else {
                self.rest = "";
                return Some(Err(Malformed));
            };
            fields.push(field);
            if is_last {
                return Some(Ok(fields));
            }
        }
    }
}

impl<'a> Records<'a> {
    /// Reads a field. Returns it, and true if it is the last one of its record.
    fn field(&mut self) -> Option<(Cow<'a, str>, bool)> {
        let Some(mut rest) = self.rest.strip_prefix('"') else {
            let end = self.rest.find([self.separator, '\r', '\n']).unwrap_or(self.rest.len());
            let (field, rest) = self.rest.split_at_checked(end)?;
            return Some((Cow::Borrowed(field), self.go_on(rest)?));
        };
        let mut field = String::new();
        loop {
            let (part, after) = rest.split_once('"')?;
            field.push_str(part);
            match after.strip_prefix('"') {
                Some(more) => {
                    field.push('"');
                    rest = more;
                }
                None => return Some((Cow::Owned(field), self.go_on(after)?)),
            }
        }
    }

    /// Goes on behind a field. Returns true at the end of the record; `None` at any other text.
    fn go_on(&mut self, rest: &'a str) -> Option<bool> {
        let next = rest.strip_prefix(self.separator);
        self.rest = next.unwrap_or(rest);
        let is_end = rest.is_empty() || rest.starts_with(['\r', '\n']);
        (next.is_some() || is_end).then_some(is_end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(text: &str) -> Option<(Vec<String>, Vec<Vec<String>>)> {
        let Delimited { names, records, count } = Delimited::of(text)?;
        let values = |record: Vec<Cow<'_, str>>| -> Vec<String> {
            record.iter().map(|field| value(field).get().to_owned()).collect()
        };
        let records: Vec<Vec<String>> = records.map(|record| values(record.unwrap())).collect();
        assert_eq!(records.len(), count);
        Some((names, records))
    }

    #[test]
    fn tables_are_read_with_each_separator_and_with_quotes() {
        for text in [
            "id,name\n1,a\n2,\n",
            "id\tname\r\n1\ta\r\n2\t\r\n",
            "\u{feff}id;name\n\n1;a\n2;",
            "id|name\n1|a\n2|",
        ] {
            let (names, records) = table(text).unwrap();
            assert_eq!(names, ["id", "name"], "{text:?}");
            assert_eq!(records, [["1", "\"a\""], ["2", "null"]], "{text:?}");
        }
        let text = "\"Order Date\",zip,note\n2024-01-02,00501,\"a, \"\"b\"\"\nc\"\n";
        let (names, records) = table(text).unwrap();
        assert_eq!(names, ["Order Date", "zip", "note"]);
        assert_eq!(records, [["\"2024-01-02\"", "\"00501\"", r#""a, \"b\"\nc""#]]);
    }

    #[test]
    fn numbers_are_those_that_programs_write_and_codes_stay_texts() {
        let text = "id,n\n12e4567,1e+06\n5e10293,2.5E3\n1E5,1e-7\n-3e2,1.5e+999\n1,98765432109876543210\n";
        let (_, records) = table(text).unwrap();
        let expected = [
            ["\"12e4567\"", "1e+06"],
            ["\"5e10293\"", "2.5E3"],
            ["\"1E5\"", "1e-7"],
            ["\"-3e2\"", "\"1.5e+999\""],
            ["1", "\"98765432109876543210\""],
        ];
        assert_eq!(records, expected);
    }

    #[test]
    fn a_table_has_a_limit_of_columns() {
        let wide = |count: usize| {
            let names: Vec<_> = (0..count).map(|number| format!("c{number}")).collect();
            format!("{}\n{}", names.join(","), vec!["1"; count].join(","))
        };
        assert!(table(&wide(MAX_FIELDS)).is_some());
        assert!(table(&wide(MAX_FIELDS + 1)).is_none());
    }

    #[test]
    fn other_texts_are_no_tables() {
        for text in [
            "",
            "one line",
            "id,name",
            "Dear team, thanks\nBest, Ada",
            "ERROR,disk full\nWARN,memory low",
            "INFO,auth,in\nINFO,auth,out",
            "a,b\n1,2,3",
            "a,b\n1",
            "a,a\n1,2",
            "1,2\n3,4",
            "a,b\n\"1,2",
            "a,b\n\"1\"x,2",
            "{\"a\":1,\"b\":2}\n{\"a\":3,\"b\":4}",
            "| a | b |\n| 1 | 2 |",
            "\u{0}\u{1},b\n1,2",
        ] {
            assert!(table(text).is_none(), "{text:?}");
        }
    }

    #[test]
    fn no_text_makes_the_reader_panic() {
        let mut random = fastrand::Rng::with_seed(3);
        let alphabet: Vec<char> = "ab1,;\t|\"\"\r\n é-.".chars().collect();
        for _ in 0..100_000 {
            let length = random.usize(..16);
            let text: String = (0..length).filter_map(|_| random.choice(&alphabet)).collect();
            if let Some((names, records)) = table(&text) {
                assert!(records.iter().all(|record| record.len() == names.len()), "{text:?}");
            }
        }
    }
}
