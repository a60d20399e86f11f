"""The processes of a run: how they find each other, and how they exchange gradients."""

from __future__ import annotations

import atexit
import os
import time
import warnings
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from minibert.pretrained import PreTrainedModel

# Seconds. An exchange is over a moment before gloo's own threads let go of its tensors, for which they need Python's
# lock, and a thread that asks for it while Python ends aborts the process (before Python 3.14). So Python waits with
# ending.
_LAST_WORK = 0.5


@dataclass(frozen=True)
class Processes:
    """The processes that train together, as `torchrun` started them; one when it did not."""

    rank: int = 0
    size: int = 1
    device: torch.device = torch.device("cpu")

    @classmethod
    def join(cls) -> Processes:
        """Meets the others: over nccl with GPUs, over gloo without."""
        gpu = torch.cuda.is_available()
        try:
            rank, size = int(os.environ.get("RANK") or 0), int(os.environ.get("WORLD_SIZE") or 1)
        except ValueError:
            raise ValueError(
                "RANK and WORLD_SIZE should be whole numbers, as torchrun sets them."
            ) from None
        device = (
            torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)))
            if gpu
            else torch.device("cpu")
        )
        if gpu:
            torch.cuda.set_device(device)
        if size > 1 and not dist.is_initialized():
            from torch.distributed.distributed_c10d import PrefixStore
            from torch.distributed.rendezvous import rendezvous

            store, rank, size = next(iter(rendezvous("env://")))
            if os.environ.get("LOCAL_WORLD_SIZE") == str(size):
                # when torchrun starts them again, its store still has the addresses of those that were killed
                store = PrefixStore(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"), store)
            dist.init_process_group(
                "nccl" if gpu else "gloo", store=store, rank=rank, world_size=size
            )
            atexit.register(time.sleep, _LAST_WORK)
        return cls(rank, size, device)

    def gather(self, value: Any) -> list[Any]:
        """The value that every process has, by rank."""
        values = [value] * self.size
        if self.size > 1:
            dist.all_gather_object(values, value)
        return values


class Parallel:
    """A model trained by several processes, each of which holds all of it; gradients are averaged (DDP).

    Args:
        model: trained in place, on this process's device.
        processes: all of them start from the same weights.
    """

    def __init__(self, model: PreTrainedModel, processes: Processes) -> None:
        self.model = model
        self.forward: nn.Module = model
        if processes.size > 1:
            # Looking for unused parameters, of which there are none, keeps gradients where they are: otherwise they are
            # laid out anew after the first step, and sums of three or more processes would tell when a run was resumed.
            warnings.filterwarnings("ignore", "find_unused_parameters=True was specified")
            self.forward = DistributedDataParallel(model, find_unused_parameters=True)

    def exchanging(self, wanted: bool) -> AbstractContextManager[None]:
        """Processes exchange gradients once a step, however many forwards each of them makes."""
        if isinstance(self.forward, DistributedDataParallel) and not wanted:
            return self.forward.no_sync()
        return nullcontext()

    def clip_gradients(self, max_norm: float) -> float:
        """Scales the gradients down to this norm; returns what it was."""
        return float(nn.utils.clip_grad_norm_(self.model.parameters(), max_norm))
