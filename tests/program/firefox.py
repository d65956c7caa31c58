"""Debian's firefox-esr, driven by Marionette, its own protocol: Debian has no geckodriver. Standard library only."""
import json
import os
import pathlib
import shutil
import socket
import subprocess
import time

FIREFOX = shutil.which("firefox-esr")
MISSING = None if FIREFOX else "firefox-esr is not installed"
PATIENCE = float(os.environ.get("HEED_PATIENCE", "240"))  # seconds: a machine may be busy

# A browser that asks nobody for anything, and saves where it is told to.
PREFERENCES = {
    "marionette.port": 0, "intl.accept_languages": "en-US,en", "browser.startup.page": 0,
    "browser.startup.homepage_override.mstone": "ignore", "app.update.disabledForTesting": True,
    "browser.newtabpage.enabled": False, "datareporting.policy.dataSubmissionEnabled": False,
    "toolkit.telemetry.server": "", "network.captive-portal-service.enabled": False,
    "network.connectivity-service.enabled": False, "browser.safebrowsing.malware.enabled": False,
    "extensions.update.enabled": False, "browser.download.folderList": 2, "browser.download.useDownloadDir": True,
    "browser.download.alwaysOpenPanel": False,
    "browser.helperApps.neverAsk.saveToDisk": "image/svg+xml,image/png,text/csv"}

# In the browser's own window: what is asked for, but by the browser itself.
WATCH = """
    window.heedRequests = [];
    Services.obs.addObserver(channel => {
      channel.QueryInterface(Ci.nsIChannel);
      if (!channel.loadInfo.triggeringPrincipal.isSystemPrincipal) window.heedRequests.push(channel.URI.spec);
    }, "http-on-modify-request");"""
CONSOLE = """
    const messages = Services.console.getMessageArray().filter(m => m instanceof Ci.nsIScriptError && /^(file|blob):/.test(m.sourceName));
    Services.console.reset();
    return messages.map(m => m.errorMessage);"""


class Firefox:
    """Started in a new `profile`; files are saved in `downloads`."""

    def __init__(self, profile, downloads):
        profile, downloads = pathlib.Path(profile), pathlib.Path(downloads)
        profile.mkdir(parents=True)
        downloads.mkdir(exist_ok=True)
        preferences = {**PREFERENCES, "browser.download.dir": str(downloads)}
        (profile / "user.js").write_text("".join(
            f"user_pref({json.dumps(name)}, {json.dumps(value)});\n" for name, value in preferences.items()))
        with open(profile / "log", "wb") as log:
            self.process = subprocess.Popen(
                [FIREFOX, "--headless", "--marionette", "--remote-allow-system-access", "--no-remote", "--profile", profile],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={**os.environ, "HOME": str(profile)})
        try:
            self.connect(profile / "MarionetteActivePort")
        except BaseException:
            self.process.kill()
            raise
        self.sent = 0
        self.command("WebDriver:NewSession", capabilities={})
        self.inside(WATCH)

    def connect(self, port_file):
        end = time.monotonic() + PATIENCE
        while not port_file.exists() or not port_file.read_text():
            if self.process.poll() is not None or time.monotonic() > end:
                raise RuntimeError("firefox did not start: " + (port_file.parent / "log").read_text(errors="replace")[-2000:])
            time.sleep(0.05)
        self.socket = socket.create_connection(("127.0.0.1", int(port_file.read_text())), timeout=PATIENCE)
        self.stream = self.socket.makefile("rb")
        self.read()  # who it is

    def read(self):
        """A message: its length in digits, a colon, JSON."""
        digits = b""
        while (byte := self.stream.read(1)) != b":":
            if not byte:
                raise RuntimeError("firefox closed the connection")
            digits += byte
        return json.loads(self.stream.read(int(digits)))

    def command(self, name, **parameters):
        self.sent += 1
        message = json.dumps([0, self.sent, name, parameters]).encode()
        self.socket.sendall(str(len(message)).encode() + b":" + message)
        _, number, error, result = self.read()
        assert number == self.sent
        if error:
            raise RuntimeError(f"{name}: {error['error']}: {error['message']}")
        return result.get("value") if isinstance(result, dict) else result

    def js(self, script, *arguments):
        return self.command("WebDriver:ExecuteScript", script=script, args=arguments, newSandbox=False)

    def inside(self, script):
        """Runs a script in the browser itself."""
        self.command("Marionette:SetContext", value="chrome")
        try:
            return self.js(script)
        finally:
            self.command("Marionette:SetContext", value="content")

    def get(self, address):
        self.command("WebDriver:Navigate", url=address)

    def console(self):
        """What pages from files, and workers of theirs, have brought about in the console since the last call."""
        return self.inside(CONSOLE)

    def requests(self):
        return self.inside("return window.heedRequests.splice(0)")

    def resize(self, width, height):
        self.command("WebDriver:SetWindowRect", width=width, height=height)

    def screenshot(self):
        """PNG, in base64."""
        return self.command("WebDriver:TakeScreenshot", full=False)

    def mouse(self, *actions):
        """("move", x, y), ("down",) and ("up",), from the corner of the window."""
        steps = {"move": lambda x, y: {"type": "pointerMove", "x": round(x), "y": round(y), "duration": 30},
                 "down": lambda: {"type": "pointerDown", "button": 0}, "up": lambda: {"type": "pointerUp", "button": 0}}
        self.command("WebDriver:PerformActions", actions=[
            {"type": "pointer", "id": "mouse", "parameters": {"pointerType": "mouse"},
             "actions": [steps[name](*rest) for name, *rest in actions]}])

    def press(self, *keys):
        self.command("WebDriver:PerformActions", actions=[
            {"type": "key", "id": "keys", "actions": [{"type": kind, "value": key} for key in keys for kind in ("keyDown", "keyUp")]}])

    def quit(self):
        try:
            self.command("Marionette:Quit", flags=["eForceQuit"])
            self.process.wait(30)
        except (OSError, RuntimeError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()
        self.stream.close()
        self.socket.close()
