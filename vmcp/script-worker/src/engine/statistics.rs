//! `import statistics`: a part of CPython's module. The functions are Python, which runs before the script;
//! sums and roots are computed here, exactly, and rounded at the end, as CPython does. A result beyond the
//! range of floats is `inf`, where CPython raises `OverflowError`.

mod exact;

use monty_types::{ExcType, MontyException, MontyObject};
use num_bigint::BigInt;

use self::exact::Ratio;
use super::values;

/// Name of the module in scripts.
pub(super) const NAME: &str = "statistics";
/// Name of the module's object, which an import assigns.
pub(super) const MODULE: &str = "__statistics__";
/// Function of the host: exact mean, sum of squares and roots.
pub(super) const EXACT: &str = "__statistics_exact";
/// Names that can be imported.
pub(super) const FUNCTIONS: [&str; 13] = [
    "mean",
    "fmean",
    "median",
    "median_low",
    "median_high",
    "mode",
    "multimode",
    "stdev",
    "pstdev",
    "variance",
    "pvariance",
    "quantiles",
    "StatisticsError",
];

/// Defines the module. Classes of the interpreter cannot inherit, so that `StatisticsError` is `ValueError`.
pub(super) const PRELUDE: &str = r"
class __Statistics:
    pass

def __statistics_module():
    def numbers(data, least, name):
        data = list(data)
        if len(data) < least:
            if least == 1:
                raise ValueError(name + ' requires at least one data point')
            raise ValueError(name + ' requires at least two data points')
        return data

    def ordered(data):
        data = sorted(data)
        if not data:
            raise ValueError('no median for empty data')
        return data

    def mean(data):
        data = numbers(data, 1, 'mean')
        return __statistics_exact('quotient', data, len(data))

    def fmean(data):
        data = numbers(data, 1, 'fmean')
        return __statistics_exact('float', data, 1) / len(data)

    def median(data):
        data = ordered(data)
        half = len(data) // 2
        if len(data) % 2 == 1:
            return data[half]
        return (data[half - 1] + data[half]) / 2

    def median_low(data):
        data = ordered(data)
        return data[(len(data) - 1) // 2]

    def median_high(data):
        data = ordered(data)
        return data[len(data) // 2]

    def counted(data):
        counts = {}
        for item in data:
            counts[item] = counts.get(item, 0) + 1
        return counts

    def mode(data):
        counts = counted(data)
        if not counts:
            raise ValueError('no mode for empty data')
        most = max(counts.values())
        for item, count in counts.items():
            if count == most:
                return item

    def multimode(data):
        counts = counted(data)
        most = max(counts.values()) if counts else 0
        return [item for item, count in counts.items() if count == most]

    def spread(what, data, count, center):
        if center is None:
            return __statistics_exact(what + ' of squares', data, count)
        return __statistics_exact(what, [(x - center) * (x - center) for x in data], count)

    def variance(data, xbar=None):
        data = numbers(data, 2, 'variance')
        return spread('quotient', data, len(data) - 1, xbar)

    def pvariance(data, mu=None):
        data = numbers(data, 1, 'pvariance')
        return spread('quotient', data, len(data), mu)

    def stdev(data, xbar=None):
        data = numbers(data, 2, 'stdev')
        return spread('root', data, len(data) - 1, xbar)

    def pstdev(data, mu=None):
        data = numbers(data, 1, 'pstdev')
        return spread('root', data, len(data), mu)

    def quantiles(data, *, n=4, method='exclusive'):
        if n < 1:
            raise ValueError('n must be at least 1')
        data = sorted(data)
        size = len(data)
        if size < 2:
            if size == 1:
                return data * (n - 1)
            raise ValueError('must have at least one data point')
        result = []
        if method == 'inclusive':
            for i in range(1, n):
                place, delta = divmod(i * (size - 1), n)
                result.append((data[place] * (n - delta) + data[place + 1] * delta) / n)
            return result
        if method == 'exclusive':
            for i in range(1, n):
                place = min(max(i * (size + 1) // n, 1), size - 1)
                delta = i * (size + 1) - place * n
                result.append((data[place - 1] * (n - delta) + data[place] * delta) / n)
            return result
        raise ValueError('Unknown method: ' + repr(method))

    module = __Statistics()
    module.mean = mean
    module.fmean = fmean
    module.median = median
    module.median_low = median_low
    module.median_high = median_high
    module.mode = mode
    module.multimode = multimode
    module.variance = variance
    module.pvariance = pvariance
    module.stdev = stdev
    module.pstdev = pstdev
    module.quantiles = quantiles
    module.StatisticsError = ValueError
    return module

__statistics__ = __statistics_module()
";

/// Answers `__statistics_exact(what, data, count)`: the sum of the data, or of their squared distances from
/// the mean, through `count`; or its root.
pub(super) fn exact(given: &[MontyObject]) -> Result<MontyObject, MontyException> {
    let [MontyObject::String(what), MontyObject::List(data), MontyObject::Int(count)] = given else {
        return Err(type_error("statistics needs a list of numbers".to_owned()));
    };
    if let Some(sum) = sum_of_infinite(data) {
        return Ok(MontyObject::Float(if what.starts_with("root") { sum.sqrt() } else { sum }));
    }
    let numbers: Result<Vec<Ratio>, MontyException> = data.iter().map(number).collect();
    let numbers = numbers?;
    let sum = if what.ends_with(" of squares") { exact::squares(&numbers) } else { exact::sum(&numbers) };
    let quotient = sum.divided(usize::try_from(*count).unwrap_or_default().max(1));
    if what.starts_with("root") {
        return Ok(MontyObject::Float(quotient.root()));
    }
    if what == "float" {
        return Ok(MontyObject::Float(quotient.to_f64()));
    }
    let all_whole = data.iter().all(|item| !matches!(item, MontyObject::Float(_)));
    Ok(value(&quotient, all_whole))
}

/// Returns the sum of floats that are infinite or NaN, which decides the result; `None` without such a float.
fn sum_of_infinite(data: &[MontyObject]) -> Option<f64> {
    let infinite = data.iter().filter_map(|item| match item {
        MontyObject::Float(value) => Some(*value).filter(|value| !value.is_finite()),
        _ => None,
    });
    infinite.reduce(|sum, value| sum + value)
}

/// Returns an exact number as Python has it: whole numbers stay whole among whole numbers.
fn value(ratio: &Ratio, all_whole: bool) -> MontyObject {
    match ratio.whole().filter(|_| all_whole) {
        Some(whole) => i64::try_from(&whole).map_or(MontyObject::BigInt(whole), MontyObject::Int),
        None => MontyObject::Float(ratio.to_f64()),
    }
}

fn number(object: &MontyObject) -> Result<Ratio, MontyException> {
    match object {
        MontyObject::Bool(value) => Ok(Ratio::from(BigInt::from(u8::from(*value)))),
        MontyObject::Int(value) => Ok(Ratio::from(BigInt::from(*value))),
        MontyObject::BigInt(value) => Ok(Ratio::from(value.clone())),
        MontyObject::Float(value) => {
            Ratio::of_f64(*value).ok_or_else(|| type_error(format!("{value} is no finite number")))
        }
        other => {
            let shown: String = values::text(other).chars().take(60).collect();
            Err(type_error(format!("can't convert to a number: {shown}")))
        }
    }
}

fn type_error(message: String) -> MontyException {
    MontyException::new(ExcType::TypeError, Some(message))
}
