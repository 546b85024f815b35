//! Both databases as their callers see them: contracts, files, restarts.

#[path = "support/both_stores.rs"]
mod both_stores;
mod contract;
mod drift;
mod file;
mod learned;
mod searches;
mod sessions;
mod shapes;
mod state;
