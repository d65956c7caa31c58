"""heed train and translate under mpirun: the bits of one process for any number of ranks and stops, and one line for
what fails.

HEED_TEST_ALL=1 kills ranks at 100 random moments instead of a few.
"""
import json
import os
import random
import re
import shutil
import signal
import subprocess
import time
import unittest

from program import HEED, SHARED, TINY, TrainingTest, corpus

ALL = os.environ.get("HEED_TEST_ALL") == "1"
MPIRUN = os.environ["HEED_MPIRUN"]
# More ranks than processors, and as whoever runs the tests: Open MPI refuses both unless told otherwise.
ENVIRONMENT = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                   OMPI_MCA_rmaps_base_oversubscribe="1", HEED_TEST_PROGRAM=HEED)
RUN = ["train", "--pairs", "train.tsv", "--valid-pairs", "dev.tsv", "--model", "m", *TINY, "--d-model", "16",
       "--feed-forward", "16", "--batch-tokens", "64", "--accumulate", "8", "--max-updates", "12", "--validate-every",
       "4", "--average", "2", "--save-every", "1", "--log-every", "1", "--dropout", "0.1", "--validate-by", "bleu"]
# The same of a text.
BOOK = "the dog eats bread and the cat eats the hair of the dog today\n" * 60
OF_PAIRS = TINY.index("--batch-tokens")
RUN_ON_TEXT = ["train", "--text", "book.txt", *TINY[:OF_PAIRS], *TINY[OF_PAIRS + 2:], "--accumulate", "4",
               "--max-updates", "12", "--dropout", "0.1"]
RANK = "${OMPI_COMM_WORLD_RANK:-$PMI_RANK}"
NAMESPACE = ["unshare", "-m"] if os.geteuid() == 0 else ["unshare", "-rm"]
CAN_MOUNT = subprocess.run([*NAMESPACE, "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True,
                           check=False).returncode == 0


class RanksTest(TrainingTest):
    RUN = RUN

    def setUp(self):
        super().setUp()
        self.write("train.tsv", corpus(200))
        self.write("dev.tsv", corpus(20, seed=2))

    def started(self, ranks, *arguments, program=(HEED,), run=RUN, env=ENVIRONMENT):
        return subprocess.Popen([MPIRUN, "-np", str(ranks), *program, *run, *arguments], cwd=self.at, env=env,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def on_ranks(self, ranks, *arguments, **options):
        process = self.started(ranks, *arguments, **options)
        output, error = process.communicate(timeout=240)
        return process.returncode, output, error

    def ranks_of(self, process):
        """Process numbers of the ranks, wherever mpirun has put them in the tree."""
        children = {}
        for line in subprocess.run(["ps", "-eo", "pid,ppid,comm"], capture_output=True, text=True,
                                   check=True).stdout.splitlines()[1:]:
            number, parent, name = line.split(None, 2)
            children.setdefault(int(parent), []).append((int(number), name.strip()))
        found, left = [], [process.pid]
        while left:
            for number, name in children.get(left.pop(), []):
                found += [number] if name == "heed" else []
                left.append(number)
        return sorted(found)

    def on_rank(self, rank, script):
        """A program that is heed, but for what this rank does first with its arguments."""
        return ("sh", "-c", f'if [ {RANK} = {rank} ]; then {script}; fi; exec "$HEED_TEST_PROGRAM" "$@"', "heed")

    def trained_on(self, ranks, *arguments, **options):
        status, output, error = self.on_ranks(ranks, *arguments, **options)
        self.assertEqual((status, output), (0, ""), error)
        return error

    def state(self, directory="m"):
        return [(self.at / directory / name).read_bytes()
                for name in ("model.safetensors", "training.safetensors", "vocabulary.txt", "config.json")]

    def fails_with_one_line(self, line, ranks, *arguments, **options):
        status, output, error = self.on_ranks(ranks, "--quiet", *arguments, **options)
        self.assertNotEqual(status, 0, error)
        self.assertNotRegex(output, "heed|update")  # mpirun may tell there how the ranks have ended
        said = re.findall("^heed.*$", error, re.MULTILINE)
        self.assertEqual(len(said), 1, error)
        self.assertRegex(said[0], line)


class Bits(RanksTest):
    def test_any_number_of_ranks(self):
        alone = self.train()
        expected = self.state()
        for ranks in (2, 3, 4):
            with self.subTest(ranks):
                error = self.trained_on(ranks, "--model", f"m{ranks}", "--threads", str(1 + ranks % 2))
                self.assertTrue(self.state(f"m{ranks}") == expected)
                losses = "loss [0-9.]+"  # rank 0 says what one process says, and the others nothing
                self.assertEqual(re.findall(losses, error), re.findall(losses, alone))

    def test_a_rank_that_starts_late(self):
        self.trained_on(3, "--max-updates", "4", "--model", "late", program=self.on_rank(1, "sleep 3"))
        self.train("--max-updates", "4", "--model", "one")
        self.assertTrue(self.state("one") == self.state("late"))

    def test_of_prepared_tokens(self):
        self.train("--model", "texts")
        self.succeeds("prepare", "--pairs", "train.tsv", "--vocab-size", "300", "--to", "corpus.tokens", "--quiet")
        of_tokens = ["corpus.tokens" if word == "train.tsv" else word for word in RUN]
        status, _, error = self.on_ranks(3, "--model", "tokens", run=of_tokens)
        self.assertEqual(status, 0, error)
        self.assertTrue(self.state("tokens") == self.state("texts"))

    def test_of_a_text(self):
        self.write("book.txt", BOOK)
        for ranks, directory in ((1, "one"), (3, "three")):
            status, _, error = self.on_ranks(ranks, "--model", directory, run=RUN_ON_TEXT)
            self.assertEqual(status, 0, error)
        self.assertTrue(self.state("one") == self.state("three"))


class ContextRanks(RanksTest):
    """Ranks that share each piece of a text."""

    def setUp(self):
        super().setUp()
        self.write("book.txt", BOOK)

    def trained_on(self, ranks, *arguments):
        status, output, error = self.on_ranks(ranks, *arguments, run=RUN_ON_TEXT)
        self.assertEqual((status, output), (0, ""), error)
        return error

    def test_bits_of_their_number(self):
        for context, ranks, more in ((2, 2, 4), (4, 4, 8)):
            with self.subTest(context):
                given = ["--context-ranks", str(context)]
                error = self.trained_on(ranks, "--model", f"m{ranks}", *given)
                self.assertIn("finished", error)
                self.trained_on(more, "--model", "more", "--max-updates", "5", "--schedule", "constant", *given)
                self.trained_on(more, "--model", f"m{ranks}-{more}", *given)
                self.assertTrue(self.state(f"m{ranks}-{more}") == self.state(f"m{ranks}"))
                self.assertFalse(self.state(f"m{ranks}") == self.state("more"))
                shutil.rmtree(self.at / "more")

    def test_stops_and_goes_on(self):
        fixed = ["--context-ranks", "2", "--schedule", "constant"]
        self.trained_on(2, "--model", "whole", *fixed)
        self.trained_on(2, *fixed, "--model", "cut", "--max-updates", "5")
        status, _, error = self.on_ranks(4, "--resume", "cut", "--max-updates", "12", run=["train"])
        self.assertEqual(status, 0, error)
        self.assertTrue(self.state("cut") == self.state("whole"))

    def test_refusals(self):
        for ranks, line, arguments in (
                (3, "--context-ranks is 2 and there are 3 ranks; start a multiple", ["--context-ranks", "2"]),
                (3, "--context-ranks is 3; it must be a power of two", ["--context-ranks", "3"]),
                (2, "--context-ranks is 2; it must be at most 1, the block", ["--context-ranks", "2", "--block", "1"])):
            with self.subTest(line):
                self.fails_with_one_line(f"^heed train: {line}", ranks, *arguments, "--model", "never",
                                         run=RUN_ON_TEXT)
                self.assertFalse((self.at / "never").exists())
        self.refuses(2, "--context-ranks is 2 and there is 1 rank", *RUN_ON_TEXT, "--context-ranks", "2", "--model", "m")
        self.fails_with_one_line("^heed train: --context-ranks is for language models; give --text", 2,
                                 "--context-ranks", "2")
        self.trained_on(2, "--context-ranks", "2", "--model", "m")
        self.fails_with_one_line("^heed train: m/training.json: this run began with --context-ranks 2, not 1;", 2,
                                 "--model", "m", run=RUN_ON_TEXT)


class Stops(RanksTest):
    def test_killed_ranks(self):
        long = ["--max-updates", "160", "--validate-every", "80"]
        self.train("--model", "whole", *long)
        expected = self.state("whole")
        choose = random.Random(5)
        attempts, lines = 100 if ALL else 6, 0
        for attempt in range(attempts):
            with self.subTest(attempt):
                ranks = choose.choice([2, 3, 4])
                process = self.started(ranks, *long)
                self.until_line(process, " update ")
                time.sleep(choose.uniform(0, 0.2))
                os.kill(choose.choice(self.ranks_of(process)), signal.SIGKILL)
                killed = time.monotonic()
                said = re.findall("^heed train: .* has ended without a word", process.communicate(timeout=60)[1],
                                  re.MULTILINE)
                self.assertLess(time.monotonic() - killed, 20)
                self.assertNotEqual(process.returncode, 0)
                self.assertLessEqual(len(said), 1)
                lines += len(said)
                if choose.random() < 0.5:
                    self.trained_on(choose.choice([1, 2, 3, 4]), *long)
                    self.assertTrue(self.state() == expected)
                    shutil.rmtree(self.at / "m")
        # Open MPI gives the others a second, MPICH none; rank 0 may be amid a save, and a machine busy.
        if "HYDRA" not in subprocess.run([MPIRUN, "--version"], capture_output=True, text=True, check=True).stdout:
            self.assertGreaterEqual(lines, attempts // 2)

    def test_sigterm_saves(self):
        self.train("--model", "whole")
        patient = dict(ENVIRONMENT, OMPI_MCA_odls_base_sigkill_timeout="8")  # 1 s is short on a busy machine
        process = self.started(2, "--save-every", "0", "--validate-every", "1000000", "--max-updates", "1000000",
                               "--log-every", "50", env=patient)
        self.until_line(process, "update 50 ")
        process.terminate()  # mpirun passes it on, and no longer reads what ranks say
        process.communicate(timeout=60)
        self.assertIn("goes on after update", self.heed(
            *RUN, "--save-every", "0", "--validate-every", "1000000", "--max-updates", "1").stderr.decode())


class Timeline(RanksTest):
    def test_an_update_of_all_ranks(self):
        """The second update: operations and waits of each rank, messages with their bytes."""
        self.trained_on(2, "--max-updates", "3", "--timeline", "trace.json")
        events = json.loads((self.at / "trace.json").read_text())["traceEvents"]
        spans = [(e["pid"], e["cat"], e["name"]) for e in events if e["ph"] in "Xb"]
        for rank in (0, 1):
            for span in (("operation", "linear"), ("operation", "linear backward"), ("operation", "optimiser"),
                         ("wait", "waits: reduce_scatter"), ("message", "all_gather_slices")):
                self.assertIn((rank, *span), spans)
            steps = sum(span == (rank, "operation", "optimiser") for span in spans)
            self.assertEqual(steps, 1)
        sent = [e["args"] for e in events if e["ph"] == "b" and e["name"] == "reduce_scatter"]
        received = sorted(message["received"] for message in sent)
        self.assertEqual(sorted(message["sent"] for message in sent), received)
        self.assertTrue(all(e["dur"] >= 0 for e in events if e["ph"] == "X"))

    def test_alone_and_where_it_cannot_be_written(self):
        self.train("--max-updates", "2", "--timeline", "trace.json", "--model", "one")
        names = {e["name"] for e in json.loads((self.at / "trace.json").read_text())["traceEvents"]}
        self.assertTrue({"linear", "optimiser"} <= names)
        said = self.train("--max-updates", "2", "--timeline", "/dev/full", "--model", "two")
        self.assertIn("heed train: the timeline was not written: ", said)
        self.assertTrue(self.state("one") == self.state("two"))
        self.fails_with_one_line("^heed train: --timeline none/trace.json: there is no directory none; ", 2, "--timeline",
                                 "none/trace.json", "--model", "three")
        self.fails_with_one_line("^heed train: --timeline one/training.json stands among the files of the model; ", 2,
                                 "--model", "one", "--timeline", "one/training.json")


class Refusals(RanksTest):
    def test_other_options(self):
        self.fails_with_one_line("^heed train: .* rank 0 is 'learning_rate .*' and of rank 1 'learning_rate 0.5';", 2,
                                 program=self.on_rank(1, 'set -- "$@" --learning-rate 0.5'))

    def test_other_data(self):
        self.write("other/train.tsv", corpus(200, seed=9))
        shutil.copy(self.at / "dev.tsv", self.at / "other/dev.tsv")
        self.fails_with_one_line("^heed train: .* of rank 0 is 'training_data .*' and of rank 2 'training_data ", 3,
                                 program=self.on_rank(2, "cd other"))

    def test_a_file_that_one_rank_lacks(self):
        self.write("other/dev.tsv", corpus(20))
        for rank in (0, 1):
            with self.subTest(rank):
                self.fails_with_one_line("^heed train: .*train.tsv.*No such file", 2,
                                         program=self.on_rank(rank, "cd other"))

    @unittest.skipUnless(CAN_MOUNT, "SKIPPED: no file system can be mounted here")
    def test_a_full_disk_on_rank_0(self):
        (self.at / "small").mkdir()
        mounts = 'mount -t tmpfs -o size=300k none small; exec "$HEED_TEST_PROGRAM" "$@"'
        self.fails_with_one_line("^heed train: .*small/m.*No space left on device", 3, "--model", "small/m",
                                 program=self.on_rank(0, f"exec {' '.join(NAMESPACE)} sh -c '{mounts}' heed \"$@\""))

    def test_no_library_of_messages(self):
        """What the loader finds is not one, so no rank can hear another."""
        self.write("broken/libheed_messages.so.1", "not a library")
        path = f"{self.at}/broken"
        self.fails_with_one_line("^heed train: mpi::connect: libheed_messages.so.1 cannot be loaded .*; build heed "
                                 "where an MPI is installed", 2, program=("env", f"LD_LIBRARY_PATH={path}", HEED))

    def test_what_mpirun_says_without_mpirun(self):
        environment = dict(ENVIRONMENT, OMPI_COMM_WORLD_SIZE="2")
        done = self.heed(*RUN, "--quiet", env=environment)
        self.assertEqual(done.returncode, 2)
        said = re.findall("^heed.*$", done.stderr.decode(), re.MULTILINE)
        self.assertEqual(len(said), 1)
        self.assertRegex(said[0], "mpi::connect: 2 processes were started, and .* knows of this one alone; ")

    def test_a_wrong_option(self):
        self.fails_with_one_line("^heed train: .*--no-such-option", 2, "--no-such-option")
        self.fails_with_one_line("^heed train: .*--learning-rate is 0", 3, "--learning-rate", "0")

    def test_standard_input(self):
        self.fails_with_one_line("^heed train: standard input reaches one rank of several; give files", 2,
                                 "--pairs", "-")

    def test_no_pairs(self):
        self.write("train.tsv", "")
        self.fails_with_one_line("^heed train: .*no sentence pairs", 2)

    def test_a_rank_that_stands_still(self):
        process = self.started(2, "--rank-timeout", "1", "--max-updates", "1000000")
        self.until_line(process, "update 1 ")
        child = self.ranks_of(process)[-1]
        os.kill(child, signal.SIGSTOP)
        said = re.findall("^heed train: .*has waited 1 s for rank.*$", process.stderr.read(), re.MULTILINE)
        self.assertEqual(len(said), 1)
        self.assertNotEqual(process.wait(60), 0)

    def test_more_ranks_than_batches(self):
        self.trained_on(4, "--accumulate", "1", "--max-updates", "4", "--model", "four")
        self.train("--accumulate", "1", "--max-updates", "4", "--model", "one")
        self.assertTrue(self.state("one") == self.state("four"))


class Translate(RanksTest):
    """Batches of lines are dealt; rank 0 reads, writes and speaks."""

    def setUp(self):
        super().setUp()
        self.train()
        source, target = zip(*(line.split("\t") for line in corpus(4500, seed=4).splitlines()))
        self.write("in.es", "\n".join(source))  # three times 2,048 lines are begun
        self.write("in.en", "\n".join(target))

    def translated(self, ranks, *arguments, model="m", stdin=None):
        done = subprocess.run([MPIRUN, "-np", str(ranks), HEED, "translate", "--model", model, "--threads", "1",
                               *arguments], cwd=self.at, env=ENVIRONMENT, capture_output=True, timeout=240,
                              stdin=stdin or subprocess.DEVNULL)
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        return done.stdout

    def test_any_number_of_ranks(self):
        for numbers, options in (((2, 3), ["--beam", "1", "--json"]),
                                 ((4,), ["--sample", "--seed", "5", "--n-best", "2", "--max-length", "8"]),
                                 ((3,), ["--force", "in.en", "--alignment", "--token-scores"])):
            expected = self.succeeds("translate", "--model", "m", "--input", "in.es", *options)
            for ranks in numbers:
                with self.subTest(options=options, ranks=ranks):
                    self.assertTrue(self.translated(ranks, "--input", "in.es", *options).decode() == expected)

    def test_rank_0_has_standard_input(self):
        few = self.write("few.es", "\n".join(line.split("\t")[0] for line in corpus(100).splitlines()))
        expected = self.succeeds("translate", "--model", "m", "--input", "few.es")
        with open(few, "rb") as stdin:
            self.assertEqual(self.translated(3, "--output", "out.en", stdin=stdin), b"")
        self.assertEqual((self.at / "out.en").read_text(), expected)

    def test_fewer_lines_than_ranks(self):
        expected = self.succeeds("translate", "--model", "m", "el perro", "", "a\nb").encode()
        self.assertEqual(self.translated(4, "el perro", "", "a\nb"), expected)
        self.assertEqual(self.translated(2), b"")

    def test_a_model_of_another_maker(self):
        marian = SHARED / "conformance/models/marian"
        if not marian.exists():
            self.skipTest("needs shared/conformance/models, which is not here")
        lines = [line.split("\t")[0] for line in corpus(30).splitlines()]
        expected = self.succeeds("translate", "--model", marian, *lines).encode()
        self.assertEqual(self.translated(3, *lines, model=marian), expected)
        shutil.copytree(marian, self.at / "marian")
        config = self.at / "marian/tokenizer_config.json"
        config.write_text(config.read_text() + "\n")
        self.fails_with_one_line("^heed translate: what was asked for, with the model, of rank 0 is .* of rank 1 ", 2,
                                 run=["translate", "--model", "marian", "el perro"],
                                 program=self.on_rank(1, f"mkdir -p else && cd else && ln -sfn {marian} marian"))

    def test_what_fails_is_one_line(self):
        for line, *arguments in (("--input missing.es: No such file", "--input", "missing.es"),
                                 (".*/dev/full: No space left", "--input", "dev.tsv", "--output", "/dev/full"),
                                 ("dev.tsv has 20 lines but the input has more", "--input", "in.es", "--force",
                                  "dev.tsv"),
                                 (".*--beam", "--beam", "0")):
            with self.subTest(line):
                self.fails_with_one_line(f"^heed translate: {line}", 3, *arguments, run=["translate", "--model", "m"])

    def test_another_model_on_a_rank(self):
        self.train("--model", "other/m", "--seed", "9")
        self.fails_with_one_line("^heed translate: what was asked for, with the model, of rank 0 is .* of rank 1 ", 2,
                                 run=["translate", "--model", "m", "el perro"],
                                 program=("sh", "-c", f'if [ {RANK} = 1 ]; then cd other; fi; '
                                          'exec "$HEED_TEST_PROGRAM" "$@"', "heed"))

    def test_a_rank_that_stands_still(self):
        os.mkfifo(self.at / "silent")
        process = self.started(2, run=["translate", "--model", "m", "--rank-timeout", "1", "--input", "silent"])
        said = re.findall("^heed translate: .*has waited 1 s for rank 0.*$", process.stderr.read(), re.MULTILINE)
        self.assertEqual(len(said), 1)
        self.assertNotEqual(process.wait(60), 0)


if __name__ == "__main__":
    unittest.main()
