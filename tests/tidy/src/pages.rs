//! Rules for Markdown pages: links and lists of contents lead to headings, the tables of ARCHITECTURE.md are
//! those of the tree, and tables of figures say how they were recorded.

mod contents;
mod figures;
mod links;
mod map;
mod markdown;

pub(crate) use contents::list_every_heading;
pub(crate) use figures::name_their_source;
pub(crate) use links::lead_somewhere;
pub(crate) use map::is_of_the_tree;
pub(crate) use markdown::prose;
