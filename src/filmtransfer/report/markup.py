"""HTML and SVG built from pieces that cannot be forgotten to be escaped.

Text is escaped when it becomes a child or an attribute; only what ``tag`` made passes as it is.
"""

from __future__ import annotations

import re
from html import escape

# What no page can show: controls (but for the line ends), and halves of characters from odd file names.
UNSHOWABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
EMPTY = frozenset({"br", "meta", "image", "use", "path", "rect", "line", "circle", "polygon", "polyline"})


class Markup(str):
    """Text that is markup already."""

    __slots__ = ()


Child = str | int | None


def text(value: object) -> Markup:
    """Anything as text that means only itself."""
    if isinstance(value, Markup):
        return value
    return Markup(escape(UNSHOWABLE.sub("\ufffd", str(value)), quote=True))


def join(*children: Child) -> Markup:
    return Markup("".join(text(child) for child in children if child is not None))


def tag(name: str, *children: Child, **attributes: str | float | None) -> Markup:
    """An element; ``class_`` is class, other underscores are hyphens, None leaves an attribute out."""
    words = "".join(
        f' {_attribute(key)}="{text(_number(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in EMPTY and not children:
        return Markup(f"<{name}{words}/>")
    return Markup(f"<{name}{words}>{join(*children)}</{name}>")


def paragraph(*children: Child, class_: str | None = None) -> Markup:
    return tag("p", *children, class_=class_)


def strong(child: Child) -> Markup:
    return tag("strong", child)


def link(name: str, child: Child) -> Markup:
    """To another place of the same page."""
    return tag("a", child, href=f"#{name}")


def name_of_class(name: str) -> Markup:
    """A class's name: set apart, and kept whole from right to left too."""
    return tag("bdi", breakable(name), class_="class")


def breakable(name: str) -> Markup:
    """A name that may be broken where its words end."""
    return Markup(re.sub(r"([_/-])(?=.)", r"\1<wbr/>", name)) if name.isidentifier() else text(name)


def listed(names: list[str], most: int = 3) -> Markup:
    """Names as a person lists them: a, b and c; at most so many."""
    shown: list[Markup] = [name_of_class(name) for name in names[:most]]
    if len(names) > most:
        shown.append(text(f"{len(names) - most} more"))
    if len(shown) < 2:
        return join(*shown)
    return join(Markup(", ".join(shown[:-1])), " and ", shown[-1])


def table(
    heads: list[Child], rows: list[list[Child]], label: str, right: tuple[int, ...] = (), class_: str = ""
) -> Markup:
    """A table in a box of its own, which can be moved sideways where it is wider than the page."""

    def cell(kind: str, i: int, child: Child) -> Markup:
        scope = {"td": None, "th": "row"}[kind]
        return tag(kind, child, class_="right" if i in right else None, scope=scope)

    top = tag(
        "tr",
        *(tag("th", h, scope="col", class_="right" if i in right else None) for i, h in enumerate(heads)),
    )
    body = [
        tag("tr", *(cell("th" if i == 0 else "td", i, child) for i, child in enumerate(row))) for row in rows
    ]
    inside = tag("table", tag("thead", top), tag("tbody", *body), class_=class_ or None)
    return tag("div", inside, class_="wide", role="region", aria_label=label, tabindex=0)


def _attribute(key: str) -> str:
    return key.rstrip("_").replace("_", "-") if key != "viewBox" else key


def _number(value: str | float) -> str:
    """Numbers as short as a drawing needs them."""
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
