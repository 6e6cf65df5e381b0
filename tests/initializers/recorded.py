"""Events of a record, as tests expect them."""

from __future__ import annotations

UNTOUCHED = {"event": "left", "reason": None}
FROZEN = {"event": "left", "reason": "frozen"}
UNUSED = {"event": "left", "reason": "unused"}
ZEROED = {"event": "filled", "value": 0.0}
ONES = {"event": "filled", "value": 1.0}


def filled(value):
    return {"event": "filled", "value": value}


def drawn(law, **numbers):
    return {"event": "drawn", "law": law, **numbers}


def scaled(factor, **further):
    return {"event": "scaled", "factor": factor, **further}


def left(reason, **further):
    return {"event": "left", "reason": reason, **further}


def set_to(values, **further):
    return {"event": "set_to", "to": values, **further}


def tied(name):
    return {"event": "tied", "to": name}
