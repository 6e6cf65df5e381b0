"""The device of a worker, with a GPU that is made up."""

import json
from types import SimpleNamespace

import pytest
import torch

from initbench.data import load_dataset
from initbench.execution import trial_child, worker_device
from initbench.execution.environment import differences
from initbench.execution.failure import ran_out_of_memory
from initbench.execution.processes import Outcome
from initbench.execution.trial_process import TrialProcess
from initbench.ledger import TrialRecord

GB = 2**30
RAN_OUT = {"type": "OutOfMemoryError", "message": "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total"}


@pytest.fixture
def gpu(monkeypatch):
    """A GPU of 40 GiB; `calls` is what this process asked of it."""
    calls = {}
    module = SimpleNamespace(
        synchronize=lambda: None,
        memory_reserved=lambda: calls.get("reserved", 0),
        get_device_properties=lambda _: SimpleNamespace(total_memory=40 * GB),
        set_per_process_memory_fraction=lambda share: calls.update(share=share),
        empty_cache=lambda: calls.update(emptied=True),
    )
    monkeypatch.setattr(worker_device, "_module", lambda _: module)
    return calls


def test_a_share_is_a_limit_and_one_dataset_is_kept_there(gpu, monkeypatch):
    kept = []
    monkeypatch.setattr(worker_device, "keep_datasets", kept.append)
    worker_device.limit_memory("cuda", 1.0)
    assert (gpu, kept) == ({}, [])
    worker_device.limit_memory("cuda", 0.25)
    assert (gpu, kept) == ({"share": 0.25}, [1])


def test_datasets_beyond_those_that_are_kept_are_loaded_again():
    from initbench.data import load

    sizes = [{"train_size": size} for size in (40, 50)]
    try:
        load.keep_datasets(1)
        first = [load_dataset("digits", size) for size in sizes]
        assert load_dataset("digits", sizes[1]) is first[1]
        assert load_dataset("digits", sizes[0]) is not first[0]
    finally:
        load.keep_datasets(4)


@pytest.mark.parametrize(
    ("share", "reserved", "crowded_out"),
    [
        (1.0, 0, False),  # alone on the card
        (0.5, 19 * GB, False),  # 2 GiB more are more than its 20
        (0.5, 10 * GB, True),
        (0.0, 0, False),
    ],
)
def test_memory_that_others_have_taken_is_told_from_a_share_that_is_used_up(gpu, share, reserved, crowded_out):
    gpu["reserved"] = reserved
    assert worker_device.was_crowded_out("cuda", share, RAN_OUT) == crowded_out
    assert not worker_device.was_crowded_out("cuda", share, {"type": "RuntimeError", "message": "nan"})


@pytest.mark.parametrize(
    ("error", "ran_out"),
    [
        (RAN_OUT, True),
        ({"type": "AcceleratorError", "message": "CUDA error: out of memory"}, True),
        ({"type": "RuntimeError", "message": "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate"}, True),
        ({"type": "RuntimeError", "message": "cuDNN error: CUDNN_STATUS_ALLOC_FAILED"}, True),
        ({"type": "RuntimeError", "message": "CUDA error: device-side assert triggered"}, False),
        # The kernel killed the process, for lack of main memory.
        ({"type": "WorkerLost", "message": "the worker process died (killed, out of memory, or exited)"}, False),
    ],
)
def test_how_libraries_say_that_the_memory_of_a_gpu_does_not_suffice(error, ran_out):
    assert ran_out_of_memory(error) == ran_out


def test_memory_is_given_back(gpu):
    worker_device.release_memory("cuda")
    assert gpu == {"emptied": True}


@pytest.mark.parametrize("error", [None, RuntimeError("no CUDA device")])
def test_the_libraries_of_a_device_start_before_its_process_is_ready(monkeypatch, error):
    """Or else the first trial's seconds would include it. A device that does not compute fails the trials, not this."""
    events = []

    def compute(device):
        events.append(device)
        if error:
            raise error

    class Connection:
        def send(self, message):
            events.append(message[0])

        def recv(self):
            raise EOFError

    monkeypatch.setattr(worker_device, "compute", compute)
    for enable in ("enable", "register"):
        monkeypatch.setattr(f"faulthandler.{enable}", lambda *_, **__: None)
    trial_child.main(Connection(), "cpu", 1.0)
    assert events == ["cpu", "ready"]


def test_a_process_holds_its_share_and_gives_memory_back_after_each_trial(monkeypatch):
    events, requests = [], [("first", {}), ("second", {})]

    class Connection:
        def send(self, message):
            events.append(message[0])

        def recv(self):
            if not requests:
                raise EOFError
            return requests.pop(0)

    def answer(value, *keys):
        return lambda *arguments: (events.append((*keys, *arguments)), value)[1]

    answers = {"limit_memory": None, "compute": None, "release_memory": None, "problem": "broken"}
    for name, value in answers.items():
        monkeypatch.setattr(worker_device, name, answer(value, name))
    monkeypatch.setattr(worker_device, "was_crowded_out", answer(True, "was_crowded_out"))
    monkeypatch.setattr(trial_child, "_attempt", lambda spec, _: (spec, {} if spec == "first" else RAN_OUT))
    for enable in ("enable", "register"):
        monkeypatch.setattr(f"faulthandler.{enable}", lambda *_, **__: None)
    trial_child.main(Connection(), "cuda", 0.5)
    assert events == [
        *[("limit_memory", "cuda", 0.5), ("compute", "cuda"), "ready"],
        *[("release_memory", "cuda"), "outcome"],
        # What is free counts before memory is given back, and health last.
        *[("was_crowded_out", "cuda", 0.5, RAN_OUT), ("release_memory", "cuda"), ("problem", "cuda"), "outcome"],
    ]


def test_computing_needs_no_gradients_of_the_caller_and_moves_no_random_state():
    before = torch.random.get_rng_state()
    with torch.inference_mode():
        worker_device.compute("cpu")
    assert torch.equal(torch.random.get_rng_state(), before)


def test_the_cpu_has_nothing_of_this():
    worker_device.limit_memory("cpu", 0.0)
    worker_device.release_memory("cpu")
    assert worker_device.problem("cpu") is None


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_torch_does_not_see_has_a_problem_in_one_line():
    problem = worker_device.problem("cuda")
    assert problem
    assert "\n" not in problem


@pytest.mark.parametrize(
    ("outcomes", "statuses"),
    [
        ([("finished", Outcome(""))], ["finished"]),
        ([("failed", Outcome("")), ("finished", Outcome(""))], ["failed"]),
        ([("failed", Outcome("", was_crowded_out=True)), ("finished", Outcome(""))], ["finished"]),
        ([("failed", Outcome("", was_crowded_out=True))] * 2, ["failed"]),
    ],
)
def test_a_trial_whose_memory_others_took_runs_once_more(monkeypatch, outcomes, statuses):
    left = iter(outcomes)
    process = TrialProcess("cpu")

    def attempt(*_):
        status, outcome = next(left)
        record = TrialRecord(id="", spec={}, identity={}, status=status)
        return record, outcome.was_crowded_out

    monkeypatch.setattr(process, "_attempt", attempt)
    assert [process.run(None).status] == statuses


@pytest.mark.parametrize(
    ("share", "fresh", "hit"),
    [(1.0, True, False), (1.0, False, True), (0.5, True, True), (0.0, True, False)],
)
def test_a_broken_device_is_not_the_fault_of_a_trial_beside_others(monkeypatch, share, fresh, hit):
    process = TrialProcess("cuda", share=share)
    process._process, process._used = object(), not fresh
    process._connection = SimpleNamespace(send=lambda _: None)
    text = json.dumps({"id": "", "spec": {}, "identity": {}, "status": "failed"})
    monkeypatch.setattr(process, "_watch", lambda *_: Outcome(text, is_broken=True))
    monkeypatch.setattr(process, "close", lambda: None)
    assert process._attempt(None, None, None, None)[1] == hit


def test_the_processor_is_decisive_on_the_cpu_alone():
    for device, changed in (("cpu", ["processor: a → b"]), ("NVIDIA H100", [])):
        environments = [{"device": device, "processor": name} for name in "ab"]
        assert differences(*environments) == changed
