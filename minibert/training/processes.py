"""Connect the processes of a run, and exchange gradients (data parallelism)."""

from __future__ import annotations

import atexit
import os
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from minibert.util.devices import default_training_device
from minibert.util.progress import place


def is_first_process() -> bool:
    """Whether this is the process that prints and writes. Without torchrun it is the only one."""
    return place().rank == 0


@dataclass(frozen=True)
class Processes:
    """The processes that train together, as `torchrun` started them. Without it, one process."""

    rank: int = 0
    size: int = 1
    device: torch.device = torch.device("cpu")

    @classmethod
    def join(cls, device_name: str | None = None) -> Processes:
        """Joins the process group: nccl with GPUs, else gloo.

        Args:
            device_name: The device to train on. None or "cuda" is this process's GPU. Without one,
                None is the CPU.
        """
        rank, size = place()
        name = device_name or default_training_device()
        if name == "cuda":
            name = f"cuda:{os.environ.get('LOCAL_RANK', 0)}"
        device = torch.device(name)
        gpu = device.type == "cuda"
        if gpu:
            torch.cuda.set_device(device)
        if size > 1 and not dist.is_initialized():
            from torch.distributed.distributed_c10d import PrefixStore
            from torch.distributed.rendezvous import rendezvous

            store, rank, size = next(iter(rendezvous("env://")))
            if os.environ.get("LOCAL_WORLD_SIZE") == str(size):
                # when torchrun starts them again, its store still has the addresses of those that
                # were killed
                store = PrefixStore(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"), store)
            dist.init_process_group(
                "nccl" if gpu else "gloo", store=store, rank=rank, world_size=size
            )
            # After an exchange, threads of gloo still have to release their tensors, for which they
            # need Python's lock. A process that ends before that is aborted. Destroying the group
            # waits for these threads.
            atexit.register(dist.destroy_process_group)
        return cls(rank, size, device)

    def gather(self, value: Any) -> list[Any]:
        """Collects a value from every process, in the order of their ranks."""
        values = [value] * self.size
        if self.size > 1:
            dist.all_gather_object(values, value)
        return values

    def broadcast(self, model: nn.Module) -> None:
        """Gives every process the weights of the first one."""
        if self.size > 1:
            for parameter in model.parameters():
                dist.broadcast(parameter.data, src=0)

    def sum(self, values: Tensor) -> Tensor:
        """The sum of the values of all processes."""
        if self.size > 1:
            dist.all_reduce(values)
        return values

    def sum_gradients(self, model: nn.Module) -> None:
        """Sum the gradients over all processes, in a single exchange.

        One tensor holds all of them in a fixed order, so a resumed run has sums with the same bits.
        """
        if self.size == 1:
            return
        gradients = [p.grad for p in model.parameters() if p.grad is not None]
        flat = torch.cat([gradient.flatten() for gradient in gradients])
        dist.all_reduce(flat)
        start = 0
        for gradient in gradients:
            end = start + gradient.numel()
            gradient.copy_(flat[start:end].view_as(gradient))
            start = end
