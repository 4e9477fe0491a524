"""A real headless Chromium, driven by its DevTools protocol over a pipe: pages opened, scripts asked, keys pressed."""

import json
import os
import queue
import shutil
import subprocess
import sys
import threading
import time
from base64 import b64decode
from pathlib import Path

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
_FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --hide-scrollbars --remote-debugging-pipe"
)
# Chromium reads from descriptor 3 and writes to 4.
_LAUNCH = """
import os, sys
reads, writes = [os.dup(int(number)) for number in sys.argv[1:3]]
os.dup2(reads, 3)
os.dup2(writes, 4)
os.set_inheritable(3, True)  # dup2 leaves a descriptor as it is that is there already
os.set_inheritable(4, True)
os.execv(sys.argv[3], sys.argv[3:])
"""
PATIENCE_SECONDS = 90


class Browser:
    """One page at a time; use it as a context. `complaints`: what its console said in anger, and uncaught errors."""

    def __init__(self, profile: Path):
        ours, theirs = os.pipe(), os.pipe()
        command = [CHROMIUM, *_FLAGS.split(), f"--user-data-dir={profile}", "about:blank"]
        self._process = subprocess.Popen(
            [sys.executable, "-c", _LAUNCH, str(ours[0]), str(theirs[1]), *command],
            pass_fds=(ours[0], theirs[1]), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(ours[0])
        os.close(theirs[1])
        self._out, self._in = os.fdopen(ours[1], "wb", buffering=0), os.fdopen(theirs[0], "rb")
        self._answers: queue.Queue = queue.Queue()
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self._number, self._session = 0, None
        threading.Thread(target=self._listen, daemon=True).start()
        target = self._ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._ask(f"{domain}.enable")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.terminate()
        self._process.wait(PATIENCE_SECONDS)
        self._out.close()

    def open(self, url: str) -> None:
        """Again when some network of this machine changed meanwhile, at which Chromium drops what it loads."""
        while True:
            before = len(self.complaints)
            self._ask("Page.navigate", url=url)
            self.until("document.readyState === 'complete'")
            if not any("ERR_NETWORK_CHANGED" in one for one in self.complaints[before:]):
                return
            del self.complaints[before:]

    def evaluate(self, script: str):
        """What a script is worth, as JSON can tell it; it may be a promise."""
        found = self._ask("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in found:
            raise AssertionError(found["exceptionDetails"].get("exception", {}).get("description", found))
        return found["result"].get("value")

    def until(self, script: str, seconds: float = PATIENCE_SECONDS):
        """The first value that is true."""
        deadline = time.monotonic() + seconds
        while not (found := self.evaluate(script)):
            assert time.monotonic() < deadline, f"waited in vain for {script}; the page complained: {self.complaints}"
            time.sleep(0.05)
        return found

    def size(self, width: int, height: int, mobile: bool = False) -> None:
        self._ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=mobile)

    def dark(self, dark: bool = True) -> None:
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._ask("Emulation.setEmulatedMedia", features=[scheme])

    def press(self, key: str) -> None:
        code = {"Tab": 9, "ArrowLeft": 37, "ArrowRight": 39, "Enter": 13, " ": 32}[key]
        for kind in ("keyDown", "keyUp"):
            self._ask("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code)

    def accessible(self) -> list[dict]:
        """The nodes that a screen reader is told: {role, name}."""
        nodes = self._ask("Accessibility.getFullAXTree")["nodes"]
        told = [node for node in nodes if not node.get("ignored")]
        return [{what: node.get(what, {}).get("value") for what in ("role", "name")} for node in told]

    def screenshot(self, path: Path, whole: bool = True) -> None:
        found = self._ask("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(b64decode(found["data"]))

    def _ask(self, method: str, **parameters) -> dict:
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        self._out.write(json.dumps(message).encode() + b"\0")
        while True:
            answer = self._answers.get(timeout=PATIENCE_SECONDS)
            if answer["id"] == self._number:
                assert "error" not in answer, (method, answer["error"])
                return answer["result"]

    def _listen(self) -> None:
        rest = b""
        while block := self._in.read1(1 << 16):
            *messages, rest = (rest + block).split(b"\0")
            for message in map(json.loads, messages):
                if "id" in message:
                    self._answers.put(message)
                else:
                    self._hear(message["method"], message["params"])

    def _hear(self, method: str, told: dict) -> None:
        if method == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(told["exceptionDetails"])[:600])
        elif method == "Runtime.consoleAPICalled" and told["type"] in ("error", "warning", "assert"):
            self.complaints.append(str([one.get("value") for one in told["args"]]))
        elif method == "Log.entryAdded" and told["entry"]["level"] in ("error", "warning"):
            self.complaints.append(f"{told['entry']['text']} {told['entry'].get('url', '')}")
        elif method == "Network.requestWillBeSent":
            self.requests.append(told["request"]["url"])
