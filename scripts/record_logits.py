"""Record the class scores that the published weights give for a few real photographs.

    python -m scripts.record_logits

Run once with a loading that was checked by hand (top-1 classes that a person accepts); the test then
holds every later loading to these numbers.
"""

from __future__ import annotations

import json

from tests.backbones.test_catalogue import RECORDED, scores


def main() -> None:
    content = {}
    for name in ("efficientnet_lite0", "efficientnet_lite1", "efficientnet_lite2"):
        content[name] = {
            photo: {
                "top": (top := logits.argsort()[::-1][:3].tolist()),
                "logits": [round(float(logits[i]), 4) for i in top],
            }
            for photo, logits in scores(name).items()
        }
        print(name, {photo: rows["top"] for photo, rows in content[name].items()})
    RECORDED.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
