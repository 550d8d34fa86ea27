"""Several processes on one task: each computes its share of the images, and all take the same step.

torch's own launcher starts them (``torchrun --nproc-per-node 4 -m filmtransfer train …``), one per GPU, or
per CPU socket. What crosses between them in a step is the support features, their gradient, and the gradient
of ψ and e: the images' activations never do.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor, nn


@dataclass(frozen=True)
class World:
    """Which of how many processes this is."""

    rank: int = 0
    size: int = 1

    @classmethod
    def current(cls) -> World:
        """The processes torch was told of, or this one alone."""
        if dist.is_available() and dist.is_initialized():
            return cls(dist.get_rank(), dist.get_world_size())
        return cls()

    def share(self, count: int) -> slice:
        """Which of ``count`` things are this process's: consecutive ones, as many as the others' or one more."""
        return slice(count * self.rank // self.size, count * (self.rank + 1) // self.size)

    def add(self, tensor: Tensor) -> Tensor:
        """The sum over all processes, in place; bit for bit the same in each."""
        if self.size > 1:
            dist.all_reduce(tensor)
        return tensor

    def join(self, own: Tensor, rows: int) -> Tensor:
        """All rows, of which each process has its share."""
        if self.size == 1:
            return own
        everyone = own.new_zeros(rows, *own.shape[1:])
        everyone[self.share(rows)] = own
        return self.add(everyone)

    def add_gradients(self, learned: Sequence[nn.Parameter]) -> None:
        """Sum what every process has found of the gradient, in one message."""
        if self.size == 1:
            return
        gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in learned]
        summed = self.add(torch.cat([g.flatten() for g in gradients]))
        for parameter, part in zip(learned, summed.split([p.numel() for p in learned]), strict=True):
            parameter.grad = part.view_as(parameter).clone()

    def any(self, mine: bool) -> bool:
        """Whether it is so in any process: what one decides by its clock, all have to do."""
        return bool(mine) if self.size == 1 else float(self.add(torch.tensor([float(mine)]))) > 0


@contextmanager
def between_steps(world: World) -> Iterator[Callable[[], None]]:
    """With several processes, let Ctrl-C in any of them end all of them between two steps.

    One that left in the middle of a step would leave the others waiting for it. What is yielded is called
    after each step, and raises the KeyboardInterrupt. A single process is interrupted where it is.
    """
    if world.size == 1 or threading.current_thread() is not threading.main_thread():
        yield lambda: None
        return
    wished = False

    def note(*_: object) -> None:
        nonlocal wished
        wished = True

    def check() -> None:
        if world.any(wished):
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, note)
    try:
        yield check
    finally:
        signal.signal(signal.SIGINT, before)


def backends() -> str:
    """gloo for what is on the CPU, NCCL for what is on GPUs."""
    return "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"


@contextmanager
def launched() -> Iterator[World]:
    """The world that torchrun describes in the environment; this process alone if there is none."""
    if int(os.environ.get("WORLD_SIZE", "1")) < 2:
        yield World()
        return
    dist.init_process_group(backends())
    try:
        yield World.current()
    finally:
        dist.destroy_process_group()


def local_rank() -> int:
    """The number of this process on its machine, which is also that of its GPU."""
    return int(os.environ.get("LOCAL_RANK", "0"))


def local_size() -> int:
    """How many processes share this machine."""
    return max(int(os.environ.get("LOCAL_WORLD_SIZE", "1")), 1)
