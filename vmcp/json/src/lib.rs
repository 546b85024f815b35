//! Raw JSON that is never turned into a tree; pure.
//!
//! A gateway changes a few keys of a message and relays the rest, so a message stays the bytes that arrived.
//! [`object::Object`] lists the top-level entries of an object as slices of its text, [`object::Edit`]
//! changes some of them and leaves every other byte where it was, and the result is a rope: a
//! [`json_rope::JsonRope`] of text slices, or a [`byte_rope::ByteRope`] of the pieces in which an answer
//! arrived. Neither copies until it is written. [`reader::Reader`] checks a text while it finds its keys, in
//! one pass. [`duplicates`] finds keys that occur twice. [`decimal::Decimal`] writes a number.

pub mod byte_rope;
pub mod containers;
pub mod decimal;
pub mod duplicates;
pub mod json_rope;
pub mod nesting;
pub mod object;
pub mod reader;
mod scan;
pub mod string_bytes;
pub mod text;
mod unescape;
