"""What own values change, in sentences: who trains, and who beats whom, at which values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from initbench.comparing.formatting import counted, listed
from initbench.reporting.words.fitting import said
from initbench.reporting.words.sentence import Sentence, first_fitting, named

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from initbench.reporting.terms import Terms
    from initbench.reporting.tune import Tune

PROTOCOLS = ("recipe", "shared", "own")
_MOST_TOGETHER = 2


def at(protocol: str, tune: Tune) -> str:
    """Return at what values trials stand: ``at their own rates``."""
    words = {
        "recipe": f"the recipe’s {tune.noun}{'' if tune.noun == 'rate' else 's'}",
        "shared": "the shared rate",
        "own": f"their own {tune.noun}s",
    }
    return f"at {words[protocol]}"


def chosen_words(tune: Tune) -> str:
    """Return at what values the treatments of a report are compared, in words that end a sentence."""
    return f"{'each' if tune.protocol == 'own' else 'all'} {_values(tune)}"


def short_chosen_words(tune: Tune) -> str:
    """Return the same in few words."""
    return f"each at its own best {tune.noun}" if tune.protocol == "own" else f"all {at(tune.protocol, tune)}"


def compared_words(tune: Tune, terms: Terms) -> Sentence:
    """Return at what values the treatments of a report are compared, as a sentence of its own."""
    who = f"each {terms.treatment}" if tune.protocol == "own" else f"all {terms.treatment}s"
    return Sentence(f"Compared: {who} {_values(tune)}.")


def _values(tune: Tune) -> str:
    found = {
        "own": f"at the {tune.noun}{'' if tune.noun == 'rate' else 's'} that its own search of {tune.tries} chose",
        "shared": "at the shared rate that their searches chose",
        "recipe": f"{at('recipe', tune)} as written",
    }
    return found[tune.protocol]


def once_words(tune: Tune) -> list[Sentence]:
    """Return the warning where one search serves all seeds of a cell; nothing where each seed has its own.

    The numbers are those of simulated treatments without any difference (docs/statistics.md).
    """
    if not tune.is_once or tune.protocol == "recipe":
        return []
    text = (
        "Warning: one search chose for all seeds, so that 7 to 20\N{NO-BREAK SPACE}% of such verdicts are false, not "
        "5\N{NO-BREAK SPACE}%."
    )
    return [Sentence(text, is_open=True)]


def changes_words(changed: int, total: int, reference: str, tune: Tune, first: Sentence | None = None) -> Sentence:
    """Return how many verdicts own values change, with one of them where there is one to tell.

    Args:
        changed: verdicts that differ.
        total: pairs of treatments on all workloads.
        reference: the protocol that own values are compared with.
        tune: what is tuned.
        first: a sentence on one of them, as from `flip_words`.
    """
    against, own = at(reference, tune).removeprefix("at "), f"Own {tune.noun}s"
    if not changed:
        return Sentence(f"{own} change none of {counted(total, 'verdict')} on pairs against {against}.")
    many = f"{own} change {changed} of {counted(total, 'verdict')} on pairs against {against}"
    if first is None:
        return Sentence(f"{many}.")
    whole = f"{own} change {changed} of {counted(total, 'verdict')}: {first.text}"
    return Sentence(first_fitting(whole, f"{many}."), first.bold)


def flip_words(
    first: str,
    seconds: Sequence[str],
    sides: Mapping[str, int],
    tune: Tune,
    *,
    where: str = "",
    subject: str = "",
) -> Sentence:
    """Return a verdict that holds under one protocol and not under another.

    ``metainit beats kaiming at the shared rate; at their own rates no difference is shown.``

    Args:
        first: the treatment that is better somewhere, as a display text.
        seconds: those that it beats there.
        sides: protocol → 1 where the first is told to be better, -1 where the others are, 0 where neither.
        tune: what is tuned.
        where: behind the verb, `` on {place}``; empty where the subject says it.
        subject: the workload, as a display text.
    """
    beats, open_, loses = ([name for name in PROTOCOLS if sides.get(name) == side] for side in (1, 0, -1))
    held = _together(beats, tune)
    parts = [f"{{first}} beats {{seconds}}{where} {held}"]
    short = [f"{{first}} beats {{seconds}}{where} {held}"]
    if open_:
        parts.append(f"{_together(open_, tune)} no difference is shown")
        short.append(f"not {' or '.join(at(name, tune) for name in open_)}")
    if loses:
        parts.append(f"{_together(loses, tune)} it is the reverse")
        short.append(f"and the reverse {_together(loses, tune)}")
    names = {"first": first, "seconds": listed(list(seconds)), "place": subject}
    return said(f"{'; '.join(parts)}.", f"{', '.join(short)}.", names=names, bold=["first"], subject=subject)


def training_words(
    who: Sequence[str], sides: Mapping[str, bool], tune: Tune, *, where: str = "", subject: str = ""
) -> Sentence:
    """Return who trains under one protocol and not under another.

    Args:
        who: display texts.
        sides: protocol → whether they train.
        tune: what is tuned.
        where: behind the verb, `` on {place}``; empty where the subject says it.
        subject: the workload, as a display text.
    """
    some, others = ([name for name in PROTOCOLS if sides.get(name) is does] for does in (True, False))
    verb = "trains" if len(who) == 1 else "train"
    if not some:
        raise ValueError("they train nowhere")
    held, missing = _together(some, tune), " nor ".join(at(name, tune) for name in others)
    if len(who) == 1:
        its = f"its own {tune.noun}{'' if tune.noun == 'rate' else 's'}"
        held, missing = (text.replace(f"their own {tune.noun}s", its) for text in (held, missing))
    return said(
        f"{{who}} {verb}{where} {held}, and not {missing}.",
        f"{counted(len(who), 'treatment')} {verb}{where} {held}, and not {missing}.",
        names={"who": named(list(who)), "place": subject},
        bold=["who"] if len(who) == 1 else [],
        subject=subject,
    )


def _together(protocols: Sequence[str], tune: Tune) -> str:
    """Return at what values, of several protocols."""
    texts = [at(name, tune) for name in protocols]
    return listed(texts)


def first_words(leaders: Mapping[str, Sequence[str]], tune: Tune, over: str) -> Sentence:
    """Return who has the best mean rank under each protocol.

    Args:
        leaders: protocol → display texts of those that share the first rank.
        tune: what is tuned.
        over: what the ranks are of, `` over 4 networks``.
    """
    alike: dict[str, list[str]] = {}
    for name, own in leaders.items():
        alike.setdefault(named(list(own), _MOST_TOGETHER), []).append(name)
    fields = {f"name{i}": who for i, who in enumerate(alike)}
    verb = "share" if len(next(iter(leaders.values()))) > 1 else "has"
    where = [_together(own, tune) for own in alike.values()]
    others = "".join(f", {{name{i}}} {text}" for i, text in enumerate(where[1:], start=1))
    first = f"{{name0}} {verb} the best mean rank"
    return said(
        f"{first}{over} {where[0]}{others}.",
        f"{first} {where[0]}{others}.",
        names=fields,
        bold=list(fields) if len(alike) > 1 else ["name0"],
    )
