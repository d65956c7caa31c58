"""What scripts/search-defaults takes for a quiet machine: made-up clocks, and /proc/stat with made-up numbers."""
import importlib.machinery
import importlib.util
import os
import pathlib
import unittest
from unittest import mock

PATH = pathlib.Path(__file__).resolve().parents[2] / "scripts/search-defaults"
LOADER = importlib.machinery.SourceFileLoader("search_defaults", str(PATH))
search = importlib.util.module_from_spec(importlib.util.spec_from_loader("search_defaults", LOADER))
LOADER.exec_module(search)


class Quiet(unittest.TestCase):
    def test_a_limit_for_programs_and_one_for_the_host(self):
        for others, stolen, quiet in ((0, 0, True), (0.05, 0.1, True), (0.051, 0, False), (0, 0.101, False)):
            with self.subTest(others=others, stolen=stolen):
                self.assertEqual(search.is_quiet(others, stolen), quiet)

    def test_what_the_system_counts(self):
        ticks = os.sysconf("SC_CLK_TCK")
        # user, nice, system, idle, wait, irq, softirq, steal, guest: a guest's time is in the user's already.
        numbers = [n * ticks for n in (1, 2, 4, 1000, 500, 8, 16, 32, 3)]
        line = "cpu  " + " ".join(map(str, numbers)) + "\ncpu0 0 0 0 0 0 0 0 0 0\n"
        with mock.patch.object(search, "open", mock.mock_open(read_data=line), create=True):
            self.assertEqual(search.Interval.used(), [1 + 2 + 4 + 8 + 16, 32])

    def shares(self, busy, stolen, own):
        """Of ten seconds of two processors."""
        with mock.patch.object(search.os, "cpu_count", return_value=2), \
                mock.patch.object(search.time, "monotonic", side_effect=[100, 110]), \
                mock.patch.object(search.Interval, "used", side_effect=[[50, 7], [50 + busy, 7 + stolen]]):
            return search.Interval().shares(own)

    def test_what_is_left_without_one_s_own(self):
        self.assertEqual(self.shares(busy=11, stolen=1, own=10), (0.05, 0.05))
        self.assertEqual(self.shares(busy=10, stolen=0, own=0), (0.5, 0))
        self.assertEqual(self.shares(busy=9, stolen=2, own=10), (0, 0.1), "clocks differ, and nobody uses less than none")


if __name__ == "__main__":
    unittest.main()
