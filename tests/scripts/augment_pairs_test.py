"""scripts/augment-pairs: what it makes, and that it makes it again."""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts/augment-pairs"
NOUNS = [("dog", "perro"), ("cat", "gato"), ("boy", "chico"), ("bird", "ave"), ("boat", "barco")]
ADJECTIVES = [("wet", "mojado"), ("old", "viejo"), ("long", "largo")]


def corpus():
    lines = [f"The {noun} is {adjective}.\tEl {nombre} es {adjetivo}."
             for noun, nombre in NOUNS for adjective, adjetivo in ADJECTIVES]
    lines += [f"I see an {adjective} {noun} here.\tVeo un {nombre} {adjetivo} aquí."
              for noun, nombre in NOUNS for adjective, adjetivo in ADJECTIVES[1:2]]
    lines += [f"I see a {adjective} {noun} here.\tVeo un {nombre} {adjetivo} aquí."
              for noun, nombre in NOUNS for adjective, adjetivo in ADJECTIVES[::2]]
    lines += ["The boat is loose.\tEl barco está suelto.", "My boat is loose.\tMi barco está suelto."]  # beside no noun
    lines += ["The cat is red.\tLa gata está roja.", "My cat is red.\tMi gata está roja."]
    lines += [f"I saw {name} and a {noun}.\tVi a {name} y a un {nombre}.\tleft out"
              for name in ("Ann", "Bob") for noun, nombre in NOUNS]
    lines.append("Eve sang.\tEve cantó.")  # the first word has a capital anyhow
    return "\n".join(lines) + "\n"


class AugmentPairs(unittest.TestCase):
    def setUp(self):
        work = tempfile.TemporaryDirectory()
        self.addCleanup(work.cleanup)
        self.pairs = pathlib.Path(work.name) / "pairs.tsv"
        self.pairs.write_text(corpus(), encoding="utf-8")

    def run_it(self, *arguments, **environment):
        return subprocess.run([SCRIPT, *arguments], env={**os.environ, **environment}, capture_output=True, timeout=60,
                              encoding="utf-8", check=False)

    def made(self):
        done = self.run_it(self.pairs)
        self.assertEqual(done.returncode, 0, done.stderr)
        pairs = [line.split("\t") for line in done.stdout.splitlines()]
        self.assertEqual(len({tuple(pair) for pair in pairs}), len(pairs))
        self.assertTrue(all(len(pair) == 2 for pair in pairs), pairs)
        return pairs

    def test_adjectives_stand_beside_other_nouns_with_their_translation(self):
        loose = [pair for pair in self.made() if "loose" in pair[0]]
        self.assertGreater(len(loose), 2)
        for english, spanish in loose:
            noun, nombre = next(pair for pair in NOUNS if pair[0] in english)
            self.assertEqual((english, spanish), (f"I see a loose {noun} here.", f"Veo un {nombre} suelto aquí."))

    def test_articles_follow_their_word(self):
        english = [pair[0] for pair in self.made()]
        self.assertTrue(any(" an old " in one for one in english), english)
        self.assertFalse([one for one in english if " a old " in one or " an wet " in one or " an long " in one])

    def test_endings_agree(self):
        for english, spanish in self.made():
            if "red" in english.split():
                self.assertNotIn("Veo un", spanish)

    def test_names_are_the_same_on_both_sides(self):
        named = [pair for pair in self.made() if pair[0].startswith("I saw ")]
        self.assertGreater(len(named), 20)
        for english, spanish in named:
            name = english.split()[2]
            self.assertNotIn(name, ("Ann", "Bob"))
            self.assertTrue(name.istitle())
            self.assertTrue(spanish.startswith(f"Vi a {name} y a un "), spanish)
        self.assertFalse([pair for pair in self.made() if "cantó" in pair[1]])

    def test_the_same_pairs_give_the_same_result(self):
        self.assertEqual(self.run_it(self.pairs, PYTHONHASHSEED="1").stdout, self.run_it(self.pairs, PYTHONHASHSEED="2").stdout)

    def test_without_pairs_it_says_what_it_takes(self):
        done = self.run_it()
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("scripts/augment-pairs PAIRS > MORE", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v"])
