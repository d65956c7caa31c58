"""The pages in Firefox: every view, drags, files that are saved and opened again, no message and no request."""
import base64
import csv
import io
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import xml.etree.ElementTree

import firefox
from page_long_test import long_page
from pages import BOTH, CROSS, MODEL, OUTPUT, SOURCE, made
from page_use_test import VIEWS
from picture_page_test import GROUP as PICTURE
from program import HEED
from report_test import PAIRS, write_corpus

SVG = "{http://www.w3.org/2000/svg}"
SKIPPED = 77


@unittest.skipIf(firefox.MISSING, firefox.MISSING)
class Pages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.at = pathlib.Path(tempfile.mkdtemp(prefix="heed-firefox-"))
        cls.addClassCleanup(shutil.rmtree, cls.at, ignore_errors=True)
        cls.downloads = cls.at / "downloads"
        cls.firefox = firefox.Firefox(cls.at / "profile", cls.downloads)
        cls.addClassCleanup(cls.firefox.quit)
        cls.pages = {}
        for name, page in {"both": BOTH, "long": long_page(600), "picture": {"title": "cat.png", "groups": [PICTURE.json()]}}.items():
            cls.pages[name] = cls.at / f"{name}.html"
            cls.pages[name].write_bytes(made(page))

    def setUp(self):
        self.firefox.get("about:blank")
        self.firefox.resize(1300, 900)
        self.firefox.console()
        self.firefox.requests()

    def tearDown(self):
        self.assertEqual(self.firefox.console(), [])
        self.assertEqual(self.firefox.requests(), [])

    def js(self, script, *arguments):
        return self.firefox.js(script, *arguments)

    def wait(self, condition, says="it did not happen"):
        end = time.monotonic() + firefox.PATIENCE
        while not condition():
            self.assertLess(time.monotonic(), end, says)
            time.sleep(0.02)

    def open(self, where="", page="both"):
        self.firefox.get("about:blank")
        self.firefox.get(f"file://{self.pages[page]}" + (f"#{where}" if where else ""))
        self.wait(lambda: self.js("return document.documentElement.dataset.ready") == "true", "the page is not ready")

    def texts(self, selector):
        return self.js("return [...document.querySelectorAll(arguments[0])].map(e => e.textContent)", selector)

    def middle(self, selector):
        return self.js("""
            const e = document.querySelector(arguments[0]);
            e.scrollIntoView({block: 'center'});
            const b = e.getBoundingClientRect();
            return [b.left + b.width / 2, b.top + b.height / 2]""", selector)

    def click(self, selector):
        self.firefox.mouse(("move", *self.middle(selector)), ("down",), ("up",))

    def saved(self, kind):
        for path in self.downloads.iterdir():
            path.unlink()
        self.click(f"#foot [data-value={kind}]")
        done = lambda: [p for p in self.downloads.iterdir() if p.suffix == "." + kind.lower() and p.stat().st_size]
        self.wait(lambda: len(done()) == 1 and not list(self.downloads.glob("*.part")), f"no {kind} was saved")
        return done()[0]

    # ------------------------------------------------------------------------------------------ the browser itself

    def test_what_is_asked_for_and_said_would_be_noticed(self):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            address = f"http://127.0.0.1:{listener.getsockname()[1]}/"
            self.js("fetch(arguments[0]).catch(() => {})", address)
            self.wait(lambda: address in self.firefox.requests())
        path = self.at / "alien.html"
        path.write_bytes(self.pages["both"].read_bytes().replace(b"</body>", b"<img src=http://127.0.0.1:9/x></body>", 1))
        self.firefox.get(f"file://{path}")
        messages = []
        self.wait(lambda: messages.extend(self.firefox.console()) or any("img-src" in m for m in messages), messages)

    # ------------------------------------------------------------------------------------------ views

    def test_every_view(self):
        for page, where in [*[("both", where) for where in [*VIEWS, "", "view=compare&cell=A,1,1"]],
                            *[("long", where) for where in ["", "view=model", "view=head", "view=head&display=map&zoom=14&at=300,280",
                                                            "view=head&display=text"]],
                            *[("picture", where) for where in ["", "view=model", "view=head", "view=head&display=map"]]]:
            with self.subTest(where, page=page):
                self.open(where, page)
                self.assertEqual(self.texts(".trouble"), [])
                self.assertGreater(len(self.texts("#view")[0]), 40)
                self.assertLessEqual(*self.js("return [document.documentElement.scrollWidth, innerWidth]"))
                colors = self.js("""
                    return [...document.querySelectorAll('main canvas')].map(c => new Set(new Uint32Array(
                        c.getContext('2d').getImageData(0, 0, c.width, c.height).data.buffer)).size)""")
                self.assertTrue(any(n > 1 for n in colors) or not colors, "something is drawn")
                self.assertGreater(len(base64.b64decode(self.firefox.screenshot())), 5000)

    def test_rows_are_those_of_the_weights(self):
        self.open("view=head&group=1&heads=2")
        self.click("#tokens-query li:nth-child(4)")
        shown = [float(x or 0) for x in self.texts("#tokens-key .amount")]
        for a, b in zip(shown, CROSS.weights[2][3], strict=True):
            self.assertAlmostEqual(a, b if b >= 0.005 else 0, delta=6e-4)
        self.assertEqual(self.texts(".detail h2"), [OUTPUT[3]])

    def test_the_slider_can_be_dragged(self):
        self.open("view=steps&step=0")
        self.js("window.passed = []; document.getElementById('step').addEventListener('input', e => passed.push(e.target.value))")
        left, top, width, height = self.js("const b = document.getElementById('step').getBoundingClientRect();"
                                           "return [b.left, b.top, b.width, b.height]")
        y = top + height / 2
        self.firefox.mouse(("move", left + 8, y), ("down",), *[("move", left + 8 + (width - 16) * n / 8, y) for n in range(1, 9)], ("up",))
        self.wait(lambda: self.texts("#produced .now") == [OUTPUT[-1]])
        self.assertGreaterEqual(len(set(self.js("return window.passed"))), 3, "steps on the way")

    def test_a_long_map_can_be_dragged(self):
        self.open("view=head&display=map&zoom=14&at=300,280", "long")
        place = lambda: self.js("const w = document.querySelector('.mapwindow'); return [w.scrollLeft, w.scrollTop]")
        before, (x, y) = place(), self.middle("#map")
        self.firefox.mouse(("move", x, y), ("down",), ("move", x - 60, y - 40), ("move", x - 140, y - 70), ("up",))
        self.wait(lambda: place() == [before[0] + 140, before[1] + 70], place())
        self.assertEqual(self.texts(".detail .big"), [], "a drag chooses no cell")
        self.wait(lambda: "at=305,290" in self.js("return location.hash"))
        self.firefox.mouse(("move", x, y), ("down",), ("up",))
        self.wait(lambda: len(self.texts(".detail .big")) == 1)

    def test_keys(self):
        self.open("view=head&group=1&heads=2")
        self.js("document.querySelector('#tokens-query li').focus()")
        self.firefox.press("\ue015")  # down
        self.wait(lambda: self.texts("#say")[0].startswith(f"{OUTPUT[1]}: "))
        self.firefox.press("2")
        self.wait(lambda: self.js("return document.getElementById('view').dataset.view") == "model")

    # ------------------------------------------------------------------------------------------ files

    def test_saved_files_are_what_is_shown(self):
        self.open("view=head&group=1&heads=2&query=3")
        rows = list(csv.DictReader(io.StringIO(self.saved("CSV").read_text("utf-8-sig"), newline="")))
        got = {(int(r["query"]) - 1, int(r["key"]) - 1): float(r["weight"]) for r in rows}
        for i, row in enumerate(CROSS.weights[2]):
            for j, w in enumerate(row):
                self.assertAlmostEqual(got.get((i, j), 0), w, delta=2e-4)
        path = self.saved("SVG")
        words = [e.text for e in xml.etree.ElementTree.parse(path).iter(SVG + "text")]
        for token in SOURCE + OUTPUT:
            self.assertTrue({token, "\u00b7" + token} & set(words), token)
        path = path.rename(self.at / "saved.svg")
        png = self.saved("PNG").rename(self.at / "saved.png")
        size = int.from_bytes(png.read_bytes()[16:20], "big")
        self.firefox.get(f"file://{path}")  # opened again
        self.assertEqual(self.js("return document.querySelectorAll('text').length"), len(words))
        self.assertEqual(self.js("return document.documentElement.width.baseVal.value * 2"), size)
        self.firefox.get(f"file://{png}")
        self.assertEqual(self.js("return document.images[0].naturalWidth"), size)

    # ------------------------------------------------------------------------------------------ live typing

    def test_live_typing(self):
        """The bundled model in the page: the translation and all maps follow what is typed."""
        first, second = "El perro come.", "La casa tiene una puerta roja."
        for name, text, more in [("live", first, ["--live"]), ("stored", second, [])]:
            self.pages[name] = self.at / f"{name}.html"
            done = subprocess.run([HEED, "attend", text, "--model", MODEL, *more, "--html", self.pages[name]],
                                  capture_output=True, timeout=240, check=False)
            self.assertEqual(done.returncode, 0, done.stderr.decode())
        view = "view=head&display=map&group=2&heads=5"
        table = lambda: list(csv.DictReader(io.StringIO(self.saved("CSV").read_text("utf-8-sig"), newline="")))
        self.open(view, "stored")
        translation, expected = self.texts("#text"), table()
        self.open(view, "live")
        self.wait(lambda: self.js("return document.documentElement.dataset.alive") == "true", self.texts("#live-line"))
        self.js("""
            window.said = [];
            new MutationObserver(() => said.push(document.getElementById('live-line').textContent))
                .observe(document.getElementById('live-line'), {childList: true});
            document.getElementById('typed').focus()""")
        self.firefox.press(*second)
        self.wait(lambda: self.texts("h1") == [second] and " ms" in self.texts("#live-line")[0], self.texts("#live-line"))
        self.assertEqual(self.texts("#text"), translation)
        self.assertTrue([line for line in self.js("return said") if line.startswith("writing: ")], "steps on the way")
        mine = table()
        self.assertEqual(len(mine), len(expected))
        for a, b in zip(mine, expected):
            self.assertAlmostEqual(float(a.pop("weight")), float(b.pop("weight")), delta=2e-3)
            self.assertEqual(a, b)
        self.assertIn("text=La+casa", self.js("return location.hash"))
        self.js("history.back()")
        self.wait(lambda: first in self.texts("h1") and "text=" not in self.js("return location.hash"))

    # ------------------------------------------------------------------------------------------ the other page

    def test_a_training(self):
        write_corpus(self.at)
        done = subprocess.run([HEED, *PAIRS, "--html-lines", "5,2", "--max-updates", "12"], cwd=self.at, capture_output=True,
                              timeout=240, check=False)
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        self.pages["training"] = self.at / "report.html"
        self.open("", "training")
        self.assertEqual(self.texts(".trouble"), [])
        last = self.texts("#time output")
        self.js("const s = document.getElementById('moment'); s.value = 0; s.dispatchEvent(new Event('input'))")
        self.wait(lambda: self.texts("#time output") != last)
        self.assertGreater(len(self.texts("#curves .chart")), 2)


if __name__ == "__main__":
    done = unittest.main(exit=False).result
    if firefox.MISSING:
        print(f"the pages were not seen by Firefox: {firefox.MISSING}", file=sys.stderr)
    sys.exit(1 if not done.wasSuccessful() else SKIPPED if firefox.MISSING else 0)
