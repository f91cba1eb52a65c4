"""Intervals over requests. Steps inside a request depend on each other, so the request is the unit.

numpy only; scipy is the oracle in the tests.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from dflash_doctor.records import Estimate, Source

CONFIDENCE = 0.95

_T_975 = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
    2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
    2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip
"""97.5 % quantiles of Student's t for 1 to 30 degrees of freedom (any statistical table)."""

_Z_975 = 1.959963984540054


def t_quantile(degrees_of_freedom: int) -> float:
    """97.5 % quantile of Student's t.

    Table up to 30 degrees of freedom, then the Cornish-Fisher expansion around the normal quantile
    (Abramowitz and Stegun 26.7.5), which is right to four digits there.
    """
    if degrees_of_freedom <= len(_T_975):
        return _T_975[degrees_of_freedom - 1]
    z, n = _Z_975, float(degrees_of_freedom)
    return z + (z**3 + z) / (4 * n) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * n**2)


def ratio_estimate(
    numerators: ArrayLike,
    denominators: ArrayLike,
    *,
    offset: float = 0.0,
    bounds: tuple[float, float] = (-math.inf, math.inf),
    source: Source = "derived",
) -> Estimate:
    """A pooled ratio with its 95 % interval: sum(numerators) / sum(denominators) + offset.

    The variance is that of the linearised ratio (delta method), with the request as the unit:
    n / (n - 1) * sum((y_i - R x_i)^2) / sum(x_i)^2; Cochran, Sampling Techniques, 3rd ed., section 6.3.
    The quantile is Student's t with n - 1 degrees of freedom.

    Args:
        numerators: one value a request.
        denominators: one value a request; requests with 0 carry no information and are left out.
        offset: added to the ratio and its interval.
        bounds: the interval is cut to these (after the offset).
        source: where the numbers came from.
    """
    y, x = np.asarray(numerators, float), np.asarray(denominators, float)
    informative = x > 0
    y, x = y[informative], x[informative]
    count = int(x.size)
    if count == 0:
        return Estimate(value=None, source="absent")
    total = float(x.sum())
    ratio = float(y.sum()) / total
    if count < 2:
        return Estimate(value=ratio + offset, num_requests=count, source=source)
    variance = count / (count - 1) * float(((y - ratio * x) ** 2).sum()) / total**2
    return _with_interval(ratio + offset, math.sqrt(variance), count, bounds, source)


def mean_estimate(
    values: Sequence[float],
    *,
    bounds: tuple[float, float] = (-math.inf, math.inf),
    source: Source = "derived",
) -> Estimate:
    """A mean over requests with its 95 % t interval."""
    data = np.asarray(values, float)
    count = int(data.size)
    if count == 0:
        return Estimate(value=None, source="absent")
    mean = float(data.mean())
    if count < 2:
        return Estimate(value=mean, num_requests=count, source=source)
    return _with_interval(mean, float(data.std(ddof=1)) / math.sqrt(count), count, bounds, source)


def _with_interval(
    value: float, error: float, count: int, bounds: tuple[float, float], source: Source
) -> Estimate:
    reach = t_quantile(count - 1) * error
    low, high = bounds
    return Estimate(
        value=value,
        # Rounding must not push a bound past the value it surrounds.
        low=min(value, max(low, value - reach)),
        high=max(value, min(high, value + reach)),
        num_requests=count,
        source=source,
    )
