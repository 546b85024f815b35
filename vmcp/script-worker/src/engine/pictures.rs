//! `plot` and `emit_svg`: pictures of a script, drawn here, in its worker. The memory and the deadline of the
//! script bound the drawing; the limits of [`ScriptLimits`] bound what leaves.

mod plot;
mod rows;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use monty_types::{ExcType, MontyException, MontyObject};
use vmcp_pictures::{png, svg};
use vmcp_script::ScriptLimits;
use vmcp_script::picture::{Picture, PictureFormat};

use super::arguments::GivenArguments;

/// Draws a chart.
const PLOT: &str = "plot";
/// Draws an SVG of the script.
const EMIT_SVG: &str = "emit_svg";

/// True for a function that draws.
pub(super) fn is_function(name: &str) -> bool {
    [PLOT, EMIT_SVG].contains(&name)
}

/// Returns the signature of a function, as `describe` shows it.
pub(super) fn stub(name: &str) -> &'static str {
    if name == PLOT {
        r#"def plot(
    kind: Literal["bar", "line", "scatter", "hist", "pie"],
    rows: list[dict[str, Any]] | list[list] | list[float] | dict[str, Any],
    x: str | int = ...,  # Column of the horizontal axis
    y: str | int | list[str] = ...,  # Column of the values; several make a series each
    *,
    series: str | int = ...,  # Column that names the series, at most 12
    title: str = ..., x_label: str = ..., y_label: str = ...,
    bins: int = ...,  # Ranges of a histogram
    width: int = 800, height: int = 480,
    format: Literal["png", "svg"] = "png",
) -> str: ...  # Draws a chart, which the answer shows as an image beside the result."#
    } else {
        r#"def emit_svg(
    text: str,
    *,
    format: Literal["png", "svg"] = "png",
) -> str: ...  # Draws an SVG without scripts, images and filters, which the answer shows as an image."#
    }
}

/// Pictures of a script.
#[derive(Debug, Default)]
pub(super) struct Pictures {
    pub(super) made: Vec<Picture>,
    /// Bytes of all files.
    bytes: usize,
}

impl Pictures {
    /// The pictures of a script that has drawn before, in another process.
    pub(super) fn continued(made: Vec<Picture>) -> Pictures {
        // Four characters of base64 are three bytes.
        let bytes = made.iter().map(|picture| picture.data.len() / 4 * 3).sum();
        Pictures { made, bytes }
    }

    /// Calls one of the functions. Returns a text on the new picture, for the model.
    pub(super) fn draw(
        &mut self,
        function: &str,
        given: &GivenArguments<'_>,
        limits: &ScriptLimits,
    ) -> Result<String, MontyException> {
        if self.made.len() >= limits.pictures {
            let message =
                format!("{function}: the script made {0} pictures; the limit is {0}", limits.pictures);
            return Err(exception(ExcType::ValueError, message));
        }
        let drawn = match function {
            PLOT => plot::draw(given),
            _ => emit_svg(given),
        };
        let drawn = drawn
            .map_err(|RefusedPicture { kind, message }| exception(kind, format!("{function}: {message}")))?;
        self.push(function, drawn, limits)
    }

    fn push(
        &mut self,
        function: &str,
        drawn: Drawn,
        limits: &ScriptLimits,
    ) -> Result<String, MontyException> {
        let size = drawn.file.len();
        let all = self.bytes.saturating_add(size);
        for (which, size, limit) in
            [("the picture", size, limits.picture_bytes), ("all pictures", all, limits.pictures_bytes)]
        {
            if size > limit {
                let message = format!("{function}: {which} would have {size} bytes; the limit is {limit}");
                return Err(exception(ExcType::ValueError, message));
            }
        }
        self.bytes = all;
        self.made.push(Picture { format: drawn.format, data: BASE64_STANDARD.encode(&drawn.file) });
        let (number, kind, (width, height)) = (self.made.len(), drawn.kind, drawn.size);
        let mime = drawn.format.mime_type();
        let mut told = format!("picture {number}: {kind}, {width} x {height} pixels, {mime}, {size} bytes");
        for note in drawn.notes {
            told.push_str("; ");
            told.push_str(&note);
        }
        Ok(told)
    }
}

/// A picture that was drawn.
struct Drawn {
    /// Its kind, for the model.
    kind: String,
    format: PictureFormat,
    file: Vec<u8>,
    /// Width and height in pixels.
    size: (u32, u32),
    notes: Vec<String>,
}

/// A call that draws nothing.
struct RefusedPicture {
    kind: ExcType,
    message: String,
}

fn exception(kind: ExcType, message: String) -> MontyException {
    MontyException::new(kind, Some(message))
}

fn value_error(message: impl Into<String>) -> RefusedPicture {
    RefusedPicture { kind: ExcType::ValueError, message: message.into() }
}

fn type_error(message: impl Into<String>) -> RefusedPicture {
    RefusedPicture { kind: ExcType::TypeError, message: message.into() }
}

/// Fails if a call has more arguments, or others, than a function has. `by_place`: arguments that
/// may stand without their name.
fn check_names(given: &GivenArguments<'_>, all: &[&str], by_place: usize) -> Result<(), RefusedPicture> {
    if given.positional.len() > by_place {
        let rest = all.get(by_place..).unwrap_or_default().join(", ");
        return Err(type_error(format!(
            "{by_place} arguments at most stand without a name; {rest} need theirs"
        )));
    }
    for (key, _) in given.keywords {
        let key = super::values::text(key);
        let Some(place) = all.iter().position(|name| *name == key) else {
            return Err(type_error(format!("no argument {key:?}; there are {}", all.join(", "))));
        };
        if place < given.positional.len() {
            return Err(type_error(format!("{key} is given twice")));
        }
    }
    Ok(())
}

/// Reads an argument that is a text.
fn text_of(given: &GivenArguments<'_>, place: usize, name: &str) -> Result<Option<String>, RefusedPicture> {
    match given.at(place, name) {
        None => Ok(None),
        Some(MontyObject::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(type_error(format!("{name} must be a text"))),
    }
}

/// Reads the argument `format`.
fn format_of(given: &GivenArguments<'_>) -> Result<PictureFormat, RefusedPicture> {
    let Some(name) = text_of(given, usize::MAX, "format")? else { return Ok(PictureFormat::Png) };
    PictureFormat::of_name(&name)
        .ok_or_else(|| value_error(format!("format must be one of {}", PictureFormat::NAMES.join(", "))))
}

/// `emit_svg(text, *, format="png")`.
fn emit_svg(given: &GivenArguments<'_>) -> Result<Drawn, RefusedPicture> {
    check_names(given, &["text", "format"], 1)?;
    let format = format_of(given)?;
    let text = text_of(given, 0, "text")?.ok_or_else(|| type_error("text is required: the SVG"))?;
    let refused = |error: svg::SvgError| value_error(format!("text {error}"));
    let (size, file) = match format {
        PictureFormat::Png => pixels(svg::to_png(&text).map_err(refused)?),
        PictureFormat::Svg => {
            let (width, height, text) = svg::to_svg(&text).map_err(refused)?;
            ((width, height), text.into_bytes())
        }
    };
    Ok(Drawn { kind: "SVG".to_owned(), format, file, size, notes: Vec::new() })
}

fn pixels(png: png::Png) -> ((u32, u32), Vec<u8>) {
    ((png.width, png.height), png.bytes)
}
