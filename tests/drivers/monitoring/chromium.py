"""A headless Chromium, driven over its DevTools protocol."""

import itertools
import json
import pathlib
import subprocess
import time
import urllib.request

import websocket

SECONDS_MAX = 30
# What a browser has to be told of keys that do something by themselves.
CODES = {"Tab": 9, "Enter": 13, "Escape": 27, "ArrowUp": 38, "ArrowDown": 40}
TEXTS = {"Enter": "\r"}


class Chromium:
    """One browser with one page."""

    def __init__(self, directory, url):
        self.directory = pathlib.Path(directory)
        command = ["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]
        command += ["--disable-background-networking", "--disable-extensions", "--remote-debugging-port=0"]
        command += [f"--user-data-dir={self.directory}", "about:blank"]
        self.numbers = itertools.count(1)
        self.log = open(self.directory / "chromium.log", "wb")
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        self.socket = None
        try:
            self.socket = websocket.create_connection(self.page_address(), timeout=SECONDS_MAX, suppress_origin=True)
            self.requested = []
            self.errors = []
            for domain in ("Page", "Network", "Runtime", "Log"):
                self.call(f"{domain}.enable")
            self.call("Page.navigate", url=url)
            self.wait_for("location.href !== 'about:blank' && document.readyState === 'complete'")
        except BaseException:
            self.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        if self.socket is not None:
            self.socket.close()
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()

    def page_address(self):
        said = self.directory / "DevToolsActivePort"
        deadline = time.monotonic() + SECONDS_MAX
        while time.monotonic() < deadline and self.process.poll() is None:
            if said.exists() and len(lines := said.read_text().split()) == 2:
                with urllib.request.urlopen(f"http://127.0.0.1:{lines[0]}/json/list", timeout=10) as answer:
                    pages = [target for target in json.load(answer) if target["type"] == "page"]
                if pages:
                    return pages[0]["webSocketDebuggerUrl"]
            time.sleep(0.05)
        raise RuntimeError((self.directory / "chromium.log").read_text(errors="replace")[-2000:])

    def call(self, method, **params):
        number = next(self.numbers)
        self.socket.send(json.dumps({"id": number, "method": method, "params": params}))
        while True:
            message = json.loads(self.socket.recv())
            self.note(message)
            if message.get("id") == number:
                assert "error" not in message, message
                return message["result"]

    def note(self, message):
        """Keeps what the page asked for and what went wrong in it."""
        match message.get("method"):
            case "Network.requestWillBeSent":
                self.requested.append(message["params"]["request"]["url"])
            case "Runtime.exceptionThrown":
                self.errors.append(message["params"])
            case "Log.entryAdded" if message["params"]["entry"]["level"] == "error":
                # An answer that refuses something is the server's right, and the page says so itself.
                if message["params"]["entry"]["source"] != "network":
                    self.errors.append(message["params"])

    def evaluate(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def click(self, selector):
        """Clicks what the selector finds, once it is there."""
        found = f"document.querySelector({json.dumps(selector)})"
        self.wait_for(f"Boolean({found})")
        self.evaluate(f"{found}.click()")

    def press(self, key):
        """Presses a key as a person would."""
        for kind in ("keyDown", "keyUp"):
            text = {"text": TEXTS.get(key, key)} if kind == "keyDown" and (len(key) == 1 or key in TEXTS) else {}
            code = {"windowsVirtualKeyCode": CODES[key]} if key in CODES else {}
            self.call("Input.dispatchKeyEvent", type=kind, key=key, **text, **code)

    def type(self, text):
        """Presses the keys of a text where the focus is."""
        for key in text:
            self.press(key)

    def tap(self, selector):
        """Touches the middle of what the selector finds."""
        found = f"document.querySelector({json.dumps(selector)})"
        self.wait_for(f"Boolean({found})")
        x, y = self.evaluate(f"(box => [box.left + box.width / 2, box.top + box.height / 2])({found}.getBoundingClientRect())")
        self.call("Input.dispatchTouchEvent", type="touchStart", touchPoints=[{"x": x, "y": y}])
        self.call("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])

    def drag(self, selector, start, end):
        """Drags over what the selector finds, from one share of its width to another."""
        self.evaluate(f"document.querySelector({json.dumps(selector)}).scrollIntoView({{block: 'center'}})")
        box = self.evaluate(f"(box => [box.left, box.top, box.width, box.height])(document.querySelector({json.dumps(selector)}).getBoundingClientRect())")
        left, top, width, height = box
        y = top + height / 2
        for kind, share in (("mouseMoved", start), ("mousePressed", start), ("mouseMoved", end), ("mouseReleased", end)):
            self.call("Input.dispatchMouseEvent", type=kind, x=left + share * width, y=y, button="left", buttons=1, clickCount=1)

    def text(self, selector):
        """The text of what the selector finds; empty where that is nothing."""
        return self.evaluate(f"document.querySelector({json.dumps(selector)})?.textContent ?? ''")

    def wait_for(self, expression, is_wanted=bool):
        """The first value of the expression that is as wanted."""
        deadline = time.monotonic() + SECONDS_MAX
        while not is_wanted(value := self.evaluate(expression)):
            assert time.monotonic() < deadline, f"{expression}: {value}"
            time.sleep(0.1)
        return value
