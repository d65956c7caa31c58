"""import heed.transformers: models of Hugging Face's with heed's attention beside their own eager one."""
import heed
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
import heed.transformers  # noqa: E402
import models  # noqa: E402


@pytest.fixture(autouse=True)
def one_thread():
    """Tiny models: two pools of threads, torch's and heed's, would wait for each other longer than they compute."""
    before = torch.get_num_threads(), heed.get_num_threads()
    torch.set_num_threads(1)
    heed.set_num_threads(1)
    yield
    torch.set_num_threads(before[0])
    heed.set_num_threads(before[1])


def both(name):
    eager, ours = models.model(name), models.model(name)
    eager.set_attn_implementation("eager")
    ours.set_attn_implementation("heed")
    return eager, ours


def maps_of(output):
    return [x for key in ("attentions", "encoder_attentions", "decoder_attentions", "cross_attentions")
            for x in output.get(key) or ()]


@pytest.mark.parametrize("padded", [False, True], ids=["whole", "padded"])
@pytest.mark.parametrize("name", models.CLASSES)
def test_logits_and_weights(name, padded):
    eager, ours = both(name)
    arguments, counts = models.inputs(name, padded)
    with torch.no_grad():
        theirs, plain = eager(**arguments, output_attentions=True), ours(**arguments)
        output = ours(**arguments, output_attentions=True)
    assert not maps_of(plain) or maps_of(plain)[0] is None
    torch.testing.assert_close(output.logits[counts], theirs.logits[counts], rtol=0, atol=2e-5)
    torch.testing.assert_close(plain.logits[counts], theirs.logits[counts], rtol=0, atol=2e-5)
    expected = maps_of(theirs)
    assert len(maps_of(output)) == len(expected) == (6 if name in ("t5", "marian") else 2)
    uneven = 0
    for a, b in zip(expected, maps_of(output)):
        assert a.shape == b.shape and a.dtype == b.dtype
        rows = counts if isinstance(counts, torch.Tensor) else slice(None)
        a, b = (x.transpose(1, 2)[rows] for x in (a, b))  # (B, L, H, S): rows of padding see what they like
        torch.testing.assert_close(b, a, rtol=0, atol=1e-6)
        uneven = max(uneven, float(a.std()))
    assert uneven > 0.05  # else any order of heads would do


@pytest.mark.parametrize("name", models.CLASSES)
def test_gradients_of_a_training_step(name):
    arguments, counts = models.inputs(name, padded=True)
    labels = torch.tensor([1, 0]) if name == "vit" else arguments.pop("decoder_input_ids", arguments["input_ids"])
    if isinstance(counts, torch.Tensor):
        labels = labels.masked_fill(~counts, -100)
        labels[1, 4] = -100  # what a place of padding would foretell
    gradients = []
    for model in both(name):
        model.train()
        no_dropout(model)
        model(**arguments, labels=labels).loss.backward()
        gradients.append({key: p.grad for key, p in model.named_parameters() if p.grad is not None})
    theirs, ours = gradients
    assert theirs.keys() == ours.keys() and len(theirs) > 10
    for key, gradient in theirs.items():
        close = 1e-4 * float(gradient.abs().max()) + 1e-7
        torch.testing.assert_close(ours[key], gradient, rtol=0, atol=close, msg=lambda text: f"{key}: {text}")


def no_dropout(model):
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
        for key in ("dropout", "attention_dropout", "activation_dropout"):
            if isinstance(getattr(module, key, None), float):
                setattr(module, key, 0.0)


@pytest.mark.parametrize("padded", [False, True], ids=["whole", "padded"])
@pytest.mark.parametrize("name", models.WRITE)
def test_generation_with_a_cache(name, padded):
    eager, ours = both(name)
    arguments, _ = models.inputs(name, padded)
    arguments.pop("decoder_input_ids", None)
    options = {"max_new_tokens": 12, "min_new_tokens": 12, "do_sample": True, "top_k": 5}
    more = {"output_attentions": True, "output_logits": True, "return_dict_in_generate": True}

    def generate(model, **options):
        torch.manual_seed(3)
        return model.generate(**arguments, **options)
    theirs, found = generate(eager, **options, **more), generate(ours, **options, **more)
    assert torch.equal(theirs.sequences, found.sequences) and torch.equal(generate(ours, **options), found.sequences)
    assert len(set(theirs.sequences[0, -12:].tolist())) > 2  # not one token over and over
    torch.testing.assert_close(torch.stack(found.logits), torch.stack(theirs.logits), rtol=0, atol=5e-5)
    key = "decoder_attentions" if name in ("t5", "marian") else "attentions"
    for a, b in zip(theirs[key], found[key]):  # a step each
        for x, y in zip(a, b):
            torch.testing.assert_close(y[:1], x[:1], rtol=0, atol=1e-6)


def test_a_static_cache():
    eager, ours = both("llama")
    arguments, _ = models.inputs("llama", padded=True)
    theirs, found = (model.generate(**arguments, max_new_tokens=8, do_sample=False, cache_implementation="static",
                                    disable_compile=True) for model in (eager, ours))
    assert torch.equal(theirs, found)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_halves(dtype):
    eager, ours = both("llama")
    arguments, _ = models.inputs("llama")
    with torch.no_grad():
        exact = eager(**arguments).logits
        output = ours.to(dtype)(**arguments, output_attentions=True)
    assert output.attentions[0].dtype == dtype
    torch.testing.assert_close(output.logits.float(), exact, rtol=0.1, atol=0.3)


def test_dropout_follows_torchs_generator():
    _, ours = both("bert")
    arguments, _ = models.inputs("bert")
    ours.train()
    runs = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        runs.append(ours(**arguments).logits)
    assert torch.equal(runs[0], runs[1]) and not torch.equal(runs[0], runs[2])


def test_recording():
    _, ours = both("llama")
    arguments, _ = models.inputs("llama")
    options = {"max_new_tokens": 4, "min_new_tokens": 4, "do_sample": False}
    expected = ours.generate(**arguments, **options, output_attentions=True, return_dict_in_generate=True)
    with heed.transformers.record(ours) as maps, heed.transformers.record(ours) as again:
        assert torch.equal(ours.generate(**arguments, **options), expected.sequences)
    assert [m.module for m in maps[:3]] == ["model.layers.0.self_attn", "model.layers.1.self_attn",
                                            "model.layers.0.self_attn"]
    assert len(maps) == len(again) == 8
    assert maps[0].weights.shape == (2, 4, 12, 12) and maps[7].weights.shape == (2, 4, 1, 15)
    for kept, x in zip(maps, [x for step in expected.attentions for x in step], strict=True):
        assert torch.equal(kept.weights, x) and not kept.weights.requires_grad
    ours.generate(**arguments, **options)
    assert len(maps) == 8  # nothing after the block
    with pytest.raises(ValueError, match="is 'sdpa'; call model.set_attn_implementation"):
        with heed.transformers.record(models.model("llama")):
            pass


def test_recording_a_part():
    _, ours = both("llama")
    arguments, _ = models.inputs("llama")
    with heed.transformers.record(ours, heed.Select(heads=[1], rows=[-1])) as part, \
            heed.transformers.record(ours, heed.Select(top_p=0.5)) as largest, heed.transformers.record(ours) as maps:
        ours(**arguments)
    for some, most, whole in zip(part, largest, maps, strict=True):
        assert torch.equal(some.weights, whole.weights[:, 1:2, -1:])
        first = most.weights.offsets[:-1]
        torch.testing.assert_close(most.weights.weights[first], whole.weights.flatten(0, 2).amax(-1))


def test_what_is_refused():
    _, ours = both("llama")
    with pytest.raises(ValueError, match="paged cache .*set_attn_implementation"):
        x = torch.zeros(1, 4, 3, 8)
        heed.transformers.attention_forward(ours, x, x, x, None, cache=object())
    weights = ours(**models.inputs("llama")[0], output_attentions=True).attentions[0]
    with pytest.raises(RuntimeError, match="weights and scores have no gradient"):
        weights.sum().backward()


@pytest.mark.parametrize("name", ["gpt2", "gemma2"])
def test_compiled_into_one_graph(name):
    _, ours = both(name)
    arguments, _ = models.inputs(name, padded=True)
    torch._dynamo.reset()
    results = []
    for run in (ours, torch.compile(ours, fullgraph=True, backend="aot_eager")):
        output = run(**arguments, output_attentions=True)
        loss = output.logits.square().mean()
        results.append((output.logits, *output.attentions, *torch.autograd.grad(loss, list(ours.parameters()))))
    torch.testing.assert_close(*results, rtol=1e-4, atol=1e-6)


def test_checkpointing_records_each_call_once():
    model = models.model("llama")
    model.set_attn_implementation("heed")
    model.train()
    arguments, _ = models.inputs("llama", False)
    counts, losses = [], []
    for reentrant in (None, False, True):
        if reentrant is not None:
            model.gradient_checkpointing_enable({"use_reentrant": reentrant})
        with heed.transformers.record(model) as maps:
            loss = model(**arguments, labels=arguments["input_ids"], use_cache=False).loss
            loss.backward()
        counts.append(len(maps))
        losses.append(float(loss))
    assert counts == [2, 2, 2] and max(losses) - min(losses) < 1e-6


def test_left_padding_hidden_by_large_numbers():
    """A loss over real tokens: the gradients are those of eager attention."""
    arguments, _ = models.inputs("llama", False)
    tokens = arguments["input_ids"]
    length = tokens.shape[1]
    for hidden in (-1e9, -1e20, torch.finfo(torch.float32).min):
        mask = torch.full((length, length), hidden).triu(1)
        mask[:, :3] = hidden  # 3 tokens of padding, whose rows see nothing
        results = []
        for model in both("llama"):
            model.train()
            no_dropout(model)
            logits = model(input_ids=tokens, attention_mask=mask.expand(len(tokens), 1, -1, -1)).logits
            logits[:, 3:].square().mean().backward()
            results.append({key: p.grad for key, p in model.named_parameters() if p.grad is not None})
        for key, gradient in results[0].items():
            close = 1e-4 * float(gradient.abs().max()) + 1e-7
            torch.testing.assert_close(results[1][key], gradient, rtol=0, atol=close, msg=lambda text: f"{key}: {text}")
