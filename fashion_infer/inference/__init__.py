"""A model on a device: loading, the predictor, and the times of layers."""
