//! Compiles an [`Operation`] to SQL. Literals are bound values; names of fields are quoted.

use rusqlite::types::Value as SqlValue;
use serde_json::Value;

use super::grammar::{Aggregate, Comparison, Condition, Function, Limit, Operation, Order, OrderKey};

/// Name of the table.
pub(super) const TABLE: &str = "data";
/// Rows that a limit cannot exceed.
const MAX_LIMIT: u64 = i64::MAX as u64;

/// A query with its values. The first column is the number of a row, the one of a group that came first.
#[derive(Debug)]
pub(super) struct Query {
    pub(super) sql: String,
    pub(super) values: Vec<SqlValue>,
    pub(super) answer: Answer,
}

/// The form of an answer.
#[derive(Debug, PartialEq)]
pub(super) enum Answer {
    /// Rows, whole or these fields of them.
    Rows(Vec<usize>),
    /// The values of a field.
    Values(usize),
    /// One number.
    Single,
    /// One object of numbers.
    Object { by: Vec<usize>, names: Vec<String> },
    /// An object for each group: its fields, then its numbers.
    Objects { by: Vec<usize>, names: Vec<String> },
}

/// Quotes a name for SQL.
pub(super) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Writes the query of an operation.
pub(super) fn compile(operation: &Operation, columns: &[String]) -> Query {
    let mut writer = Writer { columns, values: Vec::new() };
    let filter = operation.filter.as_ref().map(|filter| writer.condition(filter));
    let filter = filter.map_or_else(String::new, |filter| format!(" WHERE {filter}"));
    let (sql, answer) = if let Some(field) = operation.unique {
        let value = writer.field(field);
        let filter = if filter.is_empty() { " WHERE ".to_owned() } else { format!("{filter} AND ") };
        let order = writer.order(&operation.order, &[], "min(rowid)");
        let limit = limit(operation.limit);
        let sql = format!(
            "SELECT min(rowid) FROM {TABLE}{filter}{value} IS NOT NULL GROUP BY {value}{order}{limit}"
        );
        (sql, Answer::Values(field))
    } else if operation.group.is_empty() && operation.aggregates.is_empty() {
        (writer.rows(operation, &filter), Answer::Rows(operation.select.clone()))
    } else {
        writer.numbers(operation, &filter)
    };
    Query { sql, values: writer.values, answer }
}

fn limit(limit: Option<Limit>) -> String {
    limit.map_or_else(String::new, |limit| format!(" LIMIT {}", limit.count.min(MAX_LIMIT)))
}

struct Writer<'a> {
    columns: &'a [String],
    values: Vec<SqlValue>,
}

impl Writer<'_> {
    fn field(&self, field: usize) -> String {
        self.columns.get(field).map_or_else(|| "NULL".to_owned(), |name| quoted(name))
    }

    /// Returns the number in a field: of a text that is a number, too.
    fn number(&self, field: usize) -> String {
        let field = self.field(field);
        format!(
            "CASE typeof({field}) WHEN 'integer' THEN {field} WHEN 'real' THEN {field} WHEN 'text' THEN \
             CASE WHEN {field} GLOB '*[0-9]*' AND ltrim({field}, '+- ') NOT GLOB '*[^0-9.]*' \
             THEN CAST({field} AS REAL) END END"
        )
    }

    fn bind(&mut self, value: SqlValue) -> String {
        self.values.push(value);
        format!("?{}", self.values.len())
    }

    fn rows(&self, operation: &Operation, filter: &str) -> String {
        match operation.limit {
            Some(last) if last.from_end && operation.order.is_empty() => format!(
                "SELECT number FROM (SELECT rowid AS number FROM {TABLE}{filter} ORDER BY rowid DESC{}) ORDER BY number",
                limit(Some(last))
            ),
            any => {
                let order = self.order(&operation.order, &[], "rowid");
                format!("SELECT rowid FROM {TABLE}{filter}{order}{}", limit(any))
            }
        }
    }

    /// Writes functions over all rows, or over groups.
    fn numbers(&self, operation: &Operation, filter: &str) -> (String, Answer) {
        let count = [Aggregate { function: Function::Count, field: None }];
        let aggregates =
            if operation.aggregates.is_empty() { count.as_slice() } else { operation.aggregates.as_slice() };
        let numbers: Vec<String> = aggregates.iter().map(|aggregate| self.aggregate(*aggregate)).collect();
        let names: Vec<String> = aggregates.iter().map(|aggregate| self.name(*aggregate)).collect();
        let select = format!("SELECT min(rowid), {} FROM {TABLE}{filter}", numbers.join(", "));
        if operation.group.is_empty() {
            let answer =
                if names.len() == 1 { Answer::Single } else { Answer::Object { by: Vec::new(), names } };
            return (select, answer);
        }
        let by: Vec<String> = operation.group.iter().map(|field| self.field(*field)).collect();
        let is_top = operation.limit.is_some_and(|limit| limit.is_top) && operation.order.is_empty();
        let order = match numbers.first() {
            Some(first) if is_top => format!(" ORDER BY {first} DESC, min(rowid)"),
            _ => self.order(&operation.order, aggregates, "min(rowid)"),
        };
        let sql = format!("{select} GROUP BY {}{order}{}", by.join(", "), limit(operation.limit));
        (sql, Answer::Objects { by: operation.group.clone(), names })
    }

    /// Writes an order; equal rows stay in the order in which they came.
    fn order(&self, order: &[Order], aggregates: &[Aggregate], last: &str) -> String {
        let mut keys: Vec<String> = Vec::new();
        for order in order {
            let direction = if order.descends { " DESC" } else { "" };
            let found = match order.by {
                OrderKey::Field(field) => {
                    aggregates.iter().find(|aggregate| aggregate.field == Some(field)).copied()
                }
                OrderKey::Aggregate(function) => Aggregate::named(aggregates, function),
            };
            match (order.by, found) {
                (_, Some(aggregate)) => keys.push(format!("{}{direction}", self.aggregate(aggregate))),
                // Numbers in texts come in the order of numbers; rows without a value come last.
                (OrderKey::Field(field), None) => {
                    let (value, number) = (self.field(field), self.number(field));
                    keys.push(format!("{value} IS NULL, {number}{direction}, {value}{direction}"));
                }
                // The grammar refuses an order by a function that is not asked for.
                (OrderKey::Aggregate(_), None) => {}
            }
        }
        keys.push(last.to_owned());
        format!(" ORDER BY {}", keys.join(", "))
    }

    fn aggregate(&self, aggregate: Aggregate) -> String {
        match (aggregate.function, aggregate.field) {
            (Function::Count, Some(field)) => format!("count({})", self.field(field)),
            (Function::CountUnique, Some(field)) => format!("count(DISTINCT {})", self.field(field)),
            (Function::Sum, Some(field)) => format!("sum({})", self.number(field)),
            (Function::Avg, Some(field)) => format!("avg({})", self.number(field)),
            (Function::Min, Some(field)) => self.extreme("min", field),
            (Function::Max, Some(field)) => self.extreme("max", field),
            (Function::Median, Some(field)) => format!("median({})", self.number(field)),
            (Function::Deviation, Some(field)) => format!("stdev({})", self.number(field)),
            (_, None) => "count(*)".to_owned(),
        }
    }

    /// Writes the least or largest value: of the numbers where there are any, else of the texts.
    fn extreme(&self, function: &str, field: usize) -> String {
        format!("coalesce({function}({}), {function}({}))", self.number(field), self.field(field))
    }

    fn name(&self, aggregate: Aggregate) -> String {
        let field = aggregate.field.and_then(|field| self.columns.get(field));
        let function = match aggregate.function {
            Function::Count => "count",
            Function::CountUnique => "count_unique",
            Function::Sum => "sum",
            Function::Avg => "avg",
            Function::Min => "min",
            Function::Max => "max",
            Function::Median => "median",
            Function::Deviation => "stdev",
        };
        field.map_or_else(|| function.to_owned(), |field| format!("{function}_{field}"))
    }

    fn condition(&mut self, condition: &Condition) -> String {
        match condition {
            Condition::And(one, other) => format!("({} AND {})", self.condition(one), self.condition(other)),
            Condition::Or(one, other) => format!("({} OR {})", self.condition(one), self.condition(other)),
            Condition::Compare { field, comparison, value, negated } => {
                let holds = self.compare(*field, *comparison, value);
                // A row without the field does not hold, so that its opposite does.
                if *negated { format!("NOT coalesce({holds}, 0)") } else { format!("coalesce({holds}, 0)") }
            }
        }
    }

    fn compare(&mut self, field: usize, comparison: Comparison, value: &Value) -> String {
        let (name, number) = (self.field(field), self.number(field));
        let text = match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let operator = match comparison {
            Comparison::Missing => return format!("({name} IS NULL OR {name} = '')"),
            Comparison::Contains => {
                let text = self.bind(SqlValue::Text(text));
                return format!("instr(lower({name}), lower({text})) > 0");
            }
            Comparison::StartsWith => {
                let text = self.bind(SqlValue::Text(text));
                return format!("lower(substr({name}, 1, length({text}))) = lower({text})");
            }
            Comparison::EndsWith => {
                let text = self.bind(SqlValue::Text(text));
                return format!("lower(substr({name}, -length({text}))) = lower({text})");
            }
            Comparison::Equal => "=",
            Comparison::Greater => ">",
            Comparison::AtLeast => ">=",
            Comparison::Less => "<",
            Comparison::AtMost => "<=",
        };
        match value {
            Value::Null => format!("{name} IS NULL"),
            Value::Bool(wanted) => {
                let (text, wanted) = (wanted.to_string(), i64::from(*wanted));
                format!("({name} {operator} {wanted} OR lower({name}) = '{text}')")
            }
            Value::Number(wanted) => {
                let wanted = wanted
                    .as_i64()
                    .map_or_else(|| SqlValue::Real(wanted.as_f64().unwrap_or_default()), SqlValue::Integer);
                format!("{number} {operator} {}", self.bind(wanted))
            }
            Value::String(_) | Value::Array(_) | Value::Object(_) => {
                format!("CAST({name} AS TEXT) {operator} {}", self.bind(SqlValue::Text(text)))
            }
        }
    }
}
