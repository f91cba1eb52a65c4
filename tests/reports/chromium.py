"""A real headless Chromium, driven over its own pipe: pages run in real time and with their own policy.

The DevTools protocol over `--remote-debugging-pipe`: JSON messages that end in a zero byte, read by the
browser from descriptor 3 and written by it to descriptor 4. Nothing else is needed, and no port is opened.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
_PATIENCE_S = 60.0

_HELPERS = """
  const wait = (ms) => new Promise((done) => setTimeout(done, ms));
  const frame = () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  const until = async (is_so) => { for (let n = 0; n < 200 && !is_so(); n++) await wait(25); };
  const click = async (node) => { node.click(); await frame(); };
  const choose = async (id, value) => {
    const node = document.getElementById(id);
    node.value = value;
    node.dispatchEvent(new Event("change"));
    await frame();
  };
  const type = async (id, text) => {
    const node = document.getElementById(id);
    node.value = text;
    node.dispatchEvent(new Event("input"));
    await wait(300);
  };
  const rows = () => [...document.querySelectorAll("#rows .row .id")].map((node) => node.textContent);
  const state = document.getElementById("samples-state");
  await until(() => !state || !state.textContent.startsWith("Unpacking"));
"""


def find_chromium() -> str | None:
    """A Chromium on the PATH; `None` if there is none."""
    return next((path for name in BROWSERS if (path := shutil.which(name))), None)


class Chromium:
    """A browser with one page; `folder` holds its profile and the page's file."""

    def __init__(self, program: str, folder: Path) -> None:
        self._folder = folder
        self._number = 0
        self._buffer = b""
        # The ends that the browser gets must not be 3 or 4 yet, where they are put after the fork.
        to_browser, self._out = _high_pipe()
        self._in, from_browser = _high_pipe()
        command = [
            program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
            "--disable-background-networking", "--disable-component-update", "--disable-sync",
            "--hide-scrollbars", f"--user-data-dir={folder / 'profile'}", "--remote-debugging-pipe",
            "about:blank",
        ]  # fmt: skip

        def place_ends() -> None:
            os.dup2(to_browser, 3)
            os.dup2(from_browser, 4)

        self._process = subprocess.Popen(
            command,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(3, 4),
            preexec_fn=place_ends,
        )
        os.close(to_browser)
        os.close(from_browser)
        self._session = self._attach()

    def close(self) -> None:
        """End the browser."""
        with contextlib.suppress(OSError):
            self._send("Browser.close", {}, session=None)
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(10)
        os.close(self._out)
        os.close(self._in)

    def open(
        self,
        page: str,
        *,
        fragment: str = "",
        width: int = 1280,
        height: int = 900,
        dark: bool = False,
        scripts: bool = True,
    ) -> None:
        """Load a page into a window of this size."""
        path = self._folder / "page.html"
        path.write_text(page, encoding="utf-8")
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 700}
        self.ask("Emulation.setDeviceMetricsOverride", **size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.ask("Emulation.setEmulatedMedia", features=[scheme])
        self.ask("Emulation.setScriptExecutionDisabled", value=not scripts)
        self.ask("Page.navigate", url="about:blank")
        self.ask("Page.navigate", url=path.as_uri() + fragment)
        deadline = time.monotonic() + _PATIENCE_S
        while self._value("document.readyState") != "complete" or "page.html" not in self._value(
            "location.href"
        ):
            assert time.monotonic() < deadline, "the page did not load"
            time.sleep(0.02)

    def answer(self, script: str) -> Any:
        """What `script`, the body of an async function, returns in the page.

        `click`, `choose` and `type` act as a reader does; `rows()` are the ids in the list of samples.
        """
        return self._value("(async () => {" + _HELPERS + script + "})()")

    def dom(self) -> str:
        """The document as it is now, as HTML."""
        return str(self._value("document.documentElement.outerHTML"))

    def pdf(self) -> bytes:
        """The page as it is printed."""
        return base64.b64decode(self.ask("Page.printToPDF", printBackground=True)["data"])

    def picture(self, *, whole: bool = False) -> bytes:
        """What is seen, as PNG; the whole page if asked."""
        return base64.b64decode(self.ask("Page.captureScreenshot", captureBeyondViewport=whole)["data"])

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """Send one command to the page and wait for its answer."""
        return self._send(method, params, session=self._session)

    def _value(self, expression: str) -> Any:
        found = self.ask("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in found, json.dumps(found["exceptionDetails"], indent=2)
        return found["result"].get("value")

    def _attach(self) -> str:
        targets = self._send("Target.getTargets", {}, session=None)["targetInfos"]
        page = next(target["targetId"] for target in targets if target["type"] == "page")
        found = self._send("Target.attachToTarget", {"targetId": page, "flatten": True}, session=None)
        return str(found["sessionId"])

    def _send(self, method: str, params: dict[str, Any], *, session: str | None) -> dict[str, Any]:
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        if session is not None:
            message["sessionId"] = session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        for answer in self._messages():
            if answer.get("id") == self._number:
                assert "error" not in answer, answer["error"]
                result: dict[str, Any] = answer["result"]
                return result
        raise AssertionError("the browser is gone")

    def _messages(self) -> Iterator[dict[str, Any]]:
        while True:
            while b"\0" in self._buffer:
                raw, self._buffer = self._buffer.split(b"\0", 1)
                yield json.loads(raw)
            ready, _, _ = select.select([self._in], [], [], _PATIENCE_S)
            assert ready, "the browser does not answer"
            data = os.read(self._in, 1 << 20)
            if not data:
                return
            self._buffer += data


def _high_pipe() -> tuple[int, int]:
    """A pipe (read end, write end) on descriptors from 10 on."""
    ends = os.pipe()
    moved = tuple(fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in ends)
    for end in ends:
        os.close(end)
    return moved[0], moved[1]
