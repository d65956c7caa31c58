"""What the page opens on: its story, the tour, words of the trade explained, and both languages."""
import math
import re
import subprocess
import xml.etree.ElementTree

import browser
from browser import ActionChains, Keys
from pages import BOTH, CROSS, ENCODER, MODEL, PAGE, SOURCE, Browser, Group, made
from program import HEED

SVG = "{http://www.w3.org/2000/svg}"
CLEAR = ["El", "per", "ro", "come", ".", "</s>"]
CLEAR_WORDS = [0, 1, 1, 2, 3, 4]
PRODUCED = ["The", "dog", "eats", ".", "</s>"]


def rows_of(*tops):
    """Rows of weights for CLEAR: each has the given weight on the given key, the rest spread over the others."""
    return [[w if j == key else (1 - w) / (len(CLEAR) - 1) for j in range(len(CLEAR))] for key, w in tops]


# "." looks at "." and "</s>" at "</s>" most of all, but they are no words of content.
BLURRED = rows_of((5, 0.9), (3, 0.3), (3, 0.35), (4, 1.0), (5, 1.0))
SHARP = rows_of((0, 0.6), (2, 0.98), (3, 0.8), (4, 0.99), (5, 0.995))
TRANSLATION = {
    "title": "El perro come.", "text": "The dog eats.",
    "steps": [{"token": t, "candidates": [[t, 0.75]]} for t in PRODUCED],
    "groups": [{"name": "Encoder", "queries": CLEAR, "keys": CLEAR, "weights": {"shape": [6, 6], "values": [1 / 6] * 36}},
               {"name": "Cross", "queries": PRODUCED, "keys": CLEAR, "key_words": CLEAR_WORDS, "step_keys": "input",
                "weights": {"shape": [2, 5, 6], "values": [x for head in (BLURRED, SHARP) for row in head for x in row]}}]}

TEXT = ["<s>", "The", "dog", "has", "a"]
CAUSAL = Group("Text", TEXT, TEXT, seed=3, causal=True, step_keys="output")
NEXT = {"title": "The dog has a", "groups": [CAUSAL.json()],
        "steps": [{"token": t, "candidates": [[t, 0.6], ["cat", 0.25]]} for t in ["The", "dog", "has", "a", "bone"]]}
PATCHES = ["[CLS]"] + [f"{r + 1},{c + 1}" for r in range(2) for c in range(3)]
PICTURE = Group("Self-attention", PATCHES, PATCHES, seed=4, sharp=1.5, picture={
    "shape": [20, 30, 3], "values": [120, 60, 200] * 600, "rows": 2, "columns": 3})


class Story(Browser):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.pages = {}
        for name, page in {"translation": TRANSLATION, "next": NEXT, "both": BOTH,
                           "picture": {"title": "cat.png", "groups": [PICTURE.json()]}}.items():
            cls.pages[name] = cls.at / f"{name}.html"
            cls.pages[name].write_bytes(made(page))

    def shown_view(self):
        return self.js("return document.getElementById('view').dataset.view")

    def press(self, *keys):
        ActionChains(self.driver).send_keys(*keys).perform()

    def sentence(self):
        return self.one("#story-sentence").text

    def focused(self):
        return self.js("return document.activeElement.dataset.value")


class Opens(Story):
    def test_a_translation_opens_on_its_clearest_word(self):
        self.open("", self.pages["translation"])
        self.assertEqual(self.shown_view(), "story")
        self.assertEqual(self.texts("#groups [aria-selected=true]"), ["Cross"])
        whole = 0.98 + 0.02 / 5  # both pieces of the word
        self.assertEqual(self.sentence(), f"dog looks at perro, {100 * whole:.0f} %")
        self.assertEqual(self.texts("#tokens-query .looked bdi"), ["dog"])
        self.assertEqual(self.texts("#tokens-key bdi"), ["El", "perro", "come", ".", "</s>"])
        self.assertIn("This is layer 1, head 2, the clearest of the 2 heads here.", self.one(".detail").text)
        self.assertEqual(self.texts("#legend .sample"), ["10 %", "50 %", "100 %"])
        self.assertEqual(len(self.all(".primary")), 1, "one call to action")

    def test_another_word_is_told_of(self):
        self.open("", self.pages["translation"])
        words = self.all("#tokens-query li")
        ActionChains(self.driver).move_to_element(words[2]).perform()
        self.wait(lambda: self.sentence() == "eats looks at come, 80 %")
        ActionChains(self.driver).move_to_element(self.one("h1")).perform()
        self.wait(lambda: self.sentence().startswith("dog looks at perro"))
        words[0].click()
        self.wait(lambda: "query=0" in self.driver.current_url)
        ActionChains(self.driver).move_to_element(self.one("h1")).perform()
        self.assertEqual(self.sentence(), "The looks at El, 60 %")
        self.press(Keys.ESCAPE)
        self.wait(lambda: self.sentence().startswith("dog looks at perro"))
        self.all("#tokens-key li")[1].click()
        self.wait(lambda: self.sentence().startswith("perro is looked at most by dog"))

    def test_it_opens_the_head_it_tells_of(self):
        self.open("", self.pages["translation"])
        self.one(".actions [data-value=open]").click()
        self.wait(lambda: self.shown_view() == "head")
        self.assertEqual(self.js("return [...document.querySelectorAll('.pick[aria-pressed=true]')].map(p => p.dataset.head)"), ["1"])
        self.assertEqual(self.texts(".detail h2"), ["dog"])
        self.driver.back()
        self.wait(lambda: self.shown_view() == "story" and self.sentence().startswith("dog looks at perro"))

    def test_a_language_model_shows_what_comes_next(self):
        self.open("", self.pages["next"])
        heads = CAUSAL.weights
        received = [sum(row[j] for head in heads for row in head) / len(heads) / 5 for j in range(5)]
        sink = received.index(max(received))
        self.assertGreater(received[sink], 0.2)
        row = [sum(head[4][j] for head in heads) / len(heads) for j in range(5)]
        left = {TEXT[j]: row[j] / (1 - row[sink]) for j in range(5) if j != sink}
        best = max(left, key=left.get)
        self.assertEqual(self.sentence(), f"a looks at {best}, {100 * left[best]:.0f} %")
        self.assertIn(TEXT[sink], self.one("#story-sink").text)
        self.assertIn(f"{100 * received[sink]:.0f} % of all attention", self.one("#story-sink").text)
        self.assertEqual(self.texts(".candidates .token"), ["bone", "cat"])
        self.assertEqual(self.texts(".candidates .amount"), ["60 %", "25 %"])
        self.assertIn("the mean of all 6 heads", self.one(".detail").text)

    def test_a_picture_shows_where_the_class_token_looks(self):
        self.open("", self.pages["picture"])
        tops = [max(head[0][1:]) for head in PICTURE.weights]
        head = tops.index(max(tops))
        row = PICTURE.weights[head][0]
        best = max(range(7), key=lambda j: row[j])
        self.assertEqual(self.sentence(), f"[CLS] looks at {PATCHES[best]}, {100 * row[best]:.0f} %")
        self.assertEqual(len(self.all(".pictures canvas.patches")), 2)
        self.assertIn(f"layer {head // 3 + 1}, head {head % 3 + 1}", self.one(".detail").text)

    def test_weights_of_another_program(self):
        path = self.at / "nameless.html"
        path.write_bytes(made({"groups": [{"weights": {"shape": [3, 3], "values": [0.2, 0.7, 0.1, 0.9, 0.1, 0, 0.3, 0.3, 0.4]}}]}))
        self.open("", path)
        self.assertEqual(self.shown_view(), "story")
        self.assertEqual(self.sentence(), "2 looks at 1, 90 %")
        self.assertIn("There is one head here.", self.one(".detail").text)
        path.write_bytes(made({"groups": [{"queries": ["a", "b"], "keys": ["c", "d"],
                                           "weights": {"shape": [2, 2], "values": [0, 0, None, -0.7]}}]}))
        self.open("", path)
        self.assertEqual(self.sentence(), "a looks at nothing in particular")
        self.all("#tokens-query li")[1].click()
        self.wait(lambda: self.sentence() == "b looks at d, \u22120.700")

    def test_what_was_asked_for_comes_first(self):
        path = self.at / "asked.html"
        for opening, view in [({"group": 0}, "model"), ({"group": 1}, "model"), ({"heads": [1]}, "head"), ({}, "story")]:
            path.write_bytes(made({**PAGE, "opening": opening}))
            self.open("", path)
            self.assertEqual(self.shown_view(), view, opening)
        self.open("view=inside", path)
        self.assertEqual(self.shown_view(), "inside")

    def test_files(self):
        for name in ("translation", "next", "picture"):
            self.open("", self.pages[name])
            words = [e.text for e in xml.etree.ElementTree.fromstring(self.saved("SVG")).iter(SVG + "text")]
            self.assertIn(self.sentence(), words)
            self.assertTrue(self.table())
        self.open("", self.pages["translation"])
        got = {(r["query token"], r["key token"]): float(r["weight"]) for r in self.table()}
        self.assertAlmostEqual(got["dog", "perro"], 0.984, delta=2e-4)
        self.assertAlmostEqual(got["eats", "come"], 0.8, delta=2e-4)

    def test_the_program(self):
        path = self.at / "attend.html"
        done = subprocess.run([HEED, "attend", "El perro tiene el pelo suelto.", "--model", MODEL, "--html", path],
                              capture_output=True, timeout=120, check=False)
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        self.open("", path)
        self.assertEqual(self.shown_view(), "story")
        query, key, share = re.fullmatch(r"(\w+) looks at (\w+), (\d+) %", self.sentence()).groups()
        self.assertIn(key, "El perro tiene el pelo suelto")
        self.assertIn(query, self.texts("#text")[0])
        self.assertGreater(int(share), 70)


class Tour(Story):
    def step(self):
        return self.texts("#tour-heading")

    def test_it_never_comes_uninvited(self):
        for _ in range(2):
            self.open("", self.pages["both"])
            self.assertEqual(self.all("#tour"), [])

    def test_four_steps_with_the_numbers_of_the_text(self):
        self.open("view=story&group=1&query=2", self.pages["both"])  # "has", of words
        self.one(".primary").click()
        self.wait(lambda: self.step() == ["Step 1 of 4: the query"])
        name = re.search(r"layer (\d), head (\d)", self.texts(".tour-text")[0])
        head = 3 * (int(name[1]) - 1) + int(name[2]) - 1
        shown = [float(x) for x in self.one(".tour canvas").get_attribute("aria-label").split(": ")[1].split(", ")]
        for a, b in zip(shown, CROSS.q[head][2]):
            self.assertAlmostEqual(a, b, delta=6e-3)
        order = sorted(range(7), key=lambda j: -CROSS.weights[head][2][j])[:5]
        self.one(".primary").click()
        self.wait(lambda: self.step() == ["Step 2 of 4: the match"])
        self.assertEqual(self.texts(".tour tbody th bdi"), [("\u00b7" if j == 2 else "") + SOURCE[j] for j in order])
        values = [float(x) for x in self.texts(".tour tbody .value")]
        for n, j in enumerate(order):
            self.assertAlmostEqual(values[2 * n], CROSS.dot(head, 2, j), delta=6e-3 * max(1, abs(values[2 * n])))
            self.assertAlmostEqual(values[2 * n + 1], CROSS.dot(head, 2, j) / 2, delta=6e-3 * max(1, abs(values[2 * n])))
        self.one(".primary").click()
        self.wait(lambda: self.step() == ["Step 3 of 4: softmax"])
        largest = max(CROSS.dot(head, 2, j) / 2 for j in range(7))
        total = sum(math.exp(CROSS.dot(head, 2, j) / 2 - largest) for j in range(7))
        self.assertIn(f"divided by the sum of all, {total:.2f}", self.one(".tour-text").text)
        for shown, j in zip(self.texts(".tour tbody b"), order):
            self.assertAlmostEqual(float(shown), CROSS.weights[head][2][j], delta=6e-4)
        self.one(".primary").click()
        self.wait(lambda: self.step() == ["Step 4 of 4: the mix"])
        output = [sum(CROSS.weights[head][2][j] * CROSS.v[head][j][d] for j in range(7)) for d in range(4)]
        shown = self.one(".tour tfoot canvas").get_attribute("aria-label").split(": ")[1].split(", ")
        for a, b in zip(shown, output):
            self.assertAlmostEqual(float(a), b, delta=6e-3)
        self.one(".primary").click()  # every number
        self.wait(lambda: self.shown_view() == "inside")
        self.assertIn("query=2", self.driver.current_url)

    def test_keys_address_and_back(self):
        self.open("", self.pages["both"])
        self.js("document.querySelector('.primary').focus()")
        self.press(Keys.ENTER)
        self.wait(lambda: self.step() == ["Step 1 of 4: the query"])
        said = lambda: self.one("#say").get_attribute("textContent")
        self.assertTrue(said().startswith("Step 1 of 4: the query. Every token asks a question."), said())
        self.assertEqual(self.focused(), "next")
        self.press(Keys.ENTER)
        self.wait(lambda: self.step() == ["Step 2 of 4: the match"] and self.focused() == "next")
        self.assertIn("tour=2", self.driver.current_url)
        self.driver.back()
        self.wait(lambda: self.step() == ["Step 1 of 4: the query"])
        self.driver.back()
        self.wait(lambda: self.all("#story-sentence") and not self.all("#tour"))
        self.open("view=story&tour=3", self.pages["both"])
        self.assertEqual(self.step(), ["Step 3 of 4: softmax"])
        self.one("[data-value=back]").click()
        self.wait(lambda: self.step() == ["Step 2 of 4: the match"])
        self.press(Keys.ENTER)
        self.wait(lambda: self.step() == ["Step 1 of 4: the query"] and self.focused() == "back")
        self.press(Keys.ENTER)
        self.assertEqual(self.step(), ["Step 1 of 4: the query"])
        self.one("#foot .keys input").click()  # no single keys: Esc is none of them
        self.press(Keys.ESCAPE)
        self.wait(lambda: not self.all("#tour"))
        self.one("#foot .keys input").click()
        self.open("view=story&tour=4", self.pages["both"])
        self.one("[data-value=end]").click()
        self.wait(lambda: not self.all("#tour"))
        self.open("view=story&tour=9", self.pages["both"])
        self.assertEqual(self.all("#tour"), [])

    def test_a_page_without_vectors_says_so(self):
        for step, says in [(1, "Every token asks"), (2, "matched best"), (3, "sum to 1"), (4, "takes 98 % of its answer")]:
            self.open(f"view=story&tour={step}", self.pages["translation"])
            self.assertIn(says, self.one(".tour-text").text)
            self.assertIn("are not part of this page", self.one(".tour .note").text)
        self.one(".primary").click()
        self.wait(lambda: not self.all("#tour"))

    def test_of_a_language_model_and_a_picture(self):
        for name, token in [("next", "a"), ("picture", "[CLS]")]:
            for step in (1, 2, 3, 4):
                self.open(f"view=story&tour={step}", self.pages[name])
                self.assertEqual(self.all(".trouble"), [])
                self.assertNotIn("NaN", self.one("#tour").text)
            self.assertIn(f"{token} takes", self.one(".tour-text").text)


class Words(Story):
    def box(self):
        return self.texts("#explanation")

    def test_every_word_explains_itself(self):
        seen = set()
        for where in ["", "view=model", "view=head&group=1&query=1", "view=inside", "view=story&tour=3", "view=head"]:
            self.open(where, self.pages["both"])
            for n in range(len(self.all(".term"))):
                word = self.js("const w = document.querySelectorAll('.term')[arguments[0]]; w.focus(); return w.dataset.value", n)
                [text] = self.box()
                self.assertGreater(len(text), 60, word)
                seen.add(word)
        self.open("", self.pages["next"])
        seen |= set(self.js("return [...document.querySelectorAll('.term')].map(w => w.dataset.value)"))
        self.assertEqual(seen, {f"word-{name}" for name in ["head", "layer", "query", "key", "softmax", "sink", "entropy"]})

    def test_it_opens_and_closes(self):
        self.open("", self.pages["both"])
        word = self.one(".term")
        word.click()
        self.wait(lambda: len(self.box()) == 1)
        self.assertEqual(word.get_attribute("aria-describedby"), "explanation")
        self.press(Keys.ESCAPE)
        self.wait(lambda: self.box() == [])
        self.assertEqual(self.shown_view(), "story")
        self.js("document.querySelector('.term').blur()")
        ActionChains(self.driver).move_to_element(self.one("h1")).move_to_element(word).perform()
        self.wait(lambda: len(self.box()) == 1)
        ActionChains(self.driver).move_to_element(self.one("h1")).perform()
        self.wait(lambda: self.box() == [])

    def test_on_a_phone_it_stays_on_the_screen(self):
        self.screen(360, 740, phone=True)
        for where in ["", "view=model", "view=story&tour=3"]:
            self.open(where, self.pages["both"])
            for n in range(len(self.all(".term"))):
                left, right, width = self.js("""
                    document.querySelectorAll('.term')[arguments[0]].focus();
                    const b = document.getElementById('explanation').getBoundingClientRect();
                    return [b.left, b.right, document.documentElement.scrollWidth]""", n)
                self.assertGreaterEqual(left, 0)
                self.assertLessEqual(right, 360)
                self.assertLessEqual(width, 360)


# ------------------------------------------------------------------------------------------------ languages

# The page's script sees its own table; a test sees it through the text of the script.
TABLE = """
    const script = document.querySelector('script[type=module]').textContent;
    const from = script.indexOf('const TEXTS = '), end = script.indexOf('\\n};', from);
    return script.slice(from + 'const TEXTS = '.length, end + 2);"""


class Languages(Story):
    VIEWS = ["view=story&group=0", "view=story&group=1", *[f"view=story&group=1&tour={n}" for n in (1, 2, 3, 4)], "view=model",
             "view=model&table=1", "view=model&sort=entropy&own=1", "view=head&group=1&heads=2", "view=head&group=1&query=1&sink=1&words=1",
             "view=head&display=map&group=1&query=1&key=2", "view=head&display=text&group=1&key=1", "view=head&heads=0,4",
             "view=inside&group=2&query=1", "view=steps&step=2", "view=compare&group=0&cell=A,1,1", "view=compare&group=1"]

    def speak(self, languages):
        agent = self.js("return navigator.userAgent")
        self.driver.execute_cdp_cmd("Emulation.setUserAgentOverride", {"userAgent": agent, "acceptLanguage": languages})
        self.addCleanup(self.driver.execute_cdp_cmd, "Emulation.setUserAgentOverride",
                        {"userAgent": agent, "acceptLanguage": "en-US,en"})

    def texts_of_the_page(self):
        """{key: {language: [forms]}}, from the script that the page has."""
        self.open("", self.pages["both"])
        source = self.js(TABLE)
        self.driver.get("about:blank")  # whose policy lets a text become a value
        table = self.js(f"return ({source})")
        forms = lambda x: [x] if isinstance(x, str) else list(x.values())
        return {key: {name: forms(x) for name, x in entry.items()} for key, entry in table.items()}

    def test_both_languages_say_the_same(self):
        table = self.texts_of_the_page()
        self.assertGreater(len(table), 200)
        places = lambda text: sorted(re.findall(r"\{\w+\}|\[\w+:", text))
        for key, entry in table.items():
            with self.subTest(key):
                self.assertEqual(set(entry), {"en", "es"})
                self.assertEqual(len(entry["en"]), len(entry["es"]))
                for english, spanish in zip(entry["en"], entry["es"]):
                    self.assertTrue(english and spanish)
                    self.assertEqual(places(english), places(spanish))

    def test_every_text_is_used(self):
        table = self.texts_of_the_page()
        self.open("", self.pages["both"])
        script = self.js("return document.querySelector('script[type=module]').textContent")
        end = script.index("\n};", script.index("const TEXTS = "))
        code = script[:script.index("const TEXTS = ")] + script[end:]
        families = {*re.findall(r"`(\w+_)\$\{", code), "tourName", "given_"}
        for key in table:
            self.assertTrue(f"'{key}'" in code or any(key.startswith(f) for f in families), key)

    def test_no_english_in_spanish(self):
        table = self.texts_of_the_page()
        # Texts of one word could be tokens, and some are the same in both languages.
        plain = lambda text: re.sub(r"\[\w+:([^\]]+)\]", r"\1", text)
        spanish = " ".join(plain(form) for entry in table.values() for form in entry["es"])
        parts = set()
        for entry in table.values():
            for form in entry["en"]:
                for part in re.split(r"\{\w+\}", plain(form)):
                    part = part.strip(" ,.:;\u00b7%")
                    if len(part) > 3 and part not in spanish:
                        parts.add(part)
        self.assertGreater(len(parts), 200)
        self.speak("es-MX,es,en")
        everything = """
            const out = [document.title];
            for (const e of document.querySelectorAll('body *')) {
              if (e.closest('script, noscript, bdi, #title, #text, .about, .flag')) continue;
              for (const name of ['title', 'aria-label', 'placeholder', 'aria-valuetext']) if (e.hasAttribute(name)) out.push(e.getAttribute(name));
              for (const node of e.childNodes) if (node.nodeType === Node.TEXT_NODE) out.push(node.data);
            }
            for (const e of document.querySelectorAll('.export, p:not(.about), caption, h3, li, label')) out.push(e.textContent);
            return out"""
        for path, where in [*[(self.pages["both"], where) for where in self.VIEWS], (self.pages["next"], ""),
                            (self.pages["picture"], ""), (self.pages["picture"], "view=head"), (self.pages["picture"], "view=model"),
                            (self.pages["translation"], "view=story&tour=2")]:
            with self.subTest(where):
                self.open(where, path)
                self.assertEqual(self.js("return document.documentElement.lang"), "es")
                self.js("for (const w of document.querySelectorAll('.term')) w.focus()")
                texts = [re.sub(r"\s+", " ", t).strip() for t in self.js(everything)]
                whole = "\n".join(texts)
                for part in parts:
                    self.assertIsNone(re.search(rf"(?<!\w){re.escape(part)}(?!\w)", whole), part)
                svg = xml.etree.ElementTree.fromstring(self.saved("SVG"))
                whole = "\n".join(e.text for e in svg.iter(SVG + "text"))
                for part in parts:
                    self.assertIsNone(re.search(rf"(?<!\w){re.escape(part)}(?!\w)", whole), part)

    def test_numbers_have_a_comma_and_files_a_point(self):
        self.speak("es")
        self.open("view=head&group=1&heads=2&query=1", self.pages["both"])
        amounts = [x for x in self.texts("#tokens-key .amount") if x]
        self.assertTrue(all(re.fullmatch(r"[01],\d{2,3}", x) for x in amounts), amounts)
        for row in self.table():
            float(row["weight"])
        self.open("", self.pages["next"])
        self.assertRegex(self.sentence(), r"^a mira a \w+, \d+ %$")

    def test_a_reader_can_choose(self):
        self.open("view=story&group=1", self.pages["both"])
        self.addCleanup(self.js, "localStorage.removeItem('heed-language')")
        self.assertEqual(self.js("return document.documentElement.lang"), "en")
        choose = lambda name: self.js("""
            const s = document.querySelector('#foot select');
            s.value = arguments[0];
            s.dispatchEvent(new Event('change'))""", name)
        choose("es")
        self.wait(lambda: self.texts("#views [aria-selected=true]") == ["Relato"])
        self.assertEqual(self.js("return document.documentElement.lang"), "es")
        self.assertEqual(self.texts("#groups button"), ["Codificador", "Cruzada", "Decodificador"])
        self.open("view=model", self.pages["both"])
        self.assertEqual(self.texts("#views [aria-selected=true]"), ["Modelo"], "the browser remembers it")
        choose("en")
        self.wait(lambda: self.texts("#views [aria-selected=true]") == ["Model"])

    def test_a_language_that_is_not_spoken(self):
        self.speak("fi,de")
        self.open("", self.pages["both"])
        self.assertEqual(self.js("return document.documentElement.lang"), "en")
        self.speak("fi,es")
        self.open("", self.pages["both"])
        self.assertEqual(self.js("return document.documentElement.lang"), "es")

    def test_names_that_heed_gives(self):
        title = "Cross-attention: where the decoder looks in the input while it produces each token."
        path = self.at / "given.html"
        path.write_bytes(made({"groups": [{**CROSS.json(), "title": title}, {**ENCODER.json(), "name": "Mine", "title": "My own"}],
                               "steps": PAGE["steps"]}))
        self.speak("es")
        self.open("view=model&group=0", path)
        self.assertEqual(self.texts("#groups button"), ["Cruzada", "Mine"])
        self.assertTrue(self.texts(".about")[0].startswith("Atención cruzada"))
        self.open("view=model&group=1", path)
        self.assertEqual(self.texts(".about"), ["My own"])

    def test_remarks_on_weights(self):
        path = self.at / "odd.html"
        rows = [[0.5, 0.5], [0.25, 0.25], [0, 0], [None, 1], [-0.5, 1.5]]
        path.write_bytes(made({"groups": [{"weights": {"shape": [5, 2], "values": [w for row in rows for w in row]}}]}))
        self.open("view=head", path)
        self.assertEqual([note.split(": ")[1] for note in self.texts(".note.flag")],
                         ["1 row does not sum to 1 (query 2 sums to 0.5)", "1 row is all zero", "1 weight is not finite", "1 weight is below 0"])
        self.speak("es")
        self.open("view=head", path)
        self.assertEqual([note.split(": ")[1] for note in self.texts(".note.flag")],
                         ["1 fila no suma 1 (la consulta 2 suma 0,5)", "1 fila es toda ceros", "1 peso no es finito", "1 peso es menor que 0"])
        self.open("view=model", path)
        for element in (self.one(".tile"), self.one(".tile .flag")):
            said = element.get_attribute("aria-label") or element.get_attribute("title")
            self.assertIn("1 fila es toda ceros", said)
        path.write_bytes(made({"groups": [{"weights": {"shape": [4, 2], "values": [0.25, 0.25, 0.2, 0.2, 0, 0, 0, 0]}}]}))
        self.open("view=head", path)
        self.assertEqual([note.split(": ")[1] for note in self.texts(".note.flag")],
                         ["2 filas no suman 1 (la consulta 1 suma 0,5)", "2 filas son todo ceros"])

    def test_every_text_that_the_program_gives(self):
        self.speak("es")
        path = self.at / "program.html"
        for arguments in (["--examples"], ["El perro come.", "--model", MODEL]):
            subprocess.run([HEED, "attend", *arguments, "--html", path], capture_output=True, timeout=120, check=True)
            self.open("view=model", path)
            groups = self.js("return JSON.parse(document.getElementById('data').textContent).groups")
            for n, group in enumerate(groups):
                self.open(f"view=model&group={n}", path)
                for given, shown in [(group["name"], self.texts("#groups [aria-selected=true]")),
                                     (group["title"], self.texts(".about")), (group["note"], self.texts("#view > .note"))]:
                    self.assertNotIn(given, shown)

    def test_a_damaged_page_speaks_spanish(self):
        self.speak("es")
        path = self.at / "damaged.html"
        path.write_bytes(self.pages["both"].read_bytes().replace(b'id="data"', b'id="gone"', 1))
        self.driver.get(f"file://{path}")
        self.wait(lambda: self.all(".trouble"))
        self.assertIn("no se pueden leer sus datos", self.texts(".trouble")[0])


if __name__ == "__main__":
    browser.main()
