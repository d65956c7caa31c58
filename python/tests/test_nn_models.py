"""Models on the tape and their training: gradients, formulas, equal bits, and what is refused."""
import heed
import numpy as np
import pytest
from heed import nn
from heed.nn import functional as F
from nn_checks import TINY, Net, check_gradients, net_loss
from test_attention import numbers
from test_threads import same_threads_after  # noqa: F401  a fixture


# ---- Models

SOURCES, TARGETS = [[4, 5, 6], [7, 8]], [[8, 7], [6, 5, 4, 9]]


@pytest.mark.parametrize("options", [{}, {"positions": "learned", "norm": "rms_norm", "activation": "geglu"},
                                     {"positions": "rotary", "source_vocab_size": 9, "tie_embeddings": False}])
def test_gradients_of_a_transformer(options):
    model = nn.Transformer(**TINY, num_encoder_layers=1, num_decoder_layers=1, max_positions=6, **options)
    assert model.config | TINY | options == model.config
    model.to("float64")
    check_gradients(lambda: model.loss(SOURCES, TARGETS, label_smoothing=0.1), model.parameters(), 2e-7)


def test_a_transformer_is_its_parts():
    model = nn.Transformer(**TINY, num_encoder_layers=1, num_decoder_layers=2).eval()
    source = nn.TokenBatch.pad([ids + [3] for ids in SOURCES], pad_id=0)
    target = nn.TokenBatch.pad([[2] + ids for ids in TARGETS], pad_id=0)
    assert len(source) == 2 and not source.is_packed and source.ids.tolist() == [[4, 5, 6, 3], [7, 8, 3, 0]]
    assert source.lengths.tolist() == [4, 3]
    record = nn.AttentionRecord()
    memory = model.encode(source, record)
    states = model.decode(target, memory, source, record)
    logits = model.logits(source, target)
    np.testing.assert_array_equal(F.linear(states, model.output_weight).numpy(), logits.numpy())
    assert [len(record.encoder), len(record.decoder), len(record.cross)] == [1, 2, 2]
    assert record.cross[0].shape == (2, 2, 5, 4) and (record.cross[0][1, :, :, 3] == 0).all()
    labels = np.array([TARGETS[0] + [3, -100, -100], TARGETS[1] + [3]])
    np.testing.assert_allclose(model.loss(SOURCES, TARGETS).item(), F.cross_entropy(logits, labels).item(), rtol=1e-5)
    packed = nn.TokenBatch.pack([[4, 5], [6]])
    assert packed.is_packed and packed.ids.tolist() == [[4, 5, 6]] and model.encode(packed).shape == (1, 3, 8)
    with pytest.raises(heed.ShapeError, match="packed tokens are not recorded; give a padded batch"):
        model.encode(SOURCES, record)
    with pytest.raises(heed.ShapeError, match="one of source and target is packed"):
        model.decode(TARGETS, memory, source)


def test_gradients_of_a_language_model():
    model = nn.LanguageModel(**TINY, num_layers=2, num_kv_heads=1, max_positions=6, tie_embeddings=False)
    model.to("float64")
    check_gradients(lambda: model.loss([[1, 2, 3], [4, 5, 6, 7]]), model.parameters(), 2e-7)
    text = nn.TokenBatch.pad([[1, 2, 3], [4, 5, 6]], pad_id=0)
    logits = model.logits(text).numpy()
    np.testing.assert_allclose(F.linear(model.hidden(text), model.output_weight).numpy(), logits)
    model.eval()
    log_p = logits - np.log(np.exp(logits).sum(2, keepdims=True))
    np.testing.assert_allclose(model.log_probabilities([4, 5, 6]), [log_p[1, 0, 5], log_p[1, 1, 6]], rtol=1e-5)
    assert model.generate([4, 5, 6], max_tokens=1, temperature=0) == [logits[1, 2].argmax()]
    assert len(model.generate([1], max_tokens=9, seed=3)) == 9
    assert model.generate([1], max_tokens=9, seed=3) == model.generate(np.array([1]), max_tokens=9, seed=3)


def test_signatures_list_all_fields():
    for model, small in ((nn.Transformer, TINY | {"num_encoder_layers": 1, "num_decoder_layers": 1}),
                         (nn.LanguageModel, TINY | {"num_layers": 1})):
        signature = model.__init__.__doc__
        for name, value in model(**small).config.items():
            assert f"{name}: " in signature, name
            assert name in small or f"{name}: {type(value).__name__} = {value!r}" in signature, name


MODELS_REFUSE = {
    "translate in training": (lambda m, l: m.translate(SOURCES), "the model is in training; call eval\\(\\) first"),
    "generate in training": (lambda m, l: l.generate([1]), "the model is in training; call eval\\(\\) first"),
    "a beam": (lambda m, l: m.eval().translate(SOURCES, beam=0), "beam"),
    "a temperature": (lambda m, l: l.eval().generate([1], temperature=-1), "temperature"),
    "an empty prompt": (lambda m, l: l.eval().generate([]), "prompt is empty"),
    "an id": (lambda m, l: l.loss([[1, 99]]), "id 99 is not in 0..10"),
    "a wide id": (lambda m, l: l.loss([[1, 2 ** 40]]), "pass ids of the vocabulary"),
    "an empty text": (lambda m, l: l.loss([[]]), "text 0 is empty"),
    "sources without targets": (lambda m, l: m.loss([[1]], []), "1 sources and 0 targets"),
    "a long text": (lambda m, l: l.loss([list(range(9)) * 200]), "the model takes 1024"),
    "a memory": (lambda m, l: m.decode(TARGETS, numbers(1, 3, 7).astype(np.float32), SOURCES), "linear|attention"),
}


@pytest.mark.parametrize("name", MODELS_REFUSE)
def test_models_refuse(name):
    call, text = MODELS_REFUSE[name]
    model = nn.Transformer(**TINY, num_encoder_layers=1, num_decoder_layers=1)
    with pytest.raises(heed.ShapeError, match=text):
        call(model, nn.LanguageModel(**TINY, num_layers=1))


def test_ids_that_are_none():
    model = nn.LanguageModel(**TINY, num_layers=1)
    for wrong in (5, [5], ["ab"], [[1.5]], [None], None, "text"):
        with pytest.raises(TypeError):
            model.loss(wrong)
    assert model.loss([]).item() == 0


# ---- Training

def test_adamw_is_its_formula():
    layer = nn.Linear(3, 2)
    layer.to("float64")
    optimiser = nn.AdamW(layer, beta1=0.8, beta2=0.9, epsilon=1e-6, weight_decay=0.1)
    values = {name: p.numpy().copy() for name, p in layer.named_parameters()}
    m, v = ({name: np.zeros_like(x) for name, x in values.items()} for _ in range(2))
    for step in range(1, 4):
        optimiser.zero_grad()
        F.sum(layer(numbers(4, 3, seed=step)) * numbers(4, 2, seed=9)).backward()
        gradients = {name: p.grad for name, p in layer.named_parameters()}
        norm = np.sqrt(sum((g * g).sum() for g in gradients.values()))
        np.testing.assert_allclose(optimiser.gradient_norm(), norm)
        scale = nn.clip_scale(norm, 0.5)
        assert scale == 0.5 / norm and nn.clip_scale(0.4, 0.5) == nn.clip_scale(9, 0) == 1
        for name, x in values.items():
            g = gradients[name] * scale
            m[name], v[name] = 0.8 * m[name] + 0.2 * g, 0.9 * v[name] + 0.1 * g * g
            x -= 0.01 * (0.1 * x if x.ndim > 1 else 0)
            x -= 0.01 * m[name] / (1 - 0.8 ** step) / (np.sqrt(v[name] / (1 - 0.9 ** step)) + 1e-6)
        optimiser.step(0.01, scale)
        for name, p in layer.named_parameters():
            np.testing.assert_allclose(p.numpy(), values[name], rtol=1e-12)
    assert optimiser.steps == 3


def test_schedules():
    root = nn.LearningRate(peak=2.0, warmup=4)
    np.testing.assert_allclose([root.at(s) for s in (1, 4, 16)], [0.5, 2, 1])
    cosine = nn.LearningRate("cosine", 1.0, floor=0.2, warmup=0, total=10)
    np.testing.assert_allclose([cosine.at(5), cosine.at(10)], [0.6, 0.2])
    linear = nn.LearningRate("linear", 1.0, warmup=0)
    np.testing.assert_allclose([linear.at(1, 0.25), linear.at(9, 1.0)], [0.75, 0])
    np.testing.assert_allclose(nn.LearningRate("constant", 1.0, warmup=0, total=10, anneal=4).at(8), 0.5)


def test_an_optimiser_notices_that_parameters_moved():
    layer = nn.Linear(3, 2)
    first = nn.AdamW(layer)
    first.step(0.1)
    second = nn.AdamW(layer)
    second.step(0.1)
    with pytest.raises(heed.ShapeError, match="parameter 'weight' has moved since"):
        first.step(0.1)
    layer.to("float64")
    with pytest.raises(heed.ShapeError, match="make the optimiser anew"):
        second.step(0.1)


def trained(threads=None, updates=30, net=None, optimiser=None):
    """A net after some updates, with its optimiser and losses."""
    if threads:
        heed.set_num_threads(threads)
    if net is None:
        nn.manual_seed(3)
        net = Net()
        optimiser = nn.AdamW(net, weight_decay=0.01)
    rate, losses = nn.LearningRate("constant", 0.01, warmup=5), []
    for update in range(updates):
        optimiser.zero_grad()
        loss = net_loss(net, np.float32)
        loss.backward()
        optimiser.step(rate.at(update + 1), nn.clip_scale(optimiser.gradient_norm(), 1.0))
        losses.append(loss.item())
    return net, optimiser, losses


def test_training_gives_the_same_bits_for_any_number_of_threads(same_threads_after):  # noqa: F811
    nets = []
    for threads in (1, 2):
        net, _, losses = trained(threads)
        assert losses[-1] < 0.5 * losses[0]
        nets.append((net.state_dict(), losses))
    assert nets[0][1] == nets[1][1]
    for name, values in nets[0][0].items():
        np.testing.assert_array_equal(values, nets[1][0][name])


def test_a_model_of_some_size_has_the_same_bits_for_any_number_of_threads(same_threads_after):  # noqa: F811
    results = []
    for threads in (1, 2):
        heed.set_num_threads(threads)
        nn.manual_seed(1)
        model = nn.LanguageModel(vocab_size=300, d_model=64, nhead=4, num_layers=2, dim_feedforward=256,
                                 max_positions=256)
        optimiser = nn.AdamW(model)
        rng = np.random.default_rng(1)
        for _ in range(3):
            optimiser.zero_grad()
            model.loss(rng.integers(0, 300, (4, 200))).backward()
            optimiser.step(0.001)
        results.append(model.state_dict())
    for name, values in results[0].items():
        np.testing.assert_array_equal(values, results[1][name])


def test_training_goes_on_from_a_state():
    whole, _, losses = trained(updates=12)
    net, optimiser, _ = trained(updates=6)
    state = {name: np.copy(x) if name != "steps" else x for name, x in optimiser.state_dict().items()}
    assert state["steps"] == 6 and "m.gain" in state and "v.embedding.weight" in state
    other = Net()
    other.load_state_dict(net.state_dict())
    resumed = nn.AdamW(other, weight_decay=0.01)
    resumed.load_state_dict(state)
    assert resumed.steps == 6
    # Six draws of dropout were taken by the first six updates, and those of Net() in between.
    nn.manual_seed(9)
    trained(updates=3, net=net, optimiser=optimiser)
    nn.manual_seed(9)
    trained(updates=3, net=other, optimiser=resumed)
    for name, values in net.state_dict().items():
        np.testing.assert_array_equal(values, other.state_dict()[name])
    assert len(losses) == 12 and whole.parameter_count() == net.parameter_count()
    for change, kind, text in (({"steps": None}, heed.FormatError, "'steps' of the state is None; pass an int"),
                               ({"m.gain": numbers(2)}, heed.FormatError, "'m.gain' has shape \\(2\\)"),
                               ({"m.gone": numbers(2)}, heed.FormatError, "'m.gone'")):
        with pytest.raises(kind, match=text):
            resumed.load_state_dict(state | change)
    assert resumed.steps == 9
