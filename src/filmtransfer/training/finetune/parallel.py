"""Data-parallel fine-tuning: each process computes its share of the images, and all take the same step.

torch's own launcher starts the processes (``torchrun --nproc-per-node 4 -m filmtransfer train …``), one per GPU or
per CPU socket. In a step they exchange the support features, their gradient, and the gradient of ψ and e, but no
activations of images.
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
    """The rank of this process among the processes of a run."""

    rank: int = 0
    size: int = 1

    @classmethod
    def current(cls) -> World:
        """Return the process group of torch, or this process alone."""
        if dist.is_available() and dist.is_initialized():
            return cls(dist.get_rank(), dist.get_world_size())
        return cls()

    def share(self, count: int) -> slice:
        """Return the slice of ``count`` items that this process computes; sizes differ by at most one."""
        return slice(count * self.rank // self.size, count * (self.rank + 1) // self.size)

    def add(self, tensor: Tensor) -> Tensor:
        """Sum over all processes, in place; the result is the same in each, bit for bit."""
        if self.size > 1:
            dist.all_reduce(tensor)
        return tensor

    def join(self, own: Tensor, rows: int) -> Tensor:
        """Return all rows, of which each process has its share."""
        if self.size == 1:
            return own
        joined = own.new_zeros(rows, *own.shape[1:])
        joined[self.share(rows)] = own
        return self.add(joined)

    def add_gradients(self, parameters: Sequence[nn.Parameter]) -> None:
        """Sum the gradients over all processes, in one message."""
        if self.size == 1:
            return
        gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]
        summed = self.add(torch.cat([g.flatten() for g in gradients]))
        for parameter, part in zip(parameters, summed.split([p.numel() for p in parameters]), strict=True):
            parameter.grad = part.view_as(parameter).clone()

    def any(self, mine: bool) -> bool:
        """Tell whether a condition holds in any process, so that all act on it together."""
        return bool(mine) if self.size == 1 else float(self.add(torch.tensor([float(mine)]))) > 0


@contextmanager
def between_steps(world: World) -> Iterator[Callable[[], None]]:
    """With several processes, let Ctrl-C in any of them end all of them between two steps.

    A process that ended in the middle of a step would leave the others waiting for it. Yields a function to call
    after each step, which raises the KeyboardInterrupt. A single process is interrupted at once.
    """
    if world.size == 1 or threading.current_thread() is not threading.main_thread():
        yield lambda: None
        return
    requested = False

    def request(*_: object) -> None:
        nonlocal requested
        requested = True

    def check() -> None:
        if world.any(requested):
            raise KeyboardInterrupt

    previous = signal.signal(signal.SIGINT, request)
    try:
        yield check
    finally:
        signal.signal(signal.SIGINT, previous)


def backends() -> str:
    """Return torch's communication backends: gloo for the CPU, NCCL for GPUs."""
    return "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"


@contextmanager
def launched() -> Iterator[World]:
    """Join the process group that torchrun describes in the environment; without one, this process is alone."""
    if int(os.environ.get("WORLD_SIZE", "1")) < 2:
        yield World()
        return
    # torch.compile and other parts of torch import this when they are first used. Imported while a process group exists,
    # it keeps a reference to the group; the group's threads then outlive destroy_process_group, and abort the
    # interpreter when it ends.
    import torch._dynamo  # noqa: F401

    dist.init_process_group(backends())
    try:
        yield World.current()
    finally:
        dist.destroy_process_group()


def local_rank() -> int:
    """Return the rank of this process on its machine, which is also the index of its GPU."""
    return int(os.environ.get("LOCAL_RANK", "0"))


def local_size() -> int:
    """Return how many processes of the run share this machine."""
    return max(int(os.environ.get("LOCAL_WORLD_SIZE", "1")), 1)
