//! Files of other clients, and their places.

mod import;
mod import_values;
mod known_clients;
