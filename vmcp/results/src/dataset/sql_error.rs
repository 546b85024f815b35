//! [`SqlError`]: a query that was refused, failed or met a limit.

use std::time::Duration;

use super::memory::MAX_GROWTH_BYTES;

/// Rows of an answer; a query with more is an error.
pub(super) const MAX_RESULT_ROWS: usize = 100_000;
/// Bytes of an answer, 16 MiB; a larger one is an error.
pub const MAX_RESULT_BYTES: usize = 16 << 20;

/// Errors of a query. The text is for the model that wrote it.
#[derive(Debug, thiserror::Error)]
pub enum SqlError {
    /// The query asks for something else than to read the table.
    #[error("operation: a query may only SELECT from the table `data`, and call functions that compute: {0}")]
    Forbidden(String),
    /// SQLite refuses the query.
    #[error("operation: SQL: {0}")]
    Sql(String),
    /// The query fails on a row. The text may hold values of the data.
    #[error("operation: SQL: {0}")]
    Row(String),
    /// The time is over.
    #[error("operation: it took longer than {0:?} and was ended; ask for less, or raise timeout")]
    Time(Duration),
    /// The memory is used up.
    #[error("operation: the query needed more than {} MiB of memory and was ended; ask for less", MAX_GROWTH_BYTES >> 20)]
    Memory,
    /// The answer is too large.
    #[error(
        "operation: the answer has more than {MAX_RESULT_ROWS} rows or {MAX_RESULT_BYTES} bytes; add a limit or group the rows"
    )]
    TooLarge,
    /// The data do not fit into a table.
    #[error("data: does not fit into a table: {0}")]
    Load(String),
}
