"""A page with its model in it, heed attend --html --live, in a real browser: what is typed is read in the page."""
import csv
import io
import json
import pathlib
import re
import subprocess
import time
import unittest
import urllib.parse

import browser
import tiny_models
from browser import Keys
from pages import MODEL
from program import HEED

FIRST, SECOND = "El perro come.", "La casa tiene una puerta roja."


def attend(path, *arguments):
    done = subprocess.run([HEED, "attend", *map(str, arguments), "--html", path], capture_output=True, timeout=240,
                          check=False)
    if done.returncode:
        raise AssertionError(done.stderr.decode())


class Live(browser.Browser):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.page = cls.at / "live.html"
        attend(cls.page, FIRST, "--model", MODEL, "--live")

    def open_alive(self, where="", path=None):
        self.open(where, path)
        self.wait(lambda: self.js("return document.documentElement.dataset.alive") == "true", self.line())

    def line(self):
        return self.texts("#live-line")[0]

    def type(self, text):
        """Puts a text there as a reader would who pastes it, and presses Enter."""
        self.js("""
            const typed = document.getElementById('typed');
            typed.value = arguments[0];
            typed.dispatchEvent(new Event('input', {bubbles: true}));
            document.getElementById('live').requestSubmit();""", text)

    def answered(self, text):
        self.type(text)
        self.wait(lambda: self.texts("h1") == [text] and "ms" in self.line(), self.line())

    def table(self):
        return list(csv.DictReader(io.StringIO(self.saved("CSV").decode("utf-8-sig"), newline="")))

    def assert_same(self, mine, other):
        self.assertEqual(len(mine), len(other))
        for a, b in zip(mine, other):
            for name in a:
                if name in ("weight", "share"):
                    self.assertAlmostEqual(float(a[name]), float(b[name]), delta=2e-3)
                else:
                    self.assertEqual(a[name], b[name])


class Translator(Live):
    def test_it_is_what_the_program_sees(self):
        """Every head and the steps of another sentence are those of a page made of that sentence."""
        stored = self.at / "stored.html"
        attend(stored, SECOND, "--model", MODEL)
        views = [f"view=head&display=map&group={group}&heads={head}" for group in (0, 1, 2) for head in (0, 5)]
        views.append("view=steps&step=2")
        expected, figures = {}, {}
        for view in views:
            self.open(view, stored)
            expected[view] = self.table()
            figures[view] = self.texts(".candidates .token"), self.texts("#text")
        self.open_alive(views[0])
        self.answered(SECOND)
        for view in views:
            self.js("location.hash = arguments[0]", f"{view}&text={urllib.parse.quote(SECOND)}")
            name = re.search(r"view=(\w+)", view).group(1)
            self.wait(lambda: self.js("return document.getElementById('view').dataset.view") == name)
            self.wait(lambda: (self.texts(".candidates .token"), self.texts("#text")) == figures[view])
            self.assert_same(self.table(), expected[view])

    def test_the_view_and_the_heads_stay(self):
        self.open_alive("view=head&group=0&heads=6&display=map")
        self.answered(SECOND)
        self.assertEqual(self.js("return [...document.querySelectorAll('.pick[aria-pressed=true]')].map(p => p.dataset.head)"),
                         ["6"])
        self.assertEqual(self.js("return document.activeElement.id || document.activeElement.tagName"), "BODY")
        self.assertEqual(self.texts("#groups [aria-selected=true]"), ["Encoder"])

    def test_typing_reads_without_a_button_and_steps_appear(self):
        self.open_alive()
        self.js("""
            window.said = [];
            new MutationObserver(() => said.push(document.getElementById('live-line').textContent))
                .observe(document.getElementById('live-line'), {childList: true});""")
        typed = self.one("#typed")
        typed.send_keys("El gato duerme en la cama.")
        self.wait(lambda: self.texts("h1") == ["El gato duerme en la cama."])
        self.wait(lambda: "ms" in self.line())
        writing = [line for line in self.js("return said") if line.startswith("writing: ")]
        self.assertGreater(len(writing), 2, "steps on the way")
        self.assertIn("cat", self.texts("#text")[0])
        self.assertEqual(self.js("return document.activeElement.id"), "typed")
        typed.send_keys(Keys.CONTROL, "a")
        typed.send_keys("1234[]")  # no shortcuts there
        self.wait(lambda: self.texts("h1") == ["1234[]"])
        self.assertEqual(self.js("return document.getElementById('view').dataset.view"), "story")

    def test_heads_are_switched_off(self):
        """What the program shows with --without, and the way back."""
        stored = self.at / "without.html"
        attend(stored, FIRST, "--model", MODEL, "--without", "1.2")
        later = "view=compare&group=2&heads=5"  # a head of the layer behind it
        self.open(later, stored)
        weights = lambda: [row for row in self.table() if row["weight A"]]  # behind them stand the probabilities
        expected, tokens = weights(), self.texts("#predictions .chip")
        self.open_alive("view=head&display=map&group=2&heads=1")
        # An address without them leads to the page's own text and to heads as learned.
        go = lambda where: self.js("""
            const kept = new URLSearchParams(location.hash.slice(1));
            location.hash = ['text', 'change'].filter(name => kept.has(name))
                .reduce((all, name) => `${all}&${name}=${encodeURIComponent(kept.get(name))}`, arguments[0]);""", where)
        choose = lambda what: self.js("""
            const select = document.querySelector('#change-heads select');
            select.value = arguments[0];
            select.dispatchEvent(new Event('change'));""", what)
        choose("0")
        self.wait(lambda: self.js("return document.getElementById('view').dataset.view") == "compare", self.line())
        self.assertEqual([text.strip() for text in self.texts("#live-changed span")], ["Changed: Cross 1.2: off."])
        self.assertIn("Cross 1.2: off", " ".join(self.texts("figcaption")))
        self.assertIn("No weight differs here.", " ".join(self.texts("figcaption")))
        self.assertEqual(self.texts("#predictions .chip"), tokens)
        go(later)
        self.wait(lambda: "layer 2, head 2" in self.texts(".stagehead"))
        mine = weights()
        self.assertEqual(len(mine), len(expected))
        for a, b in zip(mine, expected):
            for name in ("weight A", "weight B"):
                self.assertAlmostEqual(float(a[name]), float(b[name]), delta=2e-3)
        self.assertTrue(any(float(row["weight A"]) != float(row["weight B"]) for row in mine))
        # It holds for what is typed next, and other heads join it.
        self.answered(SECOND)
        self.assertEqual(self.js("return document.getElementById('view').dataset.view"), "compare")
        go("view=head&group=0&heads=0,1")
        self.wait(lambda: self.texts("#groups [aria-selected=true]") == ["Encoder"])
        choose("uniform")
        self.wait(lambda: "Encoder 1.1: looking everywhere alike, Encoder 1.2" in self.texts("#live-changed")[0])
        self.wait(lambda: self.js("return document.getElementById('view').dataset.view") == "compare", self.line())
        self.wait(lambda: "ms" in self.line(), self.line())
        go("view=model&group=0")
        self.wait(lambda: len(self.all(".tile .changed")) == 2)
        self.one("#live-changed button").click()
        self.wait(lambda: "Compare" not in self.texts("#views [role=tab]"), self.line())
        self.assertEqual((self.texts("#live-changed"), len(self.all(".tile .changed"))), ([""], 0))
        # Back leads to what was changed, and a link opens the same.
        self.js("history.back()")
        self.wait(lambda: "Encoder 1.1: looking everywhere alike" in self.texts("#live-changed")[0], self.line())
        self.open_alive("view=compare&group=2&heads=5&change=Cross:1.2=0;Cross:9.9=0;Nobody:1.1=0;Cross:1.1=<b>")
        self.wait(lambda: self.texts("#predictions .chip") == tokens, self.line())
        self.assertEqual([text.strip() for text in self.texts("#live-changed span")], ["Changed: Cross 1.2: off."])
        self.js("location.hash = 'view=head&group=2&heads=5'")
        self.wait(lambda: "Compare" not in self.texts("#views [role=tab]"), self.line())
        self.assertEqual(self.texts("#live-changed"), [""])

    def test_where_no_head_differs_it_says_where_some_do(self):
        """Behind the last layer no head looks anywhere; what the encoder looks at is before the decoder's changes."""
        for change, at, says in [("Cross:2.2=0", "group=2&heads=5", "No head looks elsewhere, in any tab."),
                                 ("Cross:1.2=0", "group=0&heads=0", "In others some do: Decoder, Cross.")]:
            with self.subTest(change):
                self.open_alive(f"view=compare&{at}&change={change}")
                self.wait(lambda: says in " ".join(self.texts("figcaption")), self.line())
                self.assertEqual(self.all("#moved"), [])
                changed = re.findall("([0-9]+) % \u2192 ([0-9]+) %", " ".join(self.texts("#predictions .chip")))
                self.assertTrue(any(a != b for a, b in changed), changed)

    def test_odd_texts_end_in_a_line(self):
        self.open_alive()
        for text, says in [("palabra " * 130000, "too long"), ("casa " * 600, "did not work")]:
            self.type(text)
            self.wait(lambda: says in self.line(), self.line())
            self.assertEqual(len(self.line().splitlines()), 1)
        for text in ["a\0b", "\ud800 solo", "<script>alert(1)</script><img src=x onerror=alert(1)>", "\u202ehola\u202c", "😀"]:
            self.js("document.getElementById('live-line').textContent = ''")
            # JSON of the driver has no lone surrogates.
            self.js("""
                const typed = document.getElementById('typed');
                typed.value = JSON.parse(arguments[0]);
                document.getElementById('live').requestSubmit();""", json.dumps(text))
            self.wait(lambda: "ms" in self.line() or "work" in self.line(), self.line())
            self.assertIn("ms", self.line())
        self.assertEqual(self.js("return document.querySelectorAll('main script, main img, h1 *').length"), 0)
        self.type("   ")
        self.answered(SECOND)

    def test_languages(self):
        self.open_alive()
        self.addCleanup(self.js, "localStorage.clear()")  # the choice stays
        self.js("document.querySelector('#foot select').value = 'es';"
                "document.querySelector('#foot select').dispatchEvent(new Event('change'))")
        self.wait(lambda: self.texts("#live label") == ["Escriba otra frase"])
        self.answered(SECOND)
        self.assertIn("en", self.line())

    def test_it_says_whom_it_is_owed_to(self):
        self.open()
        self.assertIn("Tatoeba", self.texts("#live details")[0])

    def test_its_policy_and_size(self):
        html = self.page.read_text()
        policy = re.search(r'Content-Security-Policy" content="(.*?)"', html, re.S).group(1)
        self.assertRegex(policy, r"script-src 'sha256-[^']+' 'wasm-unsafe-eval'; worker-src blob:;")
        self.assertIn("trusted-types heed-worker", policy)
        self.assertNotIn("'unsafe-", policy)
        self.assertLess(self.page.stat().st_size, 11_000_000)

    def test_first_translation(self):
        """A machine may be busy: the times are told, and bounded only so that a page that stands still is noticed."""
        self.open_alive()
        painted, alive = self.js("return ['painted', 'alive'].map(n => performance.getEntriesByName(n)[0].startTime)")
        self.answered(SECOND)
        first = self.js("return performance.now()")
        print(f"painted after {painted:.0f} ms, alive after {alive:.0f} ms, first translation by {first:.0f} ms")
        self.assertLess(painted, 10_000)
        self.assertLess(alive, 60_000)


class Address(Live):
    """A typed text is part of the address: it can be sent, and Back leads from one text to another."""

    THIRD = "Mi hermana vive en una casa muy grande con su perro."

    def kept(self):
        """The text in the address."""
        return urllib.parse.parse_qs(self.js("return location.hash.slice(1)")).get("text", [None])[0]

    def shows(self, text):
        self.wait(lambda: self.texts("h1") == [text] and "writing" not in self.line(), (self.texts("h1"), self.line()))

    def test_it_opens_on_the_text_and_the_token(self):
        self.open_alive("view=head&group=0&heads=6&display=map")
        few = len(self.one("#title").text.split())
        self.answered(SECOND)
        self.js("location.hash = location.hash.replace('display=map', 'display=lines')")
        self.wait(lambda: self.all(".bipartite"))
        last = len(self.all("#tokens-query li")) - 1
        self.assertGreater(last, few + 2, "which the page's own text does not have")
        self.all("#tokens-query li")[last].click()
        self.wait(lambda: f"query={last}" in self.driver.current_url)
        shown = lambda: [self.texts(name) for name in ("h1", "#text", "#tokens-query bdi", "#tokens-key .amount", ".detail h2")]
        address, before = self.js("return location.hash.slice(1)"), shown()
        self.assertEqual(self.kept(), SECOND)
        self.open(address)
        self.assertEqual(self.one("#typed").get_attribute("value"), SECOND)
        self.wait(lambda: shown() == before, shown())
        self.assertEqual(self.js("return location.hash.slice(1)"), address)

    def test_back_leads_from_text_to_text(self):
        view = "view=head&group=0&heads=1&display=map"
        self.open_alive(view)
        own = self.table(), self.texts("#text")
        self.assertIsNone(self.kept())
        tables = {}
        for text in (SECOND, self.THIRD):
            self.answered(text)
            tables[text] = self.table(), self.texts("#text")
            self.assertEqual(self.kept(), text)
        for go, text in [("back", SECOND), ("back", FIRST), ("forward", SECOND), ("forward", self.THIRD), ("back", SECOND)]:
            with self.subTest(go, text=text):
                getattr(self.driver, go)()
                self.shows(text)
                table, line = own if text == FIRST else tables[text]
                self.assertEqual(self.texts("#text"), line)
                self.assert_same(self.table(), table)
                self.assertEqual(self.one("#typed").get_attribute("value"), "" if text == FIRST else text)
                self.assertEqual(self.kept(), None if text == FIRST else text)
        # A text that was left has its views, too.
        self.one("#views [data-value=model]").click()
        self.wait(lambda: self.all(".tile"))
        self.driver.back()
        self.wait(lambda: self.all("#map"))
        self.assertEqual(self.texts("h1"), [SECOND])

    def test_back_leaves_out_what_was_being_typed(self):
        self.open_alive()
        self.answered(SECOND)
        typed = self.one("#typed")
        typed.send_keys(Keys.CONTROL, "a")
        for part, whole in [("El gato", "El gato"), (" duerme", "El gato duerme"), (" bien.", "El gato duerme bien.")]:
            typed.send_keys(part)
            self.shows(whole)
            self.wait(lambda: self.kept() == whole)
        self.driver.back()
        self.shows(SECOND)
        self.driver.forward()
        self.shows("El gato duerme bien.")
        typed.send_keys(Keys.ENTER)  # done with it
        typed.send_keys(Keys.CONTROL, "a")
        typed.send_keys("La casa")
        self.shows("La casa")
        self.driver.back()
        self.shows("El gato duerme bien.")

    def test_back_while_it_reads(self):
        self.open_alive()
        self.answered(SECOND)
        self.type(self.THIRD * 3)
        self.js("history.back()")
        self.shows(FIRST)
        time.sleep(2)
        self.assertEqual(self.texts("h1"), [FIRST])
        self.assertIn("stays on this device", self.line())

    def test_hostile_texts_in_it(self):
        quote = lambda text: urllib.parse.quote(text, errors="surrogatepass")
        for text in ["<img src=x onerror=alert(1)>", "</script><script>alert(1)</script>", "a&view=model#b=1", "a\0b", "\u202ehola\u202c", "50 %"]:
            with self.subTest(text):
                self.open_alive("view=head&display=map&text=" + quote(text))
                self.wait(lambda: "ms" in self.line(), self.line())
                self.assertEqual(self.js("return document.querySelectorAll('main script, main img, h1 *').length"), 0)
                self.assertEqual(self.one("#typed").get_attribute("value"), text)
                self.assertEqual(self.kept(), text)
                self.assertEqual(self.js("return document.getElementById('view').dataset.view"), "head")
        for odd in ["text=%", "text=%ED%A0%80", "text=%zz&text=b", "text=+%20", "text"]:
            self.open_alive(odd)
            self.wait(lambda: "ms" in self.line() or "stays on" in self.line(), self.line())

    def test_long_texts_stay_out_of_it(self):
        self.open_alive("view=head&text=" + "palabra+" * 3000)
        self.wait(lambda: "too long" in self.line(), self.line())
        self.assertEqual(self.texts("h1"), [FIRST])
        self.one("#views [data-value=model]").click()
        self.wait(lambda: self.all(".tile"))
        self.assertIsNone(self.kept())
        self.type("casa" + " " * 5000 + "roja")
        self.wait(lambda: "ms" in self.line(), self.line())
        self.assertIsNone(self.kept())
        self.assertLess(len(self.driver.current_url), 1000)
        self.open_alive("view=head&text=" + "casa+" * 600)
        self.wait(lambda: "did not work" in self.line(), self.line())
        self.assertEqual(self.texts("h1"), [FIRST])

    def test_a_page_without_a_model_has_no_texts_of_others(self):
        stored = self.at / "without.html"
        attend(stored, FIRST, "--model", MODEL)
        self.open("view=head&display=map&text=hola", stored)
        self.assertEqual(self.texts("h1"), [FIRST])
        self.assertIsNone(self.kept())
        self.assertEqual(self.all("#typed"), [])


class Sleeping(Live):
    """Where the model cannot wake up, the page says why and stays what it was."""

    def photograph(self, path=None, before=None):
        with self.before(before or ""):
            self.open("view=head&display=map", path)
            self.wait(lambda: self.all("#live-line.trouble"), "the page says nothing")
        self.assertTrue(self.all("#map"))
        self.js("location.hash = 'view=head&display=map&text=hola'")
        self.wait(lambda: "text=" not in self.driver.current_url)
        self.assertEqual(self.texts("h1"), [FIRST])
        self.assertFalse(self.one("#typed").is_enabled())
        return self.line()

    def test_without_webassembly(self):
        self.assertIn("has no WebAssembly", self.photograph(before="delete window.WebAssembly"))
        self.assertIn("has no WebAssembly", self.photograph(before="delete window.Worker"))

    def test_damaged_blocks(self):
        html = self.page.read_text()
        live = json.loads(re.search(r'id="data">(.*?)</script>', html, re.S).group(1))["live"]
        for block in [live["module"], *[number for _, number in live["files"]]]:
            mark = f'id="block{block}">'
            at = html.index(mark) + len(mark)
            half = at + (html.index("<", at) - at) // 2
            cut = self.at / "damaged.html"
            cut.write_text(html[:half] + ("A" if html[half] != "A" else "B") + html[half + 1:])
            self.assertIn(f"block {block} cannot be unpacked", self.photograph(cut))
            cut.write_text(html.replace(mark, 'id="gone">'))
            self.assertIn(f"block {block} is missing", self.photograph(cut))

    def test_a_model_that_is_none(self):
        """Blocks that unpack to something else."""
        html = self.page.read_text()
        live = json.loads(re.search(r'id="data">(.*?)</script>', html, re.S).group(1))["live"]
        blocks = [live["module"], *[number for _, number in live["files"]]]
        content = lambda n: re.search(rf'id="block{n}">([^<]*)<', html).group(1)
        for at, block in enumerate(blocks):
            other = blocks[(at + 1) % len(blocks)]
            path = self.at / "other.html"
            path.write_text(html.replace(content(block), content(other)))
            self.assertIn("did not work: ", self.photograph(path))


class LanguageModel(Live):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        (cls.at / "text.txt").write_text("one two three four five\n" * 300)
        subprocess.run([HEED, "train", "--text", cls.at / "text.txt", "--preset", "tiny", "--d-model", "32", "--feed-forward",
                        "64", "--layers", "2", "--block", "32", "--batch", "8", "--dropout", "0", "--seed", "3",
                        "--vocab-size", "275", "--max-updates", "200", "--learning-rate", "0.01", "--warmup", "20",
                        "--model", cls.at / "lm"], check=True, stderr=subprocess.PIPE, timeout=600)
        cls.page = cls.at / "lm.html"
        attend(cls.page, "one two", "--model", cls.at / "lm", "--generate", "8", "--live")

    def test_it_goes_on_with_what_is_typed(self):
        stored = self.at / "stored.html"
        attend(stored, "three four", "--model", self.at / "lm", "--generate", "8")
        self.open("view=head&display=map&heads=1", stored)
        expected, title = self.table(), self.texts("h1")
        self.open_alive("view=head&display=map&heads=1")
        self.assertEqual(self.texts("#live button"), ["Go on"])
        self.type("three four")
        self.wait(lambda: self.texts("h1") == title and "ms" in self.line(), self.line())
        self.assert_same(self.table(), expected)


class OtherMakers(Live):
    """Models of other makers, in their own layout: tests/program/live_model_test.py has more of them."""

    def sees_what_the_program_sees(self, model, button, texts, *arguments):
        path = self.at / f"{model.name}.html"
        attend(path, texts[0], "--model", model, "--live", *arguments)
        self.open_alive("view=head&display=map&heads=1", path)
        self.assertEqual(self.texts("#live button"), [button])
        for text in texts[1:]:
            stored = self.at / "stored.html"
            attend(stored, text, "--model", model, *arguments)
            self.open("view=head&display=map&heads=1", stored)
            expected, title = self.table(), self.texts("h1")
            self.assertGreater(len(expected), 3)
            self.open_alive("view=head&display=map&heads=1", path)
            self.type(text)
            self.wait(lambda: self.texts("h1") == title and "ms" in self.line(), self.line())
            self.assert_same(self.table(), expected)

    def test_an_encoder(self):
        self.sees_what_the_program_sees(tiny_models.text_encoder(self.at / "bert", "BertForMaskedLM"), "Read",
                                        ["the dog barks.", "where is the CAT?", "Tom \u00e9 in paris\u2028house"])

    def test_a_language_model(self):
        self.sees_what_the_program_sees(tiny_models.language_model(self.at / "gpt2"), "Go on",
                                        ["the dog", "we'll see 123 dogs,  the \U0001f600 end", " \u00a0x\ufeff\u0301y"],
                                        "--generate", "5")


if __name__ == "__main__":
    browser.main()
