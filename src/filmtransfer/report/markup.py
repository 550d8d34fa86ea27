"""HTML and SVG from elements that escape their content.

A string is escaped when it becomes a child or an attribute; only ``Markup``, which ``tag`` returns, is inserted as it is.
"""

from __future__ import annotations

import re
from collections.abc import Container, Sequence
from html import escape
from importlib.resources import files

# Control characters (except line ends) and unpaired surrogates from undecodable file names.
UNSHOWABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
EMPTY = frozenset(
    {"br", "meta", "img", "image", "use", "path", "rect", "line", "circle", "polygon", "polyline"}
)


class Markup(str):
    """A string that is markup already and is not escaped again."""

    __slots__ = ()


Child = str | int | None


def text(value: object) -> Markup:
    """Return any value as escaped text."""
    if isinstance(value, Markup):
        return value
    return Markup(escape(UNSHOWABLE.sub("\ufffd", str(value)), quote=True))


def join(*children: Child) -> Markup:
    """Return the children one after the other, without those that are None."""
    return Markup("".join(text(child) for child in children if child is not None))


def tag(name: str, *children: Child, **attributes: str | float | None) -> Markup:
    """Return an element; ``class_`` becomes class, other underscores become hyphens, None omits an attribute."""
    rendered = "".join(
        f' {_attribute(key)}="{text(_number(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in EMPTY and not children:
        return Markup(f"<{name}{rendered}/>")
    return Markup(f"<{name}{rendered}>{join(*children)}</{name}>")


def paragraph(*children: Child, class_: str | None = None) -> Markup:
    """Return a paragraph."""
    return tag("p", *children, class_=class_)


def link(anchor: str, child: Child) -> Markup:
    """Return a link to another part of the same page."""
    return tag("a", child, href=f"#{anchor}")


def class_name(name: str) -> Markup:
    """Return a class's name in its own style, isolated from the writing direction around it."""
    return tag("bdi", breakable(name), class_="class")


def breakable(name: str) -> Markup:
    """Return a name that may be wrapped where one of its words ends."""
    return Markup(re.sub(r"([_/-])(?=.)", r"\1<wbr/>", name)) if name.isidentifier() else text(name)


def breakable_path(name: str) -> Markup:
    """Return the name of a file that may be wrapped after its folder and its words."""
    return Markup(re.sub(r"([_/-])(?=.)", r"\1<wbr/>", text(name)))


def class_list(names: list[str], most: int = 3) -> Markup:
    """Return an enumeration of class names: a, b and c; or a, b, c and 2 more."""
    shown: list[Markup] = [class_name(name) for name in names[:most]]
    if len(names) > most:
        shown.append(text(f"{len(names) - most} more"))
    if len(shown) < 2:
        return join(*shown)
    return join(Markup(", ".join(shown[:-1])), " and ", shown[-1])


def table(
    heads: Sequence[Child],
    rows: Sequence[Sequence[Child]],
    label: str,
    right: Container[int] = (),
    class_: str = "",
    row_heads: int = 1,
) -> Markup:
    """Return a table; the first ``row_heads`` columns are headings too, and ``right`` columns are aligned right.

    The class "stacked" makes it a list on a narrow screen, so each cell carries the title of its column.
    """

    def line(children: Sequence[Child], scopes: Sequence[str | None]) -> Markup:
        cells = enumerate(zip(children, scopes, heads, strict=True))
        return tag(
            "tr",
            *(
                tag("th", child, class_="right" if i in right else None, scope=scope)
                if scope
                else tag(
                    "td",
                    child,
                    class_="right" if i in right else None,
                    data_title=head if class_ == "stacked" else None,
                )
                for i, (child, scope, head) in cells
            ),
        )

    top = line(heads, ["col"] * len(heads))
    body = [line(row, [*["row"] * row_heads, *[None] * (len(row) - row_heads)]) for row in rows]
    return scrollable(label, tag("table", tag("thead", top), tag("tbody", *body), class_=class_ or None))


def scrollable(label: str, *children: Child, class_: str = "wide") -> Markup:
    """Return a box that scrolls sideways where its content is wider than the page."""
    return tag("div", *children, class_=class_, role="region", aria_label=label, tabindex=0)


def document(title: str, package: str, *body: Child) -> str:
    """Return a complete page with the style sheet of a package (``style.css``); it works on narrow screens."""
    head = tag(
        "head",
        Markup('<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'),
        tag("title", title),
        tag("style", Markup(files(package).joinpath("style.css").read_text("utf-8"))),
    )
    return f"<!doctype html>\n{tag('html', head, tag('body', *body), lang='en')}\n"


def _attribute(key: str) -> str:
    return key.rstrip("_").replace("_", "-") if key != "viewBox" else key


def _number(value: str | float) -> str:
    """Return a number with at most two decimals."""
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
