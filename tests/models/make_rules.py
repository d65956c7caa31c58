#!/usr/bin/env python3
"""Prints what transformers makes of scores by each field of generation_config.json, as src/pretrained/generation_test.cc
reads it:

    make_rules.py > tests/models/rules.json

A case has the fields, a text with its prompt, a source, the scores of all tokens, and what becomes of them: null is
-infinity. Where it draws, `draws` has the probabilities of the tokens that are left.
"""
import json
import random
import types

import torch
import transformers
from transformers.generation import GenerationMixin

TOKENS = 12
LIMIT = 24  # max_length


def rules(draw):
    ids = lambda count: draw.sample(range(TOKENS), count)  # noqa: E731
    word = lambda: [draw.randrange(TOKENS) for _ in range(draw.choice([1, 1, 2, 2, 3]))]  # noqa: E731
    return {
        "sequence_bias": [[word(), round(draw.uniform(-3, 3), 3)] for _ in range(6)],
        "encoder_repetition_penalty": draw.choice([0.7, 1.4]),
        "repetition_penalty": draw.choice([0.8, 1.05, 1.3]),
        "no_repeat_ngram_size": draw.choice([1, 2, 3, 5]),
        "encoder_no_repeat_ngram_size": draw.choice([1, 2, 3]),
        "bad_words_ids": [word() for _ in range(6)],
        "min_length": draw.choice([1, 4, 9]),
        "min_new_tokens": draw.choice([1, 2, 5]),
        "forced_bos_token_id": draw.randrange(TOKENS),
        "forced_eos_token_id": draw.choice([2, [2, 7]]),
        "remove_invalid_values": True,
        "exponential_decay_length_penalty": [draw.choice([0, 1, 3]), draw.choice([0.9, 1.1, 2.0])],
        "suppress_tokens": ids(3),
        "begin_suppress_tokens": ids(3),
        "renormalize_logits": True,
    }


def sampling(draw):
    return {"temperature": draw.choice([0.5, 1.7]), "top_k": draw.choice([0, 3, 5, 20]),
            "top_p": draw.choice([0.3, 0.8, 0.95]), "min_p": draw.choice([0.02, 0.2]),
            "typical_p": draw.choice([0.2, 0.6, 0.95]), "epsilon_cutoff": draw.choice([0.01, 0.1]),
            "eta_cutoff": draw.choice([0.01, 0.2])}


def made(fields, text, prompt, source, scores):
    """What transformers does, by the functions that generate() calls."""
    config = transformers.GenerationConfig(**json.loads(json.dumps(fields)))
    defaults = transformers.GenerationConfig._get_default_generation_params()
    config.update(**defaults, defaults_only=True)
    if config.min_new_tokens is not None:
        config.min_length = config.min_new_tokens + prompt
    config.max_length = LIMIT
    ends = config.eos_token_id if isinstance(config.eos_token_id, list) else [config.eos_token_id]
    config._eos_token_tensor = torch.tensor(ends)
    model = types.SimpleNamespace(config=types.SimpleNamespace(is_encoder_decoder=True))
    model._merge_criteria_processor_list = types.MethodType(GenerationMixin._merge_criteria_processor_list, model)
    processors = GenerationMixin._get_logits_processor(
        model, generation_config=config, input_ids_seq_length=prompt, encoder_input_ids=torch.tensor([source]),
        logits_processor=transformers.LogitsProcessorList(), device="cpu", model_kwargs={})
    return processors(torch.tensor([text]), torch.tensor([scores]))[0]


def shown(scores):
    return [None if x == float("-inf") else x for x in scores.tolist()]


def case(draw, fields):
    prompt = draw.choice([1, 1, 2, 4])
    length = draw.choice([prompt, prompt, prompt + 1, prompt + 4, LIMIT - 1])
    text = [draw.randrange(TOKENS) for _ in range(length)]
    source = [draw.randrange(TOKENS) for _ in range(draw.choice([1, 4, 8]))]
    scores = [round(draw.gauss(0, 2), 3) for _ in range(TOKENS)]
    fields = {"eos_token_id": draw.choice([2, [2, 7]]), **fields}
    banned = set(fields.get("suppress_tokens", []))
    for forced in "forced_bos_token_id", "forced_eos_token_id":  # transformers refuses what is forced and suppressed
        ids = fields.get(forced, [])
        if ids != [] and set(ids if isinstance(ids, list) else [ids]) <= banned:
            del fields[forced]
    after = made(fields, text, prompt, source, scores)
    result = {"fields": fields, "text": text, "prompt": prompt, "source": source, "limit": LIMIT, "scores": scores}
    if fields.get("do_sample"):
        return {**result, "draws": after.softmax(-1).tolist()}
    return {**result, "after": shown(after)}


def main():
    draw = random.Random(5)
    transformers.logging.set_verbosity_error()
    cases = []
    for _ in range(4):
        for key, value in rules(draw).items():
            cases += [case(draw, {key: value}) for _ in range(2)]
        for key, value in sampling(draw).items():
            cases.append(case(draw, {"do_sample": True, "top_k": 0, key: value}))
    for _ in range(40):
        some = rules(draw)
        cases.append(case(draw, {key: some[key] for key in draw.sample(sorted(some), draw.randint(2, 6))}))
        some = sampling(draw)
        cases.append(case(draw, {"do_sample": True, **{key: some[key] for key in draw.sample(sorted(some), 3)}}))
    print("[\n" + ",\n".join(json.dumps(one, separators=(",", ":")) for one in cases) + "\n]")


if __name__ == "__main__":
    main()
