"""The complete page: escaped, self-contained, of bounded size, and written atomically."""

from __future__ import annotations

import re
import subprocess
import sys
from html.parser import HTMLParser
from io import BytesIO

import numpy as np
import pytest
from PIL import Image

from filmtransfer.errors import InputError
from filmtransfer.report import page, write_report
from filmtransfer.report.markup import Markup, document, table, tag, text
from filmtransfer.report.pictures import (
    MAX_PICTURES,
    EmbeddedPictures,
    PhotoRecorder,
    aspect_ratio,
    thumbnail,
)
from tests.conftest import picture
from tests.report.small_report import LABELS, features, jpeg, report_data

EVIL = ['<script>alert("1")</script>', "a\" onload='x' b", "</style></svg>&amp;", "\x00\ud800\u202eevil"]


class Reader(HTMLParser):
    """Tags, their attributes, and whether every tag is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def read(made: str) -> Reader:
    reader = Reader()
    reader.feed(made)
    reader.close()
    assert reader.open == []
    return reader


@pytest.fixture(scope="module")
def usual() -> str:
    labels = LABELS.copy()
    labels[5] = 2
    return page(report_data(labels, features(LABELS, 0.6), temperature=1.3))


def test_the_page_contains_every_section_and_no_dead_link(usual):
    found = read(usual)
    ids = [attributes["id"] for _, attributes in found.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    anchors = {
        "label-issues",
        "near-duplicates",
        "weak-classes",
        "mistakes",
        "confusion",
        "learning-curve",
        "projection",
        "reliability",
        "film",
        "facts",
    }
    assert anchors <= set(ids)
    for name, attributes in found.tags:
        if name in ("a", "use"):
            assert (attributes["href"] or "").removeprefix("#") in ids


def test_the_page_is_self_contained(usual):
    for name, attributes in read(usual).tags:
        assert name not in ("script", "link", "iframe", "object", "embed", "img", "base")
        assert not any(key.startswith("on") for key in attributes)
        for key in ("src", "href", "xlink:href", "srcset", "action"):
            value = attributes.get(key)
            assert value is None or value.startswith(("#", "data:image/jpeg;base64,")), value
    assert "http://" not in usual
    assert "https://" not in usual
    assert "url(" not in usual
    assert "@import" not in usual


def test_every_picture_is_embedded_once(usual):
    pictures = [a["href"] for name, a in read(usual).tags if name == "image"]
    assert len(pictures) == len(set(pictures)) > 4


def test_names_are_escaped():
    about = report_data(LABELS, features(LABELS, 0.8), names=EVIL)
    about.photos.names[:] = [f"{EVIL[i % 4]}{i}" for i in range(len(about.photos))]
    made = page(about)
    made.encode()
    tags = read(made).tags
    assert not [name for name, _ in tags if name == "script"]
    assert not [a for _, a in tags if "onload" in a]
    assert "&lt;script&gt;" in made
    assert "\x00" not in made


def test_a_document_has_the_style_sheet_of_its_package():
    for package in ("filmtransfer.report", "filmtransfer.bench"):
        made = document("<a>", package, tag("main", "b"))
        assert read(made)
        assert made.startswith('<!doctype html>\n<html lang="en">')
        assert "<title>&lt;a&gt;</title><style>" in made
        assert "prefers-color-scheme: dark" in made
        assert made.endswith("<body><main>b</main></body></html>\n")


def test_a_table_has_headings_and_right_columns():
    made = table(["a", "b", "c"], [["1", "2", "3"]], "t", right={2}, row_heads=2)
    assert '<th scope="row">1</th><th scope="row">2</th><td class="right">3</td>' in made
    assert '<th class="right" scope="col">c</th>' in made
    assert '<th scope="row">1</th><td>2</td>' in table(["a", "b"], [["1", "2"]], "t")
    assert '<td data-title="b">2</td>' in table(["a", "b"], [["1", "2"]], "t", class_="stacked")


def test_markup_escapes_all_but_itself():
    assert tag("p", "<b>", tag("i", "&"), title='"') == '<p title="&quot;">&lt;b&gt;<i>&amp;</i></p>'
    assert text(Markup("<b>")) == "<b>"
    assert tag("line", x1=0.5, aria_label=None) == '<line x1="0.5"/>'


@pytest.mark.parametrize("head", ["lda", "linear"])
def test_two_photos_are_enough_for_a_page(head):
    two = np.array([0, 1])
    made = page(report_data(two, features(two), assessed=False, head=head))
    read(made)
    assert "Its accuracy is unknown" in made
    three = np.array([0, 0, 1])
    read(page(report_data(three, features(three), head=head)))


@pytest.mark.slow
@pytest.mark.parametrize("classes", [50, 345])
def test_many_classes_make_a_bounded_page(classes):
    labels = np.arange(classes).repeat(6)
    about = report_data(labels, features(labels, 1.2, width=48), head="protonets")
    made = page(about)
    read(made)
    assert len(made.encode()) < 5_000_000
    assert len(re.findall("<image", made)) <= MAX_PICTURES
    assert f"classes of {classes} with the most mistakes" in made
    assert f"The other {classes - 12} classes" in made


@pytest.mark.slow
def test_ten_thousand_photos_make_a_bounded_page():
    labels = np.tile(np.arange(10), 1000)
    about = report_data(labels, features(labels, 1.5), head="protonets", pictures=False)
    about.photos.thumbnails[:] = [jpeg(i % 900) for i in range(900)] + [b""] * 9100
    assert len(page(about).encode()) < 5_000_000


def test_a_test_without_statistics_names_the_option():
    from dataclasses import replace

    about = replace(report_data(LABELS, features(LABELS), kind="test"), support=None)
    made = page(about)
    read(made)
    assert "--compact" in made


def test_the_file_is_written_atomically(tmp_path):
    about = report_data(LABELS, features(LABELS))
    size = write_report(tmp_path / "r.html", about)
    assert (tmp_path / "r.html").stat().st_size == size
    assert [f.name for f in tmp_path.iterdir()] == ["r.html"]
    with pytest.raises(InputError, match="cannot be written"):
        write_report(tmp_path / "nowhere" / "r.html", about)


@pytest.mark.process
def test_a_page_is_made_without_torch():
    code = """
import sys
import filmtransfer.report, filmtransfer.report.figures
assert not {"torch", "matplotlib"} & set(sys.modules)
from tests.report.small_report import LABELS, features, report_data
for head in ("lda", "qda", "protonets", "cosine"):
    filmtransfer.report.page(report_data(LABELS, features(LABELS, 0.8), head=head))
assert "torch" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


# Pictures


def test_a_thumbnail_has_the_photos_aspect_ratio(tmp_path):
    wide = Image.fromarray(np.zeros((50, 100, 3), np.uint8))
    turned = wide.getexif()
    turned[274] = 6
    wide.save(tmp_path / "turned.jpg", exif=turned)
    assert aspect_ratio(Image.new("RGB", (100, 50))) == 2
    assert aspect_ratio(tmp_path / "turned.jpg") == 0.5
    assert aspect_ratio(np.zeros((10, 30))) == 3
    assert aspect_ratio("nowhere.jpg") == 1
    for aspect, size in ((2.0, (128, 64)), (0.5, (64, 128)), (1.0, (128, 128)), (9.0, (128, 51))):
        assert Image.open(BytesIO(thumbnail(np.zeros((64, 64, 3), np.uint8), aspect))).size == size


def test_the_recorder_keeps_names_digests_and_thumbnails():
    recorder = PhotoRecorder()
    squares = np.stack([np.asarray(picture(0, i)).transpose(2, 0, 1) for i in (0, 1, 0)])
    recorder.on_images(squares, ["some/where/cat/1.jpg", picture(0, 1), picture(0, 0)])
    assert recorder.names == ["cat/1.jpg", "image 2", "image 3"]
    assert recorder.digests[0] == recorder.digests[2] != recorder.digests[1]
    assert Image.open(BytesIO(recorder.thumbnails[1])).size == (128, 128)


def test_a_full_page_shows_a_blank_picture():
    pictures = EmbeddedPictures(most=1)
    assert "use" in pictures.show(jpeg(0), "a")
    assert "blank" in pictures.show(jpeg(1), "b")
    assert "use" in pictures.show(jpeg(0), "again")
    assert pictures.definitions().count("<image") == 1


def test_large_pictures_stay_below_four_megabytes():
    pictures, rng = EmbeddedPictures(), np.random.default_rng(0)
    for _ in range(40):
        noise = thumbnail(rng.integers(0, 255, (128, 128, 3), dtype=np.uint8))
        for i in range(10):
            pictures.embed(noise + bytes([i]))  # bytes after the end of a JPEG do not matter
    assert 200 < len(pictures.numbers) < 400
    assert len(pictures.definitions()) < 4_200_000
