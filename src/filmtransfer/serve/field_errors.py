"""The errors that pydantic reports for a request, in plain sentences: which field, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import FitError
from .store import JsonObject

LONGEST_NAME = 100  # characters of a field name that are shown
DESCRIPTION = "/openapi.json describes what this route takes."
NOUNS = {"body": "field", "path": "parameter", "query": "parameter", "header": "header"}
KINDS = {
    "string_type": "a text",
    "string_unicode": "a text of valid Unicode characters",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_parsing_size": "a smaller number",
    "int_from_float": "a whole number",
    "model_type": "a JSON object",
    "model_attributes_type": "a JSON object",
    "dict_type": "a JSON object",
}
LIMITS = {"greater_than_equal": ("at least", "ge"), "less_than_equal": ("at most", "le")}


def describe_field_errors(errors: Sequence[JsonObject]) -> tuple[str, str]:
    """Return one sentence for each error, without repetitions, and what to do."""
    known = (_package_error(error) for error in errors)
    hints = [error.hint for error in known if error is not None and error.hint]
    message = " ".join(dict.fromkeys(_describe(error) for error in errors))
    return message, hints[0] if len(errors) == len(hints) == 1 else DESCRIPTION


def _package_error(error: JsonObject) -> FitError | None:
    """Return the error of a check of this package, which has a message and a hint."""
    raised = error.get("ctx", {}).get("error")
    return raised if isinstance(raised, FitError) else None


def _describe(error: JsonObject) -> str:
    kind, details = error["type"], error.get("ctx", {})
    if kind == "json_invalid":  # its location is a position, not a field
        return "The body is not valid JSON."
    source, *path = error["loc"]
    name = ".".join(str(part) for part in path)[:LONGEST_NAME]
    if kind == "extra_forbidden":
        return f"There is no field {name!r}."
    subject = _subject(str(source), name)
    if kind == "missing":
        return f"{subject} is missing."
    if kind in KINDS:
        return f"{subject} has to be {KINDS[kind]}."
    if kind in LIMITS:
        words, limit = LIMITS[kind]
        return f"{subject} has to be {words} {details[limit]:,}."
    if kind == "string_too_long":
        return f"{subject} has more than {details['max_length']} characters."
    if (raised := _package_error(error)) is not None:
        return raised.message
    return f"{subject} is not valid: {error['msg']}."


def _subject(source: str, name: str) -> str:
    if not name:
        return "The body"
    return f"The {NOUNS[source]} {name!r}"
