"""heed train --html: what is on the page about a training, and that training is the same with and without it."""
import base64
import json
import os
import re
import signal
import unittest
import zlib

from program import TINY, TrainingTest, corpus, snapshot

RUN = "window.ran = 1"
HOSTILE = ["</script>", f"<script>{RUN}</script>", f"<img src=x onerror=\"{RUN}\">", "\u202eright\u202c", "👩‍👩‍👧‍👦", "a\u0301\u0302", "-->"]
PAIRS = ["train", "--pairs", "train.tsv", "--valid-pairs", "dev.tsv", "--model", "m", *TINY, "--max-updates", "24",
         "--validate-every", "6", "--average", "2", "--log-every", "2", "--html", "report.html"]
TEXT = ["train", "--text", "text.txt", "--vocab-type", "characters", "--preset", "tiny", "--d-model", "32", "--feed-forward",
        "32", "--block", "16", "--batch", "4", "--model", "m", "--seed", "3", "--threads", "1", "--max-updates", "20",
        "--validate-every", "5", "--log-every", "5", "--html", "report.html"]


def write_corpus(at):
    (at / "train.tsv").write_text(corpus(300))
    lines = corpus(20, seed=2).splitlines()
    words = " ".join(HOSTILE)
    lines[4] = f"el perro {words}\tthe dog {words}"
    (at / "dev.tsv").write_text("\n".join(lines) + "\n")


def data_of(path):
    html = path.read_text()
    return html, json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', html, re.S)[1])


def curve(data, figure, name):
    [figure] = [f for f in data["figures"] if f["name"] == figure]
    [points] = [c for c in figure["curves"] if c["name"] == name]
    return dict(zip(points["updates"], points["values"]))


def block(html, number):
    return zlib.decompress(base64.b64decode(re.search(rf'id="block{number}">([^<]*)<', html)[1]))


class Train(TrainingTest):
    RUN = PAIRS

    def setUp(self):
        super().setUp()
        write_corpus(self.at)

    def log(self):
        return [json.loads(line) for line in (self.at / "m/train.log.jsonl").read_text().splitlines()]

    def test_same_weights_with_and_without(self):
        self.train("--dropout", "0.3")
        without = [*PAIRS[:-2], "--model", "plain", "--dropout", "0.3"]
        self.assertEqual(self.heed(*without).returncode, 0)
        self.assertTrue(self.model() == self.model("plain"))
        states = [json.loads((self.at / d / "training.json").read_text()) for d in ("m", "plain")]
        for key in ("generator_seed", "generator_stream", "update", "best_nll"):
            self.assertEqual(states[0][key], states[1][key])
        self.assertFalse((self.at / "plain/attention.safetensors").exists())

    def test_curves_are_those_of_the_log(self):
        self.train()
        _, data = data_of(self.at / "report.html")
        log = self.log()
        trained = [l for l in log if l["type"] == "train"]
        validated = [l for l in log if l["type"] == "validation"]
        self.assertEqual(len(trained), 12)
        self.assertEqual([l["update"] for l in validated], [6, 12, 18, 24])
        self.assertEqual(curve(data, "Loss", "training"), {l["update"]: l["nll"] for l in trained})
        self.assertEqual(curve(data, "Loss", "validation"), {l["update"]: l["nll"] for l in validated})
        self.assertEqual(curve(data, "Loss", "averaged"), {l["update"]: l["average_nll"] for l in validated[1:]})
        self.assertEqual(curve(data, "Learning rate", "learning rate"), {l["update"]: l["learning_rate"] for l in trained})
        self.assertEqual(curve(data, "Gradient norm", "gradient norm"), {l["update"]: l["gradient_norm"] for l in trained})
        self.assertEqual(curve(data, "Validation BLEU", "BLEU"), {l["update"]: l["bleu"] for l in validated})
        self.assertEqual(dict(data["facts"])["Update"], "24")

    def test_bleu_is_that_of_the_greedy_translation(self):
        long = [line for line in corpus(200, seed=5).splitlines() if line.count(" ") >= 8]
        self.write("dev.tsv", "".join(line + "\n" for line in long))
        self.train("--max-updates", "300", "--validate-every", "300", "--bleu-sentences", "9", "--average", "1",
                   "--learning-rate", "0.005", "--warmup", "50")
        pairs = [long[i * len(long) // 9].split("\t") for i in range(9)]
        self.write("reference", "".join(target + "\n" for _, target in pairs))
        translated = self.succeeds("translate", "--model", "m", "--beam", "1", stdin="".join(s + "\n" for s, _ in pairs))
        score = self.succeeds("score", "--reference", "reference", stdin=translated).splitlines()[0]
        bleu = self.log()[-1]["bleu"]
        self.assertGreater(bleu, 0)
        self.assertTrue(score.startswith(f"BLEU = {bleu:.2f} "), score)

    def test_no_bleu_where_none_is_asked_for(self):
        self.train("--bleu-sentences", "0")
        self.assertNotIn("Validation BLEU", [f["name"] for f in data_of(self.at / "report.html")[1]["figures"]])
        self.assertEqual({"bleu" in line for line in self.log()}, {False})

    def test_cut_and_resumed_shows_the_whole_history(self):
        self.train("--model", "whole", "--html", "whole.html")
        process = self.start("--max-updates", "1000000", "--patience", "0")
        self.until_line(process, "validation: ")
        process.kill()
        process.communicate()
        self.assertEqual(process.returncode, -signal.SIGKILL)
        state = json.loads((self.at / "m/training.json").read_text())["update"]
        end = str(max(24, state + 6))
        self.train("--max-updates", end)
        if end != "24":
            self.train("--max-updates", end, "--model", "whole", "--html", "whole.html")
        html, data = data_of(self.at / "report.html")
        whole_html, whole = data_of(self.at / "whole.html")
        for figure, name in [("Loss", "training"), ("Loss", "validation"), ("Validation BLEU", "BLEU"), ("Learning rate", "learning rate")]:
            self.assertEqual(curve(data, figure, name), curve(whole, figure, name), name)
        self.assertEqual(data["sentences"], whole["sentences"])
        self.assertEqual([s["updates"][0] for s in data["sentences"]], [0] * len(data["sentences"]))
        for mine, other in zip(data["groups"], whole["groups"]):
            for a, b in zip(mine["moments"], other["moments"]):
                self.assertEqual(block(html, a), block(whole_html, b))
        first, last = (block(html, data["groups"][0]["moments"][i]) for i in (0, -1))
        self.assertNotEqual(first, last, "heads changed")

    def test_finished_already_writes_the_page_and_nothing_else(self):
        self.train("--html", "first.html")
        before = snapshot(self.at)
        self.assertIn("finished already", self.train())
        after = snapshot(self.at)
        self.assertTrue(after.pop("report.html") == before["first.html"])
        self.assertTrue(after == before)

    def test_taken_up_later(self):
        """A training that began without a page: the curves are whole, the maps begin with the first moment and now."""
        self.assertEqual(self.heed(*PAIRS[:-2], "--max-updates", "12").returncode, 0)
        self.train()
        _, data = data_of(self.at / "report.html")
        self.assertEqual(sorted(curve(data, "Loss", "validation")), [6, 12, 18, 24])
        self.assertEqual(data["sentences"][0]["updates"], [0, 18, 24])

    def test_chosen_lines(self):
        self.train("--html-lines", "5,2")
        _, data = data_of(self.at / "report.html")
        lines = (self.at / "dev.tsv").read_text().splitlines()
        self.assertEqual(len(data["sentences"]), 2)
        for sentence, number in zip(data["sentences"], [5, 2]):
            self.assertTrue(sentence["text"].startswith(lines[number - 1].split("\t")[0][:8]))
        # Another choice: what is new begins at 0 and now, what stays keeps its moments.
        self.train("--html-lines", "2,3", "--max-updates", "30")
        _, data = data_of(self.at / "report.html")
        self.assertEqual([s["updates"] for s in data["sentences"]], [[0, 6, 12, 18, 24, 30], [0, 30]])
        # What is not watched any more is kept for another time.
        self.train("--html-lines", "5", "--max-updates", "36")
        _, data = data_of(self.at / "report.html")
        self.assertEqual([s["updates"] for s in data["sentences"]], [[0, 6, 12, 18, 24, 36]])

    def test_maps_are_read_by_other_programs(self):
        self.train()
        raw = (self.at / "m/attention.safetensors").read_bytes()
        header = json.loads(raw[8:8 + int.from_bytes(raw[:8], "little")])
        info = header["0/24/2"]
        self.assertEqual(info["dtype"], "U8")
        source, target = json.loads(header["__metadata__"]["sentences"])["sentences"][0]
        self.assertEqual(info["shape"], [1, 2, len(target) + 1, len(source) + 1])

    # ---------------------------------------------------------------------------------- bad input

    ORDINARY = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search"] if os.geteuid() == 0 else []

    def test_unwritable_paths_are_refused_before_anything_is_done(self):
        os.mkdir(self.at / "locked", 0o555)
        os.mkdir(self.at / "folder")
        self.refuses(1, "none/report.html", *PAIRS, "--html", "none/report.html")
        self.refuses(1, "folder", *PAIRS, "--html", "folder")
        self.refuses(1, "check the permissions", *PAIRS, "--html", "locked/report.html", wrapper=self.ORDINARY)

    def test_files_that_are_needed_are_no_page(self):
        for path in ["train.tsv", "./dev.tsv", str(self.at / "train.tsv")]:
            self.refuses(2, "what the command reads", *PAIRS, "--html", path)
        (self.at / "link.tsv").symlink_to("train.tsv")
        self.refuses(2, "what the command reads", *PAIRS, "--html", "link.tsv")
        for path in ["m/model.safetensors", "m/../m/training.json"]:
            self.refuses(2, "ends in .html", *PAIRS, "--html", path)
        self.train()
        model = self.model()
        self.refuses(2, "ends in .html", *PAIRS, "--html", "m/model.safetensors")
        self.assertTrue(self.model() == model)

    def test_within_the_directory_of_the_model(self):
        for _ in range(2):
            self.train("--html", "m/report.html")
            self.assertEqual(dict(data_of(self.at / "m/report.html")[1]["facts"])["Update"], "24")

    def test_lines_that_are_not_there(self):
        for lines, says in [("0", "lines 1..20"), ("21", "lines 1..20"), ("2,", "3,17"), ("x", "3,17"), ("1,2,3,4,5,6,7,8,9", "at most 8")]:
            self.refuses(2, says, *PAIRS, "--html-lines", lines)
        self.refuses(2, "--html", *PAIRS[:-2], "--html-lines", "1")
        self.refuses(2, "--bleu-sentences", *TEXT[:-2], "--bleu-sentences", "3")

    def test_a_broken_file_of_maps_is_named(self):
        self.train("--max-updates", "6")
        path = self.at / "m/attention.safetensors"
        raw = path.read_bytes()
        for broken in [b"", raw[:100], raw.replace(b"0/6/1", b"0/6/7"), raw.replace(b'"sentences', b'"sentencex')]:
            path.write_bytes(broken)
            error = self.train(code=1)
            self.assertIn("m/attention.safetensors", error.splitlines()[-1])
            self.assertIn("remove it to start the maps over", error)
            self.assertEqual(error.count("\n"), 1)

    def test_a_page_that_cannot_be_written_any_more_does_not_end_the_training(self):
        (self.at / "out").mkdir()
        process = self.start("--max-updates", "1000000", "--patience", "0", "--html", "out/report.html")
        self.until_line(process, "validation: ")
        (self.at / "out").rename(self.at / "gone")
        self.until_line(process, "the report was not written: ")
        self.until_line(process, "validation: ")
        process.terminate()
        self.assertIn("saved after update", process.communicate()[1])


class Text(TrainingTest):
    RUN = TEXT

    def test_lines_of_a_text(self):
        self.write("text.txt", "the quick brown fox\n\nover the lazy dog again\n" * 60)
        run = [*TEXT, "--valid-text", "text.txt"]
        self.refuses(2, "line 2 is empty", *run, "--html-lines", "2")
        self.refuses(2, "the validation text has lines 1..180", *run, "--html-lines", "181")
        self.train("--valid-text", "text.txt", "--html-lines", "3,1")
        _, data = data_of(self.at / "report.html")
        self.assertEqual([s["text"] for s in data["sentences"]],
                         ["over the lazy dog again (its first tokens)", "the quick brown fox (its first tokens)"])
        self.assertEqual("".join(data["groups"][0]["keyLabels"]), "over\u2581the\u2581lazy\u2581do")

    def test_short_lines(self):
        """None is of moderate length: the longest are watched, and nothing that is a leftover of a line."""
        self.write("text.txt", "a\nab\nthe fox\n" * 60)
        self.train()
        _, data = data_of(self.at / "report.html")
        self.assertEqual([s["text"] for s in data["sentences"]], ["the fox"] * 3)

    def test_perplexity_and_self_attention(self):
        self.write("text.txt", "the quick brown fox jumps\nover the lazy dog again\nand again it does so\n" * 60)
        self.train()
        _, data = data_of(self.at / "report.html")
        self.assertEqual([f["name"] for f in data["figures"]], ["Loss", "Perplexity", "Learning rate", "Gradient norm"])
        losses = curve(data, "Loss", "validation")
        for update, value in curve(data, "Perplexity", "validation").items():
            self.assertAlmostEqual(value, 2.718281828459045 ** losses[update], delta=1e-6 * value)
        self.assertEqual([g["name"] for g in data["groups"]], ["Self-attention"] * 3)
        self.assertLessEqual(data["groups"][0]["keys"], 16, "no more than the model looks back on")
        self.assertEqual(data["sentences"][0]["updates"], [0, 5, 10, 15, 20])
        plain = self.heed(*TEXT[:-2], "--model", "plain")
        self.assertEqual(plain.returncode, 0, plain.stderr.decode())
        self.assertTrue(self.model() == self.model("plain"))


if __name__ == "__main__":
    unittest.main()
