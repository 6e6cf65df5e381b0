"""Tasks, one file each: the loss, the metrics, evaluation, random batches and the chance level."""

from __future__ import annotations

from initbench.tasks.task import Task, find_task

__all__ = ["Task", "find_task"]
