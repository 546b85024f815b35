//! Pictures of scripts: charts, and SVG that a script writes itself. Pure: no file, no network, no clock, no
//! font of the system.
//!
//! | module | content |
//! |---|---|
//! | [`chart`] | rows of a table to a chart, as SVG |
//! | [`svg`] | untrusted SVG: bounded, read, written again without anything active |
//! | [`png`] | SVG to pixels, with the one font in `font/` |
//!
//! The worker of a script draws, so that its memory, its processor time and the script's deadline bound
//! every picture.

pub mod chart;
mod font;
pub mod png;
pub mod svg;
mod svg_error;
