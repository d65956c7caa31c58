"""In which order a save reaches the disk (docs/decisions/0007-saving.md), that it ends where a file does not reach it,
and what other processes may do between two of its calls. A killed program leaves what the system has yet to write; what
a loss of power leaves is seen in the calls alone."""
import collections
import errno
import os
import pathlib
import shutil
import unittest

from program import snapshot
from saving_test import RUN, SHIM, SavingTest, needs_shim

Call = collections.namedtuple("Call", "number name path to error")  # a line of the shim's trace


class OrderTest(SavingTest):
    def traced(self, *arguments, **shim):
        """Runs heed; how it ended, and its calls that change files here."""
        trace = pathlib.Path(f"{self.at}.trace")
        self.addCleanup(trace.unlink, missing_ok=True)
        trace.unlink(missing_ok=True)
        done = self.heed(*arguments, env={"LD_PRELOAD": SHIM, "SHIM_TRACE": str(trace), **shim})
        here, calls = os.path.realpath(self.at), []
        for line in trace.read_text().splitlines():
            number, name, path, to, error = line.split("\t")
            path, to = [one and os.path.relpath(os.path.join(here, one), here) for one in (path, to)]
            if path.split("/")[0] != "..":
                calls.append(Call(int(number), name, path, to, int(error)))
        return done, calls

    def saves(self, directory, *arguments):
        """The calls of each transaction of a run: before its commit, the commit, behind it."""
        done, calls = self.traced(*arguments)
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        self.assertFalse([call for call in calls if call.error])
        journal, found = directory + "/.heed-journal", []
        while commits := [i for i, call in enumerate(calls) if call.to == journal]:
            end = 2 + next(i for i, call in enumerate(calls) if (call.name, call.path) == ("unlink", journal))
            found.append((calls[:commits[0]], calls[commits[0]], calls[commits[0] + 1:end]))
            calls = calls[end:]
        return found


@needs_shim
class Order(OrderTest):
    def expect_order(self, directory, before, commit, after):
        """Returns what was removed."""
        def last(name, path):
            return max((i for i, call in enumerate(before) if (call.name, call.path) == (name, path)), default=-1)

        parts = {call.path for call in before if call.name == "open" and call.path.endswith(".part")}
        written = {call.path for call in before if call.name == "write"}
        self.assertIn(commit.path, parts)
        self.assertLess(1, len(parts))
        self.assertLessEqual(parts, written)
        for path in written:  # a training's log, too: its state says how long that is
            self.assertGreater(last("fsync", path), last("write", path), path)
        for path in parts:
            self.assertGreater(last("fsync", directory), last("open", path), path)
        for path in [call.path for call in before if call.name == "mkdir"]:
            self.assertGreater(last("fsync", os.path.dirname(path) or "."), last("mkdir", path), path)
        old = [call for call in before if call.name in ("rename", "link") or
               call.name == "unlink" and call.path != directory + "/.heed-lock"]
        self.assertEqual(old, [])

        renamed = [call for call in after if call.name == "rename"]
        self.assertEqual({call.path for call in renamed}, parts - {commit.path})
        for call in renamed:
            self.assertTrue(call.path.startswith(f"{directory}/.{os.path.basename(call.to)}.heed-"), call)
        removed = [call.path for call in after if call.name == "unlink"]
        self.assertEqual(removed.pop(), directory + "/.heed-journal")
        self.assertEqual([call.name for call in after],
                         ["fsync", *["rename"] * len(renamed), *["unlink"] * len(removed), "fsync", "unlink", "fsync"])
        self.assertEqual({call.path for call in after if call.name == "fsync"}, {directory})
        return removed

    def test_export(self):
        self.train("--max-updates", "1")
        for made in [["new", "new/to"], []]:  # into a new directory, and over the model that is there then
            (before, commit, after), = self.saves("new/to", "export", "--model", "m", "--to", "new/to", "--overwrite")
            self.assertEqual([call.path for call in before if call.name == "mkdir"], made)
            self.assertEqual(self.expect_order("new/to", before, commit, after), [])

    def test_training(self):
        saves = self.saves("m", *RUN, "--max-updates", "3", "--validate-every", "1")
        removed = [self.expect_order("m", *save) for save in saves]
        # What the model is made of, three updates, of which the third needs the first no more, and the card.
        self.assertEqual(removed, [[], [], [], ["m/checkpoint-00000001.safetensors"], []])
        for before, _, _ in saves[1:4]:
            self.assertIn("m/train.log.jsonl", [call.path for call in before if call.name == "write"])


@needs_shim
class FailingSync(OrderTest):
    def syncs(self, directory, *arguments):
        """Each fsync of a run, and whether it stands behind a commit."""
        return [(call, call in after) for before, _, after in self.saves(directory, *arguments)
                for call in [*before, *after] if call.name == "fsync"]

    def fails_at(self, sync, *arguments):
        """The run ends with a line, and nothing that was to come behind that fsync is renamed or removed."""
        done, calls = self.traced(*arguments, SHIM_FAIL=f"{sync.number}:{errno.EIO}")
        error = done.stderr.decode()
        self.assertEqual(done.returncode, 1, error)
        self.assertIn(os.strerror(errno.EIO), error.splitlines()[-1])
        self.assertEqual(error.count(os.strerror(errno.EIO)), 1)
        failed, = [call for call in calls if call.error]
        self.assertEqual((failed.number, failed.name), (sync.number, "fsync"))
        further = calls[calls.index(failed) + 1:]
        self.assertEqual([call for call in further if call.name == "rename" or
                          call.name == "unlink" and not call.path.endswith((".part", "/.heed-lock"))], [])

    def test_export(self):
        self.train("--max-updates", "1")
        for dtype in ["f32", "f16"]:
            self.succeeds("export", "--model", "m", "--to", dtype, "--dtype", dtype)
        export = ["export", "--model", "m", "--to", "to", "--overwrite", "--dtype", "f16"]

        def put_back():
            shutil.rmtree(self.at / "to", ignore_errors=True)
            shutil.copytree(self.at / "f32", self.at / "to")

        put_back()
        for sync, committed in self.syncs("to", *export):
            with self.subTest(f"{sync.number} {sync.path}"):
                put_back()
                self.fails_at(sync, *export)
                if not committed:
                    self.assertEqual(snapshot(self.at / "to"), snapshot(self.at / "f32"))
                self.assertEqual(self.succeeds("inspect", "--json", "to"),
                                 self.succeeds("inspect", "--json", "f16" if committed else "f32"))
                self.succeeds(*export)
                self.assertEqual(snapshot(self.at / "to"), snapshot(self.at / "f16"))

    def test_training(self):
        run = [*RUN, "--max-updates", "1"]
        for sync, _ in self.syncs("m", *run):
            with self.subTest(f"{sync.number} {sync.path}"):
                shutil.rmtree(self.at / "m", ignore_errors=True)
                self.fails_at(sync, *run)
                self.reads()


@needs_shim
class Races(OrderTest):
    def setUp(self):
        super().setUp()
        self.train("--max-updates", "1")

    def opened(self, **shim):
        """The calls that make files in an export, which ends well."""
        shutil.rmtree(self.at / "to", ignore_errors=True)
        done, calls = self.traced("export", "--quiet", "--model", "m", "--to", "to", "--dtype", "f32", **shim)
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        self.assertEqual(self.names("to"), ["MODEL_CARD.md", "config.json", "model.safetensors", "vocabulary.txt"])
        self.assertEqual(self.model("to"), self.model())
        return [call for call in calls if call.name == "open"]

    def parts(self, **shim):
        return [call for call in self.opened(**shim) if call.path.endswith(".part")]

    def test_the_name_of_a_part_is_taken(self):
        parts = self.parts()
        head = parts[0].path[:-len("0123456789abcdef.part")]
        first, second, *others = self.parts(SHIM_FAIL=f"{parts[0].number}:{errno.EEXIST}")
        self.assertEqual(len(others), len(parts) - 1)
        self.assertTrue(first.path.startswith(head) and second.path.startswith(head))
        self.assertNotEqual(first.path, second.path)

    def test_a_part_is_taken_for_stale_before_its_lock_stands(self):
        self.assertEqual(len(self.parts(SHIM_LOSE=".part")), len(self.parts()) + 1)

    def test_a_lock_goes_with_its_holder_before_it_is_ours(self):
        for locks, shim in [(1, {}), (2, {"SHIM_LOSE": "/.heed-lock"})]:
            self.assertEqual(sum(call.path == "to/.heed-lock" for call in self.opened(**shim)), locks)

    def test_a_directory_that_is_saved_faster_than_it_is_read(self):
        for command in [["translate", "--model", "m"], ["export", "--model", "m", "--to", "to"]]:
            done = self.heed(*command, env={"LD_PRELOAD": SHIM, "SHIM_RENEW": "/m/config.json"})
            self.assertEqual(done.returncode, 1)
            self.assert_one_line(done.stderr.decode(), "m: it is saved all the time; try again, or copy it")
        self.assertFalse((self.at / "to").exists())
        self.succeeds("inspect", "m")


if __name__ == "__main__":
    unittest.main()
