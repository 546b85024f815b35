//! Untrusted SVG. Three walls: [`bounds`] refuses a document that is active, refers to something outside of
//! itself, or costs too much; the reader keeps shapes and texts alone; the answer is written from them.

mod bounds;
mod cost;

use resvg::usvg::{WriteOptions, roxmltree};

use crate::png::{self, Png};

pub use crate::svg_error::{MAX_BYTES, MAX_COST, MAX_DEPTH, MAX_ELEMENTS, MAX_SVG_SIDE, SvgError};

/// Checks an SVG without drawing it.
pub fn check(text: &str) -> Result<(), SvgError> {
    bounds::read(text).map(drop)
}

/// Checks an SVG and draws it.
pub fn to_png(text: &str) -> Result<Png, SvgError> {
    png::draw_tree(&png::tree(&bounds::read(text)?)?)
}

/// Checks an SVG and writes the shapes that were read: without scripts, handlers, links, style sheets and
/// comments. Returns its width and height in pixels, and its text.
pub fn to_svg(text: &str) -> Result<(u32, u32, String), SvgError> {
    let document: roxmltree::Document<'_> = bounds::read(text)?;
    let tree = png::tree(&document)?;
    if tree.size().width().max(tree.size().height()) > MAX_SVG_SIDE {
        return Err(SvgError::Side);
    }
    let options = WriteOptions { preserve_text: true, ..WriteOptions::default() };
    let written = png::guarded(|| Ok(tree.to_string(&options)))?;
    // The writer is a library's: its text passes the same wall.
    bounds::read(&written)?;
    let pixels = |side: f32| side.round().max(1.0) as u32;
    Ok((pixels(tree.size().width()), pixels(tree.size().height()), written))
}

#[cfg(test)]
mod tests;
