"""A training worker as a Ray actor."""

from __future__ import annotations

from ..backbones import load_backbone
from ..training.torch_settings import configure_process
from .server import ServerConfig
from .store import Store
from .worker import Worker


class TrainingActor(Worker):
    """A worker as a Ray actor."""

    def __init__(self, config: ServerConfig) -> None:
        configure_process(1)
        backbone = load_backbone(config.backbone, config.weights)
        super().__init__(Store.open(config.location), backbone, lease=config.lease)
