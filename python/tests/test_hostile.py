"""Objects that mean no good, one by one; scripts/fuzz-python has them at random."""
import pathlib
import random
import sys

import heed
import numpy as np
import pytest
from test_attention import inputs

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "fuzz"))
from arguments import Foreign, Own, Structure, Turned  # noqa: E402


def refused(text, q=None, **options):
    x, k, v = inputs(np.float32)
    with pytest.raises((heed.ShapeError, TypeError), match=text):
        heed.attention(x if q is None else q, k, v, **options)


def test_texts_that_utf8_does_not_have():
    refused("attention: scale is a arguments.Turned; pass a number", scale=Turned("x"))
    refused("attention: causal is '.ud800'; pass False, True", causal="\ud800")
    refused("attention: causal is a arguments.Turned; pass False, True", causal=Turned("x"))


def test_what_dlpack_methods_raise_becomes_a_refusal():
    def raises(error):
        def give(**_):
            raise error
        return give

    for error, said in ((TypeError("mine"), "mine"), (Own("\ud800"), "a arguments.Own"),
                        (Own("first\nsecond"), "first")):
        refused(f"attention: q gives no memory: {said}; pass a dense array", Foreign(raises(error)))


def test_dlpack_structures_without_a_shape_or_memory():
    x = inputs(np.float32)[0]
    for field, value, text in (("shape", None, "without a shape"), ("ndim", -1, "without a shape"),
                               ("data", None, "without memory")):
        for seed in range(4):  # with versions and without
            structure = Structure(random.Random(seed), x, lie=False)
            setattr(structure.structure.tensor, field, value)
            refused(f"attention: q has a DLPack structure {text}; pass a copy", Foreign(lambda **_: structure.capsule))
            structure.check()
