//! Searches as their callers see them.

mod properties;
mod search;
mod short_texts;
