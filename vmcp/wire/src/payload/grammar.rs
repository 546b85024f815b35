//! State machines for JSON numbers and for `true`, `false` and `null`, a byte at a time.

/// The part of a number that was read last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Number {
    Minus,
    Zero,
    Integer,
    Point,
    Fraction,
    Exponent,
    ExponentSign,
    ExponentDigits,
}

impl Number {
    pub(super) fn begin(byte: u8) -> Option<Self> {
        match byte {
            b'-' => Some(Self::Minus),
            b'0' => Some(Self::Zero),
            b'1'..=b'9' => Some(Self::Integer),
            _ => None,
        }
    }

    /// Takes one more byte; `None` if the byte does not belong to the number.
    pub(super) fn next(self, byte: u8) -> Option<Self> {
        match (self, byte) {
            (Self::Minus, b'0') => Some(Self::Zero),
            (Self::Minus, b'1'..=b'9') | (Self::Integer, b'0'..=b'9') => Some(Self::Integer),
            (Self::Zero | Self::Integer, b'.') => Some(Self::Point),
            (Self::Point | Self::Fraction, b'0'..=b'9') => Some(Self::Fraction),
            (Self::Zero | Self::Integer | Self::Fraction, b'e' | b'E') => Some(Self::Exponent),
            (Self::Exponent, b'+' | b'-') => Some(Self::ExponentSign),
            (Self::Exponent | Self::ExponentSign | Self::ExponentDigits, b'0'..=b'9') => {
                Some(Self::ExponentDigits)
            }
            _ => None,
        }
    }

    pub(super) fn may_end(self) -> bool {
        matches!(self, Self::Zero | Self::Integer | Self::Fraction | Self::ExponentDigits)
    }
}

/// The bytes of `true`, `false` or `null` that are still to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Literal {
    rest: &'static [u8],
}

impl Literal {
    pub(super) fn begin(byte: u8) -> Option<Self> {
        let rest: &[u8] = match byte {
            b't' => b"rue",
            b'f' => b"alse",
            b'n' => b"ull",
            _ => return None,
        };
        Some(Self { rest })
    }

    pub(super) fn next(self, byte: u8) -> Option<Self> {
        let (first, rest) = self.rest.split_first()?;
        (*first == byte).then_some(Self { rest })
    }

    pub(super) fn is_complete(self) -> bool {
        self.rest.is_empty()
    }
}
