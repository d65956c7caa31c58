"""Models whose config.json names another head than the file holds, from outside."""
import json
import unittest

import tiny_models
from program import ProgramTest


class WithoutTheHead(ProgramTest):
    """config.json names a class whose head the file lacks, or the file has another head."""

    def vectors(self, *texts):
        return self.succeeds("embed", "-m", "m", stdin="".join(t + "\n" for t in texts))

    def name_class(self, *architectures):
        config = self.at / "m/config.json"
        config.write_text(json.dumps(json.loads(config.read_text()) | {"architectures": architectures}))

    def refuses_for_its_head(self, name, command, *arguments, **options):
        self.refuses(2, "which the head of " + name + " needs", command, "-m", "m", *arguments, **options)

    def test_encoders_embed(self):
        tiny_models.text_encoder(self.at / "m")
        want = self.vectors("the dog barks", "where is tom?")
        for name, command in (("BertForMaskedLM", "fill"), ("BertForSequenceClassification", "classify"),
                              ("BertForTokenClassification", "classify"), ("BertForQuestionAnswering", "classify")):
            with self.subTest(name):
                self.name_class(name)
                self.assertEqual(self.vectors("the dog barks", "where is tom?"), want)
                self.succeeds("attend", "-m", "m", "the dog", "--html", "page.html", "--quiet")
                self.succeeds("inspect", "m")
                self.refuses_for_its_head(name, command, stdin="the [MASK]\n")
                self.refuses_for_its_head(name, "logits", "the dog", "--out", "l.npy")

    def test_other_heads(self):
        tiny_models.text_encoder(self.at / "m", "BertForMaskedLM")
        filled = self.succeeds("fill", "-m", "m", stdin="the [MASK]\n")
        want = self.vectors("the dog barks")
        for names in ([], ["BertModel"], ["BertForTokenClassification"]):
            self.name_class(*names)
            self.assertEqual(self.vectors("the dog barks"), want)
            if names != ["BertForTokenClassification"]:  # transformers fills masks with the class for that task
                self.assertEqual(self.succeeds("fill", "-m", "m", stdin="the [MASK]\n"), filled)
        self.refuses_for_its_head("BertForTokenClassification", "classify", stdin="the dog\n")

    def test_decoders_embed(self):
        tiny_models.language_model(self.at / "m", tie_word_embeddings=False)
        self.name_class("GPT2Model")
        self.succeeds("embed", "-m", "m", stdin="the dog\n")
        self.name_class("GPT2LMHeadModel")
        self.succeeds("embed", "-m", "m", stdin="the dog\n")
        self.succeeds("attend", "-m", "m", "the dog", "--html", "page.html", "--quiet")
        self.succeeds("logits", "the dog", "-m", "m", "--hidden", "h.npy", "--quiet")
        for arguments in (["generate", "the dog"], ["generate", "the dog", "--score"], ["attend", "the dog", "--lens"]):
            self.refuses_for_its_head("GPT2LMHeadModel", *arguments)

    def test_fine_tuning(self):
        tiny_models.text_encoder(self.at / "m")
        self.name_class("BertForMaskedLM")
        self.write("labels.tsv", "animal\tthe dog\nhouse\tthe house\n" * 4)
        for more in [], ["--lora", "2"]:
            to = "tuned" + "".join(more)
            self.succeeds("train", "--init", "m", "--model", to, "--labelled", "labels.tsv", "--max-updates", "2", "--quiet", *more)
            self.succeeds("classify", "-m", to, stdin="the dog\n")
            self.succeeds("embed", "-m", to, stdin="the dog\n")


if __name__ == "__main__":
    unittest.main()
