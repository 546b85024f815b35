//! A result that is translated while it arrives becomes what the collected result becomes, however it is cut
//! into pieces; and both become what the editing translation makes of it.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use serde_json::value::RawValue;
use vmcp_json::byte_rope::ByteRope;
use vmcp_json::object::Object;
use vmcp_wire::era::Era;
use vmcp_wire::payload::{Key, Payload, Reply, Scanner, reply};
use vmcp_wire::rpc;
use vmcp_wire::translate::{self, ArrivalError, IncrementalResult, ResultPlan};

use crate::json;

const METHODS: [&str; 3] = ["tools/call", "resources/read", "prompts/get"];
const ERAS: [(Era, Era); 4] = [
    (Era::Legacy, Era::Legacy),
    (Era::Legacy, Era::Modern),
    (Era::Modern, Era::Legacy),
    (Era::Modern, Era::Modern),
];

/// Generates metadata: any of the keys that matter and others, in any order; or a value other than an object.
fn meta() -> impl Strategy<Value = String> {
    let keys = vec![
        "\"io.modelcontextprotocol/serverInfo\"",
        "\"io.modelcontextprotocol/subscriptionId\"",
        r#""io.modelcontextprotocol\/subscriptionId""#,
        "\"x\"",
        "\"\\u0079\"",
    ];
    let keys = subsequence(keys, 0..4).prop_shuffle();
    let object = keys.prop_flat_map(|keys| {
        let keys = if keys.iter().filter(|key| key.contains("subscriptionId")).count() > 1 {
            keys[..1].to_vec()
        } else {
            keys
        };
        object(keys.into_iter().map(|key| (key.to_owned(), json::value())).collect())
    });
    prop_oneof![4 => object, 1 => select(vec!["null", "[{}]", "7"]).prop_map(str::to_owned)]
}

/// Generates an object with these keys, as written, and any space between.
fn object(entries: Vec<(String, BoxedStrategy<String>)>) -> impl Strategy<Value = String> {
    let entries: Vec<_> = entries
        .into_iter()
        .map(|(key, value)| {
            (json::space(), json::space(), value, json::space()).prop_map(
                move |(before, inner, value, after)| format!("{before}{key}{inner}:{inner}{value}{after}"),
            )
        })
        .collect();
    (entries, json::space()).prop_map(|(entries, hollow)| {
        let hollow = if entries.is_empty() { hollow } else { String::new() };
        format!("{{{hollow}{}}}", entries.join(","))
    })
}

/// Generates a result with any of the keys that matter, in any order.
fn result() -> impl Strategy<Value = String> {
    let keys = vec![
        "resultType",
        "ttlMs",
        "cacheScope",
        "structuredContent",
        "isError",
        "_meta",
        "content",
        "é",
        "x-y",
    ];
    subsequence(keys, 0..9).prop_shuffle().prop_flat_map(|keys| {
        let entries = keys.into_iter().map(|key| {
            let value = match key {
                "resultType" => select(vec!["\"complete\"", "\"compl\\u0065te\"", "\"task\"", "7"])
                    .prop_map(str::to_owned)
                    .boxed(),
                "_meta" => meta().boxed(),
                _ => json::value(),
            };
            let written = if key == "ttlMs" { r"ttl\u004ds" } else { key };
            (format!("\"{written}\""), value)
        });
        object(entries.collect())
    })
}

fn scan(bytes: &[u8]) -> Payload {
    let mut scanner = Scanner::default();
    scanner.push(bytes).unwrap();
    let Ok(Reply::Result(payload)) = reply(bytes.to_vec().into(), scanner.finish().unwrap(), "7") else {
        unreachable!("a result")
    };
    payload
}

/// Translates the answer in pieces of these sizes, over and over.
fn in_pieces(
    method: &str,
    plan: &ResultPlan<'_>,
    answer: &[u8],
    sizes: &[usize],
) -> Result<Vec<u8>, ArrivalError> {
    let (mut scanner, mut so_far) = (Some(Scanner::default()), ByteRope::new());
    let (mut translated, mut out): (Option<IncrementalResult>, _) = (None, ByteRope::new());
    let (mut rest, mut sizes) = (answer, sizes.iter().cycle());
    while !rest.is_empty() {
        let (piece, behind) = rest.split_at((*sizes.next().unwrap()).min(rest.len()));
        rest = behind;
        if let Some(translated) = &mut translated {
            translated.push(piece.to_vec().into())?;
            out.append(translated.take());
            continue;
        }
        let mut begun = scanner.take().unwrap();
        begun.push(piece)?;
        so_far.push(piece.to_vec());
        if begun.has_begun_result("7", &so_far) {
            let so_far = std::mem::take(&mut so_far);
            translated = Some(IncrementalResult::begin(method, plan, "\"c\"", begun, so_far)?);
        } else {
            scanner = Some(begun);
        }
    }
    let Some(translated) = translated else { return Ok(Vec::new()) };
    out.append(translated.finish()?.0);
    Ok(out.into_bytes().into())
}

proptest! {
    #![proptest_config(crate::config())]

    #[test]
    fn pieces_become_what_the_whole_becomes(
        result in result(),
        method in select(METHODS.to_vec()),
        tail in select(vec!["", " ", ",\"x\":{\"resultType\":1}"]),
        sizes in vec(1..40_usize, 1..8),
        introduced in any::<bool>(),
    ) {
        let answer = format!(r#"{{"jsonrpc":"2.0","id":7,"result":{result}{tail}}}"#);
        let payload = scan(answer.as_bytes());
        let id = RawValue::from_string("\"c\"".to_owned()).unwrap();
        for (from, to) in ERAS {
            let server_info = (introduced && to == Era::Modern).then_some(r#"{"name":"v"}"#);
            let plan = ResultPlan { from, to, server_info, ..ResultPlan::default() };
            let whole = translate::forward(method, payload.received().unwrap(), &plan);
            for sizes in [&sizes[..], &[1], &[answer.len()]] {
                let pieces = in_pieces(method, &plan, answer.as_bytes(), sizes);
                match (&whole, pieces) {
                    // The scanner knows the answer from its first piece, so nothing begins with the last.
                    (_, Ok(pieces)) if pieces.is_empty() => {}
                    (Some(whole), pieces) => {
                        let whole = rpc::response_around(&id, whole.clone()).into_bytes();
                        prop_assert_eq!(String::from_utf8(pieces.unwrap()).unwrap(), String::from_utf8(whole.to_vec()).unwrap());
                    }
                    // Data that a legacy client cannot take becomes text in a whole result only.
                    (None, Ok(pieces)) => {
                        prop_assert!(to == Era::Legacy && payload.received().unwrap().found().has(Key::StructuredContent));
                        let pieces = String::from_utf8(pieces).unwrap();
                        let answer = Object::parse_str(&pieces).unwrap();
                        let result = Object::parse_str(answer.text("result").unwrap()).unwrap();
                        prop_assert!(result.text("structuredContent").is_none());
                    }
                    (None, pieces) => prop_assert!(matches!(pieces, Err(ArrivalError::NotComplete(_)))),
                }
            }
            let edited = translate::result(method, &payload, &plan).map(|edited| edited.into_cow().into_owned());
            if let Some(whole) = whole {
                let whole = String::from_utf8(whole.into_bytes().to_vec()).unwrap();
                let bare = |text: &str| text.chars().filter(|c| !c.is_ascii_whitespace()).collect::<String>();
                prop_assert_eq!(bare(&whole), bare(&edited.unwrap()), "{:?} to {:?}", from, to);
            }
        }
    }
}

#[test]
fn a_large_answer_is_held_back_only_where_it_may_change() {
    let plan = ResultPlan { from: Era::Modern, to: Era::Legacy, ..ResultPlan::default() };
    let large = "x".repeat(1 << 20);
    let structured = format!("[{}1]", "1,".repeat(1 << 19));
    let (mut most_held, mut sent) = (0, 0);
    let answer = format!(
        r#"{{"jsonrpc":"2.0","id":7,"result":{{"content":["{large}"],"structuredContent":{structured},"_meta":{{"x":"{large}"}},"resultType":"complete"}}}}"#
    );
    let pieces: Vec<&[u8]> = answer.as_bytes().chunks(10_000).collect();
    let (first, rest) = pieces.split_first().unwrap();
    let mut scanner = Scanner::default();
    scanner.push(first).unwrap();
    let so_far = ByteRope::from(first.to_vec());
    let mut arriving = IncrementalResult::begin("tools/call", &plan, "1", scanner, so_far).unwrap();
    let mut received = first.len();
    for piece in rest {
        arriving.push(piece.to_vec().into()).unwrap();
        sent += arriving.take().len();
        received += piece.len();
        let dropped = received.saturating_sub(1 << 20).min(structured.len());
        most_held = most_held.max(received.saturating_sub(sent + dropped));
    }
    let (last, found) = arriving.finish().unwrap();
    assert_eq!(
        sent + last.len(),
        answer.len() - structured.len() - r#","structuredContent":,"resultType":"complete""#.len()
    );
    assert!(most_held < 40_000 && !found.has(Key::Error), "{most_held} bytes");
}

#[test]
fn what_is_found_wrong_late_ends_the_answer() {
    let plan = ResultPlan { from: Era::Modern, to: Era::Modern, ..ResultPlan::default() };
    let end = |tail: &str| {
        let answer = format!(r#"{{"jsonrpc":"2.0","id":7,"result":{{"content":[]{tail}"#);
        in_pieces("tools/call", &plan, answer.as_bytes(), &[3]).map(|out| String::from_utf8(out).unwrap())
    };
    assert!(end("}}").unwrap().ends_with(r#""content":[],"resultType":"complete"}}"#));
    assert_eq!(end(r#","resultType":"task"}}"#), Err(ArrivalError::NotComplete("task".to_owned())));
    assert_eq!(end(r#"},"error":{}}"#), Err(ArrivalError::Envelope("error")));
    assert!(matches!(end(r#","isError":1,"isError":2}}"#), Err(ArrivalError::Scan(_))));
    assert!(matches!(end("}"), Err(ArrivalError::Scan(_))), "cut off");
    assert!(matches!(end("]}}"), Err(ArrivalError::Scan(_))));
    let long = format!(r#","resultType":"{}"}}}}"#, "x".repeat(100_000));
    assert_eq!(end(&long), Err(ArrivalError::TooMuchHeld));
}
