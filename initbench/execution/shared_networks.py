"""Networks that several trials start from: initialized once, and kept beside the ledger while trials need them.

So a tuner need not run again for each learning rate. Trials share a network if they differ only in values that
initialization does not read: probes, and the recipe except for its threads and, if the initializer declares that it
reads them, its optimizer and learning rate. Sharing changes no number, because initialization restores all random state
(`initbench.initialize`). Each trial is charged the time of the initialization.
"""

import json
import os
import re
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, Self

import torch
from torch import nn

from initbench.execution.checkpoints import check_network
from initbench.execution.environment import DECISIVE, environment
from initbench.execution.marked_folder import MarkedFolder, files_named
from initbench.files import check_readable
from initbench.registry import reads_optimizer
from initbench.suite.spec import TrialSpec, digest
from initbench.training.checkpoint import kind_of

FOLDER = "networks"
# The network's name, the environment's hash and, while it is being written, the writer's process id.
_FILE = re.compile(r"([0-9a-f]{64})\.[0-9a-f]{16}\.(?:pt|[0-9]+\.part)")
# A shorter initialization is repeated as fast as its network is read.
_WORTH_KEEPING_SECONDS = 0.1


class Initialization(NamedTuple):
    """The data stored beside a network: the initialization's record as plain data, and its duration."""

    record: dict[str, Any]
    seconds: float


@dataclass(frozen=True)
class SharedNetworks:
    """The networks that trials of a suite share, in a worker; a worker that does not see the folder has none."""

    folder: MarkedFolder
    names: Mapping[str, str] = field(repr=False)  # trial id → its network's name, for trials that share one
    most_bytes: float  # all networks together

    def of(self, spec: TrialSpec) -> Self:
        """Return the same for one trial alone, which is less data to send."""
        return replace(self, names={spec.id: self.names[spec.id]} if spec.id in self.names else {})

    def load(self, spec: TrialSpec, model: nn.Module, device: torch.device) -> Initialization | None:
        """Give a model the parameters and buffers of a trial's network, and return its `Initialization`.

        Return None and leave the model unchanged if the network is absent or does not fit the model.
        """
        path = self._path(spec, device)
        if path is None:
            return None
        try:
            check_readable(path, sys.maxsize)
            kept = torch.load(path, map_location="cpu", weights_only=True)
            known = Initialization(json.loads(kept["record"]), kept["seconds"])
            check_network(known.record, known.seconds)
            tensors = _tensors(model)
            kinds = {name: kind_of(tensor) for name, tensor in kept["tensors"].items()}
            if kinds != {name: kind_of(tensor) for name, tensor in tensors.items()}:
                return None
        except Exception:  # noqa: BLE001  # a file may hold anything; what it should hold is made anew
            return None
        with torch.no_grad():
            for name, tensor in tensors.items():
                tensor.copy_(kept["tensors"][name])
        return known

    def keep(self, spec: TrialSpec, model: nn.Module, device: torch.device, done: Initialization) -> None:
        """Store a trial's network for the others that share it, if there is room; no room is not a failure."""
        path = self._path(spec, device)
        if path is None or done.seconds < _WORTH_KEEPING_SECONDS:
            return
        tensors = {name: tensor.detach().cpu() for name, tensor in _tensors(model).items()}
        size = sum(tensor.nbytes for tensor in tensors.values())
        part = path.with_suffix(f".{os.getpid()}.part")
        try:
            if size + sum(other.lstat().st_size for other in files_named(self.folder.path, _FILE)) > self.most_bytes:
                return
            part.unlink(missing_ok=True)  # it may be a link
            with part.open("xb") as file:
                torch.save({"tensors": tensors, "record": json.dumps(done.record), "seconds": done.seconds}, file)
                file.flush()
                os.fsync(file.fileno())
            part.rename(path)
        except (OSError, RuntimeError):  # PyTorch raises a RuntimeError for a full disk
            with suppress(OSError):
                part.unlink(missing_ok=True)

    def _path(self, spec: TrialSpec, device: torch.device) -> Path | None:
        name = self.names.get(spec.id)
        if name is None or not self.folder.is_there():
            return None
        here = environment(str(device))
        decisive = {key: here[key] for key in DECISIVE if key in here}
        return self.folder.path / f"{name}.{digest(decisive)[:16]}.pt"


class NetworkKeeper:
    """The driver's side: which trials share a network, and which networks are no longer needed.

    `problem` says in one line why no networks are shared although trials could; else it is None.
    """

    def __init__(self, folder: Path, trials: Iterable[TrialSpec], most_bytes: float) -> None:
        marked = MarkedFolder.at((folder / FOLDER).absolute())
        names = {trial.id: network_name(trial) for trial in trials}
        self.left = Counter(names.values())
        self.problem: str | None = None
        there = {_network(path) for path in _files(marked)}  # left by an interrupted run
        shared = {i: name for i, name in names.items() if self.left[name] > 1 or name in there} if most_bytes else {}
        if shared:
            try:
                marked.make()
            except OSError as error:
                self.problem = f"networks: {marked.path}: {error.strerror}; each trial initializes its own network"
                shared = {}
        self.networks = SharedNetworks(marked, shared, most_bytes)
        self.saved_seconds = 0.0
        self.saved = 0
        self._remove(there - set(shared.values()))

    def finished(self, trial_id: str, timing: Mapping[str, Any]) -> None:
        self.saved_seconds += timing.get("initialization_saved_seconds", 0.0)
        self.saved += "initialization_saved_seconds" in timing
        name = self.networks.names.get(trial_id)
        if name is not None:
            self.left[name] -= 1
            if not self.left[name]:
                self._remove({name})

    def close(self) -> None:
        self.networks.folder.remove_if_empty()

    def _remove(self, names: set[str]) -> None:
        for path in _files(self.networks.folder):
            if _network(path) in names:
                with suppress(OSError):
                    path.unlink(missing_ok=True)


def network_name(spec: TrialSpec) -> str:
    """Return a hash of all parts of a trial that its initialization reads; device and versions are added elsewhere.

    It is the identity without probes and recipe, with the threads and `deterministic`, and with the optimizer and its
    learning rate if the initializer, or its base, declares that it reads them.
    """
    read = {key: value for key, value in spec.identity.items() if key not in {"probes", "recipe"}}
    reads = reads_optimizer(spec.initializer.name, spec.initializer.arguments)
    optimizer = [spec.recipe.optimizer, spec.recipe.lr] if reads else []
    kernels = {"deterministic": True} if spec.recipe.deterministic else {}
    return digest(read | {"threads": spec.recipe.threads, "optimizer": optimizer} | kernels)


def _tensors(model: nn.Module) -> dict[str, torch.Tensor]:
    return {**dict(model.named_parameters()), **dict(model.named_buffers())}


def _files(folder: MarkedFolder) -> list[Path]:
    return files_named(folder.path, _FILE) if folder.is_there() else []


def _network(path: Path) -> str:
    return path.name.partition(".")[0]
