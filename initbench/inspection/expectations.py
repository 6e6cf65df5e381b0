"""Declared laws, which `audit` holds a model's tensors against."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from scipy.stats import norm

from initbench.arguments import nearest
from initbench.errors import InitbenchError
from initbench.inspection.findings import Finding
from initbench.inspection.fitted_laws import FALSE_ALARMS, Sample, mean_p, scale_deviations, shape_p
from initbench.inspection.role_laws import family_in_words, family_of
from initbench.inspection.shapes import NORMAL, TRUNCATED, UNIFORM

_SHAPES = {"normal": NORMAL, "uniform": UNIFORM, "truncated_normal": TRUNCATED}
_NUMBERS = {"normal": "std", "uniform": "bound", "truncated_normal": "std", "constant": "value", "orthogonal": "gain"}
LAWS = (*_NUMBERS, "zeros", "ones")
_SIZES = ("fan_in", "fan_out", "branches", "block")
_OPERATIONS: dict[type, Callable[..., float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
    ast.USub: operator.neg,
}


@dataclass(frozen=True)
class Expectation:
    """A declared law.

    Attributes:
        role: pattern of roles, such as ``linear*``; None for all.
        name: pattern of names, such as ``blocks.*.fc2.weight``; None for all.
        law: see `LAWS`.
        number: the law's number, or a formula of it in ``fan_in``, ``fan_out``, ``branches`` and ``block``.
    """

    role: str | None
    name: str | None
    law: str
    number: str = "1"

    def matches(self, sample: Sample) -> bool:
        """Return whether the law is declared for a tensor."""
        return (self.role is None or fnmatchcase(sample.role.role, self.role)) and (
            self.name is None or fnmatchcase(sample.role.name, self.name)
        )

    def value(self, sample: Sample) -> float:
        """Return the law's number for a tensor.

        Raises:
            InitbenchError: the formula uses a size that the tensor does not have or has no value, or a deviation, bound
                or gain is not positive.
        """
        sizes = {size: getattr(sample, size) for size in _SIZES}
        try:
            number = float(_evaluate(ast.parse(self.number, mode="eval").body, sizes))
        except (ArithmeticError, TypeError, ValueError):
            raise InitbenchError(f"{self.number}: has no value for {sample.role.name}") from None
        if self.law != "constant" and not 0 < number < math.inf:
            raise InitbenchError(
                f"{_NUMBERS[self.law]}: {self.number} is {number:g} for {sample.role.name}; it must be positive"
            )
        return number

    def __str__(self) -> str:
        return self.law if self.law not in _NUMBERS else f"{self.law} with {_NUMBERS[self.law]} {self.number}"


def _evaluate(node: ast.AST, sizes: Mapping[str, int | None]) -> float:
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        return node.value
    if isinstance(node, ast.Name) and node.id in sizes:
        return float(sizes[node.id])  # type: ignore[arg-type]  # None is a TypeError, which is caught
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATIONS:
        return _OPERATIONS[type(node.op)](_evaluate(node.left, sizes), _evaluate(node.right, sizes))
    if isinstance(node, ast.UnaryOp) and type(node.op) in _OPERATIONS:
        return _OPERATIONS[type(node.op)](_evaluate(node.operand, sizes))
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "sqrt"
        and len(node.args) == 1
    ):
        return math.sqrt(_evaluate(node.args[0], sizes))
    raise ValueError


def read_expectations(declared: str | Path | Sequence[Mapping[str, Any]]) -> tuple[Expectation, ...]:
    """Return the laws that a YAML file, or a list of the same entries, declares.

    Each entry has ``role`` or ``name`` (patterns with ``*``), ``law`` and the law's number: ``std`` of ``normal`` and
    ``truncated_normal`` (after a cut at 2σ), ``bound`` of ``uniform``, ``value`` of ``constant``, ``gain`` of
    ``orthogonal``; ``zeros`` and ``ones`` have none. The first entry that matches a tensor counts.

    Raises:
        InitbenchError: the file cannot be read, or an entry is not of this form.
    """
    entries = _entries(Path(declared)) if isinstance(declared, str | Path) else list(declared)
    where = str(declared) if isinstance(declared, str | Path) else "declared laws"
    if not isinstance(entries, list) or not entries:
        raise InitbenchError(f"{where}: must be a list of entries such as {{role: linear, law: normal, std: 0.02}}")
    return tuple(_expectation(f"{where}: entry {number}", entry) for number, entry in enumerate(entries, 1))


def _entries(path: Path) -> Any:
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        return YAML(typ="safe").load(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise InitbenchError(f"{path}: cannot be read: {error}") from None
    except YAMLError:
        raise InitbenchError(f"{path}: is not YAML") from None


def _expectation(where: str, entry: Any) -> Expectation:
    if not isinstance(entry, dict) or not {"role", "name"} & entry.keys():
        raise InitbenchError(f"{where}: needs role or name, and law")
    law = entry.get("law")
    if law not in LAWS:
        raise InitbenchError(f"{where}: unknown law {law!r}{nearest(str(law), LAWS)}")
    number = _NUMBERS.get(law)
    known = {"role", "name", "law"} | ({number} if number else set())
    for key in entry:
        if key not in known:
            raise InitbenchError(f"{where}: unknown key {key!r}{nearest(str(key), sorted(known))}")
    if number and number not in entry and law != "orthogonal":
        raise InitbenchError(f"{where}: {law} needs {number}")
    formula = str(entry.get(number, 1))
    try:
        _evaluate(ast.parse(formula, mode="eval").body, dict.fromkeys(_SIZES, 1))
    except ArithmeticError:
        pass  # such as 1/(fan_in - 1), which other sizes allow
    except (SyntaxError, ValueError):
        allowed = f"a number or a formula of {', '.join(_SIZES)} with + - * / ** sqrt()"
        raise InitbenchError(f"{where}: {number}: {formula!r} must be {allowed}") from None
    return Expectation(entry.get("role"), entry.get("name"), law, formula)


def unexpected(samples: Sequence[Sample], expectations: Sequence[Expectation]) -> list[Finding]:
    """Return the tensors that do not have their declared law, one finding for each entry.

    A model whose tensors all have theirs gives a finding with a probability of at most 1 % (Bonferroni over tensors and
    over shape, mean and deviation).

    Raises:
        InitbenchError: an entry matches no tensor.
    """
    first = {sample.role.name: next((one for one in expectations if one.matches(sample)), None) for sample in samples}
    for one in expectations:
        if not any(one.matches(sample) for sample in samples):
            pattern = one.name or one.role or ""
            known = [sample.role.name if one.name else sample.role.role for sample in samples]
            raise InitbenchError(f"no tensor matches {pattern!r}{nearest(pattern, sorted(set(known)), list_all=False)}")
    level = FALSE_ALARMS / max(1, 3 * sum(one is not None for one in first.values()))
    findings = []
    for one in dict.fromkeys(expectations):
        problems = {
            sample.role.name: problem
            for sample in samples
            if first[sample.role.name] == one and (problem := _problem(sample, one, level))
        }
        if problems:
            name = next(iter(problems))
            layer = next(sample.role.layer for sample in samples if sample.role.name == name)
            line = f'model.get_parameter("{name}").std()'
            findings.append(
                Finding("unexpected_law", tuple(problems), layer, f"declared {one}, but {problems[name]}", line)
            )
    return findings


def _problem(sample: Sample, expectation: Expectation, level: float) -> str | None:
    summary, law = sample.summary, expectation.law
    number = {"zeros": 0.0, "ones": 1.0}.get(law)
    number = expectation.value(sample) if number is None else number
    family = family_of(summary) if summary.quantiles else "without finite entries"
    if law in {"zeros", "ones", "constant"}:
        equal = summary.constant is not None and math.isclose(summary.constant, number, rel_tol=1e-6)
        return None if equal else f"it is {family_in_words(summary)}"
    if law == "orthogonal":
        singular = summary.singular_values
        gain = None if singular is None else float(singular.max())
        is_orthogonal = "orthogonal" in family or family == "identity"
        return None if is_orthogonal and gain and abs(gain / number - 1) < 1e-3 else f"it is {family_in_words(summary)}"
    if family != "random":
        return f"it is {family}"
    shape = _SHAPES[law]
    std = number / math.sqrt(3) if law == "uniform" else number
    z = scale_deviations([sample], shape, [std**2])[0]
    if 2 * norm.sf(abs(z)) < level:
        return f"σ is {summary.bulk_std:.4g} where {std:.4g} is declared"
    if mean_p([sample]) < level:
        return f"the mean is {summary.mean:.3g}"
    if shape_p([sample], shape) < level:
        return f"the entries are not {law.replace('_', ' ')}"
    return None
