"""The table of ORBIT: published numbers are compared with ours only on ORBIT's own users."""

from __future__ import annotations

from filmtransfer.bench.orbit.tables import PER_USER, orbit_tables, published_orbit_number
from filmtransfer.bench.published import published
from filmtransfer.bench.result_table import to_markdown

LITE = "efficientnet_lite0"


def row(method, user, kind, frame, right, numbers=30_000, classes=9):
    return {
        "settings": {"method": method, "user": user, "videos": kind, "task": 0, "backbone": LITE},
        "result": {
            "videos": [["o", "v", 8, frame, right]], "classes": classes, "shared": 3_371_008, "numbers": numbers,
            "notes": [f"{user} note"],
        },
    }  # fmt: skip


def test_other_users_than_orbits_have_separate_rows_of_published_numbers():
    rows = [row("FiT-LDA", u, k, f, True) for u in "ab" for k, f in (("clean", 0.8), ("clutter", 0.6))]
    rows += [row("Frozen-LDA", "a", "clean", 0.5, False)]
    table, users = orbit_tables(rows)
    assert [head[0] for head in table.row_heads] == [
        "Frozen-LDA",
        "FiT-LDA",
        "FiT-LDA, published on ORBIT with EfficientNet-B0",
    ]
    text = to_markdown(table)
    assert "80.0 ± 0.0 | 100.0 ± 0.0 | 60.0 ± 0.0 | 100.0 ± 0.0 | 3.371 | 0.030" in text
    assert "81.8 ± 1.8 | 90.6 ± 1.9 | 65.7 ± 1.8 | 70.7 ± 2.3 | 4.01 | 0.03" in text
    assert "cannot be compared" in text
    assert "✗" not in text
    assert "a: a note" in text
    assert "50.0 | 0.0 | – | –" in text
    assert "| clean | frame | mean of users | 50.0 | 80.0 ± 0.0 |" in to_markdown(users)


def test_the_users_of_orbit_are_compared_with_the_published_numbers():
    sizes = [9] * 12 + [10] * 5
    rows = [row("FiT-LDA", f"P{i}", "clean", 0.818, True, classes=c) for i, c in enumerate(sizes)]
    table, _ = orbit_tables(rows)
    text = to_markdown(table)
    assert sum(sizes) == 158
    assert "81.8 ± 0.0 (81.8 ± 1.8, +0.0 ✓)" in text
    assert "100.0 ± 0.0 (90.6 ± 1.9, +9.4 ✗)" in text
    assert "The backbones differ" in text


def test_every_published_number_of_the_table_is_found():
    for p in published():
        if p.table == "orbit_results":
            name = {"EfficientNet-B0": "efficientnet_b0", "BiT-M-R50x1": "bit_m_r50x1"}.get(p.backbone, LITE)
            assert p.method in PER_USER
            assert published_orbit_number(name, p.method, p.metric, **p.settings) == p
    assert published_orbit_number(LITE, "FiT-ProtoNets", "frame_accuracy", videos="clean") is None


def test_the_papers_averages_follow_from_its_formulas():
    """The mean over ORBIT's users: 158 objects of 17 users, d = 1280 and |ψ| = 20544."""
    c, d = 158 / 17, 1280
    for method, own in {
        "FineTuner": (d + 1) * c,
        "Simple CNAPs": d * (d + 3) / 2 * c,
        "ProtoNets": d * c,
        "FiT-LDA": (d + 1) * c + 20544,
    }.items():
        assert f"{own / 1e6:.2f}" == published_orbit_number("efficientnet_b0", method, "parameters_m").printed
