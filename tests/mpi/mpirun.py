#!/usr/bin/env python3
"""Ranks under a real mpirun: the same output for any number of them, and one line of heed's for whatever fails.

    mpirun.py MPIRUN PROGRAM
"""
import os
import re
import signal
import subprocess
import sys
import time
import unittest

MPIRUN, PROGRAM = sys.argv[1:3]
# More ranks than processors, as whoever runs the tests: for Open MPI, which refuses both; others do not read these.
ENVIRONMENT = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                   OMPI_MCA_rmaps_base_oversubscribe="1", PRTE_MCA_rmaps_default_mapping_policy=":oversubscribe")


def start(ranks, *task):
    return subprocess.run([MPIRUN, "-np", str(ranks), PROGRAM, *task], capture_output=True, text=True, timeout=120,
                          env=ENVIRONMENT, check=False)


class Ranks(unittest.TestCase):
    def same_for_any_number(self, task, numbers):
        outputs = {}
        for ranks in numbers:
            run = start(ranks, task)
            self.assertEqual((run.returncode, run.stderr), (0, ""), f"{ranks} ranks")
            outputs[ranks] = run.stdout
        self.assertRegex(outputs[1], r"^(\w+ [0-9a-f]{16}\n)+$")
        self.assertEqual(set(outputs.values()), {outputs[1]})

    def test_sums(self):
        self.same_for_any_number("sums", [1, 2, 3, 4])

    def test_attention(self):
        self.same_for_any_number("attention", [1, 2, 4])

    def test_memory_of_attention(self):
        """At four ranks at most 1.3 quarters of the whole; one key head of 16 more where keys of a head are gathered."""
        for task, most in ("memory-exact", 1.3 / 4 + 1 / 16), ("memory-ring", 1.3 / 4):
            run = start(4, task)
            self.assertEqual((run.returncode, run.stderr), (0, ""))
            self.assertLess(float(run.stdout), most, task)

    def test_large_messages(self):
        self.assertEqual(start(2, "large").returncode, 0)

    def fails_with_one_line(self, task, line, ranks=4):
        run = start(ranks, task)
        self.assertNotEqual(run.returncode, 0)
        self.assertEqual(re.findall("^heed: .*$", run.stderr, re.MULTILINE), [line], run.stderr)

    def test_an_error_on_one_rank(self):
        self.fails_with_one_line("throw", "heed: corpus.tsv: line 7 has no tab; write one")

    def test_the_same_error_on_all_ranks(self):
        self.fails_with_one_line("nosuch", "heed: mpi_ranks: no task 'nosuch'")
        self.fails_with_one_line("wrong", "heed: send: rank 99 of 4, from rank 0; pass another of 0 to 3")

    def test_a_rank_that_does_not_come(self):
        began = time.monotonic()
        self.fails_with_one_line("late", "heed: barrier: rank 0 has waited 2 s for rank 1; see whether rank 1 still runs,"
                                         " or set a longer time limit", ranks=2)
        self.assertLess(time.monotonic() - began, 25)

    def test_ranks_at_other_calls(self):
        self.fails_with_one_line("unlike", "heed: broadcast: rank 0 sent 40 bytes and rank 1 expects 80; start all ranks "
                                           "with the same options and data", ranks=2)

    def test_a_killed_rank_ends_all(self):
        began = time.monotonic()
        run = start(4, "killed")
        self.assertNotEqual(run.returncode, 0)
        self.assertLess(time.monotonic() - began, 25)
        self.assertRegex(run.stdout + run.stderr, rf"signal {signal.SIGKILL.value}\b|EXIT CODE: 9")
        # Open MPI gives the others a second, MPICH none.
        said = re.findall("^heed: .*$", run.stderr, re.MULTILINE)
        if re.search("EXIT CODE: 9", run.stdout + run.stderr):
            self.assertLessEqual(len(said), 1)
        else:
            self.assertEqual(len(said), 1, run.stderr)
            self.assertRegex(said[0], "barrier: rank [012] waits for rank [1-3], which has ended without a word")

    def test_without_mpirun(self):
        alone = subprocess.run([PROGRAM, "sums"], capture_output=True, text=True, timeout=120, check=True)
        self.assertEqual(alone.stdout, start(2, "sums").stdout)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
