"""Writes cases.json: calls of CPython's statistics, and their results (CPython 3.13 and later)."""

import json
import math
import random
import statistics
import sys
from pathlib import Path

random.seed(7)
SETS = [
    [1, 2, 3, 4],
    [1, 2],
    [1, 3],
    [0.1] * 10,
    [0.1, 0.2, 0.3],
    [1e308, 1e308],
    [1e16, 1.0, -1e16],
    [2**70, 1],
    [-1.5, 2, 7],
    [random.uniform(-1e3, 1e3) for _ in range(30)],
    [random.gauss(0, 1) * 10 ** random.randint(-12, 12) for _ in range(25)],
    [random.randint(-(10**6), 10**6) for _ in range(40)],
    [5],
    [],
    [1e-300, 2e-300],
    [5e-324, 5e-324, 1e-320],
    [3, 3.0, True],
    [123456789012345678, 1.5],
]
FUNCTIONS = ["mean", "fmean", "median", "median_low", "median_high", "stdev", "pstdev", "variance", "pvariance"]


def outside(value):
    """A value as it leaves a script: numbers that JSON lacks become text."""
    if isinstance(value, list):
        return [outside(item) for item in value]
    is_big = isinstance(value, int) and abs(value) >= 2**63
    is_finite = not isinstance(value, float) or math.isfinite(value)
    return value if is_finite and not is_big else str(value).replace("nan", "NaN")


def case(call):
    try:
        value = eval("statistics." + call)
        return [call, type(value).__name__, outside(value)]
    except statistics.StatisticsError as error:
        return [call, "error", str(error)]
    except OverflowError:
        # vmcp answers `inf`: no case.
        return None


CALLS = [f"{name}({data!r})" for data in SETS for name in FUNCTIONS]
# One value has other quantiles before 3.13.
CALLS += [
    f"quantiles({data!r}, n={n}, method={method!r})"
    for data in SETS
    if len(data) > 1
    for n in (4, 3, 10)
    for method in ("exclusive", "inclusive")
]
CALLS += [f"{name}({data!r})" for data in (list("abbca"), [1, 2, 2, 3], []) for name in ("mode", "multimode")]
CALLS += [
    "stdev([1.5, 2.5, 2.75], xbar=2.0)",
    "pvariance([0.1, 0.2, 0.4], mu=0.25)",
    "variance([1, 2, 4], xbar=2)",
    "quantiles([1, 2, 3], n=0)",
    "mean(n * 0.1 for n in range(10))",
    "median({3, 1, 2})",
]
rows = [row for row in map(case, CALLS) if row]
lines = ",\n".join(json.dumps(row, allow_nan=False) for row in rows)
Path(__file__).with_name("cases.json").write_text(f"[\n{lines}\n]\n")
print(len(rows), sys.version.split()[0])
