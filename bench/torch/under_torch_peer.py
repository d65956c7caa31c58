"""heed and torch in one environment, in one way each process: torch's own calls, under heed.torch.patch(), heed's.

    under_torch_peer.py WAY

A request's `kind` is "attention" (as bench/peers/torch_peer.py has it, through scaled_dot_product_attention alone),
"call" (one on tiny tensors) or "model" (a step of a model of transformers with random weights).
"""
import contextlib
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "peers"))
import heed  # noqa: E402
import heed.torch  # noqa: E402
import peer  # noqa: E402
import protocol  # noqa: E402
import torch  # noqa: E402
import torch_peer  # noqa: E402

WAY = sys.argv[1]


def attention(request):
    r = peer.parse(request)
    if WAY not in ("torch", "patched"):
        raise protocol.Unsupported("only torch's own calls have a C++ benchmark beside them")
    return protocol.fastest(peer.checked(r, peer.make_inputs(r), torch_peer.variants))


def call(request):
    """Without a gradient, for which nobody asked."""
    x = torch.randn(request["shape"])
    array = x.numpy()
    sdpa, attend = torch.nn.functional.scaled_dot_product_attention, heed.attention
    calls = {"torch": lambda: sdpa(x, x, x), "patched": lambda: sdpa(x, x, x), "heed": lambda: attend(x, x, x),
             "heed, NumPy": lambda: attend(array, array, array)}
    if WAY not in calls:
        raise protocol.Unsupported("no call")
    return WAY, calls[WAY], None


def model(request):
    import transformers
    sizes = {"gpt2": dict(n_embd=512, n_layer=4, n_head=8, vocab_size=8000, n_positions=1024,
                          resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0),
             "llama": dict(hidden_size=512, num_hidden_layers=4, num_attention_heads=8, num_key_value_heads=2,
                           intermediate_size=1536, vocab_size=8000, max_position_embeddings=1024)}
    implementation = {"torch": "sdpa", "patched": "sdpa", "heed": "heed", "eager": "eager"}.get(WAY)
    if implementation is None or (request["maps"] and implementation == "sdpa"):
        raise protocol.Unsupported("gives no maps" if implementation else "no arrays of NumPy's")
    if implementation == "heed":
        import heed.transformers  # noqa: F401  its name
    torch.manual_seed(1)
    family = request["family"]
    kind, config = {"gpt2": (transformers.GPT2LMHeadModel, transformers.GPT2Config),
                    "llama": (transformers.LlamaForCausalLM, transformers.LlamaConfig)}[family]
    net = kind(config(**sizes[family], use_cache=False))
    net.set_attn_implementation(implementation)
    net.train(request["training"])
    tokens = torch.randint(0, 8000, (1, request["tokens"]))

    def step():
        net.zero_grad()
        net(tokens, labels=tokens).loss.backward()

    def forward():
        with torch.no_grad():
            net(tokens, output_attentions=request["maps"])
    return WAY, step if request["training"] else forward, None


def choose(request):
    kind = request.pop("kind")
    threads = 1 if kind == "call" else request["threads"]  # pools that wake have another price
    torch.set_num_threads(threads)
    heed.set_num_threads(threads)
    chosen = {"attention": attention, "call": call, "model": model}[kind](request)
    chosen[1]()
    return chosen


with heed.torch.patch() if WAY == "patched" else contextlib.nullcontext():
    sys.exit(protocol.serve(WAY, torch.__version__, choose))
