"""The processes of a run: how they find each other, and the share of the model that each of them holds."""

from __future__ import annotations

import atexit
import copy
import os
import time
import warnings
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from minibert.pretrained import PreTrainedModel

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
        self.model, self.sharded, self.is_first = model, sharded, processes.rank == 0
        self.forward: nn.Module = model
        if sharded:
            # here, because they are slow to import
            from torch.distributed.device_mesh import init_device_mesh
            from torch.distributed.fsdp import fully_shard

            if processes.size == 1:
                raise ValueError(
                    "Shards need several processes: start this with torchrun --nproc-per-node 2 or more."
                )
            if processes.device.type == "cpu" and torch.__version__ < "2.7":
                raise ValueError(
                    f"Shards on a CPU need torch 2.7 or newer, not {torch.__version__}."
                )
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

    def exchanging(self, wanted: bool) -> AbstractContextManager[None]:
        """Processes exchange gradients once a step, however many forwards each of them makes."""
        model: Any = self.model
        if self.sharded:
            model.set_requires_gradient_sync(wanted)
        parallel = self.forward
        return (
            parallel.no_sync()
            if isinstance(parallel, DistributedDataParallel) and not wanted
            else nullcontext()
        )

    def clip_gradients(self, max_norm: float) -> float:
        """Scales the gradients down to this norm; returns what it was."""
        norm: Any = nn.utils.clip_grad_norm_(self.model.parameters(), max_norm)
        return float(norm.full_tensor() if self.sharded else norm)

    def state(self, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
        """Weights and the optimiser's state, whole for any number of processes to go on; the first one gets them."""
        names: dict[Tensor, str] = {
            parameter: name for name, parameter in self.model.named_parameters()
        }
        moments = {
            names[p]: {key: self._whole(x) for key, x in own.items()}
            for p, own in optimizer.state.items()
        }
        return {"model": self._weights(), "optimizer": {"state": moments}}

    def load(self, state: dict[str, Any], optimizer: torch.optim.Optimizer) -> None:
        """Takes up what `state` gave."""
        own = self.model.state_dict(keep_vars=True)
        self.model.load_state_dict(
            {name: _share(x, own.get(name, x)) for name, x in state["model"].items()}
        )
        for name, moments in state.get("optimizer", {"state": {}})["state"].items():
            optimizer.state[own[name]] = {key: _share(x, own[name]) for key, x in moments.items()}

    def whole(self) -> PreTrainedModel:
        """The model with all of its weights, which can be saved; every process asks, the first one gets it."""
        if not self.sharded:
            return self.model
        weights = self._weights()
        if self.is_first:
            self._empty.load_state_dict(weights, assign=True)
            self._empty.tie_weights()
        return self._empty

    def _weights(self) -> dict[str, Tensor]:
        aliases, own = (
            self.model.tied_weights(),
            self.model.state_dict(keep_vars=True),
        )  # without copies of aliases
        weights = {name: self._whole(x) for name, x in own.items() if name not in aliases}
        return weights | {alias: weights[name] for alias, name in aliases.items()}

    def _whole(self, x: Any) -> Any:
        whole = x.detach().full_tensor() if hasattr(x, "full_tensor") else x.detach()
        return whole.cpu() if self.is_first else None


def _share(whole: Tensor, like: Any) -> Tensor:
    """What this process holds of a tensor where it holds its share of `like`; a single number is held by all."""
    if whole.dim() and whole.shape != like.shape:
        raise ValueError(f"a tensor is {tuple(whole.shape)}, not {tuple(like.shape)}")
    whole = whole.to(like.device)
    if whole.dim() == 0 or not hasattr(like, "full_tensor"):
        return whole
    from torch.distributed.tensor import distribute_tensor

    return distribute_tensor(whole, like.device_mesh, like.placements)
