"""The open shards, and the size of batches."""

import unittest

from jext_ray.batches import SECONDS_AIM, SECONDS_MAX, Batches

TRIALS = {f"trial {number}": number % 50 + 1 for number in range(200)}


def drain(batches, workers=2):
    """Takes all batches."""
    taken = []
    while (batch := batches.next(workers)) is not None:
        taken.append(batch)
    return taken


class BatchesTest(unittest.TestCase):
    def test_every_trial_is_in_one_batch(self):
        for each in (None, 0.001, 0.3, 100.0):
            batches = Batches(TRIALS, set(), 50)
            if each is not None:
                batches.measured(1, each)
            trials = [trial for batch in drain(batches) for trial in batch.trials]
            self.assertEqual(sorted(trials), sorted(TRIALS))
            self.assertEqual(batches.trials_left, 0)

    def test_a_batch_is_one_shard_until_the_time_is_known(self):
        batches = Batches(TRIALS, set(), 50)
        self.assertEqual(batches.next(2).shard, "1/50")
        self.assertEqual(batches.next(2).shard, "2/50")
        batches.measured(8, 8 * 0.1)
        # 192 trials of 0.1 s are 19.2 s: for each of two workers four times 2.4 s, in whole shards.
        self.assertIn(len(batches.next(2).trials), (24, 28))

    def test_batches_last_as_long_as_they_should(self):
        trials = {f"trial {number}": number + 1 for number in range(10_000)}
        batches = Batches(trials, set(), 10_000)
        batches.measured(10, 0.1)
        sizes = [len(batch.trials) * 0.01 for batch in drain(batches)]
        self.assertAlmostEqual(sizes[0], SECONDS_MAX)
        self.assertTrue(all(size >= SECONDS_AIM - 0.01 for size in sizes[:-1]), sizes)
        self.assertEqual(sizes, sorted(sizes, reverse=True))

    def test_what_is_done_is_not_run_again(self):
        done = {trial for trial, shard in TRIALS.items() if shard in (1, 20, 21, 50)}
        done.add(next(trial for trial, shard in TRIALS.items() if shard == 30))
        batches = Batches(TRIALS, done, 50)
        batches.measured(1, 0.001)
        shards = [batch.shard for batch in drain(batches)]
        self.assertEqual(shards, ["2-19/50", "22-49/50"])
        self.assertEqual(drain(Batches(TRIALS, set(TRIALS), 50)), [])

    def test_a_lost_batch_comes_next(self):
        batches = Batches(TRIALS, set(), 50)
        first = batches.next(1)
        batches.lost(first)
        self.assertIs(batches.next(1), first)
        self.assertEqual(first.losses, 1)


if __name__ == "__main__":
    unittest.main()
