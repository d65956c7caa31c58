#!/usr/bin/env python3
"""Compares heed embed, classify, fill and logits with the pipelines of transformers, and with sentence-transformers, on
tiny random models of every head:

    compare_reading.py HEED DIRECTORY [--seed N] [--each N]

Models are made in DIRECTORY, and compared.json lists their types. transformers 5 has no pipeline for answers: heed is
compared with the rule of version 4, computed here from the model's scores. The keys of sentence-transformers' files and
of preprocessor_config.json are changed one at a time: heed's result is equal, or heed refuses the values that SETTINGS
and PICTURES list as refused, and names the key.
"""
import argparse
import json
import pathlib
import random
import shutil
import subprocess

import numpy as np
import PIL.Image
import sentence_transformers
import tokenizers
import torch
import transformers
from sentence_transformers.base.modules import Dense, Normalize, Transformer
from sentence_transformers.sentence_transformer.modules import Pooling
from tokenizers import decoders, normalizers, pre_tokenizers, processors

WORDS = ("the a dog cat house tom mary paris london barks sleeps is was in on where who red green walks walking walked "
         "quickly never always she he they isn't o'clock 42 1999 café über naïve").split()
SIGNS = [".", "?", "!", ",", ";"]
TOLERANCE = 2e-4
LONGEST_ANSWER = 15
LONGEST = 200  # tokens
PROMPTS = {"query": "who walks: ", "passage": "paris", "empty": ""}
BASE = "sentence_transformers.base.modules."
KINDS = "sentence_transformers.sentence_transformer.modules."
TEXT = {"text": {"method": "forward", "method_output_name": "last_hidden_state"}}
# For each file of a model of sentence-transformers: values of its keys, and values that heed refuses. Each one by itself
# replaces a key of a model whose modules are a Transformer, a Pooling, a Dense and a Normalize. In modules.json, keys are
# those of the module with that number. Ellipsis: the key is left out.
SETTINGS = {
    "modules.json": {
        "0.idx": ([9, ...], []), "1.name": (["pooling"], []), "2.kwargs": ([[], ...], [["x"]]),
        "1.path": (["pooled"], []), "0.path": ([], ["0_Transformer"]),
        "0.type": (["sentence_transformers.models.Transformer", BASE + "transformer.Transformer"],
                   ["my.module.Transformer", KINDS + "static_embedding.StaticEmbedding", BASE + "router.Router", KINDS + "bow.BoW",
                    KINDS + "word_embeddings.WordEmbeddings"]),
        "1.type": (["sentence_transformers.models.Pooling"],
                   [KINDS + "layer_norm.LayerNorm", KINDS + "weighted_layer_pooling.WeightedLayerPooling", KINDS + "cnn.CNN",
                    KINDS + "lstm.LSTM", "pooling.Pooling"]),
        "2.type": (["sentence_transformers.models.Dense"],
                   [KINDS + "dropout.Dropout", "my.module.Dense", "sentence_transformersx.Dense"]),
        "3.type": (["sentence_transformers.models.Normalize"], [KINDS + "layer_norm.LayerNorm", "Normalize"])},
    "sentence_bert_config.json": {
        "max_seq_length": ([5, 40, None], []), "do_lower_case": ([True, False], []), "modality_config": ([TEXT, ...], []),
        "transformer_task": (["feature-extraction", ...], ["fill-mask"]), "module_output_name": (["token_embeddings"], []),
        "model_args": ([{}, {"trust_remote_code": True}], [{"dtype": "float16"}]),
        "model_kwargs": ([{}, {"trust_remote_code": True}], [{"dtype": "float16"}]),
        "tokenizer_args": ([{}], [{"model_max_length": 4}]), "processor_kwargs": ([{}], [{"model_max_length": 4}]),
        "config_args": ([{}], [{"num_hidden_layers": 1}]), "config_kwargs": ([{}], [{"num_hidden_layers": 1}]),
        "processing_kwargs": ([{}], [{"text": {"max_length": 4}}]),
        "query_expansion": ([None], [{"strategy": "fixed", "length": 32}]),
        "tokenizer_name_or_path": ([None], []), "unpad_inputs": ([False, None], []), "query_length": ([4, None], []),
        "document_length": ([4], []), "backend": (["torch"], [])},
    "1_Pooling/config.json": {
        "pooling_mode": (["cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken"], ["sum"]),
        "include_prompt": ([False, True, ...], []), "embedding_dimension": ([99], []), "word_embedding_dimension": ([99], []),
        **{f"pooling_mode_{name}": ([True], []) for name in
           ("cls_token", "max_tokens", "mean_tokens", "mean_sqrt_len_tokens", "weightedmean_tokens", "lasttoken")}},
    "2_Dense/config.json": {
        "activation_function": ([f"torch.nn.modules.{name}" for name in
                                 ("activation.ReLU", "activation.GELU", "activation.SiLU", "linear.Identity", "ReLU")] +
                                ["torch.nn.GELU", "my.module.ReLU", "my.module.Other", BASE + "dense.SiLU", "ReLU", ...],
                                ["torch.nn.modules.activation.Sigmoid", "torch.other.ReLU"]),
        "bias": ([...], []), "in_features": ([], []), "out_features": ([], []),
        "module_input_name": (["sentence_embedding", ...], []),
        "module_output_name": (["sentence_embedding", ...], ["other"]), "use_residual": ([False], [True])},
    "3_Normalize/config.json": {
        "module_input_name": (["sentence_embedding", ...], []), "module_output_name": (["sentence_embedding", ...], ["other"])},
    "config_sentence_transformers.json": {
        "prompts": ([{"query": "the dog "}, {}, {"query": None}], []),
        "default_prompt_name": (["passage", "empty", "document", None, ...], ["none"]),
        "truncate_dim": ([1, 3, 100, None], []), "model_type": (["SentenceTransformer", ...], []),
        "similarity_fn_name": (["dot", "cosine", "euclidean", "manhattan", None], []), "requirements": ([{}, None], []),
        "__version__": ([{"sentence_transformers": "2.0.0"}, ...], [])},
}
# Other values of the keys of preprocessor_config.json, and values that heed refuses.
PICTURES = {
    "image_processor_type": (["ViTImageProcessorPil", "DeiTImageProcessorPil"], ["CLIPImageProcessorPil"]),
    "feature_extractor_type": (["ViTFeatureExtractor", "DeiTFeatureExtractor"], ["CLIPFeatureExtractor"]),
    "do_resize": ([True], []), "default_to_square": ([True, False], []), "resample": ([0, 1, 2, 3, 4, 5, ...], []),
    "size": ([{"height": 20, "width": 15}, [14, 19], {"shortest_edge": 15}, 17, ...], [{"max_height": 19, "max_width": 19}]),
    "do_center_crop": ([False, ...], []), "crop_size": ([{"height": 8, "width": 15}, 7, [9, 8]], []),
    "do_rescale": ([False], []), "rescale_factor": ([0.1, ...], []), "do_normalize": ([False, ...], []),
    "image_mean": ([0.25, [0.1, 0.2, 0.3], ...], []), "image_std": ([0.25, [0.1, 0.2, 0.3], ...], []),
    "do_pad": ([False], [True]), "pad_size": ([{"height": 40, "width": 40}], []), "do_convert_rgb": ([True, False], []),
    "data_format": (["channels_first", ...], ["channels_last"]), "input_data_format": ([None], []), "device": (["cpu"], []),
    "return_tensors": ([None], []), "disable_grouping": ([True], []), "image_seq_length": ([5], []),
    "processor_class": (["X"], []),
}


def text_of(draw, least=1, most=12):
    words = [draw.choice(WORDS) for _ in range(draw.randint(least, most))]
    return " ".join(words) + draw.choice(SIGNS + [""])


def wordpiece(special):
    """BERT's tokenizer, of letters and of some of the words."""
    letters = sorted(set("".join(WORDS)) | set("".join(SIGNS)))
    pieces = special + letters + ["##" + c for c in letters] + [w for w in WORDS if w.isalpha()][:20] + ["##ing", "##ed"]
    unknown = "[UNK]"
    pieces = list(dict.fromkeys(pieces))
    t = tokenizers.Tokenizer(tokenizers.models.WordPiece({p: i for i, p in enumerate(pieces)}, unk_token=unknown))
    t.normalizer = normalizers.BertNormalizer(lowercase=True)
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    t.decoder = decoders.WordPiece()
    return t


def bert_tokenizer():
    t = wordpiece(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"])
    t.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    return transformers.PreTrainedTokenizerFast(tokenizer_object=t, unk_token="[UNK]", pad_token="[PAD]",
                                                cls_token="[CLS]", sep_token="[SEP]", mask_token="[MASK]")


def mpnet_tokenizer():
    t = wordpiece(["<s>", "<pad>", "</s>", "[UNK]", "<mask>"])
    t.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=False)
    return transformers.PreTrainedTokenizerFast(tokenizer_object=t, unk_token="[UNK]", pad_token="<pad>", cls_token="<s>",
                                                sep_token="</s>", mask_token="<mask>")


def roberta_tokenizer():
    t = tokenizers.ByteLevelBPETokenizer(add_prefix_space=False)
    t.train_from_iterator([" ".join(WORDS)] * 3, vocab_size=330, show_progress=False,
                          special_tokens=["<s>", "<pad>", "</s>", "<unk>"])
    t.add_special_tokens([tokenizers.AddedToken("<mask>", lstrip=True, special=True)])
    t._tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=False)
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=t._tokenizer, unk_token="<unk>", pad_token="<pad>", cls_token="<s>", sep_token="</s>",
        mask_token=tokenizers.AddedToken("<mask>", lstrip=True))


def llama_tokenizer():
    """Adds no special tokens: a text may end with a padding token, which has no state that classifies."""
    return transformers.PreTrainedTokenizerFast(tokenizer_object=wordpiece(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]),
                                                unk_token="[UNK]", pad_token="[PAD]", cls_token="[CLS]", sep_token="[SEP]")


TOKENIZERS = {"bert": bert_tokenizer, "distilbert": bert_tokenizer, "roberta": roberta_tokenizer,
              "xlm-roberta": roberta_tokenizer, "mpnet": mpnet_tokenizer}
MORE_TOKENIZERS = {"llama": llama_tokenizer, "mistral": bert_tokenizer, "bart": roberta_tokenizer, "t5": mpnet_tokenizer}


def config_of(draw, kind, tokenizer, **more):
    size, heads = len(tokenizer), draw.choice([1, 2, 4])
    if kind == "distilbert":
        return transformers.DistilBertConfig(vocab_size=size, dim=8 * heads, n_heads=heads, n_layers=2, hidden_dim=24,
                                             max_position_embeddings=LONGEST, **more)
    ends = dict(bos_token_id=0, eos_token_id=2, decoder_start_token_id=2)
    if kind == "bart":
        return transformers.BartConfig(
            vocab_size=size, d_model=8 * heads, encoder_layers=2, decoder_layers=2, encoder_attention_heads=heads,
            decoder_attention_heads=heads, encoder_ffn_dim=24, decoder_ffn_dim=20, max_position_embeddings=LONGEST,
            pad_token_id=1, **ends, **more)
    if kind == "t5":
        return transformers.T5Config(vocab_size=size, d_model=8 * heads, num_heads=heads, d_kv=6, d_ff=24, num_layers=2,
                                     feed_forward_proj=draw.choice(["relu", "gated-gelu"]), pad_token_id=1, **more)
    if kind in ("llama", "mistral"):
        window = {"sliding_window": draw.choice([None, 4])} if kind == "mistral" else {}
        of_kind = {"llama": transformers.LlamaConfig, "mistral": transformers.MistralConfig}
        return of_kind[kind](vocab_size=size, hidden_size=8 * heads, num_attention_heads=heads, num_key_value_heads=1,
                             num_hidden_layers=2, intermediate_size=24, pad_token_id=tokenizer.pad_token_id,
                             max_position_embeddings=LONGEST, bos_token_id=None, eos_token_id=None, **window, **more)
    sizes = dict(vocab_size=size, hidden_size=8 * heads, num_attention_heads=heads, num_hidden_layers=2,
                 intermediate_size=24, pad_token_id=tokenizer.pad_token_id,
                 max_position_embeddings=LONGEST + (0 if kind == "bert" else tokenizer.pad_token_id + 1))
    of_kind = {"bert": transformers.BertConfig, "roberta": transformers.RobertaConfig,
               "xlm-roberta": transformers.XLMRobertaConfig, "mpnet": transformers.MPNetConfig}
    if kind.endswith("roberta"):
        sizes["type_vocab_size"] = 1
    return of_kind[kind](**sizes, **more)


def made(draw, kind, head, directory, **more):
    """Saves a random model with its tokenizer, and returns both, as they load."""
    tokenizer = {**TOKENIZERS, **MORE_TOKENIZERS}[kind]()
    tokenizer.model_max_length = LONGEST
    config = config_of(draw, kind, tokenizer, **more)
    model = head(config) if head is transformers.T5EncoderModel else head.from_config(config)
    torch.manual_seed(draw.randrange(1 << 30))
    for p in model.parameters():
        p.data = torch.randn_like(p) * 0.4 + (1 if p.dim() == 1 and p.mean() > 0.5 else 0)
    model.tie_weights()
    model.eval().save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    if kind == "bert":  # save_pretrained() leaves the names of the inputs out
        settings = directory / "tokenizer_config.json"
        names = {"model_input_names": ["input_ids", "token_type_ids", "attention_mask"]}
        settings.write_text(json.dumps(json.loads(settings.read_text()) | names))
    return model, transformers.AutoTokenizer.from_pretrained(directory)


class Refused(Exception):
    """By heed, with its message."""


class Program:
    def __init__(self, path):
        self.path = path

    def __call__(self, *arguments, stdin=""):
        done = subprocess.run([self.path, *map(str, arguments)], input=stdin.encode(), capture_output=True)
        if done.returncode != 0:
            raise Refused(done.stderr.decode())
        return done.stdout.decode()

    def lines(self, *arguments, stdin):
        return [json.loads(line) for line in self(*arguments, "--json", stdin=stdin).splitlines()]


def near(a, b, what):
    assert abs(a - b) < TOLERANCE, f"{what}: {a} and {b}"


def same(got, want, what):
    assert got.shape == want.shape, f"{what}: {got.shape} and {want.shape}"
    difference = np.abs(got - want).max() / (np.abs(want).max() or 1)
    assert difference < TOLERANCE, f"{what}: {difference} of the largest value"


def classes_of_texts(heed, draw, kind, directory):
    labels = draw.choice([1, 2, 3, 5])
    problem = draw.choice([None, "multi_label_classification", "regression"]) if labels < 3 else None
    names = {i: f"class {chr(97 + i)}" for i in range(labels)}
    model, tokenizer = made(draw, kind, transformers.AutoModelForSequenceClassification, directory,
                            problem_type=problem, id2label=names)
    pipeline = transformers.pipeline("text-classification", model=model, tokenizer=tokenizer, top_k=None)
    pairs = [(text_of(draw), text_of(draw) if draw.random() < 0.5 else None) for _ in range(12)]
    pad = tokenizer.pad_token
    pairs += [(f"a dog {pad} {pad}", None), (f"{pad} the cat {pad} sleeps", None)] if kind != "bart" else []
    lines = "".join(a + ("\t" + b if b else "") + "\n" for a, b in pairs)
    for (a, b), got in zip(pairs, heed.lines("classify", "-m", directory, stdin=lines)):
        want = pipeline({"text": a, "text_pair": b} if b else [a])
        want = want if isinstance(want[0], dict) else want[0]
        assert [x["label"] for x in got["labels"]] == [x["label"] for x in want], (got, want)
        for x, y in zip(got["labels"], want):
            near(x["score"], y["score"], a)


def classes_of_tokens(heed, draw, kind, directory):
    names = dict(enumerate(["O", "B-PER", "I-PER", "B-LOC", "I-LOC", "MISC"]))
    model, tokenizer = made(draw, kind, transformers.AutoModelForTokenClassification, directory, id2label=names)
    texts = [text_of(draw) for _ in range(12)]
    pipelines = [transformers.pipeline("token-classification", model=model, tokenizer=tokenizer,
                                       aggregation_strategy=how, ignore_labels=ignored)
                 for how, ignored in (("none", []), ("simple", ["O"]))]
    for text, got in zip(texts, heed.lines("classify", "-m", directory, stdin="".join(t + "\n" for t in texts))):
        for part, pipeline, label in zip(("tokens", "words"), pipelines, ("entity", "entity_group")):
            want = pipeline(text)
            assert [(x["label"], x["begin"], x["end"]) for x in got[part]] == \
                [(x[label], x["start"], x["end"]) for x in want], (text, got[part], want)
            for x, y in zip(got[part], want):
                near(x["score"], y["score"], text)


def masked_words(heed, draw, kind, directory):
    made(draw, kind, transformers.AutoModelForMaskedLM, directory)
    compare_masked_words(heed, draw, directory)


def compare_masked_words(heed, draw, directory):
    tokenizer = transformers.AutoTokenizer.from_pretrained(directory)
    pipeline = transformers.pipeline("fill-mask", model=str(directory), tokenizer=tokenizer, top_k=5)
    texts = []
    for _ in range(12):
        words = text_of(draw, least=2).split()
        for place in draw.sample(range(len(words)), draw.choice([1, 1, 2]) if len(words) > 2 else 1):
            words[place] = tokenizer.mask_token
        texts.append(" ".join(words))
    for text, got in zip(texts, heed.lines("fill", "-m", directory, stdin="".join(t + "\n" for t in texts))):
        want = pipeline(text)
        want = [want] if isinstance(want[0], dict) else want
        assert [[x["id"] for x in mask] for mask in got["masks"]] == [[x["token"] for x in mask] for mask in want], text
        for x, y in zip(sum(got["masks"], []), sum(want, [])):
            near(x["probability"], y["score"], text)
        if len(want) == 1:
            assert [x["text"] for x in got["masks"][0]] == [x["sequence"] for x in want[0]], (got, want)


def windows_of(tokenizer, question, context, window):
    """As the pipeline for answers cut long contexts."""
    return tokenizer(question, context, truncation="only_second", max_length=window, stride=min(window // 2, 128),
                     return_overflowing_tokens=True, return_offsets_mapping=True)


def best_answer(model, tokenizer, question, context, window):
    """Score and characters of the words, as select_starts_ends and decode_spans of transformers 4 had them."""
    best = (-1.0, 0, 0)
    encoded = windows_of(tokenizer, question, context, window)
    for n in range(len(encoded["input_ids"])):
        inputs = {k: torch.tensor([encoded[k][n]]) for k in tokenizer.model_input_names}
        with torch.no_grad():
            out = model(**inputs)
        taken = np.array([s == 1 for s in encoded.sequence_ids(n)])
        with_first = taken.copy()
        with_first[0] = True
        p = []
        for scores in (out.start_logits, out.end_logits):
            x = np.where(with_first, scores[0].double().numpy(), -10000.0)
            x = np.exp(x - x.max())
            p.append(np.where(taken, x / x.sum(), 0))
        outer = np.tril(np.triu(np.outer(*p)), LONGEST_ANSWER - 1)
        first, last = np.unravel_index(outer.argmax(), outer.shape)
        if outer[first, last] > best[0]:
            offsets = encoded["offset_mapping"][n]
            words = [encoded.token_to_word(n, i) for i in (first, last)]
            begin = encoded.word_to_chars(n, words[0], 1).start if words[0] is not None else offsets[first][0]
            end = encoded.word_to_chars(n, words[1], 1).end if words[1] is not None else offsets[last][1]
            best = (float(outer[first, last]), begin, end)
    return best


def answers(heed, draw, kind, directory):
    model, tokenizer = made(draw, kind, transformers.AutoModelForQuestionAnswering, directory)
    pairs = [(text_of(draw, 1, 3), text_of(draw, 1, draw.choice([4, 60]))) for _ in range(12)]
    for (question, context), got in zip(pairs, heed.lines("classify", "-m", directory,
                                                          stdin="".join(q + "\t" + c + "\n" for q, c in pairs))):
        score, begin, end = best_answer(model, tokenizer, question, context, LONGEST)
        answer = got["answers"][0]
        assert abs(answer["score"] - score) < TOLERANCE * score, (context, answer, score)
        assert answer["text"] == context[answer["begin"]:answer["end"]], (context, answer)
        # Where signs stand within a word, a word is what the tokenizer's parts say.
        if not set("'.,;!?") & set(context[min(begin, answer["begin"]):max(end, answer["end"])]):
            assert answer["text"] == context[begin:end].strip(), (context, answer, context[begin:end])


def compare_vectors(heed, directory, texts, what, *prompt):
    """The vectors of a directory as sentence-transformers loads it. `prompt`: its name, if one is given."""
    lines, out = directory.parent / "texts", directory.parent / "v.npy"
    lines.write_text("".join(t + "\n" for t in texts))
    heed("embed", "-m", directory, lines, "-o", out, "-q", *(["--prompt", *prompt] if prompt else []))
    model = sentence_transformers.SentenceTransformer(str(directory), device="cpu")
    same(np.load(out), model.encode(texts, prompt_name=prompt[0] if prompt else None), what)
    return model


def compare_similarities(heed, model, directory, texts):
    """The nearest of all texts to each, by the model's similarity."""
    lines = directory.parent / "texts"
    want = model.similarity(model.encode(texts), model.encode(texts)).numpy()
    rows = [line.split("\t") for line in heed("embed", "-m", directory, lines, "--similarity", lines, "--top", 3).splitlines()]
    assert len(rows) == 3 * len(texts), len(rows)
    error = 1e-4 + TOLERANCE * np.abs(want).max()  # four digits are printed
    for number, (line, similarity, place, text) in enumerate(rows):
        row = want[int(line) - 1]
        assert int(line) == number // 3 + 1 and text == texts[int(place) - 1], (number, line, place, text)
        assert abs(float(similarity) - row[int(place) - 1]) < error, (model.similarity_fn_name, line, place, similarity)
        assert abs(float(similarity) - np.sort(row)[-1 - number % 3]) < error, (model.similarity_fn_name, line, place, similarity)


def change(file, keys):
    """Sets keys of a JSON file; Ellipsis leaves one out."""
    given = json.loads(file.read_text()) if file.exists() else {}
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps({k: v for k, v in {**given, **keys}.items() if v is not Ellipsis}))


def prompts_and_similarities(heed, draw, kind, directory):
    """Vectors and similarities by config_sentence_transformers.json, and by prompts that are not pooled."""
    made(draw, kind, transformers.AutoModel, directory / "plain")
    word = Transformer(str(directory / "plain"))
    whole, texts = directory / "whole", [text_of(draw, 1, 30) for _ in range(20)]
    parts = [word, Pooling(word.get_embedding_dimension(), pooling_mode=draw.choice(["mean", "max", "weightedmean"]))]
    sentence_transformers.SentenceTransformer(modules=parts, device="cpu", prompts=PROMPTS).save_pretrained(str(whole))
    settings, pooling = whole / "config_sentence_transformers.json", whole / "1_Pooling/config.json"
    plain = compare_vectors(heed, whole, texts, "without a prompt").encode(texts)
    for pooled in True, False:
        change(pooling, {"include_prompt": pooled})
        change(settings, {"default_prompt_name": ...})
        model = compare_vectors(heed, whole, texts, f"--prompt query, include_prompt {pooled}", "query")
        assert np.abs(model.encode(texts, prompt_name="query") - plain).max() > TOLERANCE, "the prompt changes nothing"
        change(settings, {"default_prompt_name": "passage"})
        compare_vectors(heed, whole, texts, f"default_prompt_name passage, include_prompt {pooled}")
    compare_vectors(heed, whole, texts, "the empty prompt instead of the default", "empty")
    for function in "cosine", "dot", "euclidean", "manhattan":
        change(settings, {"similarity_fn_name": function, "truncate_dim": 3 if function == "dot" else ...})
        model = compare_vectors(heed, whole, texts, f"similarity_fn_name {function}")
        compare_similarities(heed, model, whole, texts)


def vectors(heed, draw, kind, directory):
    made(draw, kind, transformers.AutoModel if kind != "t5" else transformers.T5EncoderModel, directory / "plain")
    word = Transformer(str(directory / "plain"), max_seq_length=draw.choice([None, 7, 40]))
    modes = draw.sample(["cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken"], 2)
    width = word.get_embedding_dimension()
    parts = [word, Pooling(width, pooling_mode=draw.choice([modes, modes[0]]))]
    if draw.random() < 0.5:
        parts.append(Dense(parts[1].pooling_output_dimension, 5, bias=draw.random() < 0.5,
                                   activation_function=draw.choice([torch.nn.Tanh(), torch.nn.Identity()])))
    if draw.random() < 0.5:
        parts.append(Normalize())
    truncated = draw.choice([None, 3])
    model = sentence_transformers.SentenceTransformer(modules=parts, device="cpu", truncate_dim=truncated)
    model.save_pretrained(str(directory / "whole"))
    for normalize in (directory / "whole").glob("*_Normalize"):  # which published models leave out
        shutil.rmtree(normalize)
    texts = [text_of(draw, 1, 30) for _ in range(20)]
    loaded = compare_vectors(heed, directory / "whole", texts, f"{modes}, truncate_dim {truncated}")
    same(loaded.encode(texts), model.encode(texts), "sentence-transformers' own model, loaded again")


def vectors_without_modules(heed, draw, kind, directory):
    """The last token's state of a class for causal language modelling, else the mean of all states."""
    head = {"mistral": transformers.AutoModelForCausalLM, "t5": transformers.T5EncoderModel}.get(kind, transformers.AutoModel)
    made(draw, kind, head, directory / "plain")
    model = compare_vectors(heed, directory / "plain", [text_of(draw, 1, 30) for _ in range(20)], "without modules.json")
    assert model[1].pooling_mode == ("lasttoken" if kind == "mistral" else "mean"), model[1].pooling_mode


def refused_for_its_head(heed, command, directory, why, stdin="a dog\n"):
    """The command refuses in one line, which says why there is no head."""
    try:
        heed(command, "-m", directory, stdin=stdin)
    except Refused as refusal:
        assert why in str(refusal) and str(refusal).count("\n") == 1, (command, str(refusal))
    else:
        raise AssertionError(f"heed {command} computes with a head that the file does not hold")


# Classes with heads, of which the file has the rest alone, with the command that needs the head.
ABSENT = {"bert": {"BertForMaskedLM": "fill", "BertForPreTraining": "fill", "BertForSequenceClassification": "classify",
                   "BertForTokenClassification": "classify", "BertForQuestionAnswering": "classify",
                   "BertForNextSentencePrediction": "classify"},
          "distilbert": {"DistilBertForMaskedLM": "fill", "DistilBertForSequenceClassification": "classify"},
          "roberta": {"RobertaForMaskedLM": "fill", "RobertaForTokenClassification": "classify"},
          "xlm-roberta": {"XLMRobertaForMaskedLM": "fill", "XLMRobertaForSequenceClassification": "classify"},
          "mpnet": {"MPNetForMaskedLM": "fill", "MPNetForQuestionAnswering": "classify"},
          "llama": {"LlamaForCausalLM": "generate", "LlamaForSequenceClassification": "classify"},
          "mistral": {"MistralForCausalLM": "generate"}, "t5": {"T5ForConditionalGeneration": "translate"},
          "bart": {"BartForConditionalGeneration": "translate", "BartForSequenceClassification": "classify"}}


def vectors_without_the_head(heed, draw, kind, directory):
    """config.json names a class with a head that the file lacks, as those of all-mpnet-base-v2 and all-distilroberta-v1."""
    head = transformers.T5EncoderModel if kind == "t5" else transformers.AutoModel
    made(draw, kind, head, directory / "plain", **({} if kind == "t5" else {"tie_word_embeddings": False}))
    texts = [text_of(draw, 1, 30) for _ in range(10)]
    for name, command in ABSENT[kind].items():
        change(directory / "plain/config.json", {"architectures": [name]})
        compare_vectors(heed, directory / "plain", texts, f"{name} without its head")
        refused_for_its_head(heed, command, directory / "plain", name)
        heed("attend", texts[0], "-m", directory / "plain", *(["--target", texts[1]] if kind == "bart" else [])) if kind != "t5" else None


def vectors_with_another_head(heed, draw, kind, directory):
    """The file holds heads that config.json does not name, as those of scibert_scivocab_uncased and of bart-base."""
    heads = {"llama": [transformers.AutoModelForCausalLM, transformers.AutoModelForSequenceClassification],
             "bart": [transformers.AutoModelForSeq2SeqLM, transformers.AutoModelForSequenceClassification]}
    texts = [text_of(draw, 1, 30) for _ in range(10)]
    for number, head in enumerate(heads.get(kind, [transformers.AutoModelForPreTraining, transformers.AutoModelForSequenceClassification,
                                                   transformers.AutoModelForQuestionAnswering])):
        plain = directory / f"plain{number}"
        model, tokenizer = made(draw, kind, head, plain)
        for classes in [], [type(transformers.AutoModel.from_config(model.config)).__name__]:
            change(plain / "config.json", {"architectures": classes or ...})
            compare_vectors(heed, plain, texts, f"{type(model).__name__}, named {classes}")
            if kind in heads:
                continue
            refused_for_its_head(heed, "classify", plain, "finds masked words" if number == 0 else "has no head")
            if number == 0:  # as transformers' pipeline, which takes the class of the task
                compare_masked_words(heed, draw, plain)


def poolings_in_a_row(heed, draw, kind, directory):
    """Several modes, whose vectors stand in the order of the list, some of them twice; flags have an order of their own."""
    made(draw, kind, transformers.AutoModel, directory / "plain")
    word = Transformer(str(directory / "plain"))
    whole, texts = directory / "whole", [text_of(draw, 1, 30) for _ in range(8)]
    sentence_transformers.SentenceTransformer(modules=[word, Pooling(word.get_embedding_dimension())], device="cpu") \
        .save_pretrained(str(whole))
    pooling, width = whole / "1_Pooling/config.json", word.get_embedding_dimension()
    modes = ["cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken"]
    for chosen in [["lasttoken", "cls"], ["max", "mean", "cls"], ["mean", "mean"], draw.sample(modes, 4)]:
        change(pooling, {"pooling_mode": chosen})
        compare_vectors(heed, whole, texts, f"pooling_mode {chosen}")
    for chosen in [["lasttoken", "cls_token"], ["weightedmean_tokens", "max_tokens", "mean_tokens"]]:
        pooling.write_text(json.dumps({"word_embedding_dimension": width, **{f"pooling_mode_{mode}": True for mode in chosen}}))
        compare_vectors(heed, whole, texts, f"flags {chosen}")


def texts_without_words(heed, draw, kind, directory):
    """Empty texts and texts of spaces, also after a prompt that is not pooled: no token may be left. sentence-transformers
    has a maximum of -inf then, which is no number that same() takes."""
    made(draw, kind, transformers.AutoModel, directory / "plain")
    word = Transformer(str(directory / "plain"), max_seq_length=12)
    whole, texts = directory / "whole", ["", " ", "  \t ", "a dog", text_of(draw, 3, 30), ""]
    ends = kind not in MORE_TOKENIZERS  # the tokenizer adds tokens of its own
    prompts = {"query": "who walks: ", "long": " ".join(["the cat sleeps in paris"] * 5), "word": "dog", **({"space": " "} if ends else {})}
    sentence_transformers.SentenceTransformer(modules=[word, Pooling(word.get_embedding_dimension()), Normalize()], device="cpu",
                                              prompts=prompts).save_pretrained(str(whole))
    for mode in "cls", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken", "max":
        for pooled in True, False:
            change(whole / "1_Pooling/config.json", {"pooling_mode": mode, "include_prompt": pooled})
            for name in (*prompts, *([None] if ends else [])):
                what = f"{mode}, include_prompt {pooled}, prompt {name}"
                given = [name] if name else []
                nothing = not ends and not pooled  # no token is pooled
                try:
                    compare_vectors(heed, whole, texts, what, *given)
                except Refused as refusal:
                    assert nothing and mode in ("max", "cls") and "leave out texts" in str(refusal), f"{what}: {refusal}"
                    if name != "long":  # which leaves no room for other tokens
                        compare_vectors(heed, whole, texts[3:5], what + ", texts with words", *given)


def prompts_with_an_unnamed_end(heed, draw, kind, directory):
    """The token that ends a prompt is pooled, unless the tokenizer's files name it as a special one."""
    made(draw, kind, transformers.AutoModel, directory / "plain")
    settings = directory / "plain/tokenizer_config.json"
    given = json.loads(settings.read_text())
    for key in "sep_token", "eos_token":
        given.pop(key, None)
    for listed in False, True:
        settings.write_text(json.dumps({**given, **({"extra_special_tokens": ["[SEP]"]} if listed else {})}))
        word = Transformer(str(directory / "plain"))
        whole = directory / f"whole {listed}"
        sentence_transformers.SentenceTransformer(modules=[word, Pooling(word.get_embedding_dimension(), include_prompt=False)],
                                                  device="cpu", prompts=PROMPTS).save_pretrained(str(whole))
        assert (3 in word.tokenizer.all_special_ids) == listed, word.tokenizer.all_special_ids
        compare_vectors(heed, whole, ["", "a dog", text_of(draw, 1, 30)], f"[SEP] listed: {listed}", "query")


def each_value(values, refused):
    return [(value, False) for value in values] + [(value, True) for value in refused]


def outcome(what, key, compare, is_refused):
    """Fails unless heed's result is equal, or heed refuses the key where it should."""
    try:
        compare()
    except Refused as refusal:
        assert is_refused, f"{what}: heed refuses what it should compute: {refusal}"
        assert key in str(refusal), f"{what}: the refusal does not name the key: {refusal}"
    else:
        assert not is_refused, f"{what}: heed takes it; move it to the values that are computed"


def settings_of_sentences(heed, draw, kind, directory):
    """Each value of SETTINGS, by itself."""
    made(draw, kind, transformers.AutoModel, directory / "plain")
    word = Transformer(str(directory / "plain"), max_seq_length=20)
    width = word.get_embedding_dimension()
    parts = [word, Pooling(width), Dense(width, 5), Normalize()]
    first = directory / "first"
    sentence_transformers.SentenceTransformer(modules=parts, device="cpu", prompts=PROMPTS, default_prompt_name="query") \
        .save_pretrained(str(first))
    texts, whole = [text_of(draw, 1, 30) for _ in range(8)], directory / "whole"
    compare_vectors(heed, first, texts, "as it is")
    for file, keys in SETTINGS.items():
        for place, (values, refused) in keys.items():
            for value, is_refused in each_value(values, refused):
                shutil.rmtree(whole, ignore_errors=True)
                shutil.copytree(first, whole)
                key = place.split(".")[-1]
                if file == "modules.json":
                    number = int(place.split(".")[0])
                    modules = json.loads((whole / file).read_text())
                    if key == "path":
                        (whole / value).mkdir()
                        for part in (whole / modules[number]["path"]).iterdir() if modules[number]["path"] else []:
                            part.rename(whole / value / part.name)
                    modules[number] = {k: v for k, v in {**modules[number], key: value}.items() if v is not Ellipsis}
                    (whole / file).write_text(json.dumps(modules))
                else:
                    # Keys that go together: older files have other names, or neither.
                    more = {"pooling_mode": ...} if key.startswith("pooling_mode_") else \
                        {"module_output_name": ...} if key == "modality_config" and value is ... else \
                        {"embedding_dimension": ...} if key == "word_embedding_dimension" else {}
                    change(whole / file, {**more, key: value})
                what = f"{file}, {place} {value!r}"
                outcome(what, key, lambda: compare_vectors(heed, whole, texts, what), is_refused)


def settings_of_pictures(heed, draw, kind, directory):
    """Each value of PICTURES, by itself, on pictures of two shapes. The model has the size of what it is given."""
    draw = np.random.default_rng(draw.randrange(1 << 30))
    pictures = [draw.integers(0, 256, shape, dtype=np.uint8) for shape in ((21, 34, 3), (40, 19, 3))]
    first = {"image_processor_type": "ViTImageProcessor", "do_resize": True, "size": {"height": 18, "width": 16},
             "do_rescale": True, "rescale_factor": 1 / 255, "do_normalize": True, "image_mean": [0.4, 0.5, 0.6], "image_std": [0.2, 0.3, 0.4],
             "resample": 2, "do_center_crop": True, "crop_size": {"height": 12, "width": 14}}

    def compare(settings, what):
        deit = "DeiT" in settings.get("image_processor_type", settings.get("feature_extractor_type"))
        kind = transformers.DeiTImageProcessorPil if deit else transformers.ViTImageProcessorPil
        for number, picture in enumerate(pictures):
            whole = directory / "whole"
            shutil.rmtree(whole, ignore_errors=True)
            whole.mkdir()
            (whole / "preprocessor_config.json").write_text(json.dumps(settings))
            try:
                pixels = kind.from_pretrained(whole)(PIL.Image.fromarray(picture), return_tensors="pt").pixel_values
            except ValueError:
                pixels = torch.zeros(1, 3, 12, 16)  # heed has to refuse
            if pixels.shape[1] != 3:
                pixels = pixels.permute(0, 3, 1, 2)
            torch.manual_seed(number)
            model = transformers.ViTForImageClassification(transformers.ViTConfig(
                hidden_size=8, num_hidden_layers=1, num_attention_heads=1, intermediate_size=8, num_labels=5, patch_size=1,
                image_size=list(pixels.shape[2:]), initializer_range=0.5))
            model.eval().save_pretrained(whole)
            np.save(directory / "picture.npy", picture)
            heed("logits", directory / "picture.npy", "-m", whole, "--out", directory / "l.npy", "-q")
            with torch.no_grad():
                same(np.load(directory / "l.npy").reshape(1, -1), model(pixels).logits.numpy(), f"{what}, picture {number}")

    compare(first, "as it is")
    for key, (values, refused) in PICTURES.items():
        for value, is_refused in each_value(values, refused):
            more = {"image_processor_type": ...} if key == "feature_extractor_type" else {}  # the older name
            settings = {k: v for k, v in {**first, **more, key: value}.items() if v is not Ellipsis}
            outcome(f"preprocessor_config.json, {key} {value!r}", key, lambda: compare(settings, f"{key} {value!r}"), is_refused)


def pictures_of_every_form(heed, draw, kind, directory):
    """PNG files of each of Pillow's modes and of each orientation, as transformers' load_image reads them."""
    draw = np.random.default_rng(draw.randrange(1 << 30))
    torch.manual_seed(0)
    model = transformers.ViTForImageClassification(transformers.ViTConfig(
        hidden_size=8, num_hidden_layers=1, num_attention_heads=1, intermediate_size=8, num_labels=5, patch_size=4,
        image_size=[12, 16], initializer_range=0.5)).eval()
    model.save_pretrained(directory)
    processor = transformers.ViTImageProcessorPil(size={"height": 12, "width": 16}, image_mean=[0.4, 0.5, 0.6])
    processor.save_pretrained(directory)
    path = directory / "picture.png"
    colors = PIL.Image.fromarray(draw.integers(0, 256, (9, 14, 3), dtype=np.uint8))
    opacity = PIL.Image.fromarray(draw.integers(0, 256, (9, 14), dtype=np.uint8))
    clear = colors.copy()
    clear.putalpha(opacity)
    forms = [*((clear.convert(mode), {}) for mode in ("1", "L", "LA", "P", "RGB", "RGBA")),
             *((clear.convert(mode), {"transparency": key}) for mode, key in (("L", 7), ("P", 7), ("RGB", (1, 2, 3))))]
    for number, (picture, more) in enumerate(forms):
        for orientation in [None, *range(1, 9)] if number == 0 else [draw.integers(1, 9)]:
            exif = PIL.Image.Exif()
            if orientation:
                exif[0x112] = int(orientation)
            picture.save(path, exif=exif, **more)
            pixels = processor(transformers.image_utils.load_image(str(path)), return_tensors="pt").pixel_values
            heed("logits", path, "-m", directory, "--out", directory / "l.npy", "-q")
            with torch.no_grad():
                same(np.load(directory / "l.npy").reshape(1, -1), model(pixels).logits.numpy(),
                     f"{picture.mode} {more}, orientation {orientation}")


def logits(heed, draw, kind, directory):
    model, tokenizer = made(draw, kind, transformers.AutoModelForMaskedLM, directory)
    model.set_attn_implementation("eager")
    text = text_of(draw, 3)
    heed("logits", text, "-m", directory, "--out", directory / "l.npy", "--hidden", directory / "h.npy", "--weights",
         directory / "w.npz", "-q")
    with torch.no_grad():
        out = model(**tokenizer(text, return_tensors="pt"), output_hidden_states=True, output_attentions=True)
    pairs = [(np.load(directory / "l.npy"), out.logits[0]),
             (np.load(directory / "h.npy"), torch.stack(out.hidden_states)[:, 0])]
    weights = np.load(directory / "w.npz")
    assert sorted(weights) == [f"encoder_{n}" for n in range(len(out.attentions))], sorted(weights)
    pairs += [(weights[f"encoder_{n}"], layer[0]) for n, layer in enumerate(out.attentions)]
    for got, want in pairs:
        assert got.shape == tuple(want.shape) and np.abs(got - want.numpy()).max() < TOLERANCE * want.abs().max().item()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("heed")
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--each", type=int, default=2, help="models of each kind and head")
    a = parser.parse_args()
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    heed, compared = Program(a.heed), 0
    read = {classes_of_texts: [*TOKENIZERS, "llama", "bart"], classes_of_tokens: TOKENIZERS, masked_words: TOKENIZERS,
            answers: TOKENIZERS, vectors: [*TOKENIZERS, "llama", "t5", "bart"], logits: TOKENIZERS,
            vectors_without_modules: ["bert", "llama", "mistral", "t5", "bart"], vectors_without_the_head: ABSENT,
            vectors_with_another_head: [*TOKENIZERS, "llama", "bart"], prompts_and_similarities: ["bert", "roberta", "llama"],
            settings_of_sentences: ["bert"], settings_of_pictures: ["vit"], pictures_of_every_form: ["vit"],
            poolings_in_a_row: ["bert"], texts_without_words: ["bert", "roberta", "llama"], prompts_with_an_unnamed_end: ["mistral"]}
    once = (prompts_and_similarities, settings_of_sentences, settings_of_pictures, pictures_of_every_form, poolings_in_a_row,
            texts_without_words, prompts_with_an_unnamed_end)
    for compare, kinds in read.items():
        for kind in kinds:
            for number in range(1 if compare in once else a.each):
                directory = a.directory / f"{compare.__name__}-{kind}-{number}"
                directory.mkdir(parents=True)
                compare(heed, random.Random(f"{a.seed} {compare.__name__} {kind} {number}"), kind, directory)
                compared += 1
    (a.directory / "compared.json").write_text(json.dumps(list(TOKENIZERS)))
    print(f"{compared} models read as transformers and sentence-transformers do")


if __name__ == "__main__":
    main()
