"""Make the graph of a backbone, compare it with torch, and keep it.

    python -m filmtransfer.runtime.prepare --backbone NAME [--weights FILE] --size S --film-from K

The last line of the output is the name of the file in the cache.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace

from ..backbones import Backbone, load_backbone
from ..data.pixels import PixelSpec
from ..errors import FitError, UnavailableError
from ..model.hardware import choose_threads
from ..processes import terminate_with_parent
from .cache import find, graph_folder, store
from .facts import GraphKey
from .graph import build_graph
from .parity import check_features
from .session import FeatureSession


def prepare_graph(
    backbone: Backbone, spec: PixelSpec, film_from: int | None, threads: int = 1
) -> FeatureSession:
    """Return the graph of a backbone: the stored one, or a new one that agrees with torch and is then stored."""
    key = GraphKey.of(backbone.name, backbone.digest, spec, film_from)
    session = find(key, threads)
    if session is None:
        content = build_graph(backbone, spec, film_from)
        session = FeatureSession(content, threads)
        check_features(session, backbone, spec)
        store(key, content)
    return session


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code."""
    parser = argparse.ArgumentParser(
        prog=f"python -m {__spec__.name}" if __spec__ else None,
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--backbone", required=True)
    parser.add_argument("--weights")
    parser.add_argument("--size", type=int, required=True)
    parser.add_argument("--film-from", type=_stage, required=True, help="first stage with FiLM, or none")
    parser.add_argument("--threads", type=int, help="of torch; by default all cores")
    parser.add_argument("--end-with-parent", action="store_true", help="end when standard input is closed")
    args = parser.parse_args(argv)
    if args.end_with_parent:
        terminate_with_parent()
    try:
        choose_threads(args.threads)
        backbone = load_backbone(args.backbone, args.weights)
        spec = replace(backbone.pixels, size=backbone.fit_size(args.size))
        session = prepare_graph(backbone, spec, args.film_from)
    except FitError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    name = session.facts.key.file_name
    if not (graph_folder() / name).is_file():
        print(f"The graph could not be written to {graph_folder()}.", file=sys.stderr)
        return UnavailableError.exit_code
    print(name)
    return 0


def _stage(text: str) -> int | None:
    return None if text == "none" else int(text)


if __name__ == "__main__":
    sys.exit(main())
