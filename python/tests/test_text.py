"""Vocabularies and metrics."""
import copy
import pickle

import heed
import pytest

TEXTS = ["Hello, world!", "the cat sat on the mat", "the dog sat on the log", "¿Qué?  Nada.", "日本語\tは"] * 3


@pytest.fixture(scope="module")
def vocabulary():
    return heed.Vocabulary.train(TEXTS, 310)


def test_texts_return(vocabulary):
    for text in ("the cat", "¿Qué? Nada.", "日本語\tは", "unseen: 😀 \0 x", ""):
        ids = vocabulary.encode(text)
        assert vocabulary.decode(ids) == text
        assert [vocabulary.pieces[i] for i in ids] == vocabulary.tokenize(text)
    assert vocabulary.encode(["the cat", "the"]) == [vocabulary.encode("the cat"), vocabulary.encode("the")]
    assert vocabulary.encode("  the   cat ") == vocabulary.encode("the cat")


def test_ids_and_pieces(vocabulary):
    assert len(vocabulary) == len(vocabulary.pieces) == 310
    assert (vocabulary.pad_id, vocabulary.unk_id, vocabulary.bos_id, vocabulary.eos_id) == (0, 1, 2, 3)
    assert vocabulary.pieces[3] == "</s>" and vocabulary.pieces[4 + 0x41] == "<0x41>"
    assert vocabulary.decode([2, *vocabulary.encode("the"), 3, 0]) == "the"


def test_verbatim_and_characters():
    verbatim = heed.Vocabulary.train(TEXTS, 300, spaces="verbatim")
    assert verbatim.decode(verbatim.encode("  the   cat ")) == "  the   cat "
    characters = heed.Vocabulary.characters("hello")
    assert characters.tokenize("hole") == list("hole") and characters.pieces[1:] == list("ehlo")
    assert characters.pad_id is characters.bos_id is characters.eos_id is None and characters.unk_id == 0
    assert repr(characters) == "Vocabulary(5 characters)"
    assert characters.decode(characters.encode("help")) == "hel\ufffd"


def test_as_many_pieces_as_there_are():
    with pytest.raises(heed.ShapeError, match="2000"):
        heed.Vocabulary.train(TEXTS, 2000)
    assert 280 < len(heed.Vocabulary.train(TEXTS, 2000, fewer_will_do=True)) < 400


def test_saved_pickled_and_compared(vocabulary, tmp_path):
    vocabulary.save(tmp_path / "pieces.txt")
    others = [heed.Vocabulary.load(tmp_path / "pieces.txt"), pickle.loads(pickle.dumps(vocabulary)),
              copy.deepcopy(vocabulary)]
    for other in others:
        assert other == vocabulary and hash(other) == hash(vocabulary) and other.pieces == vocabulary.pieces
    assert vocabulary != heed.Vocabulary.characters("a") and vocabulary != "a"


def test_metrics_are_as_counted_by_hand():
    """8 of 10 words, 5 of 8 pairs, 3 of 6 triples and 1 of 4 quadruples are right."""
    hypotheses = ["the cat sat on the mat", "a dog ran away"]
    score = heed.bleu(hypotheses, ["the cat sat on a mat", "the dog ran away"])
    assert score.precisions == pytest.approx((80, 62.5, 50, 25))
    assert float(score) == score.score == pytest.approx(100 * (0.8 * 0.625 * 0.5 * 0.25) ** 0.25)
    assert str(score).startswith("BLEU = 50.00 80.0/62.5/50.0/25.0 (BP = 1.000 ratio = 1.000 hyp_len = 10")
    assert score.brevity_penalty == 1 and score.hypothesis_length == score.reference_length == 10
    assert score.confidence is None and "tok:13a" in score.signature
    perfect = heed.bleu(hypotheses, [["no", "no"], hypotheses])
    assert float(perfect) == pytest.approx(100) and float(heed.chrf(hypotheses, hypotheses)) == pytest.approx(100)
    assert heed.bleu(["THE CAT IS HERE"], ["the cat is here"], lowercase=True).score == pytest.approx(100)
    resampled = heed.chrf(hypotheses, ["the cat sat on a mat", "the dog ran away"], resamples=100)
    assert resampled.confidence.half_width > 0 and "±" in str(resampled)


@pytest.mark.parametrize("call, error, text", [
    (lambda v: heed.bleu("abc", ["abc"]), TypeError, "bleu: hypotheses is 'abc'; pass a list of str"),
    (lambda v: heed.bleu(["abc"], "abc"), TypeError, "bleu: references is 'abc'; pass a list of str"),
    (lambda v: heed.bleu(["abc"], 3), TypeError, "bleu: references is 3"),
    (lambda v: heed.bleu(["abc"], []), heed.ShapeError, "1 hypotheses but 0 references"),
    (lambda v: heed.bleu([], []), heed.ShapeError, "bleu"),
    (lambda v: heed.chrf(["a"], [None]), TypeError, "chrf: references is None; pass a list of str"),
    (lambda v: heed.chrf(["a"], [["b"], ["c", "d"]]), heed.ShapeError, "references"),
    (lambda v: heed.chrf(["a"], ["b"], resamples=1 << 40), heed.ShapeError, "pass 0 to 1000000"),
    (lambda v: heed.bleu(["a"], ["b"], lowercase="no"), TypeError, "pass True or False"),
    (lambda v: v.decode([99999]), heed.ShapeError, "id 99999"),
    (lambda v: v.decode([1 << 40]), heed.ShapeError, r"ids\[0\] is 1099511627776"),
    (lambda v: v.decode("abc"), TypeError, "pass a list of ids"),
    (lambda v: v.encode(3), TypeError, "pass a list of str"),
    (lambda v: v.tokenize(["a"]), TypeError, "pass a str"),
    (lambda v: v.save("/nowhere/at/all"), heed.IoError, "/nowhere/at/all"),
    (lambda v: heed.Vocabulary.load("/nowhere"), heed.IoError, "/nowhere"),
    (lambda v: heed.Vocabulary.load(__file__), heed.FormatError, "test_text.py"),
    (lambda v: heed.Vocabulary.train("abc"), TypeError, "pass a list of str"),
    (lambda v: heed.Vocabulary.train(["a"], 100), heed.ShapeError, "size must be from 261"),
    (lambda v: heed.Vocabulary.train(["a"], 1 << 60), heed.ShapeError, "size must be"),
    (lambda v: heed.Vocabulary.train(["a"], 300, spaces="some"), heed.ShapeError, "'collapse', 'keep' or 'verbatim'"),
    (lambda v: heed.Vocabulary.train(["a"], 300, character_coverage=float("nan")), heed.ShapeError, "coverage"),
    (lambda v: heed.Vocabulary.characters(""), heed.ShapeError, "empty"),
    (lambda v: heed.Vocabulary("abc"), TypeError, "use Vocabulary.load"),
])
def test_what_is_refused(vocabulary, call, error, text):
    with pytest.raises(error, match=text):
        call(vocabulary)
