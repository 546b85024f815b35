//! `median`, `stdev` and `variance`, which SQLite lacks: over the numbers of a column, as Python's module
//! `statistics` defines them. `stddev` is another name of `stdev`.

use rusqlite::functions::{Aggregate, Context, FunctionFlags};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Error, Result};

/// Most numbers that `median` keeps: 32 MB; a further one is an error.
const MAX_NUMBERS: usize = 4_000_000;

/// Registers the functions.
pub(super) fn register(connection: &Connection) -> Result<()> {
    let flags =
        FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC | FunctionFlags::SQLITE_INNOCUOUS;
    connection.create_aggregate_function("median", 1, flags, Median)?;
    connection.create_aggregate_function("variance", 1, flags, Spread { is_root: false })?;
    connection.create_aggregate_function("stdev", 1, flags, Spread { is_root: true })?;
    connection.create_aggregate_function("stddev", 1, flags, Spread { is_root: true })
}

/// Returns the argument if it is a number.
fn number(context: &Context<'_>) -> Option<f64> {
    match context.get_raw(0) {
        ValueRef::Integer(whole) => Some(whole as f64),
        ValueRef::Real(number) => Some(number),
        ValueRef::Null | ValueRef::Text(_) | ValueRef::Blob(_) => None,
    }
}

/// The number in the middle, or the mean of both numbers there.
struct Median;

impl Aggregate<Vec<f64>, Option<f64>> for Median {
    fn init(&self, _: &mut Context<'_>) -> Result<Vec<f64>> {
        Ok(Vec::new())
    }

    fn step(&self, context: &mut Context<'_>, numbers: &mut Vec<f64>) -> Result<()> {
        let Some(number) = number(context) else { return Ok(()) };
        if numbers.len() >= MAX_NUMBERS {
            let error = format!("median takes at most {MAX_NUMBERS} numbers");
            return Err(Error::UserFunctionError(error.into()));
        }
        numbers.push(number);
        Ok(())
    }

    fn finalize(&self, _: &mut Context<'_>, numbers: Option<Vec<f64>>) -> Result<Option<f64>> {
        let mut numbers = numbers.unwrap_or_default();
        numbers.sort_unstable_by(f64::total_cmp);
        let middle = numbers.len() / 2;
        let upper = numbers.get(middle).copied();
        let lower = middle.checked_sub(1).and_then(|below| numbers.get(below)).copied();
        Ok(match (lower, upper) {
            (Some(lower), Some(upper)) if numbers.len().is_multiple_of(2) => {
                Some(f64::midpoint(lower, upper))
            }
            (_, upper) => upper,
        })
    }
}

/// Variance of a sample, or its root; nothing for fewer than two numbers.
struct Spread {
    is_root: bool,
}

/// Sums of Welford's method, which stays exact where the numbers are close to each other.
#[derive(Default)]
struct Sums {
    count: f64,
    mean: f64,
    squares: f64,
}

impl Aggregate<Sums, Option<f64>> for Spread {
    fn init(&self, _: &mut Context<'_>) -> Result<Sums> {
        Ok(Sums::default())
    }

    fn step(&self, context: &mut Context<'_>, sums: &mut Sums) -> Result<()> {
        if let Some(number) = number(context) {
            sums.count += 1.0;
            let difference = number - sums.mean;
            sums.mean += difference / sums.count;
            sums.squares += difference * (number - sums.mean);
        }
        Ok(())
    }

    fn finalize(&self, _: &mut Context<'_>, sums: Option<Sums>) -> Result<Option<f64>> {
        let variance = sums.filter(|sums| sums.count > 1.0).map(|sums| sums.squares / (sums.count - 1.0));
        Ok(if self.is_root { variance.map(f64::sqrt) } else { variance })
    }
}
