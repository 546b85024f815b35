//! Fuzzes frames between the server and a worker of code mode: a frame is refused, or is the same frame after
//! it was written and read again. The input is read as it is, and as the JSON of a frame of its length.
#![no_main]

use std::fmt::Debug;

use libfuzzer_sys::fuzz_target;
use serde::Serialize;
use serde::de::DeserializeOwned;
use vmcp_script::protocol::{FromWorker, MAX_FRAME, ToWorker, encode, read_blocking};

fn check<T: DeserializeOwned + Serialize + Debug>(bytes: &[u8]) {
    let mut rest = bytes;
    let Ok(frame) = read_blocking::<T>(&mut rest) else { return };
    let length = bytes.len() - rest.len();
    assert!((4..=MAX_FRAME + 4).contains(&length), "a frame of {length} bytes");
    let written = encode(&frame).expect("a frame that was read can be written");
    let mut end = written.as_slice();
    let again = read_blocking::<T>(&mut end).expect("a frame that was written can be read");
    assert!(end.is_empty(), "{} bytes are left", end.len());
    assert_eq!(shape(&again), shape(&frame));
}

/// Returns the text of a frame without the characters of numbers: a float may be read as its neighbor.
fn shape(frame: &impl Debug) -> String {
    let is_numeric = |character: &char| character.is_ascii_digit() || ".e+-".contains(*character);
    format!("{frame:?}").chars().filter(|character| !is_numeric(character)).collect()
}

fuzz_target!(|bytes: &[u8]| {
    let length = u32::try_from(bytes.len()).expect("a short input").to_be_bytes();
    let framed = [&length, bytes].concat();
    for bytes in [bytes, &framed] {
        check::<ToWorker>(bytes);
        check::<FromWorker>(bytes);
    }
});
