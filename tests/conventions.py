"""What the package promises about its own source, as functions that list every violation.

``python -m tests.conventions [FOLDER …]`` prints them; ``test_conventions.py`` asserts that there are none.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from filmtransfer.heads import HEADS

PACKAGE = Path(__file__).parents[1] / "src" / "filmtransfer"
MAX_FUNCTION_LINES = 60
MAX_FILE_LINES = 400
MAX_ARGUMENTS = 8
MAX_ANY_LINES = 150
# Entry points with an explicit signature: scikit-learn's conventions, and the options of a command.
MANY_ARGUMENTS = {"estimator.py:__init__"}
# The glossary: words of our own, for which the field has a term.
GLOSSARY = {
    r"strangers?": "out-of-distribution (OOD) images",
    r"judg(e|es|ed|ement|ements|ing)": "assess, assessment",
    r"left[- ]out|leave[- ]out": "leave-one-out, held-out",
    r"taken for whom|whom": "confusion matrix",
    r"twins?": "near-duplicates",
    r"doubtful|doubts?": "low-confidence",
    r"rightly": "correctly classified",
    r"reckon(s|ed|ing)?": "estimate, calculate",
    r"surroundings": "environment",
    r"anew": "again",
    r"hardly": "barely, seldom",
    r"told": "reported, distinguished",
    r"(?<!_)gone": "deleted",
    r"news": "events",
    r"doors?": "entry points",
    r"talk(s|ed|ing)?": "transport",
    r"watch(es|ed|ing)?": "callback, observer",
    r"mend(s|ed|ing)?": "repair, correct",
    r"honest(ly)?": "unbiased",
    r"stream(?=: torch\.Generator)": "generator",
    r"moving": "trainable",
}


def sources(*folders: str | Path) -> list[Path]:
    """Return every Python file of the package, or of the given folders."""
    roots = [Path(folder) for folder in folders] or [PACKAGE]
    return sorted(path for root in roots for path in ([root] if root.is_file() else root.rglob("*.py")))


def name_of(path: Path) -> str:
    return str(path.resolve().relative_to(PACKAGE))


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def long_files(paths: list[Path]) -> list[str]:
    lengths = {name_of(path): len(path.read_text("utf-8").splitlines()) for path in paths}
    return [f"{name} has {length} lines" for name, length in lengths.items() if length >= MAX_FILE_LINES]


def long_functions(paths: list[Path]) -> list[str]:
    """List functions of 60 lines and more; a command's options and a class's signature do not count."""
    found = []
    for path in paths:
        for node in functions(path):
            length = (node.end_lineno or 0) - node.body[0].lineno + 1
            if length >= MAX_FUNCTION_LINES:
                found.append(f"{name_of(path)}:{node.lineno} {node.name} has {length} lines")
    return found


def many_arguments(paths: list[Path]) -> list[str]:
    found = []
    for path in paths:
        for node in functions(path):
            arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            names = [a.arg for a in arguments if a.arg not in ("self", "cls")]
            allowed = f"{name_of(path)}:{node.name}" in MANY_ARGUMENTS or name_of(path).startswith("cli/")
            if len(names) > MAX_ARGUMENTS and not allowed:
                found.append(f"{name_of(path)}:{node.lineno} {node.name} takes {len(names)} arguments")
    return found


def repeated_class_names(paths: list[Path]) -> list[str]:
    places: dict[str, list[str]] = defaultdict(list)
    for path in paths:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(name_of(path))
    return [f"{name}: {', '.join(where)}" for name, where in places.items() if len(where) > 1]


def undocumented_functions(paths: list[Path]) -> list[str]:
    """List public functions and classes without a docstring (methods of the standard protocols aside)."""
    found = []
    for path in paths:
        tree = ast.parse(path.read_text("utf-8"))
        for node in tree.body:
            members = [node, *(node.body if isinstance(node, ast.ClassDef) else [])]
            for member in members:
                if not isinstance(member, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                    continue
                if not member.name.startswith("_") and not is_stub(member) and not ast.get_docstring(member):
                    if isinstance(node, ast.ClassDef) and node.name.startswith("_"):
                        continue
                    found.append(f"{name_of(path)}:{member.lineno} {member.name} has no docstring")
    return found


def is_stub(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> bool:
    """Tell whether the body is ``...`` and no more, as of a method of a protocol."""
    only = node.body[0].value if len(node.body) == 1 and isinstance(node.body[0], ast.Expr) else None
    return isinstance(only, ast.Constant) and only.value is ...


def any_lines(paths: list[Path]) -> list[str]:
    found = []
    for path in paths:
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
            if re.search(r"\bAny\b", line) and "import" not in line:
                found.append(f"{name_of(path)}:{number}")
    return found


def head_names(paths: list[Path]) -> list[str]:
    """List comparisons with a head's name, and dictionaries and cases by head names, outside ``heads/``."""
    found = []
    for path in paths:
        if name_of(path).startswith("heads/"):
            continue
        text = path.read_text("utf-8")
        lines = {
            value.lineno
            for node in ast.walk(ast.parse(text))
            for value in compared_values(node)
            if isinstance(value, ast.Constant) and isinstance(value.value, str) and value.value in HEADS
        }
        found += [f"{name_of(path)}:{n} {text.splitlines()[n - 1].strip()}" for n in sorted(lines)]
    return found


def compared_values(node: ast.AST) -> list[ast.expr]:
    """Return the expressions with which a node compares: operands and their elements, keys, the value of a case."""
    if isinstance(node, ast.Compare):
        operands = [node.left, *node.comparators]
        elements = [o.elts if isinstance(o, ast.Tuple | ast.List | ast.Set) else [o] for o in operands]
        return [value for values in elements for value in values]
    if isinstance(node, ast.Dict):
        return [key for key in node.keys if key is not None]
    return [node.value] if isinstance(node, ast.MatchValue) else []


def glossary(paths: list[Path]) -> list[str]:
    """List words of comments, docstrings, names and messages for which the field has a term.

    A line that says "former" (as a word) may name a public option or key that is still read under its former name. The name of a
    random generator is part of the seed, and stays.
    """
    found = []
    for path in paths:
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
            if re.search(r"\bformer\b", line) or "_generator(" in line:
                continue
            for pattern, instead in GLOSSARY.items():
                for word in re.finditer(rf"(?<![a-z])({pattern})(?![a-z])", line, re.IGNORECASE):
                    found.append(f"{name_of(path)}:{number} {word[0]!r}: write {instead}")
    return found


CHECKS = (
    long_files,
    long_functions,
    many_arguments,
    repeated_class_names,
    undocumented_functions,
    head_names,
    glossary,
)


if __name__ == "__main__":
    chosen = sources(*sys.argv[1:])
    for check in CHECKS:
        violations = check(sources() if check is repeated_class_names else chosen)
        print(f"{check.__name__}: {len(violations)}")
        for violation in violations:
            print(f"  {violation}")
    print(f"any_lines: {len(any_lines(chosen))} (at most {MAX_ANY_LINES} in the package)")
