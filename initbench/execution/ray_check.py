"""A check of each node before the first trial: PyTorch can use the GPU that Ray assigns, and the data are there."""

import os
import time
from collections.abc import Callable, Sequence

from initbench.data.load import data_root
from initbench.errors import InitbenchError
from initbench.execution.executor import Job, Observer, device_of
from initbench.execution.ray_cluster import Node
from initbench.plugins import PluginFile, first_line, load_file
from initbench.suite.spec import DatasetSpec
from initbench.training.recipe import Recipe

_SECONDS = 300.0  # after that, a node that is too busy or slow for the check counts as usable


def unusable_nodes(
    job: Job, nodes: Sequence[Node], observer: Observer, check_ray: Callable[[], None]
) -> frozenset[str]:
    """Return the nodes that could take a trial but cannot run it, after a note on each.

    An InitbenchError says why if there are such nodes and no others.
    """
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    fitting = [node for node in nodes if node.fits(job)]
    datasets = {trial.dataset.model_dump_json(): trial.dataset for trial in job.trials}
    check = ray.remote(max_calls=1, max_retries=0, num_cpus=job.cpus, num_gpus=job.gpus)(_problem)
    recipes = {trial.recipe.model_dump_json(): trial.recipe for trial in job.trials}
    device, root = device_of(job.gpus), str(data_root())
    arguments = (device, tuple(recipes.values()), tuple(datasets.values()), job.plugins, root)
    running = {
        check.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node.id, soft=False)).remote(*arguments): node
        for node in fitting
    }
    problems: dict[Node, str] = {}
    deadline = time.monotonic() + _SECONDS
    while running and time.monotonic() < deadline:
        check_ray()
        for done in ray.wait(list(running), timeout=1.0)[0]:
            node = running.pop(done)
            try:
                problem = ray.get(done)
            except ray.exceptions.RayError as error:
                problem = f"its check crashed: {first_line(error)}"
            if problem:
                problems[node] = problem
    for late in running:
        ray.cancel(late, force=True)
    if fitting and len(problems) == len(fitting):
        [node, problem], *others = problems.items()
        more = f" (and {len(others)} more)" if others else ""
        raise InitbenchError(f"no trial can run on node {node.name}{more}: {problem}")
    for node, problem in problems.items():
        observer.note(f"node {node.name} is set aside: {problem}")
    return frozenset(node.id for node in problems)


def _problem(
    device: str, recipes: Sequence[Recipe], datasets: Sequence[DatasetSpec], plugins: Sequence[PluginFile], root: str
) -> str:
    """Return why no trial can run on this node, in a process of its own there; an empty text if one can."""
    from initbench.data.load import keep_datasets, load_dataset
    from initbench.execution.worker_device import problem
    from initbench.training.refusals import check_device

    os.environ["INITBENCH_DATA"] = root
    reason = None if device == "cpu" else problem(device)
    if reason:
        return f"Ray assigns a GPU there that PyTorch cannot use: {reason}"
    keep_datasets(0)
    try:
        for recipe in recipes:
            check_device(recipe, device)
        for plugin in plugins:
            load_file(plugin)
        for dataset in datasets:
            load_dataset(dataset.name, dataset.all_arguments, content=dataset.content)
    except Exception as error:  # noqa: BLE001  # a plug-in may raise anything
        return first_line(error)
    return ""
