"""The page that heed train --html writes, in a real browser."""
import base64
import csv
import io
import json
import subprocess
import unittest

import browser
from browser import ActionChains, Keys
from page_use_test import CONTRASTS
from program import HEED
from report_test import PAIRS, curve, data_of, write_corpus


class Page(browser.Browser):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        write_corpus(cls.at)
        run = [HEED, *PAIRS, "--html-lines", "5,2,3", "--encoder-layers", "2"]
        for updates in ["12", "24"]:  # cut and resumed
            done = subprocess.run([*run, "--max-updates", updates], cwd=cls.at, capture_output=True, timeout=240, check=False)
            if done.returncode:
                raise AssertionError(done.stderr.decode())
        cls.page = cls.at / "report.html"
        cls.html, cls.data = data_of(cls.page)

    def moment(self):
        return self.one("#time output").text

    def slide(self, to):
        self.js("const s = document.getElementById('moment'); s.value = arguments[0]; s.dispatchEvent(new Event('input'))", to)

    def pixels(self, selector=".tile canvas"):
        return self.js("""
            return [...document.querySelectorAll(arguments[0])].map(c => {
              const copy = new OffscreenCanvas(c.width, c.height).getContext('2d', {willReadFrequently: true});
              copy.drawImage(c, 0, 0);
              return Array.from(copy.getImageData(0, 0, c.width, c.height).data).join();
            })""", selector)

    def test_curves_are_drawn(self):
        self.open()
        self.assertEqual(self.driver.title, "Training of m")
        self.assertEqual(self.texts("#curves h3"), ["Loss", "Validation BLEU", "Learning rate", "Gradient norm"])
        self.assertEqual(self.js("return [...document.querySelectorAll('#curves .line')].map(l => l.dataset.curve)"),
                         ["training", "validation", "averaged", "BLEU", "learning rate", "gradient norm"])
        # A line goes through each point: its height on the page is the value, by the same two ticks.
        values = list(curve(self.data, "Learning rate", "learning rate").values())
        heights = [float(p.split(",")[1]) for p in self.one("[data-curve='learning rate']").get_attribute("points").split()]
        self.assertEqual(len(heights), 12)
        slope = (heights[-1] - heights[0]) / (values[-1] - values[0])
        self.assertLess(slope, 0)
        for value, height in zip(values, heights):
            self.assertAlmostEqual(height, heights[0] + slope * (value - values[0]), delta=0.2)
        self.assertIn("24", self.texts("#facts dd"))

    def test_pointing_at_a_curve_reads_it(self):
        self.open()
        [svg] = self.all("#curves .chart svg")[3:]
        last = self.texts("#curves .chart:nth-child(4) .legend")[0]
        self.assertIn("last", last)
        box = svg.size
        ActionChains(self.driver).move_to_element_with_offset(svg, int(-box["width"] * 0.35), 0).perform()
        self.wait(lambda: "update" in self.texts("#curves .chart:nth-child(4) .legend .at")[0])
        update = int(self.texts("#curves .chart:nth-child(4) .legend .at")[0].split()[-1])
        shown = float(self.texts("#curves .chart:nth-child(4) .legend b")[0])
        self.assertAlmostEqual(shown, curve(self.data, "Gradient norm", "gradient norm")[update], delta=0.006 * shown)
        svg.click()  # goes to the moment nearest to the middle
        self.wait(lambda: self.moment() == "update 12")

    def test_curves_by_keyboard_and_scales(self):
        self.open()
        svg = self.all("#curves .chart svg")[2]
        self.js("arguments[0].focus()", svg)
        svg.send_keys(Keys.HOME)
        self.assertEqual(self.texts("#curves .chart:nth-child(3) .legend .at"), ["update 2"])
        svg.send_keys(Keys.ARROW_RIGHT)
        self.assertEqual(self.texts("#curves .chart:nth-child(3) .legend .at"), ["update 4"])
        self.assertIn("learning rate", self.one("#say").get_attribute("textContent"))
        before = self.one("[data-curve=training]").get_attribute("points")
        self.js("const s = document.querySelectorAll('#curve-tools select')[1]; s.value = 'true'; s.dispatchEvent(new Event('change'))")
        self.wait(lambda: self.one("[data-curve=training]").get_attribute("points") != before)
        self.js("const s = document.querySelectorAll('#curve-tools select')[0]; s.value = 'minutes'; s.dispatchEvent(new Event('change'))")
        self.wait(lambda: any("min" in t for t in self.texts("#curves svg text")))

    def test_slider_moves_the_maps(self):
        self.open()
        self.assertEqual(self.texts("#groups button"), ["Encoder", "Decoder", "Cross"])
        self.assertEqual(len(self.all(".tile")), 4, "2 layers x 2 heads")
        self.assertEqual(self.moment(), "update 24")
        last = self.pixels()
        marks = lambda: self.js("return [...document.querySelectorAll('#curves .now')].map(l => Number(l.getAttribute('x1')))")
        end = marks()
        self.slide(0)
        self.wait(lambda: self.moment() == "before training")
        self.wait(lambda: self.pixels() != last)
        self.wait(lambda: set(marks()) == {44}, "where the time axes begin")
        self.slide(3)
        self.wait(lambda: self.moment() == "update 18")
        self.wait(lambda: 0 < marks()[0] < end[0])
        self.one("#later").click()
        self.wait(lambda: self.moment() == "update 24" and self.pixels() == last)
        self.one("#later").click()
        self.assertEqual(self.moment(), "update 24")

    def test_difference_to_another_moment(self):
        self.open("group=0&head=1")
        plain = self.pixels()
        self.js("""
            const s = document.querySelector("#tools select[aria-label='Difference to']");
            s.value = '0';
            s.dispatchEvent(new Event('change'));""")
        self.wait(lambda: self.texts(".side-map figcaption") == ["before training", "update 24"])
        self.assertIn("since=0", self.driver.current_url)
        self.assertNotEqual(self.pixels(), plain)
        self.assertEqual(self.texts("#tools .scale")[0][0], "\u2212")
        # The cell in the middle of the map: what it has now less what it had.
        def read():
            ActionChains(self.driver).move_to_element(self.one("h1")).move_to_element(self.one("#map")).perform()
            self.wait(lambda: self.all("#readout b"))
            return float(self.texts("#readout b")[0].replace("\u2212", "-"))
        difference = read()
        self.open("group=0&head=1&update=24")
        now = read()
        self.open("group=0&head=1&update=0")
        self.assertAlmostEqual(difference, now - read(), delta=2e-3)
        self.open("group=0&head=1&update=24&since=24")
        self.assertEqual(read(), 0)
        self.open("group=0&since=7")  # which was not kept
        self.assertEqual(self.all(".side-map"), [])

    def test_play(self):
        self.open()
        self.one("#play").click()
        self.wait(lambda: self.moment() == "before training")
        self.wait(lambda: self.moment() == "update 24")
        self.wait(lambda: self.one("#play").text == "Play")

    def test_weights_under_the_pointer_are_those_of_the_model(self):
        self.open()
        group = self.data["groups"][0]
        raw = (self.at / "m/attention.safetensors").read_bytes()
        size = int.from_bytes(raw[:8], "little")
        header = json.loads(raw[8:8 + size])
        n = group["keys"]
        begin = 8 + size + header["0/24/0"]["data_offsets"][0]
        levels = list(raw[begin + 3 * n * n:begin + 4 * n * n])  # layer 2, head 2
        self.one(".tile[data-head='3']").click()
        self.wait(lambda: "layer 2, head 2" in self.texts(".detail h2"))
        canvas = self.one("#map")
        canvas.send_keys(Keys.ARROW_DOWN)
        query = key = 0
        for press, (i, j) in [(Keys.ARROW_DOWN, (1, 0)), (Keys.ARROW_RIGHT, (0, 1)), (Keys.ARROW_RIGHT, (0, 1))]:
            canvas.send_keys(press)
            query, key = query + i, key + j
            row = levels[query * n:(query + 1) * n]
            weight = row[key] ** 2 / sum(x * x for x in row)
            shown = float(self.one("#readout b").text)
            self.assertAlmostEqual(shown, weight, delta=5.1e-4)
        ActionChains(self.driver).move_to_element(canvas).perform()
        self.wait(lambda: self.texts("#readout b"))
        self.js("document.getElementById('map').blur()")
        ActionChains(self.driver).move_to_element(self.one("h1")).perform()
        self.wait(lambda: not self.texts("#readout b"))

    def test_figures_over_time_and_order(self):
        self.open()
        for line in self.all(".detail .line"):
            self.assertEqual(len(line.get_attribute("points").split()), 5)
        self.js("const s = [...document.querySelectorAll('#tools select')].find(s => s.ariaLabel === 'Figure'); s.value = 'previous'; s.dispatchEvent(new Event('change'))")
        [box] = [e for e in self.all("#tools label") if "in its order" in e.text]
        box.click()
        self.wait(lambda: "By previous token" in self.texts("#view h3"))
        shown = [float(t.split(" ")[0]) for t in self.texts(".tile .amount")]
        self.assertEqual(shown, sorted(shown, reverse=True))

    def test_sentences_and_kinds(self):
        self.open()
        self.slide(2)
        self.wait(lambda: self.moment() == "update 12")
        self.one("#groups button:nth-child(3)").click()
        self.wait(lambda: "Where the decoder looks" in self.texts("#sentence")[0])
        self.js("const s = document.querySelector('#tools select'); s.value = '1'; s.dispatchEvent(new Event('change'))")
        self.wait(lambda: self.data["sentences"][1]["text"] in self.texts("#sentence")[0])
        self.assertEqual(self.texts("#groups [aria-selected=true]"), ["Cross"])
        self.assertEqual(self.moment(), "update 12")
        # The address keeps it.
        self.open(self.js("return location.hash").lstrip("#"))
        self.assertEqual(self.texts("#groups [aria-selected=true]"), ["Cross"])
        self.assertEqual(self.moment(), "update 12")

    def test_one_sentence(self):
        done = subprocess.run([HEED, *PAIRS, "--encoder-layers", "2", "--html-lines", "2", "--html", "one.html"], cwd=self.at, capture_output=True,
                              timeout=240, check=False)
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        self.open("", self.at / "one.html")
        self.assertTrue(self.one("#tools").text.startswith("Figure"), self.one("#tools").text)

    def test_keys(self):
        self.open()
        body = self.one("body")
        body.send_keys(",")
        self.wait(lambda: self.moment() == "update 18")
        body.send_keys(".")
        self.wait(lambda: self.moment() == "update 24")
        body.send_keys("]")
        self.wait(lambda: "layer 1, head 2" in self.texts(".detail h2"))
        body.send_keys("}")
        self.wait(lambda: "layer 2, head 2" in self.texts(".detail h2"))
        self.js("document.querySelector('.tile[tabindex=\"0\"]').focus()")
        self.driver.switch_to.active_element.send_keys(Keys.HOME)
        self.wait(lambda: "layer 1, head 1" in self.texts(".detail h2"))
        self.js("document.getElementById('moment').focus()")
        self.driver.switch_to.active_element.send_keys(Keys.ARROW_LEFT)
        self.wait(lambda: self.moment() == "update 18")
        self.assertEqual(self.js("return document.activeElement.id"), "moment")

    def test_light_and_dark(self):
        self.open()
        light = self.pixels()
        back = lambda: self.js("return getComputedStyle(document.body).backgroundColor")
        white = back()
        self.screen(1300, 900, dark=True)
        self.wait(lambda: back() != white and self.pixels() != light)

    def speak(self, languages):
        agent = self.js("return navigator.userAgent")
        self.driver.execute_cdp_cmd("Emulation.setUserAgentOverride", {"userAgent": agent, "acceptLanguage": languages})

    def everything(self):
        """All that is written on the page and said of it, but the reader's own text."""
        return set(self.js("""
            const out = [document.title];
            for (const e of document.querySelectorAll('body *')) {
              if (e.closest('script, noscript, bdi')) continue;
              for (const name of ['title', 'aria-label', 'aria-valuetext']) if (e.hasAttribute(name)) out.push(e.getAttribute(name));
              for (const node of e.childNodes) if (node.nodeType === Node.TEXT_NODE) out.push(node.data.trim());
            }
            return out.filter(text => /\\p{L}{2}/u.test(text))"""))

    def test_spanish(self):
        self.open("group=2")
        english = self.everything()
        self.assertGreater(len(english), 60)
        self.addCleanup(self.speak, "en-US,en")
        self.speak("es-MX,es,en")
        self.open("group=2")
        self.assertEqual(self.js("return document.documentElement.lang"), "es")
        self.assertEqual(self.driver.title, "Entrenamiento de m")
        self.assertEqual(self.texts("#curves h3"), ["Pérdida", "BLEU de validación", "Tasa de aprendizaje", "Norma del gradiente"])
        self.assertEqual(self.texts("#groups button"), ["Codificador", "Decodificador", "Cruzada"])
        self.assertEqual(self.moment(), "actualización 24")
        same = {text for text in english & self.everything() if not text.startswith("d_model")}
        self.assertEqual(same, {"CSV", "English", "Español"})
        for fact in self.texts("#facts dd"):
            self.assertNotRegex(fact, r"\d\.\d\D|\d\.\d$")
        # The reader can choose, without losing the place.
        self.slide(2)
        self.wait(lambda: self.moment() == "actualización 12")
        self.addCleanup(self.js, "localStorage.removeItem('heed-language')")
        self.js("const s = document.querySelector('#foot select'); s.value = 'en'; s.dispatchEvent(new Event('change'))")
        self.wait(lambda: self.texts("#curves h3")[0] == "Loss" and self.moment() == "update 12")

    def test_the_address_keeps_what_was_chosen(self):
        self.open()
        select = lambda at, value: self.js("const s = document.querySelectorAll('#curve-tools select')[arguments[0]]; s.value = arguments[1];"
                                           "s.dispatchEvent(new Event('change'))", at, value)
        select(0, "minutes")
        self.wait(lambda: "axis=minutes" in self.driver.current_url)
        select(1, "true")
        self.wait(lambda: "scale=logarithmic" in self.driver.current_url)
        for label, part in [("in its order", "sorted=1"), ("own scale", "ownScale=1"), ("lift", "lift=0")]:
            [box] = [e for e in self.all("#tools label") if label in e.text]
            box.click()
            self.wait(lambda: part in self.driver.current_url)
        shown = "return [document.querySelector('#curves').textContent, document.querySelector('#view').textContent]"
        before = self.js(shown)
        self.open(self.js("return location.hash").lstrip("#"))
        self.assertEqual(self.js(shown), before)

    def test_back_goes_back(self):
        self.open("group=0&update=24")
        before = self.js("return history.length")
        self.one("#groups button:nth-child(3)").click()
        self.wait(lambda: "Where the decoder looks" in self.texts("#sentence")[0])
        self.js("const s = document.querySelector(\"#tools select[aria-label='Difference to']\"); s.value = '0';"
                "s.dispatchEvent(new Event('change'))")
        self.wait(lambda: len(self.all(".side-map")) == 2)
        self.slide(2)  # is passed through
        self.wait(lambda: self.moment() == "update 12" and "update=12" in self.driver.current_url)
        self.one(".tile[data-head='1']").click()
        self.wait(lambda: "head=1" in self.driver.current_url)
        self.assertEqual(self.js("return history.length"), before + 2)
        self.driver.back()
        self.wait(lambda: not self.all(".side-map"))
        self.assertEqual(self.texts("#groups [aria-selected=true]"), ["Cross"])
        self.driver.back()
        self.wait(lambda: self.texts("#groups [aria-selected=true]") == ["Encoder"])
        self.assertEqual(self.moment(), "update 24")
        self.driver.forward()
        self.driver.forward()
        self.wait(lambda: len(self.all(".side-map")) == 2 and self.moment() == "update 12")
        self.assertEqual(self.texts("#groups [aria-selected=true]"), ["Cross"])
        self.assertTrue(self.all(".tile.now[data-head='1']"))

    def test_contrast(self):
        for dark in (False, True):
            self.screen(1300, 900, dark=dark, reduced=True)
            self.open()
            count, poor = self.js(CONTRASTS)
            self.assertGreater(count, 50)
            self.assertEqual(poor, [])

    def test_a_damaged_page_says_so(self):
        block = self.data["groups"][0]["moments"][-1]
        path = self.at / "damaged.html"
        path.write_text(self.html.replace(f'id="block{block}"', 'id="gone"'))
        self.driver.get(f"file://{path}")
        self.wait(lambda: self.all(".trouble"))
        self.assertIn(f"block {block} is missing", self.texts("#view")[0])
        self.assertEqual(self.texts("#curves h3")[0], "Loss", "the curves are still shown")

    def test_phone(self):
        self.screen(390, 844, phone=True)
        self.open()
        self.assertLessEqual(self.js("return document.documentElement.scrollWidth"), 390)
        self.assertEqual(len(self.all(".tile")), 4)

    def test_print(self):
        self.open()
        pdf = base64.b64decode(self.driver.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})["data"])
        self.assertTrue(pdf.startswith(b"%PDF"))
        self.wait(lambda: self.js("return document.querySelectorAll('.tile').length") == 4)

    def test_saved_numbers(self):
        self.open()
        rows = list(csv.DictReader(io.StringIO(self.saved("CSV").decode("utf-8-sig"), newline="")))
        mine = {int(r["update"]): float(r["value"]) for r in rows if (r["figure"], r["curve"]) == ("Loss", "validation")}
        truth = curve(self.data, "Loss", "validation")
        self.assertEqual(set(mine), set(truth))
        for update, value in truth.items():
            self.assertAlmostEqual(mine[update], value, delta=1e-5)

    def test_hostile_tokens_are_shown_and_do_not_run(self):
        self.open()
        text = self.texts("#sentence bdi")[0]
        for token in ["</script>", "<img src=x onerror=", "\\u{202E}right", "👩‍👩‍👧‍👦", "-->"]:
            self.assertIn(token, text)
        self.assertIsNone(self.js("return window.ran ?? null"))
        self.assertEqual(self.js("return document.querySelectorAll('img, main script').length"), 0)
        self.assertEqual(self.html.count("<script>window"), 0)


if __name__ == "__main__":
    browser.main()
