"""Shared by the tests of training."""

import pytest
import torch


@pytest.fixture
def one_thread():
    """Sums are taken in one order, so that numbers are bitwise equal."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
