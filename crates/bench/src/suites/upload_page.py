"""An upload by Chromium: `upload_page.py (page | put) URL FILE NAME`.

`page` gives FILE to the upload of the directory page at URL. `put` makes the browser send FILE as
one PUT to URL/NAME. Prints the seconds from the choice of the file to the end of its upload,
without the start of the browser. Needs Chromium but no Python package, because the script itself
speaks the debugging protocol, through pipes.
"""

import fcntl
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

CHROMIUM_ARGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-dev-shm-usage",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--remote-debugging-pipe",
]  # fmt: skip
TIMEOUT = 200
PUT = """async function (url) {
    const answer = await fetch(url, {method: "PUT", body: this.files[0]});
    if (!answer.ok) throw new Error(`PUT: ${answer.status}`);
}"""


class Browser:
    """A Chromium process with one page."""

    def __init__(self, profile: str, url: str):
        to_read, self.to_browser = os.pipe()
        self.from_browser, to_write = os.pipe()
        # Chromium reads from descriptor 3 and writes to 4. Our pipes may have these numbers, so
        # copies with higher numbers are made first.
        ends = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in (to_read, to_write)]
        command = [shutil.which("chromium") or "chromium", *CHROMIUM_ARGS, f"--user-data-dir={profile}", "about:blank"]
        self.process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, close_fds=False,
            preexec_fn=lambda: [os.dup2(end, at) for end, at in zip(ends, (3, 4), strict=True)],
        )  # fmt: skip
        for end in (to_read, to_write, *ends):
            os.close(end)
        self.number, self.buffer, self.session = 0, b"", None
        target = self.call("Target.createTarget", url=url)["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]

    def call(self, method: str, **parameters) -> dict:
        """Calls a method of the protocol and returns its result."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        unsent = json.dumps(message).encode() + b"\0"
        while unsent:
            unsent = unsent[os.write(self.to_browser, unsent) :]
        while True:
            answer = self.message()
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]

    def message(self) -> dict:
        """Returns the next message. A zero byte ends each message."""
        while b"\0" not in self.buffer:
            piece = os.read(self.from_browser, 1 << 16)
            if not piece:
                raise RuntimeError("Chromium ended")
            self.buffer += piece
        message, _, self.buffer = self.buffer.partition(b"\0")
        return json.loads(message)

    def value(self, expression: str):
        """Returns the value of an expression in the page."""
        return self.call("Runtime.evaluate", expression=expression, returnByValue=True)["result"].get("value")

    def wait(self, expression: str) -> None:
        """Waits until an expression is true in the page."""
        until = time.monotonic() + TIMEOUT
        while not self.value(expression):
            if time.monotonic() > until:
                raise RuntimeError(f"not true after {TIMEOUT} s: {expression}")
            time.sleep(0.005)

    def choose(self, expression: str, file: str) -> str:
        """Gives a file to an input element, and returns the element."""
        element = self.call("Runtime.evaluate", expression=expression)["result"]["objectId"]
        self.call("DOM.setFileInputFiles", files=[file], objectId=element)
        return element


def upload(browser: Browser, way: str, url: str, file: str, name: str) -> float:
    browser.wait("document.readyState === 'complete' && document.body.dataset.loaded !== undefined")
    if way == "page":
        began = time.perf_counter()
        browser.choose("document.querySelector('#files')", file)
        browser.wait("document.querySelector('.uploads li.done') !== null")
        return time.perf_counter() - began
    element = browser.choose("Object.assign(document.createElement('input'), {type: 'file'})", file)
    began = time.perf_counter()
    sent = browser.call(
        "Runtime.callFunctionOn", objectId=element, functionDeclaration=PUT, awaitPromise=True,
        arguments=[{"value": f"{url}{name}"}],
    )  # fmt: skip
    if "exceptionDetails" in sent:
        raise RuntimeError(sent["exceptionDetails"]["exception"]["description"].splitlines()[0])
    return time.perf_counter() - began


def main() -> int:
    way, url, file, name = sys.argv[1:]
    # The browser may still write into its profile after its end was requested.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        browser = Browser(profile, url)
        try:
            seconds = upload(browser, way, url, os.path.abspath(file), name)
        except RuntimeError as error:
            print(error, file=sys.stderr)
            return 1
        finally:
            browser.process.terminate()
            browser.process.wait()
    print(json.dumps({"seconds": seconds}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
