"""A browser, asked through its debugging protocol."""

import asyncio
import shutil
import subprocess
import time
from contextlib import asynccontextmanager

import aiohttp

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
QUIET = ["--no-first-run", "--no-proxy-server", "--disable-background-networking"]
QUIET += ["--disable-component-update", "--disable-sync"]
# Names are resolved to nothing, so a page that asks for anything has an error on its console.
OFFLINE = ["--disable-quic", "--host-resolver-rules=MAP * ~NOTFOUND"]


class Tab:
    """One page; `errors` and `requests` are what it has said and asked for since it was opened."""

    def __init__(self, socket):
        self._socket, self._id = socket, 0
        self.errors, self.requests = [], []

    async def send(self, method, **params):
        self._id += 1
        await self._socket.send_json({"id": self._id, "method": method, "params": params})
        while True:
            message = await self._socket.receive_json()
            if message.get("id") == self._id:
                assert "error" not in message, message
                return message["result"]
            self._take(message)

    async def evaluate(self, expression):
        result = await self.send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    async def drawn(self):
        """Wait until the page was drawn anew: only then do hidden parts follow a change of style or of the medium."""
        await self.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))")

    def _take(self, event):
        method, params = event["method"], event["params"]
        if method == "Runtime.exceptionThrown":
            self.errors.append(str(params["exceptionDetails"]))
        elif method == "Runtime.consoleAPICalled" and params["type"] in {"error", "warning", "assert"}:
            self.errors.append(str(params["args"]))
        elif method == "Log.entryAdded" and params["entry"]["level"] in {"error", "warning"}:
            self.errors.append(params["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])


@asynccontextmanager
async def opened(url, profile, size=(1200, 1200), network=(), seconds=60):
    """Open a page in a browser and yield its `Tab` once it is loaded.

    Args:
        url: of the page.
        profile: a folder for the browser's own files.
        size: width and height of the window, in pixels.
        network: options that say what the browser reaches, such as `OFFLINE`.
        seconds: after which it fails.
    """
    command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", *QUIET, *network, f"--user-data-dir={profile}"]
    command += [f"--window-size={size[0]},{size[1]}", "--remote-debugging-port=0", "about:blank"]
    browser = await asyncio.create_subprocess_exec(*command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline, debugger = time.monotonic() + seconds, profile / "DevToolsActivePort"
    try:
        while not debugger.exists() or not debugger.read_text():
            assert time.monotonic() < deadline, "the browser does not start"
            await asyncio.sleep(0.1)
        address = f"http://127.0.0.1:{debugger.read_text().split()[0]}/json"
        async with aiohttp.ClientSession() as session:
            async with session.get(address) as answer:
                target = next(tab for tab in await answer.json() if tab["type"] == "page")
            async with session.ws_connect(target["webSocketDebuggerUrl"], max_msg_size=0) as socket:
                tab = Tab(socket)
                for domain in ("Page", "Runtime", "Log", "Network"):
                    await tab.send(f"{domain}.enable")
                await tab.send("Page.navigate", url=url)
                while await tab.evaluate("document.readyState + (location.href != 'about:blank')") != "completetrue":
                    assert time.monotonic() < deadline, "the page does not load"
                    await asyncio.sleep(0.1)
                yield tab
    finally:
        browser.terminate()
        await browser.wait()
