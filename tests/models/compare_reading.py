#!/usr/bin/env python3
"""Compares heed embed, classify, fill and logits with the pipelines of transformers, and with sentence-transformers, on
tiny random models of every head:

    compare_reading.py HEED DIRECTORY [--seed N] [--each N]

Models are made in DIRECTORY, and compared.json lists their types. transformers has no pipeline for answers any more: compared is what that of its version 4
did, computed here from the model's scores.
"""
import argparse
import json
import pathlib
import random
import shutil
import subprocess

import numpy as np
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


TOKENIZERS = {"bert": bert_tokenizer, "distilbert": bert_tokenizer, "roberta": roberta_tokenizer,
              "xlm-roberta": roberta_tokenizer, "mpnet": mpnet_tokenizer}


def config_of(draw, kind, tokenizer, **more):
    size, heads = len(tokenizer), draw.choice([1, 2, 4])
    if kind == "distilbert":
        return transformers.DistilBertConfig(vocab_size=size, dim=8 * heads, n_heads=heads, n_layers=2, hidden_dim=24,
                                             max_position_embeddings=LONGEST, **more)
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
    tokenizer = TOKENIZERS[kind]()
    tokenizer.model_max_length = LONGEST
    model = head.from_config(config_of(draw, kind, tokenizer, **more))
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


class Program:
    def __init__(self, path):
        self.path = path

    def __call__(self, *arguments, stdin=""):
        done = subprocess.run([self.path, *map(str, arguments)], input=stdin.encode(), capture_output=True)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode()

    def lines(self, *arguments, stdin):
        return [json.loads(line) for line in self(*arguments, "--json", stdin=stdin).splitlines()]


def near(a, b, what):
    assert abs(a - b) < TOLERANCE, f"{what}: {a} and {b}"


def classes_of_texts(heed, draw, kind, directory):
    labels = draw.choice([1, 2, 3, 5])
    problem = draw.choice([None, "multi_label_classification", "regression"]) if labels < 3 else None
    names = {i: f"class {chr(97 + i)}" for i in range(labels)}
    model, tokenizer = made(draw, kind, transformers.AutoModelForSequenceClassification, directory,
                            problem_type=problem, id2label=names)
    pipeline = transformers.pipeline("text-classification", model=model, tokenizer=tokenizer, top_k=None)
    pairs = [(text_of(draw), text_of(draw) if draw.random() < 0.5 else None) for _ in range(12)]
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
    model, tokenizer = made(draw, kind, transformers.AutoModelForMaskedLM, directory)
    pipeline = transformers.pipeline("fill-mask", model=model, tokenizer=tokenizer, top_k=5)
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


def vectors(heed, draw, kind, directory):
    made(draw, kind, transformers.AutoModel, directory / "plain")
    word = Transformer(str(directory / "plain"), max_seq_length=draw.choice([None, 7, 40]))
    modes = draw.sample(["cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken"], 2)
    width = word.get_embedding_dimension()
    parts = [word, Pooling(width, pooling_mode=draw.choice([modes, modes[0]]))]
    if draw.random() < 0.5:
        parts.append(Dense(parts[1].pooling_output_dimension, 5, bias=draw.random() < 0.5,
                                   activation_function=draw.choice([torch.nn.Tanh(), torch.nn.Identity()])))
    if draw.random() < 0.5:
        parts.append(Normalize())
    model = sentence_transformers.SentenceTransformer(modules=parts, device="cpu")
    model.save_pretrained(str(directory / "whole"))
    for normalize in (directory / "whole").glob("*_Normalize"):  # which published models leave out
        shutil.rmtree(normalize)
    texts = [text_of(draw, 1, 30) for _ in range(20)]
    (directory / "texts").write_text("".join(t + "\n" for t in texts))
    heed("embed", "-m", directory / "whole", directory / "texts", "-o", directory / "v.npy", "-q")
    got, want = np.load(directory / "v.npy"), model.encode(texts)
    assert got.shape == want.shape, (got.shape, want.shape)
    difference = np.abs(got - want).max() / np.abs(want).max()
    assert difference < TOLERANCE, f"{modes}: {difference}"


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
    for compare in classes_of_texts, classes_of_tokens, masked_words, answers, vectors, logits:
        for kind in TOKENIZERS:
            for number in range(a.each):
                directory = a.directory / f"{compare.__name__}-{kind}-{number}"
                directory.mkdir(parents=True)
                compare(heed, random.Random(f"{a.seed} {compare.__name__} {kind} {number}"), kind, directory)
                compared += 1
    (a.directory / "compared.json").write_text(json.dumps(list(TOKENIZERS)))
    print(f"{compared} models read as transformers and sentence-transformers do")


if __name__ == "__main__":
    main()
