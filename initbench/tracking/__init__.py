"""MLflow: a view of the ledger, written by the driver."""
