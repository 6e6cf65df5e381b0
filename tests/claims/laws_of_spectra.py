"""What the MetaInit paper says of eigenvalues: the Hessian's, the Fisher information's and the tangent kernel's."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import torch
from dense_hessians import vector_and_loss, vector_and_outputs
from law import Finding, judged, law
from measured_nets import chain, conv_net, digits_batch, of, random_batch
from scipy.sparse.linalg import LinearOperator, eigsh
from torch import Tensor, nn

from initbench import initialize

if TYPE_CHECKING:
    from collections.abc import Iterator

    from measured_nets import Batch


def hessian_eigenpairs(model: nn.Module, batch: Batch, count: int, which: str) -> tuple[Tensor, Tensor, Tensor]:
    """Return the Hessian's `count` largest eigenvalues, descending, their eigenvectors (N, count), and the gradient.

    Args:
        model: in float64.
        batch: whose mean cross-entropy it is.
        count: number of eigenvalues.
        which: largest in value (``LA``) or in magnitude (``LM``).
    """
    theta, loss = vector_and_loss(model, batch)
    gradient, transposed_product = torch.func.vjp(torch.func.grad(loss), theta)

    def product(vector: np.ndarray) -> np.ndarray:
        return transposed_product(torch.from_numpy(vector.reshape(-1)).to(theta))[0].numpy()  # H is symmetric

    operator = LinearOperator((len(theta), len(theta)), matvec=product, dtype=np.float64)
    start = np.random.default_rng(0).standard_normal(len(theta))
    values, vectors = eigsh(operator, count, which=which, v0=start, tol=1e-4)
    order = np.argsort(-np.abs(values) if which == "LM" else -values)
    return torch.from_numpy(values[order]), torch.from_numpy(vectors[:, order]), gradient.detach()


def top(gram_factor: Tensor, count: int = 10) -> Tensor:
    """Return the largest eigenvalues of A Aᵀ, descending; those of Aᵀ A are the same."""
    return torch.linalg.eigvalsh(gram_factor @ gram_factor.T).flip(0)[:count]


def three_spectra(model: nn.Module, batch: Batch) -> dict[str, Tensor]:
    """Return the ten largest eigenvalues of the Hessian, the Fisher information and the weighted and plain kernels."""
    theta, outputs = vector_and_outputs(model, batch[0])
    samples = len(batch[0])
    jacobian = torch.func.jacrev(outputs)(theta)  # (samples, classes, N)
    p = outputs(theta).softmax(1)
    # E_y over the model's own classes of the scores' outer products: rows √p_k (e_k − p)ᵀ J.
    scores = p.sqrt().unsqueeze(2) * (jacobian - (p.unsqueeze(2) * jacobian).sum(1, keepdim=True))
    values, vectors = torch.linalg.eigh(torch.diag_embed(p) - p.unsqueeze(2) * p.unsqueeze(1))
    roots = vectors @ torch.diag_embed(values.clamp(min=0).sqrt()) @ vectors.mT  # of the Hessian in the logits
    scale = samples**-0.5
    return {
        "Hessian": hessian_eigenpairs(model, batch, 10, "LA")[0],
        "Fisher": top(scale * scores.flatten(0, 1)),
        "kernel": top(scale * (roots @ jacobian).flatten(0, 1)),
        "plain kernel": top(scale * jacobian.flatten(0, 1)),
    }


@law("metainit-hessian-fisher-ntk-share-eigenvalues", evidence="at initialization", slow=True)
def shared_eigenvalues() -> Finding:
    """Sorted eigenvalues are compared one by one; a seed counts where all three starts agree, or any pair differs.

    ReLU; the kernel is weighted by the Hessian of the loss in the logits, and the matrices are means over samples.
    """
    starts = {
        "kaiming": {},
        "orthogonal": {},
        "metainit": {"base": "kaiming", "input_shape": (32, 64), "num_classes": 10},
    }
    agree = differ = 0
    worst: dict[str, float] = dict.fromkeys(starts, 1.0)
    identity, plain, first = 1.0, [], dict.fromkeys(starts, 1.0)
    values: dict[str, list[list[float]]] = {}
    for seed in range(5):
        factors = []
        inputs, targets = digits_batch(200, seed, torch.float64)
        for start, options in starts.items():
            model = chain([64, 32, 32, 10], bias=True).double()
            initialize(model, start, seed=seed, **options)
            spectra = three_spectra(model, (inputs.flatten(1), targets))
            pairs = spectra["Hessian"] / spectra["Fisher"], spectra["Fisher"] / spectra["kernel"]
            ratios = torch.cat([*pairs, spectra["Hessian"] / spectra["kernel"]])
            factor = torch.maximum(ratios, 1 / ratios).max().item() if bool((ratios > 0).all()) else float("inf")
            factors.append(factor)
            worst[start] = max(worst[start], factor)
            first[start] = max(first[start], *torch.stack([pairs[0][0], 1 / pairs[0][0]]).tolist())
            identity = max(identity, pairs[1].max().item(), (1 / pairs[1]).max().item())
            for name, eigenvalues in spectra.items():
                values.setdefault(f"{name.replace(' ', '_').lower()}_from_{start}", []).append(eigenvalues.tolist())
            plain.append((spectra["plain kernel"] / spectra["kernel"]).median().item())
        agree += max(factors) <= 1.2
        differ += max(factors) >= 2
    factors = ", ".join(f"{factor:.2f} ({start})" for start, factor in worst.items())
    measured = (
        f"largest factor between eigenvalues of the same rank {factors}; all "
        f"within 20 % at {of(agree, 5)} seeds, some apart by 2 or more at {of(differ, 5)}"
    )
    alone = ", ".join(f"{factor:.2f} ({start})" for start, factor in first.items())
    note = (
        f"The largest eigenvalue alone is apart by {alone}. Fisher and weighted kernel differ by at most "
        f"{identity - 1:.1e}; the plain kernel's eigenvalues are {min(plain):.2g} to {max(plain):.2g} times as large."
    )
    return Finding(judged(held=agree == 5, not_held=differ >= 3), measured, 5, "seeds", values, note=note)


Spectrum = tuple[float, float]
STEPS = (0, 50, 200, 500)


@cache
def spectra_along_metainit(start: str) -> list[list[Spectrum]]:
    """Return, for five seeds and after each of `STEPS`, the largest |eigenvalue| and the gradient's share.

    WRN-10-1 with β-Swish; the share is that of |g|² in the eigenvectors of the ten largest |eigenvalues|.
    """
    bases = {"kaiming": {}, "delta_orthogonal": {"gain": 2.0}}
    found = []
    for seed in range(5):
        model = conv_net("wrn", 10)
        initialize(model, start, seed=seed, **bases[start])
        snapshots: list[dict[str, Tensor]] = []

        def batches(seed: int = seed, model: nn.Module = model, snapshots: list = snapshots) -> Iterator[Batch]:
            for step in range(STEPS[-1]):
                if step in STEPS:
                    snapshots.append({name: p.detach().double() for name, p in model.named_parameters()})
                yield random_batch((32, 1, 8, 8), 10_000 * (seed + 1) + step)

        initialize(model, "metainit", base=None, steps=STEPS[-1], batches=batches(), seed=seed)
        snapshots.append({name: p.detach().double() for name, p in model.named_parameters()})
        row = []
        for snapshot in snapshots:
            measured = conv_net("wrn", 10).double()
            measured.load_state_dict(snapshot)
            values, vectors, g = hessian_eigenpairs(measured, digits_batch(64, seed, torch.float64), 10, "LM")
            share = (vectors.T @ g).square().sum() / g.square().sum()
            row.append((values.abs().max().item(), share.item()))
        found.append(row)
    return found


def along(index: int) -> dict[str, Tensor]:
    """Return one of the two values of `spectra_along_metainit` for both starts, (seeds, steps)."""
    starts = ("kaiming", "delta_orthogonal")
    return {s: torch.tensor([[pair[index] for pair in row] for row in spectra_along_metainit(s)]) for s in starts}


def medians(values: dict[str, Tensor]) -> str:
    """Return the medians over seeds after each of `STEPS`, in words."""
    parts = [f"{start}: {', '.join(f'{v:.3g}' for v in rows.median(0).values)}" for start, rows in values.items()]
    return f"after {', '.join(map(str, STEPS))} steps, median of 5 seeds, {'; '.join(parts)}"


def lists(values: dict[str, Tensor], name: str) -> dict[str, list]:
    """Return what a finding stores: the steps, and for each start a list per seed of the value after each of them."""
    return {"steps": list(STEPS)} | {f"{name}_from_{start}": rows.tolist() for start, rows in values.items()}


@law("metainit-spectrum-eigenvalues-concentrate", evidence="at initialization", by_command=True)
def eigenvalues_concentrate() -> Finding:
    """The fixed real batch has 64 digits."""
    values = along(0)
    held = all(bool((rows[:, -1] < rows[:, 0] / 2).all()) for rows in values.values())
    not_held = any(int((rows[:, -1] > rows[:, 0]).sum()) >= 3 for rows in values.values())
    measured = f"largest |eigenvalue| {medians(values)}"
    return Finding(judged(held=held, not_held=not_held), measured, 5, "seeds", lists(values, "largest_eigenvalue"))


@law("metainit-spectrum-gradient-turns-to-flat-directions", evidence="at initialization", by_command=True)
def gradient_turns_to_flat_directions() -> Finding:
    """The same runs."""
    values = along(1)
    held = all(bool((rows[:, -1] < rows[:, 0]).all()) for rows in values.values())
    not_held = any(int((rows[:, -1] > rows[:, 0]).sum()) >= 3 for rows in values.values())
    measured = f"share of |g|^2 in the ten largest directions {medians(values)}"
    return Finding(judged(held=held, not_held=not_held), measured, 5, "seeds", lists(values, "gradient_share"))
