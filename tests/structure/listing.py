"""Lists of what is in a model, written by hand from the model's source or its paper, and the models that have one."""

from __future__ import annotations

from dataclasses import dataclass, field

import timm
import torch
import torchvision

from initbench import Attention


def within(block, names):
    """Return names, parted by spaces, of what is in a block."""
    return tuple(f"{block}.{name}" if block else name for name in names.split())


@dataclass
class Listing:
    """What is in a model; names of layers are given as a text, within a block.

    Attributes:
        order: the layers in the order in which they run.
        branches: block, inner layers, ends, gates and the shortcut's layers of each residual branch.
        attention: in the order in which they run.
        heads: the layers that give the output.
    """

    order: list[str] = field(default_factory=list)
    branches: list[tuple] = field(default_factory=list)
    attention: list[Attention] = field(default_factory=list)
    heads: tuple[str, ...] = ()

    def layers(self, names, block=""):
        self.order += within(block, names)

    def branch(self, block, inner, ends, gate="", shortcut=""):
        self.branches.append((block, *(within(block, names) for names in (inner, ends, gate, shortcut))))

    def attend(self, module, projections="qkv", output="proj"):
        """Add an attention; one projection is that of queries, keys and values, three are one each."""
        names = within(module, projections)
        query, key, value = names if len(names) == 3 else names * 3
        self.attention.append(Attention(module, (query,), (key,), (value,), within(module, output)))

    def head(self, *names):
        self.order += names
        self.heads = names


LISTED = {}
"""Name of a model → its lists, a function that builds it, and its inputs; filled by `listed`."""


def listed(name, size=64, make=None, inputs=None, **options):
    """Enter a model, with a function that fills its lists.

    Args:
        name: in timm, or after the library's name.
        size: of its images.
        make: builds it, where its name and options do not.
        inputs: what it takes, in place of images.
        options: its arguments.
    """

    def build():
        if make is not None:
            return make()
        library, _, model = name.rpartition("/")
        if library == "torchvision":
            return torchvision.models.get_model(model, **options)
        return timm.create_model(model, **options)

    def enter(fill):
        listing = Listing()
        fill(listing)
        LISTED[name] = listing, build, inputs or (lambda: torch.zeros(1, 3, size, size))
        return fill

    return enter


def blocks(pattern, depths):
    """Return for each block of each stage its name, the stage's number and its own, counted from 0."""
    return [(pattern.format(s=s, i=i), s, i) for s, depth in enumerate(depths) for i in range(depth)]
