"""The program on other people's models, from outside."""
import json
import re
import shutil
import unittest

from program import SHARED, ProgramTest

MODELS = SHARED / "conformance/models"


def cases(*tasks):
    for directory in sorted(MODELS.iterdir()):
        if (directory / "expected.json").exists():
            facts = json.loads((directory / "expected.json").read_text())
            if facts.get("task") in tasks and directory.name != "tokenizers":
                yield directory, facts


@unittest.skipUnless(MODELS.exists(), "needs shared/conformance/models, which is not here")
class OtherMakers(ProgramTest):
    def test_language_models_go_on_as_their_makers_would(self):
        seen = 0
        for directory, facts in cases("causal"):
            for line in facts["greedy"]:
                with self.subTest(directory.name, row=line["row"]):
                    # Theirs is decoded by itself, which loses the space in front.
                    text = self.succeeds("generate", "-m", directory, "--temperature", 0, "--max-tokens",
                                         len(line["ids"]), "--no-prompt", facts["texts"][line["row"]])
                    self.assertIn(text.removesuffix("\n"), (line["text"], " " + line["text"]))
                    seen += 1
        self.assertGreater(seen, 15)

    def test_translators_find_what_their_makers_would(self):
        seen = 0
        for directory, facts in cases("seq2seq"):
            language = ["--to", facts["target_language"]] if "target_language" in facts else []
            longest = facts["beam_with"]["max_new_tokens"]
            if any(len(beam["ids"]) >= longest for row in facts["beam"] for beam in row["beams"]):
                continue
            for row in facts["beam"]:
                with self.subTest(directory.name, row=row["row"]):
                    lines = self.succeeds("translate", "-m", directory, "--beam", 4, "--n-best", 4, "--length-penalty", 1,
                                          *language, "--no-split", "--max-length", longest, "--json",
                                          facts["texts"][row["row"]]["source"])
                    found = json.loads(lines)["translations"]
                    self.assertEqual([t["text"] for t in found], [b["text"] for b in row["beams"]])
                    for mine, theirs in zip(found, row["beams"]):
                        self.assertAlmostEqual(mine["score"], theirs["score"], delta=1e-3)
                    seen += 1
        self.assertGreater(seen, 5)

    def test_bart_and_t5_take_whole_lines(self):
        """Others take sentences, unless the user decides."""
        seen = set()
        for directory, facts in cases("seq2seq"):
            language = ["--to", facts["target_language"]] if "target_language" in facts else []
            text = "Who are you? I have no money."
            default, whole, split = (self.succeeds("translate", "-m", directory, *language, *more, text)
                                     for more in ([], ["--no-split"], ["--split"]))
            kind = json.loads((directory / "config.json").read_text())["model_type"]
            with self.subTest(directory.name):
                self.assertEqual(default, whole if kind in ("bart", "t5") else split)
            seen.add((kind, whole != split))
        self.assertTrue({("bart", True), ("t5", True), ("marian", True)} <= seen, seen)

    def test_each_can_be_seen(self):
        seen = 0
        for directory, facts in cases("causal", "masked", "seq2seq", "sequence_classification"):
            with self.subTest(directory.name):
                text = facts["texts"][0]
                text = text["source"] if isinstance(text, dict) else text
                self.assertRegex(self.succeeds("attend", "-m", directory, text), r"attention, layer (\d) of \1, mean of")
                self.assertEqual(self.heed("attend", "-m", directory, text, "--html", "page.html").returncode, 0)
                data = re.search(r'<script type="application/json" id="data">(.*?)</script>',
                                 (self.at / "page.html").read_text(), re.S).group(1)
                self.assertIn([group["name"] for group in json.loads(data)["groups"]],
                              [["Self-attention"], ["Encoder", "Decoder", "Cross"]])
                (self.at / "page.html").unlink()
                self.assertIn("tensors", self.succeeds("inspect", directory))
                seen += 1
        self.assertGreater(seen, 12)

    def test_languages_and_prefixes(self):
        for option in "--to", "--from":
            for language in "xx", "es", "s", "\u2581a", "</s>", "<mask>":  # pieces are no languages, nor are other tokens
                with self.subTest("a language that the model has not", option=option, language=language):
                    self.refuses(2, f"the model has no language '{language}'; name eng_Latn, fra_Latn, spa_Latn", "translate",
                                 "-m", MODELS / "nllb", option, language, "a")
        with self.subTest("a model without languages"):
            for model, option in ("t5", "--to"), ("bart", "--to"), ("t5", "--from"), ("marian", "--from"):
                self.refuses(2, "the model's tokenizer has no languages; leave it out", "translate", "-m", MODELS / model,
                             option, "es", "a")
        plain = self.succeeds("translate", "-m", MODELS / "t5", "to Spanish: Tom is here.")
        self.assertEqual(self.succeeds("translate", "-m", MODELS / "t5", "--prefix", "to Spanish: ", "Tom is here."), plain)

    def m2m100(self, name, config, listed=None):
        """The weights of nllb, and files of M2M100Tokenizer: its class has the languages, with or without a list of them."""
        directory = self.at / name
        directory.mkdir()
        for file in "config.json", "generation_config.json", "model.safetensors", "sentencepiece.bpe.model":
            shutil.copy(MODELS / "nllb" / file, directory)
        rows = json.loads((directory / "config.json").read_text())["vocab_size"]
        pieces = ["<s>", "<pad>", "</s>", "<unk>"]
        for piece in json.loads((MODELS / "nllb/tokenizer.json").read_text())["model"]["vocab"]:
            if piece not in pieces and len(pieces) < rows - 100:
                pieces.append(piece)
        self.assertTrue({"es", "er", "\u2581a"} <= {*pieces})
        (directory / "vocab.json").write_text(json.dumps({piece: i for i, piece in enumerate(pieces)}))
        (directory / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "M2M100Tokenizer", **config}))
        if listed:
            (directory / "special_tokens_map.json").write_text(json.dumps({"additional_special_tokens": listed}))
        return name

    def test_the_class_of_m2m100_has_the_languages(self):
        marks = {"lstrip": False, "normalized": False, "rstrip": False, "single_word": False, "special": True}
        tokens = {"bos_token": "<s>", "pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}
        saved = {**tokens, "sep_token": "</s>", "extra_special_tokens": [], "language_codes": "m2m100", "src_lang": None,
                 "tgt_lang": None, "num_madeup_words": 8, "backend": "custom", "sp_model_kwargs": {},
                 "added_tokens_decoder": {str(i): {"content": t, **marks} for i, t in enumerate(tokens.values())}}

        def translated(model, *arguments):
            line = self.succeeds("translate", "-m", model, "--beam", 1, "--max-length", 8, "--json", *arguments,
                                 "Tom is here.")
            best = json.loads(line)["translations"][0]
            return best["text"], best["tokens"]  # with their probabilities
        listed = self.m2m100("listed", {}, ["__fr__", "__es__"])
        text, tokens = translated(listed, "--to", "fr")
        self.assertEqual(tokens[0][0], "__fr__")
        self.assertNotIn("__fr__", text)
        for name, config in ("plain", {}), ("saved", saved):
            model = self.m2m100(name, config)
            with self.subTest(name):
                for language in "fr", "__fr__":
                    self.assertEqual(translated(model, "--to", language)[1], tokens)
                self.assertEqual(translated(model, "--to", "es")[1][0][0], "__es__")
                # The language of the text is its first token.
                of_config = self.m2m100(name + "-es", {**config, "src_lang": "es"})
                self.assertEqual(translated(model, "--from", "es", "--to", "fr"), translated(of_config, "--to", "fr"))
                self.assertNotEqual(translated(model, "--from", "es", "--to", "fr")[1], tokens)
                for option in "--to", "--from":
                    for language in "xx", "er", "\u2581a", "</s>", "en_XX":
                        self.refuses(2, f"the model has no language '{language}'; name af, am, ar, ast, az, ba, be, bg, bn, "
                                     "br, bs, ca or one of 88 others", "translate", "-m", model, option, language, "a")

    def test_marian_is_told_the_language_of_each_sentence(self):
        shutil.copytree(MODELS / "marian", self.at / "marian")
        vocabulary = json.loads((self.at / "marian/vocab.json").read_text())
        self.assertIn(">>spa<<", vocabulary)
        sentences = ["Who are you?", "I have no money.", "He is not here."]
        separate = " ".join(self.succeeds("translate", "-m", "marian", f">>spa<< {s}").strip() for s in sentences)
        line = " ".join(sentences)
        for arguments in ([f">>spa<< {line}"], ["--prefix", ">>spa<< ", line], ["--to", "spa", line],
                          ["--to", ">>spa<<", line], ["--to", "spa", f">>spa<< {line}"]):
            with self.subTest(arguments):
                self.assertEqual(self.succeeds("translate", "-m", "marian", *arguments).strip(), separate)
        self.assertNotEqual(self.succeeds("translate", "-m", "marian", line).strip(), separate)
        self.refuses(2, "the model has no language 'fra'; name spa", "translate", "-m", "marian", "--to", "fra", line)
        # Words of the line, the code among them, are what alignments count.
        pairs = self.succeeds("translate", "-m", "marian", "--alignment", f">>spa<< {line}").split("\t")[1].split()
        alone = self.succeeds("translate", "-m", "marian", "--alignment", "--to", "spa", line).split("\t")[1].split()
        self.assertEqual(pairs, [f"{int(a) + 1}-{b}" for a, b in (pair.split("-") for pair in alone)])

    def test_alignments_count_the_words_of_the_text(self):
        words = "Who are you?".split()
        for model, arguments in ("nllb", ["--to", "spa_Latn"]), ("t5", ["--prefix", "a b c: "]):
            with self.subTest(model):
                line = self.succeeds("translate", "-m", MODELS / model, *arguments, "--alignment", " ".join(words))
                sources = [int(pair.split("-")[0]) for pair in line.rstrip("\n").split("\t")[1].split()]
                self.assertTrue(sources and max(sources) < len(words), line)

    def settings(self, model, **fields):
        """A copy of a model with other fields in its generation_config.json."""
        name = f"{model}-{len(list(self.at.iterdir()))}"
        shutil.copytree(MODELS / model, self.at / name)
        file = self.at / name / "generation_config.json"
        file.write_text(json.dumps({**json.loads(file.read_text()), **fields}))
        return name

    def test_models_write_by_their_generation_settings(self):
        line = "We will see her tomorrow."
        bart = self.settings("bart", no_repeat_ngram_size=1, max_length=20)
        once = self.succeeds("translate", "-m", bart, line)
        self.assertEqual(once, "\u00bfQu\u00e9leiaoptrcer or?\n")
        self.assertNotEqual(self.succeeds("translate", "-m", bart, "--no-repeat-ngram", 0, line), once)  # the option first
        self.assertEqual(self.succeeds("translate", "-m", bart, "--no-repeat-ngram", 0, line),
                         self.succeeds("translate", "-m", self.settings("bart", max_length=20), line))
        # Without do_sample the most probable tokens, and a temperature draws.
        greedy = self.succeeds("generate", "-m", MODELS / "gpt2", "--max-tokens", 12, "The")
        self.assertEqual(greedy, self.succeeds("generate", "-m", MODELS / "gpt2", "--max-tokens", 12, "--temperature", 0, "The"))
        self.assertNotEqual(greedy, self.succeeds("generate", "-m", MODELS / "gpt2", "--max-tokens", 12, "--temperature", 9, "The"))
        self.refuses(2, "--top-k is for sampling, but the model's generation_config.json asks for the most probable tokens",
                     "generate", "-m", MODELS / "gpt2", "--top-k", 4, "The")
        # With it draws, which the seed decides.
        drawn = [self.succeeds("generate", "-m", MODELS / "qwen2", "--max-tokens", 12, "--seed", seed, "The") for seed in range(6)]
        self.assertGreater(len(set(drawn)), 1)
        draws = self.settings("marian", do_sample=True, num_beams=1, temperature=3.0)
        drawn = [self.succeeds("translate", "-m", draws, "--seed", seed, line) for seed in range(6)]
        self.assertGreater(len(set(drawn)), 1)
        self.assertEqual(self.succeeds("translate", "-m", draws, "--beam", 4, line),
                         self.succeeds("translate", "-m", MODELS / "marian", "--beam", 4, line))
        # The prompt counts in max_length.
        long = self.settings("gpt2", max_length=3)
        self.refuses(2, "the prompt has 5 tokens and max_length is 3; give --max-tokens, or a shorter prompt", "generate", "-m",
                     long, "1 2 3")
        self.succeeds("generate", "-m", long, "--max-tokens", 2, "1 2 3")

    def test_settings_that_heed_does_not_have(self):
        for key, value in {"guidance_scale": 1.5, "penalty_alpha": 0.6, "num_beam_groups": 2, "max_time": 1.0,
                           "watermarking_config": {}, "force_words_ids": [[3]], "cache_implementation": "quantized"}.items():
            with self.subTest(key):
                said = f'"{key}" is {json.dumps(value, separators=(",", ":"))}, and heed does not support'
                pair, text = self.settings("marian", **{key: value}), self.settings("gpt2", **{key: value})
                self.refuses(2, said, "translate", "-m", pair, "--beam", 2, "a")
                self.refuses(2, said, "generate", "-m", text, "--temperature", 0, "a")
                self.succeeds("inspect", pair)  # what it does not write it reads
                self.succeeds("embed", "-m", text, "-q", "-o", "v.npy", stdin="a\n")
        both = self.settings("marian", do_sample=True, num_beams=4)
        self.refuses(2, "heed does not draw from several beams", "translate", "-m", both, "a")
        self.succeeds("translate", "-m", both, "--beam", 4, "a")
        self.succeeds("translate", "-m", both, "--sample", "a")
        beams = self.settings("gpt2", num_beams=4)
        self.refuses(2, "heed writes with language models by one beam; give a temperature", "generate", "-m", beams, "a")
        self.succeeds("generate", "-m", beams, "--temperature", 0, "--max-tokens", 3, "a")
        for key, value in {"num_beams": 0, "bad_words_ids": 3, "early_stopping": "soon", "sequence_bias": [[3]],
                           "exponential_decay_length_penalty": 1, "temperature": -1, "eos_token_id": "</s>"}.items():
            with self.subTest(key):
                self.refuses(1, f'"{key}" is ', "translate", "-m", self.settings("marian", **{key: value}), "a")

    def test_what_is_streamed_is_whole_characters(self):
        done = self.heed("generate", "-m", MODELS / "gemma2", "--temperature", 0, "--max-tokens", 6, "--no-prompt", "\u00bfQu\u00e9")
        self.assertEqual(done.stdout.decode(), "\ufffd" * 6 + "\n")
        self.refuses(2, "a text to stop at is not UTF-8", "generate", "-m", MODELS / "gemma2", "--stop", "\udcc3", "a")

    def test_chats_are_written_by_the_models_own_template(self):
        shutil.copytree(MODELS / "qwen2", self.at / "qwen2")
        ask = ["generate", "-m", "qwen2", "--temperature", 0, "--max-tokens", 8, "Hi"]
        self.write("qwen2/chat_template.jinja", "{% for m in messages %}<|im_start|>{{ m.role }}<|im_sep|>{{ m.content }}<|im_end|>"
                                                "{% endfor %}<|im_start|>assistant<|im_sep|>")
        written = "<|im_start|>user<|im_sep|>Hi<|im_end|><|im_start|>assistant<|im_sep|>"
        plain = self.succeeds(*ask[:-1], "--no-prompt", written)
        self.assertEqual(self.succeeds(*ask, "--chat-template", "auto").strip(), plain.strip())
        self.assertNotEqual(self.succeeds(*ask, "--chat-template", "chatml").strip(), plain.strip())
        self.write("qwen2/chat_template.jinja", "{{ raise_exception('no talk') }}")
        self.refuses(2, "the model's template does not take the conversation: no talk", *ask, "--chat-template", "auto")
        self.write("qwen2/chat_template.jinja", "{% include 'other' %}")
        self.refuses(2, "statement 'include'; name one of chatml, gemma, llama2", *ask, "--chat-template", "auto")

    def test_the_wrong_kind_of_model(self):
        bert, gpt2, marian = MODELS / "bert", MODELS / "gpt2", MODELS / "marian"
        self.refuses(2, "a bert, which does not continue a text", "generate", "-m", bert, "a")
        self.refuses(2, "a gpt2, which does not translate", "translate", "-m", gpt2, "a")
        self.refuses(2, "an encoder, which reads a text", "attend", "-m", bert, "--cross", "a")
        self.refuses(2, "leave out --generate", "attend", "-m", marian, "--generate", 3, "a")
        self.refuses(2, "self-attention alone", "attend", "-m", gpt2, "--encoder", "a")

    def test_a_tokenizer_of_another_model(self):
        shutil.copytree(MODELS / "gpt2", self.at / "mixed")
        shutil.copy(MODELS / "qwen2/tokenizer.json", self.at / "mixed/tokenizer.json")
        tokens = json.loads((self.at / "mixed/tokenizer.json").read_text())
        tokens["added_tokens"].append({"id": 5000, "content": "<more>", "single_word": False, "lstrip": False,
                                       "rstrip": False, "normalized": False, "special": False})
        (self.at / "mixed/tokenizer.json").write_text(json.dumps(tokens))
        self.refuses(1, "the tokenizer's ids go to", "generate", "-m", "mixed", "a")

    def test_a_special_token_without_a_row(self):
        """As <mask> of bart-large-cnn: a model writes as it does without, and a text that has the token is refused."""
        shutil.copytree(MODELS / "bart", self.at / "masked")
        tokens = json.loads((self.at / "masked/tokenizer.json").read_text())
        rows = json.loads((self.at / "masked/config.json").read_text())["vocab_size"]
        tokens["added_tokens"].append({"id": rows, "content": "<more>", "single_word": False, "lstrip": False,
                                       "rstrip": False, "normalized": False, "special": True})
        (self.at / "masked/tokenizer.json").write_text(json.dumps(tokens))
        written = self.heed("translate", "-m", "masked", stdin="Who are you?\n").stdout
        self.assertEqual(written, self.heed("translate", "-m", MODELS / "bart", stdin="Who are you?\n").stdout)
        self.refuses(2, f"id {rows} is not in 0..{rows - 1}", "translate", "-m", "masked", stdin="Who <more>\n")

    def test_an_end_that_is_null_is_refused(self):
        for family in ["bart", "t5"]:
            with self.subTest(family):
                shutil.copytree(MODELS / family, self.at / family)
                config = json.loads((self.at / family / "config.json").read_text())
                (self.at / family / "config.json").write_text(json.dumps({**config, "eos_token_id": None}))
                self.refuses(1, "\"eos_token_id\" is null; it must be an id", "translate", "-m", family, "hello")

    def test_a_tokenizer_that_is_not_needed_is_not_read(self):
        shutil.copytree(MODELS / "gpt2", self.at / "broken")
        self.write("broken/tokenizer.json", "{}")
        shutil.copytree(MODELS / "gpt2", self.at / "without",
                        ignore=lambda _, names: [n for n in names if n in ("vocab.json", "merges.txt") or "tokenizer" in n])
        ids = ["--ids", "5 6 7", "--out", "l.npy", "-q"]
        self.succeeds("logits", "-m", MODELS / "gpt2", *ids)
        want = (self.at / "l.npy").read_bytes()
        for model in "broken", "without":
            with self.subTest(model):
                self.succeeds("logits", "-m", model, *ids)
                self.assertEqual((self.at / "l.npy").read_bytes(), want)
                listed, whole = (re.sub("(?m)^other .*\n", "", self.succeeds("inspect", m)) for m in (model, MODELS / "gpt2"))
                self.assertEqual(listed, whole)
                for command in (["logits", "a", "--out", "x.npy"], ["generate", "a"]):
                    self.refuses(1, "tokenizer", *command, "-m", model)

    def test_truncation_and_padding_in_tokenizer_json_change_nothing(self):
        cut = {"max_length": 6, "strategy": "LongestFirst", "stride": 0, "direction": "Right"}
        fixed = {"strategy": {"Fixed": 16}, "direction": "Right", "pad_to_multiple_of": None, "pad_id": 0,
                 "pad_type_id": 0, "pad_token": "[PAD]"}
        self.write("lines", "My brother was not at home when the dog barked.\nHe sleeps.\n")
        self.write("masked", "My brother was not at [MASK] today.\n")
        for name, *command in (("bert", "tokenize", "lines"), ("sentence-encoder", "embed", "lines"),
                               ("bert", "fill", "masked"),
                               ("bert-classifier", "classify", "--json", "-i", "lines"),
                               ("qwen2", "generate", "--temperature", 0, "--max-tokens", 5, "My brother was not at home"),
                               ("qwen2", "generate", "--score", "-i", "lines"), ("t5", "translate", "-i", "lines")):
            with self.subTest(name, command=command[0]):
                expected = self.heed(*command, "-m", MODELS / name)
                self.assertEqual(expected.returncode, 0, expected.stderr)
                for blocks in {"truncation": cut}, {"padding": fixed}, {"truncation": cut, "padding": fixed}:
                    shutil.copytree(MODELS / name, self.at / "m")
                    file = self.at / "m/tokenizer.json"
                    file.write_text(json.dumps({**json.loads(file.read_text()), **blocks}))
                    done = self.heed(*command, "-m", "m")
                    self.assertEqual((done.returncode, done.stdout), (0, expected.stdout), (blocks, done.stderr))
                    shutil.rmtree(self.at / "m")

    def test_directories_that_are_no_model(self):
        shutil.copytree(MODELS / "gpt2", self.at / "cut")
        whole = (self.at / "cut/model.safetensors").read_bytes()
        (self.at / "cut/model.safetensors").write_bytes(whole[: len(whole) // 2])
        self.refuses(1, "model.safetensors", "generate", "-m", "cut", "a")
        (self.at / "cut/model.safetensors").unlink()
        self.write("cut/pytorch_model.bin", "PK")
        self.refuses(1, "pytorch_model.bin", "generate", "-m", "cut", "a")
        self.write("other/config.json", '{"model_type": "mamba"}')
        self.refuses(1, "mamba", "generate", "-m", "other", "a")
        self.refuses(1, "config.json", "generate", "-m", MODELS / "tokenizers/bytelevel-gpt2", "a")


if __name__ == "__main__":
    unittest.main()
