"""Networks that several trials start from: initialized once, kept beside the ledger while a trial is left to use them.

What a tuner has done need not be done again for each learning rate. Trials share a network where they differ in nothing
that initialization reads: in the recipe but for its threads, and its optimizer and learning rate where the initializer
declares that it reads them; in the probes. Whether it is shared changes no number, since initialization gives back all
random state (`initbench.initialize`). Each trial is charged what the initialization took.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from initbench.execution.environment import DECISIVE, environment
from initbench.registry import reads_optimizer
from initbench.suite.spec import digest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from torch import nn

    from initbench.suite.spec import TrialSpec

FOLDER = "networks"
# What takes less than this is as soon done anew as read.
_WORTH_KEEPING_SECONDS = 0.1


class Initialization(NamedTuple):
    """What is kept of an initialization beside the network.

    Attributes:
        record: as a trial's record has it, plain data.
        seconds: that it took.
    """

    record: dict[str, Any]
    seconds: float


@dataclass(frozen=True)
class SharedNetworks:
    """The networks that trials of a suite share, as a worker sees them.

    Attributes:
        folder: where they are; made when the first is kept.
        names: trial id → its network's name, of trials that share one.
        most_bytes: what all networks together may take.
    """

    folder: Path
    names: Mapping[str, str] = field(repr=False)
    most_bytes: float

    def of(self, spec: TrialSpec) -> SharedNetworks:
        """Return the same for one trial alone, which is less to send to its process."""
        return replace(self, names={spec.id: self.names[spec.id]} if spec.id in self.names else {})

    def load(self, spec: TrialSpec, model: nn.Module, device: torch.device) -> Initialization | None:
        """Give a model the parameters and buffers of a trial's network.

        Args:
            spec: the trial.
            model: as it was built.
            device: that the network is initialized on.

        Returns:
            What is known of it; None where the network is not there or is not that of this model, which is left as it
            is then.
        """
        path = self._path(spec, device)
        if path is None or not path.exists():
            return None
        try:
            kept = torch.load(path, map_location="cpu", weights_only=True)
            found = Initialization(json.loads(kept["record"]), float(kept["seconds"]))
            own = _tensors(model)
            if {name: tensor.shape for name, tensor in kept["tensors"].items()} != {n: t.shape for n, t in own.items()}:
                return None
        except Exception:  # noqa: BLE001  # a file may hold anything; what it should hold is made anew
            return None
        with torch.no_grad():
            for name, tensor in own.items():
                tensor.copy_(kept["tensors"][name])
        return found

    def keep(self, spec: TrialSpec, model: nn.Module, device: torch.device, done: Initialization) -> None:
        """Keep a trial's network for the others that share it, where there is room; that there is none is no failure.

        Args:
            spec: the trial.
            model: just initialized.
            device: that it is on.
            done: what is known of the initialization.
        """
        path = self._path(spec, device)
        if path is None or done.seconds < _WORTH_KEEPING_SECONDS:
            return
        tensors = {name: tensor.detach().cpu() for name, tensor in _tensors(model).items()}
        size = sum(tensor.nbytes for tensor in tensors.values())
        part = path.with_suffix(f".{os.getpid()}.part")
        try:
            self.folder.mkdir(exist_ok=True)
            if size + sum(other.stat().st_size for other in self.folder.iterdir()) > self.most_bytes:
                return
            with part.open("wb") as file:
                torch.save({"tensors": tensors, "record": json.dumps(done.record), "seconds": done.seconds}, file)
                file.flush()
                os.fsync(file.fileno())
            part.rename(path)
        except (OSError, RuntimeError):  # PyTorch says RuntimeError of a full disk
            with suppress(OSError):
                part.unlink(missing_ok=True)

    def _path(self, spec: TrialSpec, device: torch.device) -> Path | None:
        name = self.names.get(spec.id)
        if name is None:
            return None
        found = environment(device.type)
        return self.folder / f"{name}.{digest({key: found[key] for key in DECISIVE})[:16]}.pt"


class NetworkKeeper:
    """The driver's side: which trials share a network, and which networks nobody needs any more.

    Args:
        folder: the suite's folder.
        trials: that run.
        most_bytes: what all networks together may take.
    """

    def __init__(self, folder: Path, trials: Iterable[TrialSpec], most_bytes: float) -> None:
        place = (folder / FOLDER).absolute()
        names = {trial.id: network_name(trial) for trial in trials}
        self.left = Counter(names.values())
        there = {path.name.partition(".")[0] for path in place.glob("*.pt")}  # of a run that was interrupted
        shared = {i: name for i, name in names.items() if self.left[name] > 1 or name in there} if most_bytes else {}
        self.networks = SharedNetworks(place, shared, most_bytes)
        self.saved_seconds = 0.0
        self.saved = 0
        self._remove_all_but(set(shared.values()))

    def finished(self, trial_id: str, timing: Mapping[str, Any]) -> None:
        """Take in that a trial has ended; a network that it was the last to need is removed."""
        self.saved_seconds += timing.get("initialization_saved_seconds", 0.0)
        self.saved += "initialization_saved_seconds" in timing
        name = self.networks.names.get(trial_id)
        if name is not None:
            self.left[name] -= 1
            if not self.left[name]:
                _remove(self.networks.folder.glob(f"{name}.*"))

    def close(self) -> None:
        """Remove the folder where it is empty."""
        with suppress(OSError):
            self.networks.folder.rmdir()

    def _remove_all_but(self, names: set[str]) -> None:
        if self.networks.folder.is_dir():
            _remove(path for path in self.networks.folder.iterdir() if path.name.partition(".")[0] not in names)


def network_name(spec: TrialSpec) -> str:
    """Return a hash of all of a trial that its initialization reads; the device and the versions come to it.

    It is the identity without probes and recipe, with the threads, and with the optimizer and its learning rate where
    the initializer, or one that it starts from, declares that it reads them.
    """
    read = {key: value for key, value in spec.identity.items() if key not in {"probes", "recipe"}}
    reads = reads_optimizer(spec.initializer.name, spec.initializer.arguments)
    optimizer = [spec.recipe.optimizer, spec.recipe.lr] if reads else []
    return digest(read | {"threads": spec.recipe.threads, "optimizer": optimizer})


def _tensors(model: nn.Module) -> dict[str, torch.Tensor]:
    return {**dict(model.named_parameters()), **dict(model.named_buffers())}


def _remove(paths: Iterable[Path]) -> None:
    for path in list(paths):
        with suppress(OSError):
            path.unlink(missing_ok=True)
