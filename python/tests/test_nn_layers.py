"""Modules and layers: parameters, states, copies, and values and gradients beside NumPy."""
import copy
import gc
import pickle
import weakref

import heed
import numpy as np
import pytest
from heed import nn
from heed.nn import functional as F
from nn_checks import TINY, Net, check_gradients, leaf, net_loss, probe
from test_attention import numbers


# ---- Modules

def test_parameters_are_found_by_name():
    net = Net()
    names = [name for name, _ in net.named_parameters()]
    assert names[0] == "embedding.weight" and names[-1] == "gain"
    assert {"blocks.0.self_attn.in_proj_weight", "blocks.1.norm2.weight", "blocks.0.linear1.weight",
            "parts.cross.k_proj_weight", "parts.cross.out_proj.bias", "parts.norm.bias"} < set(names)
    assert len(names) == len(set(names)) == len(net.parameters())
    assert not any(name.startswith(("tied", "constant")) for name in names)
    assert net.parameter_count() == sum(p.numpy().size for p in net.parameters())
    assert repr(net) == f"Net of {net.parameter_count()} parameters"


def test_gradients_of_a_composed_model():
    nn.manual_seed(2)
    net = Net().eval()
    net.to("float64")
    check_gradients(lambda: net_loss(net), net.parameters())


def test_training_and_eval_reach_everything():
    net = Net()
    children = [net, *net.blocks, *net.parts.values(), net.blocks[0].self_attn, net.blocks[1].feed_forward.linear1]
    assert all(child.training for child in children)
    assert net.eval() is net and not any(child.training for child in children)
    assert net.train() is net and all(child.training for child in children)
    net.train(False)
    assert net_loss(net, np.float32).item() == net_loss(net, np.float32).item()
    net.train()
    assert net_loss(net, np.float32).item() != net_loss(net, np.float32).item()


def test_trees_that_bite_their_tails():
    net = Net()
    net.parent = net.blocks[0].__class__(8, 2)
    net.self = net
    net.listed = [net, {"again": net}]
    count = len(net.named_parameters())
    assert count == len(Net().named_parameters()) + len(net.parent.named_parameters())
    net.loop = []
    net.loop.append(net.loop)
    with pytest.raises(RecursionError):
        net.parameters()
    del net.loop
    for _ in range(100_000):
        net.listed = [net.listed]
    with pytest.raises(RecursionError):
        net.parameters()
    while net.listed:  # no deep recursion of Python's own
        net.listed = net.listed[0] if isinstance(net.listed[0], list) else None


def test_cycles_are_collected():
    net = Net()
    net.self = net
    gone = weakref.ref(net)
    del net
    gc.collect()
    assert gone() is None


def test_modules_that_are_none():
    class Forgetful(nn.Module):
        def __init__(self):
            self.layer = nn.Linear(2, 2)

    class Idle(nn.Module):
        pass
    with pytest.raises(TypeError, match="Forgetful is not begun yet; call super\\(\\).__init__\\(\\) first"):
        Forgetful().parameters()
    outer = Idle()
    outer.child = Forgetful()
    with pytest.raises(TypeError, match="Forgetful is not begun yet"):
        outer.train()
    with pytest.raises(AttributeError, match="forward"):
        Idle()(1)
    for method in (nn.Module.parameters, nn.Module.state_dict, nn.Module.eval):
        with pytest.raises(TypeError, match="5 is no module; pass one of heed.nn"):
            method(5)
    outer.child = {"a.b": leaf(2), "a": {"b": leaf(2)}}
    with pytest.raises(heed.ShapeError, match="two parameters are named 'child.a.b'"):
        outer.parameters()


def test_a_subclass_of_a_layer_has_both_kinds_of_parameters():
    class Scaled(nn.Linear):
        def __init__(self):
            super().__init__(3, 2)
            self.gain = leaf(1)
    assert [name for name, _ in Scaled().named_parameters()] == ["weight", "bias", "gain"]


def test_state_dict_is_in_place():
    net, other = Net(), Net()
    state = net.state_dict()
    assert np.shares_memory(state["gain"], net.gain.numpy())
    other.load_state_dict(state)
    for name, values in other.state_dict().items():
        np.testing.assert_array_equal(values, state[name])
        assert not np.shares_memory(values, state[name])
    other.load_state_dict({name: values.astype(np.float64) for name, values in state.items()})
    assert other.gain.dtype == np.float32
    state["gain"][:] = 7
    assert net.gain.numpy()[0] == 7


def test_states_that_do_not_fit():
    layer = nn.Linear(3, 2)
    before = layer.weight.numpy().copy()
    good = {"weight": numbers(2, 3), "bias": numbers(2)}
    for change, kind, text in (({"bias": None}, TypeError, "load_state_dict: 'bias' is None"),
                               ({"gain": numbers(2)}, heed.FormatError, "'gain' is not a parameter of this model"),
                               ({"bias": numbers(3)}, heed.FormatError, "'bias' has shape \\(3\\), the model needs"),
                               ({"bias": np.arange(2)}, heed.FormatError, "'bias' is int64, not floating"),
                               ({5: numbers(2)}, TypeError, "a name is 5; pass a dict of arrays by name")):
        with pytest.raises(kind, match=text):
            layer.load_state_dict(good | change)
    with pytest.raises(heed.FormatError, match="'bias' is missing"):
        layer.load_state_dict({"weight": numbers(2, 3)})
    with pytest.raises(TypeError):
        layer.load_state_dict([1])
    np.testing.assert_array_equal(layer.weight.numpy(), before)


def test_to_another_type_and_back():
    layer = nn.Linear(3, 2)
    before = layer.weight.numpy()
    F.sum(layer(np.ones((1, 3), np.float32))).backward()
    layer.to(np.float64)
    assert layer.weight.dtype == np.float64 and layer.weight.grad is None
    np.testing.assert_array_equal(layer.weight.numpy(), before)
    assert layer(np.ones((1, 3))).dtype == np.float64
    layer.to("float32")
    np.testing.assert_array_equal(layer.weight.numpy(), before)


def test_a_parameter_that_moves_while_the_tape_holds_it():
    layer = nn.Linear(3, 2)
    loss = F.sum(layer(np.ones((1, 3), np.float32)))
    layer.to("float64")
    with pytest.raises(heed.ShapeError, match="float64 read as float32; convert with astype"):
        loss.backward()


LAYERS = {
    "Linear": lambda: nn.Linear(3, 2, bias=False),
    "Embedding": lambda: nn.Embedding(4, 3),
    "LayerNorm": lambda: nn.LayerNorm(3, 0.5, bias=False),
    "RMSNorm": lambda: nn.RMSNorm(3, 0.5),
    "Norm": lambda: nn.Norm("rms_norm", 3, 0.5),
    "FeedForward": lambda: nn.FeedForward(3, 4, "geglu_tanh", 0.5),
    "MultiheadAttention": lambda: nn.MultiheadAttention(4, 2, 0.5, kv_heads=1, head_dim=3, kdim=5, vdim=6, scale=2.0),
    "rotary": lambda: nn.MultiheadAttention(4, 2, rotary=True, bias=False),
    "encoder layer": lambda: nn.TransformerEncoderLayer(4, 2, dim_feedforward=6, norm="rms_norm", activation="swiglu",
                                                        norm_epsilon=0.5, rotary=True),
    "decoder layer": lambda: nn.TransformerDecoderLayer(4, 2, dim_feedforward=6, norm_first=True, dropout=0.25),
    "encoder": lambda: nn.TransformerEncoder(4, 2, 2, dim_feedforward=6, final_norm=True, norm_bias=False),
    "decoder": lambda: nn.TransformerDecoder(4, 2, 3, dim_feedforward=6, bias=False),
    "Transformer": lambda: nn.Transformer(**TINY, num_encoder_layers=1, num_decoder_layers=2, positions="rotary"),
    "LanguageModel": lambda: nn.LanguageModel(**TINY, num_layers=2, tie_embeddings=False),
    "one's own": Net,
}


@pytest.mark.parametrize("name", LAYERS)
def test_pickle_and_copy(name):
    module = LAYERS[name]().eval()
    module.to("float64")
    for again in (pickle.loads(pickle.dumps(module)), copy.deepcopy(module)):
        assert type(again) is type(module) and not again.training and again.parameters()[0].dtype == np.float64
        state = again.state_dict()
        assert list(state) == list(module.state_dict())
        for key, values in module.state_dict().items():
            np.testing.assert_array_equal(values, state[key])
            assert not np.shares_memory(values, state[key])
        assert again.__reduce__()[1][2] == module.__reduce__()[1][2]  # the same arguments


def test_copies_compute_the_same():
    for make, loss in ((Net, lambda net: net_loss(net, np.float32)),
                       (LAYERS["Transformer"], lambda model: model.loss([[4]], [[5]])),
                       (LAYERS["encoder layer"], lambda layer: probe(layer(np.ones((1, 3, 4), np.float32))))):
        module = make()
        other = pickle.loads(pickle.dumps(module))
        assert other.training
        nn.manual_seed(4)
        expected = loss(module).item()
        nn.manual_seed(4)
        assert loss(other).item() == expected
    copied = copy.deepcopy(net := Net())
    assert copied.tied is copied.embedding is not net.embedding
    assert copied.embedding.weight.same(copied.tied.weight) and not copied.embedding.weight.same(net.embedding.weight)


def test_variables_are_pickled_without_history():
    x = pickle.loads(pickle.dumps(leaf(3)))
    np.testing.assert_array_equal(x.numpy(), leaf(3).numpy())
    assert x.requires_grad and not copy.deepcopy(nn.Variable(numbers(2))).requires_grad
    with pytest.raises(heed.ShapeError, match="history cannot be kept; pickle numpy\\(\\) of it"):
        pickle.dumps(x * 2.0)


def test_initial_values_follow_the_seed():
    states = []
    for seed in (5, 5, 6):
        nn.manual_seed(seed)
        states.append(nn.Linear(3, 2).weight.numpy())
    np.testing.assert_array_equal(states[0], states[1])
    assert (states[0] != states[2]).any() and abs(states[0]).max() <= 1 / np.sqrt(3)


# ---- Layers

def heads_of(x, heads):
    """(B, L, H * D) -> (B, H, L, D)"""
    return np.swapaxes(x.reshape(*x.shape[:2], heads, -1), 1, 2)


@pytest.mark.parametrize("options", [{}, {"kv_heads": 2}, {"head_dim": 5}, {"bias": False, "out_bias": False},
                                     {"scale": 0.3}])
def test_multihead_attention_is_its_formula(options):
    layer = nn.MultiheadAttention(8, 4, **options)
    layer.to("float64")
    for parameter in layer.parameters():
        parameter.numpy()[...] = numbers(*parameter.shape, seed=parameter.numpy().size)
    x, mask, lengths = numbers(2, 5, 8), numbers(5, 5) > -1, np.array([5, 3])
    size, kv = options.get("head_dim", 2), options.get("kv_heads", 4)
    packed = x @ layer.in_proj_weight.numpy().T + (0 if layer.in_proj_bias is None else layer.in_proj_bias.numpy())
    q, k, v = np.split(packed, [4 * size, (4 + kv) * size], axis=2)
    r = heed.attention(heads_of(q, 4), heads_of(k, kv), heads_of(v, kv), mask, causal=True, key_lengths=lengths,
                       scale=options.get("scale"), return_weights=True)
    merged = np.swapaxes(r.out, 1, 2).reshape(2, 5, -1)
    bias = 0 if layer.out_proj.bias is None else layer.out_proj.bias.numpy()
    record = nn.HeadRecord(want_vectors=True)
    y = layer(x, x, x, mask, True, key_lengths=lengths, record=record)
    np.testing.assert_allclose(y.numpy(), merged @ layer.out_proj.weight.numpy().T + bias, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(record.weights, r.weights, rtol=1e-12, atol=1e-12)
    for vectors, expected in zip(record.vectors, (heads_of(q, 4), heads_of(k, kv), heads_of(v, kv))):
        np.testing.assert_allclose(vectors, expected, rtol=1e-12, atol=1e-12)
        assert not vectors.flags.writeable
    apart = layer(x, x.copy(), x.copy(), mask, True, key_lengths=lengths)  # three products instead of one
    np.testing.assert_allclose(apart.numpy(), y.numpy(), rtol=1e-12, atol=1e-12)
    single = layer(x[0], x[0], x[0], causal=True)
    np.testing.assert_allclose(single.numpy(), layer(x[:1], x[:1], x[:1], causal=True).numpy()[0], rtol=1e-12)
    part = nn.HeadRecord(heads=[3, 0], rows=[1])
    layer(x, x, x, mask, True, key_lengths=lengths, record=part)
    np.testing.assert_allclose(part.weights, r.weights[:, [3, 0]][:, :, [1]], rtol=1e-12, atol=1e-12)
    check_gradients(lambda: probe(layer(x, x, x, mask, True, key_lengths=lengths)), layer.parameters())


def test_masks_have_all_keys():
    x, memory = numbers(2, 5, 8).astype(np.float32), numbers(2, 7, 8, seed=1).astype(np.float32)
    attention = nn.MultiheadAttention(8, 2)
    encoder, decoder = nn.TransformerEncoder(8, 2, 1), nn.TransformerDecoder(8, 2, 1)
    calls = {
        4: [lambda mask: attention(x, x, x, mask), lambda mask: attention(x[0], x[0], x[0], mask),
            lambda mask: encoder(x, mask), lambda mask: encoder.layers[0](x, mask),
            lambda mask: decoder(x, memory, mask), lambda mask: decoder.layers[0](x, memory, mask)],
        6: [lambda mask: attention(x, memory, memory, mask), lambda mask: attention(x[0], memory[0], memory[0], mask),
            lambda mask: decoder(x, memory, memory_mask=mask),
            lambda mask: decoder.layers[0](x, memory, memory_mask=mask)]}
    for keys, of_keys in calls.items():
        text = rf"does not broadcast to .*; pass \(Lq, Lk\) = \(5, {keys + 1}\), or a shape"
        for call in of_keys:
            for mask in (np.ones((5, keys), bool), np.zeros(keys, np.float32)):
                with pytest.raises(heed.ShapeError, match=text):
                    call(mask)
            for mask in (np.ones((5, 1), bool), np.ones((5, keys + 1), bool), np.zeros(1, np.float32)):
                assert call(mask).shape[-2:] == (5, 8)


def test_rotary_attention_goes_by_positions():
    layer = nn.MultiheadAttention(8, 2, rotary=True)
    x = numbers(1, 4, 8).astype(np.float32)
    y = layer(x, x, x).numpy()
    np.testing.assert_array_equal(layer(x, x, x, positions=np.arange(4)).numpy(), y)
    np.testing.assert_allclose(layer(x, x, x, positions=np.arange(4) + 9).numpy(), y, atol=1e-5)  # relative ones
    assert abs(layer(x, x, x, positions=np.array([3, 1, 2, 0])).numpy() - y).max() > 1e-4
    with pytest.raises(heed.ShapeError, match="rotary positions are for self-attention"):
        layer(x, x, x.copy())
    for other, call in ((nn.MultiheadAttention(8, 2), lambda o: o(x, x, x, positions=np.arange(4))),
                        (nn.TransformerEncoderLayer(8, 2), lambda o: o(x, positions=np.arange(4)))):
        with pytest.raises(heed.ShapeError, match="positions are for layers with rotary"):
            call(other)


def test_stacks_are_their_layers():
    encoder = nn.TransformerEncoder(8, 2, 2, final_norm=True, dim_feedforward=16)
    decoder = nn.TransformerDecoder(8, 2, 2, dim_feedforward=16, norm_first=True)
    for stack in (encoder, decoder):
        stack.to("float64")
        stack.eval()
    x, memory, lengths = numbers(2, 3, 8), numbers(2, 4, 8, seed=1), np.array([4, 2])
    record, one = nn.AttentionRecord(), nn.HeadRecord()
    y = encoder(memory, key_lengths=lengths, record=record)
    z = encoder.layers[0](memory, key_lengths=lengths, record=one)
    np.testing.assert_array_equal(one.weights, record.encoder[0])
    np.testing.assert_array_equal(encoder.norm(encoder.layers[1](z, key_lengths=lengths)).numpy(), y.numpy())
    record = nn.AttentionRecord(layers=[1], want_vectors=True)
    self_record, cross_record = nn.HeadRecord(), nn.HeadRecord()
    out = decoder(x, y, causal=True, memory_key_lengths=lengths, record=record)
    h = decoder.layers[0](x, y, causal=True, memory_key_lengths=lengths)
    h = decoder.layers[1](h, y, causal=True, memory_key_lengths=lengths, record=self_record, cross_record=cross_record)
    np.testing.assert_array_equal(h.numpy(), out.numpy())
    assert record.decoder[0] is None and record.encoder == [] and decoder.norm is None
    np.testing.assert_array_equal(record.decoder[1], self_record.weights)
    np.testing.assert_array_equal(record.cross[1], cross_record.weights)
    assert record.cross_vectors[0] is None and record.cross_vectors[1][1].shape == (2, 2, 4, 4)
    assert (record.cross[1][1, :, :, 2:] == 0).all() and (np.triu(record.decoder[1], 1) == 0).all()
    check_gradients(lambda: probe(decoder(x, encoder(memory), causal=True)),
                    encoder.parameters() + decoder.parameters())


def test_positions():
    rows = nn.SinusoidalPositions(6).rows(300, 2, "float64")
    angle = np.arange(300, 302)[:, None] / 10000 ** (np.array([0, 2, 4]) / 6)
    np.testing.assert_allclose(rows[:, ::2], np.sin(angle), rtol=1e-9)
    np.testing.assert_allclose(rows[:, 1::2], np.cos(angle), rtol=1e-9)
    for wrong in ((-1, 2), (0, -1), (2 ** 62, 1)):
        with pytest.raises(heed.ShapeError, match="pass numbers from 0"):
            nn.SinusoidalPositions(6).rows(*wrong)
