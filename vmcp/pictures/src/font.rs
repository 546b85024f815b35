//! The font of all pictures: a subset of DejaVu Sans, in the binary.

use std::sync::{Arc, LazyLock};

use resvg::usvg::fontdb::Database;

/// Name of the font.
pub(crate) const FAMILY: &str = "DejaVu Sans";
/// Latin, Greek, Cyrillic, punctuation, currencies, arrows. Other characters are drawn as boxes.
const FONT: &[u8] = include_bytes!("../font/DejaVuSans.ttf");

/// Returns the fonts of a picture: the one font under every generic name.
pub(crate) fn fonts() -> Arc<Database> {
    static FONTS: LazyLock<Arc<Database>> = LazyLock::new(|| {
        let mut fonts = Database::new();
        fonts.load_font_data(FONT.to_vec());
        fonts.set_serif_family(FAMILY);
        fonts.set_sans_serif_family(FAMILY);
        fonts.set_cursive_family(FAMILY);
        fonts.set_fantasy_family(FAMILY);
        fonts.set_monospace_family(FAMILY);
        Arc::new(fonts)
    });
    Arc::clone(&FONTS)
}

/// Returns about the width of a text in the font, in units of the font's size: advances by classes of
/// characters, since a layout needs no more.
pub(crate) fn width(text: &str) -> f64 {
    text.chars().map(advance).sum()
}

fn advance(character: char) -> f64 {
    match character {
        'i' | 'j' | 'l' | '\'' | '|' => 0.3,
        ' ' | '.' | ',' | ':' | ';' | '!' | 'I' | 'f' | 't' | '(' | ')' | '[' | ']' | '-' | '/' | '·' => {
            0.38
        }
        'r' => 0.42,
        'm' | 'M' | 'w' | 'W' | '%' | '@' | 'ш' | 'щ' | 'Ш' | 'Щ' | 'ж' | 'Ж' | 'ю' | 'Ю' | '…' => {
            0.98
        }
        'c' | 'k' | 's' | 'v' | 'x' | 'y' | 'z' | '?' | '_' => 0.57,
        '0'..='9' => 0.636,
        _ if character.is_uppercase() => 0.72,
        _ => 0.63,
    }
}

/// Returns a text of at most `most` units of width; a longer one ends in `…`.
pub(crate) fn cut(text: &str, most: f64) -> String {
    if width(text) <= most {
        return text.to_owned();
    }
    let mut left = most - advance('…');
    let fitting = text.chars().take_while(|next| {
        left -= advance(*next);
        left >= 0.0
    });
    let mut short: String = fitting.collect();
    short.truncate(short.trim_end().len());
    short.push('…');
    short
}

/// Returns a text of at most `most` units of width; of a longer one both ends, around `…`: names of one kind
/// often begin alike.
pub(crate) fn cut_middle(text: &str, most: f64) -> String {
    if width(text) <= most {
        return text.to_owned();
    }
    let half = (most - advance('…')) / 2.0;
    let fitting = |characters: &mut dyn Iterator<Item = char>| -> String {
        let mut left = half;
        let fits = |next: &char| {
            left -= advance(*next);
            left >= 0.0
        };
        characters.take_while(fits).collect()
    };
    let begin = fitting(&mut text.chars());
    let end: String = fitting(&mut text.chars().rev()).chars().rev().collect();
    format!("{begin}…{end}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_text_fits() {
        assert_eq!(cut("short", 10.0), "short");
        let long = cut("a long label of a category", 8.0);
        assert!(long.ends_with('…') && width(&long) <= 8.0, "{long}");
        let both = cut_middle("the name of host number 17", 9.0);
        assert!(both.starts_with("the n") && both.ends_with("r 17") && width(&both) <= 9.0, "{both}");
    }

    #[test]
    fn the_font_is_found_by_its_name() {
        let names: Vec<_> = fonts().faces().flat_map(|face| face.families.clone()).collect();
        assert!(names.iter().any(|(name, _)| name == FAMILY), "{names:?}");
    }
}
