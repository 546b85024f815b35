//! JSON as Go's `encoding/json` writes it: keys sorted, `<`, `>` and `&` escaped, numbers in its forms.

use std::fmt::Write as _;

use gotmpl::TemplateError;
use gotmpl::Value;

use super::{MAX_TEXT, too_large};

/// Encodes a value as `json.Marshal` does.
pub(super) fn encode(value: &Value) -> Result<String, TemplateError> {
    let mut out = String::new();
    write(value, &mut out)?;
    Ok(out)
}

fn write(value: &Value, out: &mut String) -> Result<(), TemplateError> {
    if out.len() > MAX_TEXT {
        return Err(TemplateError::Exec(too_large()));
    }
    match value {
        Value::Nil => out.push_str("null"),
        Value::Bool(is) => out.push_str(if *is { "true" } else { "false" }),
        Value::Int(whole) => {
            let _ = write!(out, "{whole}");
        }
        Value::Uint(whole) => {
            let _ = write!(out, "{whole}");
        }
        Value::Float(number) if number.is_finite() => write_float(*number, out),
        Value::Float(number) => {
            return Err(TemplateError::Exec(format!("json: unsupported value: {number}")));
        }
        Value::String(text) => write_text(text, out),
        Value::List(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write(item, out)?;
            }
            out.push(']');
        }
        Value::Map(entries) => {
            out.push('{');
            for (index, (key, value)) in entries.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write_text(key, out);
                out.push(':');
                write(value, out)?;
            }
            out.push('}');
        }
        Value::Function(_) => return Err(TemplateError::Exec("json: a function has no JSON".to_owned())),
    }
    Ok(())
}

/// Writes a number as ES6 does, which Go follows: an exponent below 1e-6 and from 1e21 on.
fn write_float(number: f64, out: &mut String) {
    let size = number.abs();
    let _ = if size != 0.0 && !(1e-6..1e21).contains(&size) {
        let text = format!("{number:e}");
        match text.split_once('e') {
            Some((digits, exponent)) if !exponent.starts_with('-') => write!(out, "{digits}e+{exponent}"),
            _ => write!(out, "{text}"),
        }
    } else {
        write!(out, "{number}")
    };
}

fn write_text(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\0'..='\x1f' | '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            _ => out.push(c),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_texts_are_written_as_go_does() {
        for (number, text) in [
            (1.5, "1.5"),
            (1e21, "1e+21"),
            (1e20, "100000000000000000000"),
            (1e-7, "1e-7"),
            (0.000_001, "0.000001"),
            (-2.5e30, "-2.5e+30"),
            (0.0, "0"),
        ] {
            assert_eq!(encode(&Value::Float(number)).unwrap(), text);
        }
        let text = Value::String("a<b>&\"\\\n\u{1}\u{2028}é".into());
        assert_eq!(encode(&text).unwrap(), r#""a\u003cb\u003e\u0026\"\\\n\u0001\u2028é""#);
        assert!(encode(&Value::Float(f64::NAN)).is_err());
    }
}
