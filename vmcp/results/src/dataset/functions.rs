//! SQL functions and tables that a query may use: a list of functions that compute. A function that a later
//! SQLite adds is refused until it is listed here.

/// Functions, in lower case.
const FUNCTIONS: &[&str] = &[
    "abs",
    "acos",
    "asin",
    "atan",
    "atan2",
    "avg",
    "ceil",
    "ceiling",
    "char",
    "coalesce",
    "concat",
    "concat_ws",
    "cos",
    "count",
    "cume_dist",
    "current_date",
    "current_time",
    "current_timestamp",
    "date",
    "datetime",
    "degrees",
    "dense_rank",
    "exp",
    "first_value",
    "floor",
    "format",
    "glob",
    "group_concat",
    "hex",
    "if",
    "ifnull",
    "iif",
    "instr",
    "json",
    "json_array",
    "json_array_length",
    "json_each",
    "json_extract",
    "json_group_array",
    "json_group_object",
    "json_insert",
    "json_object",
    "json_quote",
    "json_remove",
    "json_replace",
    "json_set",
    "json_tree",
    "json_type",
    "json_valid",
    "julianday",
    "lag",
    "last_value",
    "lead",
    "length",
    "like",
    "likelihood",
    "likely",
    "ln",
    "log",
    "log10",
    "log2",
    "lower",
    "ltrim",
    "max",
    "median",
    "min",
    "mod",
    "nth_value",
    "ntile",
    "nullif",
    "octet_length",
    "percent_rank",
    "pi",
    "pow",
    "power",
    "printf",
    "quote",
    "radians",
    "random",
    "rank",
    "replace",
    "round",
    "row_number",
    "rtrim",
    "sign",
    "sin",
    "sqrt",
    "stddev",
    "stdev",
    "strftime",
    "string_agg",
    "substr",
    "substring",
    "sum",
    "tan",
    "time",
    "timediff",
    "total",
    "trim",
    "trunc",
    "typeof",
    "unicode",
    "unixepoch",
    "unlikely",
    "upper",
    "variance",
    "->",
    "->>",
];

/// Table-valued functions.
const TABLES: &[&str] = &["json_each", "json_tree"];

/// Beginnings of the names of tables that SQLite brings along.
const BUILT_IN: &[&str] =
    &["sqlite_", "pragma_", "dbstat", "fts", "rtree", "bytecode", "tables_used", "completion"];

/// True if SQLite brings a table of this name along, which tells about the database and not about the data.
pub(super) fn is_built_in(table: &str) -> bool {
    let table = table.to_lowercase();
    BUILT_IN.iter().any(|prefix| table.starts_with(prefix))
}

/// True if a query may call the function.
pub(super) fn is_function(name: &str) -> bool {
    FUNCTIONS.contains(&name.to_lowercase().as_str())
}

/// True if a query may read the table beside the data.
pub(super) fn is_table(name: &str) -> bool {
    TABLES.contains(&name.to_lowercase().as_str())
}
