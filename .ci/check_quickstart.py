"""Check what the quickstart wrote: the facts that its report has to show. Usage: check_quickstart.py FOLDER."""

import sys
from pathlib import Path

import initbench

folder = Path(sys.argv[1])
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
tuned = median.loc["metainit(delta_orthogonal)"]
assert tuned["probe.gradient_quotient"] <= 0.6, tuned
assert tuned["test_error"] <= 0.10, tuned

page = (folder / "report" / "index.html").read_text(encoding="utf-8")
for name in (
    "kaiming",
    "delta_orthogonal[gain=1]",
    "delta_orthogonal[gain=2]",
    "metainit(delta_orthogonal)",
    "saturated",
):
    assert name in page, f"the report does not mention {name}"
assert "http://" not in page.replace("http://www.w3.org/", ""), "the report is not offline"
for name in ("results.csv", "comparison.csv", "correlation.csv"):
    assert (folder / "report" / name).stat().st_size > 0, name
assert (folder / "mlflow.db").exists()
print("quickstart: as promised")
