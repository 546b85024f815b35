//! The grammar of operations in words: filter, sort, top N, select, group by, statistics, unique values,
//! count. Every word belongs to a clause or to a list of words without a meaning here; any other word is an
//! error, because a guess would be a wrong answer.

mod clauses;
mod combinations;
mod conditions;
mod fields;
mod overrides;
mod tokens;
mod words;

use serde_json::{Map, Value};

use clauses::Parser;

/// An operation that is understood. Columns are positions in the table.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Operation {
    /// Rows that count.
    pub(super) filter: Option<Condition>,
    /// Keys of the order, the first one first.
    pub(super) order: Vec<Order>,
    /// Most rows, groups or values.
    pub(super) limit: Option<Limit>,
    /// Fields of each row; all if empty.
    pub(super) select: Vec<usize>,
    /// The field whose different values are asked for.
    pub(super) unique: Option<usize>,
    /// Fields by which rows are grouped.
    pub(super) group: Vec<usize>,
    /// Numbers about the rows, or about each group.
    pub(super) aggregates: Vec<Aggregate>,
}

/// A bound on the number of results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Limit {
    /// Most of them.
    pub(super) count: u64,
    /// True for the last ones.
    pub(super) from_end: bool,
    /// True for `top N`, which of groups means those with the largest numbers.
    pub(super) is_top: bool,
}

/// A key of an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Order {
    /// The key.
    pub(super) by: OrderKey,
    /// True for the largest first.
    pub(super) descends: bool,
}

/// The value that an order compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OrderKey {
    /// A field.
    Field(usize),
    /// A number about each group.
    Aggregate(Function),
}

/// A number about rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Aggregate {
    /// The function.
    pub(super) function: Function,
    /// Its field; `None` counts rows.
    pub(super) field: Option<usize>,
}

impl Aggregate {
    /// Returns the number among these that an order by a function means: `count` is also a count of unique
    /// values.
    pub(super) fn named(numbers: &[Aggregate], function: Function) -> Option<Aggregate> {
        let of = |function| numbers.iter().find(|number| number.function == function).copied();
        of(function).or_else(|| of(Function::CountUnique).filter(|_| function == Function::Count))
    }
}

/// Functions of many values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Function {
    /// Number of values that are not null, or of rows.
    Count,
    /// Number of different values.
    CountUnique,
    /// Sum.
    Sum,
    /// Arithmetic mean.
    Avg,
    /// Smallest value.
    Min,
    /// Largest value.
    Max,
    /// Value in the middle.
    Median,
    /// Standard deviation of a sample.
    Deviation,
}

/// A condition on rows.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Condition {
    /// Both hold.
    And(Box<Condition>, Box<Condition>),
    /// One of both holds.
    Or(Box<Condition>, Box<Condition>),
    /// A comparison of a field.
    Compare {
        /// The field.
        field: usize,
        /// The comparison.
        comparison: Comparison,
        /// The value; unused by [`Comparison::Missing`].
        value: Value,
        /// True for the opposite.
        negated: bool,
    },
}

/// Comparisons of a field with a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Comparison {
    /// `=`
    Equal,
    /// `>`
    Greater,
    /// `>=`
    AtLeast,
    /// `<`
    Less,
    /// `<=`
    AtMost,
    /// The text is in the field's text, in any letter case.
    Contains,
    /// The field's text begins so.
    StartsWith,
    /// The field's text ends so.
    EndsWith,
    /// Absent, null or an empty text.
    Missing,
}

/// Words without an operation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "operation not understood: {problem}. Supported: filter (>, <, =, !=, contains, and/or), sort by a field, \
     top/first/limit N, select fields, group by with sum/count/avg/min/max/median/stdev, statistics of a field, \
     unique values of a field, count; or `sql: SELECT … FROM data`. Fields: {fields}"
)]
pub struct Misunderstood {
    problem: String,
    fields: String,
}

/// Characters of the fields' names in an error.
const MAX_NAMED_CHARS: usize = 400;

impl Misunderstood {
    fn new(problem: impl Into<String>, columns: &[String]) -> Misunderstood {
        let all = columns.join(", ");
        let fields = match all.char_indices().nth(MAX_NAMED_CHARS) {
            Some((end, _)) => format!("{}…", all.get(..end).unwrap_or_default()),
            None => all,
        };
        Misunderstood { problem: problem.into(), fields }
    }
}

/// Parses an operation about a table with these columns. Returns it with the names of parameters that it
/// does not use.
pub(super) fn parse(
    operation: &str,
    columns: &[String],
    parameters: &Map<String, Value>,
) -> Result<(Operation, Vec<String>), Misunderstood> {
    let misunderstood = |problem: String| Misunderstood::new(problem, columns);
    let mut parser = Parser::new(operation, columns, parameters);
    let mut parsed = parser.run().map_err(misunderstood)?;
    let mut used = parser.used_parameters;
    overrides::apply(&mut parsed, columns, parameters, &mut used).map_err(misunderstood)?;
    if parsed == Operation::default() {
        return Err(misunderstood("it asks for nothing".to_owned()));
    }
    combinations::check(&parsed).map_err(|problem| misunderstood(problem.to_owned()))?;
    let unused = parameters.keys().filter(|name| !used.contains(*name)).cloned().collect();
    Ok((parsed, unused))
}
