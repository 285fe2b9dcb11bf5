"""The open shards of a plan, and the size of the next batch."""

import collections
import math

# Limits of a batch's duration in seconds, without starting the program. Below one second, the start
# and Ray's own work would cost too much, and the time of trials varies by half; above the greater
# one, a lost worker would lose too much.
SECONDS_AIM = 2.0
SECONDS_MAX = 10.0
# Number of batches that each worker still gets from the remaining trials: batches become shorter
# towards the end, so that workers end together.
BATCHES_LEFT = 4


class Batch:
    """Adjacent shards that a worker runs together."""

    def __init__(self, first, last, shards, trials):
        self.shard = f"{first}/{shards}" if first == last else f"{first}-{last}/{shards}"
        self.trials = trials
        self.losses = 0


class Batches:
    """The open shards of a plan, grouped into batches by the measured time of a trial."""

    def __init__(self, trials, done, shards):
        """`trials` maps ids to shards. A shard is open unless all of its trials are done."""
        self.shards = shards
        own = collections.defaultdict(list)
        for trial, shard in trials.items():
            own[shard].append(trial)
        # The shards with trials, in order; None for one that is not open, which no batch may span.
        self._queue = collections.deque()
        for shard in sorted(own):
            is_open = any(trial not in done for trial in own[shard])
            self._queue.append((shard, own[shard]) if is_open else None)
        self._lost = collections.deque()
        self.trials_left = sum(len(entry[1]) for entry in self._queue if entry)
        self._trials_timed = 0
        self._seconds = 0.0

    def next(self, workers):
        """Returns the next batch, or None if all are taken."""
        if self._lost:
            return self._lost.popleft()
        wanted = self._trials_wanted(workers)
        while self._queue and self._queue[0] is None:
            self._queue.popleft()
        if not self._queue:
            return None
        first = last = self._queue[0][0]
        trials = []
        while self._queue and self._queue[0] is not None:
            shard, own = self._queue[0]
            if trials and len(trials) >= wanted:
                break
            self._queue.popleft()
            last = shard
            trials.extend(own)
        self.trials_left -= len(trials)
        return Batch(first, last, self.shards, trials)

    def measured(self, trials, seconds):
        """Learns the time that a number of trials took, apart from starting the program."""
        self._trials_timed += trials
        self._seconds += seconds

    def lost(self, batch):
        """Takes a batch back whose worker was lost; it comes next."""
        batch.losses += 1
        self._lost.append(batch)

    def _trials_wanted(self, workers):
        """Returns the number of trials of a batch; 1 until a batch has been measured."""
        if self._trials_timed == 0 or self._seconds <= 0:
            return 1
        each = self._seconds / self._trials_timed
        seconds = self.trials_left * each / (BATCHES_LEFT * max(workers, 1))
        seconds = min(max(seconds, SECONDS_AIM), SECONDS_MAX)
        return math.ceil(seconds / each)
