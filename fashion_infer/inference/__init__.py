"""A model on a device: loading, the predictor, several GPUs, and the times of layers."""
