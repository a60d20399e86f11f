"""The processes of a run: how they find each other, and the share of the model that each of them holds."""

from __future__ import annotations

import atexit
import copy
import os
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_optimizer_state_dict,
    set_model_state_dict,
    set_optimizer_state_dict,
)
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.distributed_c10d import PrefixStore
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.rendezvous import rendezvous
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel

from minibert.pretrained import PreTrainedModel

# states are saved and loaded whole, so that a run can go on with another number of processes
_WHOLE = StateDictOptions(full_state_dict=True, cpu_offload=True)

# Seconds. An exchange is over a moment before gloo's own threads let go of its tensors, for which they need Python's
# lock, and a thread that asks for it while Python ends aborts the process (before Python 3.14). So Python waits with
# ending. `destroy_process_group` would wait for these threads only if nobody held the group, and FSDP2 holds it.
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
            raise ValueError("RANK and WORLD_SIZE should be whole numbers, as torchrun sets them.") from None
        device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0))) if gpu else torch.device("cpu")
        if gpu:
            torch.cuda.set_device(device)
        if size > 1 and not dist.is_initialized():
            store, rank, size = next(iter(rendezvous("env://")))
            if os.environ.get("LOCAL_WORLD_SIZE") == str(size):
                # when torchrun starts them again, its store still has the addresses of those that were killed
                store = PrefixStore(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"), store)
            dist.init_process_group("nccl" if gpu else "gloo", store=store, rank=rank, world_size=size)
            atexit.register(time.sleep, _LAST_WORK)
        return cls(rank, size, device)

    def gather(self, value: Any) -> list[Any]:
        """The value that every process has, by rank."""
        values = [value] * self.size
        if self.size > 1:
            dist.all_gather_object(values, value)
        return values


class Parallel:
    """A model shared out to processes.

    Args:
        model: trained in place, on this process's device.
        processes: all of them have the same model.
        sharded: each holds only its share of every weight with its gradient and optimiser state, and asks the others
            for a layer when that layer's turn comes (FSDP2): for models that are too large for one device. Otherwise
            each holds everything, and only gradients are exchanged (DDP).

    Raises:
        ValueError: shards for a single process, or on a CPU with torch 2.6.
    """

    def __init__(self, model: PreTrainedModel, processes: Processes, sharded: bool) -> None:
        self.model, self.sharded = model, sharded
        self.forward: nn.Module = model
        if sharded:
            if processes.size == 1:
                raise ValueError("Shards need several processes: start this with torchrun --nproc-per-node 2 or more.")
            if processes.device.type == "cpu" and torch.__version__ < "2.7":
                raise ValueError(f"Shards on a CPU need torch 2.7 or newer, not {torch.__version__}.")
            no_memory = {id(p): nn.Parameter(p.detach().to("meta")) for p in model.parameters()}
            self._empty = copy.deepcopy(model, no_memory)
            mesh = init_device_mesh(processes.device.type, (processes.size,))
            for layer in model.base_model.encoder.layer:
                fully_shard(layer, mesh=mesh)
            fully_shard(model, mesh=mesh)
        elif processes.size > 1:
            # Looking for unused parameters, of which there are none, keeps gradients where they are: otherwise they are
            # laid out anew after the first step, and sums of three or more processes would tell when a run was resumed.
            warnings.filterwarnings("ignore", "find_unused_parameters=True was specified")
            self.forward = DistributedDataParallel(model, find_unused_parameters=True)

    @contextmanager
    def exchanging(self, wanted: bool) -> Iterator[None]:
        """Processes exchange gradients once a step, however many forwards each of them makes."""
        if isinstance(self.model, FSDPModule):
            self.model.set_requires_gradient_sync(wanted)
        parallel = self.forward
        with parallel.no_sync() if isinstance(parallel, DistributedDataParallel) and not wanted else nullcontext():
            yield

    def clip_gradients(self, max_norm: float) -> float:
        """Scales the gradients down to this norm; returns what it was."""
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), max_norm)
        return float(norm.full_tensor() if isinstance(norm, DTensor) else norm)

    def state(self, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
        """All weights and the optimiser's state, on the CPU; every process asks, the first one gets it."""
        weights = get_model_state_dict(self.model, options=_WHOLE)
        weights.update({alias: weights[name] for alias, name in self.model.tied_weights().items() if name in weights})
        state: dict[str, Any] = {"model": weights}  # one tensor under two names is saved once
        if optimizer.state:  # before the first step there is none, and asking for it would make a step
            state["optimizer"] = get_optimizer_state_dict(self.model, optimizer, options=_WHOLE)
        return state

    def load(self, state: dict[str, Any], optimizer: torch.optim.Optimizer) -> None:
        """Takes up what `state` gave."""
        set_model_state_dict(self.model, state["model"], options=_WHOLE)
        if "optimizer" in state:
            set_optimizer_state_dict(self.model, optimizer, state["optimizer"], options=_WHOLE)

    def whole(self) -> PreTrainedModel:
        """The model with all of its weights, which can be saved; every process asks, the first one gets it."""
        if not self.sharded:
            return self.model
        if weights := get_model_state_dict(self.model, options=_WHOLE):
            self._empty.load_state_dict(weights, assign=True)
            self._empty.tie_weights()
        return self._empty
