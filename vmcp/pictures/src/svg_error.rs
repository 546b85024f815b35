//! Limits of an SVG, and [`SvgError`], which names the exceeded limit.

/// Most bytes of an SVG; a longer one is refused.
pub const MAX_BYTES: usize = 1 << 20;
/// Most elements; with more, an SVG is refused.
pub const MAX_ELEMENTS: usize = 20_000;
/// Deepest nesting, references included; readers walk it recursively.
pub const MAX_DEPTH: usize = 64;
/// Most cost: one of an element, of a character of text and of 32 bytes of attributes.
pub const MAX_COST: u64 = 100_000;
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
