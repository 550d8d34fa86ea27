"""Accessibility: axe-core reports no violation in any state, light or dark; the page fits phones and zoomed screens."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from .conftest import Opener
from .fake_service import Running
from .fake_state import Fake
from .states import EXPECTED, STATES

pytestmark = [pytest.mark.browser(seconds=25), pytest.mark.xdist_group("page")]


def widest(page: Page) -> int:
    return int(page.evaluate("document.documentElement.scrollWidth"))


@pytest.mark.parametrize("name", STATES)
def test_every_state_is_accessible_and_fits_small_screens(
    name: str, opened: Opener, service: Running, fake: Fake, axe: Callable[[Page], list[str]]
) -> None:
    prepare, act = STATES[name]
    if prepare:
        prepare(fake)
    page = opened(service.url, expected=EXPECTED.get(name, ()))
    expect(page.locator("#work")).to_be_visible()
    if act:
        act(page, service)
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")  # type: ignore[arg-type]
        assert axe(page) == [], scheme
    for width in (640, 390, 360):  # 640: a desktop at 200 %
        page.set_viewport_size({"width": width, "height": 740})
        assert widest(page) <= width, width
    if name in ("filled", "trained", "recording", "projects", "downloading", "nameless"):
        small = page.evaluate(
            """[...document.querySelectorAll('button, select, .steps a, .check')].filter((e) => e.offsetParent)
               .filter((e) => e.getBoundingClientRect().height < 43.9 || e.getBoundingClientRect().width < 43.9).map((e) => e.outerHTML.slice(0, 120))"""
        )
        assert small == []  # touch targets need 44 pixels
    if name in ("recording", "live"):
        page.evaluate(
            "document.querySelectorAll('video').forEach((v) => v.srcObject?.getTracks().forEach((t) => t.stop()))"
        )


def test_text_has_contrast_of_seven_to_one(
    opened: Opener, service: Running, fake: Fake, axe: Callable[[Page], list[str]]
) -> None:
    STATES["trained"][0](fake)  # type: ignore[misc]
    page = opened(service.url)
    expect(page.locator("#work")).to_be_visible()
    STATES["trained"][1](page, service)  # type: ignore[misc]
    axe(page)
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")  # type: ignore[arg-type]
        violations = page.evaluate(
            "axe.run(document, {runOnly: ['color-contrast-enhanced']}).then((r) => r.violations.flatMap((v) => v.nodes.map((n) => n.html)))"
        )
        assert violations == [], scheme


@pytest.mark.usefixtures("fake")
def test_the_colours_can_be_switched(opened: Opener, service: Running) -> None:
    page = opened(service.url)
    ground = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(ground)
    page.get_by_role("button", name="Use dark colours").click()
    dark = page.evaluate(ground)
    assert dark != light
    page.reload()
    assert page.evaluate(ground) == dark
    page.get_by_role("button", name="Use light colours").click()
    assert page.evaluate(ground) == light
