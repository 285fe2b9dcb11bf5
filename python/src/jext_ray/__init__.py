"""Runs plans of jext's laboratory on a Ray cluster.

The driver knows nothing about experiments: it asks the binary `jext` for the trials of a plan, sends
groups of shards to workers, which run `jext lab run --shard`, and adds the records that come back to
one file. Every module but `on_ray` uses the standard library only.

- `cli`: the command `jext-ray`.
- `driver`: the run: batches, retries, progress.
- `batches`: the open shards, and the size of the next batch.
- `records`: the file of records.
- `jext`: calls of the binary on the driver's machine.
- `worker`: the function that runs on workers.
- `on_ray`: the executor for Ray.
"""

__version__ = "0.1.0"
