"""The page for everyone: any width, any direction of writing, ears instead of eyes, keys instead of a mouse, paper.
HEED_TEST_ALL=1 takes two more widths."""
import base64
import math
import os
import re
import subprocess
import xml.etree.ElementTree

import browser
from browser import ActionChains, Keys
from page_long_test import long_page
from pages import BOTH, CROSS, DECODER, ENCODER, OUTPUT, SOURCE, Group, made
from page_use_test import CONTRASTS, SVG, VIEWS, Use, luminance, mean_row
from picture_page_test import GROUP as PICTURE
from program import HEED

HEBREW = ["<s>", "ה", "כלב", "אוכל", "ל", "חם", ".", "</s>"]
HEBREW_WORDS = [0, 1, 1, 2, 3, 3, 4, 5]
ENGLISH = ["The", "dog", "eats", "bread", ".", "</s>"]
LEFTWARD = {"title": "הכלב אוכל לחם.", "text": "The dog eats bread.",
            "steps": [{"token": t, "candidates": [[t, 0.7]]} for t in ENGLISH],
            "groups": [Group("Encoder", HEBREW, HEBREW, query_words=HEBREW_WORDS, key_words=HEBREW_WORDS, seed=5).json(),
                       Group("Cross", ENGLISH, HEBREW, key_words=HEBREW_WORDS, step_keys="input", seed=6).json()]}
EVERY = [*VIEWS, "view=story&tour=1", "view=story&tour=4", "view=head&heads=0,1,2,3,4,5", "view=compare&group=1&cell=A,1,1"]
WIDTHS = (320, 768, 1280, 2560, 3840) if os.environ.get("HEED_TEST_ALL") == "1" else (320, 1280, 3840)


class Everyone(Use):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.pages = {}
        for name, page in {"both": BOTH, "leftward": LEFTWARD, "picture": {"title": "cat.png", "groups": [PICTURE.json()]},
                           "long": long_page(700), "heads": {"title": "Twenty heads", "groups": [
                               Group("Encoder", SOURCE, SOURCE, layers=1, heads=20, size=300).json()]}}.items():
            cls.pages[name] = cls.at / f"{name}.html"
            cls.pages[name].write_bytes(made(page))
        cls.page = cls.pages["both"]

    def every(self):
        """(address, page) of every view."""
        return [*[(where, self.pages["both"]) for where in EVERY], ("view=head&query=1", self.pages["heads"]),
                ("view=inside", self.pages["heads"]),
                *[(where, self.pages["picture"]) for where in ("view=story", "view=model", "view=head", "view=head&display=map")],
                *[(where, self.pages["long"]) for where in ("view=story", "view=model", "view=head", "view=head&display=map",
                                                            "view=head&display=map&zoom=14&at=100,100&query=3&key=4", "view=head&display=text")]]

    def said(self):
        return self.one("#say").get_attribute("textContent")

    def emulate(self, **features):
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {
            "media": "", "features": [{"name": name.replace("_", "-"), "value": value} for name, value in features.items()]})


# ------------------------------------------------------------------------------------------------ screens and paper

class Screens(Everyone):
    def test_no_page_scrolls_sideways(self):
        for width in WIDTHS:
            self.screen(width, 800, phone=width < 500)
            for where, path in self.every():
                with self.subTest(where, width=width, page=path.name):
                    self.open(where, path)
                    wide, cut = self.js("""
                        const clips = e => e && e !== document.body && (getComputedStyle(e).overflowX !== 'visible' || clips(e.parentElement));
                        return [document.documentElement.scrollWidth, [...document.querySelectorAll('body *')].filter(e =>
                            e.getBoundingClientRect().right > innerWidth + 1 && e.checkVisibility() && !clips(e) && !e.closest('.unseen'))
                            .map(e => e.outerHTML.slice(0, 80))]""")
                    self.assertLessEqual(wide, width)
                    self.assertEqual(cut, [], "nothing is cut off")

    def test_the_open_tab_is_in_sight(self):
        self.screen(320, 740, phone=True)
        for where, tab in [("view=compare", "#views"), ("view=head&group=2", "#groups"), ("view=story&group=0", "#views")]:
            self.open(where)
            left, right, room = self.js("""
                const tabs = document.querySelector(arguments[0]), open = tabs.querySelector('[aria-selected=true]').getBoundingClientRect();
                return [open.left, open.right, tabs.getBoundingClientRect().right]""", tab)
            self.assertGreaterEqual(left, 0, where)
            self.assertLessEqual(right, room + 0.5, where)
            self.assertEqual(self.js("return scrollY"), 0)

    def test_a_wide_screen_is_used(self):
        self.screen(3840, 2000)
        self.open("view=head&display=map", self.pages["long"])
        self.assertGreater(self.box("#map")[2], 1400)
        self.assertGreater(self.box("main")[2], 2000)

    def test_each_view_is_one_sheet(self):
        for where, path in self.every():
            if path == self.pages["long"] and "display=map" not in where and "model" not in where:
                continue  # a list of 700 tokens
            with self.subTest(where, page=path.name):
                self.open(where, path)
                pdf = base64.b64decode(self.driver.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})["data"])
                self.assertEqual(len(re.findall(rb"/Type\s*/Page\b", pdf)), 1)

    def test_a_finger_reads_and_pins(self):
        self.screen(390, 844, phone=True)
        self.driver.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": True})
        self.addCleanup(self.driver.execute_cdp_cmd, "Emulation.setTouchEmulationEnabled", {"enabled": False})

        def tap(selector, x=0.5, y=0.5):
            self.js("document.querySelector(arguments[0]).scrollIntoView({block: 'center'})", selector)
            left, top, width, height = self.box(selector)
            for kind, points in [("touchStart", [{"x": left + width * x, "y": top + height * y}]), ("touchEnd", [])]:
                self.driver.execute_cdp_cmd("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

        self.open("view=head&group=1&heads=2")
        tap("#tokens-query li:nth-child(3)")
        self.wait(lambda: self.texts(".detail h2") == [OUTPUT[2]] and "query=2" in self.driver.current_url)
        self.open("view=head&group=1&heads=2&display=map")
        tap("#map", 0.9, 0.9)
        self.wait(lambda: len(self.texts(".detail .big")) == 1)
        self.open("view=head&group=0&heads=2&display=text")
        tap("#tokens-query .piece:nth-child(2)")
        self.wait(lambda: self.texts(".detail h2") == [SOURCE[1]])
        self.open("view=compare&group=1&heads=2")
        tap("#map-A", 0.9, 0.9)
        self.wait(lambda: self.texts(".pair .value"))
        self.open("view=story")
        tap("#tokens-query li:nth-child(1)")
        self.wait(lambda: "query=0" in self.driver.current_url)
        for element in self.all("button, select, input"):  # large enough for a finger
            box = element.rect
            if element.is_displayed() and "term" not in (element.get_attribute("class") or "").split():
                self.assertGreaterEqual(max(box["height"], box["width"]), 16, element.get_attribute("outerHTML")[:80])


# ------------------------------------------------------------------------------------------------ writing

class Writing(Everyone):
    def test_text_runs_from_right_to_left(self):
        path = self.pages["leftward"]
        places = lambda selector: self.js("return [...document.querySelectorAll(arguments[0])].map(e => e.getBoundingClientRect().left)", selector)
        for where, selector, leftward in [("view=head&display=text&group=0", "#tokens-query .piece", True),
                                          ("view=head&display=text&group=1", "#tokens-key .piece", True),
                                          ("view=head&display=text&group=1", "#tokens-query .piece", False),
                                          ("view=steps&step=2", "#input-chips .chip", True), ("view=steps&step=2", "#produced .chip", False)]:
            with self.subTest(where):
                self.open(where, path)
                at = places(selector)
                self.assertEqual(at, sorted(at, reverse=leftward), selector)
        self.assertEqual(self.js("return getComputedStyle(document.querySelector('h1')).direction"), "rtl")
        self.assertEqual(self.js("return getComputedStyle(document.getElementById('text')).direction"), "ltr")

    def test_tokens_in_lists_have_their_own_direction(self):
        path = self.pages["leftward"]
        for where in ("view=head&group=1", "view=story&group=1"):
            self.open(where, path)
            directions = self.js("return [...document.querySelectorAll('#tokens-key bdi')].map(e => [e.textContent, getComputedStyle(e).direction])")
            for text, direction in directions:
                self.assertEqual(direction == "rtl", bool(re.search("[א-ת]", text)), text)
            self.assertEqual({d for _, d in directions}, {"ltr", "rtl"})
        # A piece that goes on with a word has its dot where the word begins, at the right.
        self.open("view=head&group=1", path)
        dot, letters = self.js("""
            const bdi = [...document.querySelectorAll('#tokens-key bdi')].find(e => e.textContent === '·כלב');
            const box = (from, to) => {
              const range = document.createRange();
              range.setStart(bdi.firstChild, from);
              range.setEnd(bdi.firstChild, to);
              return range.getBoundingClientRect().left;
            };
            return [box(0, 1), box(1, 4)]""")
        self.assertGreater(dot, letters)

    def test_labels_of_maps(self):
        self.record_text("this.direction")
        for where in ("view=head&display=map&group=1", "view=steps"):
            self.open(where, self.pages["leftward"])
            written = [(text, direction) for text, direction in self.js("return written")]
            self.assertIn("rtl", {direction for _, direction in written})
            for text, direction in written:
                self.assertEqual(direction == "rtl", bool(re.search("[א-ת]", text)), text)

    def test_files(self):
        self.open("view=head&display=text&group=0", self.pages["leftward"])
        texts = [e for e in self.svg().iter(SVG + "text")]
        at = [(float(e.get("x")), e.text) for e in texts if e.text in HEBREW]
        self.assertEqual([text for _, text in sorted(at, reverse=True)], HEBREW)
        self.open("view=head&group=1", self.pages["leftward"])
        for e in self.svg().iter(SVG + "text"):
            self.assertEqual(e.get("direction") == "rtl", bool(re.match("[^a-zA-Z]*[א-ת]", e.text)), e.text)
            if e.text == "אוכל":
                self.assertEqual(e.get("text-anchor"), "end", "its left end is beside the lines")

    def test_every_text_says_whose_language_it_is(self):
        path = self.at / "own.html"
        path.write_bytes(made({**BOTH, "groups": [{**group, "title": "Meine Aufmerksamkeit", "note": "Eine Notiz"} for group in BOTH["groups"]]}))
        readers = ["Meine Aufmerksamkeit", "Eine Notiz", BOTH["title"], BOTH["text"], BOTH["compared_text"], *SOURCE, "dog", "air"]
        for where in EVERY:
            self.open(where, path)
            wrong = self.js("""
                const out = [], walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
                for (let node; node = walker.nextNode();) {
                  const e = node.parentElement, text = node.data.trim();
                  if (!e.closest('script, noscript') && arguments[0].includes(text) && e.closest('[lang]').lang !== '') out.push(e.outerHTML.slice(0, 120));
                }
                return out""", [t for t in readers if len(t) > 1])
            self.assertEqual(wrong, [], where)


# ------------------------------------------------------------------------------------------------ ears

class Ears(Everyone):
    def row(self, name, labels, weights):
        percent = lambda w: f"{100 * w:.0f} %" if w >= 0.0995 else f"{100 * w:.1f} %" if w >= 0.01 else f"{100 * w:.2f} %"
        order = sorted((j for j in range(len(weights)) if weights[j] >= 0.005), key=lambda j: -weights[j])[:5]
        return f"{name}: " + ", ".join(f"{labels[j]} {percent(weights[j])}" for j in order)

    def test_rows_are_read_out_in_every_view(self):
        self.open("view=head&group=1&heads=2")
        self.js("document.querySelector('#tokens-query li').focus()")
        self.press(Keys.ARROW_DOWN)
        self.wait(lambda: self.said() == self.row(OUTPUT[1], SOURCE, CROSS.weights[2][1]), self.said())
        self.open("view=head&group=0&heads=2&display=text")
        self.js("document.querySelector('#tokens-query .piece').focus()")
        self.press(Keys.ARROW_RIGHT)
        self.wait(lambda: self.said() == self.row(SOURCE[1], SOURCE, ENCODER.weights[2][1]), self.said())
        self.open("view=steps&step=1")
        self.js("document.getElementById('step').focus()")
        self.press(Keys.ARROW_RIGHT)
        self.wait(lambda: self.said() == self.row(OUTPUT[2], SOURCE, mean_row(CROSS, 2)), self.said())
        self.open("view=inside&group=1&heads=4&query=2")
        self.one("#tools [data-value=after]").click()
        self.wait(lambda: self.said() == self.row(OUTPUT[3], SOURCE, CROSS.weights[4][3]), self.said())
        self.open("view=story&group=1")
        self.js("document.querySelector('#tokens-query li').focus()")
        self.press(Keys.ARROW_DOWN)
        self.wait(lambda: re.fullmatch(r"dog: \w+ \d+ %(, \S+ [\d.]+ %)*", self.said()), self.said())
        self.open("view=head&display=map&group=1&heads=2&query=1&key=1")
        self.js("document.getElementById('map').focus()")
        self.press(Keys.ARROW_RIGHT)
        self.wait(lambda: self.said().startswith(f"{OUTPUT[1]} attends to {SOURCE[2]}: 0."), self.said())
        self.open("view=compare&group=1&cell=A,1,1")
        self.js("document.getElementById('map-A').focus()")
        self.press(Keys.ARROW_DOWN)
        self.wait(lambda: self.said().startswith(f"A: {OUTPUT[2]} attends to {SOURCE[1]} with "), self.said())

    def test_what_can_be_reached_has_a_name_and_a_role(self):
        for where, path in self.every():
            with self.subTest(where, page=path.name):
                self.open(where, path)
                tree = self.driver.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
                focusable = [n for n in tree if not n.get("ignored") and any(
                    p["name"] == "focusable" and p["value"].get("value") for p in n.get("properties", []))]
                self.assertGreater(len(focusable), 8)
                nameless = [n["role"]["value"] for n in focusable
                            if not n.get("name", {}).get("value", "").strip() and n["role"]["value"] not in ("RootWebArea", "tabpanel", "generic")]
                self.assertEqual(nameless, [])


# ------------------------------------------------------------------------------------------------ keys

class ByKeys(Everyone):
    def test_buttons_at_an_end_keep_the_focus(self):
        self.open("view=inside&group=1&query=4")
        self.js("document.querySelector('#tools [data-value=after]').focus()")
        for _ in range(3):
            self.press(Keys.ENTER)
        self.wait(lambda: "query=5" in self.driver.current_url)
        self.assertEqual(self.js("return document.activeElement.dataset.value"), "after")
        self.press(Keys.SHIFT, Keys.TAB)
        self.assertNotEqual(self.js("return document.activeElement.tagName"), "BODY")

    def test_the_switch_is_there_on_a_narrow_screen(self):
        self.screen(320, 640)
        self.open("view=head")
        self.assertTrue(self.one("#foot .keys input").is_displayed())
        self.one("#foot .keys input").click()
        self.press("2")
        self.one("#groups [data-value='1']").click()
        self.wait(lambda: "group=1" in self.driver.current_url)
        self.assertEqual(self.shown_view(), "head")
        self.one("#foot .keys input").click()

    def test_without_single_keys_the_rest_works(self):
        self.open("view=model")
        self.one("#foot .keys input").click()
        self.js("document.querySelector('#views [aria-selected=true]').focus()")
        self.press(Keys.ARROW_RIGHT, Keys.ENTER)
        self.wait(lambda: self.shown_view() == "head")
        self.js("document.querySelector('#tokens-query li').focus()")
        self.press(Keys.ARROW_DOWN, Keys.ENTER)
        self.wait(lambda: "query=1" in self.driver.current_url)
        self.one("#foot .keys input").click()

    def test_what_scrolls_can_be_scrolled_by_keys(self):
        self.screen(900, 700)
        for where, path in self.every():
            self.open(where, path)
            stuck = self.js("""
                return [...document.querySelectorAll('main *')].filter(e => {
                  const style = getComputedStyle(e);
                  const scrolls = (/auto|scroll/.test(style.overflowY) && e.scrollHeight > e.clientHeight + 1) ||
                      (/auto|scroll/.test(style.overflowX) && e.scrollWidth > e.clientWidth + 1);
                  return scrolls && !e.querySelector('[tabindex="0"], button, a') && e.tabIndex < 0;
                }).map(e => e.outerHTML.slice(0, 100))""")
            with self.subTest(where, page=path.name):
                # Chromium and Firefox give a scroller without anything focusable in it the focus of its own.
                for html in stuck:
                    self.assertNotIn("tabindex=\"-1\"", html)


# ------------------------------------------------------------------------------------------------ eyes

# The pixel that a text begins on.
GROUND = """
    const get = HTMLCanvasElement.prototype.getContext;
    HTMLCanvasElement.prototype.getContext = function(kind, options) { return get.call(this, kind, {...options, willReadFrequently: true}); };
    window.groundOf = context => {
      const at = context.getTransform().transformPoint({x: {right: -3, left: 3}[context.textAlign] ?? 0, y: 0});
      return [...context.getImageData(Math.round(at.x), Math.round(at.y), 1, 1).data];
    };"""


def contrast(a, b):
    light, dark = sorted((luminance(a), luminance(b)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


class Eyes(Everyone):
    def test_contrast_of_all_text(self):
        for dark in (False, True):
            self.screen(1300, 900, dark=dark, reduced=True)
            for where, path in self.every():
                with self.subTest(where, dark=dark, page=path.name):
                    self.open(where, path)
                    count, poor = self.js(CONTRASTS)
                    self.assertGreater(count, 20)
                    self.assertEqual(poor, [])

    def test_contrast_under_the_pointer(self):
        for dark in (False, True):
            self.screen(1300, 900, dark=dark, reduced=True)
            for where, selectors in [
                    ("view=story&group=1", ["#views [aria-selected=true]", "#views [aria-selected=false]", "#groups [aria-selected=true]",
                                            "#groups [aria-selected=false]", ".primary", ".actions .link", ".term", "#tokens-query li", "#foot button"]),
                    ("view=head&group=1", [".segments [aria-pressed=true]", ".segments [aria-pressed=false]", "#tokens-key li", ".picker .link"]),
                    ("view=steps&step=2", [".chip.now", ".chip.later", "#alignment .link"]), ("view=model", [".tile"]),
                    ("view=head&display=text&group=0", [".piece"]), ("view=inside&group=2", [".steps-table .link", "#tools [data-value=after]"])]:
                self.open(where)
                for selector in selectors:
                    with self.subTest(selector, dark=dark):
                        self.point(self.one(selector))
                        self.assertEqual(self.js(CONTRASTS)[1], [])

    def test_contrast_of_text_on_canvases(self):
        self.enterContext(self.before(GROUND))
        self.record_text("this.fillStyle", "groundOf(this)")
        for dark in (False, True):
            self.screen(1300, 900, dark=dark)
            seen = 0
            for where, path in self.every():
                self.open(where, path)
                back = [int(c) for c in re.findall(r"\d+", self.js("return getComputedStyle(document.body).backgroundColor"))]
                for text, color, (r, g, b, alpha) in self.js("return written"):
                    seen += 1
                    own = [int(color[at:at + 2], 16) for at in (1, 3, 5)]
                    below = [(c * alpha + d * (255 - alpha)) / 255 for c, d in zip((r, g, b), back)]
                    self.assertGreaterEqual(contrast(own, below), 4.45, (where, text, color, below))
            self.assertGreater(seen, 300)

    def test_lines_and_marks_can_be_seen(self):
        """3:1 for what is no text: the colours of heads, the outline of the focus, a chosen tab."""
        for dark in (False, True):
            self.screen(1300, 900, dark=dark)
            self.open("view=head&group=1&heads=0,1,2,3,4,5")
            colors = self.js("""
                const probe = document.body.appendChild(document.createElement('p')), out = [];
                const rgb = color => { probe.style.color = color; return getComputedStyle(probe).color.match(/\\d+/g).map(Number); };
                for (const s of document.querySelectorAll('.swatch')) out.push(rgb(s.style.getPropertyValue('--color')));
                out.push(rgb('var(--accent)'), rgb('var(--flag)'));
                probe.remove();
                return [out, getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)]""")
            for color in colors[0]:
                self.assertGreaterEqual(contrast(color, colors[1]), 3, color)

    def test_the_focus_can_be_seen(self):
        for dark in (False, True):
            self.screen(1300, 900, dark=dark)
            for where in EVERY:
                self.open(where)
                for _ in range(9):
                    self.press(Keys.TAB)
                    width, style, tag = self.js("""
                        const e = document.activeElement, s = getComputedStyle(e);
                        return [parseFloat(s.outlineWidth), s.outlineStyle, e.tagName + ' ' + e.className]""")
                    if tag.startswith("BODY"):
                        continue
                    self.assertTrue(width >= 1 and style != "none", (where, tag))

    def test_forced_colours(self):
        for scheme in ("light", "dark"):
            self.emulate(forced_colors="active", prefers_color_scheme=scheme)
            look = "const c = getComputedStyle(arguments[0]); return [c.backgroundColor, c.outlineStyle, c.outlineWidth, c.borderTopColor, c.fontWeight]"
            for where, on, off in [
                    ("view=model", ".tile.chosen", ".tile:not(.chosen)"), ("view=steps&step=2", ".chip.now", ".chip.produced:not(.now)"),
                    ("view=head&group=1&query=1", "#tokens-query .looked", "#tokens-query li:not(.looked)"),
                    ("view=head&display=text&group=1&query=1", "#tokens-query .looked", "#tokens-query .piece:not(.looked)"),
                    ("view=story&tour=2", ".tour-steps [aria-current]", ".tour-steps li:not([aria-current])"),
                    ("view=head&group=1", "#views [aria-selected=true]", "#views [aria-selected=false]"),
                    ("view=head&group=1", "#groups [aria-selected=true]", "#groups [aria-selected=false]"),
                    ("view=head&group=1", ".pick[aria-pressed=true]", ".pick[aria-pressed=false]")]:
                with self.subTest(on, scheme=scheme):
                    self.open(where)
                    self.assertNotEqual(self.js(look, self.one(on)), self.js(look, self.one(off)))
            # What weights are seen by keeps its colours: bars, chips and shades.
            self.open("view=head&group=1&heads=2&query=1")
            [bar, lit] = self.js("return ['.bars .stack i', '#tokens-key .lit'].map(s => getComputedStyle(document.querySelector(s)).backgroundColor)")
            self.assertNotEqual(bar, self.js("return getComputedStyle(document.querySelector('.bars .stack')).backgroundColor"))
            self.assertNotIn(lit, ("rgba(0, 0, 0, 0)", self.js("return getComputedStyle(document.body).backgroundColor")))
            self.assertEqual(self.js(CONTRASTS)[1], [])
        self.emulate(prefers_color_scheme="light")

    def test_reduced_motion(self):
        self.screen(1300, 900, reduced=True)
        for where, path in self.every():
            self.open(where, path)
            moving = self.js("""
                return [...document.querySelectorAll('*')].filter(e => {
                  const s = getComputedStyle(e);
                  return s.transitionDuration !== '0s' || s.animationName !== 'none' || s.scrollBehavior === 'smooth';
                }).map(e => e.outerHTML.slice(0, 80))""")
            self.assertEqual(moving, [], where)
            self.assertEqual(self.js("return document.getAnimations().length"), 0)


# ------------------------------------------------------------------------------------------------ the address

class WholeState(Everyone):
    def test_what_was_chosen_is_chosen_again(self):
        """The page as it is after each choice, and as its address opens it, are the same."""
        look = """
            const clean = e => { const c = e.cloneNode(true); c.querySelector('.printed')?.remove(); return c.outerHTML.replace(/ (data-[a-z]+|value|tabindex)="[^"]*"/g, ''); };
            const inputs = [...document.querySelectorAll('#tools input, #tools select')].map(i => i.type === 'checkbox' ? i.checked : i.value);
            const canvases = [...document.querySelectorAll('main canvas')].map(c => c.toDataURL());
            return [clean(document.getElementById('view')), clean(document.getElementById('bar')), inputs, canvases]"""
        select = lambda selector, value: self.js("""
            const s = document.querySelector(arguments[0]);
            s.value = arguments[1];
            s.dispatchEvent(new Event(s.tagName === 'SELECT' ? 'change' : 'input'))""", selector, value)
        click = lambda selector: self.one(selector).click()
        for start, choices in [
                ("view=model", [lambda: self.tool("own scale"), lambda: self.tool("lift"), lambda: select("#tools select", "entropy"),
                                lambda: self.tool("figures as a table")]),
                ("view=head&group=1&heads=2", [lambda: self.tool("whole words"), lambda: self.tool("hide the sink"), lambda: select("#threshold", "0.3"),
                                               lambda: click("#tokens-query li:nth-child(2)"), lambda: click("#tools [data-value=map]"),
                                               lambda: self.tool("lift"), lambda: click(".pick[data-head='4']")]),
                ("view=head&group=0", [lambda: click("#tools [data-value=text]"), lambda: click("#tokens-query .piece:nth-child(3)")]),
                ("view=inside&group=1", [lambda: click("#tools [data-value=after]"), lambda: click(".steps-table [data-token='2']"),
                                         lambda: select("#tools select", "4")]),
                ("view=steps", [lambda: select("#step", "3"), lambda: select("#tools select", "1"), lambda: self.tool("lift")]),
                ("view=compare&group=0", [lambda: click("#map-A"), lambda: select("#tools select", "tokens"), lambda: click(".pick[data-head='4']")]),
                ("view=story&group=1", [lambda: click("#tokens-query li:nth-child(1)"), lambda: click(".primary"), lambda: click(".primary")])]:
            self.open(start)
            for n, choose in enumerate(choices):
                before = self.driver.current_url
                choose()
                ActionChains(self.driver).move_to_element(self.one("h1")).perform()
                self.js("document.activeElement.blur()")
                self.wait(lambda: self.driver.current_url != before, f"{start}: choice {n} is not in the address")
                shown, url = self.js(look), self.driver.current_url
                self.open(url.split("#")[1])
                ActionChains(self.driver).move_to_element(self.one("h1")).perform()
                again = self.js(look)
                for a, b in zip(shown, again):
                    self.assertEqual(a, b, f"{start}: choice {n}")

    def test_back_goes_back(self):
        self.open("view=story")
        for view in ("model", "head", "inside", "steps", "compare"):
            self.view(view)
        for view in ("steps", "inside", "head", "model", "story"):
            self.driver.back()
            self.wait(lambda: self.shown_view() == view)
        self.driver.forward()
        self.wait(lambda: self.shown_view() == "model")


if __name__ == "__main__":
    browser.main()
