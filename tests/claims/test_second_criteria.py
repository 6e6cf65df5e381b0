"""The Fisher matrix's eigenvalues by products against dense ones."""

import pytest
import torch
from laws_of_spectra import three_spectra
from measured_nets import chain, digits_batch
from second_criteria import fisher_eigenvalues

from initbench import initialize


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")  # by torch's own forward mode
def test_fisher_eigenvalues_by_products_are_those_of_the_dense_matrix():
    inputs, targets = digits_batch(50, 0, torch.float64)
    model = chain([64, 16, 16, 10], bias=True).double()
    initialize(model, "kaiming", seed=0)
    dense = three_spectra(model, (inputs.flatten(1), targets))["Fisher"][:5]
    # The Lanczos method stops at a relative 1e-6 of an eigenvalue.
    torch.testing.assert_close(fisher_eigenvalues(model, inputs.flatten(1), 5), dense, rtol=1e-6, atol=0)
