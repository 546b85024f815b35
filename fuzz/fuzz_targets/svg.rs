//! Fuzzes the wall before SVG of scripts: the check of any text ends, and a refusal has a message. Nothing is
//! drawn here: the drawing library panics at some coordinates, which its caller catches.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Err(refused) = vmcp_pictures::svg::check(text) {
        assert!(!refused.to_string().is_empty());
    }
});
