//! Lists: pages as backends send them and as they are written for clients, and the cursors between pages.

pub mod cursor;
pub mod pages;
pub mod tasks;
