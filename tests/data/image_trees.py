"""Trees of images that tests make: every mode, several sizes, and ways to spoil them."""

from __future__ import annotations

import builtins
import errno
import io
import os

import numpy as np
from PIL import Image

MODES = ("RGB", "L", "RGBA", "P", "CMYK", "1", "LA")
SIZES = ((21, 16), (16, 16), (17, 30), (40, 19))
"""Width and height; the shorter side is at least 16."""


def picture(seed, mode="RGB", size=(16, 16), kind="PNG"):
    """Return the bytes of an image of smooth noise."""
    random = np.random.default_rng(seed)
    coarse = Image.fromarray(random.integers(0, 256, (4, 5, 3), dtype=np.uint8))
    image = coarse.resize(size, Image.Resampling.BICUBIC).convert(mode)
    file = io.BytesIO()
    image.save(file, kind)
    return file.getvalue()


def kind_of(mode):
    """Return a format that has a mode, and its ending."""
    return ("JPEG", ".JPEG") if mode in {"CMYK", "L"} else ("PNG", ".png")


def make_tree(root, classes=("ant", "bee"), train=10, test=6, held_out="test"):
    """Write a tree of images of all modes and sizes and return its root."""
    for number, label in enumerate(classes):
        for split, count in (("train", train), (held_out, test)):
            for i in range(count):
                mode, size = MODES[i % len(MODES)], SIZES[(i + number) % len(SIZES)]
                kind, ending = kind_of(mode)
                path = root / split / label / f"{i}{ending}"
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(picture(1000 * number + 100 * len(split) + i, mode, size, kind))
    return root


def forbid(monkeypatch, *paths):
    """Let files be opened by nobody; where the tests run as root, who may read everything, in this process alone."""
    if hasattr(os, "geteuid") and os.geteuid() != 0:
        for path in paths:
            path.chmod(0)
        return
    forbidden, really = {str(path) for path in paths}, io.open

    def guarded(file, *arguments, **options):
        if str(file) in forbidden:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(file))
        return really(file, *arguments, **options)

    for module in (io, builtins):  # pathlib has one, and all else the other
        monkeypatch.setattr(module, "open", guarded)
