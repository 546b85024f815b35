//! Background tasks of a backend: the connector makes and replaces the connection, the refresher keeps the
//! definitions, the notification stream hears of changes.

mod attempt;
pub(crate) mod connector;
pub(crate) mod idle_stop;
mod list_failure;
mod listing;
mod notification_stream;
pub(crate) mod refresher;
pub(crate) mod session_refresher;
