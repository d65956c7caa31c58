"""Debian's chromium, driven through ChromeDriver: what the tests of pages share."""
import atexit
import contextlib
import functools
import json
import os
import pathlib
import shutil
import sys
import tempfile
import time
import unittest

PATIENCE = float(os.environ.get("HEED_PATIENCE", "240"))  # seconds: a machine may be busy
CHROMIUM, CHROMEDRIVER = shutil.which("chromium"), shutil.which("chromedriver")
try:
    from selenium import webdriver
    from selenium.webdriver.chrome.options import Options
    from selenium.webdriver.chrome.service import Service
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys
    MISSING = None if CHROMIUM and CHROMEDRIVER else "chromium and chromium-driver are not installed"
except ImportError:
    ActionChains = By = Keys = None
    MISSING = "python3-selenium is not installed for " + sys.executable
SKIPPED = 77


def main():
    """unittest.main(), which ends with SKIPPED where there was no browser and nothing else has failed."""
    done = unittest.main(exit=False).result
    if MISSING:
        print(f"the page was seen by no browser: {MISSING}", file=sys.stderr)
    sys.exit(1 if not done.wasSuccessful() else SKIPPED if MISSING else 0)


def start(profile):
    """A browser without a window."""
    options = Options()
    options.binary_location = CHROMIUM
    for flag in ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
                 "--disable-extensions", "--disable-background-networking", "--disable-component-update",
                 "--hide-scrollbars", "--window-size=1300,900", f"--user-data-dir={profile}"]:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(service=Service(CHROMEDRIVER), options=options)
    driver.set_page_load_timeout(120)
    driver.set_script_timeout(PATIENCE)
    return driver


@functools.cache
def shared_driver():
    """A browser for all classes of tests of this process."""
    profile = tempfile.mkdtemp(prefix="heed-browser-")
    atexit.register(shutil.rmtree, profile, ignore_errors=True)
    driver = start(profile)
    atexit.register(driver.quit)
    return driver


def set_screen(driver, width, height, dark=False, reduced=False, phone=False):
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                           {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": phone})
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": [
        {"name": "prefers-color-scheme", "value": "dark" if dark else "light"},
        {"name": "prefers-reduced-motion", "value": "reduce" if reduced else "no-preference"},
        {"name": "hover", "value": "hover"}]})


def wait(condition, says="it did not happen"):
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if condition():
            return
        time.sleep(0.02)
    raise AssertionError(says)


def open_page(driver, path, where=""):
    """A page of heed's, as soon as it is ready."""
    driver.get("about:blank")
    driver.get(f"file://{path}" + (f"#{where}" if where else ""))
    wait(lambda: driver.execute_script("return document.documentElement.dataset.ready") == "true",
         "the page is not ready")


@unittest.skipIf(MISSING, MISSING)
class Browser(unittest.TestCase):
    """Every test ends with: nothing was requested but the page, and the console is empty."""
    servers = ()  # addresses that pages come from, and may ask

    @classmethod
    def setUpClass(cls):
        cls.at = pathlib.Path(tempfile.mkdtemp(prefix="heed-page-"))
        cls.addClassCleanup(shutil.rmtree, cls.at, ignore_errors=True)
        cls.driver = shared_driver()
        cls.downloads = cls.at / "downloads"
        cls.downloads.mkdir()
        cls.driver.execute_cdp_cmd("Browser.setDownloadBehavior",
                                   {"behavior": "allow", "downloadPath": str(cls.downloads)})

    def setUp(self):
        self.driver.get("about:blank")  # the page of another class is gone
        self.screen(1300, 900)
        self.driver.get_log("browser")
        self.driver.get_log("performance")

    def tearDown(self):
        self.assertEqual([entry["message"] for entry in self.driver.get_log("browser")], [])
        self.assertEqual(self.requests(), [])

    def requests(self):
        """Addresses of everything that was asked for, but the page itself, what lies in it and what it made."""
        addresses = []
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] in ("Network.requestWillBeSent", "Network.webSocketCreated"):
                params = message["params"]
                addresses.append(params["request"]["url"] if "request" in params else params["url"])
        own = ("data:", "blob:null/", "about:blank", "file://" + str(self.at), *self.servers)
        return [a for a in addresses if not a.startswith(own)]

    def screen(self, width, height, dark=False, reduced=False, phone=False):
        set_screen(self.driver, width, height, dark, reduced, phone)

    @contextlib.contextmanager
    def before(self, source):
        """Runs a script before those of the pages that are opened meanwhile."""
        done = self.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": source})
        try:
            yield
        finally:
            self.driver.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", done)

    def record_text(self, *values):
        """Pages of this test keep what they write on canvases: `written`, lists of the text and of these values."""
        self.enterContext(self.before(f"""
            window.written = [];
            const fill = CanvasRenderingContext2D.prototype.fillText;
            CanvasRenderingContext2D.prototype.fillText = function(text, ...rest) {{
              written.push([text, {", ".join(values)}]);
              return fill.call(this, text, ...rest);
            }};"""))

    def open(self, where="", path=None):
        """The page at `path`, or self.page."""
        open_page(self.driver, path or self.page, where)

    def wait(self, condition, says="it did not happen"):
        wait(condition, says)

    def js(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)

    def one(self, selector):
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def all(self, selector):
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def texts(self, selector):
        return self.js("return [...document.querySelectorAll(arguments[0])].map(e => e.textContent)", selector)

    def saved(self, kind):
        """What the button writes, as bytes."""
        for path in self.downloads.iterdir():
            path.unlink()
        self.one(f"#foot [data-value={kind}]").click()
        # Chromium reserves the name with an empty file and renames the whole one onto it.
        done = lambda: [p for p in self.downloads.iterdir() if p.suffix == "." + kind.lower() and p.stat().st_size]
        self.wait(lambda: len(done()) == 1, f"no {kind} was saved")
        return done()[0].read_bytes()
