//! Large results, kept so that a model need not read them: the pure parts, and the store.
//!
//! ```text
//! content   a tool's result → the value that is kept, and the pictures that are not
//! shape     types, lengths and keys in a line          preview   the beginning, valid in itself
//! path      JSON paths within a budget                 read      a slice of a value
//! pieces    BM25 over the parts of a result            dataset   words, SQL and Python over its rows
//! delimited tables as text, such as CSV             envelope  the answer in place of a result
//! store     results by owner, sealed at rest, bounded by size and time
//! ```

mod content;
pub mod dataset;
mod delimited;
pub mod envelope;
mod json;
mod path;
mod pieces;
mod preview;
mod read;
pub mod references;
mod shape;
pub mod store;

pub use content::{Content, Split, is_media, split};
pub use path::{MAX_PATH_CHARS, Path, PathError, TooMuch};
pub use pieces::{PieceHit, search};
pub use read::{ReadError, ReadPart, Slice, Unit, read, resolve};
pub use shape::describe as describe_shape;
