//! State of a paused interpreter as text: monty's dump, compressed (deflate), in base64.
//!
//! monty trusts a dump: bytes of another origin may make it panic or loop. The server hands a worker only
//! states that it has sealed itself, and the worker is confined.

use std::io::{self, Read as _, Write as _};

use base64::prelude::{BASE64_STANDARD_NO_PAD, Engine as _};
use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;
use monty::{DUMP_VERSION, Dump, ReplFunctionCall, ReplProgress, Session, SessionRef};

use vmcp_script::protocol::Failure;

/// Version of the interpreter, whose byte code is in a state.
const MONTY: &str = "0.0.23";
/// Version of this form.
const FORM: u8 = 1;
/// Most bytes of a dump that is loaded; a larger one is refused.
const MAX_DUMP: u64 = 64 << 20;

/// Names the interpreter and the form of a state.
pub(super) fn engine() -> String {
    format!("monty {MONTY} (snapshot {FORM}.{DUMP_VERSION})")
}

/// Writes the state of a script that waits at a call; fails beyond `most` bytes.
pub(super) fn write(script: &str, call: ReplFunctionCall, most: usize) -> Result<String, Failure> {
    let failed = |error: &dyn std::fmt::Display| {
        Failure::new("SuspendError", format!("the script cannot be suspended: {error}"))
    };
    let progress = ReplProgress::FunctionCall(call);
    let dump = monty::dump(script, None, SessionRef::Suspended(&progress)).map_err(|error| failed(&error))?;
    if dump.len() as u64 > MAX_DUMP {
        let error = format!(
            "a tool asks the user, and the values of the script take {} bytes while it waits; the limit is \
             {MAX_DUMP}: keep less before this call, such as a count or a part",
            dump.len()
        );
        return Err(Failure::new("SuspendLimitError", error));
    }
    let mut compressed = DeflateEncoder::new(Vec::new(), Compression::default());
    let compressed = compressed.write_all(&dump).and_then(|()| compressed.finish());
    let compressed = compressed.map_err(|error| failed(&error))?;
    if compressed.len() > most {
        return Err(too_large(compressed.len(), most));
    }
    Ok(BASE64_STANDARD_NO_PAD.encode(compressed))
}

/// Reads a state that [`write()`] wrote; `from` is the [`engine()`] that wrote it.
pub(super) fn read(from: &str, state: &str) -> Result<ReplFunctionCall, Failure> {
    if from != engine() {
        let error = format!(
            "the script was suspended by {from}, and this server runs {}; run the script again",
            engine()
        );
        return Err(Failure::new("SuspendError", error));
    }
    let damaged = || {
        let error = "the state of the suspended script is damaged; run the script again";
        Failure::new("SuspendError", error)
    };
    let compressed = BASE64_STANDARD_NO_PAD.decode(state).map_err(|_| damaged())?;
    let dump = inflate(&compressed).map_err(|_| damaged())?;
    match Dump::load(&dump).map_err(|_| damaged())?.state {
        Session::Suspended(progress) => progress.into_function_call().ok_or_else(damaged),
        Session::Idle(_) | Session::Running(_) => Err(damaged()),
    }
}

fn inflate(compressed: &[u8]) -> io::Result<Vec<u8>> {
    let mut dump = Vec::new();
    DeflateDecoder::new(compressed).take(MAX_DUMP).read_to_end(&mut dump)?;
    Ok(dump)
}

fn too_large(actual: usize, most: usize) -> Failure {
    let error = format!(
        "a tool asks the user, and the values of the script take {actual} bytes compressed while it waits; \
         the limit is {most}: keep less before this call, such as a count or a part"
    );
    Failure::new("SuspendLimitError", error).with_limit(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_that_of_the_dependency() {
        let manifest = include_str!("../../../../Cargo.toml");
        assert!(manifest.contains(&format!("monty = \"={MONTY}\"")), "states of another monty are refused");
    }

    #[test]
    fn states_of_other_engines_and_broken_ones_are_refused() {
        let refused = read("monty 0.0.22 (snapshot 1.7)", "").unwrap_err();
        assert!(refused.error.contains("was suspended by monty 0.0.22"), "{refused:?}");
        let dump = |bytes: &[u8]| {
            let mut compressed = DeflateEncoder::new(Vec::new(), Compression::default());
            compressed.write_all(bytes).unwrap();
            BASE64_STANDARD_NO_PAD.encode(compressed.finish().unwrap())
        };
        for broken in ["", "%", "AAAA", &dump(b""), &dump(b"MONTY\0\x08\0"), &dump(b"MONTY\0\x08\0\xff\xff")]
        {
            let refused = read(&engine(), broken).unwrap_err();
            assert!(refused.error.contains("is damaged"), "{broken}: {refused:?}");
        }
    }
}
