//! Fuzzes the translation of results that arrive in pieces: its output is that of the collected answer, and
//! what the one refuses the other refuses.
#![no_main]

use libfuzzer_sys::fuzz_target;
use vmcp_json::byte_rope::ByteRope;
use vmcp_wire::era::Era;
use vmcp_wire::methods;
use vmcp_wire::payload::{self, Key, Reply, Scanner};
use vmcp_wire::translate::{self, ArrivalError, IncrementalResult, ResultPlan};

const ERAS: [Era; 2] = [Era::Legacy, Era::Modern];

/// Translates the answer in pieces; `None` if its result has not begun before the end.
fn in_pieces(
    method: &str,
    plan: &ResultPlan<'_>,
    answer: &[u8],
    size: usize,
) -> Option<Result<Vec<u8>, ArrivalError>> {
    let (mut scanner, mut so_far) = (Scanner::default(), ByteRope::new());
    let mut pieces = answer.chunks(size);
    for piece in pieces.by_ref() {
        scanner.push(piece).ok()?;
        so_far.push(piece.to_vec());
        if scanner.has_begun_result("7", &so_far) {
            break;
        }
    }
    if !scanner.has_begun_result("7", &so_far) {
        return None;
    }
    let translate = || {
        let mut result = IncrementalResult::begin(method, plan, "7", scanner, so_far)?;
        let mut out = result.take();
        for piece in pieces {
            result.push(piece.to_vec().into())?;
            out.append(result.take());
        }
        out.append(result.finish()?.0);
        Ok(out.into_bytes().into())
    };
    Some(translate())
}

fuzz_target!(|input: (u8, u8, &str)| {
    let (choice, size, text) = input;
    let method = [methods::TOOLS_CALL, methods::RESOURCES_READ][usize::from(choice & 1)];
    let (from, to) = (ERAS[usize::from(choice >> 1 & 1)], ERAS[usize::from(choice >> 2 & 1)]);
    let server_info = (to == Era::Modern && choice & 8 == 0).then_some(r#"{"name":"v"}"#);
    let plan = ResultPlan { from, to, server_info, ..ResultPlan::default() };
    let answer = format!(r#"{{"jsonrpc":"2.0","id":7,"result":{text}}}"#).into_bytes();
    let Some(pieces) = in_pieces(method, &plan, &answer, usize::from(size).max(1)) else { return };
    let mut scanner = Scanner::default();
    let whole = scanner.push(&answer).and_then(|()| scanner.finish());
    let whole = whole.ok().and_then(|keys| payload::reply(answer.clone().into(), keys, "7").ok());
    let Some(Reply::Result(whole)) = whole else { return assert!(pieces.is_err()) };
    let forwarded = whole.received().and_then(|received| translate::forward(method, received, &plan));
    match forwarded {
        Some(result) => {
            let expected = [br#"{"jsonrpc":"2.0","id":7,"result":"#, &*result.into_bytes(), b"}"].concat();
            assert_eq!(String::from_utf8(pieces.expect("an answer")), String::from_utf8(expected.clone()));
            let is_json =
                |bytes: &[u8]| serde_json::from_slice::<&serde_json::value::RawValue>(bytes).is_ok();
            assert!(is_json(&expected) || !is_json(&answer));
        }
        // Data that a legacy client cannot take becomes text in a whole result only.
        None if whole.received().is_some_and(|received| received.found().has(Key::StructuredContent)) => {}
        None => assert!(matches!(pieces, Err(ArrivalError::NotComplete(_)))),
    }
});
