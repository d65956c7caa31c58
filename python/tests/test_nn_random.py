"""Random calls of layers, operations and models: a result or an exception of the promised kinds, whatever is passed."""
import heed
import numpy as np
import pytest
from heed import nn
from heed.nn import functional as F

TINY = {"vocab_size": 6, "d_model": 4, "nhead": 2, "dim_feedforward": 8}


def usual_things():
    x = np.arange(16, dtype=np.float32).reshape(2, 2, 4) / 16
    return [x, x, x.astype(np.float64), x[0], x[0, 0], x[:, None], x.T, np.broadcast_to(x, (2, 2, 4)),
            nn.Variable(x, requires_grad=True), nn.Variable(x[0], requires_grad=True), np.array([[0, 1], [2, 3]]),
            np.array([1, 2], np.int32), np.ones((2, 2), bool), [[1, 2], [3]], [1, 2, 3], nn.TokenBatch.pad([[1, 2]], 0),
            nn.TokenBatch.pack([[1], [2, 3]]), F.PackedHeads(x, 0, 2, 2), 0.5, 2, "relu", True, None]


def odd_things():
    frozen = np.zeros((2, 3), np.float32)
    frozen.flags.writeable = False
    return [-1, 2 ** 40, 2 ** 70, float("nan"), float("inf"), "", b"x", [], {}, {"weight": 1}, object(), np.float32(2),
            np.array(3), np.zeros(0, np.float32), np.zeros((2, 0, 4), np.float32), frozen, np.array(["a"]),
            np.ones(3, complex), np.ones((2, 4), np.float16), np.full((2, 4), np.nan, np.float32),
            np.array([-5, 2 ** 40]), nn.Linear(4, 4), nn.Linear, print, nn.HeadRecord(), nn.AttentionRecord(),
            "bottom_right", [[-1]], [[2 ** 33]], F.PackedHeads("x", -1, 2 ** 40, 2 ** 40),
            np.ones((1,) * 9, np.float32)]


def calls():
    layers = [nn.Linear(4, 4), nn.Embedding(5, 4), nn.LayerNorm(4), nn.RMSNorm(4), nn.FeedForward(4, 6, "swiglu"),
              nn.MultiheadAttention(4, 2), nn.MultiheadAttention(4, 2, rotary=True),
              nn.TransformerEncoderLayer(4, 2, dim_feedforward=8), nn.TransformerDecoderLayer(4, 2, dim_feedforward=8),
              nn.TransformerEncoder(4, 2, 1, dim_feedforward=8), nn.TransformerDecoder(4, 2, 1, dim_feedforward=8)]
    translator = nn.Transformer(**TINY, num_encoder_layers=1, num_decoder_layers=1).eval()
    writer = nn.LanguageModel(**TINY, num_layers=1).eval()
    x = nn.Variable(np.ones((2, 2, 4), np.float32), requires_grad=True) * 1.0
    return [getattr(F, name) for name in F.__all__] + layers + [
        translator.encode, translator.decode, translator.loss, translator.logits, translator.translate,
        translator.score, writer.hidden, writer.loss, writer.logits, writer.log_probabilities, writer.generate,
        nn.Variable, nn.Norm,
        nn.TokenBatch.pad, nn.TokenBatch.pack, layers[0].load_state_dict, layers[0].to, nn.LearningRate, nn.HeadRecord,
        nn.AttentionRecord, x.backward, x.__mul__, x.__add__, x.__rsub__, nn.AdamW, nn.clip_scale]


def random_calls(count, seed):
    """How many of them computed something."""
    rng = np.random.default_rng(seed)
    usual, odd, every, computed = usual_things(), odd_things(), calls(), 0
    names = ["mask", "causal", "key_lengths", "positions", "record", "bias", "weight", "reduction", "scale", "window",
             "beam", "top_p"]

    def thing():
        some = odd if rng.random() < 0.2 else usual
        return some[rng.integers(len(some))]
    for _ in range(count):
        call = every[rng.integers(len(every))]
        arguments = [thing() for _ in range(rng.integers(1, 4))]
        options = {names[rng.integers(len(names))]: thing()} if rng.random() < 0.3 else {}
        try:
            result = call(*arguments, **options)
            computed += 1
            if isinstance(result, nn.Variable) and result.requires_grad:
                F.sum(result).backward()
        except (ValueError, TypeError, MemoryError, BufferError):
            pass
        except RuntimeError as error:
            assert "finite" in str(error)
    return computed


@pytest.mark.parametrize("seed", range(4))
def test_random_calls(seed):
    assert random_calls(8000, seed) > 200
    heed.attention(*[np.zeros((1, 1, 2, 4))] * 3)  # all is as it was
