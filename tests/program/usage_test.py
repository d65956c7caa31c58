"""The command line itself: help, versions, wrong use, configuration files, and outputs that cannot be written."""
import json
import os
import pathlib
import pty
import re
import shutil
import subprocess
import unittest
import zipfile

import tiny_models
from program import HEED, SANITIZED, ProgramTest, npy, png, zeros_npy

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUNDLED = ROOT / "models/spa-eng"
TINY_TEXT = ["--preset", "tiny", "--d-model", "32", "--feed-forward", "32", "--vocab-type", "characters", "--block", "16",
             "--batch", "4", "--max-updates", "5", "--threads", "1"]


def described(test):
    """Every command with its options, as the program itself describes them; the first is the program."""
    return json.loads(test.succeeds("help", "--json"))


def paths(test):
    """Every option and argument that takes a file or a directory, with its command."""
    return [(command, option) for command in described(test)[1:] for option in command["options"]
            if re.search("FILE|DIR", option["value"])]


class Help(ProgramTest):
    def setUp(self):
        super().setUp()
        self.commands = [c["name"] for c in described(self)[1:]]

    def test_every_command_shows_an_example(self):
        overview = self.succeeds("--help")
        for command in self.commands:
            with self.subTest(command):
                text = self.succeeds(command, "--help")
                self.assertIn("Example", text)
                self.assertIn(f"heed {command}", text.replace("\n", " "))
                self.assertIn(f"\n  {command} ", overview)

    def test_one_help_by_many_ways(self):
        overview = self.succeeds("--help")
        for way in ([], ["-h"], ["help"]):
            self.assertEqual(self.succeeds(*way), overview)
        for command in self.commands:
            with self.subTest(command):
                text = self.succeeds("help", command)
                self.assertEqual(self.succeeds(command, "--help"), text)
                self.assertEqual(self.succeeds(command, "-h"), text)
            with self.subTest(command + ", all options"):
                text = self.succeeds("help", "--all", command)
                self.assertEqual(self.succeeds(command, "--help-all"), text)
                self.assertEqual(self.succeeds(command, "--help", "--help-all"), text)
        self.refuses(2, "did you mean translate?", "help", "tranlsate")
        self.refuses(2, "did you mean train?", "help", "trian")

    def test_help_of_no_command(self):
        for way in (["--help"], ["-h"], ["--help-all"]):
            self.refuses(2, "unknown command 'nosuch'; heed --help lists what there is", "nosuch", *way)
            self.refuses(2, "unknown command 'trian'; did you mean train?", "trian", *way)
        self.assertEqual(self.succeeds("train", "--help"), self.succeeds("train", "-q", "--help"))

    def test_a_long_help_begins_with_what_most_calls_need(self):
        """20 options, an example before them; --help-all has each one."""
        [train] = [c for c in described(self) if c["name"] == "train"]
        names = [o["names"][-1] for o in train["options"]]
        self.assertEqual(len(train["main_options"]), 20)
        self.assertLessEqual(set(train["main_options"]), set(names))
        self.assertGreater(len(names), 90)
        short, whole = self.succeeds("train", "--help"), self.succeeds("train", "--help-all")
        self.assertEqual(re.findall(r"^ {2,6}(?:-., )?(--[a-z-]+)", short, re.M), train["main_options"])
        self.assertEqual(re.findall(r"^ {2,6}(?:-., )?(--[a-z0-9-]+)", whole, re.M), names)
        self.assertLess(short.index("Examples"), short.index("      --pairs FILE ...  "))
        self.assertIn(f"heed train --help-all shows all {len(names)} options.", short)
        self.assertLess(len(short.splitlines()), 70)

    def test_usage_shows_what_is_required(self):
        usage = self.succeeds("train", "--help").split("Usage:")[1].split("\n\n")[0]
        self.assertEqual([line.strip() for line in usage.splitlines()],
                         ["heed train --pairs FILE ... --model DIR [OPTIONS]", "heed train --text FILE ... --model DIR [OPTIONS]",
                          "heed train --init DIR --labelled FILE ... --model DIR [OPTIONS]", "heed train --resume DIR [OPTIONS]"])
        for command in described(self)[1:]:
            for option in command["options"]:
                if option["required"]:
                    name = option["names"][-1].upper() if option["argument"] else option["names"][-1]
                    self.assertTrue(all(name in line for line in command["usage"]), command["usage"])

    def test_version(self):
        self.assertRegex(self.succeeds("--version"), r"\Aheed \d+\.\d+\.\d+\n\Z")
        self.assertEqual(self.succeeds("-V"), self.succeeds("--version"))

    def test_folded(self):
        """To COLUMNS where there is no terminal, to 80 without it, and never beyond 100; examples stay as they are."""
        for columns, width in ((None, 80), ("60", 60), ("500", 100), ("nonsense", 80)):
            for command in self.commands:
                with self.subTest(command, columns=columns):
                    environment = dict(os.environ)
                    environment.pop("COLUMNS", None)
                    if columns:
                        environment["COLUMNS"] = columns
                    done = subprocess.run([HEED, command, "--help"], env=environment, stdout=subprocess.PIPE)
                    lines = done.stdout.decode().split("Example")[0].splitlines()
                    self.assertLessEqual(max(map(len, lines)), width)
                    self.assertGreater(max(map(len, lines)), width - 25)


class Description(ProgramTest):
    """What holds for every command and every option, those to come too."""

    def setUp(self):
        super().setUp()
        self.program, *self.commands = described(self)

    def options(self):
        return [(c, o) for c in [self.program, *self.commands] for o in c["options"]]

    def test_texts(self):
        for command in self.commands:
            with self.subTest(command["name"]):
                self.assertRegex(command["summary"], r"^\S")
                self.assertFalse(command["summary"].endswith("."))
                self.assertLessEqual(len(command["summary"]), 80)
                self.assertNotIn(command["group"], ("", "Subcommands"))
                self.assertIn("heed " + command["name"], command["examples"])
        for command, option in self.options():
            with self.subTest(command["name"], option=option["names"][-1]):
                self.assertRegex(option["text"], r"^[A-Z0-9(\"a-z]")
                self.assertFalse(option["text"].endswith("."))
                for name in option["names"]:
                    self.assertRegex(name, r"^(--[a-z0-9][a-z0-9-]+|-[a-zA-Z]|--[qkv]|[a-z]+)$")
                for choice in option["choices"]:
                    self.assertNotIn("_", choice)

    def test_defaults_are_shown_in_one_way(self):
        """In brackets at the end; a captured one is the program's own, so it needs no words in the text."""
        for command, option in self.options():
            with self.subTest(command["name"], option=option["names"][-1]):
                for word in ("efault", "(by preset)", "when absent"):
                    self.assertNotIn(word, option["text"])
                self.assertNotRegex(option["text"], r"\[[^\]]*\]$")
                if option["captured"] and re.fullmatch(r"-?[0-9.]+", option["default"]):
                    self.assertEqual(option["default"], option["captured"])

    def test_choices_are_shown(self):
        """Of options and of arguments: beside the name, where a value stands there, else in the text."""
        for command, option in self.options():
            shown = re.findall("[a-z0-9-]+", option["text"] + ("" if option["argument"] else " " + option["value"]))
            with self.subTest(command["name"], option=option["names"][-1]):
                self.assertLessEqual(set(option["choices"]), set(shown))
        self.assertRegex(self.succeeds("help", "completion"), r"\n  shell +The shell: bash, zsh, fish\n")

    def test_values_have_names(self):
        flags = 0
        for _, option in self.options():
            self.assertNotIn("{", option["value"])
            self.assertNotIn(option["value"], ("INT", "UINT", "FLOAT", "BOOLEAN"))
            flags += not option["value"]
        self.assertGreater(flags, 0)

    def test_a_letter_means_one_thing(self):
        meaning = {}
        for command, option in self.options():
            for letter in (n for n in option["names"] if re.fullmatch("-.", n)):
                name = option["names"][-1]
                name = {"--out": "--to", "--output": "--to"}.get(name, name)  # what is written
                self.assertEqual(meaning.setdefault(letter, name), name)
        self.assertTrue({"-m", "-i", "-o", "-b", "-n", "-t", "-s", "-q", "-v", "-h", "-V"} <= meaning.keys())

    def test_common_options(self):
        for command in self.commands:
            with self.subTest(command["name"]):
                names = {name for option in command["options"] for name in option["names"]}
                wanted = {"--help", "--quiet", "--verbose", "--color"}
                if command["group"] != "About heed":
                    wanted |= {"--threads"}
                self.assertLessEqual(wanted, names)

    def test_a_seed_is_shown_where_something_is_drawn(self):
        """It is taken by all that compute, so that a script may give it to each."""
        shown = {c["name"] for c in self.commands if any("--seed" in o["names"] for o in c["options"])}
        self.assertEqual(shown, {"train", "translate", "generate", "score", "attention", "bench"})
        self.write("w.npy", zeros_npy(2, 2))
        self.succeeds("inspect", "w.npy", "--seed", "3")

    def test_the_page_names_the_commands_that_share_an_option(self):
        """docs/command_line.md: in each row of its table options, commands ("all", "all but ...") and a meaning."""
        section = (ROOT / "docs/command_line.md").read_text().split("\n## Common options\n")[1].split("\n## ")[0]
        names = {c["name"]: [set(option["names"]) for option in c["options"]] for c in self.commands}
        rows = [re.split(r"(?<!\\)\|", line)[1:4] for line in section.splitlines() if line.startswith("| `-")]
        for options, commands, _ in rows:
            named = set(names) & set(re.findall("[a-z]+", commands))
            wanted = set(names) - named if commands.strip().startswith("all") else named
            with self.subTest(options.strip()):
                shared = set(re.findall("`(--?[a-z-]+)", options))
                self.assertEqual({name for name in names if any(shared <= option for option in names[name])}, wanted)
        self.assertGreater(len(rows), 8)


class Examples(ProgramTest):
    """What help shows as an example does what it says, but for trainings, which take long, and servers, which do not end."""
    FILES = {  # of the examples of each command
        "": ["dev.es", "dev.en", "my-model", "my-writer"],
        "translate": ["questions.es", "dev.es", "my-model"],
        "score": ["dev.en", "dev.es", "dev2.es", "translated.es", "eng-spa"],
        "export": ["my-model"], "generate": ["my-writer"], "inspect": ["models/spa-eng"],
        "attend": ["weights.npz", "tokens.txt", "vit", "cat.png"], "tokenize": ["dev.es"],
        "embed": ["MiniLM", "questions.txt"], "fill": ["bert"],
        "classify": ["sentiment", "reviews.txt", "vit", "cat.png", "dog.png"],
        "logits": ["my-writer"],
        "average": ["run-1", "run-2", "run-3"], "prepare": ["part-1.tsv", "part-2.tsv"],
    }

    def prepare(self, names, example):
        for name in names:
            if name in ("my-model", "eng-spa", "models/spa-eng"):
                (self.at / name).parent.mkdir(exist_ok=True)
                (self.at / name).symlink_to(BUNDLED)
            elif name in ("MiniLM", "sentiment", "bert"):
                head = {"sentiment": "ForSequenceClassification", "bert": "ForMaskedLM"}.get(name, "Model")
                tiny_models.text_encoder(self.at / name, "Bert" + head)
            elif name == "vit":
                tiny_models.image_encoder(self.at / name)
            elif name.endswith(".png"):
                self.write(name, png(8, 8, bytes(192)))
            elif name.startswith("run-"):
                shutil.copytree(BUNDLED, self.at / name)
            elif name == "my-writer":
                self.write("book.txt", "Once upon a time there was a dog. " * 50)
                done = self.heed("train", "--text", "book.txt", "--model", name, *TINY_TEXT)
                self.assertEqual(done.returncode, 0, done.stderr.decode())
            elif name == "weights.npz":
                with zipfile.ZipFile(self.at / name, "w") as archive:
                    archive.writestr("w.npy", npy((2, 2), [0.5, 0.5, 0, 1]))
            elif name.endswith(".tsv"):
                self.write(name, "el perro\tthe dog\n" * 9)
            else:
                self.write(name, "el\nperro\n")
        packed = "--q-heads" in example
        for name, heads in (("q", 8), ("k", 2), ("v", 2)):
            self.write(name + ".npy", zeros_npy(1, 3, heads * 4) if packed else zeros_npy(1, heads, 3, 4))

    @unittest.skipUnless((BUNDLED / "model.safetensors").exists(), "SKIPPED: there is no bundled model")
    def test_run(self):
        self.write("bin/heed", f'#!/bin/sh\nexec "{HEED}" "$@"\n').chmod(0o755)
        root, ran = self.at, 0
        environment = {**os.environ, "PATH": f"{root / 'bin'}:{os.environ['PATH']}"}
        for command in described(self):
            for line in command["examples"].splitlines():
                if not line.startswith("  ") or re.search("heed (train|serve)", line) or (SANITIZED and "heed bench" in line):
                    continue
                with self.subTest(line.strip()):
                    ran += 1
                    self.at = root / f"example{ran}"
                    self.at.mkdir()
                    self.prepare(self.FILES.get(command["name"], []), line)
                    done = subprocess.run(["bash", "-o", "pipefail", "-c", line], cwd=self.at, env=environment,
                                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=240)
                    self.assertEqual(done.returncode, 0, done.stderr.decode())
                    for name in re.findall(r"(?:--(?:png|pdf|html|out|lse|json|to)|>) ([^ ]+)", line):
                        self.assertTrue((self.at / name).exists(), name)
        self.assertGreater(ran, 12)


class Completion(ProgramTest):
    def bash(self, *words):
        """What bash offers for the last word, by the function that the shell would call."""
        script = ('source <("$HEED" completion bash); COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); '
                  'complete -p heed > /dev/null && _heed && printf "%s\\n" "${COMPREPLY[@]}"')
        done = subprocess.run(["bash", "-c", script, "bash", *words], cwd=self.at, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, env={**os.environ, "HEED": HEED})
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        return done.stdout.decode().split("\n")[:-1]

    def test_bash(self):
        self.write("some file.txt", "")
        self.write("models/m/x", "")
        self.assertEqual(self.bash("heed", "trans"), ["translate"])
        self.assertIn("--version", self.bash("heed", "--"))
        self.assertEqual(self.bash("heed", "help", "gen"), ["generate"])
        self.assertEqual(self.bash("heed", "translate", "--bea"), ["--beam"])
        self.assertEqual(self.bash("heed", "export", "--dtype", ""), ["f32", "f16", "bf16"])
        self.assertEqual(self.bash("heed", "export", "--dtype", "=", "b"), ["bf16"])
        self.assertEqual(self.bash("heed", "export", "--dtype", "="), ["f32", "f16", "bf16"])
        self.assertEqual(self.bash("heed", "export", "-m", "mod"), ["models"])
        self.assertEqual(self.bash("heed", "export", "-m", "some"), [""])
        self.assertEqual(self.bash("heed", "score", "--reference", "some"), ["some file.txt"])
        self.assertEqual(self.bash("heed", "inspect", "some"), ["some file.txt"])
        self.assertEqual(self.bash("heed", "translate", "--beam", ""), [""])

    def test_bash_knows_every_option(self):
        for command in described(self)[1:]:
            with self.subTest(command["name"]):
                names = [n for option in command["options"] if not option["argument"] for n in option["names"]]
                self.assertEqual(sorted(self.bash("heed", command["name"], "-")), sorted(names))

    @unittest.skipUnless(shutil.which("fish"), "SKIPPED: no fish")
    def test_fish(self):
        """What fish offers for a line."""
        self.write("heed.fish", self.succeeds("completion", "fish"))
        self.write("models/m/x", "")
        for line, offered in [("heed transl", ["translate"]), ("heed translate --bea", ["--beam"]),
                              ("heed export --dtype ", ["bf16", "f16", "f32"]), ("heed help gen", ["generate"]),
                              ("heed export -m mod", ["models/"]), ("heed --vers", ["--version"])]:
            done = subprocess.run(["fish", "--no-config", "-c", "source heed.fish; complete -C $argv[1]", line], cwd=self.at,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
            self.assertEqual((done.stderr, [x.split("\t")[0] for x in done.stdout.decode().splitlines()]), (b"", offered))

    def test_fish_knows_every_option(self):
        script = self.succeeds("completion", "fish")
        for command in described(self)[1:]:
            lines = [line for line in script.splitlines() if f"'__fish_seen_subcommand_from {command['name']}'" in line]
            names = [n for option in command["options"] if not option["argument"] for n in option["names"]]
            found = [("--" if kind == "l" else "-") + name for line in lines
                     for kind, name in re.findall(r" -([ls]) ([A-Za-z0-9-]+)", line.split(" -d '")[0])]
            self.assertEqual(sorted(found), sorted(names))

    @unittest.skipUnless(shutil.which("zsh"), "SKIPPED: no zsh")
    def test_zsh(self):
        """In a terminal of zsh's own: what stands on the line after a tab."""
        self.write("_heed", self.succeeds("completion", "zsh"))
        script = """
            zmodload zsh/zpty
            zpty shell zsh -f -i
            zpty -w shell "PS1=; fpath=($PWD \\$fpath); autoload -U compinit; compinit -u -D; bindkey '^T' undefined-key"
            zpty -w shell 'show() { print "\nLINE<$BUFFER>"; BUFFER=; }; zle -N show; bindkey "^X" show; print re''ady'
            zpty -r shell ready '*ready*'
            for line in "$@"; do
              zpty -n -w shell "$line"$'\t\x18'
              zpty -r shell answer '*LINE<*>*'
              print -r -- "${${answer##*LINE<}%%>*}"
            done
        """
        done = subprocess.run(["zsh", "-f", "-c", script, "zsh", "heed transl", "heed export --dty",
                               "heed export --dtype bf", "heed help gen"], cwd=self.at, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=60)
        self.assertEqual([line.strip() for line in done.stdout.decode().splitlines()],
                         ["heed translate", "heed export --dtype=", "heed export --dtype bf16", "heed help generate"])


class ManPages(ProgramTest):
    def pages(self):
        for command in described(self):
            with self.subTest(command["name"]):
                yield command, self.succeeds("help", "--man", *filter(None, [command["name"]]))

    @unittest.skipUnless(shutil.which("mandoc"), "SKIPPED: no mandoc")
    def test_mandoc_finds_no_fault(self):
        for _, page in self.pages():
            done = subprocess.run(["mandoc", "-T", "lint", "-W", "warning"], input=page.encode(), stdout=subprocess.PIPE)
            # A page of a version has no date of its own.
            faults = [line for line in done.stdout.decode().splitlines() if "missing date" not in line]
            self.assertEqual(faults, [])

    @unittest.skipUnless(shutil.which("mandoc"), "SKIPPED: no mandoc")
    def test_every_option_is_there(self):
        for command, page in self.pages():
            text = subprocess.run(["mandoc", "-T", "ascii", "-O", "width=400"], input=page.encode(),
                                  stdout=subprocess.PIPE, check=True).stdout.decode()
            text = re.sub(".\b", "", text)  # bold is a letter printed over itself
            self.assertIn("NAME\n", text)
            for option in command["options"]:
                self.assertIn(", ".join(option["names"]), text)
            for line in command["examples"].splitlines()[1:]:
                self.assertIn(line.strip(), text)


class WrongUse(ProgramTest):
    def test_unknown_command(self):
        self.refuses(2, "unknown command 'transalte'; did you mean translate?", "transalte")
        self.refuses(2, "unknown command 'frobnicate'; heed --help lists what there is", "frobnicate")

    def test_unknown_option(self):
        for command in described(self)[1:]:
            name = command["name"]
            with self.subTest(name):
                self.refuses(2, f"'--frobnicate'; heed {name} --help lists what there is", name, "--frobnicate")
                self.refuses(2, "'--quite=1'; did you mean --quiet?", name, "--quite=1")

    def test_what_other_programs_call_the_same(self):
        for typed, here in [("--epochs=3", "--max-epochs"), ("--lr", "--learning-rate"), ("--steps", "--max-updates"),
                            ("--batch-size", "--batch-tokens or --batch"), ("--src", "--source"), ("--dev", "--valid-pairs"),
                            ("--output-dir", "--model"), ("--num-heads", "--heads")]:
            self.refuses(2, f"unknown option '{typed}'; did you mean {here}?\n", "train", typed, "1")
        for command, typed, here in [("generate", "--max-new-tokens", "--max-tokens"), ("translate", "--num-beams", "--beam"),
                                     ("score", "--ref", "--reference"), ("bench", "--num-threads", "--threads")]:
            self.refuses(2, f"did you mean {here}?\n", command, typed, "1")
        # Where the command has no such option, nothing is suggested.
        self.refuses(2, "'--epochs'; heed score --help lists what there is", "score", "-r", "x", "--epochs")
        for typed, here in [("version", "--version"), ("chat", "generate --interactive"), ("finetune", "train"),
                            ("infer", "translate")]:
            self.refuses(2, f"unknown command '{typed}'; did you mean {here}?\n", typed)
        self.refuses(2, "unknown option '--verison'; did you mean --version?\n", "--verison")
        self.refuses(2, "unknown option '--verison'; did you mean heed --version?\n", "translate", "--verison")

    def test_suggestions_exist(self):
        """What is suggested for the names of others is an option of some command, or a command."""
        source = (ROOT / "src/cli/spellings.cc").read_text()
        table = source.split("kCalledElsewhere[] = {")[1].split("};")[0]
        commands = described(self)
        known = {name for c in commands for o in c["options"] for name in o["names"]} | {c["name"] for c in commands}
        pairs = re.findall(r'\{"([^"]+)", "([^"]+)"\}', table)
        table = (ROOT / "src/recipe/options_file.cc").read_text().split("kElsewhere[] = {")[1].split("};")[0]
        pairs += [(f"--{elsewhere}", f"--{here}") for elsewhere, here in re.findall(r'\{"([^"]+)", "([^"]+)"\}', table)]
        self.assertGreater(len(pairs), 70)
        for elsewhere, here in pairs:
            self.assertIn(here.split(" ")[0], known)
            self.assertNotIn(elsewhere, {c["name"] for c in commands})

    def test_options_before_the_command(self):
        for typed in (["--verbose"], ["-q"], ["--color", "never"], ["--color=never"], ["-t2"], ["-m", "m"], ["-i-"]):
            name = re.match("--[a-z]+|-.", typed[0])[0]
            with self.subTest(" ".join(typed)):
                self.refuses(2, f"heed translate: {name} goes behind the command: heed translate {name}\n",
                             *typed, "translate", "x")
                self.refuses(2, f"heed: {name} goes behind the command: heed COMMAND {name}\n", *typed)
        self.refuses(2, "unknown option '--pairs'; heed --help lists what there is", "--pairs", "translate", "x")
        self.refuses(2, "unknown option '--verbos'; did you mean --verbose?", "--verbos", "translate", "x")
        self.refuses(2, "unknown option '--versoin'; did you mean --version?", "--versoin", "translate", "x")
        self.refuses(2, "unknown option '--'; heed --help lists what there is", "--", "translate", "x")
        self.refuses(2, "unknown command 'x'; heed --help lists what there is", "x", "translate")

    def test_what_stands_behind_the_end_of_options_is_not_to_blame(self):
        self.refuses(2, "--beam: 0 is not in the range 1 to 1000\n", "translate", "--beam", "0", "--", "-x")

    def test_empty_paths(self):
        """A variable that a script forgot to set: of every option and argument that takes a file or a directory."""
        tried = 0
        for command, option in paths(self):
            name, tried = option["names"][-1], tried + 1
            with self.subTest(f"{command['name']} {name}"):
                self.refuses(2, f"heed {command['name']}: {name}: it is empty; give a value\n", command["name"],
                             *([] if option["argument"] else [name]), "")
        self.assertGreater(tried, 50)
        self.refuses(2, "models: it is empty", "average", "", "a", "--to", "b")
        self.refuses(2, "--input: it is empty", "translate", "-i", "", stdin="hola\n")
        self.write("empty.toml", 'pairs = ["a.tsv", ""]\n')
        self.refuses(1, "empty.toml: line 1: --pairs: it is empty", "train", "--config", "empty.toml", "--dump-config")

    def test_choices(self):
        """What is typed is shown as it was typed."""
        self.refuses(2, "'fp16' is not one of f32, f16, bf16; did you mean f16?",
                     "export", "--model", "m", "--to", "n", "--dtype", "fp16")
        self.refuses(2, "'Always' is not one of auto, always, never; did you mean always?", "score", "--color", "Always")

    def test_value_out_of_range(self):
        self.refuses(2, "--beam", "translate", "--beam", "0")
        self.refuses(2, "--beam", "translate", "--beam", "many")
        self.refuses(2, "--threads", "translate", "--threads", "-1")
        self.refuses(2, "--columns", "train", "--pairs", "x.tsv", "--model", "m", "--columns", "2;1")
        # What the library would refuse is refused before any data is read.
        self.refuses(2, "0.98", "train", "--pairs", "x.tsv", "--model", "m", "--character-coverage", "0.9")
        self.refuses(2, "--pairs", "train", "--model", "m")
        self.refuses(2, "--model", "train", "--pairs", "x.tsv")

    def test_fractions_that_are_not_finite(self):
        options = [(c["name"], o["names"][-1]) for c in described(self)[1:] for o in c["options"] if o["value"] == "X"]
        self.assertLessEqual({"train", "translate", "generate", "attend", "attention", "bench"}, {c for c, _ in options})
        for command, option in options:
            for value in ["nan", "-NaN", "inf", "-Infinity", "1e999"]:
                with self.subTest(f"{command} {option} {value}"):
                    self.refuses(2, f"{option}: {value} is not a finite number", command, f"{option}={value}")
        for value in ["inf", "infmm", "nanpx"]:
            self.refuses(2, "is no width", "attend", "--from", "w.npy", "--png", "w.png", "--width", value)

    def test_ranges_of_fractions_are_said_in_short(self):
        for value in ("0.001", "3600.5", "-1"):
            self.refuses(2, f"--seconds: {value} is not in the range 0.01 to 3600\n", "bench", "--seconds", value)

    def test_missing_option(self):
        self.refuses(2, "--reference is missing; usage: heed score [OPTIONS] --reference FILE\n", "score")
        self.refuses(2, "--k is missing; usage: heed attention", "attention", "--q", "q.npy")
        self.refuses(2, "PATH is missing; usage: heed inspect [OPTIONS] PATH\n", "inspect")
        self.refuses(2, "heed train: --pairs needs a value: --pairs FILE ...\n", "train", "--pairs")
        self.refuses(2, "heed translate: --beam needs a value: --beam N\n", "translate", "--beam")

    def test_what_a_wrong_value_should_be(self):
        self.refuses(2, "--beam: 'many' is not a whole number\n", "translate", "--beam", "many")
        self.refuses(2, "--bias: 'maybe' is not true or false\n", "train", "--bias", "maybe")

    def test_one_column_for_both_sides(self):
        for command in (["train", "--model", "m"], ["prepare", "--to", "t"]):
            self.refuses(2, "--columns 1,1: source and target are one column; give two, counted from 1, as in 2,1\n",
                         *command, "--pairs", "none.tsv", "--columns", "1,1")

    def test_files_that_are_not_there_are_named_with_their_option(self):
        missing = "No such file or directory\n"
        self.refuses(1, f"heed train: --pairs nowhere.tsv: {missing}", "train", "--pairs", "nowhere.tsv", "--model", "m")
        self.refuses(1, "heed train: --pairs /: Is a directory\n", "train", "--pairs", "/", "--model", "m")
        self.refuses(1, "heed train: --pairs none*.tsv: no file fits this pattern\n", "train", "--pairs", "none*.tsv",
                     "--model", "m")
        self.refuses(1, f"heed train: --text nowhere.txt: {missing}", "train", "--text", "nowhere.txt", "--model", "m")
        self.refuses(1, f"heed prepare: --pairs nowhere.tsv: {missing}", "prepare", "--pairs", "nowhere.tsv", "--to", "t")
        self.refuses(1, f"heed score: --reference nowhere: {missing}", "score", "-r", "nowhere")
        self.refuses(1, f"heed translate: --input nowhere: {missing}", "translate", "-m", BUNDLED, "-i", "nowhere")
        self.refuses(1, f"heed translate: --model nowhere: {missing}", "translate", "-m", "nowhere", "x")
        self.refuses(1, f"heed attention: --q nowhere.npy: {missing}", "attention", "--q", "nowhere.npy", "--k", "k",
                     "--v", "v")
        self.refuses(1, f"heed inspect: nope: {missing}", "inspect", "nope")

    def test_paths_that_the_system_refuses(self):
        (self.at / "loop").symlink_to("loop")
        says = "loop: Too many levels of symbolic links\n"
        self.refuses(1, f"heed tokenize: --model {says}", "tokenize", "--model", "loop", "x")
        self.refuses(1, f"heed translate: --model {says}", "translate", "--model", "loop", "x")
        gone = ["sh", "-c", 'mkdir gone && cd gone && rmdir ../gone && exec "$@"', "sh"]
        for arguments in (["attend", "Hola", "-m", BUNDLED, "--html", "o.html"], ["export", "-m", BUNDLED, "--to", "m"]):
            self.refuses(1, f"heed {arguments[0]}: the current directory: No such file or directory; change to another "
                         "directory\n", *arguments, wrapper=gone)

    def test_places_are_checked_before_the_work(self):
        """A directory that cannot be made, a file in none: before data are read, which are not there."""
        self.write("file", "")
        self.write("others/notes.txt", "")
        self.refuses(1, "--model file is not a directory; name another", "train", "--pairs", "none.tsv", "--model", "file")
        self.refuses(1, "is not a directory; name another", "train", "--pairs", "none.tsv", "--model", "file/m")
        self.refuses(2, "--model others holds files that heed did not make", "train", "--pairs", "none.tsv", "--model",
                     "others")
        self.refuses(2, "--model others holds files that heed did not make", "train", "--text", "none.txt", "--model",
                     "others")
        self.refuses(1, "--to file/t: there is no directory file", "prepare", "--pairs", "none.tsv", "--to", "file/t")
        for option, command in [("--output", ["score", "-r", "none.txt"]), ("--output", ["embed", "-m", BUNDLED, "none.txt"]),
                                ("--html", ["attend", "--from", "none.npy"]), ("--to", ["export", "-m", "none"]),
                                ("--to", ["average", "none", "none2"])]:
            kind = "" if option == "--to" else "/x.html"
            self.refuses(1, f"{option} file/none{kind}: ", *command, option, f"file/none{kind}")

    def test_no_bundled_model(self):
        """One line with the remedy, wherever the program stands; --verbose lists where it looked."""
        program = self.at / "lib/python3/site-packages/heed/heed"
        program.parent.mkdir(parents=True)
        shutil.copy2(HEED, program)
        for arguments in (["translate", "Hola."], ["attend", "Hola."], ["embed"], ["tokenize"], ["serve"]):
            done = subprocess.run([program, *arguments], cwd=self.at, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, timeout=60)
            self.assertEqual(done.returncode, 1)
            self.assert_one_line(done.stderr.decode(), "install the bundled model, with pip by pip install ./python/model")
            self.assertLess(len(done.stderr), 250)
        done = subprocess.run([program, "translate", "-v", "Hola."], cwd=self.at, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=60)
        self.assertIn(b"site-packages/heed_spa_eng\n", done.stderr)

    def test_threads_by_the_environment(self):
        self.refuses(2, "heed: HEED_NUM_THREADS is 'two'; set it to a number from 0 to 4096", "inspect", "x",
                     env={"HEED_NUM_THREADS": "two"})
        for number in ("-1", "4097", "1e3", "3 "):
            self.refuses(2, "set it to a number", "score", "-r", "x", env={"HEED_NUM_THREADS": number})
        bench = ["bench", "--only", "attention", "--seconds", "0.01"]
        if SANITIZED:
            return
        for number, arguments, threads in [("3", [], 3), ("3", ["--threads", "2"], 2), ("3", ["-t", "0"], 3),
                                           ("0", [], os.cpu_count()), ("", [], os.cpu_count())]:
            text = self.succeeds(*bench, *arguments, env={"HEED_NUM_THREADS": number})
            self.assertIn(f", {threads} threads, ", text)


class Config(ProgramTest):
    def dump(self, *arguments):
        return self.succeeds("train", "--dump-config", *arguments)

    @staticmethod
    def values(text):
        lines = [line for line in text.splitlines() if line and not line.startswith("#")]
        return dict(line.split(" = ", 1) for line in lines)

    def test_round_trip(self):
        first = self.dump("--preset", "tiny", "--learning-rate", "0.0025", "--pairs", "a b.tsv", "--columns", "2,1",
                          "--norm", "rms_norm", "--epsilon", "1e-9", "--tie-embeddings", "false")
        self.write("all.toml", first)
        self.assertEqual(self.dump("--config", "all.toml"), first)
        values = self.values(first)
        self.assertEqual(values["d-model"], "64")  # from the preset
        self.assertEqual(values["pairs"], f'["{self.at.resolve()}/a b.tsv"]')  # runs from anywhere

    def test_command_line_over_config_over_preset(self):
        self.write("some.toml", 'preset = "tiny"\nd-model = 48\nheads = 3\nlearning-rate = 0.5\n')
        values = self.values(self.dump("--config", "some.toml", "--d-model", "96"))
        self.assertEqual(values["d-model"], "96")
        self.assertEqual(values["heads"], "3")
        self.assertEqual(values["feed-forward"], "128")
        self.assertEqual(float(values["learning-rate"]), 0.5)

    def test_what_has_no_value_is_a_comment_that_can_be_used(self):
        """Of a flag, a list and a text: taken as they stand. Of a number: the name of its value, which is refused with
        the line."""
        lines = self.dump().splitlines()
        empty = {line[2:].split(" = ")[0]: line[2:] for line in lines if re.fullmatch(r"# [a-z-]+ = .*", line)}
        self.assertEqual(empty["trust"], "trust = false")
        self.assertEqual(empty["separate-vocabularies"], "separate-vocabularies = false")
        self.assertEqual(empty["skip-bad-lines"], "skip-bad-lines = false")
        self.assertEqual(empty["valid-fraction"], "valid-fraction = X")
        self.assertEqual(empty["text"], "text = []")
        self.assertGreater(len(empty), 15)
        for name, line in empty.items():
            with self.subTest(line):
                self.write("c.toml", f"# one\n# two\n{line}\n")
                done = self.heed("train", "--config", "c.toml", "--dump-config")
                if done.returncode == 0:
                    continue
                self.assertIn(done.returncode, (1, 2))
                says = "c.toml: line 3: " if done.returncode == 1 else f"--{name}"
                self.assert_one_line(done.stderr.decode(), says)
        self.write("c.toml", 'trust = ""\n')
        self.refuses(1, "c.toml: line 1: --trust: '' is not true or false", "train", "--config", "c.toml", "--dump-config")

    def test_unknown_key(self):
        self.write("wrong.toml", "learning-rat = 0.1\n")
        self.refuses(1, "learning-rat", "train", "--config", "wrong.toml", "--dump-config")
        self.write("section.toml", "[optimiser]\nlearning-rate = 0.1\n")
        self.refuses(1, "section.toml: line 1: it begins a table; options stand alone, as in seed = 1", "train", "--config", "section.toml", "--dump-config")

    def test_wrong_value(self):
        self.write("wrong.toml", 'd-model = "wide"\n')
        self.refuses(1, "wrong.toml: ", "train", "--config", "wrong.toml", "--dump-config")
        self.refuses(1, "none.toml", "train", "--config", "none.toml", "--dump-config")

    def test_committed_recipe(self):
        recipe = os.path.join(os.path.dirname(__file__), "../../recipes/spa-eng.toml")
        values = self.values(self.dump("--config", os.path.abspath(recipe)))
        self.assertEqual(values["columns"], '"2,1"')
        self.assertEqual(values["d-model"], "256")
        self.assertEqual(values["pre-norm"], "true")

    def options(self):
        """Those of heed train, by their names as a file has them."""
        [train] = [c for c in described(self) if c["name"] == "train"]
        return {o["names"][-1].removeprefix("--"): o for o in train["options"]}

    def test_true_and_false_are_called_that(self):
        for kind in ([], ["--text", "book.txt"]):
            values = self.values(self.dump("--preset", "tiny", *kind))
            asked = [name for name, option in self.options().items() if option["value"] == "true|false"]
            self.assertEqual({name: values[name] for name in asked if values[name] not in ("true", "false")}, {})
            self.assertIn("bias", asked)

    def test_defaults_in_help_are_those_of_a_training(self):
        """What stands in brackets, captured or written by hand: A, or "A; B for --text". B may be an option.

        Not to be compared: what is chosen from the data, for which a preset has values of its own, and words for what
        only the data can tell."""
        def stated(standard):
            of_pairs, *of_text = standard.split("; ")
            if of_pairs.endswith(" of a text"):  # pairs have none
                return None, of_pairs.removesuffix(" of a text")
            return of_pairs, (of_text[0].removesuffix(" for --text") if of_text else of_pairs)

        def same(stated, value, values):
            value = value.strip('"')
            stated = values[stated.removeprefix("--")] if stated.startswith("--") else stated
            try:
                return float(stated) == float(value)
            except ValueError:
                return stated == value

        wordy = {"html-lines": "the first three of moderate length", "lora-alpha": "twice the rank"}
        tenth = {"min-learning-rate": "0; of a text a tenth of the peak, with cosine"}
        standards = {name: o["default"] for name, o in self.options().items() if o["default"] not in ("", "chosen")}
        self.assertLessEqual((wordy | tenth).items(), standards.items())
        compared = set()
        for preset in ("tiny", "small", "base"):
            for kind, arguments in enumerate(([], ["--text", "book.txt"])):
                values = self.values(self.dump("--preset", preset, *arguments))
                for name, standard in standards.items():
                    if name not in values or name in wordy:
                        continue
                    expected = stated(standard)[kind]
                    if name in tenth and kind == 1:
                        self.assertEqual(values["schedule"], '"cosine"')
                        expected = str(float(values["learning-rate"]) / 10)
                    with self.subTest(f"--{name} [{standard}]", preset=preset, arguments=arguments):
                        self.assertTrue(same(expected, values[name], values), values[name])
                        compared.add(name)
        # Of a terminal, not of a training.
        self.assertEqual(standards.keys() - compared - wordy.keys(), {"color"})


class Output(ProgramTest):
    """What is read by somebody who leaves, and what cannot be written."""

    def setUp(self):
        super().setUp()
        self.write("r.txt", "a\nb\n")

    def test_reader_leaves(self):
        for arguments in (["score", "--reference", "r.txt"], ["train", "--dump-config"], ["--help"]):
            with self.subTest(arguments[0]):
                read, write = os.pipe()
                os.close(read)
                done = self.heed(*arguments, stdin="a\nb\n", stdout=write)
                os.close(write)
                self.assertEqual((done.returncode, done.stderr), (141, b""))

    def test_full_disk(self):
        for arguments in (["score", "--reference", "r.txt"], ["train", "--dump-config"], [], ["--help"], ["--version"],
                          ["score", "-h"], ["help", "--json"], ["completion", "bash"],
                          *([] if SANITIZED else [["bench", "--only", "attention", "--seconds", "0.01"]])):
            with self.subTest(" ".join(arguments)), open("/dev/full", "wb") as full:
                done = self.heed(*arguments, stdin="a\nb\n", stdout=full)
                self.assertEqual(done.returncode, 1)
                self.assert_one_line(done.stderr.decode(), "standard output")


class Messages(ProgramTest):
    def test_options_are_named_as_they_are_typed(self):
        for option, value in (("--top-k", "-1"), ("--top-p", "2e0"), ("--temperature", "-0.50")):
            self.refuses(2, f"heed generate: {option} is {value}; it must be", "generate", option, value, "--model", "m")

    def test_one_place_writes_to_standard_error(self):
        sources = pathlib.Path(__file__).parents[2] / "src/cli"
        self.assertEqual({path.name for path in sources.glob("*.cc") if not path.name.endswith("_test.cc")
                          and re.search(r"std::c(err|log)\b|\b(perror|psignal)\(|\bf(printf|puts|putc|write)\([^;]*\bstderr\b",
                                        path.read_text())},
                         {"console.cc", "progress.cc", "main.cc"})


class Waiting(ProgramTest):
    """A person at a terminal is told that lines are awaited, and how to end them."""
    SAID = "reading lines from the terminal; Ctrl-D ends them"

    def typed(self, *arguments):
        """What is said on standard error where a terminal is standard input, in which a line and Ctrl-D are typed."""
        keyboard, terminal = pty.openpty()
        os.write(keyboard, b"a\tb\n\x04")
        done = subprocess.run([HEED, *map(str, arguments)], stdin=terminal, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              cwd=self.at, timeout=240)
        os.close(keyboard)
        os.close(terminal)
        return done.stderr.decode()

    @unittest.skipUnless((BUNDLED / "model.safetensors").exists(), "SKIPPED: there is no bundled model")
    def test_every_command_that_reads_standard_input(self):
        self.write("r.txt", "a\n")
        self.write("text.txt", "the dog sees the cat. " * 50)
        subprocess.run([HEED, "train", "--text", "text.txt", "--model", "writer", *TINY_TEXT], cwd=self.at, check=True,
                       stderr=subprocess.PIPE)
        tiny_models.text_encoder(self.at / "bert", "BertForMaskedLM")
        tiny_models.text_encoder(self.at / "sentiment", "BertForSequenceClassification")
        for command in (["translate"], ["translate", "-"], ["generate", "-m", "writer", "--max-tokens", "1"],
                        ["generate", "-m", "writer", "--score"],
                        ["generate", "-m", "writer", "--interactive", "--max-tokens", "1"], ["score", "-r", "r.txt"],
                        ["tokenize"], ["embed"], ["classify", "-m", "sentiment"], ["fill", "-m", "bert"],
                        ["train", "--pairs", "-", "--model", "m"], ["prepare", "--text", "-", "--to", "t", "--vocabulary",
                                                                    BUNDLED / "vocabulary.txt"]):
            with self.subTest(" ".join(map(str, command))):
                self.assertEqual(self.typed(*command).count(self.SAID + "\n"), 1)
                self.assertNotIn(self.SAID, self.typed(*command, "--quiet"))
                self.assertNotIn(self.SAID, self.heed(*command, stdin="a\tb\n").stderr.decode())
        for command in (["translate", "x"], ["tokenize", "r.txt"], ["generate", "-m", "writer", "a", "--max-tokens", "1"]):
            self.assertNotIn(self.SAID, self.typed(*command))


class Terminal(ProgramTest):
    """Names of files with control characters do nothing to a terminal."""
    BAD = "a\x1b]0;title\x07\x1b[31m\u202e\n.txt"

    def assert_harmless(self, done):
        for stream in (done.stdout, done.stderr):
            text = stream.decode()
            self.assertNotRegex(text.replace("\n", ""), "[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]")
        self.assertLessEqual(done.stderr.count(b"\n"), 1)

    def test_missing_files(self):
        tried = 0
        for command, option in paths(self):
            arguments = [command["name"], *([] if option["argument"] else option["names"][-1:]), self.BAD]
            for other in command["options"]:
                if other["required"] and other is not option:
                    arguments += [*([] if other["argument"] else other["names"][-1:]), "none"]
            if command["name"] == "bench":  # it is about the name
                if SANITIZED:
                    continue
                arguments += ["--only", "attention", "--seconds", "0.01"]
            with self.subTest(" ".join(arguments[:2])):
                done = self.heed(*arguments)
                self.assertIn(done.returncode, (0, 1, 2))
                self.assert_harmless(done)
                tried += 1
        self.assertGreater(tried, 20)

    def test_files_that_are_there(self):
        self.write(self.BAD, "a\n")
        self.write("b.txt", "a\nb\n")
        self.write("m/" + self.BAD, "a")
        self.write("m/config.json", "{}")
        weights = self.write(self.BAD + ".npy", zeros_npy(2, 2))
        for arguments in (["score", "-r", self.BAD], ["inspect", self.BAD], ["inspect", "m"], ["inspect", weights],
                          ["attend", "--from", weights, "--html", self.BAD + ".html"],
                          ["attend", "--from", weights, "--html", self.BAD + "/x.html"],
                          ["attention", "--q", weights, "--k", weights, "--v", "none"],
                          ["translate", self.BAD, "--frobnicate" + self.BAD], [self.BAD],
                          ["export", "-m", "m", "-o", self.BAD]):
            with self.subTest(arguments[0]):
                self.assert_harmless(self.heed(*arguments, stdin="a\nb\n"))

    def test_quiet_and_color(self):
        weights = self.write("w.npy", zeros_npy(2, 2))
        arguments = ["attend", "--from", weights, "--html", "w.html"]
        self.assertEqual(self.heed(*arguments).stderr, b"wrote w.html\n")
        self.assertEqual(self.succeeds(*arguments, "--quiet"), "")
        arguments.append("--terminal")
        self.assertNotIn("\x1b", self.succeeds(*arguments, "-q"))
        self.assertNotIn("\x1b", self.succeeds(*arguments, "-q", "--color", "never"))
        for environment in ({}, {"NO_COLOR": "1"}, {"TERM": ""}):
            self.assertIn("\x1b[", self.succeeds(*arguments, "-q", "--color", "always", env=environment))
        self.refuses(2, "--quiet", "score", "-q", "-v", "-r", "r.txt")


class Score(ProgramTest):
    REFERENCE = ("The harbour was quiet, and 3.5 boats lay at anchor.\nShe said: \"don't wait for the 10-year report!\"\n"
                 "¿Dónde está la llave del buzón azul?\nΟΔΟΣ ΣΟΦΙΑΣ 12\nA\n"
                 "We sold 1,200 kilos of tea &amp; coffee in 2019-2020.\n")
    HYPOTHESES = ("The harbor was quiet and 3.5 boats lay at an anchor .\n"
                  "she said : \"do not wait for the 10-year report!\"\n¿Donde está la llave azul del buzón?\n"
                  "οδος σοφιας 12\n\nWe sold 1200 kilos of tea & coffee in 2019-2020\n")

    def test_numbers_are_sacrebleus(self):
        self.write("r.txt", self.REFERENCE)
        text = self.succeeds("score", "--reference", "r.txt", stdin=self.HYPOTHESES)
        self.assertEqual(text.splitlines()[:2],
                         ["BLEU = 54.69 82.0/62.2/47.5/40.0 (BP = 0.980 ratio = 0.980 hyp_len = 50 ref_len = 51)",
                          "chrF2 = 73.65"])
        self.assertIn("nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:heed-", text)
        text = self.succeeds("score", "--lowercase", "--reference", "r.txt", stdin=self.HYPOTHESES)
        self.assertEqual(text.splitlines()[:2],
                         ["BLEU = 59.57 88.0/68.9/52.5/42.9 (BP = 0.980 ratio = 0.980 hyp_len = 50 ref_len = 51)",
                          "chrF2 = 80.14"])
        self.assertIn("case:lc", text)

    def test_several_references_and_confidence(self):
        self.write("r.txt", self.REFERENCE)
        self.write("r2.txt", "The harbor was still and 3.5 boats were lying at an anchor.\n"
                   "She said: do not wait for that report!\n¿Dónde está la llave azul del buzón?\nοδος ΣΟΦΙΑΣ\n\n"
                   "We have sold 1200 kilos of tea and coffee.\n")
        self.write("h.txt", self.HYPOTHESES)
        both = ["score", "-i", "h.txt", "-r", "r.txt", "-r", "r2.txt"]
        text = self.succeeds(*both, "--confidence")
        self.assertEqual(text.splitlines()[:2],
                         ["BLEU = 78.72 (μ = 77.18 ± 10.01) 94.0/86.7/75.0/62.9 (BP = 1.000 ratio = 1.000 hyp_len = 50 "
                          "ref_len = 50)", "chrF2 = 79.03 (μ = 78.37 ± 11.58)"])
        self.assertIn("nrefs:2|bs:1000|seed:12345|case:mixed|", text)
        numbers = json.loads(self.succeeds(*both, "--confidence", "--json"))["BLEU"]["confidence"]
        self.assertEqual((round(numbers["half_width"], 2), numbers["resamples"]), (10.01, 1000))
        self.assertIn("bs:10|seed:7|", self.succeeds(*both, "--confidence", "--resamples", "10", "--seed", "7"))
        self.assertNotIn("μ", self.succeeds(*both))
        self.write("short.txt", "a\n")
        self.refuses(1, "short.txt has 1 lines but h.txt has 6", *both, "-r", "short.txt")
        self.refuses(2, "--confidence", *both, "--resamples", "10")

    def test_windows_line_ends(self):
        self.write("r.txt", self.REFERENCE.replace("\n", "\r\n"))
        self.assertIn("BLEU = 54.69", self.succeeds("score", "--reference", "r.txt", stdin=self.HYPOTHESES))

    def test_output(self):
        """The same bytes in a file, which is there whole or not at all."""
        self.write("r.txt", self.REFERENCE)
        self.write("h.txt", self.HYPOTHESES)
        for options in ([], ["--json"]):
            printed = self.succeeds("score", "-r", "r.txt", "-i", "h.txt", *options)
            self.assertEqual(self.succeeds("score", "-r", "r.txt", "-i", "h.txt", "-o", "scores", *options), "")
            self.assertEqual((self.at / "scores").read_text(), printed)
            for standard in ("-", "/dev/stdout"):
                self.assertEqual(self.succeeds("score", "-r", "r.txt", "-i", "-", "--output", standard, *options,
                                               stdin=self.HYPOTHESES), printed)
        for read in ("r.txt", "./h.txt"):
            self.refuses(2, f"--output {read} is what the command reads", "score", "-r", "r.txt", "-i", "h.txt",
                         "-o", read)
        self.refuses(1, "none/scores", "score", "-r", "r.txt", "-i", "h.txt", "-o", "none/scores")
        self.refuses(1, "standard input has 1", "score", "-r", "r.txt", "-o", "scores", stdin="a\n")

    def test_unequal_counts(self):
        self.write("r.txt", "a\nb\n")
        self.refuses(1, "r.txt has 2 lines but standard input has 3", "score", "--reference", "r.txt", stdin="a\nb\nc\n")

    def test_nothing(self):
        self.write("r.txt", "")
        self.refuses(1, "no lines", "score", "--reference", "r.txt")

    def test_unreadable(self):
        self.refuses(1, "none.txt", "score", "--reference", "none.txt")
        self.refuses(1, "directory", "score", "--reference", ".")

    def test_malformed_utf8(self):
        self.write("r.txt", "a b c d\n")
        self.succeeds("score", "--reference", "r.txt", stdin=b"a b c \xff\n", says="U+FFFD in 1 place")


if __name__ == "__main__":
    unittest.main()
