//! Properties: the policy's view of arguments and the backend's agree, for random JSON and random paths.
//! `VMCP_PROPERTY_RUNS=1000000` sets the number of runs of each property.

use cedar_policy::{Context, EvalResult};

use super::super::{evaluation, values};
use super::*;
use crate::exact_json;

const RUNS: u64 = 3_000;

fn runs() -> u64 {
    std::env::var("VMCP_PROPERTY_RUNS").ok().and_then(|runs| runs.parse().ok()).unwrap_or(RUNS)
}

/// A value as it was generated: the truth that policy and backend are compared to.
#[derive(Debug)]
enum Truth {
    Null,
    Flag(bool),
    /// Mantissa and exponent.
    Number(i128, i32),
    Text(String),
    List(Vec<Truth>),
    Object(Vec<(String, Truth)>),
}

fn truth(random: &mut fastrand::Rng, depth: usize) -> Truth {
    let kinds = if depth > 3 { 5 } else { 8 };
    match random.u8(0..kinds) {
        0 if random.bool() => Truth::Null,
        0 | 1 => Truth::Flag(random.bool()),
        2 | 3 => {
            let digits = random.u32(0..22);
            let mantissa = i128::from(random.u64(..)) * i128::from(random.u32(1..99)) % 10_i128.pow(digits);
            Truth::Number(if random.bool() { -mantissa } else { mantissa }, random.i32(-8..8))
        }
        4 => Truth::Text(
            (0..random.usize(0..6))
                .map(|_| random.choice(['a', '"', '\\', 'é', '\u{7}', '"', '\u{1F600}', ' ']).unwrap())
                .collect(),
        ),
        5 | 6 => Truth::List((0..random.usize(0..4)).map(|_| truth(random, depth + 1)).collect()),
        _ => {
            let mut entries: Vec<(String, Truth)> = Vec::new();
            for key in ["a", "b", "x_text", "é", "x"] {
                if random.bool() {
                    entries.push((key.to_owned(), truth(random, depth + 1)));
                }
            }
            Truth::Object(entries)
        }
    }
}

/// Writes a value, in one of its spellings.
fn write(random: &mut fastrand::Rng, truth: &Truth) -> String {
    let space = [" ", "", "\n\t", ""][random.usize(0..4)];
    match truth {
        Truth::Null => "null".to_owned(),
        Truth::Flag(flag) => flag.to_string(),
        Truth::Number(mantissa, exponent) => match random.u8(0..3) {
            0 => format!("{mantissa}e{exponent}"),
            1 => format!("{mantissa}.00E{exponent:+}"),
            _ if *exponent >= 0 => format!(
                "{mantissa}{}",
                if *mantissa == 0 { String::new() } else { "0".repeat(exponent.unsigned_abs() as usize) }
            ),
            _ => format!("{mantissa}e{exponent}"),
        },
        Truth::Text(text) if random.bool() => {
            let escaped: Vec<_> = text.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect();
            let escaped = escaped.concat();
            format!("\"{escaped}\"")
        }
        Truth::Text(text) => Value::from(text.as_str()).to_string(),
        Truth::List(items) => {
            let items: Vec<_> = items.iter().map(|item| write(random, item)).collect();
            format!("[{space}{}{space}]", items.join(&format!("{space},")))
        }
        Truth::Object(entries) => {
            let entries: Vec<_> = entries
                .iter()
                .map(|(name, value)| {
                    format!("{}{space}:{space}{}", Value::from(name.as_str()), write(random, value))
                })
                .collect();
            format!("{{{}{space}}}", entries.join(","))
        }
    }
}

/// Ten-thousandths of a number; `None` if that is not whole, or beyond 64 bits.
fn units(mantissa: i128, exponent: i32) -> Option<i64> {
    let power = 10_i128.pow((exponent + 4).unsigned_abs());
    let units = if exponent + 4 >= 0 {
        mantissa * power
    } else if mantissa % power == 0 {
        mantissa / power
    } else {
        return None;
    };
    i64::try_from(units).ok()
}

/// True if Cedar can hold the value.
fn fits(truth: &Truth) -> bool {
    match truth {
        Truth::Null => false,
        Truth::Flag(_) | Truth::Text(_) => true,
        Truth::Number(mantissa, exponent) => units(*mantissa, *exponent).is_some(),
        Truth::List(items) => items.iter().all(fits),
        Truth::Object(entries) => entries.iter().all(|(_, value)| fits(value)),
    }
}

/// True if the policy's value is the generated one.
fn is_same(seen: &EvalResult, truth: &Truth) -> bool {
    match (seen, truth) {
        (EvalResult::Bool(seen), Truth::Flag(flag)) => seen == flag,
        (EvalResult::String(seen), Truth::Text(text)) => seen == text,
        (EvalResult::ExtensionValue(seen), Truth::Number(mantissa, exponent)) => {
            let digits: String = seen.chars().filter(|char| char.is_ascii_digit() || *char == '-').collect();
            digits.parse::<i64>().ok() == units(*mantissa, *exponent)
        }
        (EvalResult::Set(seen), Truth::List(items)) => {
            items.iter().all(|item| seen.iter().any(|seen| is_same(seen, item)))
                && seen.iter().all(|seen| items.iter().any(|item| is_same(seen, item)))
        }
        (EvalResult::Record(seen), Truth::Object(entries)) => {
            entries.iter().all(|(name, value)| seen.get(name).is_some_and(|seen| is_same(seen, value)))
                && seen.iter().count() == entries.len()
        }
        _ => false,
    }
}

#[test]
fn for_random_json_a_policy_sees_the_value_that_was_sent_or_the_call_is_denied() {
    let policy = policy(&[
        "permit(principal, action, resource) when { context has arg_x && context.arguments has x };",
    ]);
    let mut random = fastrand::Rng::with_seed(27);
    let (mut seen, mut refused) = (0, 0);
    for run in 0..runs() {
        let truth = truth(&mut random, 0);
        let text = format!("{{\"y\":1,\"x\":{}}}", write(&mut random, &truth));
        let arguments = exact_json::object(&text).unwrap_or_else(|| panic!("run {run}: {text}"));
        match values::arguments(&arguments, &policy.reads) {
            Ok(arguments) => {
                seen += 1;
                let context = evaluation::context(&policy.subject(&Identity::Anonymous), &arguments).unwrap();
                let flat = Context::get(&context, "arg_x").unwrap();
                assert!(is_same(&flat, &truth), "run {run}: {text} was seen as {flat:?}");
                let EvalResult::Record(record) = context.get("arguments").unwrap() else { panic!("{text}") };
                assert!(is_same(record.get("x").unwrap(), &truth), "run {run}: {text}");
            }
            Err(unreadable) => {
                refused += 1;
                assert!(!fits(&truth), "run {run}: {text} was refused: {unreadable}");
            }
        }
    }
    assert!(seen > 0 && refused > 0, "{seen} {refused}");
}

/// Servers that find a file by a path, in their different ways: segments behind the root.
fn resolvers() -> [fn(&str) -> Vec<String>; 4] {
    fn resolve(path: &str, keep_empty: bool) -> Vec<String> {
        let mut kept: Vec<String> = Vec::new();
        for segment in path.split('/').skip(1) {
            match segment {
                "." => {}
                "" if !keep_empty => {}
                ".." => _ = kept.pop(),
                other => kept.push(other.to_owned()),
            }
        }
        kept
    }
    fn decode(path: &str) -> String {
        let mut text = path.to_owned();
        for _ in 0..3 {
            text = ["%2e", "%2E", "%2f", "%5c", "%25"]
                .iter()
                .zip([".", ".", "/", "\\", "%"])
                .fold(text, |text, (from, to)| text.replace(from, to));
        }
        text
    }
    [
        |path| resolve(path, false),
        |path| resolve(path, true),
        |path| resolve(&decode(path), false),
        |path| resolve(&decode(path).replace('\\', "/"), false),
    ]
}

#[test]
fn for_random_paths_no_server_finds_a_file_that_a_policy_did_not_judge() {
    let permits = policy(&[
        r#"permit(principal, action == Action::"call_tool", resource) when { context.arg_path like "/pub/*" };"#,
        r#"permit(principal, action == Action::"read_resource", resource) when { resource.uri like "file:///pub/*" };"#,
    ]);
    let forbids = policy(&[
        "permit(principal, action, resource);",
        r#"forbid(principal, action == Action::"call_tool", resource) when { context has arg_path && context.arg_path like "/priv/*" };"#,
        r#"forbid(principal, action == Action::"read_resource", resource) when { resource has uri && resource.uri like "file:///priv/*" };"#,
    ]);
    let who = identity("a", json!({}));
    let pieces = [
        "pub",
        "priv",
        "x",
        "..",
        ".",
        "",
        "%2e%2e",
        "%2E.",
        "..%2f..",
        "..\\..",
        "%252e%252e",
        "priv%2fx",
        "..%5c",
    ];
    let mut random = fastrand::Rng::with_seed(29);
    let mut permitted = 0;
    for run in 0..runs() {
        let path: String =
            (0..random.usize(1..6)).flat_map(|_| ["/", random.choice(pieces).unwrap()]).collect();
        let path = if random.bool() { format!("/pub{path}") } else { path };
        let found: Vec<Vec<String>> = resolvers().iter().map(|resolve| resolve(&path)).collect();
        let arguments = json!({ "path": path }).to_string();
        let uri = format!("file://{path}");
        let resource =
            Question { kind: Kind::Resource, name: &uri, backend: Some("fs"), ..Question::default() };
        for question in [tool("fs_read", Some(&arguments)), resource] {
            let allows = |policy: &CedarPolicy| policy.decide(&policy.subject(&who), &question).allowed;
            if allows(&permits) {
                permitted += 1;
                let outside = found
                    .iter()
                    .any(|found| found.iter().find(|it| !it.is_empty()).is_none_or(|first| first != "pub"));
                assert!(!outside, "run {run}: {path} is found as {found:?}");
            }
            if allows(&forbids) {
                let inside = found
                    .iter()
                    .any(|found| found.len() > 1 && found.first().is_some_and(|first| first == "priv"));
                assert!(!inside, "run {run}: {path} is found as {found:?}");
            }
        }
    }
    assert!(permitted > 0);
}
