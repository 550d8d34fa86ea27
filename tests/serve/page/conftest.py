"""A real browser, a fake service, and a check of what the page must never do."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.chromium import chromium

from .fake_service import Running
from .fake_state import TOKEN, Fake

AXE = Path(sys.prefix) / "share" / "axe.min.js"


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    expect.set_options(timeout=20_000)  # ms: the machine may be busy
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="package")
def service() -> Iterator[Running]:
    running = Running(Fake())
    yield running
    running.stop()


@pytest.fixture
def fake(service: Running) -> Fake:
    service.fake.reset()
    return service.fake


@dataclass
class PageMonitor:
    """The errors and foreign requests of a page; messages that contain one of ``expected`` are ignored."""

    page: Page
    origin: str
    errors: list[str] = field(default_factory=list)
    foreign_requests: list[str] = field(default_factory=list)
    expected: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self.page.on(
            "console", lambda m: self.errors.append(m.text) if m.type in ("error", "warning") else None
        )
        self.page.on("pageerror", lambda e: self.errors.append(str(e)))
        self.page.on("request", lambda r: self.check(r.url))
        self.page.add_init_script(
            "addEventListener('securitypolicyviolation', (e) => console.error('CSP ' + e.violatedDirective + ' ' + e.blockedURI))"
        )

    def check(self, url: str) -> None:
        if not url.startswith((self.origin, "blob:" + self.origin, "data:")):
            self.foreign_requests.append(url)

    def verify(self) -> None:
        assert [e for e in self.errors if not any(text in e for text in self.expected)] == []
        assert self.foreign_requests == []


Opener = Callable[..., Page]


@pytest.fixture
def opened(browser: Browser) -> Iterator[Opener]:
    """Open the page; afterwards no error, blocked resource or request to another origin is allowed."""
    contexts: list[BrowserContext] = []
    monitors: list[PageMonitor] = []

    def open_page(
        url: str, token: str | None = TOKEN, expected: tuple[str, ...] = (), width: int = 1280
    ) -> Page:
        context = browser.new_context(viewport={"width": width, "height": 900}, reduced_motion="reduce")
        context.set_default_timeout(20_000)
        contexts.append(context)
        page = context.new_page()
        monitors.append(PageMonitor(page, url, expected=expected))
        page.goto(url + (f"#token={token}" if token else ""))
        # Keys that a test presses before the page has loaded go to no element: Playwright waits with
        # them until the element exists, not until it is visible and can be focused.
        expect(page.locator("#work, #sign-in, #offline").locator("visible=true").first).to_be_visible()
        return page

    yield open_page
    for context in contexts:
        context.close()
    for monitor in monitors:
        monitor.verify()


@pytest.fixture
def axe() -> Callable[[Page], list[str]]:
    """Return a function that lists the violations that axe-core reports for a page."""
    assert AXE.exists(), (
        f"{AXE} is missing: run `make {AXE.relative_to(Path.cwd()) if AXE.is_relative_to(Path.cwd()) else AXE}`"
    )
    source = AXE.read_text()

    def violations(page: Page) -> list[str]:
        if not page.evaluate("typeof axe === 'object'"):
            page.evaluate(source)
        result = page.evaluate(
            "axe.run(document, {resultTypes: ['violations'], runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']})"
        )
        return [
            f"{v['id']}: {v['nodes'][0]['html'][:200]} {v['nodes'][0]['failureSummary'][:300]}"
            for v in result["violations"]
        ]

    return violations
