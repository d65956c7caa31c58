"""Long texts on the page: 5,000 tokens, a window over the map, and lists of which only a part exists."""
import base64
import csv
import io
import random
import re
import xml.etree.ElementTree

import browser
from browser import ActionChains, Keys
from pages import Browser, made
from page_use_test import SVG

TOKENS, HEADS = 5000, 2


def long_rows(n, heads=HEADS, seed=9):
    """For each head and query {key: weight}: itself, its neighbours, the first token, and others anywhere."""
    choose = random.Random(seed)
    rows = []
    for head in range(heads):
        rows.append([])
        for i in range(n):
            row = {i: 0.3, 0: 0.1 + 0.2 * head, (i + 7) % n: 0.25}
            for j in [*(max(0, i - d) for d in range(1, 20)), *(choose.randrange(n) for _ in range(18))]:
                row.setdefault(j, choose.uniform(0.001, 0.02))
            total = sum(row.values())
            rows[-1].append({j: w / total for j, w in row.items()})
    return rows


def long_page(n, heads=HEADS, rows=None):
    """The page of a text of n tokens, as page_maker takes it."""
    rows = rows or long_rows(n, heads)
    tokens = [f"word{i}" for i in range(n)]
    at, values = [], []
    for head in range(heads):
        for i, row in enumerate(rows[head]):
            for j, w in row.items():
                at.append((head * n + i) * n + j)
                values.append(round(w, 7))
    return {"title": "A long text", "groups": [{"name": "Encoder", "queries": tokens, "keys": tokens,
                                                "weights": {"shape": [heads, n, n], "at": at, "values": values}}]}


class Long(Browser):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.rows = long_rows(TOKENS)
        cls.page = cls.at / "long.html"
        cls.page.write_bytes(made(long_page(TOKENS, rows=cls.rows)))

    def setUp(self):
        super().setUp()
        self.record_text("this.font")

    def press(self, *keys):
        ActionChains(self.driver).send_keys(*keys).perform()

    def written(self):
        """What was written since the last call, after the frame that is due."""
        self.driver.execute_async_script("requestAnimationFrame(() => requestAnimationFrame(arguments[0]))")
        return self.js("return written.splice(0)")

    def cell(self):
        """The size of a cell, from the size of the whole map."""
        wide = self.js("return document.querySelector('.mapspace').style.width")
        label = self.js("return document.querySelector('.mapspace').offsetWidth") and self.labels()[0]
        return (float(wide.removesuffix("px")) - label - 10) / TOKENS

    def labels(self):
        """The room for labels: to the left, and above."""
        return self.js("""
            const pen = document.createElement('canvas').getContext('2d');
            pen.font = '12px system-ui, "DejaVu Sans", "Noto Color Emoji", sans-serif';
            const wide = Math.max(...arguments[0].map(t => pen.measureText(t).width));
            return [Math.ceil(Math.min(120, wide)) + 14, Math.ceil(Math.min(100, wide)) + 14]""",
                       [f"word{i}" for i in range(TOKENS)])

    def place(self):
        return self.js("const w = document.querySelector('.mapwindow'); return [w.scrollLeft, w.scrollTop, w.clientWidth, w.clientHeight]")

    def middle(self, selector):
        return self.js("""
            const b = document.querySelector(arguments[0]).getBoundingClientRect();
            return [b.left + b.width / 2, b.top + b.height / 2]""", selector)

    def wheel(self, selector, x=0, y=0, control=False):
        left, top = self.middle(selector)
        self.driver.execute_cdp_cmd("Input.dispatchMouseEvent", {
            "type": "mouseWheel", "x": left, "y": top, "deltaX": x, "deltaY": y, "modifiers": 2 if control else 0})


# ------------------------------------------------------------------------------------------------ the map

class Map(Long):
    def test_the_whole_map_comes_first(self):
        self.open("view=head&display=map")
        left, top, width, height = self.place()
        self.assertEqual((left, top), (0, 0))
        self.assertEqual(self.js("const w = document.querySelector('.mapwindow'); return [w.scrollWidth, w.scrollHeight]"), [width, height])
        self.assertLess(self.cell(), 0.3)
        self.assertLessEqual(height, 900)
        pixels = self.js("return [...document.querySelectorAll('canvas')].reduce((sum, c) => sum + c.width * c.height, 0)")
        self.assertLess(pixels, 3e6, "no canvas of the whole size")
        for name in ("zoom-out", "zoom-whole"):
            self.assertEqual(self.one(f".maptools [data-value={name}]").get_attribute("aria-disabled"), "true")
        labels = [int(text.removeprefix("word")) for text, _ in self.written() if text.startswith("word")]
        self.assertGreater(max(labels), 4900)
        self.assertEqual(min(labels), 0)

    def test_zooming(self):
        self.open("view=head&display=map")
        before = self.cell()
        for _ in range(3):
            self.one(".maptools [data-value=zoom-in]").click()
        self.assertAlmostEqual(self.cell(), before * 1.5 ** 3, delta=0.02)
        left, top, width, height = self.place()
        label, head = self.labels()
        middle = lambda: ((self.place()[0] + (self.place()[2] - label) / 2) / self.cell(),
                          (self.place()[1] + (self.place()[3] - head) / 2) / self.cell())
        at = middle()
        self.assertGreater(left, 0)
        self.wheel("#map", y=-600, control=True)  # what is under the pointer stays
        self.wait(lambda: self.cell() > 1.5 * before * 1.5 ** 3)
        for a, b in zip(at, middle()):
            self.assertAlmostEqual(a, b, delta=0.02 * TOKENS)
        self.js("document.getElementById('map').focus()")
        zoomed = self.cell()
        self.press("+")
        self.wait(lambda: self.cell() > 1.4 * zoomed)
        self.press("-", "-")
        self.wait(lambda: self.cell() < 0.8 * zoomed)
        self.press("0")
        self.wait(lambda: abs(self.cell() - before) < 0.01)
        for _ in range(40):
            self.one(".maptools [data-value=zoom-in]").click()
        self.assertAlmostEqual(self.cell(), 38, delta=0.1)
        self.assertEqual(self.one(".maptools [data-value=zoom-in]").get_attribute("aria-disabled"), "true")
        numbers = [text for text, _ in self.written() if re.fullmatch(r"\.\d\d", text)]
        self.assertTrue(numbers, "a cell that has room has its number")

    def test_colours_are_those_of_the_weights(self):
        self.open("view=head&display=map&heads=1&lift=0&zoom=14&at=2990,2985")
        label, head = self.labels()
        left, top, width, height = self.place()
        # A ratio of 1: a pixel of the canvas is one of the page.
        table = self.js("return JSON.parse(document.getElementById('data').textContent).colors")
        largest = max(max(row.values()) for row in self.rows[1])
        seen = 0
        for i in range(2995, 3015):
            for j in [i, i + 7, i - 3, i + 2]:
                w = self.rows[1][i].get(j, 0)
                x, y = label + (j + 0.5) * 14 - left, head + (i + 0.5) * 14 - top
                if not (label < x < width and head < y < height):
                    continue
                seen += 1
                # Weights are stored in 8 bits: the colour is one of a few.
                near = range(max(0, round(255 * w / largest) - 4), min(255, round(255 * w / largest) + 4) + 1)
                expected = [[int(table[6 * at + n:6 * at + n + 2], 16) for n in (0, 2, 4)] for at in near]
                pixel = self.js("""
                    const c = document.getElementById('map'), copy = new OffscreenCanvas(1, 1).getContext('2d');
                    copy.drawImage(c, -Math.round(arguments[0]), -Math.round(arguments[1]));
                    return [...copy.getImageData(0, 0, 1, 1).data.slice(0, 3)]""", x, y)
                far = min(max(abs(a - b) for a, b in zip(pixel, color)) for color in expected)
                self.assertLessEqual(far, 4, (i, j, w, pixel, expected))
        self.assertGreater(seen, 40)

    def test_the_minimap_moves_the_window(self):
        self.open("view=head&display=map&zoom=12&at=0,0")
        mini = self.one(".minimap")
        self.assertLessEqual(mini.size["height"], 100)
        look = "return document.querySelector('.minimap').toDataURL()"
        before = self.js(look)
        ActionChains(self.driver).move_to_element(mini).click().perform()
        self.wait(lambda: self.place()[0] > 1000)
        left, top, width, height = self.place()
        label, head = self.labels()
        self.assertAlmostEqual((left + (width - label) / 2) / 12, TOKENS / 2, delta=80)
        self.assertAlmostEqual((top + (height - head) / 2) / 12, TOKENS / 2, delta=80)
        self.wait(lambda: self.js(look) != before)
        ActionChains(self.driver).move_to_element(mini).click_and_hold().move_by_offset(20, 20).release().perform()
        self.wait(lambda: self.place()[0] > left + 5000)

    def test_a_drag_moves_and_chooses_nothing(self):
        self.open("view=head&display=map&zoom=12&at=2000,2000")
        before = self.place()
        ActionChains(self.driver).move_to_element(self.one("#map")).click_and_hold().move_by_offset(-100, -60).release().perform()
        self.wait(lambda: self.place()[:2] == [before[0] + 100, before[1] + 60], self.place())
        self.assertNotIn("query=", self.driver.current_url)
        ActionChains(self.driver).move_to_element(self.one("#map")).click().perform()
        self.wait(lambda: "query=" in self.driver.current_url)

    def test_a_row_and_a_column_stay_in_sight(self):
        self.open("view=head&display=map&zoom=14&at=1000,1000&query=1010&key=1005")
        bold = lambda: {text for text, font in self.written() if "bold" in font}
        self.assertEqual(bold(), {"word1010", "word1005"})
        self.js("document.querySelector('.mapwindow').scrollTo(40000, 50000)")
        self.assertEqual(bold(), {"word1010", "word1005"}, "out of sight they are kept at the edge")
        self.press(Keys.ESCAPE)
        self.wait(lambda: self.texts(".detail h2") == [])
        self.js("document.querySelector('.mapwindow').scrollTo(0, 0)")
        self.assertEqual(bold(), set())

    def test_a_token_is_found(self):
        self.open("view=head&display=map")
        self.one("#find").send_keys("word4321")
        self.wait(lambda: self.texts(".detail h2") == ["word4321"])
        self.wait(lambda: abs(self.cell() - 14) < 0.1, "large enough to be read")
        _, top, _, height = self.place()
        self.assertTrue(top < 4321 * 14 < top + height)
        written = [text for text, _ in self.written()]
        self.assertIn("word4321", written)
        self.assertIn("word4320", written)
        self.assertEqual(self.texts("#tools output"), ["1 of 1"])

    def test_arrow_keys_take_the_window_along(self):
        self.open("view=head&display=map&zoom=14&at=100,100&query=110&key=110")
        self.js("document.getElementById('map').focus()")
        self.press(*[Keys.ARROW_DOWN] * 60)
        self.wait(lambda: "query=170" in self.driver.current_url)
        _, top, _, height = self.place()
        self.assertTrue(top <= 170 * 14 <= top + height)
        self.assertTrue(self.one("#say").get_attribute("textContent").startswith("word170 attends to word110"))

    def test_the_address_and_other_heads_keep_the_place(self):
        self.open("view=head&display=map&zoom=10.00&at=3000,2500")
        at = self.place()
        self.assertAlmostEqual(at[0], 25000, delta=2)
        self.assertAlmostEqual(at[1], 30000, delta=2)
        self.press("]")
        self.wait(lambda: self.all(".pick[data-head='1'][aria-pressed=true]"))
        self.assertEqual(self.place(), at)
        self.js("document.querySelector('.mapwindow').scrollTo(10000, 20000)")
        self.wait(lambda: "zoom=10.00&at=2000,1000" in self.driver.current_url)
        self.one("#tools [data-value=lines]").click()
        self.wait(lambda: self.all(".bipartite"))
        self.assertNotIn("zoom", self.driver.current_url)
        self.driver.back()
        self.wait(lambda: self.all(".mapwindow"))
        self.assertAlmostEqual(self.place()[0], 10000, delta=2)

    def test_a_finger_scrolls_it(self):
        self.screen(390, 844, phone=True)
        self.driver.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": True})
        self.addCleanup(self.driver.execute_cdp_cmd, "Emulation.setTouchEmulationEnabled", {"enabled": False})
        self.open("view=head&display=map&zoom=14&at=1000,1000")
        self.js("document.getElementById('map').scrollIntoView({block: 'center'})")
        before = self.place()
        x, y = self.middle("#map")
        way = [("touchStart", [{"x": x, "y": y}]), *(("touchMove", [{"x": x - 10 * n, "y": y - 8 * n}]) for n in range(1, 14)), ("touchEnd", [])]
        for kind, points in way:
            self.driver.execute_cdp_cmd("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
        self.wait(lambda: self.place()[0] > before[0] + 60 and self.place()[1] > before[1] + 60)
        self.assertNotIn("query=", self.driver.current_url)
        self.assertLessEqual(self.js("return document.documentElement.scrollWidth"), 390)

    def test_files_and_paper(self):
        self.open("view=head&display=map")
        svg = xml.etree.ElementTree.fromstring(self.saved("SVG"))
        self.assertEqual(len(list(svg.iter(SVG + "image"))), 1)
        png = self.saved("PNG")
        width, height = (int.from_bytes(png[at:at + 4], "big") for at in (16, 20))
        self.assertGreater(width, 4000)
        self.assertLess(width * height, 2 ** 26)
        pdf = base64.b64decode(self.driver.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})["data"])
        self.assertEqual(len(re.findall(rb"/Type\s*/Page\b", pdf)), 1)


# ------------------------------------------------------------------------------------------------ lists of tokens

class Lines(Long):
    def exist(self, side="query"):
        return [int(n) for n in self.js("return [...document.querySelectorAll(arguments[0])].map(e => e.dataset.token)", f"#tokens-{side} li")]

    def test_only_what_is_near_exists(self):
        self.open("view=head&heads=0")
        self.assertLess(len(self.all(".tokens li")), 500)
        self.assertEqual(self.exist()[:3], [0, 1, 2])
        self.js("document.querySelector('.bipartite').scrollTop = 2500 * 16")
        self.wait(lambda: 2500 in self.exist() and 2500 in self.exist("key"))
        self.assertLess(len(self.all(".tokens li")), 500)
        self.assertEqual(self.exist(), sorted(self.exist()), "in their order, for who hears them")
        token = self.one("#tokens-query [data-token='2500']")
        self.assertEqual([token.get_attribute(name) for name in ("aria-setsize", "aria-posinset")], ["5000", "2501"])
        ActionChains(self.driver).move_to_element(token).perform()
        self.wait(lambda: self.texts(".detail h2") == ["word2500"])
        shown = float(self.texts("#tokens-key [data-token='2507'] .amount")[0])
        self.assertAlmostEqual(shown, self.rows[0][2500][2507], delta=6e-3)

    def test_they_lead_to_the_map(self):
        self.open("view=head&heads=1&query=3210")
        self.assertEqual(self.texts(".stagehead .link"), ["see all 5,000 tokens as a map"])
        self.one(".stagehead .link").click()
        self.wait(lambda: self.all(".mapwindow"))
        self.assertIn("query=3210", self.driver.current_url)
        self.assertEqual(self.all(".stagehead .link"), [])

    def test_what_comes_into_sight_is_marked(self):
        self.open("view=head&heads=0")
        self.js("document.querySelector('#tokens-query li').click()")
        far = max((j for j in self.rows[0][0] if j > 1000), key=lambda j: self.rows[0][0][j])
        self.assertGreater(self.rows[0][0][far], 0.005)
        self.js("document.querySelector('.bipartite').scrollTop = arguments[0] * 16 - 200", far)
        self.wait(lambda: self.texts(f"#tokens-key [data-token='{far}'] .amount") not in ([], [""]))
        self.assertTrue(self.all(f"#tokens-key [data-token='{far}'].lit"))

    def test_keys_reach_every_token(self):
        self.open("view=head&heads=0")
        focused = lambda: self.js("const e = document.activeElement; return [e.closest('ul')?.id, e.dataset.token]")
        self.js("document.querySelector('#tokens-query li').focus()")
        for key, place in [(Keys.END, ["tokens-query", "4999"]), (Keys.ARROW_UP, ["tokens-query", "4998"]),
                           (Keys.ARROW_RIGHT, ["tokens-key", "4998"]), (Keys.HOME, ["tokens-key", "0"]),
                           (Keys.ARROW_DOWN, ["tokens-key", "1"]), (Keys.ARROW_LEFT, ["tokens-query", "1"])]:
            self.press(key)
            self.wait(lambda: focused() == place, f"{focused()} instead of {place}")
        self.press(Keys.PAGE_DOWN)
        self.wait(lambda: int(focused()[1]) > 20)
        token = int(focused()[1])
        self.wait(lambda: self.one("#say").get_attribute("textContent").startswith(f"word{token}: "))
        self.press("]")
        self.wait(lambda: self.all(".pick[data-head='1'][aria-pressed=true]"))
        self.wait(lambda: focused() == ["tokens-query", str(token)], "another head leaves the focus where it was")

    def test_a_pinned_token_and_the_place_stay(self):
        self.open("view=head&heads=0&query=3210")
        self.wait(lambda: 3210 in self.exist())
        top = "return document.querySelector('.bipartite').scrollTop"
        self.js("document.querySelector('.bipartite').scrollTop = 3000 * 16")
        self.wait(lambda: 3000 in self.exist())
        self.js("document.querySelector('.bipartite').scrollTop = 3200 * 16")
        self.written()  # what a scroll brings about comes with the next frame
        self.assertEqual(self.js(top), 51200)
        self.press("]")
        self.wait(lambda: self.all(".pick[data-head='1'][aria-pressed=true]"))
        self.assertEqual(self.js(top), 51200)

    def test_lines_follow_what_is_seen(self):
        picture = "return document.querySelector('canvas.threads').toDataURL()"
        for where in ("view=head&heads=0", "view=head&heads=0&query=3"):
            with self.subTest(where):
                self.open(where)
                self.written()
                at_top = self.js(picture)
                self.js("document.querySelector('.bipartite').scrollTop = 3000 * 16")
                self.wait(lambda: 3000 in self.exist())
                self.written()
                self.assertNotEqual(self.js(picture), at_top)
                self.js("document.querySelector('.bipartite').scrollTop = 0")
                self.wait(lambda: 0 in self.exist())
                self.written()
                self.assertEqual(self.js(picture), at_top)

    def test_width_does_not_change_with_what_is_seen(self):
        self.open("view=head&heads=0")
        box = "const b = document.querySelector('.middle').getBoundingClientRect(); return [b.left, b.width]"
        before = self.js(box)
        self.js("document.querySelector('.bipartite').scrollTop = 4000 * 16")
        self.wait(lambda: 4000 in self.exist())
        self.assertEqual(self.js(box), before)


class Middle(Browser):
    """What is no longer than some hundred tokens keeps its usual map; Compare has windows, too."""

    def test_compared_texts_have_windows(self):
        page = long_page(600)
        page["compared"] = long_page(600, rows=long_rows(600, seed=4))["groups"]
        page["compared_title"] = "Another"
        path = self.at / "compared.html"
        path.write_bytes(made(page))
        self.open("view=compare", path)
        self.assertEqual(len(self.all(".mapwindow")), 3)
        self.all("[data-value=zoom-in]")[2].click()  # of B, behind the difference and A
        sizes = self.js("return [...document.querySelectorAll('.mapspace')].map(e => e.offsetWidth)")
        self.assertGreater(sizes[2], sizes[1])
        ActionChains(self.driver).move_to_element(self.one("#map-A")).perform()
        self.wait(lambda: self.texts(".pair .value"))

    def test_a_short_text_has_no_window(self):
        self.open("view=head&display=map")
        self.assertEqual(self.all(".mapwindow, .maptools"), [])

    def test_merged_and_hidden_are_counted_as_before(self):
        """The mean, words and a hidden sink of a long text, beside the same counted here."""
        n = 400
        rows = long_rows(n)
        page = long_page(n, rows=rows)
        words = [i // 2 for i in range(n)]
        page["groups"][0].update(query_words=words, key_words=words)
        path = self.at / "words.html"
        path.write_bytes(made(page))
        self.open("view=head&heads=0,1&words=1&sink=1", path)
        got = {}
        for row in self.table():
            if row["key"]:
                got[int(row["head"]) - 1, int(row["query"]) - 1, int(row["key"]) - 1] = float(row["weight"])
        for head in range(2):
            for word in (0, 57, 199):
                expected = {}
                for i in (2 * word, 2 * word + 1):
                    rest = 1 - rows[head][i][0]
                    for j, w in rows[head][i].items():
                        if j:
                            expected[j // 2] = expected.get(j // 2, 0) + w / rest / 2
                for key, w in expected.items():
                    if w > 0.01:
                        self.assertAlmostEqual(got[head, word, key], w, delta=0.05 * w + 2e-3, msg=(head, word, key))


class ManyElements(Browser):
    """Steps and Compare show thousands of tokens by a few elements."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.pages = {}
        for n in (2000, TOKENS):
            rows, steps = long_rows(n), n * 4 // 5  # behind a prompt
            page = long_page(n, rows=rows)
            page["groups"][0].update(name="Decoder", step_keys="output", first_step=n - steps)
            page["steps"] = [{"token": f"word{i}", "candidates": [[f"word{i}", 0.7]]} for i in range(n - steps, n)]
            page["compared"] = long_page(n, rows=long_rows(n, seed=4))["groups"]
            page["compared_title"] = "Another"
            page["predictions"] = [[f"word{i}", 0.5, 0.5 + 0.4 * (i % 7 == 0) * i / n] for i in range(steps)]
            cls.pages[n] = cls.at / f"many{n}.html"
            cls.pages[n].write_bytes(made(page))
            if n == TOKENS:
                cls.rows = rows

    def spent(self):
        """Seconds of the main thread's processor time."""
        return {m["name"]: m["value"] for m in self.driver.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]}["TaskDuration"]

    def test_they_are_soon_there(self):
        self.driver.execute_cdp_cmd("Performance.enable", {"timeDomain": "threadTicks"})
        self.addCleanup(self.driver.execute_cdp_cmd, "Performance.disable", {})
        costs = {}
        for n, path in self.pages.items():
            for view, shown in (("steps", "#alignment"), ("compare", "#map-B")):
                self.open("view=model", path)
                before = self.spent()
                self.one(f"#views [data-value={view}]").click()
                self.wait(lambda: self.all(shown))
                opened = self.spent() - before
                self.assertLess(self.js("return document.querySelectorAll('#view *').length"), 10000)
                before = self.spent()
                if view == "steps":
                    self.js("const s = document.getElementById('step'); s.value = 1000; s.dispatchEvent(new Event('input'))")
                    self.wait(lambda: self.texts("#produced .now") == [f"word{n - n * 4 // 5 + 1000}"])
                else:
                    self.press("]")
                    self.wait(lambda: self.all(".pick[data-head='1'][aria-pressed=true]"))
                costs[f"{view} of {n} tokens"] = f"{opened:.2f} s, then {self.spent() - before:.2f} s"
                with self.subTest(view, tokens=n):
                    self.assertLess(opened, 6)
                    self.assertLess(self.spent() - before, 3)
        print("\nprocessor time of opening a view, and of another step or head:", costs)

    def press(self, *keys):
        ActionChains(self.driver).send_keys(*keys).perform()

    def test_steps_show_what_is_looked_at(self):
        self.open("view=steps&step=3000", self.pages[TOKENS])
        query = TOKENS // 5 + 3000
        mean = {}
        for head in range(HEADS):
            for j, w in self.rows[head][query].items():
                mean[j] = mean.get(j, 0) + w / HEADS
        chips = self.texts("#before-chips bdi")
        self.assertLess(len(chips), 100)
        numbers = [int(chip.removeprefix("word")) for chip in chips]
        self.assertEqual(numbers, sorted(numbers), "in their order")
        for j, w in mean.items():
            if w > 0.01 and j <= query:
                self.assertIn(j, numbers)
        self.assertTrue(self.all("#before-chips .gap"))
        self.assertIn(f"Of 4,001 tokens the {len(chips)} with the largest values", " ".join(self.texts(".left-out")))
        self.assertIn("Of 4,000 those from 2,961 to 3,040 are shown", " ".join(self.texts(".left-out")))
        self.assertEqual(self.texts("#produced .now"), [f"word{query}"])
        self.assertEqual([len(self.all(each)) for each in ("#produced .chip", "#alignment tbody tr")], [80, 80])
        most = sorted(mean, key=lambda j: -mean[j])[:2]
        self.assertEqual([self.texts(f"#alignment .now td:nth-of-type({n})")[0] for n in (1, 3)], [f"word{j}" for j in most])
        self.assertTrue(self.all(".mapwindow #alignmap"))
        rows = list(csv.DictReader(io.StringIO(self.saved("CSV").decode("utf-8-sig"), newline="")))
        of_step = {r["attends to"]: float(r["share"]) for r in rows if r["word"] == f"word{query}"}
        self.assertAlmostEqual(of_step[f"word{most[0]}"], mean[most[0]], delta=0.01)

    def test_compare_shows_the_largest_differences(self):
        self.open("view=compare", self.pages[TOKENS])
        self.assertEqual(len(self.all("#predictions .chip")), 400)
        shown = [int(token.removeprefix("word")) for token in self.texts("#predictions bdi")]
        self.assertEqual(shown, sorted(sorted((i for i in range(4000) if i % 7 == 0), key=lambda i: -i)[:400]))
        self.assertIn("Of 4,000 tokens the 400 with the largest values", " ".join(self.texts(".left-out")))

    def test_what_is_short_is_shown_whole(self):
        page = long_page(300)
        page["groups"][0].update(step_keys="output")
        page["steps"] = [{"token": f"word{i}", "candidates": []} for i in range(300)]
        page.update(compared=long_page(300)["groups"], predictions=[["a", 0.5, 0.25]] * 300)
        path = self.at / "short.html"
        path.write_bytes(made(page))
        for where, count in [("view=steps&step=299", 600), ("view=compare", 300)]:
            self.open(where, path)
            self.assertEqual(len(self.all(".chip")), count)
            self.assertEqual(self.all(".left-out, .gap"), [])


if __name__ == "__main__":
    browser.main()
