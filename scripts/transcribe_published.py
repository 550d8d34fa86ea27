"""Write src/filmtransfer/bench/published.csv: every number of every table of the paper, from its LaTeX source.

    python -m scripts.transcribe_published PAPER.tex

Numbers stay as printed ("0.0014", "77.0"), except for three things that are removed: thousands separators
(23,520,832), the M or B after a count (the name of the metric says millions or billions instead), and the dot of
the one interval without a digit after it ("94.2±0." in vtab_body_ablations becomes 0).
"""

from __future__ import annotations

import csv
import io
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from filmtransfer.errors import InputError
from filmtransfer.files import write_atomically

TARGET = Path(__file__).parents[1] / "src/filmtransfer/bench/published.csv"
PAPER_BACKBONE = "BiT-M-R50x1"

DATASETS = {
    "CIFAR10": "cifar10",
    "CIFAR100": "cifar100",
    "Flowers102": "flowers102",
    "Pets": "oxford_pets",
    "Caltech101": "caltech101",
    "Sun397": "sun397",
    "SVHN": "svhn",
    "DTD": "dtd",
    "EuroSAT": "eurosat",
    "Resics45": "resisc45",
    "Camelyon": "patch_camelyon",
    "Patch Camelyon": "patch_camelyon",
    "Retinopathy": "diabetic_retinopathy",
    "Clevr-count": "clevr_count",
    "CLEVR-count": "clevr_count",
    "Clevr-dist": "clevr_distance",
    "CLEVR-dist": "clevr_distance",
    "dSprites-loc": "dsprites_location",
    "dSprites-ori": "dsprites_orientation",
    "sNORB-azi": "smallnorb_azimuth",
    "SmallNORB-azi": "smallnorb_azimuth",
    "sNORB-elev": "smallnorb_elevation",
    "SmallNORB-elev": "smallnorb_elevation",
    "DMLab": "dmlab",
    "KITTI-dist": "kitti_distance",
    "Overall Acc": "all",
    "All": "all",
    "Natural": "natural",
    "Specialized": "specialized",
    "Structured": "structured",
}
ORBIT_BACKBONES = {"EN-1K": "EfficientNet-B0", "EN-MD": "EfficientNet-B0-MD", "RN-21K": PAPER_BACKBONE}
ALGORITHMS = {
    "Lower Bound": "lower_bound",
    "Upper Bound": "upper_bound",
    "FL": "fedavg",  # "We employ the basic FedAvg algorithm"
    "FedAvg": "fedavg",
    "FedProx": "fedprox",
}


class Row(NamedTuple):
    """One number of the paper."""

    table: str
    backbone: str
    dataset: str
    setting: str
    method: str
    metric: str
    value: str
    interval: str = ""


class PaperTable(NamedTuple):
    """A table as text: its caption, the head of each column, and the rows between the rules."""

    name: str
    caption: str
    heads: list[str]
    blocks: list[list[list[str]]]

    def cells(self) -> Iterator[tuple[list[str], str, str]]:
        """Yield each non-empty cell with its row and the head of its column."""
        for block in self.blocks:
            for row in block:
                for head, cell in zip(self.heads, row, strict=True):
                    if cell:
                        yield row, head, cell


def find(pattern: str, text: str) -> re.Match[str]:
    """Return the first match of a pattern, or raise an error."""
    match = re.search(pattern, text)
    if match is None:
        raise unexpected(f"There is no match of {pattern} in {text.strip()[:80]!r}")
    return match


def unexpected(what: str) -> InputError:
    """Return the error for a source that is not the paper's."""
    return InputError(f"{what}.", "Give the complete LaTeX source of the FiT paper in one file.")


def parse(source: str) -> dict[str, PaperTable]:
    """Return every table of the LaTeX source by its label."""
    tables = {}
    for float_ in re.findall(r"\\begin\{table\}(.*?)\\end\{table\}", source, re.S):
        label = find(r"\\label\{tab:(\w+)\}", float_)
        body = find(r"\\begin\{tabular\}\{[^\n]*\n((?:.|\n)*)\\end\{tabular\}", float_)
        caption = find(r"\\caption\{(.*)\}", float_)
        tables[label[1]] = _table(label[1], caption[1], body[1])
    return tables


def _table(name: str, caption: str, body: str) -> PaperTable:
    """Parse a table in which rules over all columns separate the head and the blocks of rows."""
    body = body.replace(r"\toprule", "").replace(r"\morecmidrules", "")
    body = re.sub(r"\\midrule|\\hline|\\bottomrule|\\cmidrule\{1-\d+\}", "\x00", body)
    body = re.sub(r"\\cmidrule\{\d+-\d+\}", "", body)
    above, *blocks = (
        [_cells(row) for row in part.split(r"\\") if row.strip()] for part in body.split("\x00")
    )
    heads = [" ".join(filter(None, column)) for column in zip(*above, strict=True)]
    for row in (row for block in blocks for row in block):
        if len(row) != len(heads):
            raise unexpected(f"{name}: {len(row)} cells in {len(heads)} columns: {row}")
    return PaperTable(name, caption, heads, [block for block in blocks if block])


def _cells(row: str) -> list[str]:
    """Return the cells of a row as plain text; a cell that spans columns is repeated in each of them."""
    cells = []
    for cell in row.split("&"):
        span = re.search(r"\\multicolumn\{(\d+)\}\{(?:[^{}]|\{[^{}]*\})*\}", cell)
        cells += [_plain(cell.replace(span[0], "") if span else cell)] * (int(span[1]) if span else 1)
    return cells


def _plain(text: str) -> str:
    """Return LaTeX without its commands; formulas are kept, so that they are not parsed as numbers."""
    text = text.replace(r"\fit{}", "FiT").replace(r"$\uparrow$", "").replace(r"$\downarrow$", "")
    text = re.sub(r"\\citep\{[^}]*\}|\\textcolor\[rgb\]\{[^}]*\}|\\(begin|end)\{sideways\}", "", text)
    text = text.strip(" {}") if "$" in text else re.sub(r"\\\w+|[{}]", "", text)
    return re.sub(r"\s*-\s*(?=QDA|LDA|ProtoNets)", "-", re.sub(r"[↑↓~\s]+", " ", text)).strip()


def _number(cell: str) -> tuple[str, str]:
    """Parse '54.0±5.7' or '78.1 (2.0)' to a value and its interval."""
    match = find(r"^(\d+(?:\.\d+)?)(?:\s*[±(]\s*(\d+(?:\.\d+)?)\.?\)?)?$", cell)
    return match[1], match[2] or ""


def _count(cell: str, metric: str) -> tuple[str, str]:
    """Parse '14B' to the name of the metric in billions and 14; 0 without a unit counts as millions."""
    match = find(r"^(\d+(?:\.\d+)?)([MB]?)$", cell)
    return f"{metric}_{(match[2] or 'M').lower()}", match[1]


def _name_of(block: list[list[str]]) -> str:
    """Return the only name in the first column of a block."""
    (name,) = {row[0] for row in block} - {""}
    return name


def _by_block(table: PaperTable) -> Iterator[tuple[str, list[str], str, str]]:
    """Yield each cell with the name of its block, its row and its head."""
    for block in table.blocks:
        for row, head, cell in table._replace(blocks=[block]).cells():
            if head not in ("Dataset", "Clients", "Shot"):
                yield _name_of(block), row, head, cell


def model_parameters(table: PaperTable) -> Iterator[Row]:
    """Read the Example column and the numbers from which it is calculated; formulas are ignored."""

    def row(method: str, metric: str, value: str) -> Row:
        return Row(table.name, PAPER_BACKBONE, "", "classes=10", method, metric, value.replace(",", ""))

    for symbol, metric in (
        (r"\|\\vtheta\| = ", "backbone_parameters"),
        (r"\\vpsi=", "film_parameters"),
        ("d_b=", "features"),
        ("C=", "classes"),
    ):
        yield row("", metric, find(symbol + r"(\d+(?:,\d{3})*)", table.caption)[1])
    for cells, head, cell in table.cells():
        if head != "Method" and re.fullmatch(r"[\d,]+", cell):
            metric = {"Shared": "shared_parameters", "Example": "updateable_parameters"}[head]
            yield row(cells[0], metric, cell)


def vtab_rotated(table: PaperTable) -> Iterator[Row]:
    for row, head, cell in table.cells():
        if head == "Params (M)":
            yield Row(table.name, PAPER_BACKBONE, "all", "classes=10", row[0], "parameters_m", *_number(cell))
        elif head != "Method":
            dataset = DATASETS[re.sub("^(Natural|Specialized|Structured) ", "", head)]
            yield Row(table.name, PAPER_BACKBONE, dataset, "", row[0], "accuracy", *_number(cell))


def vtab_sota(table: PaperTable) -> Iterator[Row]:
    for row, head, cell in table.cells():
        backbone, size = find(r"^(.*) \(([\d.]+)M\)$", row[1]).groups()
        method = row[0].removesuffix(" (ours)")
        if head == "Backbone":
            yield Row(table.name, backbone, "", "", method, "backbone_parameters_m", size)
        elif head != "Method":
            metric = "parameters_m" if head == "Params (M)" else "accuracy"
            dataset = "all" if head == "Params (M)" else DATASETS[head]
            yield Row(table.name, backbone, dataset, "", method, metric, *_number(cell))


def orbit_results(table: PaperTable) -> Iterator[Row]:
    for row, head, cell in table.cells():
        method, backbone = row[0], ORBIT_BACKBONES[row[1]]
        if "Videos" in head:
            videos, _, metric = head.lower().partition(" videos ")
            metric = metric.replace(" acc", "_accuracy")
            yield Row(table.name, backbone, "orbit", f"videos={videos}", method, metric, *_number(cell))
        elif head in ("Parameters shared", "Parameters average"):
            name = "shared_parameters" if head.endswith("shared") else "parameters"
            metric, value = _count(cell, name)
            yield Row(table.name, backbone, "orbit", "", method, metric, value)


def few_shot_results(table: PaperTable) -> Iterator[Row]:
    for name, row, head, cell in _by_block(table):
        method = "" if head == "$C$" else _few_shot_method(head)
        metric = "classes" if head == "$C$" else head.split()[-1].lower()
        setting = f"shots={row[2].lower()}"
        yield Row(table.name, PAPER_BACKBONE, DATASETS[name], setting, method, metric, *_number(cell))


def _few_shot_method(head: str) -> str:
    return {"BiT Standard": "BiT", "BiT FiLM": "BiT-FiLM"}.get(head.rsplit(" ", 1)[0]) or _fit(head)


def _fit(head: str) -> str:
    """Return FiT-QDA for '… QDA Accuracy'."""
    return "FiT-" + find(r"\b(QDA|LDA|ProtoNets)\b", head)[1]


def _split(head: str) -> str:
    """Return split=no_split for 'QDA No Split'."""
    return "split=" + head.split(" ", 1)[1].lower().replace(" ", "_")


def few_shot_ablation(table: PaperTable) -> Iterator[Row]:
    for name, row, head, cell in _by_block(table):
        setting = f"shots={row[1].lower()};{_split(head)}"
        yield Row(table.name, PAPER_BACKBONE, DATASETS[name], setting, _fit(head), "accuracy", *_number(cell))


def vtab_results(table: PaperTable) -> Iterator[Row]:
    """Read the table, whose last column is FiT-LDA on another backbone (according to vtab_sota)."""
    for row, head, cell in table.cells():
        backbone, method, metric = PAPER_BACKBONE, "", head.split()[-1].lower()
        if head == "EffNetV2-M Accuracy":
            backbone, method = "EfficientNetV2-M", "FiT-LDA"
        elif head == "$C$":
            metric = "classes"
        elif head != "Dataset":
            method = "BiT" if head.startswith("BiT ") else _fit(head)
        if head != "Dataset":
            yield Row(table.name, backbone, DATASETS[row[0]], "", method, metric, *_number(cell))


def vtab_ablation(table: PaperTable) -> Iterator[Row]:
    for row, head, cell in table.cells():
        if head != "Dataset":
            setting, dataset = _split(head), DATASETS[row[0]]
            yield Row(table.name, PAPER_BACKBONE, dataset, setting, _fit(head), "accuracy", *_number(cell))


def vtab_body_ablations(table: PaperTable) -> Iterator[Row]:
    for row, head, cell in table.cells():
        if head != "Dataset":
            method, dataset = head.replace(" ", "-"), DATASETS[row[0]]
            yield Row(table.name, PAPER_BACKBONE, dataset, "", method, "accuracy", *_number(cell))


def bit_against_fit(dataset: str) -> Callable[[PaperTable], Iterator[Row]]:
    """Return a reader of BiT against FiT: 60 rounds and the global setting, according to captions and text."""
    common = "rounds=60;setting=global;algorithm=fedavg"

    def read(table: PaperTable) -> Iterator[Row]:
        for row, head, cell in table.cells():
            method = _federated_method(row[0])
            if head.startswith("Parameter cost "):
                metric, value = _count(
                    cell, f"{head[len('Parameter cost ') :].lower().replace(' ', '_')}_parameters"
                )
                yield Row(table.name, PAPER_BACKBONE, dataset, common, method, metric, value)
            elif head != "Models":
                clients, shots = find(r"^(\d+) Clients (\d+)-Shot$", head).groups()
                setting = f"clients={clients};shots={shots};{common}"
                yield Row(table.name, PAPER_BACKBONE, dataset, setting, method, "accuracy", *_number(cell))

    return read


def _federated_method(name: str) -> str:
    """Return the method; of the federated FiT the paper says "We use a ProtoNets head for simplicity"."""
    return "FiT-ProtoNets" if name == "FiT" else name


def federated(dataset: str, rounds: int) -> Callable[[PaperTable], Iterator[Row]]:
    """Return a reader of FiT with its bounds, or with two algorithms, by clients × shots × setting."""

    def read(table: PaperTable) -> Iterator[Row]:
        for clients, row, head, cell in _by_block(table):
            scope, _, algorithm = head.partition(" ")
            setting = (
                f"clients={clients};shots={row[1]};rounds={rounds};"
                f"setting={scope.lower()};algorithm={ALGORITHMS[algorithm]}"
            )
            method = _federated_method("FiT")
            yield Row(table.name, PAPER_BACKBONE, dataset, setting, method, "accuracy", *_number(cell))

    return read


READERS: dict[str, Callable[[PaperTable], Iterator[Row]]] = {
    "model_parameters": model_parameters,
    "vtab_rotated": vtab_rotated,
    "vtab_sota": vtab_sota,
    "orbit_results": orbit_results,
    "fed_learning_bit_vs_fit": bit_against_fit("cifar100"),
    "few_shot_results": few_shot_results,
    "few_shot_ablation": few_shot_ablation,
    "vtab_results": vtab_results,
    "vtab_ablation": vtab_ablation,
    "vtab_body_ablations": vtab_body_ablations,
    "fed_learning_cifar": federated("cifar100", 60),
    "fed_learning_algorithms": federated("cifar100", 60),
    "fed_learning_qd_bit_vs_fit": bit_against_fit("quickdraw"),
    "fed_learning_quickdraw": federated("quickdraw", 120),
}


def transcribe(source: str) -> list[Row]:
    """Return the numbers of all tables, in the order of the paper."""
    tables = parse(source)
    if set(tables) != set(READERS):
        raise unexpected(f"The tables are {', '.join(tables)}; expected {', '.join(READERS)}")
    return [row for name, table in tables.items() for row in READERS[name](table)]


def main() -> None:
    rows = transcribe(Path(sys.argv[1]).read_text(encoding="utf-8"))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(Row._fields)
    writer.writerows(rows)
    write_atomically(TARGET, text.getvalue().encode())
    print(f"{len(rows)} numbers in {TARGET}")


if __name__ == "__main__":
    main()
