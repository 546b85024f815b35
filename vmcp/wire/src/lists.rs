//! Lists of tools, prompts, resources and tasks: pages as backends send them and as clients get them, and the
//! cursors between pages.

pub mod cursor;
pub mod pages;
pub mod tasks;
