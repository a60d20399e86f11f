"""Shared by the browser tests: a headless Chromium, and a page that records errors."""

from __future__ import annotations

import asyncio
import functools
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import CHROMIUM

from minibert.cli import main
from minibert.learn import build, live

# Without the popups of the address bar, which nobody sees: pages that each new context computes.
OPTIONS = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync "
    "--disable-features=WebUIOmniboxPopup,WebUIOmniboxAimPopup,WebUIOmniboxFullPopup"
)
POLLING = 20  # milliseconds after which a condition is looked at again
# Shipped measurements are not repeated, which saves time, unless a test sets `repeats`.
STILL = """() => {
  const { repeat } = Experiment.prototype;
  window.repeats = false;
  Experiment.prototype.repeat = async function (wanted) {
    await (repeats ? repeat.call(this, wanted) : (this.again.tried = true));
  };
}"""
# The tests speak of what the modules of the page export by its name alone, as the modules do that
# import it. What is shown changes, so it is looked up each time.
NAMES = """() => {
  for (const exported of Object.values(modules)) {
    for (const [name, value] of Object.entries(exported)) window[name] = value;
  }
  const { current } = modules["state/current.js"];
  for (const name of Object.keys(current)) {
    Object.defineProperty(window, name, { get: () => current[name] });
  }
}"""
# Controls that can be used, with their sizes. Choices of a prediction are counted by themselves,
# terms, numbers and commands are parts of sentences, and the strip is a picture with one tab stop.
# The skip link is visible only with the focus. The list of scenes and Ask are always there.
CONTROLS = """() => [...document.querySelectorAll("button, input, select, textarea, summary")]
  .filter(item => item.checkVisibility() && !item.closest("[inert], #scene-choices"))
  .filter(item => !item.matches("#skip, #scene-count, #ask-open, #river-parts *"))
  .filter(item => !item.matches(".term, .number, .command button"))
  .map(item => [item.id || item.outerHTML, item.offsetWidth, item.offsetHeight])"""
SECTIONS = ["text", "embeddings", "attention", "head", "hidden", "compare", "pooler", "predictions"]


def once_each(function: Any) -> Any:
    """Return a function that keeps its results for models that come with minibert."""
    kept: dict[str, Any] = {}

    def call(name: Any, *arguments: Any, **options: Any) -> Any:
        own = str(getattr(name, "name", name))
        if not own.startswith("minibert-"):
            return function(name, *arguments, **options)
        key = repr((own, arguments, options))
        if key not in kept:
            kept[key] = function(name, *arguments, **options)
        return kept[key]

    return call


# Pages and their copied lines load few models and run them on few texts, but many times.
LOAD = once_each(build.load_page_model)
RUN = once_each(build.run)
DEFLATED = functools.lru_cache(maxsize=16)(live.deflated)


@functools.cache
def chromium() -> tuple[Any, asyncio.AbstractEventLoop]:
    """Start a headless Chromium, or skip the test if there is none.

    Both last until this process ends, because Node.js and Chromium take a second to start.

    Returns:
        Chromium, and the event loop of Playwright, which counts as running between its calls.
    """
    api = pytest.importorskip("playwright.sync_api", reason="needs playwright: extra [test]")
    if CHROMIUM is None:
        pytest.skip("needs chromium: apt-get install chromium")
    playwright = api.sync_playwright().start()
    started = playwright.chromium.launch(executable_path=CHROMIUM, args=OPTIONS.split())
    return started, asyncio.get_running_loop()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A headless Chromium. Tests of other modules may run event loops of their own."""
    started, loop = chromium()
    asyncio._set_running_loop(loop)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(build, "load_page_model", LOAD)
        patch.setattr(build, "run", RUN)
        for module in (build, live):
            patch.setattr(module, "deflated", DEFLATED)
        yield started
    asyncio._set_running_loop(None)


def article_page(folders: pytest.TempPathFactory, language: str) -> Path:
    """Return the article of `minibert learn --lang`, which is written once for all tests."""
    folder = folders.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent  # of all workers
    path = folder / f"learn-{language}.html"
    if not path.exists():
        own = folder / f"{os.getpid()}-{path.name}"
        assert main(["learn", "--lang", language, "--output", str(own)]) == 0
        own.replace(path)
    return path


CLICK = """(item) => {
  item.scrollIntoView({ block: "center", inline: "nearest" }); // the strip may cover an edge
  const { left, top, width, height } = item.getBoundingClientRect();
  const hit = document.elementFromPoint(left + width / 2, top + height / 2);
  if (!item.contains(hit)) throw new Error(`${item.outerHTML} is hidden or covered`);
  if (item.disabled) throw new Error(`${item.outerHTML} is disabled`);
  item.focus({ preventScroll: true });
  hit.click();
}"""
# The page as its address says, as if it had just been opened: opening computes for two seconds.
# What a part keeps beside the state, such as the cursor of a map, stays.
AGAIN = """(address) => {
  clearTimeout(remember.later);
  document.body.tabIndex = -1;
  document.body.focus(); // Tab begins at the first control
  document.body.removeAttribute("tabindex");
  Object.assign(state, structuredClone(beginning));
  hideOne.offered = null;
  tell("");
  document.querySelector("main").scrollTop = 0;
  if ($("ask")) {
    $("ask").hidden = true;
    $("ask-box").value = "";
    foldAnswer(false);
  }
  history.replaceState(null, "", address || "#");
  onhashchange();
}"""


class Opened:
    """An open page that records errors, console messages, dialogs and requests.

    Its reader prefers reduced motion, because drawing animations takes a third of the time.
    """

    def __init__(
        self,
        browser: Any,
        file: Path,
        scheme: str = "light",
        language: str = "en-US",
        width: int = 1280,
        height: int = 800,
        address: str = "",
        **options: Any,
    ) -> None:
        viewport = {"width": width, "height": height}
        options.setdefault("reduced_motion", "reduce")
        self.context = browser.new_context(
            viewport=viewport, color_scheme=scheme, locale=language, offline=True, **options
        )
        self.page = self.context.new_page()
        # Playwright looks in every frame by default, and so makes the page draw sixty in a second.
        self.page.wait_for_function = functools.partial(
            self.page.wait_for_function, polling=POLLING
        )
        self.page.click = self.click
        self.trouble: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda message: self.trouble.append(message.text))
        self.page.on("pageerror", lambda error: self.trouble.append(str(error)))
        self.page.on("dialog", lambda dialog: self.trouble.append(dialog.message))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(file.as_uri() + address)
        self.page.wait_for_selector("html[data-ready]")
        self.page.evaluate(NAMES)
        self.page.evaluate("window.beginning = structuredClone(state)")

    def reload(self) -> None:
        """Open the page again at the address that it has written for its state."""
        beginning = self.page.evaluate("window.beginning")
        self.page.wait_for_timeout(300)  # ms: the address is written later
        self.page.reload()
        self.page.wait_for_selector("html[data-ready]")
        self.page.evaluate(NAMES)
        self.page.evaluate("beginning => { window.beginning = beginning; }", beginning)

    def again(self, address: str = "") -> None:
        """Show what the page showed when it was opened, or what another address says."""
        self.page.wait_for_function("() => !running")
        self.page.evaluate(AGAIN, address)
        self.settle()

    def __enter__(self) -> Opened:
        return self

    def __exit__(self, *_: object) -> None:
        self.context.close()

    def click(self, selector: str) -> None:
        """Wait for an element and click where it is seen, but without moving the mouse there.

        The mouse takes three times as long as drawing the section that is opened. Where a test
        needs it, `locator(selector).click()` moves it.
        """
        self.page.wait_for_selector(selector).evaluate(CLICK)

    def explore(self) -> None:
        """Show everything beside a scene of the article, not only what the scene needs."""
        if self.page.get_attribute("html", "data-calm") is not None:
            self.click("#explore")

    def open(self, section: str) -> None:
        self.explore()
        self.click(f"#tab-{section}")

    def press(self, key: str, times: int = 1) -> None:
        for _ in range(times):
            self.page.keyboard.press(key)

    def run(self, text: str, **options: Any) -> dict[str, Any]:
        """Return what the model in the page computes for a text."""
        # as JSON, because playwright takes four times as long for so many numbers
        result: dict[str, Any] = json.loads(
            self.page.evaluate(
                "([text, options]) => minibert.run(text, options).then(JSON.stringify)",
                [text, options],
            )
        )
        return result

    def settle(self) -> None:
        """Wait until the page has computed what it was asked for."""
        self.page.wait_for_function(
            "() => !running && (!shown.live || state.trouble || same(shown.request, requested()))"
        )

    @property
    def asked_nothing(self) -> bool:
        """Whether the page made no request except for itself and its worker."""
        return self.requests[0].startswith("file:") and all(
            address.startswith("blob:") for address in self.requests[1:]
        )

    @property
    def readout(self) -> str:
        return str(self.page.inner_text("#readout"))

    @property
    def copied(self) -> str:
        """The line of Python that prints the value in the readout."""
        return str(self.page.evaluate("told.python"))

    def hover(self, heat_map: str, row: int, col: int) -> str:
        """Move the mouse over a cell and return the text of the tooltip."""
        self.page.evaluate(
            f"document.getElementById('{heat_map}').scrollIntoView({{block: 'center'}})"
        )
        canvas = self.page.locator(f"#{heat_map}").bounding_box()
        area = self.page.evaluate(
            "(map => ({...map.area, rows: map.now.rows, cols: map.now.cols}))"
            f"(HeatMap.all.get('{heat_map}'))"
        )
        x = canvas["x"] + area["left"] + (col + 0.5) * area["width"] / area["cols"]
        y = canvas["y"] + area["top"] + (row + 0.5) * area["height"] / area["rows"]
        self.page.mouse.move(x, y)
        assert self.page.is_visible("#tip")
        return str(self.page.inner_text("#tip"))


@pytest.fixture(scope="module")
def once(browser: Any, file: Path) -> Iterator[Opened]:
    """The page of a module's fixture `file`, open while the tests of the module run."""
    with Opened(browser, file) as opened:
        yield opened


@pytest.fixture
def opened(once: Opened) -> Iterator[Opened]:
    """The page as it opens. It is opened once for the tests that share it."""
    once.page.set_viewport_size({"width": 1280, "height": 800})
    once.again()
    yield once
    assert once.trouble == []


def shown(value: torch.Tensor, digits: int = 4) -> str:
    """Format a value as the page does."""
    text = f"{value.item():.{digits}f}"
    return text[1:] if float(text) == 0 and text[0] == "-" else text
