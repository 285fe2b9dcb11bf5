"""The command `jext-ray`."""

import argparse
import os
import signal
import statistics
import sys

from . import driver
from .jext import Jext, JextError, Plan
from .records import RecordFile

# Exit status after Ctrl-C or SIGTERM.
INTERRUPTED = 130


def parser():
    """Returns the parser of the command line."""
    top = argparse.ArgumentParser(prog="jext-ray", description="Run plans on a Ray cluster.")
    commands = top.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="run the trials of a plan that have no record yet")
    run.add_argument("plan", metavar="PLAN", help="name of a built-in plan, or path of a TOML file")
    run.add_argument(
        "--address",
        default="auto",
        help='address of the cluster: "auto" (the default), HOST:PORT or ray://HOST:PORT; "local" '
        "starts one on this machine",
    )
    run.add_argument(
        "--workers", type=_count, metavar="N", help='processors of the cluster that "local" starts'
    )
    run.add_argument(
        "--jext", default="jext", metavar="PATH", help="the binary, on this machine and on workers"
    )
    run.add_argument(
        "--out",
        metavar="FILE",
        help="file of the records; by default the one that `jext lab report` reads",
    )
    run.add_argument(
        "--shards", type=_count, metavar="N", help="number of shards; by default that of trials"
    )
    return top


def _count(text):
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("at least 1")
    return number


def main(arguments=None):
    """Runs the command and returns its exit status."""
    options = parser().parse_args(arguments)
    try:
        return run(options, connect)
    except JextError as error:
        print(f"jext-ray: {error}", file=sys.stderr)
        return 1


def connect(options):
    """Returns the executor that the options ask for."""
    try:
        from .on_ray import RayExecutor
    except ImportError as error:
        raise JextError(f"Ray is missing ({error}): pip install ray, or jext[ray]") from error
    try:
        return RayExecutor(options.address, options.workers)
    except (OSError, RuntimeError, ValueError, ImportError) as error:
        first = str(error).strip().splitlines()[0]
        raise JextError(f"no Ray cluster at {options.address}: {first}") from error


def run(options, connector):
    """Runs a plan with the executor of a connector."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    plan = Plan(Jext(options.jext), options.plan, options.shards)
    path = options.out or os.path.join("lab-results", plan.plan, f"{plan.hash}.jsonl")
    with RecordFile(path, plan) as records:
        if all(trial in records.done for trial in plan.trials):
            print(f"0 trials run, {len(plan.trials)} recorded before; records in {path}")
            return 0
        executor = connector(options)
        progress = driver.Progress()
        try:
            outcome = driver.run(plan, records, executor, progress)
        except KeyboardInterrupt:
            left = sum(trial not in records.done for trial in plan.trials)
            progress.note(f"stopped with {left} trials to go; the same command goes on")
            return INTERRUPTED
        finally:
            progress.end()
            executor.close()
        records.settle()
    print(summary(outcome, path))
    return 1 if outcome.failures else 0


def summary(outcome, path):
    """Returns the last line: the counts of a run."""
    median = statistics.median(outcome.seconds) if outcome.seconds else 0.0
    recorded = f", {outcome.recorded} recorded before" if outcome.recorded else ""
    return (
        f"{outcome.run} trials run{recorded} in {outcome.batches} batches of {median:.1f} s in the "
        f"median, {outcome.lost} lost and repeated; records in {path}"
    )
