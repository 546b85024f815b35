//! SVG to PNG.

use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe, catch_unwind};
use std::sync::Once;

use resvg::tiny_skia::{Color, Pixmap, Transform};
use resvg::usvg::{ImageHrefResolver, Options, Tree, roxmltree};

use crate::font;
use crate::svg_error::SvgError;

/// Longest side of a picture in pixels; a larger picture is scaled down.
pub const MAX_SIDE: f32 = 1600.0;
/// Most pixels of a picture; a larger picture is scaled down. A layer of a picture has as many, four bytes
/// each.
pub const MAX_PIXELS: f32 = 2_000_000.0;

/// Returns the options of every picture: its own font, and neither images nor files.
fn options() -> Options<'static> {
    let resolver =
        ImageHrefResolver { resolve_data: Box::new(|_, _, _| None), resolve_string: Box::new(|_, _| None) };
    Options {
        resources_dir: None,
        font_family: font::FAMILY.to_owned(),
        image_href_resolver: resolver,
        fontdb: font::fonts(),
        ..Options::default()
    }
}

/// Reads the tree of a document.
pub(crate) fn tree(document: &roxmltree::Document<'_>) -> Result<Tree, SvgError> {
    guarded(|| {
        Tree::from_xmltree(document, &options()).map_err(|error| SvgError::Unreadable(error.to_string()))
    })
}

thread_local! {
    /// True while this thread runs a step of the drawing library.
    static IS_GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Runs a step of the drawing library. Its arithmetic panics at some coordinates; the picture is then
/// refused, and nothing of the step is used. Such a panic writes nothing to standard error: a script could
/// fill the pipe with them, and a later message on the end of the worker would be lost.
pub(crate) fn guarded<T>(step: impl FnOnce() -> Result<T, SvgError>) -> Result<T, SvgError> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let others = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !IS_GUARDED.get() {
                others(info);
            }
        }));
    });
    let before = IS_GUARDED.replace(true);
    let done = catch_unwind(AssertUnwindSafe(step));
    IS_GUARDED.set(before);
    done.unwrap_or(Err(SvgError::Failed))
}

/// A picture as PNG.
#[derive(Debug)]
pub struct Png {
    /// Width in pixels.
    pub width: u32,
    /// Height in pixels.
    pub height: u32,
    /// The file.
    pub bytes: Vec<u8>,
}

/// Draws an SVG of [`crate::chart`] on white.
pub fn draw(svg: &str) -> Result<Png, SvgError> {
    let document =
        roxmltree::Document::parse(svg).map_err(|error| SvgError::Unreadable(error.to_string()))?;
    draw_tree(&tree(&document)?)
}

/// Draws a tree on white, scaled down to [`MAX_SIDE`] and [`MAX_PIXELS`].
pub(crate) fn draw_tree(tree: &Tree) -> Result<Png, SvgError> {
    let (width, height) = (tree.size().width(), tree.size().height());
    let scale = scale(width, height);
    let pixels = |side: f32| (side * scale).round().clamp(1.0, MAX_SIDE) as u32;
    let mut pixmap = Pixmap::new(pixels(width), pixels(height)).ok_or(SvgError::Size)?;
    pixmap.fill(Color::WHITE);
    guarded(|| {
        resvg::render(tree, Transform::from_scale(scale, scale), &mut pixmap.as_mut());
        Ok(())
    })?;
    let bytes = pixmap.encode_png().map_err(|error| SvgError::Unreadable(error.to_string()))?;
    Ok(Png { width: pixmap.width(), height: pixmap.height(), bytes })
}

/// Returns the factor by which a picture is scaled down, at most 1.
fn scale(width: f32, height: f32) -> f32 {
    let by_side = MAX_SIDE / width.max(height);
    let by_pixels = (MAX_PIXELS / width / height).sqrt();
    by_side.min(by_pixels).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_pictures_are_scaled_down() {
        for (width, height) in [(1e9, 1e9), (1e30, 1.0), (1.0, 3000.0), (1600.0, 1600.0)] {
            let scale = scale(width, height);
            let (width, height) = (width * scale, height * scale);
            assert!(width <= MAX_SIDE * 1.001 && height <= MAX_SIDE * 1.001, "{width} {height}");
            assert!(width * height <= MAX_PIXELS * 1.001, "{width} {height}");
        }
        assert_eq!(scale(800.0, 480.0).to_bits(), 1.0_f32.to_bits());
    }
}
