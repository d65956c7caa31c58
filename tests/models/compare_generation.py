#!/usr/bin/env python3
"""Compares what heed translate and heed generate write with what transformers' generate() writes, by the settings of
generation_config.json:

    compare_generation.py HEED MODELS DIRECTORY [--quick]

MODELS is a folder of small models with their tokenizers, as ../shared/conformance/models. Copies of them with other
settings are made in DIRECTORY.
  translators: lines by settings of the search, each line's tokens equal
  decoders:    prompts by settings of greedy search, each text equal
  stops:       stop_strings with spaces, signs and parts of words: the same end
  fields:      every field of transformers' GenerationConfig with another value: the same text, or refused by its name,
               in generation_config.json and in an older model's config.json. Nothing is drawn here;
               src/pretrained/generation_test.cc has the probabilities of draws
"""
import argparse
import json
import pathlib
import shutil
import subprocess
import sys

import torch
import transformers

TRANSLATORS = ["bart", "marian", "t5", "nllb"]
DECODERS = ["gpt2", "llama", "mistral", "qwen2", "qwen3", "gemma2", "gemma3", "phi3", "gpt-oss-dense"]
LINES = """Who are you?
I have no money.
We will see her tomorrow.
The dog sleeps in the kitchen.
My brother was not at home.
Do you want a glass of water?
She wrote him a long letter.
It is raining again.
They came by train.
Nobody knows where he lives.
Close the door, please.
I would like to learn to swim.
What time does the shop open?
He lost his keys on the beach.
The children are playing outside.
There is a book on the table.
Can you help me?
This coffee is too hot.
Our teacher speaks three languages.
I forgot to call you yesterday.
You are right.
The night was cold and dark.
Where did you buy these shoes?
Her sister works in a hospital.
That was a good idea.""".split("\n")
PROMPTS = ["The", "My brother was", "I have no", "We will see her", "Where did", "Once upon a time there was a dog",
           "1 2 3 1 2 3 1 2", "She said that she said that", "no no no no", "¿Qué"]
SEARCHES = {
    "greedy": {"num_beams": 1},
    "beams 4": {"num_beams": 4},
    "beams 6": {"num_beams": 6},
    "length_penalty 0": {"num_beams": 4, "length_penalty": 0.0},
    "length_penalty 2": {"num_beams": 4, "length_penalty": 2.0},
    "length_penalty 2, early_stopping true": {"num_beams": 4, "length_penalty": 2.0, "early_stopping": True},
    "length_penalty 2, early_stopping never": {"num_beams": 4, "length_penalty": 2.0, "early_stopping": "never"},
    "early_stopping true": {"num_beams": 4, "early_stopping": True},
    "early_stopping never": {"num_beams": 4, "early_stopping": "never"},
    "length_penalty -1, early_stopping never": {"num_beams": 4, "length_penalty": -1.0, "early_stopping": "never"},
    "no_repeat_ngram_size 1": {"num_beams": 4, "no_repeat_ngram_size": 1},
    "no_repeat_ngram_size 3": {"num_beams": 4, "no_repeat_ngram_size": 3},
    "greedy, no_repeat_ngram_size 2": {"num_beams": 1, "no_repeat_ngram_size": 2},
    "min_length 10": {"num_beams": 4, "min_length": 10},
    "min_new_tokens 12": {"num_beams": 4, "min_new_tokens": 12},
    "max_length 8": {"num_beams": 4, "max_length": 8, "max_new_tokens": None},
    "encoder_no_repeat_ngram_size 2": {"num_beams": 4, "encoder_no_repeat_ngram_size": 2},
    "repetition_penalty 1.3": {"num_beams": 4, "repetition_penalty": 1.3},
    "greedy, repetition_penalty 1.3": {"num_beams": 1, "repetition_penalty": 1.3},
    "encoder_repetition_penalty 1.5": {"num_beams": 4, "encoder_repetition_penalty": 1.5},
    "exponential_decay_length_penalty": {"num_beams": 4, "exponential_decay_length_penalty": [3, 1.2]},
    "renormalize_logits": {"num_beams": 4, "renormalize_logits": True, "repetition_penalty": 1.2},
    "remove_invalid_values": {"num_beams": 4, "remove_invalid_values": True, "no_repeat_ngram_size": 2},
}
GREEDY = {
    "plain": {},
    "repetition_penalty 1.1": {"repetition_penalty": 1.1},
    "repetition_penalty 0.9": {"repetition_penalty": 0.9},
    "no_repeat_ngram_size 2": {"no_repeat_ngram_size": 2},
    "encoder_no_repeat_ngram_size 2": {"encoder_no_repeat_ngram_size": 2},
    "encoder_repetition_penalty 1.5": {"encoder_repetition_penalty": 1.5},
    "min_new_tokens 15": {"min_new_tokens": 15},
    "min_length 14": {"min_length": 14},
    "max_length 16": {"max_length": 16, "max_new_tokens": None},
    "exponential_decay_length_penalty": {"exponential_decay_length_penalty": [2, 1.3]},
}
NEW_TOKENS = 20
# Of those fields whose value is a part of a larger setting, or depends on the model.
HARMLESS = {"use_cache": False, "cache_implementation": "static", "max_cache_len": 64, "num_return_sequences": 1,
            "output_attentions": False, "output_hidden_states": False, "output_scores": True, "output_logits": True,
            "return_dict_in_generate": False, "pad_token_id": 3, "num_assistant_tokens": 5,
            "num_assistant_tokens_schedule": "heuristic", "assistant_confidence_threshold": 0.2,
            "max_matching_ngram_size": 3, "assistant_lookbehind": 5, "target_lookbehind": 5, "disable_compile": True,
            "prefill_chunk_size": 4, "transformers_version": "4.30.0", "diversity_penalty": 0.0, "num_beam_groups": 1,
            "cache_config": {}, "bos_token_id": 3, "do_sample": False}
APPLIED = {"max_length": 9, "max_new_tokens": 5, "min_length": 9, "min_new_tokens": 8, "early_stopping": True,
           "num_beams": 3, "temperature": 0.5, "top_k": 3, "top_p": 0.5, "min_p": 0.1, "typical_p": 0.4,
           "epsilon_cutoff": 0.1, "eta_cutoff": 0.1, "repetition_penalty": 1.4, "encoder_repetition_penalty": 1.6,
           "length_penalty": 2.0, "no_repeat_ngram_size": 2, "bad_words_ids": [[5], [6, 7]], "renormalize_logits": True,
           "forced_bos_token_id": 9, "forced_eos_token_id": 9, "remove_invalid_values": True,
           "exponential_decay_length_penalty": [2, 1.3], "suppress_tokens": [4, 5, 6, 7, 8, 9, 10, 11],
           "begin_suppress_tokens": [4, 5, 6, 7, 8, 9, 10, 11], "sequence_bias": [[[5], 1.5], [[6, 7], -2.0]],
           "eos_token_id": [2, 9, 30, 31, 32], "encoder_no_repeat_ngram_size": 2, "decoder_start_token_id": 7,
           "stop_strings": ["e", "th"], "guidance_scale": 1.0, "token_healing": False, "is_assistant": False,
           "penalty_alpha": 0.0}
# Fields that transformers reads in config.json only.
OLD = {"force_bos_token_to_be_generated": True}
REFUSED = {"max_time": 100.0, "top_h": 0.5, "token_healing": True, "guidance_scale": 1.5,
           "watermarking_config": {"bias": 2.0}, "is_assistant": True, "assistant_ensemble_weight": 0.5,
           "penalty_alpha": 0.6, "dola_layers": "low", "num_beam_groups": 2, "constraints": [1],
           "force_words_ids": [[5]], "cache_implementation": "quantized"}
# No call of generate() in a program takes these from a file, or none can be made with them here. tests/models/fidelity.py
# compares the names of all fields with heed's table.
NOT_CALLED = {"use_mtp", "prompt_lookup_num_tokens", "assistant_early_exit", "speculation_type", "compile_config",
              "continuous_batching_config", "low_memory"}


class Heed:
    def __init__(self, program):
        self.program = program

    def run(self, *arguments):
        return subprocess.run([self.program, *map(str, arguments)], capture_output=True)

    def lines(self, *arguments):
        done = self.run(*arguments)
        if done.returncode != 0:
            sys.exit(f"heed {' '.join(map(str, arguments))}: {done.stderr.decode()}")
        return done.stdout.decode()


def copy_of(model, to, settings, old=False):
    """A model with other settings: those of its generation_config.json and these, all in config.json if it is old."""
    shutil.rmtree(to, ignore_errors=True)
    to.mkdir(parents=True)
    for file in model.iterdir():
        if file.name not in ("generation_config.json", "expected.json", "expected.safetensors", "config.json" if old else ""):
            (to / file.name).symlink_to(file.resolve())
    fields = json.loads((model / "generation_config.json").read_text())
    for sampled in "do_sample", "temperature", "top_k", "top_p":  # the models' own draws
        fields.pop(sampled, None)
    fields = {"max_new_tokens": NEW_TOKENS, **fields, **settings}
    if "max_new_tokens" not in settings and "max_length" in fields:
        fields.pop("max_length")
    fields = {key: value for key, value in fields.items() if value is not None}
    if old:
        if settings.get("force_bos_token_to_be_generated"):  # a token that the model would not write
            fields.pop("forced_bos_token_id", None)
            fields["bos_token_id"] = 9
        (to / "config.json").write_text(json.dumps({**json.loads((model / "config.json").read_text()), **fields}))
    else:
        (to / "generation_config.json").write_text(json.dumps(fields))
    return to


def load(directory, kind):
    return (kind.from_pretrained(directory, dtype=torch.float32, attn_implementation="eager").eval(),
            transformers.AutoTokenizer.from_pretrained(directory))


def ends_of(model):
    ends = model.generation_config.eos_token_id
    return ends if isinstance(ends, list) else [] if ends is None else [ends]


def without_end(model, ids):
    return ids[:-1] if ids and ids[-1] in ends_of(model) else ids


def generated(model, **given):
    """Ids of the first text."""
    with torch.no_grad():
        result = model.generate(**given)
    return getattr(result, "sequences", result)[0].tolist()


def translated(model, tokenizer, line):
    """The tokens of the best translation, without start and end; and all that may be its end."""
    ids = generated(model, **tokenizer(line, return_tensors="pt"), tokenizer=tokenizer)[1:]
    return tokenizer.convert_ids_to_tokens(without_end(model, ids)), tokenizer.convert_ids_to_tokens(ends_of(model))


def set_from(model, directory):
    """The settings of a copy, from where from_pretrained() takes them."""
    old = not (directory / "generation_config.json").exists()
    where = {"config_file_name": "config.json", "_from_model_config": True} if old else {}
    model.generation_config = transformers.GenerationConfig.from_pretrained(directory, **where)


def got_translated(heed, directory, lines):
    """The same of heed, where the end has a row of its own at times."""
    texts = heed.lines("translate", "-m", directory, "--no-split", "--json", *lines).splitlines()
    return [[token for token, _ in json.loads(text)["translations"][0]["tokens"]] for text in texts]


def same_tokens(want, got):
    """`want` is what translated() returns. heed lists the end of a translation where the model has written one."""
    tokens, ends = want
    return got == tokens or (got[:-1] == tokens and got[-1] in ends)


def compare_translators(heed, models, directory, lines):
    for name in TRANSLATORS:
        model, tokenizer = load(models / name, transformers.AutoModelForSeq2SeqLM)
        for title, settings in SEARCHES.items():
            copy = copy_of(models / name, directory / "copy", settings)
            set_from(model, copy)
            got = got_translated(heed, copy, lines)
            wrong = [line for line, tokens in zip(lines, got) if not same_tokens(translated(model, tokenizer, line), tokens)]
            if wrong:
                sys.exit(f"{name}, {title}: {len(wrong)} of {len(lines)} lines differ, the first is {wrong[0]!r}")
        print(f"{name}: {len(lines)} lines by {len(SEARCHES)} settings")


def continued(model, tokenizer, prompt):
    """Returns the text that transformers writes after the prompt, or None if it refuses a prompt longer than max_length."""
    given = tokenizer(prompt, return_tensors="pt")
    given = {key: given[key] for key in ("input_ids", "attention_mask")}
    try:
        ids = generated(model, **given, tokenizer=tokenizer)
    except ValueError as e:
        if "but `max_length` is set to" not in str(e):
            raise
        return None
    return tokenizer.decode(without_end(model, ids[given["input_ids"].shape[1]:]), skip_special_tokens=True,
                            clean_up_tokenization_spaces=False)


def got_continued(heed, directory, prompts):
    texts = heed.lines("generate", "-m", directory, "--no-prompt", *prompts)
    return texts.removesuffix("\n").split("\n---\n")


def same_text(want, got):
    """heed puts a space in front of the first word, and a line end behind the text where there is none."""
    return got.lstrip(" ").removesuffix("\n") == want.lstrip(" ").removesuffix("\n")


def compare_decoders(heed, models, directory, prompts):
    for name in DECODERS:
        model, tokenizer = load(models / name, transformers.AutoModelForCausalLM)
        for title, settings in GREEDY.items():
            copy = copy_of(models / name, directory / "copy", settings)
            set_from(model, copy)
            for prompt in prompts:
                want = continued(model, tokenizer, prompt)
                if want is None:
                    done = heed.run("generate", "-m", copy, prompt)
                    if done.returncode != 2 or b"and max_length is" not in done.stderr:
                        sys.exit(f"{name}, {title}: heed does not refuse {prompt!r}, whose length transformers refuses")
                    continue
                got = got_continued(heed, copy, [prompt])[0]
                if not same_text(want, got):
                    sys.exit(f"{name}, {title}: {prompt!r} goes on as {got!r}, by transformers as {want!r}")
        print(f"{name}: {len(prompts)} prompts by {len(GREEDY)} settings")


def fields_of_transformers():
    return sorted(key for key in transformers.GenerationConfig().__dict__
                  if not key.startswith("_") and key not in NOT_CALLED)


def compare_fields(heed, models, directory, kind, name, texts, old=False):
    """Each field by itself: heed writes the same, or names the field that it refuses. The fields are in config.json if
    the model is old."""
    model, tokenizer = load(models / name, kind)
    pairs = kind is transformers.AutoModelForSeq2SeqLM
    same = refused = 0
    for key in fields_of_transformers() + (list(OLD) if old else []):
        values = [table[key] for table in (APPLIED, HARMLESS, REFUSED, OLD) if key in table]
        if not values:
            sys.exit(f"compare_generation.py has no value for the field {key} of GenerationConfig")
        for value in values:
            settings = {"num_beams": 4 if pairs else 1, key: value}
            if not pairs and key == "num_beams":
                settings = {key: value}
            copy = copy_of(models / name, directory / "copy", settings, old)
            command = ["translate", "-m", copy, "--no-split", texts[0]] if pairs else ["generate", "-m", copy, texts[0]]
            done = heed.run(*command)
            if done.returncode != 0:
                if f'"{key}"' not in done.stderr.decode():
                    sys.exit(f"{name}, {key} = {value}: {done.stderr.decode()}")
                if REFUSED.get(key) != value and (pairs or key != "num_beams"):
                    sys.exit(f"{name}, {key} = {value} is refused: {done.stderr.decode()}")
                refused += 1
                continue
            if REFUSED.get(key) == value:
                sys.exit(f"{name}, {key} = {value}: heed writes as if it were not there")
            set_from(model, copy)
            if pairs:
                good = [same_tokens(translated(model, tokenizer, text), tokens)
                        for text, tokens in zip(texts, got_translated(heed, copy, texts))]
            else:
                good = [same_text(continued(model, tokenizer, text), got_continued(heed, copy, [text])[0]) for text in texts]
            if not all(good):
                sys.exit(f"{name}, {key} = {value}: {texts[good.index(False)]!r} differs")
            same += 1
    print(f"{name}{', config.json' if old else ''}: {same} settings of fields written as transformers does, {refused} refused by name")


# Texts to stop at, within words, between words, at signs and characters of several bytes.
STOPS = [" ", "e ", " a", "a b", " the", "he ", ". ", ".", "\u00e9", "\u00f1", "\u00bf", "</s>", "<s>", "\n", "n t", "o", "la ", ", ", "  ", "ss"]


def compare_stops(heed, models, directory, kind, names, texts):
    """stop_strings, each by itself, and two at once."""
    pairs = kind is transformers.AutoModelForSeq2SeqLM
    for name in names:
        model, tokenizer = load(models / name, kind)
        compared = stopped = 0
        for stops in [*([stop] for stop in STOPS), ["zq", " e"]]:
            settings = {"num_beams": 1, "stop_strings": stops}
            copy = copy_of(models / name, directory / "copy", settings)
            set_from(model, copy)
            try:
                want = [(translated if pairs else continued)(model, tokenizer, text) for text in texts]
            except ValueError as error:  # transformers refuses a stop string that no token has a part of
                if "unable to identify tokens" not in str(error):
                    raise
                continue
            if pairs:
                good = [same_tokens(tokens, got) for tokens, got in zip(want, got_translated(heed, copy, texts))]
            else:
                good = [same_text(text, got_continued(heed, copy, [prompt])[0]) for text, prompt in zip(want, texts)]
            if not all(good):
                sys.exit(f"{name}, stop_strings {stops}: {texts[good.index(False)]!r} differs")
            compared += 1
            set_from(model, copy_of(models / name, directory / "copy", {"num_beams": 1}))
            stopped += any((translated if pairs else continued)(model, tokenizer, text) != one for text, one in zip(texts, want))
        if stopped < 3:
            sys.exit(f"{name}: {stopped} stop strings end a text")
        print(f"{name}: {compared} stop strings, {stopped} of which end a text")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("heed")
    parser.add_argument("models", type=pathlib.Path)
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("--quick", action="store_true", help="few lines and prompts")
    a = parser.parse_args()
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    heed = Heed(a.heed)
    lines, prompts = (LINES[:3], PROMPTS[:3]) if a.quick else (LINES, PROMPTS)
    compare_fields(heed, a.models, a.directory, transformers.AutoModelForSeq2SeqLM, "bart", LINES[:5])
    compare_fields(heed, a.models, a.directory, transformers.AutoModelForCausalLM, "qwen2", PROMPTS[:5])
    few = 1 if a.quick else 5
    compare_fields(heed, a.models, a.directory, transformers.AutoModelForSeq2SeqLM, "bart", LINES[:few], old=True)
    compare_fields(heed, a.models, a.directory, transformers.AutoModelForCausalLM, "qwen2", PROMPTS[:few], old=True)
    compare_stops(heed, a.models, a.directory, transformers.AutoModelForSeq2SeqLM, TRANSLATORS, LINES[:few + 2])
    compare_stops(heed, a.models, a.directory, transformers.AutoModelForCausalLM, DECODERS, PROMPTS[:few + 2])
    compare_translators(heed, a.models, a.directory, lines)
    compare_decoders(heed, a.models, a.directory, prompts)


if __name__ == "__main__":
    main()
