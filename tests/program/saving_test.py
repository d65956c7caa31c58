"""What saving leaves behind: killed or failing at any system call, on every kind of mount, beside readers, and in
directories that are not heed's. HEED_TEST_ALL=1 tries each call and 100 random moments instead of a sample."""
import errno
import json
import os
import pathlib
import random
import shlex
import shutil
import signal
import struct
import subprocess
import time
import unittest
import zlib

from program import HEED, SHARED, TINY, ProgramTest, TrainingTest, corpus, safetensors, snapshot

ALL = os.environ.get("HEED_TEST_ALL") == "1"
SHIM = os.environ.get("HEED_SHIM")  # not given where a sanitizer's runtime must be the first library
needs_shim = unittest.skipUnless(SHIM, "SKIPPED: no library is loaded before a sanitizer's runtime")
RUN = ["train", "--pairs", "train.tsv", "--valid-pairs", "dev.tsv", "--model", "m", *TINY, "--d-model", "16",
       "--feed-forward", "16", "--max-updates", "4", "--validate-every", "2", "--average", "2", "--save-every", "1",
       "--log-every", "1"]
TWO_VOCABULARIES = ["--separate-vocabularies", "--vocab-size", "290"]
# Even root may not write there without this capability.
ORDINARY = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search"] if os.geteuid() == 0 else []
NAMESPACE = ["unshare", "-m"] if os.geteuid() == 0 else ["unshare", "-rm"]


def mounts(kind):
    """Whether this kind can be mounted in a namespace of one's own."""
    how = {"bind": "mkdir $D/a $D/b && mount --bind $D/a $D/b", "tmpfs": "mount -t tmpfs none $D",
           "overlay": "mount -t tmpfs none $D && mkdir $D/l $D/u $D/w $D/m && "
                      "mount -t overlay none -o lowerdir=$D/l,upperdir=$D/u,workdir=$D/w $D/m"}[kind]
    script = f'D=$(mktemp -d) && ({how}); e=$?; umount -R $D/b $D 2>/dev/null; rm -rf --one-file-system $D; exit $e'
    return subprocess.run([*NAMESPACE, "sh", "-c", script], capture_output=True).returncode == 0


def needs_mount(kind):
    return unittest.skipUnless(mounts(kind), f"SKIPPED: {kind} cannot be mounted here")


def whole(directory):
    """The files that training.json stands with, read as the journal says, where they are as it says; else None."""
    journal = {"rename": [], "remove": []}
    if (directory / ".heed-journal").exists():
        journal = json.loads((directory / ".heed-journal").read_text())
    parts = {one["to"]: directory / one["from"] for one in journal["rename"]}

    def read(name):
        if name in journal["remove"]:
            return None
        for path in [parts.get(name, directory / name), directory / name]:
            if path.exists():
                return path.read_bytes()
        return None

    state = read("training.json")
    files = json.loads(state)["files"] if state else {}
    right = all(read(name) is not None and len(read(name)) == file["bytes"] and zlib.crc32(read(name)) == file["crc32"]
                for name, file in files.items())
    return set(files) if right else None


def identities(directory):
    """Of everything below it: inode, time of change and content."""
    found = {}
    for path in directory.rglob("*"):
        status = path.lstat()
        content = path.read_bytes() if path.is_file() and not path.is_symlink() else None
        found[str(path.relative_to(directory))] = (status.st_ino, status.st_mtime_ns, status.st_mode, content)
    return found


class SavingTest(TrainingTest):
    RUN = RUN

    def setUp(self):
        super().setUp()
        self.write("train.tsv", corpus(60))
        self.write("dev.tsv", corpus(8, seed=2))

    def names(self, directory="m"):
        return sorted(path.name for path in (self.at / directory).iterdir())

    def expect_the_same(self, directory="m"):
        for name in ["model.safetensors", "training.safetensors"]:
            self.assertTrue((self.at / directory / name).read_bytes() == (self.at / "whole" / name).read_bytes())
        self.assertEqual(self.names(directory), self.names("whole"))

    def reads(self, directory="m"):
        """The model answers if there is one yet, and is one set; reading changes nothing."""
        if not (self.at / directory).exists():
            return
        before = identities(self.at / directory)
        files = whole(self.at / directory)
        self.assertIsNotNone(files)
        done = self.heed("translate", "--model", directory, stdin="el perro\n")
        self.assertEqual(done.returncode, 0 if "model.safetensors" in files else 1, done.stderr.decode())
        self.assertEqual(identities(self.at / directory), before)


@needs_shim
class EachSystemCall(SavingTest):
    def shim(self, **how):
        return {"LD_PRELOAD": SHIM, **{"SHIM_" + name: str(value) for name, value in how.items()}}

    def calls(self):
        """How many change files in a whole run; which ones are tried."""
        self.train("--model", "whole", env=self.shim(COUNT=self.at / "count"))
        count = int((self.at / "count").read_text())
        self.assertGreater(count, 100)
        return range(1, count + 1) if ALL else range(3, count + 1, 13)

    def test_killed_at_it(self):
        for call in self.calls():
            with self.subTest(call):
                self.train(env=self.shim(KILL=call), code=-signal.SIGKILL)
                self.reads()
                self.train()
                self.expect_the_same()
                shutil.rmtree(self.at / "m")

    def test_it_fails(self):
        for call in self.calls():
            number = [errno.ENOSPC, errno.EIO][call % 2]
            with self.subTest(f"{call} {errno.errorcode[number]}"):
                done = self.heed(*RUN, env=self.shim(FAIL=f"{call}:{number}"))
                self.assertIn(done.returncode, [0, 1], done.stderr.decode())  # 0: what may fail, a lock that stays
                if done.returncode == 1:
                    self.assertIn(os.strerror(number), done.stderr.decode().splitlines()[-1])
                    self.assertEqual(done.stderr.decode().count(os.strerror(number)), 1)
                self.reads()
                self.train()
                self.expect_the_same()
                shutil.rmtree(self.at / "m")

    def test_export_killed_at_it(self):
        self.train()
        for source, *more in [["first", *TWO_VOCABULARIES], ["second"]]:
            self.train("--model", source, "--max-updates", "1", *more)
            self.succeeds("export", "--model", source, "--to", source + "-alone")
        answers = [self.succeeds("translate", "--model", source + "-alone", stdin="el perro come pan\n", says=None)
                   for source in ["first", "second"]]
        models = [self.model(source + "-alone") for source in ["first", "second"]]
        self.succeeds("export", "--model", "first", "--to", "count-to", env=self.shim(COUNT=self.at / "count"))
        count = int((self.at / "count").read_text())
        for call in range(1, count + 1):
            with self.subTest(call):
                self.succeeds("export", "--model", "first", "--to", "to", "--overwrite")
                done = self.heed("export", "--model", "second", "--to", "to", "--overwrite", env=self.shim(KILL=call))
                self.assertIn(done.returncode, [0, -signal.SIGKILL])  # over a model it makes no directory
                self.assertIn(self.succeeds("translate", "--model", "to", stdin="el perro come pan\n"), answers)
                held = json.loads(self.succeeds("inspect", "--json", "to"))
                self.assertEqual("source_vocabulary" in held, "source_vocab_size" in held["config"])
                self.succeeds("export", "--model", "second", "--to", "to", "--overwrite")
                self.assertTrue(self.model("to") == models[1])
                self.assertEqual(self.names("to"), self.names("second-alone"))

    def test_file_systems_without_locks_exchange_or_links(self):
        self.train("--model", "whole")
        for call, number in [("flock", errno.ENOLCK), ("flock", errno.EBADF), ("flock", errno.ENOTSUP),
                             ("renameat2", errno.EINVAL), ("link", errno.EPERM)]:
            with self.subTest(call + " " + errno.errorcode[number]):
                deny = self.shim(DENY=f"{call}:{number}")
                self.train("--max-updates", "2", env=deny)
                self.train(env=deny)
                self.expect_the_same()
                self.succeeds("export", "--model", "m", "--to", "half", "--overwrite", env=deny)
                shutil.rmtree(self.at / "m")


class RandomMoments(SavingTest):
    @unittest.skipUnless(ALL, "SKIPPED: 100 random moments take minutes; HEED_TEST_ALL=1 tries them")
    def test_killed(self):
        length = ["--max-updates", "60", "--validate-every", "10"]
        begun = time.monotonic()
        self.train("--model", "whole", *length)
        duration = time.monotonic() - begun
        choose, kills = random.Random(7), 0
        while kills < 100:
            process = self.start(*length, "--threads", str(1 + kills % 2))
            time.sleep(choose.uniform(0, duration))
            process.kill()
            process.communicate()
            if process.returncode == 0:
                self.expect_the_same()
                shutil.rmtree(self.at / "m")
                continue
            self.assertEqual(process.returncode, -signal.SIGKILL)
            kills += 1
            self.reads()
        self.train(*length)
        self.expect_the_same()


class Readers(SavingTest):
    def test_beside_a_training_that_saves_each_update(self):
        process = self.start("--max-updates", "1000000", "--patience", "0")
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        self.until_line(process, "update 5 ")
        for _ in range(40 if ALL else 15):
            self.assertNotEqual(self.succeeds("translate", "--model", "m", "--beam", "1", stdin="el perro\n"), "")
            held = json.loads(self.succeeds("inspect", "--json", "m"))
            names = [file["file"] for file in held["files"]]
            self.assertEqual(names[0], "model.safetensors")
            self.assertIn("training.safetensors", names)
            self.assertEqual(sum(name.startswith("checkpoint-") for name in names), 2, names)
        self.assertIsNone(process.poll())


class Mounts(SavingTest):
    def inside(self, script):
        """Runs a script of sh in a mount namespace of its own; heed stands for the program."""
        script = f"set -e\nheed() {{ {shlex.quote(HEED)} \"$@\"; }}\nRUN={shlex.quote(shlex.join(RUN))}\n" + script
        return subprocess.run([*NAMESPACE, "sh", "-c", script], cwd=self.at, capture_output=True, text=True, timeout=240)

    def works(self, script):
        done = self.inside(script)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    @needs_mount("bind")
    def test_bind_mount_below(self):
        self.write("nas/photos/one.jpg", "precious")
        before = identities(self.at / "nas")
        self.works("mkdir -p m/nas; mkdir -p .hidden; rmdir m/nas m; heed $RUN --max-updates 2\n"
                   "mkdir m/nas; mount --bind nas m/nas; heed $RUN\n"
                   "heed export --model m --to half; mkdir half/nas; mount --bind nas half/nas\n"
                   "heed export --model m --to half --overwrite --dtype bf16")
        self.assertEqual(identities(self.at / "nas"), before)
        self.train("--model", "whole")
        (self.at / "m/nas").rmdir()
        self.expect_the_same()

    @needs_mount("bind")
    def test_export_into_a_directory_with_a_mount_below_is_refused_where_it_is_not_ours(self):
        self.train()
        self.write("nas/photo.jpg", "precious")
        self.write("project/nas/.keep", "")
        before = identities(self.at / "nas")
        done = self.inside("mount --bind nas project/nas; heed export --model m --to project")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("holds files that heed did not make", done.stderr)
        self.assertEqual(identities(self.at / "nas"), before)

    @needs_mount("bind")
    def test_bind_mount_at_it(self):
        self.works("mkdir real m; mount --bind real m; heed $RUN --max-updates 2; heed $RUN\n"
                   "mkdir half; mount --bind half half; heed export --model m --to half\n"
                   "heed export --model m --to half --overwrite --dtype f32")
        self.train("--model", "whole")
        self.expect_the_same("real")

    @needs_mount("bind")
    def test_a_file_that_is_a_mount_point(self):
        """Seen before anything is written: afterwards the other files would be new and this one could not follow."""
        self.train()
        self.succeeds("export", "--model", "m", "--to", "half")
        self.write("alone", (self.at / "half/model.safetensors").read_bytes())
        (self.at / "card").touch()
        self.write("half/MODEL_CARD.md", "")  # which a model without one removes
        (self.at / "m/MODEL_CARD.md").unlink()
        for name, mounted in [("model.safetensors", "alone"), ("MODEL_CARD.md", "card")]:
            before = identities(self.at / "half")
            done = self.inside(f"mount --bind {mounted} half/{name}\n"
                               "heed export --model m --to half --overwrite --dtype bf16 && exit 9\n"
                               "ls -A half > names; echo el perro | heed translate --model half > answer")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(f"half/{name}: it is a mount point, which cannot be replaced; mount half instead", done.stderr)
            self.assertEqual(identities(self.at / "half"), before)
            self.assertEqual((self.at / "names").read_text().split(), self.names("half"))
        done = self.inside("echo old > alone; touch out; mount --bind alone out\n"
                           "echo el perro | heed translate --model m -o out && exit 9; cat out; ls -A")
        self.assertIn("out: Device or resource busy; if it is mounted by itself, mount its directory", done.stderr)
        self.assertTrue(done.stdout.startswith("old\n"), done.stdout)
        self.assertNotIn(".part", done.stdout)

    @needs_mount("tmpfs")
    def test_mount_point_of_a_file_system(self):
        self.works("mkdir m; mount -t tmpfs none m; mkdir m/lost+found; echo x > m/.hidden\n"
                   "heed $RUN --max-updates 2; heed $RUN; mkdir out; cp m/*.safetensors m/*.json* m/*.toml m/*.txt m/*.md out")
        self.train("--model", "whole")
        self.expect_the_same("out")

    @needs_mount("overlay")
    def test_overlay(self):
        self.train("--max-updates", "2")
        (self.at / "m").rename(self.at / "kept")
        self.write("mine/file", "mine")
        out = self.works("mkdir t; mount -t tmpfs none t; mkdir t/lower t/upper t/work t/o; cp -r kept t/lower/m\n"
                         "cp -r mine t/lower/m/mine; find t/lower -type f | sort | xargs sha256sum > before\n"
                         "mount -t overlay none -o lowerdir=t/lower,upperdir=t/upper,workdir=t/work t/o\n"
                         "heed $RUN --model t/o/m; heed export --model t/o/m --to t/o/half\n"
                         "heed export --model t/o/m --to t/o/half --overwrite --dtype bf16\n"
                         "find t/lower -type f | sort | xargs sha256sum | cmp - before; cat t/o/m/mine/file\n"
                         "rm -r t/o/m/mine; cp -r t/o/m out")
        self.assertEqual(out, "mine")
        self.train("--model", "whole")
        self.expect_the_same("out")

    @needs_mount("tmpfs")
    def test_full(self):
        self.train("--model", "whole")
        size = sum(path.stat().st_size for path in (self.at / "whole").iterdir())
        done = self.inside(f"mkdir t; mount -t tmpfs -o size={size * 4} none t\n"
                           "heed $RUN --max-updates 2 --model t/m\n"
                           "ls -A t/m > before; echo el perro | heed translate --model t/m > answer\n"
                           "head -c 100m /dev/zero > t/filler 2>/dev/null || true\n"
                           "heed $RUN --model t/m && exit 9\n"
                           "ls -A t/m | cmp - before; echo el perro | heed translate --model t/m | cmp - answer\n"
                           "rm t/filler; heed $RUN --model t/m; cp -r t/m out")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stderr.count("No space left on device; free some space"), 1, done.stderr)
        self.expect_the_same("out")

    @needs_mount("bind")
    def test_read_only(self):
        self.train("--max-updates", "2")
        before = identities(self.at / "m")
        done = self.inside("mkdir ro; mount --bind m ro; mount -o remount,bind,ro ro\n"
                           "echo el perro | heed translate --model ro; heed inspect ro > /dev/null\n"
                           "heed $RUN --model ro && exit 9; heed export --model m --to ro && exit 9; exit 0")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("Read-only file system; check the permissions", done.stderr)
        self.assertEqual(identities(self.at / "m"), before)

    def test_parent_that_may_not_be_written_to(self):
        (self.at / "m").mkdir()
        os.chmod(self.at, 0o555)
        self.addCleanup(os.chmod, self.at, 0o755)
        self.train("--max-updates", "2", wrapper=ORDINARY)
        self.train(wrapper=ORDINARY)
        os.chmod(self.at, 0o755)
        self.train("--model", "whole")
        self.expect_the_same()


class DirectoriesOfOthers(SavingTest):
    def setUp(self):
        super().setUp()
        outer = self.at  # ".." is the test's own, too: should heed ever write there, nobody's files are in the way
        self.at = outer / "inner"
        self.at.mkdir()
        for name in ["train.tsv", "dev.tsv"]:
            (outer / name).rename(self.at / name)

    def refuses_to_write(self, *arguments, says="holds files that heed did not make", code=2):
        before = identities(self.at)
        self.refuses(code, says, *arguments)
        self.assertEqual(identities(self.at), before)

    def test_neither_trained_nor_exported_into(self):
        self.train("--max-updates", "1")
        self.write("project/src/main.c", "int main() {}\n")
        self.write("hub/config.json", json.dumps({"architectures": ["MarianMTModel"], "vocab_size": 65001}))
        self.write("hub/model.safetensors", safetensors({}))
        self.write("notes/vocabulary.txt", "my words\n")
        for directory in ["project", "hub", "notes", ".", "..", "project/..", "m/.."]:
            with self.subTest(directory):
                self.refuses_to_write(*RUN, "--model", directory)
                self.refuses_to_write("export", "--model", "m", "--to", directory)

    def test_empty_but_for_hidden_files(self):
        (self.at / "m/lost+found").mkdir(parents=True)
        self.write("m/.directory", "mine")
        self.train("--max-updates", "1")
        self.succeeds("export", "--model", "m", "--to", "half")
        self.assertEqual((self.at / "m/.directory").read_text(), "mine")

    def test_a_model_without_its_training(self):
        self.train("--max-updates", "1")
        self.succeeds("export", "--model", "m", "--to", "half")
        self.refuses_to_write(*RUN, "--model", "half", says="without its training")
        (self.at / "half/vocabulary.txt").unlink()
        self.refuses_to_write(*RUN, "--model", "half", says="without its training")

    def test_files_of_others_stay_through_a_training(self):
        self.train("--max-updates", "1")
        for name in ["m/mine.txt", "m/checkpoint-of-mine.safetensors", "m/checkpoint-00000099.safetensors",
                     "m/notes/deep/one", ".m.1-0.part/tree", ".m.previous/tree"]:
            self.write(name, name)
        (self.at / "m/link").symlink_to("../dev.tsv")
        kept = ["mine.txt", "checkpoint-of-mine.safetensors", "checkpoint-00000099.safetensors", "notes/deep/one", "link"]
        before = {name: value for name, value in identities(self.at / "m").items() if name in kept}
        beside = identities(self.at / ".m.1-0.part"), identities(self.at / ".m.previous")
        self.train()
        after = identities(self.at / "m")
        self.assertEqual({name: after.get(name) for name in kept}, before)
        self.assertEqual((identities(self.at / ".m.1-0.part"), identities(self.at / ".m.previous")), beside)

    def test_links_in_the_place_of_files(self):
        self.train("--max-updates", "2")
        self.write("precious", "mine")
        for name in ["training.safetensors", "train.log.jsonl", "model.safetensors"]:
            with self.subTest(name):
                shutil.copytree(self.at / "m", self.at / "n")
                content = (self.at / "n" / name).read_bytes()
                self.write("precious", content)
                (self.at / "n" / name).unlink()
                (self.at / "n" / name).symlink_to("../precious")
                error = self.train("--model", "n", code=1)
                self.assertIn("n/" + name, error.splitlines()[-1])
                self.assertEqual((self.at / "precious").read_bytes(), content)
                self.assertTrue((self.at / "n" / name).is_symlink())
                shutil.rmtree(self.at / "n")

    def test_a_directory_of_before_that_was_cut_off(self):
        self.train("--max-updates", "2")
        (self.at / "m").rename(self.at / ".m.previous")
        for command in [RUN, ["translate", "--model", "m"], ["inspect", "m"], ["export", "--model", "m", "--to", "n"]]:
            self.refuses_to_write(*command, says="rename that to m", code=1)
        (self.at / ".m.previous").rename(self.at / "m")
        self.train()
        self.train("--model", "whole")
        self.expect_the_same()

    def test_log_of_others(self):
        self.train("--max-updates", "1")
        self.write("m/train.log.jsonl", "mine\n")
        self.assertIn("not the log of a training", self.train(code=1).splitlines()[-1])
        self.assertEqual((self.at / "m/train.log.jsonl").read_text(), "mine\n")

    def test_options_of_others(self):
        self.train("--max-updates", "1")
        kept = (self.at / "m/train.toml").read_text()
        for mine in ["dropout = 0.5\n", "", "# mine\n" + kept[kept.index("threads"):]]:
            self.write("m/train.toml", mine)
            for command in [RUN, RUN[:RUN.index("--preset")], ["train", "--resume", "m"]]:
                self.refuses_to_write(*command, code=1, says="m/train.toml: not the options of a training, whose first")
        for line in [".".join(["a"] * 100_000) + " = 1", "[" + ".".join(["a"] * 100_000) + "]", "[#"]:
            self.write("m/train.toml", kept + line)
            for command in [RUN[:RUN.index("--preset")], ["train", "--resume", "m"]]:
                self.refuses_to_write(*command, code=1, says=f"m/train.toml: line {kept.count(chr(10)) + 1}: ")
        self.write("m/train.toml", mine)
        (self.at / "m/train.toml").rename(self.at / "m/mine.toml")
        self.train("--max-updates", "2")
        self.assertEqual((self.at / "m/train.toml").read_text().splitlines()[0], kept.splitlines()[0])
        self.assertEqual((self.at / "m/mine.toml").read_text(), mine)

    def test_options_that_an_earlier_heed_kept(self):
        self.write("text.txt", "el perro come pan\n" * 100)
        of_text = ["train", "--text", "text.txt", "--preset", "tiny", "--vocab-type", "characters", "--d-model", "16",
                   "--feed-forward", "16", "--block", "8", "--schedule", "constant", "--model", "m"]
        for run in [RUN, of_text]:
            self.assertEqual(self.heed(*run, "--max-updates", "1").returncode, 0)
            mark, options = (self.at / "m/train.toml").read_text().split("\n", 1)
            self.assertTrue(mark.startswith("# ") and options.startswith("threads = "), mark)
            self.write("m/train.toml", options)  # it had no such line
            done = self.heed("train", "--resume", "m", "--max-updates", "2")
            self.assertEqual(done.returncode, 0, done.stderr.decode())
            self.assertIn("goes on after update 1", done.stderr.decode())
            self.assertEqual((self.at / "m/train.toml").read_text().split("\n")[0], mark)
            shutil.rmtree(self.at / "m")

    def test_ways_of_naming_it(self):
        (self.at / "link").symlink_to("m")
        (self.at / "m").mkdir()
        self.train("--model", "link", "--max-updates", "2")
        self.assertEqual(self.heed(*[str(self.at / word) if word.endswith(".tsv") else word for word in RUN], "--model",
                                   ".", wrapper=["env", "-C", str(self.at / "m")]).returncode, 0)
        self.train("--model", "whole")
        self.expect_the_same()
        self.assertTrue((self.at / "link").is_symlink())


class Export(SavingTest):
    def setUp(self):
        super().setUp()
        self.train("--max-updates", "2")

    def refused(self, says, *arguments, code=2):
        before = identities(self.at)
        self.refuses(code, says, "export", "--model", "m", *arguments)
        self.assertEqual(identities(self.at), before)

    def test_over_a_training(self):
        self.train("--model", "n", "--max-updates", "1")
        self.refused("--to n holds a training, which could not resume", "--to", "n")
        self.write("begun/config.json", (self.at / "m/config.json").read_text())
        self.write("begun/vocabulary.txt", (self.at / "m/vocabulary.txt").read_text())
        self.refused("holds a training", "--to", "begun")

    def test_over_itself(self):
        (self.at / "link").symlink_to("m")
        for name in ["m", "./m", "m/", "link", str(self.at / "m"), "m/../m"]:
            self.refused("is the model that is exported", "--to", name)

    def test_over_a_model(self):
        self.succeeds("export", "--model", "m", "--to", "half")
        self.write("half/mine.txt", "mine")
        inode = (self.at / "half").stat().st_ino
        os.chmod(self.at / "half/model.safetensors", 0o640)
        self.refused("--to half holds a model; give --overwrite to replace it", "--to", "half", "--dtype", "f32")
        self.write("half/NOTICE", "of the old model")
        before = self.model("half"), self.names("half")
        self.refuses(1, "half/NOTICE: it belongs to the model that is replaced, and heed removes no licence and no README.md; "
                     "remove it, or name another directory",
                     "export", "--model", "m", "--to", "half", "--dtype", "f32", "--overwrite")
        self.assertTrue((self.model("half"), self.names("half")) == before)
        os.unlink(self.at / "half/NOTICE")
        self.write("m/NOTICE", "of the new model")
        self.succeeds("export", "--model", "m", "--to", "half", "--dtype", "f32", "--overwrite")
        self.assertEqual((self.at / "half/NOTICE").read_text(), "of the new model")
        os.unlink(self.at / "m/NOTICE")
        os.unlink(self.at / "half/NOTICE")
        self.assertEqual(self.names("half"),
                         ["MODEL_CARD.md", "config.json", "mine.txt", "model.safetensors", "vocabulary.txt"])
        self.assertEqual((self.at / "half").stat().st_ino, inode)
        self.assertEqual((self.at / "half/model.safetensors").stat().st_mode & 0o777, 0o640)
        self.assertEqual((self.at / "half/mine.txt").read_text(), "mine")

    def test_over_a_model_with_more_files(self):
        self.train("--model", "two", "--max-updates", "1", *TWO_VOCABULARIES)
        shutil.copytree(self.at / "m", self.at / "n")
        (self.at / "m/MODEL_CARD.md").unlink()
        plain = ["config.json", "mine.txt", "model.safetensors", "vocabulary.txt"]
        for command, names in [(["export", "--model", "m"], plain), (["average", "m", "n"], ["MODEL_CARD.md", *plain])]:
            self.succeeds("export", "--model", "two", "--to", "half", "--overwrite")
            self.write("half/mine.txt", "mine")
            self.assertEqual(self.names("half"), sorted([*plain, "MODEL_CARD.md", "source_vocabulary.txt"]))
            self.refuses(2, "--to half holds a model; give --overwrite", *command, "--to", "half")
            self.succeeds(*command, "--to", "half", "--overwrite")
            self.assertEqual(self.names("half"), names)
            self.assertEqual(self.succeeds("translate", "--model", "half", stdin="el perro\n").count("\n"), 1)
        (self.at / "half/source_vocabulary.txt").symlink_to("../dev.tsv")
        self.refuses(1, "half/source_vocabulary.txt: ", "export", "--model", "m", "--to", "half", "--overwrite")

    def test_vocabularies_of_other_models(self):
        kept = (self.at / "m/vocabulary.txt").read_text()
        shorter = "".join(line + "\n" for line in kept.replace("pieces=300", "pieces=299").splitlines()[:-1])
        self.train("--model", "two", "--max-updates", "1", *TWO_VOCABULARIES)
        shutil.copytree(self.at / "m", self.at / "n")
        for content, says in [("garbage\n", "m/vocabulary.txt: "), ("", "m/vocabulary.txt: "),
                              (shorter, "m: vocabulary.txt has 299 pieces, config.json says 300"),
                              (b"\x0a\x05\x0a\x01a\x15\0\0\0\0", "m/vocabulary.txt: a sentencepiece model")]:
            for model in ["m", "n"]:
                self.write(model + "/vocabulary.txt", content)
            self.refused(says, "--to", "half", code=1)
            self.refuses(1, says, "average", "m", "n", "--to", "half")
        for content, says in [("garbage\n", "two/source_vocabulary.txt: "),
                              (kept, "source_vocabulary.txt has 300 pieces, config.json says 290")]:
            self.write("two/source_vocabulary.txt", content)
            self.refuses(1, says, "export", "--model", "two", "--to", "half")

    def tensors(self):
        """Header of the model, and its data."""
        whole_file = self.model()
        [length] = struct.unpack("<Q", whole_file[:8])
        return json.loads(whole_file[8:8 + length]), bytearray(whole_file[8 + length:])

    def test_values_that_are_not_finite(self):
        for value, says in [(float("nan"), "holds NaN"), (float("-inf"), "holds an infinite value"),
                            (70000.0, "too large for f16; give --dtype bf16")]:
            header, data = self.tensors()
            struct.pack_into("<f", data, header["encoder.layers.0.linear1.weight"]["data_offsets"][0] + 8, value)
            self.write("m/model.safetensors", safetensors(header, bytes(data)))
            self.refused("tensor 'encoder.layers.0.linear1.weight' " + ("holds 70000" if value == 70000 else says), "--to",
                         "half", code=1)
        self.succeeds("export", "--model", "m", "--to", "half", "--dtype", "bf16")

    def test_tensors_of_other_models(self):
        header, data = self.tensors()
        renamed = {name.replace("linear1", "linear9"): info for name, info in header.items()}
        self.write("m/model.safetensors", safetensors(renamed, bytes(data)))
        self.refused("m/model.safetensors", "--to", "half", code=1)
        foreign = [path for path in (SHARED / "conformance/formats").glob("*.safetensors")]
        for path in [*foreign, None]:
            self.write("m/model.safetensors", path.read_bytes() if path else safetensors({}))
            self.refused("m/model.safetensors", "--to", "half", code=1)


class Damage(SavingTest):
    def test_damaged_training_is_found(self):
        self.train("--max-updates", "2", *TWO_VOCABULARIES)
        self.train("--model", "whole", *TWO_VOCABULARIES)
        files = [name for name in self.names() if name.endswith((".safetensors", ".json", ".txt"))]
        self.assertEqual([name for name in files if not name.endswith(".safetensors")],
                         ["config.json", "source_vocabulary.txt", "training.json", "vocabulary.txt"])
        self.assertEqual(len(files), 7)
        choose = random.Random(3)
        for name in files:
            for _ in range(20 if ALL else 3):
                content = bytearray((self.at / "m" / name).read_bytes())
                kept = bytes(content)
                content[choose.randrange(len(content))] ^= 1 << choose.randrange(8)
                for damaged in [bytes(content), kept[:-1], kept + b"\0"]:
                    self.write("m/" + name, damaged)
                    before = identities(self.at / "m")
                    error = self.train(*TWO_VOCABULARIES, code=1).splitlines()[-1]
                    if name == "training.json":  # the field that holds its checksum may be what was damaged
                        self.assertIn("m/training.json: ", error)
                    else:
                        self.assertIn(f"m/{name}: damaged since it was saved", error)
                    self.assertIn("; put back a copy of the directory, or start over in another one", error)
                    self.assertEqual(identities(self.at / "m"), before)
                self.write("m/" + name, kept)
        self.train(*TWO_VOCABULARIES)
        self.expect_the_same()

    def test_numbers_of_the_state(self):
        """Another number is one of a whole state, but not of the one that was saved."""
        self.train("--max-updates", "2")
        kept = (self.at / "m/training.json").read_text()
        stream = json.loads(kept)["generator_stream"]
        changed = kept.replace(f'"generator_stream": "{stream}"', f'"generator_stream": "{stream}1"')
        self.assertNotEqual(changed, kept)
        self.write("m/training.json", changed)
        self.assertIn("m/training.json: damaged since it was saved", self.train(code=1).splitlines()[-1])

    def test_checksums_are_those_of_zlib(self):
        self.train("--max-updates", "2")
        text = (self.at / "m/training.json").read_bytes()
        rest, own = text.rsplit(b',\n  "crc32": ', 1)
        self.assertEqual(own, b"%d\n}\n" % zlib.crc32(rest + b"\n}\n"))
        files = json.loads(text)["files"]
        self.assertEqual(sorted(files), [name for name in self.names() if name.endswith((".safetensors", ".txt")) or
                                         name == "config.json"])
        for name, file in files.items():
            content = (self.at / "m" / name).read_bytes()
            self.assertEqual(file, {"bytes": len(content), "crc32": zlib.crc32(content)})

    def test_states_of_before_have_no_checksums(self):
        self.train("--model", "whole")
        self.train("--model", "begun", "--max-updates", "2")
        state = json.loads((self.at / "begun/training.json").read_text())
        for name in ["config.json", "vocabulary.txt"]:
            del state["files"][name]
        of_weights = {key: value for key, value in state.items() if key != "crc32"}
        of_nothing = {key: value for key, value in of_weights.items() if key != "files"}
        for before in [of_weights, of_nothing]:
            shutil.copytree(self.at / "begun", self.at / "m")
            self.write("m/training.json", json.dumps(before, indent=2) + "\n")
            self.train()
            self.expect_the_same()
            after = json.loads((self.at / "m/training.json").read_text())
            self.assertIn("crc32", after)
            self.assertLessEqual({"config.json", "vocabulary.txt"}, set(after["files"]))
            shutil.rmtree(self.at / "m")

    def test_a_broken_journal(self):
        self.train("--max-updates", "3")
        self.write("m/.heed-journal", "{}")
        for command in [RUN, ["translate", "--model", "m"], ["export", "--model", "m", "--to", "n"], ["inspect", "m"]]:
            self.refuses(1, "m/.heed-journal: not the journal", *command)


    def test_a_journal_that_came_with_the_directory(self):
        """It may name files that heed writes and no others."""
        self.train("--max-updates", "1")
        self.succeeds("export", "--model", "m", "--to", "half")
        part = ".notes.txt.heed-0123456789abcdef.part"
        self.write("half/notes.txt", "mine")
        self.write("half/" + part, "theirs")
        self.write("m/notes.txt", "mine")
        for journal in [{"format": 1, "rename": [], "remove": ["notes.txt"]},
                        {"format": 1, "rename": [{"from": part, "to": "notes.txt"}], "remove": []},
                        {"format": 1, "rename": [], "remove": ["config.json", "notes.txt"]}]:
            for directory in ["half", "m"]:
                self.write(directory + "/.heed-journal", json.dumps(journal))
            for command in [["export", "--model", "m", "--to", "half"], RUN, ["train", "--resume", "m"],
                            ["translate", "--model", "half"], ["inspect", "half"]]:
                self.refuses(1, '.heed-journal: it names "notes.txt", which is no file of heed\'s', *command)


class Limits(SavingTest):
    def limited(self, size, *arguments, **options):
        """With at most so many bytes in a file, and SIGXFSZ as a shell has it."""
        return self.heed(*arguments, wrapper=["prlimit", f"--fsize={size}"], **options)

    def test_the_size_of_a_file(self):
        self.train("--model", "whole")
        self.train("--max-updates", "2")
        self.write("text", "el perro come pan\n" * 400)
        self.write("out", "old")
        says = "File too large; raise the limit of a file's size (ulimit -f), or write elsewhere"
        before = snapshot(self.at)
        for command in [["translate", "--model", "m", "-i", "text", "-o", "out"],
                        ["export", "--model", "m", "--to", "half"],
                        ["attend", "--model", "m", "el perro", "--html", "out"], [*RUN, "--model", "m"],
                        ["bench", "--only", "translation", "--model", "m", "--seconds", "0.01", "--json", "out"]]:
            done = self.limited(1000, *command)
            self.assertEqual(done.returncode, 1, (command, done.stderr))
            self.assertIn(says, done.stderr.decode().splitlines()[-1])
        after = snapshot(self.at)
        log = "m/train.log.jsonl"  # --resume takes back what was logged behind the last checkpoint
        self.assertTrue(after.pop(log).startswith(before.pop(log)))
        self.assertTrue(after == before)
        with open(self.at / "to", "wb") as to:
            done = self.limited(1000, "translate", "--model", "m", "-i", "text", stdout=to)
        self.assertEqual(done.returncode, 1)
        self.assert_one_line(done.stderr.decode(), "writing to standard output failed")
        self.train()
        self.expect_the_same()


class ClosedDescriptors(SavingTest):
    """What is opened next would take their numbers, and messages would go into it."""
    def closed(self, which, *arguments):
        script = 'exec "$@" ' + " ".join({0: "<&-", 1: ">&-", 2: "2>&-"}[number] for number in which)
        return self.heed(*arguments, wrapper=["sh", "-c", script, "sh"])

    def test_training(self):
        self.train("--model", "whole", "--log-every", "1")
        done = self.closed([0, 1, 2], *RUN, "--log-every", "1")
        self.assertEqual((done.returncode, done.stderr, done.stdout), (0, b"", b""))
        for line in (self.at / "m/train.log.jsonl").read_text().splitlines():
            self.assertIn("type", json.loads(line))
        self.expect_the_same()

    def test_pictures(self):
        self.train("--max-updates", "1")
        for which in [[0], [0, 2], [1, 2], [0, 1, 2]]:
            done = self.closed(which, "attend", "--model", "m", "el perro", "--png", "a.png", "--html", "a.html")
            self.assertEqual(done.returncode, 0, (which, done.stderr))
            self.assertTrue((self.at / "a.png").read_bytes().startswith(b"\x89PNG"))
            for name in ["a.png", "a.html"]:
                (self.at / name).unlink()

    def test_reading_and_writing_them_fails(self):
        self.train("--max-updates", "1")
        done = self.closed([0], "translate", "--model", "m")
        self.assertEqual(done.returncode, 1)
        self.assert_one_line(done.stderr.decode(), "standard input: Bad file descriptor")
        done = self.closed([1], "translate", "--model", "m", "el perro")
        self.assertEqual(done.returncode, 1)
        self.assert_one_line(done.stderr.decode(), "writing to standard output failed")
        self.assertEqual(self.closed([2], "translate", "--model", "none").returncode, 1)


class OneFileForTwo(SavingTest):
    def test_pages_pictures_and_texts_over_what_is_read(self):
        self.train("--max-updates", "1")
        self.write("text", "el perro\n")
        for name in ["m/config.json", "m/vocabulary.txt", "m/../m/model.safetensors"]:
            self.refuses(2, "is what the command reads", "translate", "--model", "m", "--input", "text", "--output", name)
        for name in ["config.json", "model.safetensors", "vocabulary.txt"]:
            self.refuses(2, "is what the command reads", *RUN, "--model", "n", "--init", "m", "--html", "m/" + name)
            for option in ["--html", "--svg"]:
                self.refuses(2, "is what the command reads", "attend", "--model", "m", "el perro", option, "m/" + name)
            self.refuses(2, "is what the command reads", "bench", "--model", "m", "--json", "m/" + name, "--only", "translation")


class Signals(SavingTest):
    SELDOM = ["--max-updates", "1000000", "--patience", "0", "--save-every", "0", "--validate-every", "1000000"]

    def test_a_terminal_that_goes_away(self):
        process = self.start(*self.SELDOM)
        self.until_line(process, "update 7 ")
        for _ in range(3):  # the terminal's and the shell's
            process.send_signal(signal.SIGHUP)
        error = process.communicate()[1]
        self.assertEqual(process.returncode, 128 + signal.SIGHUP)
        self.assertIn("saved after update", error.splitlines()[-1])
        end = [*self.SELDOM, "--max-updates", str(json.loads((self.at / "m/training.json").read_text())["update"] + 2)]
        self.train(*end)
        self.train("--model", "whole", *end)
        self.assertTrue(self.model() == self.model("whole"))

    def test_nohup_goes_on(self):
        process = self.start(*self.SELDOM, preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        self.until_line(process, "update 7 ")
        process.send_signal(signal.SIGHUP)
        self.until_line(process, "update 100 ")


if __name__ == "__main__":
    unittest.main()
