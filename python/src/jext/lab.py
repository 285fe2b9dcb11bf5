"""The laboratory: plans of simulated trials, and their results as rows.

    import jext.lab
    import pandas

    rows = jext.lab.run("external-journal")
    pandas.DataFrame(rows).groupby("journal")["elapsed"].mean()

A row has the plan, the block, the trial, its repetition and seed; the level of each factor by the
name of its key; and the figures in SI base units. `docs/plans.md` has the format of plans.
"""

from __future__ import annotations

import os
import pathlib
import tempfile
from typing import Any, NamedTuple

from . import _native
from ._types import HostPath

Row = dict[str, Any]


class TrialError(RuntimeError):
    """Trials have failed. The others are in `rows`."""

    def __init__(self, failures: list[tuple[str, str]], rows: list[Row]) -> None:
        trial, cause = failures[0]
        more = f", and {len(failures) - 1} more" if len(failures) > 1 else ""
        super().__init__(f"trial failed: {trial}: {cause}{more}")
        self.failures = failures
        self.rows = rows


class BuiltinPlan(NamedTuple):
    """A plan that is built in."""

    name: str
    question: str
    # True if `run` can run it: its trials are simulated.
    is_simulated: bool


def plans() -> list[BuiltinPlan]:
    """Returns the plans that are built in."""
    return [BuiltinPlan(*plan) for plan in _native.plan_names()]


def run(
    plan: str | os.PathLike[str],
    *,
    results: HostPath | None = None,
    jobs: int | None = None,
    repetitions: int | None = None,
    fresh: bool = False,
    shard: str | None = None,
) -> list[Row]:
    """Runs the trials of a plan, and returns a row for each.

    - `plan`: the name of a built-in plan, the path of a TOML file, or TOML itself (a text of several
      lines). Its trials must be simulated; the command `jext lab run` runs others.
    - `results`: folder of records, as of `jext lab run --results`: trials with a record are not
      repeated. By default no records are kept.
    - `jobs`: number of trials that run at the same time; by default one for each processor.
    - `repetitions`: number of repetitions, whatever the plan says.
    - `fresh`: true to repeat trials that have a record.
    - `shard`: part of the trials, such as `"2/8"`.

    Raises `TrialError` if trials fail, and `ValueError` if the plan is wrong.
    """
    name, text = _read(plan)
    arguments = {
        "plan": name,
        "text": text,
        "jobs": jobs,
        "repetitions": repetitions,
        "fresh": fresh,
        "shard": shard,
    }
    for option in ("jobs", "repetitions"):
        value = arguments[option]
        if isinstance(value, int) and value < 1:
            raise ValueError(f"{option}={value}: expected at least 1")
    if results is None:
        with tempfile.TemporaryDirectory(prefix="jext-lab-") as folder:
            rows, failures = _native.run_plan({**arguments, "results": folder})
    else:
        rows, failures = _native.run_plan({**arguments, "results": results})
    if failures:
        raise TrialError(failures, rows)
    return rows


def _read(plan: str | os.PathLike[str]) -> tuple[str, str | None]:
    """Returns the name of a plan, and its text if it is not built in."""
    if isinstance(plan, os.PathLike):
        path = pathlib.Path(plan)
        return str(path), path.read_text(encoding="utf-8")
    return ("plan", plan) if "\n" in plan else (plan, None)


__all__ = ["BuiltinPlan", "Row", "TrialError", "plans", "run"]
