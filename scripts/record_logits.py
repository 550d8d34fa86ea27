"""Record the logits of the published weights for a few photographs.

    python -m scripts.record_logits

Run once, with weights whose top-1 classes were checked by hand; the test then compares all later results
with the recorded ones.
"""

from __future__ import annotations

import json

from tests.backbones.test_weights import RECORDED, logits_of


def main() -> None:
    content = {}
    for name in ("efficientnet_lite0", "efficientnet_lite1", "efficientnet_lite2"):
        content[name] = {
            photo: {
                "top": (top := logits.argsort()[::-1][:3].tolist()),
                "logits": [round(float(logits[i]), 4) for i in top],
            }
            for photo, logits in logits_of(name).items()
        }
        print(name, {photo: rows["top"] for photo, rows in content[name].items()})
    RECORDED.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
