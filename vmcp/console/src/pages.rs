//! One module for each page: its data, and its function from data to HTML.

pub mod calls;
pub mod catalog;
pub mod clients;
pub mod configuration;
pub mod connect;
pub mod logs;
pub mod overview;
pub mod search;
pub mod server;
pub mod sign_in;
pub mod tool;
pub mod try_tool;
pub mod wanted;
