"""The files of a version that can be downloaded: their names and media types."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from .make_download import DownloadKind

FileKind = Literal["file"] | DownloadKind  # the update file itself, or a file that is made of it


@dataclass(frozen=True)
class DownloadType:
    """The end of the name, and the media type of a file."""

    suffix: str
    media_type: str

    def file_name(self, number: int) -> str:
        """Return the name of the file of a version."""
        return f"classifier-{number}{self.suffix}"


TYPES: dict[FileKind, DownloadType] = {
    "file": DownloadType(".safetensors", "application/octet-stream"),
    "onnx": DownloadType(".onnx", "application/octet-stream"),
    "web": DownloadType("-web.zip", "application/zip"),
    "report": DownloadType("-report.html", "text/html; charset=utf-8"),
}


def file_names(number: int) -> dict[FileKind, str]:
    """Return the names of all files of a version."""
    return {kind: type.file_name(number) for kind, type in TYPES.items()}
