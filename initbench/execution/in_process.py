"""The executor for debugging: one trial after another, in this process."""

import os

from initbench.errors import InitbenchError
from initbench.execution.executor import TRIAL_ENVIRONMENT, Job, Observer, device_of
from initbench.execution.trial import attempt_trial
from initbench.suite.spec import TrialSpec


def run_in_process(job: Job, observer: Observer) -> None:
    import torch

    from initbench.execution.worker_device import problem

    if job.gpus and not torch.cuda.is_available():
        raise InitbenchError(f"resources.gpus: {job.gpus:g} asked for, but this machine has no GPU that torch can use")
    device = device_of(job.gpus)
    os.environ |= TRIAL_ENVIRONMENT | os.environ
    if reason := problem(device):
        raise InitbenchError(f"resources.gpus: the GPU of this machine does not compute: {reason}")
    observer.ready()
    for spec in job.trials:
        observer.started(spec)

        def on_epoch(done: int, epochs: int, spec: TrialSpec = spec) -> None:
            observer.progressed(spec, done / epochs)

        record = attempt_trial(spec, on_epoch, device, job.plugins, job.checkpoints, observer.note, job.networks)
        observer.finished(record)
