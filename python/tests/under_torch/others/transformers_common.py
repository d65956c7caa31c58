"""transformers' own tests of models (tests/test_modeling_common.py of its source distribution) on tiny models.

HEED_TESTS is that folder `tests`.
"""
import importlib.util
import os
import pathlib
import sys
import types
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
import models  # noqa: E402
import transformers  # noqa: E402

FOLDER = pathlib.Path(os.environ["HEED_TESTS"])
ABSENT = {"exporters.test_export": "ExportTesterMixin", "generation.test_utils": "GenerationTesterMixin"}


def common():
    """The module, which is part of a package that the distribution has not whole."""
    package = types.ModuleType("tests")
    package.__path__ = [str(FOLDER)]
    sys.modules["tests"] = package
    for name, mixin in ABSENT.items():
        if importlib.util.find_spec(f"tests.{name.partition('.')[0]}") is None:
            absent = types.ModuleType(f"tests.{name}")
            setattr(absent, mixin, type(mixin, (), {}))
            sys.modules[f"tests.{name.partition('.')[0]}"] = types.ModuleType(f"tests.{name.partition('.')[0]}")
            sys.modules[f"tests.{name}"] = absent
    return importlib.import_module("tests.test_modeling_common")


BARE = {"gpt2": "GPT2Model", "bert": "BertModel", "llama": "LlamaModel", "gemma2": "Gemma2Model", "t5": "T5Model",
        "marian": "MarianModel", "vit": "ViTModel"}


class Tester:
    batch_size, is_training, hidden_size, num_hidden_layers, num_attention_heads = 2, True, 32, 2, 4
    image_size, patch_size, num_choices, num_masks, mask_length = 8, 4, 2, 2, 4

    def __init__(self, name):
        self.name = name
        self.seq_length = self.encoder_seq_length = self.decoder_seq_length = 5 if name == "vit" else 12

    def get_config(self):
        return models.CONFIGS[self.name]()

    def prepare_config_and_inputs_for_common(self):
        return self.get_config(), models.inputs(self.name, padded=True, decoder_length=self.seq_length)[0]


class Base:
    def setUp(self):
        self.model_tester = Tester(self.model_name)

    def test_generation_tester_mixin_inheritance(self):
        self.skipTest("the distribution has no GenerationTesterMixin")


def case(name, mixin):
    members = {"model_name": name, "is_encoder_decoder": name in ("t5", "marian"),
               "test_resize_embeddings": name != "vit",
               "all_model_classes": tuple(getattr(transformers, cls) for cls in (BARE[name], models.CLASSES[name])),
               "__module__": __name__}
    return type(f"Test{name.capitalize()}", (Base, mixin, unittest.TestCase), members)


_mixin = common().ModelTesterMixin
globals().update({f"Test{name.capitalize()}": case(name, _mixin) for name in BARE})
