"""The page about a picture in a real browser: weights over the picture that tokens are patches of."""
import io
import math
import xml.etree.ElementTree

import browser
from browser import ActionChains, Keys
from pages import Browser, Group, made

ROWS, COLUMNS, SIDE = 3, 4, 10  # patches, and pixels of a patch
TOKENS = ["[CLS]"] + [f"{r + 1},{c + 1}" for r in range(ROWS) for c in range(COLUMNS)]
GROUP = Group("Self-attention", TOKENS, TOKENS, seed=4, sharp=1.5, picture={
    "shape": [ROWS * SIDE, COLUMNS * SIDE, 3], "values": [120, 60, 200] * (ROWS * COLUMNS * SIDE * SIDE),
    "rows": ROWS, "columns": COLUMNS})
TEXT = Group("Text", ["a", "b"], ["a", "b"], seed=5)
FIRST = 1  # token that is a patch
GREY = 0.299 * 120 + 0.587 * 60 + 0.114 * 200


class Picture(Browser):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.page.write_bytes(made({"title": "cat.png", "groups": [GROUP.json(), TEXT.json()]}))

    def over(self, n=1):
        """The colours in the middles of the patches of the n-th canvas, the picture's own being 0."""
        return [tuple(c) for c in self.js("""
            const c = document.querySelectorAll('.pictures canvas.patches')[arguments[0]], rows = arguments[1], columns = arguments[2];
            const copy = new OffscreenCanvas(c.width, c.height).getContext('2d', {willReadFrequently: true});
            copy.drawImage(c, 0, 0);
            return Array.from({length: rows * columns}, (_, i) => [...copy.getImageData(
              Math.floor(c.width * (i % columns + 0.5) / columns), Math.floor(c.height * (Math.floor(i / columns) + 0.5) / rows), 1, 1).data].slice(0, 3))
            """, n, ROWS, COLUMNS)]

    def expect_weights(self, colors, weights, dark=False, top=None):
        """Each patch has the colour of its weight over the faded picture."""
        table = self.js("return JSON.parse(document.getElementById('data').textContent).colors")
        color = lambda i: [int(table[6 * i + at:6 * i + at + 2], 16) for at in (0, 2, 4)]
        ground = (18, 18, 31) if dark else (255, 255, 255)
        for got, weight in zip(colors, weights):
            t = weight / (top or max(weights))
            i = round(255 * t)
            over = color(i)
            if dark:  # the other way round, out of the background
                over = [c + (o - c) * min(1, i / 40) for c, o in zip((24, 24, 42), color(255 - i))]
            for g, o, back in zip(got, over, ground):
                faded = back + 0.5 * (GREY - back)
                self.assertAlmostEqual(g, faded + 0.8 * math.sqrt(t) * (o - faded), delta=4)

    def of_patches(self, head, token):
        return GROUP.weights[head][token][FIRST:]

    def point(self, patch):
        canvas = self.one("#picture")
        size = canvas.size
        x = size["width"] * ((patch % COLUMNS + 0.5) / COLUMNS - 0.5)
        y = size["height"] * ((patch // COLUMNS + 0.5) / ROWS - 0.5)
        return ActionChains(self.driver).move_to_element_with_offset(canvas, round(x), round(y))

    def looked(self):
        return self.texts(".pictures figcaption bdi")[-1]


class Views(Picture):
    def test_heads_are_shown_over_the_picture(self):
        self.open("view=model")
        shape = "const c = document.querySelector('.tile canvas'); return [c.width, c.height]"
        self.assertEqual(self.js(shape), [COLUMNS * SIDE, ROWS * SIDE])
        self.assertIn("what [CLS] looks at", self.one(".detail").text)
        self.tool("maps of all tokens")
        self.wait(lambda: self.js(shape) == [len(TOKENS)] * 2)
        self.one("#groups [data-value='1']").click()
        self.wait(lambda: self.js(shape) == [2, 2])
        self.assertNotIn("maps of all tokens", self.one("#tools").text)

    def test_each_kind_of_token_has_its_displays(self):
        self.open("view=head")
        self.assertEqual(self.texts("#tools .segments button"), ["Picture", "Lines", "Map"])
        self.one("#groups [data-value='1']").click()
        self.wait(lambda: self.texts("#tools .segments button") == ["Lines", "Map", "Text"])
        self.assertEqual(self.texts("#tools [aria-pressed=true]"), ["Lines"])

    def test_pointing_at_a_patch(self):
        self.open("view=head&heads=4")
        self.assertEqual(self.looked(), "[CLS]")
        self.expect_weights(self.over(), self.of_patches(4, 0))
        self.assertEqual(set(self.over(0)), {(120, 60, 200)})
        for patch in (0, 5, ROWS * COLUMNS - 1):
            self.point(patch).perform()
            self.wait(lambda: self.looked() == TOKENS[FIRST + patch])
            self.assertEqual(self.texts(".detail h2"), [TOKENS[FIRST + patch]])
            self.expect_weights(self.over(), self.of_patches(4, FIRST + patch))
        ActionChains(self.driver).move_to_element(self.one("h1")).perform()
        self.wait(lambda: self.looked() == "[CLS]")

    def test_a_click_pins(self):
        self.open("view=head&heads=2")
        self.point(6).click().perform()
        self.point(1).perform()
        self.assertEqual(self.looked(), TOKENS[FIRST + 6])
        self.assertIn("query=7", self.driver.current_url)
        self.open("view=head&heads=2&query=7&display=picture")
        self.assertEqual(self.looked(), TOKENS[FIRST + 6])
        ActionChains(self.driver).send_keys(Keys.ESCAPE).perform()
        self.wait(lambda: self.looked() == "[CLS]")
        self.one(".pictures [data-token='0']").click()
        self.assertEqual(self.one(".pictures [data-token='0']").get_attribute("aria-pressed"), "true")
        self.assertIn("query=0", self.driver.current_url)

    def test_dragging_moves_nothing_else(self):
        self.open("view=head&heads=2")
        self.point(0).click_and_hold().perform()
        self.point(11).release().perform()
        self.wait(lambda: self.looked() in (TOKENS[FIRST], TOKENS[FIRST + 11]))
        self.assertEqual(self.js("return String(getSelection())"), "")

    def test_keys_move_over_patches(self):
        self.open("view=head&heads=0")
        self.js("document.getElementById('picture').focus()")
        for key, patch in ((Keys.ARROW_RIGHT, 0), (Keys.ARROW_RIGHT, 1), (Keys.ARROW_DOWN, 5), (Keys.ARROW_LEFT, 4),
                           (Keys.ARROW_LEFT, 4), (Keys.ARROW_UP, 0), (Keys.ARROW_UP, 0)):
            ActionChains(self.driver).send_keys(key).perform()
            self.wait(lambda: self.looked() == TOKENS[FIRST + patch], f"{self.looked()} instead of {TOKENS[FIRST + patch]}")
        self.assertIn("attends most to", self.one("#say").get_attribute("textContent"))

    def test_several_heads(self):
        self.open("view=head&heads=1,3")
        self.assertEqual(len(self.all(".pictures figure")), 4)  # the picture, the mean, each head
        mean = [(a + b) / 2 for a, b in zip(self.of_patches(1, 0), self.of_patches(3, 0))]
        top = max(self.of_patches(1, 0) + self.of_patches(3, 0))  # one scale for single heads
        self.expect_weights(self.over(1), mean)
        self.expect_weights(self.over(2), self.of_patches(1, 0), top=top)
        self.expect_weights(self.over(3), self.of_patches(3, 0), top=top)

    def test_weights_below_0_and_unknown_ones(self):
        n = len(TOKENS)
        row = [0.1, 0.5, -0.5, None] + [0.1] * (n - 4)
        path = self.at / "odd.html"
        path.write_bytes(made({"groups": [{"queries": TOKENS, "keys": TOKENS, "picture": GROUP.more["picture"],
                                           "weights": {"shape": [n, n], "values": row * n}}]}))
        self.open("view=head", path)
        blue, orange, striped = self.over()[:3]
        self.assertGreater(blue[2], blue[0] + 30)
        self.assertGreater(orange[0], orange[2] + 30)
        self.assertIn(striped, [(90, 90, 90), (225, 225, 225)])

    def test_in_the_dark(self):
        self.screen(1300, 900, dark=True)
        self.open("view=head&heads=4")
        self.expect_weights(self.over(), self.of_patches(4, 0), dark=True)

    def test_on_a_phone(self):
        self.screen(360, 740, phone=True)
        self.open("view=head&heads=4")
        width = self.js("return [document.documentElement.scrollWidth, innerWidth]")
        self.assertLessEqual(width[0], width[1])
        self.point(5).click().perform()
        self.wait(lambda: self.looked() == TOKENS[FIRST + 5])

    def test_saved(self):
        self.open("view=head&heads=4&query=3&display=picture")
        svg = xml.etree.ElementTree.parse(io.BytesIO(self.saved("SVG")))
        self.assertEqual(len(svg.findall(".//{http://www.w3.org/2000/svg}image")), 2)
        self.assertIn(f"{TOKENS[3]} looks at", [t.text for t in svg.iter("{http://www.w3.org/2000/svg}text")])
        scale = [r for r in svg.iter("{http://www.w3.org/2000/svg}rect") if (r.get("width"), r.get("height")) == ("2", "12")]
        self.assertEqual(len(scale), 60)
        self.assertTrue(self.saved("PNG").startswith(b"\x89PNG"))
        got = {(int(r["query"]), int(r["key"])): float(r["weight"]) for r in self.table()}
        for j, w in enumerate(GROUP.weights[4][3]):
            self.assertAlmostEqual(got.get((4, j + 1), 0), w, delta=2e-4)
        self.view("model")
        svg = xml.etree.ElementTree.parse(io.BytesIO(self.saved("SVG")))
        self.assertEqual(len(svg.findall(".//{http://www.w3.org/2000/svg}image")), 6)


if __name__ == "__main__":
    browser.main()
