//! [`Picture`]: an image that a script makes beside its result.

use serde::{Deserialize, Serialize};

/// Form of a picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PictureFormat {
    /// Pixels.
    Png,
    /// Shapes, without anything active.
    Svg,
}

impl PictureFormat {
    /// Names of the forms, as scripts write them.
    pub const NAMES: [&'static str; 2] = ["png", "svg"];

    /// Returns the form of a name.
    pub fn of_name(name: &str) -> Option<PictureFormat> {
        match name {
            "png" => Some(PictureFormat::Png),
            "svg" => Some(PictureFormat::Svg),
            _ => None,
        }
    }

    /// Returns its media type.
    pub fn mime_type(self) -> &'static str {
        match self {
            PictureFormat::Png => "image/png",
            PictureFormat::Svg => "image/svg+xml",
        }
    }
}

/// A picture.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Picture {
    /// Its form.
    pub format: PictureFormat,
    /// The file in base64.
    pub data: String,
}
