//! [`Params`]: the parameters of a request or notification, read two levels deep: their own keys and those of
//! `_meta`.

use serde_json::value::RawValue;
use vmcp_json::object::{Object, ObjectError};

use crate::message::{meta::META, meta::Meta};

/// Parameters and the metadata among them.
#[derive(Debug, Clone, Default)]
pub struct Params<'a> {
    /// True if the message has parameters; absent ones read as `{}`.
    pub present: bool,
    /// All keys, `_meta` among them.
    pub object: Object<'a>,
    /// The keys of `_meta`; empty when it is absent or null.
    pub meta: Meta<'a>,
}

/// Parameters that cannot be read; answer with [`INVALID_PARAMS`](crate::codes::INVALID_PARAMS).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParamsError {
    /// The parameters themselves cannot be read.
    #[error("`params`: {0}")]
    Params(ObjectError),
    /// The metadata cannot be read.
    #[error("`params._meta`: {0}")]
    Meta(ObjectError),
}

impl<'a> Params<'a> {
    /// Reads the parameters of a message.
    pub fn parse(raw: Option<&'a RawValue>) -> Result<Self, ParamsError> {
        let Some(raw) = raw else { return Ok(Self::default()) };
        let object = Object::parse(raw).map_err(ParamsError::Params)?;
        let meta = match object.text(META).filter(|meta| *meta != "null") {
            Some(meta) => Meta::from(Object::parse_valid(meta).map_err(ParamsError::Meta)?),
            None => Meta::default(),
        };
        Ok(Self { present: true, object, meta })
    }
}
