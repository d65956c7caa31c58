"""The page as it is used: dragged, printed, saved, read aloud, on a phone, damaged, and with weights that are odd."""
import base64
import csv
import io
import json
import math
import pathlib
import random
import re
import subprocess
import unittest
import xml.etree.ElementTree

import browser
from browser import ActionChains, By, Keys
from pages import BOTH, CROSS, DECODER, MODEL, OUTPUT, OUTPUT_WORDS, PAGE, SOURCE, SOURCE_WORDS, Browser, Group, made
from program import HEED

SVG = "{http://www.w3.org/2000/svg}"
VIEWS = ["view=story", "view=story&tour=3", "view=model", "view=model&table=1", "view=head&group=1&query=1", "view=head&display=map&group=1&query=1&key=2",
         "view=head&display=text&group=1&query=1", "view=inside&group=2&query=1", "view=steps&step=2"]


class Use(Browser):
    def press(self, *keys):
        ActionChains(self.driver).send_keys(*keys).perform()

    def shown_view(self):
        return self.js("return document.getElementById('view').dataset.view")

    def point(self, element, x=0, y=0):
        ActionChains(self.driver).move_to_element_with_offset(element, x, y).perform()

    def box(self, selector):
        return self.js("const b = document.querySelector(arguments[0]).getBoundingClientRect();"
                       "return [b.left, b.top, b.width, b.height]", selector)

    def svg(self):
        return xml.etree.ElementTree.fromstring(self.saved("SVG"))

    def words_of(self, svg):
        return [e.text for e in svg.iter(SVG + "text")]

    def spectrum(self):
        """The colours of weights, from 0 to the largest."""
        table = json.loads(self.texts("#data")[0])["colors"]
        return [tuple(int(table[i + at:i + at + 2], 16) for at in (0, 2, 4)) for i in range(0, len(table), 6)]

    def color_of(self, t):
        return self.spectrum()[round(255 * t)]


def mean_row(group, i):
    heads = len(group.weights)
    return [sum(w[i][j] for w in group.weights) / heads for j in range(len(group.keys))]


class Sources(unittest.TestCase):
    def test_no_line_is_long(self):
        """Of what clang-format does not know, too."""
        files = sorted((pathlib.Path(__file__).resolve().parents[2] / "src/view/page").iterdir())
        self.assertGreater(len(files), 20)
        for path in files:
            for n, line in enumerate(path.read_text().splitlines()):
                self.assertLessEqual(len(line), 120, f"{path.name}:{n + 1}")


# ------------------------------------------------------------------------------------------------ steps

class Steps(Use):
    def test_the_slider_can_be_dragged(self):
        self.open("view=steps&step=0")
        slider = self.one("#step")
        self.js("""
            window.slider = document.getElementById('step');
            window.passed = [];
            slider.addEventListener('input', () => passed.push(slider.value));""")
        width = slider.size["width"]
        chain = ActionChains(self.driver).move_to_element_with_offset(slider, 8 - width // 2, 0).click_and_hold()
        for _ in range(6):
            chain.move_by_offset((width - 16) // 6, 0).pause(0.1)
        chain.move_by_offset(8, 0).perform()
        self.wait(lambda: self.texts("#produced .now") == [OUTPUT[-1]])
        self.assertGreaterEqual(len(set(self.js("return passed"))), 4, "steps on the way")
        self.assertTrue(self.js("return document.getElementById('step') === slider && document.activeElement === slider"))
        ActionChains(self.driver).release().perform()
        self.assertEqual(self.texts("#tools output"), ["6 / 6"])
        self.assertEqual(slider.get_attribute("aria-valuetext"), f"6: {OUTPUT[-1]}")
        self.press(Keys.ARROW_LEFT)
        self.wait(lambda: self.texts("#produced .now") == [OUTPUT[-2]])
        self.press(Keys.ARROW_LEFT)
        self.wait(lambda: self.texts("#produced .now") == [OUTPUT[-3]])
        self.wait(lambda: "step=3" in self.driver.current_url)

    def test_playing_leaves_the_tools(self):
        self.open("view=steps&step=3")
        self.js("window.slider = document.getElementById('step')")
        self.one("#tools [data-value=play]").click()
        self.wait(lambda: self.one("#tools [data-value=play]").text == "stop")
        self.wait(lambda: self.texts("#produced .now") == [OUTPUT[-1]])
        self.wait(lambda: self.one("#tools [data-value=play]").text == "play")
        self.assertTrue(self.js("return document.getElementById('step') === slider"))

    def test_one_weight_has_one_colour(self):
        rows = [mean_row(g, i) for g in (CROSS, DECODER) for i in range(6)]
        alignment = []
        for word in range(5):
            of_word = [i for i in range(6) if OUTPUT_WORDS[i] == word]
            alignment.append([sum(mean_row(CROSS, i)[j] for i in of_word for j in range(7) if SOURCE_WORDS[j] == s) / len(of_word)
                              for s in range(6)])
        top = max(max(row) for row in rows + alignment)
        near = lambda got, t: self.assertLessEqual(
            max(abs(a - b) for a, b in zip(got, self.color_of(min(1, max(0, t))))), 6, (got, t))
        for step in (0, 4):
            self.open(f"view=steps&step={step}")
            for chips, group in (("#input-chips", CROSS), ("#before-chips", DECODER)):
                fills = self.js(
                    "return [...document.querySelectorAll(arguments[0])].map(c => getComputedStyle(c).backgroundColor)",
                    chips + " .chip")
                for fill, w in zip(fills, mean_row(group, step)):
                    near([int(c) for c in re.findall(r"\d+", fill)], w / top)
        self.assertEqual(self.texts("#tools .scale"), ["0" + (f"{top:.2f}" if top >= 0.995 else f"{top:.3f}")])
        [image] = self.svg().iter(SVG + "image")
        pixels = self.driver.execute_async_script("""
            const [address, done] = arguments, image = new Image();
            image.onload = () => {
              const context = new OffscreenCanvas(6, 5).getContext('2d');
              context.drawImage(image, 0, 0);
              done([...context.getImageData(0, 0, 6, 5).data]);
            };
            image.src = address;""", image.get("href"))
        for n in range(30):
            near(pixels[4 * n:4 * n + 3], alignment[n // 6][n % 6] / top)
        self.tool("lift faint weights")
        lifted = "return getComputedStyle(document.querySelector('#input-chips .chip')).backgroundColor"
        t = math.sqrt(mean_row(CROSS, 4)[0] / top)
        self.wait(lambda: max(abs(int(a) - b) for a, b in zip(re.findall(r"\d+", self.js(lifted)), self.color_of(t))) <= 6)


# ------------------------------------------------------------------------------------------------ what the program opens

class Opening(Use):
    def attend(self, *arguments):
        path = self.at / "asked.html"
        done = subprocess.run([HEED, "attend", *arguments, "--html", path], capture_output=True, timeout=120, check=False)
        self.assertEqual((done.returncode, done.stdout), (0, b""), done.stderr.decode())
        self.open("", path)

    def chosen(self):
        return self.js("return [...document.querySelectorAll('.pick[aria-pressed=true]')].map(p => Number(p.dataset.head))")

    def test_on_the_head_that_was_asked_for(self):
        text = ["El perro come.", "--model", MODEL]
        self.attend(*text, "--title", "A title", "--cross", "--layer", "1", "--head", "3")
        self.assertEqual((self.texts("h1"), self.driver.title), (["A title"], "A title"))
        self.assertEqual(self.texts("#groups [aria-selected=true]"), ["Cross"])
        self.assertEqual((self.shown_view(), self.chosen()), ("head", [2]))
        self.attend(*text, "--encoder")
        self.assertEqual((self.texts("#groups [aria-selected=true]"), self.shown_view()), (["Encoder"], "model"))
        self.attend(*text, "--decoder", "--heads", "1,4")
        heads = self.js("return JSON.parse(document.getElementById('data').textContent).groups[1].heads")
        layers = self.js("return JSON.parse(document.getElementById('data').textContent).groups[1].layers")
        last = (layers - 1) * heads
        self.assertEqual((self.texts("#groups [aria-selected=true]"), self.chosen()), (["Decoder"], [last, last + 3]))
        self.attend(*text, "--layer", "2")  # the mean of its heads, as in the terminal
        self.assertEqual(self.texts("#groups [aria-selected=true]"), ["Cross"])
        self.assertEqual(self.chosen(), list(range(heads, 2 * heads)))
        self.assertEqual(self.texts(".stagehead"), ["layer 2, mean of all heads"])
        self.attend(*text)
        self.assertEqual((self.texts("#groups [aria-selected=true]"), self.shown_view()), (["Cross"], "story"))

    def test_the_address_comes_first(self):
        path = self.at / "opening.html"
        path.write_bytes(made({**PAGE, "opening": {"group": 1, "heads": [4], "query": 2}}))
        self.open("", path)
        self.assertEqual((self.chosen(), self.texts(".detail h2")), ([4], [OUTPUT[2]]))
        self.open("view=head&group=0&heads=1", path)
        self.assertEqual(self.chosen(), [1])
        self.assertEqual(self.texts(".detail h2"), [])


# ------------------------------------------------------------------------------------------------ maps

class Maps(Use):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.both = cls.at / "both.html"
        cls.both.write_bytes(made(BOTH))

    def test_pointing_makes_no_map_anew(self):
        for where, map_ in [("view=head&display=map&heads=1", "#map"), ("view=compare&group=0&heads=1", "#map-A")]:
            self.open(where, self.both)
            self.js("""
                window.made = 0;
                for (const name of ['putImageData', 'createImageData', 'fillText']) {
                  const was = CanvasRenderingContext2D.prototype[name];
                  CanvasRenderingContext2D.prototype[name] = function(...given) {
                    ++made;
                    return was.apply(this, given);
                  };
                }""")
            canvas = self.one(map_)
            self.js("arguments[0].scrollIntoView({block: 'center'})", canvas)
            for step in range(4):
                self.point(canvas, 10 * step, 10 * step)
            self.wait(lambda: self.js("return made") > 0)  # labels in bold
            self.assertLess(self.js("return made"), 40, where)
            self.js("window.made = 0; for (const c of document.querySelectorAll('canvas')) c.getContext('2d')")

    def test_a_wide_map_fits(self):
        n, heads = 512, 12
        tokens = [f"token{i}" for i in range(n)]
        rows = [[1 if j == i else 0 for j in range(n)] for i in range(n)]
        values = [x for _ in range(heads) for row in rows for x in row]
        path = self.at / "wide.html"
        path.write_bytes(made({"title": "wide", "groups": [{"queries": tokens, "keys": tokens,
                                                            "weights": {"shape": [heads, n, n], "values": values}}]}))
        self.screen(1440, 900)
        self.open("view=head&display=map", path)
        inner, outer = self.js("const s = document.getElementById('map').parentElement; return [s.scrollWidth, s.clientWidth]")
        self.assertLessEqual(inner, outer)
        map_, detail = self.box("#map"), self.box(".detail")
        self.assertLessEqual(map_[0] + map_[2], detail[0])
        self.assertGreater(map_[2], 0.9 * outer, "it takes the place it has")

    def test_nothing_jumps_between_displays(self):
        self.open("view=head&group=1&heads=2&query=1")
        places = {}
        for name in ["lines", "map", "text"]:
            self.one(f"#tools [data-value={name}]").click()
            self.wait(lambda: self.texts("#tools [aria-pressed=true]") == [name.capitalize()])
            content = {"lines": ".bipartite", "map": "#map", "text": "#stage .flow"}[name]
            places[name] = [self.box("#bar")[3], self.box("#picker")[:2], self.box(".stagehead"), self.box(".detail")[:3],
                            self.box(f"#tools [data-value={name}]")[1], self.texts(".detail h2")]
            self.assertEqual(self.texts(".detail h2"), [OUTPUT[1]], "the token that was pinned stays")
            self.assertGreater(self.box(content)[3], 20)
        self.assertEqual(places["lines"], places["map"])
        self.assertEqual(places["lines"], places["text"])

    def test_pointing_moves_no_line(self):
        self.open("view=head&group=1&heads=2")
        before = self.box(".middle")
        for element in [*self.all("#tokens-query li"), *self.all("#tokens-key li")]:
            self.point(element)
            self.wait(lambda: element.get_attribute("aria-selected") == "true")
            self.assertEqual(self.box(".middle"), before)


# ------------------------------------------------------------------------------------------------ damaged

class Damaged(Use):
    def says(self, html, *words, before=None):
        path = self.at / "damaged.html"
        path.write_bytes(html)
        self.driver.get("about:blank")
        with self.before(before or ""):
            self.driver.get(f"file://{path}#group=0")
            self.wait(lambda: self.all(".trouble"), "the page says nothing")
        [text] = self.texts("#view")
        for word in words:
            self.assertIn(word, text)
        self.assertNotIn("\n", text.strip())

    def test_data_and_blocks(self):
        whole = self.page.read_bytes()
        self.says(whole.replace(b'"groups":', b'"groups"', 1), "This page is damaged: its data cannot be read.", "again")
        self.says(whole.replace(b'id="data"', b'id="gone"', 1), "its data cannot be read")
        self.says(whole.replace(b'id="block0"', b'id="gone"', 1), "block 0 is missing")
        at = whole.index(b'id="block0">') + len(b'id="block0">') + 40
        self.says(whole[:at] + b"AAAA" + whole[at + 4:], "block 0 cannot be unpacked")
        self.says(whole[:at] + b"****" + whole[at + 4:], "block 0 cannot be unpacked")
        # Another block in its place: whole, but of another size.
        other = re.search(rb'id="block1">([^<]*)<', whole)[1]
        block = re.search(rb'id="block2">([^<]*)<', whole)[1]
        self.assertNotEqual(len(other), len(block))
        self.says(whole.replace(re.search(rb'id="block0">([^<]*)<', whole)[1],
                                re.findall(rb'id="block(\d+)">([^<]*)<', whole)[-1][1], 1), "block 0 cannot be unpacked")

    def test_another_tab_is_still_shown(self):
        whole = self.page.read_bytes()
        cross = json.loads(re.search(rb'id="data">(.*?)</script>', whole)[1])["groups"][1]["weights"][0]
        path = self.at / "half.html"
        path.write_bytes(whole.replace(b'id="block%d"' % cross, b'id="gone"', 1))
        self.open("view=head&group=0", path)
        self.one("#groups [data-value='1']").click()
        self.wait(lambda: self.all(".trouble"))
        self.assertIn(f"block {cross} is missing", self.texts("#view")[0])
        self.one("#groups [data-value='2']").click()
        self.wait(lambda: self.all("#tokens-query"))

    def test_a_browser_that_cannot_unpack(self):
        self.says(self.page.read_bytes(), "no DecompressionStream", before="delete window.DecompressionStream")

    def test_a_file_that_ends_too_soon(self):
        whole = self.page.read_bytes()
        path = self.at / "cut.html"
        path.write_bytes(whole[:whole.index(b'id="block1"')])
        self.driver.get("about:blank")
        self.driver.get(f"file://{path}")
        self.assertFalse(self.one(".cut").is_displayed() and
                         self.js("return getComputedStyle(document.querySelector('.cut')).visibility") == "visible")
        self.wait(lambda: self.js("return getComputedStyle(document.querySelector('.cut')).visibility") == "visible")
        self.assertIn("the file is not whole", self.texts(".cut")[0])


# ------------------------------------------------------------------------------------------------ files

class Files(Use):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.both = cls.at / "both.html"
        cls.both.write_bytes(made(BOTH))

    def name(self, kind):
        self.saved(kind)
        [path] = self.downloads.iterdir()
        return path.name

    def test_text_is_saved_as_text(self):
        self.open("view=head&display=text&group=1&heads=2&query=1")
        svg = self.svg()
        words = self.words_of(svg)
        for token in SOURCE + OUTPUT:
            self.assertIn(token, words)
        self.assertEqual(list(svg.iter(SVG + "path")), [], "no lines")
        self.assertIn("1.00   shade of a weight", words)
        self.assertEqual(self.texts("#stage .scale"), ["01.00"])
        at = {e.text: (float(e.get("x")), float(e.get("y"))) for e in svg.iter(SVG + "text")}
        self.assertEqual(at["El"][1], at["per"][1], "tokens stand beside each other")

    def test_every_file_has_its_scale(self):
        for where, path, scales in [
                ("view=model", None, 1), ("view=head&display=map", None, 1), ("view=head&display=text&query=1", None, 1),
                ("view=inside&group=1", None, 2), ("view=steps", None, 1), ("view=compare", self.both, 2)]:
            self.open(where, path)
            narrow = [e for e in self.svg().iter(SVG + "rect") if (e.get("width"), e.get("height")) == ("2", "12")]
            self.assertEqual(len(narrow), 60 * scales, where)
            self.assertGreater(len({e.get("fill") for e in narrow}), 30, where)

    def test_inside_is_saved_as_the_table(self):
        for where, masked in [("view=inside&group=1&heads=4&query=3", False), ("view=inside&group=2&heads=1&query=1", False)]:
            self.open(where)
            words = self.words_of(self.svg())
            self.assertEqual("mask" in words, masked, where)
            for name in ["q·k", "exp", "weight", "weight × v", "sum", "output"]:
                self.assertIn(name, words, where)
            for cell in self.texts(".steps-table tbody .value"):
                self.assertIn(cell, words, where)

    def test_a_mask_is_saved_where_there_is_one(self):
        path = self.at / "masked.html"
        done = subprocess.run([HEED, "attend", "--examples", "--html", path], capture_output=True, timeout=120, check=False)
        self.assertEqual(done.returncode, 0)
        self.open("view=inside&group=2&query=1", path)
        words = self.words_of(self.svg())
        self.assertIn("mask", words)
        self.assertEqual(words.count("−∞"), 3)

    def test_compared_numbers_are_saved(self):
        self.open("view=compare&group=0&heads=2&cell=A,1,1", self.both)
        words = self.words_of(self.svg())
        numbers = [w for w in words if re.fullmatch(r"[+−]?\.\d\d|[+−]?1\.00", w)]
        self.assertGreater(len(numbers), 60)
        self.assertTrue(any(w.startswith("A: per attends to per with ") for w in words), words)

    def test_files_are_light(self):
        self.screen(1300, 900, dark=True)
        for where in ["view=model", "view=head&group=1", "view=head&display=map", "view=inside", "view=steps"]:
            self.open(where)
            svg = self.svg()
            self.assertEqual(next(svg.iter(SVG + "rect")).get("fill"), "#ffffff", where)
            self.assertIn("#1d1d2b", {e.get("fill") for e in svg.iter(SVG + "text")}, where)
            self.assertEqual(self.js("return getComputedStyle(document.body).backgroundColor"), "rgb(18, 18, 31)")
        [image, *_] = self.svg().iter(SVG + "image")
        self.assertTrue(image.get("href").startswith("data:image/png"))

    def test_names_say_which_head(self):
        for where, name in [("view=head&group=1&heads=5", "attention-head-cross-layer-2-head-3.svg"),
                            ("view=head&group=1&heads=3,4,5", "attention-head-cross-layer-2.svg"),
                            ("view=head&group=0&heads=0,4", "attention-head-encoder-heads-1.1+2.2.svg"),
                            ("view=inside&group=0&heads=1&query=2", "attention-inside-encoder-layer-1-head-2-query-3.svg"),
                            ("view=steps&step=1", "attention-steps-step-2.svg"), ("view=model", "attention-model-encoder.svg")]:
            self.open(where)
            self.assertEqual(self.name("SVG"), name)

    def test_a_spreadsheet_computes_nothing(self):
        tokens = ["=HYPERLINK(\"http://127.0.0.1\")", "+1", "-2", "@SUM(A1)", "plain", "a=b", "-"]
        path = self.at / "formulas.html"
        path.write_bytes(made({"groups": [Group("g", tokens, tokens, layers=1, heads=1).json()]}))
        self.open("view=head", path)
        raw = self.saved("CSV")
        self.assertEqual(raw[:3], b"\xef\xbb\xbf")
        rows = list(csv.DictReader(io.StringIO(raw.decode("utf-8-sig"), newline="")))
        shown = {int(r["key"]): r["key token"] for r in rows}
        self.assertEqual([shown[n + 1] for n in range(7)], ["'" + t if t[0] in "=+-@" else t for t in tokens])
        self.assertTrue(all(float(r["weight"]) > 0 for r in rows))


# ------------------------------------------------------------------------------------------------ paper

class Paper(Use):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.long = cls.at / "long.html"
        words = [f"word{i}" for i in range(52)]
        group = Group("Cross", words, words, layers=1, heads=2, size=8, step_keys="input")
        cls.long.write_bytes(made({"title": "Fifty-two words", "text": " ".join(words), "groups": [group.json()],
                                   "compared": [group.json()], "compared_title": "The same",
                                   "steps": [{"token": w, "candidates": [[w, 0.8]]} for w in words]}))

        cls.examples = cls.at / "examples.html"
        subprocess.run([HEED, "attend", "--examples", "--html", cls.examples], capture_output=True, timeout=120, check=True)

    def sheets(self):
        pdf = base64.b64decode(self.driver.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})["data"])
        return len(re.findall(rb"/Type\s*/Page\b", pdf))

    def test_52_keys_take_one_sheet(self):
        for where in ["view=story", "view=model", "view=head", "view=head&query=3", "view=head&display=map", "view=head&display=text",
                      "view=inside", "view=steps", "view=compare"]:
            with self.subTest(where):
                self.open(where, self.long)
                self.assertEqual(self.sheets(), 1)

    def test_a_wide_table_is_not_cut(self):
        self.open("view=inside&group=2&query=2", self.examples)
        self.js("dispatchEvent(new Event('beforeprint'))")
        self.screen(718, 980)
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
        self.wait(lambda: self.box(".steps-table")[2] <= 718, self.box(".steps-table"))
        self.assertGreater(self.box(".steps-table")[2], 400)
        self.js("dispatchEvent(new Event('afterprint'))")

    def test_scale_and_choice_are_on_paper(self):
        self.open("view=head&display=map&group=1&heads=4&lift=1")
        self.assertFalse(self.one(".printed").is_displayed())
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
        self.assertTrue(self.one("#tools .scale").is_displayed())
        self.assertEqual(self.texts(".printed"), ["Head · Cross · layer 2, head 2 · Map · lift faint weights"])
        self.assertTrue(self.one(".printed").is_displayed())
        self.assertTrue(self.one(".side .chosen").is_displayed())
        for selector in (".hint", "#tools .segments", "#picker", ".keys"):
            self.assertFalse(self.one(selector).is_displayed(), selector)
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
        self.open("view=head&group=1&heads=0,4&threshold=0.1")
        self.assertEqual(self.texts(".printed"), ["Head · Cross · mean of 2 heads · Lines · weights from 0.100"])


# ------------------------------------------------------------------------------------------------ odd weights

NAN = None
ODD = [[0.5, -0.4, 0.1, 0.0], [NAN, 0.6, 0.2, -0.9], [0.25, 0.25, 0.25, 0.25], [-0.1, 0.0, 0.0, 1.2]]


def luminance(rgb):
    linear = [c / 255 / 12.92 if c / 255 <= 0.04045 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in rgb]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


class OddWeights(Use):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.tokens = ["a", "b", "c", "d"]
        values = [x for row in ODD for x in row] + [0.25] * 16
        cls.page.write_bytes(made({"title": "odd", "groups": [
            {"queries": cls.tokens, "keys": cls.tokens, "weights": {"shape": [2, 4, 4], "values": values}}]}))

    def pixels(self, selector):
        """Of a canvas, scaled to a pixel a weight: the most light and the least of each cell, and its colour."""
        return self.js("""
            const c = document.querySelector(arguments[0]), data = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
            const size = c.width / 4;
            return Array.from({length: 16}, (_, n) => {
              const seen = [];
              for (let y = 0; y < size; ++y)
                for (let x = 0; x < size; ++x) {
                  const at = 4 * ((Math.floor(n / 4) * size + y) * c.width + (n % 4) * size + x);
                  seen.push([...data.slice(at, at + 3)]);
                }
              return seen;
            })""", selector)

    def test_signs_and_stripes_in_a_small_map(self):
        for dark in (False, True):
            self.screen(1300, 900, dark=dark)
            self.open("view=model")
            cells = self.pixels(".tile canvas")
            for n, seen in enumerate(cells):
                w = ODD[n // 4][n % 4]
                if w is None:
                    self.assertEqual(len({tuple(c) for c in seen}), 2, "stripes")
                    continue
                [color] = {tuple(c) for c in seen}
                if abs(w) > 0.15:
                    self.assertEqual(color[2] > color[0], w > 0, (w, color))

    def test_ends_of_the_scale_differ_in_grey(self):
        for dark in (False, True):
            self.screen(1300, 900, dark=dark)
            self.open("view=head&display=map")
            ends = self.js("""
                const c = document.querySelector('#tools canvas.bar'), data = c.getContext('2d').getImageData(0, 0, c.width, 1).data;
                return [[...data.slice(0, 3)], [...data.slice(-4, -1)]]""")
            low, high = (luminance(c) for c in ends)
            self.assertGreater((max(low, high) + 0.05) / (min(low, high) + 0.05), 3, ends)
            self.assertEqual(self.texts("#tools .scale"), ["−1.201.20"])

    def test_numbers_and_remarks(self):
        self.open("view=head&query=1")
        self.assertEqual(self.texts("#tokens-key .amount"), ["NaN", "0.600", "0.200", "−0.900"])
        self.assertEqual(self.texts("#tokens-key .hatched bdi"), ["a"])
        says = self.one(".detail").text
        self.assertIn("This row has 1 weight that is not finite.", says)
        self.assertIn("This row has 1 weight below 0.", says)
        got = {(int(r["query"]), int(r["key"])): float(r["weight"]) for r in self.table() if r["key"]}
        for i, row in enumerate(ODD):
            for j, w in enumerate(row):
                if w is None:
                    self.assertTrue(math.isnan(got[i + 1, j + 1]))
                else:
                    self.assertAlmostEqual(got.get((i + 1, j + 1), 0), w, delta=1e-4)

    def test_lines_and_files(self):
        self.open("view=head&threshold=0.05")
        dashes = [e.get("stroke-dasharray") for e in self.svg().iter(SVG + "path")]
        self.assertEqual(dashes.count("5 4"), 3, "below 0")
        self.assertEqual(dashes.count("1 4"), 1, "not finite")
        self.assertIn("dashed: below 0", self.words_of(self.svg()))
        self.open("view=head&display=map")
        words = self.words_of(self.svg())
        self.assertIn("−.40", words)
        self.assertIn("−1.20", words)  # the scale
        self.assertNotIn("NaN", words)

    def test_every_view_shows_them(self):
        path = self.at / "everywhere.html"
        odd = {"name": "Odd", "queries": self.tokens, "keys": self.tokens, "query_words": [0, 1, 1, 2], "key_words": [0, 1, 1, 2],
               "step_keys": "input", "weights": {"shape": [2, 4, 4], "values": [x for row in ODD for x in row] * 2}}
        path.write_bytes(made({"title": "odd", "groups": [odd], "compared": [{**odd, "step_keys": ""}],
                               "steps": [{"token": t, "candidates": []} for t in self.tokens]}))
        for where in ["view=model&own=1&lift=1", "view=model&table=1", "view=model&sort=entropy", "view=head&sink=1&query=0",
                      "view=head&words=1&key=1", "view=head&heads=0,1&query=1", "view=head&display=text&query=1",
                      "view=head&display=map&lift=1&query=1&key=0", "view=steps&step=1", "view=compare&cell=A,1,0"]:
            with self.subTest(where):
                self.open(where, path)
                self.assertEqual(self.all(".trouble"), [])
                self.assertEqual(self.svg().tag, SVG + "svg")
                self.assertTrue(self.table())
                for text in self.texts("#view"):
                    self.assertNotIn("undefined", text)
        self.open("view=steps&step=1", path)
        self.assertEqual(self.texts("#input-chips .hatched bdi"), ["a"])

    def test_long_rows_keep_the_largest_sizes(self):
        n, normal = 120, random.Random(3).gauss
        rows = [[normal(0, 0.05) for _ in range(n)] for _ in range(6)]
        rows[4][77] = None
        path = self.at / "long.html"
        path.write_bytes(made({"groups": [{"weights": {"shape": [6, n], "values": [x for row in rows for x in row]}}]}))
        self.open("view=head", path)
        kept, left = {}, {}
        for r in self.table():
            if r["key"]:
                kept.setdefault(int(r["query"]) - 1, {})[int(r["key"]) - 1] = float(r["weight"])
            else:
                left[int(r["query"]) - 1] = float(r["weight"])
        for i, row in enumerate(rows):
            size = lambda j: math.inf if row[j] is None else abs(row[j])
            self.assertEqual(set(kept[i]), set(sorted(range(n), key=size)[-48:]))
            for j, w in kept[i].items():
                if row[j] is None:
                    self.assertTrue(math.isnan(w))
                else:
                    self.assertAlmostEqual(w, row[j], delta=0.01 * max(abs(x or 0) for x in row))
            self.assertAlmostEqual(left[i], sum(abs(x) for j, x in enumerate(row) if j not in kept[i]), delta=1e-4)

    def test_usual_pages_have_one_sided_colours(self):
        path = self.at / "usual.html"
        path.write_bytes(made(PAGE))
        self.open("view=head&display=map", path)
        self.assertTrue(self.texts("#tools .scale")[0].startswith("0"))


# ------------------------------------------------------------------------------------------------ keys

class Shortcuts(Use):
    def test_after_a_box_or_a_slider(self):
        self.open("view=head&heads=0")
        self.one("#threshold").click()
        self.press("]")
        self.wait(lambda: self.all(".pick[data-head='1'][aria-pressed=true]"))
        self.tool("hide the sink")
        self.wait(lambda: self.all("#hidden-note"))
        self.press("]")
        self.wait(lambda: self.all(".pick[data-head='2'][aria-pressed=true]"))
        self.press("2")
        self.wait(lambda: self.shown_view() == "model")

    def test_they_can_be_switched_off(self):
        self.open("view=head&heads=0")
        switch = lambda: self.one("#foot .keys input")
        self.assertTrue(switch().is_selected())
        switch().click()
        self.press("2", "]")
        self.one("#groups [data-value='1']").click()  # something that is drawn after the keys
        self.wait(lambda: "group=1" in self.driver.current_url)
        self.assertEqual(self.shown_view(), "head")
        self.assertFalse(switch().is_selected())
        self.open("view=head&heads=0")
        self.assertFalse(switch().is_selected(), "the browser remembers it")
        switch().click()
        self.press("2")
        self.wait(lambda: self.shown_view() == "model")

    def test_the_foot_names_what_is_there(self):
        self.open()
        self.assertTrue(self.one(".keys").text.endswith("1–5 views [ ] heads { } layers arrows move Enter choose or pin Esc let go"),
                        self.one(".keys").text)
        path = self.at / "alone.html"
        path.write_bytes(made({"groups": [{"weights": {"shape": [1, 1], "values": [1]}}]}))
        self.open("", path)
        self.assertTrue(self.one(".keys").text.endswith("1–3 views arrows move Enter choose or pin Esc let go"),
                        self.one(".keys").text)
        path.write_bytes(made({"groups": [{**CROSS.json(), "vectors": []}], "steps": PAGE["steps"]}))
        self.open("view=model", path)
        self.assertEqual(self.texts("#views button"), ["Story", "Model", "Head", "Steps"])
        self.assertIn("1–4 views", self.one(".keys").text)
        self.press("4")
        self.wait(lambda: self.shown_view() == "steps")


# ------------------------------------------------------------------------------------------------ everyone

CONTRASTS = """
    const parse = text => {
      const p = text.match(/[\\d.]+/g).map(Number);
      return {rgb: p.slice(0, 3), a: p.length > 3 ? p[3] : 1};
    };
    const over = (top, below) => top.rgb.map((c, i) => c * top.a + below[i] * (1 - top.a));
    const light = rgb => {
      const [r, g, b] = rgb.map(c => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4));
      return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const ground = element => {
      const layers = [];
      for (let e = element; e; e = e.parentElement) {
        const style = getComputedStyle(e), color = style.backgroundColor;
        if (color.startsWith('color(')) {
          const p = color.match(/[\\d.]+/g).map(Number);
          layers.push({rgb: p.slice(0, 3).map(x => 255 * x), a: p[3] ?? 1});
        } else
          layers.push(parse(color));
      }
      return layers.reverse().reduce((below, top) => over(top, below), [255, 255, 255]);
    };
    const poor = [];
    let count = 0;
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    for (let node; node = walker.nextNode();) {
      const element = node.parentElement;
      if (!node.textContent.trim() || element.closest('script, .unseen, :disabled, option, noscript, svg')) continue;
      if (!element.checkVisibility({visibilityProperty: true})) continue;
      const style = getComputedStyle(element);
      let opacity = 1;
      for (let e = element; e; e = e.parentElement) opacity *= Number(getComputedStyle(e).opacity);
      const back = ground(element), text = over({rgb: parse(style.color).rgb, a: parse(style.color).a * opacity}, back);
      const [a, b] = [light(text), light(back)];
      ++count;
      const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
      if (ratio < 4.5) poor.push([ratio.toFixed(2), element.tagName, element.className, node.textContent.slice(0, 30)]);
    }
    return [count, poor]"""


class Everyone(Use):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.page.write_bytes(made(BOTH))
        cls.examples = cls.at / "examples.html"
        subprocess.run([HEED, "attend", "--examples", "--html", cls.examples], capture_output=True, timeout=120, check=True)

    def test_contrast(self):
        for dark in (False, True):
            self.screen(1300, 900, dark=dark, reduced=True)
            pages = [(where, self.page) for where in [*VIEWS, "view=compare&cell=A,1,1", "view=head&group=1&sink=1&key=2",
                                                      "view=head&heads=0,1,2,3,4,5&query=2"]]
            for where, path in [*pages, ("view=inside&group=2&query=1", self.examples)]:
                with self.subTest(where, dark=dark):
                    self.open(where, path)
                    count, poor = self.js(CONTRASTS)
                    self.assertGreater(count, 20)
                    self.assertEqual(poor, [])

    def test_lines_are_read_out(self):
        self.open("view=head&group=1&heads=2")
        said = lambda: self.one("#say").get_attribute("textContent")
        percent = lambda w: f"{100 * w:.0f} %" if w >= 0.1 else f"{100 * w:.1f} %"
        self.js("document.querySelector('#tokens-query li').focus()")
        self.press(Keys.ARROW_DOWN)
        row = CROSS.weights[2][1]
        order = sorted((j for j in range(7) if row[j] >= 0.005), key=lambda j: -row[j])[:5]
        self.wait(lambda: said() == f"{OUTPUT[1]}: " + ", ".join(f"{SOURCE[j]} {percent(row[j])}" for j in order), said())
        self.js("document.querySelectorAll('#tokens-key li')[3].focus()")
        self.wait(lambda: said().startswith(f"{SOURCE[3]}, looked at by: "))

    def test_tabs_say_what_they_control(self):
        self.open()
        for tab in self.all("[role=tab]"):
            target = self.one("#" + tab.get_attribute("aria-controls"))
            self.assertEqual(target.get_attribute("role"), "tabpanel")
        self.assertEqual(self.one("#view").get_attribute("aria-label"), "Story")

    def test_the_readers_text_is_not_called_english(self):
        for where in [*VIEWS, "view=compare"]:
            self.open(where)
            english = self.js("""
                return [...document.querySelectorAll('h1, #text, bdi, .flow, .chips, option')].filter(
                    e => e.textContent.trim() && (e.tagName !== 'OPTION' || e.closest('[aria-label=Query]')) &&
                        (e.closest('[lang]').lang !== '')).map(e => e.outerHTML.slice(0, 90))""")
            self.assertEqual(english, [], where)
        self.assertEqual(self.js("return document.documentElement.lang"), "en")

    def test_forced_colours_keep_the_choice(self):
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": [
            {"name": "forced-colors", "value": "active"}, {"name": "prefers-color-scheme", "value": "dark"}]})
        self.open("view=head&group=1&heads=2&query=1")
        self.assertTrue(self.js("return matchMedia('(forced-colors: active)').matches"))
        look = lambda s: self.js("const c = getComputedStyle(document.querySelector(arguments[0]));"
                                 "return [c.backgroundColor, c.outlineStyle, c.outlineWidth]", s)
        for on, off in [("#views [aria-selected=true]", "#views [aria-selected=false]"),
                        (".segments [aria-pressed=true]", ".segments [aria-pressed=false]"),
                        (".pick[aria-pressed=true]", ".pick[aria-pressed=false]"),
                        ("#tokens-query .looked", "#tokens-query li:not(.looked)")]:
            self.assertNotEqual(look(on), look(off), on)

    def test_more_than_eight_heads_can_be_told_apart(self):
        path = self.at / "heads.html"
        path.write_bytes(made({"title": "twenty heads", "groups": [
            Group("g", SOURCE, SOURCE, layers=2, heads=10).json()]}))
        self.open("view=head&heads=" + ",".join(map(str, range(20))), path)
        looks = self.js("""return [...document.querySelectorAll('.swatch')].map(s => {
            const c = getComputedStyle(s, '::before');
            return c.backgroundColor + c.backgroundImage;
        })""")
        self.assertEqual((len(looks), len(set(looks))), (20, 20))
        strokes = {(e.get("stroke"), e.get("stroke-dasharray")) for e in self.svg().iter(SVG + "path")}
        self.assertEqual(len(strokes), 20)


# ------------------------------------------------------------------------------------------------ phones

class Phone(Use):
    def tearDown(self):
        self.driver.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": False})
        super().tearDown()

    def test_on_its_side_nothing_sticks(self):
        self.screen(844, 390, phone=True)
        self.open("view=head")
        self.js("scrollTo(0, 300)")
        self.assertEqual(self.js("return getComputedStyle(document.getElementById('bar')).position"), "static")
        self.assertLess(sum(self.box("#bar")[1::2]), 60)

    def test_the_first_map_is_near_the_top(self):
        path = self.at / "sentence.html"
        done = subprocess.run([HEED, "attend", "El perro tiene el pelo suelto.", "--model", MODEL, "--html", path],
                              capture_output=True, timeout=120, check=False)
        self.assertEqual(done.returncode, 0)
        self.screen(390, 844, phone=True)
        self.open("view=model", path)
        self.assertLess(self.box(".tile canvas")[1], 300)

    def tap(self, element):
        self.js("arguments[0].scrollIntoView({block: 'center'})", element)
        x, y, w, h = self.js("const b = arguments[0].getBoundingClientRect(); return [b.left, b.top, b.width, b.height]", element)
        for kind, points in [("touchStart", [{"x": x + w / 2, "y": y + h / 2}]), ("touchEnd", [])]:
            self.driver.execute_cdp_cmd("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

    def test_the_first_tap_shows_figures(self):
        self.screen(390, 844, phone=True)
        self.driver.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": True})
        self.open("view=model")
        self.tap(self.all(".tile")[4])
        self.wait(lambda: self.texts(".detail h2") == ["layer 2, head 2"])
        self.assertEqual(self.shown_view(), "model")
        detail = self.box(".detail")
        self.assertLessEqual(detail[1] + detail[3], 845, "the figures are on the screen")
        self.assertTrue(self.one(".detail .open").is_displayed())
        self.tap(self.all(".tile")[1])
        self.wait(lambda: self.texts(".detail h2") == ["layer 1, head 2"])
        self.tap(self.all(".tile")[1])
        self.wait(lambda: self.shown_view() == "head")
        self.assertTrue(self.all(".pick[data-head='1'][aria-pressed=true]"))
        self.open("view=model")
        self.tap(self.all(".tile")[2])
        self.wait(lambda: self.texts(".detail h2") == ["layer 1, head 3"])
        self.tap(self.one(".detail .open"))
        self.wait(lambda: self.shown_view() == "head")


# ------------------------------------------------------------------------------------------------ the rest

class Address(Use):
    def test_it_keeps_everything(self):
        self.open("view=head&group=1&heads=4&display=map")
        size = self.js("const c = document.getElementById('map'); return [c.clientWidth, c.clientHeight]")
        ActionChains(self.driver).move_to_element_with_offset(self.one("#map"), size[0] // 2 - 25, size[1] // 2 - 25).click().perform()
        self.wait(lambda: "key=6" in self.driver.current_url and "query=5" in self.driver.current_url)
        self.tool("hide the sink")
        self.wait(lambda: "sink=1" in self.driver.current_url)
        self.tool("lift faint weights")
        self.wait(lambda: "lift=1" in self.driver.current_url)
        self.one("#tools [data-value=lines]").click()
        self.wait(lambda: self.all("#threshold"))
        self.js("const s = document.getElementById('threshold'); s.value = 0.75; s.dispatchEvent(new Event('input'))")
        self.assertEqual(self.texts("#tools output"), ["0.750"])
        self.wait(lambda: "threshold=0.75" in self.driver.current_url)
        where = self.driver.current_url.split("#")[1]
        self.open(where)
        self.assertEqual(self.texts("#tools output"), ["0.750"])
        self.assertTrue(self.all("#hidden-note"))
        self.assertEqual(self.texts(".detail h2"), [f"{OUTPUT[5]} → {SOURCE[6]}"])
        self.assertEqual(self.driver.current_url.split("#")[1], where)
        self.assertEqual(self.one("#threshold").get_attribute("max"), "1")

    def test_back_goes_back(self):
        self.open("view=model")
        self.all(".tile")[4].click()
        self.wait(lambda: self.shown_view() == "head")
        self.press("]")
        self.wait(lambda: self.all(".pick[data-head='5'][aria-pressed=true]"))
        self.all("#tokens-query li")[2].click()
        self.view("inside")
        self.driver.back()
        self.wait(lambda: self.shown_view() == "head" and self.all(".pick[data-head='5'][aria-pressed=true]"))
        self.wait(lambda: self.texts(".detail h2") == [SOURCE[2]])
        self.driver.back()
        self.wait(lambda: self.all(".pick[data-head='4'][aria-pressed=true]"))
        self.driver.back()
        self.wait(lambda: self.shown_view() == "model")
        self.driver.forward()
        self.wait(lambda: self.shown_view() == "head")

    def test_dragging_leaves_no_places(self):
        self.open("view=steps&step=0")
        before = self.js("return history.length")
        for step in range(1, 6):
            self.js("const s = document.getElementById('step'); s.value = arguments[0]; s.dispatchEvent(new Event('input'))", step)
            self.wait(lambda: self.texts("#produced .now") == [OUTPUT[step]])
        self.wait(lambda: "step=5" in self.driver.current_url)
        self.assertEqual(self.js("return history.length"), before)


class Details(Use):
    def test_figures_follow_the_hidden_sink(self):
        self.open("view=head&group=1&heads=3")
        figures = lambda: self.texts(".detail .figures .amount")
        before = figures()
        self.tool("hide the sink")
        self.wait(lambda: self.all("#hidden-note"))
        received = [sum(row[j] for head in CROSS.weights for row in head) for j in range(7)]
        sink = received.index(max(received))
        rows = [[0 if j == sink else w / (1 - row[sink]) for j, w in enumerate(row)] for row in CROSS.weights[3]]
        first = sum(row[0] for row in rows) / 6
        entropy = -sum(w * math.log(w) for row in rows for w in row if w) / 6
        strongest = max(sum(row[j] for row in rows) / 6 for j in range(7))
        shown = figures()
        self.assertNotEqual(shown, before)
        of = dict(zip(self.texts(".detail .figures dt"), shown))
        self.assertAlmostEqual(float(of["first token"].split()[0]) / 100, first, delta=6e-3)
        self.assertAlmostEqual(float(of["entropy"].split()[0]), entropy, delta=6e-3)
        self.assertAlmostEqual(float(of["strongest key"].split()[0]) / 100, strongest, delta=6e-3)

    def test_tokens_without_names_have_one_numbering(self):
        path = self.at / "nameless.html"
        path.write_bytes(made({"groups": [{"weights": {"shape": [3, 3], "values": [1, 0, 0, 0.2, 0.8, 0, 0.5, 0.1, 0.4]}}]}))
        self.open("view=head", path)
        self.all("#tokens-query li")[2].click()
        self.assertEqual(self.texts("#tokens-query .looked bdi"), ["3"])
        self.assertIn("query 3 of 3", self.one(".detail").text)
        self.assertEqual({(r["query"], r["query token"]) for r in self.table()}, {("1", "1"), ("2", "2"), ("3", "3")})

    def test_a_token_is_found_among_many(self):
        n = 2048
        tokens = [f"t{i}" for i in range(n)]
        values = [0] * (n * n)
        for i in range(n):
            values[i * n + (7 * i) % n] = 1
        path = self.at / "many.html"
        path.write_bytes(made({"groups": [{"queries": tokens, "keys": tokens, "weights": {"shape": [n, n], "values": values}}]}))
        self.open("view=head", path)
        field = self.one("#find")
        field.send_keys("t1500")
        self.wait(lambda: self.texts(".detail h2") == ["t1500"])
        on_screen = lambda: self.js("""
            const list = document.querySelector('.bipartite').getBoundingClientRect();
            const token = document.querySelector('#tokens-query .looked').getBoundingClientRect();
            return token.top >= list.top && token.bottom <= list.bottom""")
        self.wait(on_screen)
        self.assertEqual(self.texts("#tools output")[0], "1 of 1")
        field.clear()
        field.send_keys("t20")
        self.wait(lambda: self.texts("#tools output")[0] == "1 of 59")
        field.send_keys(Keys.ENTER)
        self.wait(lambda: self.texts(".detail h2") == ["t200"])
        self.wait(on_screen)
        self.assertEqual(self.js("return document.activeElement.id"), "find")
        field.clear()
        field.send_keys("nowhere")
        self.wait(lambda: self.texts("#tools output")[0] == "none")


if __name__ == "__main__":
    browser.main()
