"""Commands about the installation: devices, dataset, models and shell completion."""
