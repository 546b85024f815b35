//! Untrusted SVG. Three walls: [`bounds`] refuses a document that is active, refers to something outside of
//! itself, or costs too much; the reader keeps shapes and texts alone; the answer is written from them.

mod bounds;
mod cost;

use resvg::usvg::{WriteOptions, roxmltree};

use crate::png::{self, Png};

pub use bounds::{MAX_BYTES, MAX_DEPTH, MAX_ELEMENTS};
pub use cost::MAX_COST;

/// Longest side of an SVG that leaves as SVG, in pixels; a larger one is refused.
pub const MAX_SVG_SIDE: f32 = 10_000.0;

/// Errors of an SVG; the text is for the author of the script.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SvgError {
    /// Too many bytes.
    #[error("has {actual} bytes; the limit is {MAX_BYTES}")]
    Bytes {
        /// Its bytes.
        actual: usize,
    },
    /// No SVG.
    #[error("is no SVG that can be read: {0}")]
    Unreadable(String),
    /// Too many elements.
    #[error("has more than {MAX_ELEMENTS} elements, which is the limit")]
    Elements,
    /// Nested too deep, references included.
    #[error("is nested more than {MAX_DEPTH} levels deep, which is the limit; references count")]
    Depth,
    /// Too much work, each reference counted with all that it draws.
    #[error("draws more than {MAX_COST} elements and characters with its references, which is the limit")]
    Cost,
    /// A reference leads back to itself.
    #[error("line {line}: #{id} refers to itself")]
    Cycle {
        /// Line of the reference.
        line: u32,
        /// The id.
        id: String,
    },
    /// An element that is not drawn.
    #[error(
        "line {line}: <{name}> is not allowed; allowed are shapes, texts, gradients, patterns, clips, masks"
    )]
    Element {
        /// Its line.
        line: u32,
        /// Its name.
        name: String,
    },
    /// An attribute with a filter, or a reference to something outside.
    #[error(
        "line {line}: {name} may refer to an id of the same SVG only, such as url(#id), and filters are not drawn"
    )]
    Attribute {
        /// Line of its element.
        line: u32,
        /// Its name.
        name: String,
    },
    /// The drawing library failed at it, as at coordinates beyond its range.
    #[error("cannot be drawn: its coordinates are too large, or the library has a fault")]
    Failed,
    /// A side that viewers should not be asked for.
    #[error(
        "has a side of more than {MAX_SVG_SIDE} pixels, which is the limit of SVG; give a smaller width and height"
    )]
    Side,
    /// A size without pixels.
    #[error("has no size that can be drawn; give width, height or viewBox")]
    Size,
}

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
