"""What authors of plug-ins test with."""
