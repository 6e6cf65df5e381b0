"""Check what the quickstart wrote: the facts that its report has to show. Usage: check_quickstart.py FOLDER."""

import re
import subprocess
import sys
import tempfile
from html import unescape
from pathlib import Path

import initbench
from initbench.reporting import overview

folder = Path(sys.argv[1])
METAINIT, GAIN_2 = "metainit(delta_orthogonal)", "delta_orthogonal[gain=2]"
frame = initbench.load_results(folder)
assert len(frame) == 24, f"24 trials, got {len(frame)}"
assert set(frame.status) <= {"finished", "diverged"}, frame.status.value_counts()

plain = frame[frame.architecture == "plain"]
median = (
    plain.fillna({"test_error": float("inf")})
    .groupby("initializer")[["probe.gradient_quotient", "test_error"]]
    .median()
)
print(median.to_string())
untuned = median.loc["delta_orthogonal[gain=1]"]
assert untuned["probe.gradient_quotient"] >= 0.99, untuned
assert untuned["test_error"] >= 0.85, untuned
assert plain[plain.initializer == "delta_orthogonal[gain=1]"]["probe.gradient_quotient.saturated"].all()
tuned = median.loc[METAINIT]
assert tuned["probe.gradient_quotient"] <= 0.6, tuned
assert tuned["test_error"] <= 0.10, tuned

# What happened, as facts: who trains both networks at every seed, who does not train the plain one.
found = overview(folder).facts
untrained, diverged = found.map.treatments_in("untrained"), found.map.treatments_in("diverged")
on = {workload.partition("[")[0]: workload for workload in found.results.metric_of}
assert set(found.everywhere) == {METAINIT, GAIN_2}, found.everywhere
assert {"kaiming", "delta_orthogonal[gain=1]"} <= set(untrained[on["plain"]]), untrained
assert not diverged, diverged
marks = [cell.mark for cell in found.map.cells]
assert marks.count("best") == 2, marks

# The same facts in words, on the first screen and in the terminal.
page = (folder / "report" / "index.html").read_text(encoding="utf-8")
first_screen = page.partition('<ul class="happened">')[2].partition("</ul>")[0]
items = re.findall(r"<li[^>]*>(.*?)</li>", first_screen, re.DOTALL)
shown = [unescape(re.sub(r"<[^>]*>", "", item)) for item in items]
print(*shown, sep="\n")
assert 1 <= len(shown) <= 5, f"{len(shown)} sentences"
assert any(re.search(r"\bmetainit\b.* train both networks at all 3 seeds", sentence) for sentence in shown), shown
assert any(re.search(r"plain-28.*\bkaiming\b.*not train \(0 of 3 seeds\)", sentence) for sentence in shown), shown
assert any(re.search(r"metainit costs as much as \d+ training steps", sentence) for sentence in shown), shown
assert "not enough evidence" not in " ".join(shown).lower(), shown
with tempfile.TemporaryDirectory() as elsewhere:
    command = [sys.executable, "-m", "initbench", "report", str(folder), "--out", elsewhere]
    done = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603  # our own command
    terminal = done.stdout.splitlines()
    assert terminal[:-1] == shown, terminal
    assert (Path(elsewhere) / "index.html").read_text(encoding="utf-8") == page, (
        "the report changes when it is made again"
    )

for name in ("kaiming", "delta_orthogonal[gain=1]", GAIN_2, METAINIT, "saturated"):
    assert name in page, f"the report does not mention {name}"
assert "http://" not in page.replace("http://www.w3.org/", ""), "the report is not offline"
for name in ("results.csv", "comparison.csv", "correlation.csv"):
    assert (folder / "report" / name).stat().st_size > 0, name
assert (folder / "mlflow.db").exists()
print("quickstart: as promised")
