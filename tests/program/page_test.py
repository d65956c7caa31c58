"""The views of the page that heed attend --html writes, in a real browser: Debian's chromium, driven through ChromeDriver."""
import math
import random
import re
import unittest
import xml.etree.ElementTree

from browser import ActionChains, Keys
from pages import (BOTH, CROSS, DECODER, ENCODER, OTHER_CROSS, OTHER_ENCODER, OTHER_OUTPUT, OTHER_SOURCE, OUTPUT,
                   OUTPUT_WORDS, PAGE, SOURCE, SOURCE_WORDS, STEPS, Browser, Group, made)


class Model(Browser):
    def test_the_framed_head_is_the_one_told_of(self):
        self.open("view=model&heads=4")
        self.assertEqual(self.one(".tile.chosen").get_attribute("data-head"), "4")
        self.assertIn("layer 2, head 2", self.one(".detail").text)

    def test_one_map_alone_opens_on_its_words(self):
        path = self.at / "one.html"
        path.write_bytes(made({"groups": [Group("one", SOURCE, SOURCE, layers=1, heads=1).json()]}))
        shown = "return document.getElementById('view').dataset.view"
        self.open(path=path)
        self.assertEqual(self.js(shown), "story")
        self.open("view=model", path=path)
        self.assertEqual(self.js(shown), "model")

    def test_every_head_is_a_map(self):
        self.open("view=model&group=0")
        self.assertEqual(self.driver.title, PAGE["title"])
        self.assertEqual(self.texts("h1"), [PAGE["title"]])
        self.assertEqual(self.texts("#views button"), ["Story", "Model", "Head", "Inside", "Steps"])
        self.assertEqual(self.texts("#groups button"), ["Encoder", "Cross", "Decoder"])
        self.assertEqual(len(self.all(".tile canvas")), 6)
        painted = self.js("""
            const c = document.querySelector('.tile canvas');
            const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
            return [c.width, c.height, new Set(Array.from({length: c.width * c.height}, (_, i) => d.slice(4 * i, 4 * i + 3).join())).size]""")
        self.assertEqual(painted[:2], [7, 7])
        self.assertGreater(painted[2], 10, "a map has many colours")
        self.one("#groups [data-value='1']").click()
        self.wait(lambda: "Cross" in self.texts(".about")[0])
        self.assertEqual(self.js("const c = document.querySelector('.tile canvas'); return [c.width, c.height]"), [7, 6])

    def test_sorted_by_each_figure(self):
        self.open("view=model")
        n = len(SOURCE)

        def mean(head, offset):
            rows = [i for i in range(n) if 0 <= i + offset < n]
            return sum(ENCODER.weights[head][i][i + offset] for i in rows) / len(rows)

        w = ENCODER.weights
        truth = {"diagonal": lambda h: mean(h, 0), "previous": lambda h: mean(h, -1), "next": lambda h: mean(h, 1),
                 "first": lambda h: sum(row[0] for row in w[h]) / n,
                 "sink": lambda h: max(sum(row[j] for row in w[h]) / n for j in range(n)),
                 "entropy": lambda h: -sum(x * math.log(x) for row in w[h] for x in row) / n,
                 "distance": lambda h: sum(w[h][i][j] * abs(i - j) for i in range(n) for j in range(n)) / n}
        for name, figure in truth.items():
            with self.subTest(name):
                self.js("const s = document.querySelector('#tools select'); s.value = arguments[0]; s.dispatchEvent(new Event('change'))", name)
                expected = [str(h) for h in sorted(range(6), key=lambda h: -figure(h))]
                order = lambda: self.js("return [...document.querySelectorAll('.tile')].map(t => t.dataset.head)")
                self.wait(lambda: order() == expected, f"{order()} instead of {expected}")
                column = {"diagonal": "same position", "previous": "previous token", "next": "next token",
                          "first": "first token", "sink": "strongest key", "entropy": "entropy",
                          "distance": "mean distance"}[name]
                for row, head in zip(self.table(), expected):
                    self.assertAlmostEqual(float(row[column]), figure(int(head)), delta=2e-4)

    def test_importance_is_a_bar(self):
        importance = [0.3, 0.1, 0.02, 0.6, 0, 0.15]
        group = {**ENCODER.json(), "importance": {"shape": [2, 3], "values": importance}}
        path = self.at / "importance.html"
        path.write_bytes(made({**PAGE, "groups": [group, CROSS.json(), DECODER.json()]}))
        self.open("view=model&group=0", path)
        parts = self.js("return [...document.querySelectorAll('.tile .meter')].map(m => m.style.getPropertyValue('--part'))")
        for part, x in zip(parts, importance, strict=True):
            self.assertAlmostEqual(float(part.removesuffix("%")) / 100, x / 0.6, delta=1e-5)
        self.js("const s = document.querySelector('#tools select'); s.value = 'importance'; s.dispatchEvent(new Event('change'))")
        order = lambda: self.js("return [...document.querySelectorAll('.tile')].map(t => Number(t.dataset.head))")
        self.wait(lambda: order() == sorted(range(6), key=lambda h: -importance[h]))
        for row, x in zip(self.table(), sorted(importance, reverse=True), strict=True):
            self.assertAlmostEqual(float(row["importance"]), x, delta=1e-6)
        svg = xml.etree.ElementTree.fromstring(self.saved("SVG"))
        widths = [float(r.get("width")) for r in svg.iter("{http://www.w3.org/2000/svg}rect") if r.get("height") == "5"]
        for (whole, part), x in zip(zip(widths[::2], widths[1::2], strict=True), sorted(importance, reverse=True), strict=True):
            self.assertAlmostEqual(part / whole, x / 0.6, delta=1e-2)
        self.open("view=model&group=1&sort=importance", path)  # which this tab has not
        self.assertEqual(order(), list(range(6)))
        self.assertEqual(self.all(".tile .meter"), [])
        for wrong in ({"shape": [3, 2], "values": importance}, {"shape": [2, 3], "values": [-1, 0, 0, 0, 0, 0]},
                      {"shape": [2, 3], "values": [None, 0, 0, 0, 0, 0]}):
            with self.assertRaisesRegex(AssertionError, "importance"):
                made({"groups": [{**ENCODER.json(), "importance": wrong}]})

    def test_faint_weights_in_stronger_colours(self):
        self.open("view=model")
        darkness = lambda: self.js("""
            const c = document.querySelector('.tile canvas');
            const copy = new OffscreenCanvas(c.width, c.height).getContext('2d', {willReadFrequently: true});
            copy.drawImage(c, 0, 0);
            return copy.getImageData(0, 0, c.width, c.height).data.reduce((sum, x, i) => sum + (i % 4 < 3 ? 255 - x : 0), 0)""")
        before = darkness()
        self.tool("lift faint weights")
        self.wait(lambda: darkness() > 1.2 * before)

    def test_figures_of_the_head_pointed_at(self):
        self.open("view=model")
        ActionChains(self.driver).move_to_element(self.all(".tile")[4]).perform()
        self.wait(lambda: self.texts(".detail h2") == ["layer 2, head 2"])
        self.assertEqual(len(self.all(".detail .figures dt")), 7)

    def test_table_of_figures(self):
        self.open("view=model")
        self.tool("figures as a table")
        self.wait(lambda: len(self.all("table.numbers tbody tr")) == 6)
        [by_entropy] = [b for b in self.all("thead button") if b.text == "entropy"]
        by_entropy.click()
        self.wait(lambda: self.texts("th[aria-sort=descending]") == ["entropy"])

    def test_a_click_opens_the_head(self):
        self.open("view=model")
        self.all(".tile")[4].click()
        self.wait(lambda: self.js("return document.getElementById('view').dataset.view") == "head")
        self.assertEqual(self.js("return [...document.querySelectorAll('.pick[aria-pressed=true]')].map(p => p.dataset.head)"), ["4"])


class Head(Browser):
    def amounts(self, side):
        return [float(x or 0) for x in self.texts(f"#tokens-{side} .amount")]

    def test_pointing_shows_row_and_column(self):
        self.open("view=head&group=1&heads=2")
        queries, keys = self.all("#tokens-query li"), self.all("#tokens-key li")
        self.assertEqual((len(queries), len(keys)), (6, 7))
        for i in (0, 5):
            ActionChains(self.driver).move_to_element(queries[i]).perform()
            self.wait(lambda: OUTPUT[i] in self.texts(".detail h2"))
            for shown, true in zip(self.amounts("key"), CROSS.weights[2][i]):
                self.assertAlmostEqual(shown, true if true >= 0.005 else 0, delta=6e-4)
        ActionChains(self.driver).move_to_element(keys[3]).perform()
        self.wait(lambda: SOURCE[3] in self.texts(".detail h2"))
        for shown, row in zip(self.amounts("query"), CROSS.weights[2]):
            self.assertAlmostEqual(shown, row[3] if row[3] >= 0.005 else 0, delta=6e-4)
        ActionChains(self.driver).move_to_element(self.one("h1")).perform()
        self.wait(lambda: self.amounts("query") == [0] * 6)

    def test_a_click_pins(self):
        self.open("view=head&heads=0")
        self.all("#tokens-query li")[2].click()
        ActionChains(self.driver).move_to_element(self.all("#tokens-query li")[5]).perform()
        self.assertEqual(self.texts(".detail h2"), [SOURCE[2]])
        self.assertIn("query=2", self.driver.current_url)

    def inked(self):
        return self.js("""
            const c = document.querySelector('canvas.threads');
            const copy = new OffscreenCanvas(c.width, c.height).getContext('2d', {willReadFrequently: true});
            copy.drawImage(c, 0, 0);
            return copy.getImageData(0, 0, c.width, c.height).data.filter((x, i) => i % 4 === 3 && x > 0).length""")

    def test_threshold(self):
        self.open("view=head&heads=1")
        before = self.inked()
        self.js("const s = document.getElementById('threshold'); s.value = 0.5; s.dispatchEvent(new Event('input'))")
        self.assertGreater(before, 0)
        self.assertLess(self.inked(), 0.8 * before)
        self.assertEqual(self.one("#tools output").text, "0.500")

    def test_several_heads_have_colours(self):
        self.open("view=head&heads=0")
        picks = self.all(".pick")
        ActionChains(self.driver).key_down(Keys.SHIFT).click(picks[4]).key_up(Keys.SHIFT).perform()
        self.wait(lambda: len(self.all(".pick[aria-pressed=true]")) == 2)
        colors = self.js("return [...document.querySelectorAll('.swatch')].map(s => s.style.getPropertyValue('--color'))")
        self.assertEqual(len(set(colors)), 2)
        rows = self.table()
        self.assertEqual({(r["layer"], r["head"]) for r in rows}, {("1", "1"), ("2", "2")})

    def test_words(self):
        self.open("view=head&group=1&heads=0")
        self.tool("whole words")
        self.wait(lambda: len(self.all("#tokens-query li")) == 5)
        self.assertEqual(self.texts("#tokens-key li bdi"), ["El", "perro", "tiene", "pelo", ".", "</s>"])
        got = {(int(r["query"]), int(r["key"])): float(r["weight"]) for r in self.table()}
        w = CROSS.weights[0]
        self.assertAlmostEqual(got[2, 2], w[1][1] + w[1][2], delta=2e-4)
        self.assertAlmostEqual(got[4, 2], (w[3][1] + w[3][2] + w[4][1] + w[4][2]) / 2, delta=2e-4)

    def test_hidden_sink(self):
        self.open("view=head&group=1&heads=3")
        self.tool("hide the sink")
        self.wait(lambda: self.all("#hidden-note"))
        received = [sum(row[j] for head in CROSS.weights for row in head) for j in range(7)]
        sink = received.index(max(received))
        self.assertIn(f"key {sink + 1},", self.one("#hidden-note").text)
        self.assertIn("divided by its sum", self.one("#hidden-note").text)
        rows = self.table()
        self.assertNotIn(str(sink + 1), {r["key"] for r in rows})
        for i in range(6):
            left = 1 - CROSS.weights[3][i][sink]
            for r in rows:
                if int(r["query"]) == i + 1:
                    self.assertAlmostEqual(float(r["weight"]), CROSS.weights[3][i][int(r["key"]) - 1] / left, delta=5e-4)

    def test_map_and_text(self):
        self.open("view=head&group=1&heads=0&display=map")
        size = self.js("const c = document.getElementById('map'); return [c.clientWidth, c.clientHeight]")
        ActionChains(self.driver).move_to_element_with_offset(self.one("#map"), size[0] // 2 - 25, size[1] // 2 - 25).perform()
        self.wait(lambda: self.texts(".detail h2") == [f"{OUTPUT[5]} → {SOURCE[6]}"])
        self.assertAlmostEqual(float(self.one(".big").text), CROSS.weights[0][5][6], delta=6e-4)
        self.one("#tools [data-value=text]").click()
        self.wait(lambda: self.all(".flow"))
        self.assertEqual("".join(self.texts("#tokens-key")).split(), ["El", "perro", "tiene", "pelo", ".", "</s>"])
        ActionChains(self.driver).move_to_element(self.all("#tokens-query .piece")[1]).perform()
        self.wait(lambda: self.all("#tokens-key .lit"))


class Inside(Browser):
    def test_numbers(self):
        self.open("view=inside&group=1&heads=4&query=3")
        self.wait(lambda: self.all(".steps-table"))
        for j, row in enumerate(self.table()):
            self.assertAlmostEqual(float(row["q.k"]), CROSS.dot(4, 3, j), delta=1e-5)
            self.assertAlmostEqual(float(row["scaled"]), CROSS.dot(4, 3, j) / 2, delta=1e-5)
            self.assertAlmostEqual(float(row["weight"]), CROSS.weights[4][3][j], delta=1e-6)
            for d in range(4):
                self.assertAlmostEqual(float(row[f"v{d + 1}"]), CROSS.v[4][j][d], delta=1e-6)
        self.assertEqual([float(x) for x in self.texts(".weight b")],
                         [float(f"{w:.3f}") if w >= 5e-4 else float(f"{w:.1e}") for w in CROSS.weights[4][3]])
        output = [sum(CROSS.weights[4][3][j] * CROSS.v[4][j][d] for j in range(7)) for d in range(4)]
        shown = self.one("tfoot canvas").get_attribute("aria-label").split(": ")[1].split(", ")
        for a, b in zip(shown, output):
            self.assertAlmostEqual(float(a), b, delta=6e-3)
        differ = float(self.one(".inside > .faint").text.split("differ by ")[1].split(" ")[0])
        self.assertLess(differ, 1e-4)

    def test_a_key_opens_its_products(self):
        self.open("view=inside&heads=0&query=1")
        self.one(".steps-table [data-token='2']").click()
        self.wait(lambda: self.all(".opened"))
        self.assertIn("×", self.one(".opened").text)
        self.one("#tools [data-value=after]").click()
        self.wait(lambda: "query=2" in self.driver.current_url)


class Steps(Browser):
    def test_slider(self):
        self.open("view=steps")
        self.assertEqual(self.texts("#produced bdi"), OUTPUT)
        self.js("const s = document.getElementById('step'); s.value = 3; s.dispatchEvent(new Event('input'))")
        self.wait(lambda: self.texts("#produced .now") == ["h"])
        self.assertEqual(self.texts(".candidates .taken .token"), ["h"])
        self.assertEqual(self.texts(".candidates .amount"), ["75 %", "20 %"])
        mean = [sum(CROSS.weights[h][3][j] for h in range(6)) / 6 for j in range(7)]
        for chip, true in zip(self.texts("#input-chips small"), mean):
            shown = chip.strip().removesuffix(" %")
            self.assertAlmostEqual(float(shown or 0) / 100, true if true >= 0.005 else 0, delta=6e-3)
        self.assertEqual(self.texts("#before-chips bdi"), ["<s>", "The", "dog", "has"])
        mean = [sum(DECODER.weights[h][3][j] for h in range(6)) / 6 for j in range(4)]
        for chip, true in zip(self.texts("#before-chips small"), mean):
            shown = chip.strip().removesuffix(" %")
            self.assertAlmostEqual(float(shown or 0) / 100, true if true >= 0.005 else 0, delta=6e-3)

    def test_what_each_layer_would_have_written(self):
        layers = [[["a<b", 0.5], ["x", 0.25], ["y", 0.125], ["z", 0.1]], [["dog", 0.9], ["cat", 0.05], ["", 0.01]]]
        steps = [{**step, "layers": layers} if step["token"] == "dog" else step for step in STEPS]
        path = self.at / "lens.html"
        path.write_bytes(made({**PAGE, "steps": steps}))
        self.open("view=steps&step=1", path)
        self.assertEqual(self.texts("#lens th"), ["Layer 2", "Layer 1"])
        self.assertEqual(self.texts("#lens .token")[:2] + self.texts("#lens .token")[3:], ["dog", "cat", "a<b", "x", "y"])
        self.assertEqual(self.texts("#lens .amount"), ["90 %", "5.0 %", "1.0 %", "50 %", "25 %", "13 %"])
        self.assertEqual(self.texts("#lens .taken .token"), ["dog"])
        self.open("view=steps&step=2", path)
        self.assertEqual(self.all("#lens"), [])

    def test_alignment(self):
        self.open("view=steps&step=3")
        sources = ["El", "perro", "tiene", "pelo", ".", "</s>"]
        expected = []
        for word in range(5):
            rows = [i for i in range(6) if OUTPUT_WORDS[i] == word]
            mass = [sum(CROSS.weights[h][i][j] for h in range(6) for i in rows for j in range(7) if SOURCE_WORDS[j] == s)
                    / 6 / len(rows) for s in range(6)]
            expected.append(sources[mass.index(max(mass))])
        self.assertEqual(self.texts("#alignment tbody tr td:nth-of-type(1)"), expected)
        self.assertEqual(self.texts("#alignment .now th"), ["hair"])


def common(a, b):
    """Pairs of a longest common subsequence, where there is only one."""
    if not a or not b:
        return []
    best = max(common(a[1:], b), common(a, b[1:]), key=len) if a[0] != b[0] else None
    moved = lambda pairs, i, j: [(x + i, y + j) for x, y in pairs]
    if best is None:
        return [(0, 0), *moved(common(a[1:], b[1:]), 1, 1)]
    one, two = moved(common(a[1:], b), 1, 0), moved(common(a, b[1:]), 0, 1)
    return one if len(one) >= len(two) else two


class Compare(Browser):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.page.write_bytes(made(BOTH))

    def truth(self, one, two, queries, keys, head):
        return {(i + 1, i2 + 1, j + 1, j2 + 1): (one.weights[head][i][j], two.weights[head][i2][j2])
                for i, i2 in queries for j, j2 in keys}

    def expect_table(self, truth):
        rows = self.table()
        self.assertEqual({tuple(int(r[name]) for name in ("query A", "query B", "key A", "key B")) for r in rows}, set(truth))
        for r in rows:
            a, b = truth[tuple(int(r[name]) for name in ("query A", "query B", "key A", "key B"))]
            self.assertAlmostEqual(float(r["weight A"]), a, delta=2e-4)
            self.assertAlmostEqual(float(r["weight B"]), b, delta=2e-4)
            self.assertAlmostEqual(float(r["difference"]), b - a, delta=4e-4)

    def test_by_position(self):
        self.open()
        self.assertEqual(self.texts("#views button"), ["Story", "Model", "Head", "Inside", "Steps", "Compare"])
        self.open("view=compare&group=0&heads=4")
        self.assertEqual(self.texts("#groups button"), ["Encoder", "Cross"], "only those of both texts")
        self.assertIn("by their position: A and B both have 7 queries and 7 keys", self.one("#how").text)
        self.assertEqual(self.texts("figcaption .whole")[1:], ["A: El perro tiene pelo.", "B: El gato tiene pan."])
        self.assertTrue(self.texts("figcaption .whole")[0].startswith("B \u2212 A"), "the difference comes first")
        self.assertIn("The big cat has bread", self.texts("figcaption")[2])
        top = lambda name: self.js("return document.getElementById(arguments[0]).getBoundingClientRect().top", f"map-{name}")
        self.assertLess(top("difference"), top("A"))
        self.assertAlmostEqual(top("A"), top("B"), delta=40, msg="A and B stand beside each other")
        every = [(i, i) for i in range(7)]
        self.expect_table(self.truth(ENCODER, OTHER_ENCODER, every, every, 4))

    def test_by_equal_tokens(self):
        self.open("view=compare&group=1&heads=2")
        queries, keys = common(OUTPUT, OTHER_OUTPUT), common(SOURCE, OTHER_SOURCE)
        self.assertEqual((len(queries), len(keys)), (4, 4))
        self.assertIn("4 of 6 and 7 queries, 4 of 7 and 7 keys", self.one("#how").text)
        self.expect_table(self.truth(CROSS, OTHER_CROSS, queries, keys, 2))
        self.assertEqual(self.js("return [...document.querySelector('#tools select').options].map(o => o.value)"), ["tokens"])
        self.open("view=compare&group=0&heads=2")
        self.js("const s = document.querySelector('#tools select'); s.value = 'tokens'; s.dispatchEvent(new Event('change'))")
        self.wait(lambda: "longest common subsequence" in self.one("#how").text)
        self.expect_table(self.truth(ENCODER, OTHER_ENCODER, keys, keys, 2))

    def test_random_pairs_are_longest(self):
        """The page's alignment against the textbook's, on token lists that share much or nothing."""
        choose = random.Random(5)
        for n in range(6):
            a, b = ([choose.choice("abcd" if n else ["x", "y"][side:side + 1]) for _ in range(choose.randint(1, 12))] for side in (0, 1))
            length = [[0] * (len(b) + 1) for _ in range(len(a) + 1)]
            for i in range(len(a)):
                for j in range(len(b)):
                    length[i + 1][j + 1] = length[i][j] + 1 if a[i] == b[j] else max(length[i][j + 1], length[i + 1][j])
            one, two = (Group("g", t, t, layers=1, heads=1, size=2, seed=n) for t in (a, b))
            path = self.at / f"pairs{n}.html"
            path.write_bytes(made({"groups": [one.json()], "compared": [two.json()]}))
            self.open("view=compare", path)
            if len(a) == len(b):
                self.js("const s = document.querySelector('#tools select'); s.value = 'tokens'; s.dispatchEvent(new Event('change'))")
                self.wait(lambda: "longest common subsequence" in self.one("#how").text)
            self.assertIn(f"{length[-1][-1]} of {len(a)} and {len(b)} queries", self.one("#how").text, (a, b))
            for row in self.table():
                self.assertEqual(row["query token A"], row["query token B"])
                self.assertEqual(row["key token A"], row["key token B"])
            if n == 0:
                self.assertIn("No token of A belongs to one of B.", self.texts("figure")[0])

    def test_colours_say_which_has_more(self):
        self.open("view=compare&group=0&heads=1")
        d = [[OTHER_ENCODER.weights[1][i][j] - ENCODER.weights[1][i][j] for j in range(7)] for i in range(7)]
        svg = xml.etree.ElementTree.fromstring(self.saved("SVG"))
        image = list(svg.iter("{http://www.w3.org/2000/svg}image"))[0].get("href")  # a pixel for a cell
        colors = self.driver.execute_async_script("""
            const [address, done] = arguments, image = new Image();
            image.onload = () => {
              const context = new OffscreenCanvas(7, 7).getContext('2d');
              context.drawImage(image, 0, 0);
              const data = [...context.getImageData(0, 0, 7, 7).data];
              done(Array.from({length: 49}, (_, n) => data.slice(4 * n, 4 * n + 4)));
            };
            image.src = address;""", image)
        most = max(abs(x) for row in d for x in row)
        for n, (r, g, b, _) in enumerate(colors):
            x = d[n // 7][n % 7]
            if abs(x) > 0.05 * most:
                self.assertEqual(b > r, x > 0, (n, x, (r, g, b)))

    def test_pointing_at_a_cell(self):
        self.open("view=compare&group=1&heads=2")
        queries, keys = common(OUTPUT, OTHER_OUTPUT), common(SOURCE, OTHER_SOURCE)
        [i, i2], [j, j2] = queries[-1], keys[-1]  # the last cell of all three maps
        a, b = CROSS.weights[2][i][j], OTHER_CROSS.weights[2][i2][j2]
        for name in ("A", "B", "difference"):
            canvas = self.one(f"#map-{name}")
            self.js("arguments[0].scrollIntoView({block: 'center'})", canvas)
            width, height = canvas.size["width"], canvas.size["height"]
            ActionChains(self.driver).move_to_element_with_offset(canvas, width // 2 - 20, height // 2 - 20).perform()
            self.wait(lambda: len(self.all(".pair tr")) == 3)
            values = [x.replace("\u2212", "-") for x in self.texts(".pair .value")]
            for shown, true in zip(values, (a, b, b - a)):
                self.assertAlmostEqual(float(shown), true, delta=6e-4)
            ActionChains(self.driver).move_to_element(self.all("#views button")[0]).perform()
            self.wait(lambda: not self.all(".pair"))
        canvas = self.one("#map-B")  # "bread" has no partner
        self.js("arguments[0].scrollIntoView({block: 'center'})", canvas)
        ActionChains(self.driver).move_to_element_with_offset(canvas, canvas.size["width"] // 2 - 20, canvas.size["height"] // 2 - 20 - 38).click().perform()
        self.wait(lambda: "no partner" in self.one(".detail").text)
        ActionChains(self.driver).move_to_element(self.all("#views button")[0]).perform()
        self.assertIn("no partner", self.one(".detail").text)
        ActionChains(self.driver).send_keys(Keys.ESCAPE).perform()
        self.wait(lambda: "no partner" not in self.one(".detail").text)

    def test_heads_that_differ_most(self):
        self.open("view=compare&group=1")
        queries, keys = common(OUTPUT, OTHER_OUTPUT), common(SOURCE, OTHER_SOURCE)
        moved = [sum(1 - sum(min(CROSS.weights[h][i][j], OTHER_CROSS.weights[h][i2][j2]) for j, j2 in keys) for i, i2 in queries)
                 / len(queries) for h in range(6)]
        order = sorted(range(6), key=lambda h: -moved[h])
        self.assertEqual(self.js("return [...document.querySelectorAll('#moved button')].map(b => b.dataset.head)"), [str(h) for h in order])
        for shown, head in zip(self.texts("#moved .amount"), order):
            self.assertAlmostEqual(float(shown.removesuffix(" %")) / 100, moved[head], delta=6e-3)
        self.all("#moved button")[0].click()
        self.wait(lambda: self.all(f".pick[data-head='{order[0]}'][aria-pressed=true]"))

    def test_the_same_text_twice(self):
        path = self.at / "same.html"
        path.write_bytes(made({"title": "same", "groups": [ENCODER.json()], "compared": [ENCODER.json()]}))
        self.open("view=compare", path)
        self.assertIn("No head looks elsewhere, in any tab.", self.texts("figcaption")[0])
        self.assertEqual(self.all("#moved"), [])
        self.assertEqual({float(row["difference"]) for row in self.table()}, {0})

    def test_export(self):
        for where in ["view=compare&group=0&heads=2", "view=compare&group=1&heads=1,3"]:
            self.open(where)
            svg = xml.etree.ElementTree.fromstring(self.saved("SVG"))
            words = [e.text for e in svg.iter("{http://www.w3.org/2000/svg}text")]
            for says in ("A: El perro tiene pelo.", "B: El gato tiene pan.", "B \u2212 A"):
                self.assertIn(says, words)
            self.assertEqual(len(list(svg.iter("{http://www.w3.org/2000/svg}image"))), 3)
            png = self.saved("PNG")
            self.assertEqual(png[:8], b"\x89PNG\r\n\x1a\n")
            self.assertAlmostEqual(int.from_bytes(png[16:20], "big"), 2 * float(svg.get("width")), delta=2)
            self.assertTrue(self.table())

    def test_keyboard(self):
        self.open("view=model&group=2")
        press = lambda *keys: ActionChains(self.driver).send_keys(*keys).perform()
        press("6")
        self.wait(lambda: self.js("return document.getElementById('view').dataset.view") == "compare")
        self.assertEqual(self.texts("#groups [aria-selected=true]"), ["Encoder"], "the decoder has no other text")
        press("]")
        self.wait(lambda: self.all(".pick[data-head='4'][aria-pressed=true]"))
        self.js("document.getElementById('map-A').focus()")
        press(Keys.ARROW_DOWN, Keys.ARROW_DOWN, Keys.ARROW_RIGHT)
        said = lambda: self.one("#say").get_attribute("textContent")
        self.wait(lambda: said().startswith(f"A: {SOURCE[1]} attends to {SOURCE[1]} with "))
        self.assertIn(f"B: {OTHER_SOURCE[1]} attends to {OTHER_SOURCE[1]} with ", said())
        self.js("document.getElementById('map-difference').focus()")
        press(Keys.ARROW_RIGHT)
        self.wait(lambda: said().startswith(f"A: {SOURCE[1]} attends to {SOURCE[2]} with "))
        press(Keys.ESCAPE)
        self.wait(lambda: not self.all(".pair"))
        nameless = self.js("""return [...document.querySelectorAll('button, select, input, [role=img]')].filter(
            e => !(e.getAttribute('aria-label') || e.textContent.trim() || e.closest('label')?.textContent.trim())).length""")
        self.assertEqual(nameless, 0)

    def test_phone_dark_and_print(self):
        self.screen(390, 844, phone=True)
        for group in (0, 1):
            self.open(f"view=compare&group={group}")
            self.assertLessEqual(self.js("return document.documentElement.scrollWidth"), 390)
        for dark, low, high in [(True, 0, 60), (False, 200, 255)]:
            self.screen(1300, 900, dark=dark)
            self.open("view=compare")
            corner = self.js("""
                const c = document.getElementById('map-difference');
                const copy = new OffscreenCanvas(c.width, c.height).getContext('2d', {willReadFrequently: true});
                copy.drawImage(c, 0, 0);
                const data = copy.getImageData(0, 0, c.width, c.height).data;
                let least = 255, most = 0;
                for (let i = 0; i < data.length; i += 4) if (data[i + 3] === 255) {
                  const light = (data[i] + data[i + 1] + data[i + 2]) / 3;
                  least = Math.min(least, light);
                  most = Math.max(most, light);
                }
                return [least, most]""")
            self.assertLess(corner[0], 110)
            self.assertGreater(corner[1], 110)
        import base64
        pdf = base64.b64decode(self.driver.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})["data"])
        self.assertEqual(pdf[:5], b"%PDF-")

    def test_how_probable_tokens_are_to_both(self):
        self.open("view=compare")
        self.assertEqual(self.all("#predictions"), [])
        predictions = [["The", 0.9, 0.3], ["dog", 0.25, 0.75], [".", 0.5, 0.5]]
        path = self.at / "predictions.html"
        path.write_bytes(made({**BOTH, "predictions": predictions}))
        self.open("view=compare", path)
        self.assertEqual(self.texts("#predictions bdi"), ["The", "dog", "."])
        self.assertEqual(self.texts("#predictions small"), ["90 % \u2192 30 %", "25 % \u2192 75 %", "50 % \u2192 50 %"])
        fills = [[int(c) for c in re.findall(r"\d+", fill)] for fill in self.js(
            "return [...document.querySelectorAll('#predictions .chip')].map(c => getComputedStyle(c).backgroundColor)")]
        self.assertGreater(fills[0][0], fills[0][2], "orange where it loses")
        self.assertLess(fills[1][0], fills[1][2], "blue where it gains")
        self.assertEqual(fills[2], [255, 255, 255])
        words = [e.text for e in xml.etree.ElementTree.fromstring(self.saved("SVG")).iter("{http://www.w3.org/2000/svg}text")]
        self.assertIn("dog  25 % \u2192 75 %", words)
        rows = self.table()
        saved = [(r["output token"], float(r["probability A"]), float(r["probability B"])) for r in rows if r["output token"]]
        self.assertEqual(saved, [tuple(p) for p in predictions])
        self.assertTrue(all((r["difference"] == "") == (r["output token"] != "") for r in rows))
        self.assertTrue(all(None not in r and None not in r.values() for r in rows), "as many fields in every line")
        # It need not be texts that are compared.
        said = self.js("return document.getElementById('view').innerText + document.getElementById('map-A').ariaLabel")
        self.assertNotIn("text", said.lower())
        with self.assertRaisesRegex(AssertionError, "not in 0..1"):
            made({**BOTH, "predictions": [["x", 0, 1.5]]})

    def test_refuses_what_has_no_counterpart(self):
        for compared in ([OTHER_ENCODER.json()] * 4, [Group("Encoder", OTHER_SOURCE, OTHER_SOURCE, heads=2).json()]):
            with self.assertRaisesRegex(AssertionError, "as many layers and heads"):
                made({**PAGE, "compared": compared})


# ------------------------------------------------------------------------------------------------ other measures

def signed_values(count):
    normal = random.Random(9).gauss
    return [normal(0, 0.01) for _ in range(count)]


GRADIENT = signed_values(2 * 3 * 6 * 7)
ROLLOUT = Group("Encoder", SOURCE, SOURCE, heads=1, seed=12)


class Measures(Browser):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        norms = [5 * x for head in ENCODER.weights for row in head for x in row]
        plain = lambda group, measure, **more: {**group.json(), "vectors": [], "shares": False, "measure": measure,
                                                "step_keys": "", "title": measure, **more}
        values = lambda shape, x: {"shape": shape, "values": x}
        cls.page.write_bytes(made({**PAGE, "groups": [
            *PAGE["groups"], plain(ENCODER, "norms", weights=values([2, 3, 7, 7], norms)), plain(ROLLOUT, "rollout"),
            plain(CROSS, "gradient", weights=values([2, 3, 6, 7], GRADIENT))]}))

    def measures(self):
        """The choice of measure: [what is chosen, all]."""
        return self.js("""
            const select = document.querySelector('#tools select[aria-label=Measure]');
            return select && [select.selectedOptions[0].text, [...select.options].map(o => o.text)];""")

    def choose(self, name):
        self.js("""
            const select = document.querySelector('#tools select[aria-label=Measure]');
            select.value = [...select.options].find(o => o.text === arguments[0]).value;
            select.dispatchEvent(new Event('change'));""", name)
        self.wait(lambda: self.measures() and self.measures()[0] == name)

    def test_each_measure_is_chosen(self):
        self.open("view=head&group=0&heads=4")
        self.assertEqual(self.texts("#groups button"), ["Encoder", "Cross", "Decoder"], "one tab for all measures")
        self.assertEqual(self.measures(), ["weights", ["weights", "norms", "rollout"]])
        self.choose("norms")
        self.assertEqual(self.texts(".about"), ["norms"])
        for row in self.table():
            i, j = int(row["query"]) - 1, int(row["key"]) - 1
            self.assertEqual((row["layer"], row["head"]), ("2", "2"))
            self.assertAlmostEqual(float(row["weight"]), 5 * ENCODER.weights[4][i][j], delta=1e-3)
        self.choose("rollout")
        self.assertEqual({(row["layer"], row["head"]) for row in self.table()}, {("2", "1")}, "one map a layer")
        self.one("#groups [data-value='1']").click()
        self.wait(lambda: self.measures() == ["weights", ["weights", "gradient × weight"]])
        self.choose("gradient × weight")
        for row in self.table():
            i, j, head = int(row["query"]) - 1, int(row["key"]) - 1, 3 * int(row["layer"]) + int(row["head"]) - 4
            self.assertAlmostEqual(float(row["weight"]), GRADIENT[(head * 6 + i) * 7 + j], delta=1e-4)
        self.one("#groups [data-value='2']").click()
        self.wait(lambda: self.measures() is None)

    def test_what_is_of_weights_alone_is_left_out(self):
        for where in ("view=model&group=3", "view=model&group=3&table=1&sort=entropy", "view=head&group=5&heads=1&query=2",
                      "view=head&group=5&heads=1&display=map", "view=head&group=5&heads=1&display=text&query=1&sink=1"):
            with self.subTest(where):
                self.open(where)
                self.assertEqual(self.all(".flag"), [], "no row must sum to 1")
                self.assertEqual(self.all(".figures dt"), [])
                self.assertNotIn("hide the sink", self.one("#tools").text)
                self.assertEqual(self.all("#hidden-note"), [])
        self.open("view=model&group=3")
        self.assertEqual(self.texts(".tile")[0].strip(), "1\u00b71")

    def test_small_values_are_seen(self):
        self.open("view=head&group=5&heads=1&query=2")
        row = GRADIENT[(6 + 2) * 7:(6 + 2) * 7 + 7]
        for shown, true in zip(self.texts("#tokens-key .amount"), row, strict=True):
            self.assertAlmostEqual(float(shown.replace("\u2212", "-") or 0), true, delta=1e-3)
        inked = self.js("""
            const c = document.querySelector('canvas.threads');
            return c.getContext('2d').getImageData(0, 0, c.width, c.height).data.filter((x, i) => i % 4 === 3 && x > 0).length""")
        self.assertGreater(inked, 100)
        self.open("view=head&group=5&heads=1&display=map")
        self.assertIn("\u2212", self.texts("#tools .scale")[0], "both sides of 0")

    def test_other_views_are_of_weights(self):
        for view in ("story", "inside", "steps"):
            self.open(f"view={view}&group=5&heads=1")
            self.assertEqual(self.js("return document.getElementById('view').dataset.view"), view)
            self.assertIn("group=1", self.driver.current_url)
            self.assertIsNone(self.measures())


if __name__ == "__main__":
    unittest.main()
