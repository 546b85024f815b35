//! Pages of the web console: pure functions from data to HTML.
//!
//! The admin port gathers the data and serves the pages. This crate knows neither HTTP nor the engine, so
//! that unit tests read each page as text. Names, descriptions and errors are texts of other people's
//! servers: [`text`] bounds them and makes them inert, and the templates escape every text.
//!
//! | module | holds |
//! |---|---|
//! | [`frame`] | head, navigation and messages that all pages share |
//! | [`text`] | texts of servers, bounded and inert |
//! | `chart` | columns, bars and sparklines |
//! | `difference` | values before and after a change, side by side |
//! | [`schema`] | JSON schemas as trees, and forms for arguments |
//! | [`pages`] | one module for each page |
//! | [`assets`] | the style sheet and the script |

pub mod assets;
mod chart;
mod difference;
pub mod frame;
pub mod links;
pub mod pages;
pub mod schema;
pub mod text;
