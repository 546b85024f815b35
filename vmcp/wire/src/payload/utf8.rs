//! An incremental UTF-8 check, for text that arrives in pieces.

/// An incremental check of UTF-8, for text whose characters may be cut by the ends of pieces.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Utf8 {
    /// The first bytes of a character whose end has not arrived.
    begun: [u8; 4],
    length: usize,
}

impl Utf8 {
    /// Checks the next piece; the error is the offset of an invalid byte in the piece.
    pub(super) fn check(&mut self, mut piece: &[u8]) -> Result<(), usize> {
        let mut checked = 0;
        while self.length > 0 {
            let Some((first, rest)) = piece.split_first() else { return Ok(()) };
            let Some(next) = self.begun.get_mut(self.length) else { return Err(checked) };
            (*next, piece) = (*first, rest);
            self.length += 1;
            checked += 1;
            match std::str::from_utf8(self.begun.get(..self.length).unwrap_or_default()) {
                Ok(_) => self.length = 0,
                Err(error) if error.error_len().is_some() => return Err(checked - 1),
                Err(_) => {}
            }
        }
        let Err(error) = simdutf8::compat::from_utf8(piece) else { return Ok(()) };
        let tail = piece.get(error.valid_up_to()..).unwrap_or_default();
        match self.begun.get_mut(..tail.len()) {
            Some(begun) if error.error_len().is_none() => {
                begun.copy_from_slice(tail);
                self.length = tail.len();
                Ok(())
            }
            _ => Err(checked + error.valid_up_to()),
        }
    }

    /// True if the text may end here: no character is cut.
    pub(super) fn is_complete(&self) -> bool {
        self.length == 0
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn text_in_pieces_is_text_as_a_whole(bytes in vec(prop_oneof![any::<u8>(), Just(0xc3), Just(0xa4), Just(0xe2), Just(0x82)], 0..12), size in 1..4_usize) {
            let mut utf8 = Utf8::default();
            let valid = bytes.chunks(size).all(|piece| utf8.check(piece).is_ok()) && utf8.is_complete();
            prop_assert_eq!(valid, std::str::from_utf8(&bytes).is_ok());
        }

        #[test]
        fn valid_text_may_be_cut_anywhere(text in ".{0,20}", size in 1..5_usize) {
            let mut utf8 = Utf8::default();
            prop_assert!(text.as_bytes().chunks(size).all(|piece| utf8.check(piece).is_ok()) && utf8.is_complete());
        }
    }
}
