"""What SkipInit's authors and the appendix of GradInit say of residual networks at initialization."""

from __future__ import annotations

import itertools
from functools import cache

import torch
from law import Confirmation, Finding, held_or_not, judged, law
from measured_nets import digits_batch, slope
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from initbench import create_model, initialize
from initbench.architectures.wrn import Block, WideStyle

SAMPLES, DRAWS = 64, 10


class Stage(nn.Module):
    """A stem, blocks of a wide residual network of width 1 in one stage, and its head.

    `scheme` says what becomes of skip x and branch f: ``branch`` is x + f, ``half`` √½ (x + f) and ``merge`` BN(x + f).
    """

    def __init__(self, blocks: int, norm: str, scheme: str = "branch") -> None:
        super().__init__()
        style = WideStyle(norm=norm, activation="relu", residual=False)
        self.stem = nn.Conv2d(1, 16, 3, padding=1, bias=False)
        self.blocks = nn.ModuleList(Block(16, 16, 1, style) for _ in range(blocks))
        merged = scheme == "merge"
        self.merges = nn.ModuleList(nn.BatchNorm2d(16) if merged else nn.Identity() for _ in range(blocks))
        self.scale = 0.5**0.5 if scheme == "half" else 1.0
        self.norm, self.classifier = nn.BatchNorm2d(16), nn.Linear(16, 10)

    def forward(self, images: Tensor) -> tuple[list[Tensor], list[Tensor], Tensor]:
        """Return the skip path before each block, each branch's output, both as the sum has them, and the logits."""
        x, skips, branches = self.stem(images), [], []
        for block, merge in zip(self.blocks, self.merges, strict=True):
            branch = block(x)
            skips.append(x)
            branches.append(branch)
            x = merge(self.scale * (x + branch))
        return skips, branches, self.classifier(self.norm(x).relu().mean((2, 3)))


def drawn_stage(seed: int, *options) -> Stage:
    """Return a stage in float64 and train mode under a Kaiming start."""
    model = Stage(*options).double()
    initialize(model, "kaiming", seed=seed)
    return model


def spread_indices(first: int, last: int) -> Tensor:
    """Return some thirty numbers of blocks, evenly spread on a logarithmic scale, both ends among them."""
    logs = torch.linspace(torch.tensor(float(first)).log(), torch.tensor(float(last)).log(), 30)
    return logs.exp().round().long().unique()


@cache
def skip_path_profiles(blocks: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return deviations of the skip path and of the branches, and of the gradients through branch over skip path.

    Each is (draws, blocks), for BatchNorm on the branches; the gradient at a block's input is the sum of that through
    its branch and that through the skip path, which is the gradient of the block's output.
    """
    skip, branch, ratio = [], [], []
    for seed in range(DRAWS):
        model = drawn_stage(seed, blocks, "batch")
        images, targets = digits_batch(SAMPLES, seed, torch.float64)
        skips, branches, logits = model(images)
        gradients = torch.autograd.grad(cross_entropy(logits, targets), skips)
        skip.append(torch.stack([x.detach().std() for x in skips]))
        branch.append(torch.stack([x.detach().std() for x in branches]))
        pairs = itertools.pairwise(gradients)
        ratio.append(torch.stack([(before - after).std() / after.std() for before, after in pairs]))
    return torch.stack(skip), torch.stack(branch), torch.stack(ratio)


@law("skipinit-bn-skip-path-grows-as-sqrt-depth", evidence="at initialization", slow=True)
def skip_path_grows() -> Finding:
    """In a net of 500 blocks, whose first ones are those of shallower nets: means over draws of the logarithms.

    Slopes are over blocks that are evenly spread on a logarithmic scale, from the 8th on for the skip path.
    """
    profiles = skip_path_profiles(500)
    skip, branch, ratio = (profile.log().mean(0) for profile in profiles)
    late, after = spread_indices(8, 500), spread_indices(6, 499)
    grows = slope(late.log(), skip[late - 1])
    spread = (branch.max() - branch.min()).exp().item()
    weakens = slope(after.log(), ratio[after - 1])
    single = [slope(late.log(), one.log()[late - 1]) for one in profiles[0]]
    measured = (
        f"skip path's deviation grows as l^{grows:.3f}; branches' deviations within a factor of {spread:.2f}; gradient "
        f"through branch over skip path as l^{weakens:.3f}"
    )
    held = abs(grows - 0.5) <= 0.05 and spread < 2 and abs(weakens + 0.5) <= 0.1
    status = judged(held=held, not_held=abs(grows - 0.5) > 0.15 or weakens > -0.25)
    values = {
        "block_of_skip_path": late.tolist(),
        "deviation_of_skip_path": profiles[0][:, late - 1].tolist(),
        "geometric_mean_over_draws_of_branch_deviation_at_each_block": branch.exp().tolist(),
        "block_of_gradient": after.tolist(),
        "gradient_through_branch_over_skip_path": profiles[2][:, after - 1].tolist(),
    }
    note = "The interval is that of the first over draws."
    return Finding(status, measured, DRAWS, "draws", values, (min(single), max(single)), note)


@law("skipinit-failing-schemes-have-equal-paths", evidence="at initialization", slow=True)
def equal_paths() -> Finding:
    """Slopes and means are those of the mean over draws of the logarithm, over evenly spread blocks of 200."""
    schemes = {
        "BN before the softmax only": ("none", "branch"),
        "sqrt(1/2)": ("batch", "half"),
        "BN after the merge": ("batch", "merge"),
        "BN on the branch": ("batch", "branch"),
    }
    chosen = spread_indices(1, 200)
    slopes, means = {}, {}
    values: dict[str, list] = {"block": chosen.tolist()}
    for name, options in schemes.items():
        logs = []
        for seed in range(DRAWS):
            with torch.no_grad():
                skips, branches, _ = drawn_stage(seed, 200, *options)(digits_batch(SAMPLES, seed, torch.float64)[0])
            logs.append(torch.stack([(b.std() / s.std()).log() for b, s in zip(branches, skips, strict=True)]))
        key = name.lower().replace(" ", "_")
        values[f"log_ratio_for_{key}"] = [one[chosen - 1].tolist() for one in logs]
        values[f"mean_log_ratio_over_all_blocks_for_{key}"] = [one.mean().item() for one in logs]
        profile = torch.stack(logs).mean(0)
        slopes[name], means[name] = slope(chosen.log(), profile[chosen - 1]), profile.mean().exp().item()
    failing = list(schemes)[:3]
    held = all(abs(slopes[name]) <= 0.1 and 0.3 <= means[name] <= 3 for name in failing)
    held = held and abs(slopes["BN on the branch"] + 0.5) <= 0.1
    not_held = any(slopes[name] < -0.3 for name in failing)
    measured = "; ".join(f"{name}: slope {slopes[name]:.3f}, mean {means[name]:.2f}" for name in schemes)
    return Finding(judged(held=held, not_held=not_held), measured, DRAWS, "draws", values)


def opened(model: nn.Module, batch: tuple[Tensor, Tensor]) -> set[str]:
    """Return the names of the tensors that have a gradient other than 0 somewhere, left in their ``grad``."""
    model.zero_grad()
    cross_entropy(model(batch[0]), batch[1]).backward()
    return {name for name, p in model.named_parameters() if bool(p.grad.count_nonzero())}


@law(
    "gradinit-a1-fixup-first-step-moves-classifier-only",
    evidence="identity",
    confirmation=Confirmation("FixUpResNet-32, seed 100", {"depth": 32, "seed": 100}),
)
def fixup_first_step(depth: int = 20, seed: int = 0) -> Finding:
    """Steps of SGD at rate 0.1; "others open" where every tensor has a gradient after three steps."""
    batch = digits_batch(64, seed, torch.float64)
    model = create_model("resnet", depth=depth, norm="none", scheme="fixup", input_shape=(1, 8, 8)).double()
    every = {name for name, _ in model.named_parameters()}
    initialize(model, "fixup", seed=seed)
    counts, optimizer = [], torch.optim.SGD(model.parameters(), lr=0.1)
    first = opened(model, batch)
    seen = set(first)
    for _ in range(3):
        optimizer.step()
        seen |= opened(model, batch)
        counts.append(len(seen))
    initialize(model, "kaiming", seed=seed)
    nonzero = opened(model, batch)
    held = first == {"classifier.weight", "classifier.bias"} and seen == every and nonzero == every
    measured = (
        f"{len(first)} of {len(every)} tensors have a gradient at first ({', '.join(sorted(first))}), {counts} "
        f"after 1 to 3 steps, {len(nonzero)} from the start under Kaiming"
    )
    values = {
        "tensors": [len(every)],
        "names_of_tensors_with_a_gradient_at_first": sorted(first),
        "tensors_with_a_gradient_after_1_to_3_steps": counts,
        "tensors_with_a_gradient_at_first_under_kaiming": [len(nonzero)],
    }
    return Finding(held_or_not(held), measured, 1, "networks", values)
