//! Background tasks of a backend.

pub(crate) mod connector;
mod listing;
mod notification_stream;
pub(crate) mod refresher;
