//! Benchmark: throughput of the scanner of answers. Run it on a quiet machine:
//! `cargo bench -p vmcp-wire --bench throughput`.

#![expect(clippy::print_stdout, reason = "printing is what a benchmark is for")]
#![expect(clippy::unwrap_used, reason = "a measurement that fails may panic")]

use std::fmt::Write as _;
use std::time::Instant;

use vmcp_wire::payload::Scanner;

/// Bytes of each answer.
const ANSWER_BYTES: usize = 1 << 20;
/// Bytes of a piece: a usual read from a socket.
const PIECE_BYTES: usize = 64 << 10;

fn answer(mut value: impl FnMut(&mut String, usize)) -> String {
    let mut text = r#"{"jsonrpc":"2.0","id":1,"result":{"content":["#.to_owned();
    for count in 0.. {
        value(&mut text, count);
        if text.len() > ANSWER_BYTES {
            break;
        }
        text.push(',');
    }
    text + r#"],"isError":false}}"#
}

fn scan(text: &str) {
    let mut scanner = Scanner::default();
    text.as_bytes().chunks(PIECE_BYTES).for_each(|piece| scanner.push(piece).unwrap());
    scanner.finish().unwrap();
}

fn main() {
    let prose =
        "The quick brown fox jumps over the lazy dog, and then it sleeps in the warm sun for a while.";
    let answers = [
        ("text", answer(|text, _| _ = write!(text, "\"{}\"", format!("{prose}\\n").repeat(500)))),
        ("text, one line", answer(|text, _| _ = write!(text, "\"{}\"", prose.repeat(5000)))),
        (
            "text, not ASCII",
            answer(|text, _| _ = write!(text, "\"{}\"", "Größe und 日本語, 12\\n".repeat(1000))),
        ),
        (
            "JSON in a string",
            answer(|text, n| _ = write!(text, r#""{{\"id\":{n},\"name\":\"item\",\"ok\":true}}""#)),
        ),
        ("numbers", answer(|text, n| _ = write!(text, "{n},-{n}.25,{n}e3"))),
        (
            "objects",
            answer(|text, n| {
                _ = write!(text, r#"{{"id":{n},"name":"item {n}","tags":["a","b"],"ok":true}}"#);
            }),
        ),
        (
            "indented",
            answer(|text, n| {
                _ = write!(text, "{{\n    \"id\": {n},\n    \"name\": \"item {n}\",\n    \"ok\": true\n  }}");
            }),
        ),
    ];
    for (name, text) in answers {
        scan(&text);
        let best = (0..300).map(|_| {
            let started = Instant::now();
            scan(&text);
            started.elapsed()
        });
        // Nothing else interrupted the best of many rounds.
        let speed = text.len() as f64 / best.min().unwrap().as_secs_f64() / 1e6;
        println!("{name:<17} {speed:>6.0} MB/s");
    }
}
