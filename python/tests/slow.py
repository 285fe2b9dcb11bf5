"""Runs the tiny plan slowly, for a test that kills it: slow.py FILE."""

import os
import sys
import time

from jext_ray import cli
from support import TINY, Threads


def slowly(_number, task, work):
    """Runs a batch, and waits."""
    result = work(task)
    time.sleep(0.2)
    return result


arguments = ["run", TINY, "--jext", os.environ["JEXT"], "--shards", "3", "--out", sys.argv[1]]
sys.exit(cli.run(cli.parser().parse_args(arguments), lambda _: Threads(1, slowly)))
