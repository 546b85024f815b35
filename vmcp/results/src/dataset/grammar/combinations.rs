//! Combinations of clauses without an answer: an operation is refused before one of its clauses is dropped.

use super::{Aggregate, Function, Limit, Operation, OrderKey};

/// Returns an error, with a remedy, for clauses of which one would have no effect.
pub(super) fn check(operation: &Operation) -> Result<(), &'static str> {
    let Operation { unique, group, aggregates, select, limit, order, .. } = operation;
    let has_numbers = !aggregates.is_empty() || !group.is_empty();
    let is_grouped = |field: &usize| group.contains(field) || *unique == Some(*field);
    if unique.is_some() && !aggregates.is_empty() {
        return Err(
            "unique values cannot stand beside numbers; ask for `count unique` of a field, or use `sql:`",
        );
    }
    if unique.is_some() && !group.is_empty() {
        return Err("unique values cannot stand beside groups; ask for one of the two, or use `sql:`");
    }
    if (has_numbers || unique.is_some()) && !select.iter().all(is_grouped) {
        return Err("fields cannot be selected beside numbers or unique values; name them behind `group by`");
    }
    if limit.is_some() && !aggregates.is_empty() && group.is_empty() {
        return Err("a limit cannot stand beside numbers about all rows; use `sql:`, with the limit in \
                    `FROM (SELECT * FROM data LIMIT …)`");
    }
    let is_ordered = !order.is_empty() || !group.is_empty() || unique.is_some();
    if is_ordered && limit.is_some_and(|Limit { from_end, .. }| from_end) {
        return Err(
            "`last` counts rows as they came; sort the other way round and take the first, or use `sql:`",
        );
    }
    if order.iter().all(|order| has_key(operation, order.by)) {
        Ok(())
    } else if group.is_empty() {
        Err("only groups are sorted by a function; add `group by` and the function, or use `sql:`")
    } else {
        Err(
            "groups are sorted by a field that groups them or by a number that is asked for; name the number, \
             such as `sum` of a field, or use `sql:`",
        )
    }
}

/// True if the results have the key of an order.
fn has_key(operation: &Operation, key: OrderKey) -> bool {
    let Operation { group, aggregates, .. } = operation;
    match key {
        OrderKey::Aggregate(Function::Count) if aggregates.is_empty() => !group.is_empty(),
        OrderKey::Aggregate(function) => Aggregate::named(aggregates, function).is_some(),
        // Without groups there is one number, or rows and values, which have all fields.
        OrderKey::Field(_) if group.is_empty() => true,
        OrderKey::Field(field) => {
            group.contains(&field) || aggregates.iter().any(|number| number.field == Some(field))
        }
    }
}
