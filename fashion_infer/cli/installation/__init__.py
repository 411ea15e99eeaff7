"""Commands about what is installed here: devices, dataset, models."""
