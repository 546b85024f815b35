//! Pictures that a script in a pod has saved. The pod is not trusted: its frame is held to the bounds here.

use vmcp_script::picture::{Picture, PictureFormat};

/// Most pictures of one script.
const MAX_PICTURES: usize = 8;
/// Most bytes of one picture, 1 MiB.
const MAX_BYTES: usize = 1 << 20;
/// Most bytes of all pictures, 4 MiB.
const MAX_ALL_BYTES: usize = 4 << 20;
/// The signature of PNG in base64, but for its last byte, which shares a digit with the next one.
const PNG: &str = "iVBORw0KGg";
/// Most bytes that all pictures take in a frame.
pub(crate) const MAX_FRAME_BYTES: usize = base64_length(MAX_ALL_BYTES) + (1 << 12);

/// Returns the pictures within the bounds, as long as they are PNG; further ones are dropped, as those of a
/// forged frame.
pub(crate) fn bounded(pictures: Vec<Picture>) -> Vec<Picture> {
    // Each picture is padded by itself.
    let mut left = base64_length(MAX_ALL_BYTES) + 4 * MAX_PICTURES;
    let fits = |picture: &Picture| {
        let length = picture.data.len();
        let is_fine = picture.format == PictureFormat::Png
            && length <= base64_length(MAX_BYTES).min(left)
            && picture.data.starts_with(PNG)
            && is_base64(&picture.data);
        if is_fine {
            left -= length;
        }
        is_fine
    };
    pictures.into_iter().take(MAX_PICTURES).take_while(fits).collect()
}

const fn base64_length(bytes: usize) -> usize {
    bytes.div_ceil(3) * 4
}

fn is_base64(text: &str) -> bool {
    let digits = text.trim_end_matches('=');
    let is_digit = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
    text.len().is_multiple_of(4) && text.len() - digits.len() <= 2 && digits.bytes().all(is_digit)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn png(length: usize) -> Picture {
        Picture { format: PictureFormat::Png, data: format!("{PNG}{}", "A".repeat(length - PNG.len())) }
    }

    #[test]
    fn pictures_of_a_forged_frame_are_dropped() {
        let fine = png(16);
        let forged = |data: &str| Picture { format: PictureFormat::Png, data: data.to_owned() };
        for other in [
            Picture { format: PictureFormat::Svg, ..png(16) },
            png(base64_length(MAX_BYTES) + 4),
            forged("PHN2Zz4="),
            forged(&format!("{PNG}AA<>==")),
            forged(&format!("{PNG}A")),
            forged(&format!("{PNG}AAA===")),
        ] {
            let label: String = other.data.chars().take(20).collect();
            assert_eq!(
                bounded(vec![fine.clone(), other, fine.clone()]),
                std::slice::from_ref(&fine),
                "{label}"
            );
        }
        assert_eq!(bounded(vec![fine; 20]).len(), MAX_PICTURES);
        let large = png(base64_length(MAX_BYTES));
        assert_eq!(bounded(vec![large; 5]).len(), 4);
    }
}
