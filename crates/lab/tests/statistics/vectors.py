#!/usr/bin/python3
"""Writes vectors.json beside itself: what SciPy and statsmodels say of samples, for the tests of lab's statistics.

Run it when a statistic is added: apt-get install python3-scipy python3-statsmodels; python3 vectors.py. The tests read
the file only.
"""

import json
import pathlib

import numpy
import scipy
import statsmodels
from scipy import stats
from statsmodels.stats.multitest import multipletests

rng = numpy.random.default_rng(20030101)


def rounded(values):
    """Few digits, so that what is tested is what stands in the file."""
    return [round(float(value), 4) for value in values]


def normal():
    points = [-9, -5, -3.001, -3, -2.999, -1.96, -0.5, 0, 0.1, 1, 2.5, 3, 4, 6]
    return [{"x": x, "cumulative": stats.norm.cdf(x)} for x in points]


def student():
    degrees = [1, 2, 3, 4, 7, 9, 19, 49, 199, 200, 999]
    return [{"freedom": n, "quantile": stats.t.ppf(0.975, n)} for n in degrees]


def means():
    samples = [rng.normal(100, 5, 10), rng.exponential(3, 25), [1.5, 2.5]]
    rows = []
    for sample in map(rounded, samples):
        low, high = stats.t.interval(0.95, len(sample) - 1, numpy.mean(sample), stats.sem(sample))
        rows.append({"sample": sample, "low": low, "high": high})
    return rows


def mean_ratio(x, y, axis=-1):
    return numpy.mean(x, axis=axis) / numpy.mean(y, axis=axis) - 1


def bootstrap():
    cases = [
        ("mean", [rng.exponential(10, 12)]),
        ("mean", [rng.normal(50, 3, 30)]),
        ("gain", [rng.normal(80, 4, 10), rng.normal(70, 6, 8)]),
        ("gain", [rng.exponential(5, 15), rng.exponential(4, 20)]),
    ]
    rows = []
    for statistic, samples in cases:
        samples = [rounded(sample) for sample in samples]
        function = numpy.mean if statistic == "mean" else mean_ratio
        result = stats.bootstrap(samples, function, n_resamples=399, method="BCa", vectorized=True, random_state=rng)
        rows.append({
            "statistic": statistic,
            "samples": samples,
            "replicates": result.bootstrap_distribution.tolist(),
            "low": result.confidence_interval.low,
            "high": result.confidence_interval.high,
        })
    return rows


def mann_whitney():
    pairs = [
        (rng.normal(0, 1, 5), rng.normal(1, 1, 7)),
        (rng.normal(0, 1, 8), rng.normal(0, 1, 12)),
        (rng.normal(0, 1, 30), rng.normal(0.5, 1, 40)),
        (rng.integers(0, 5, 12), rng.integers(1, 6, 15)),
        (rng.integers(0, 3, 6), rng.integers(0, 3, 6)),
        ([1, 2, 3, 4], [5, 6, 7, 8]),
    ]
    rows = []
    for first, second in pairs:
        first, second = rounded(first), rounded(second)
        result = stats.mannwhitneyu(first, second, alternative="two-sided")
        rows.append({"first": first, "second": second, "u": result.statistic, "p": result.pvalue})
    return rows


def holm():
    cases = [[0.01, 0.04, 0.03, 0.005], [0.5, 0.5, 0.001], rounded(rng.uniform(0, 0.2, 9))]
    return [{"p": p, "corrected": multipletests(p, method="holm")[1].tolist()} for p in cases]


def trend():
    cases = [rng.normal(0, 1, 12), numpy.arange(15) / 4 + rng.normal(0, 1, 15), rng.integers(0, 4, 20)]
    rows = []
    for values in map(rounded, cases):
        result = stats.kendalltau(range(len(values)), values, method="asymptotic")
        rows.append({"values": values, "tau": result.correlation, "p": result.pvalue})
    return rows


vectors = {
    "made_with": {"scipy": scipy.__version__, "numpy": numpy.__version__, "statsmodels": statsmodels.__version__},
    "normal": normal(),
    "student": student(),
    "means": means(),
    "bootstrap": bootstrap(),
    "mann_whitney": mann_whitney(),
    "holm": holm(),
    "trend": trend(),
}
path = pathlib.Path(__file__).with_name("vectors.json")
path.write_text(json.dumps(vectors, indent=1) + "\n")
