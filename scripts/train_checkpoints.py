"""Train the shipped checkpoints, models/*.h5: snapshots with exactly the published numbers of correct answers.

    python scripts/train_checkpoints.py [NAME ...] [--to models] [--data-dir DIR]

The checkpoints are fixtures for checking an implementation, not research results. For each snapshot of the training,
the fully connected weights are rounded to int8, and the last bias is shifted slightly. The script takes the first
snapshot that then has the published number of correct answers and predictions that no correct float32 implementation
can flip. See models/README.md.
"""

import argparse
import copy
import json
import math
from pathlib import Path
from typing import Dict, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from rich.console import Console
from rich.progress import Progress

from fashion_infer.checkpoints import checkpoint, editions, hdf5
from fashion_infer.data import dataset, synthetic
from fashion_infer.data.resize import resize
from fashion_infer.graph import symbol
from fashion_infer.graph.layers import Convolution, Dense, Flatten, MaxPool, Relu, Tanh, walk


class Target(NamedTuple):
    """A checkpoint to train."""

    edition: str
    operator: str  # "custom" or "builtin": the symbol's convolution layers
    right: Dict[int, int]  # first n test images -> how many of them must be correct
    seed: int
    batch: int  # images per step
    rate: float  # Adam's step, as a fraction of a tensor's initial standard deviation
    start: int = 1  # snapshots before this step are skipped: they are too far from the target
    go_on: bool = False  # later searches start at the bias of the first: few searches reach four counts
    density: float = 0.1  # fraction of the first dense layer's weights that are trained; the others stay zero
    average: float = 1.0  # a snapshot is a running average with this weight of the last step; 1.0: no average


# On the first 2,000 images, a well-trained network of this accuracy has 1,740 correct, not 1,725. No small shift of the
# bias changes that. Therefore ece408-high needs a high rate and a small batch, which make snapshots vary.
TARGETS = {
    "ece408-high": Target(
        "fa2017", "custom", {10000: 8562, 2000: 1725}, seed=31, batch=64, rate=1e-2, start=190, density=0.2
    ),
    "ece408-low": Target("fa2017", "custom", {10000: 6290, 2000: 1255}, seed=2, batch=128, rate=5e-4, start=80),
    "baseline": Target("fa2017", "builtin", {10000: 8673}, seed=3, batch=128, rate=1e-2, start=400, average=0.1),
    "sp2018-ece408": Target(
        "sp2018", "custom", {10000: 8451, 100: 88, 10: 10}, seed=7, batch=64, rate=5e-3, start=460, density=1.0
    ),
    "sp2018-baseline": Target("sp2018", "builtin", {10000: 8444}, seed=31, batch=64, rate=5e-3, start=255, density=0.2),
    "fa2018-ece408": Target(
        "fa2018", "custom", {10000: 8171, 1000: 827, 100: 85}, seed=8, batch=64, rate=5e-3, start=180, go_on=True
    ),
    "fa2018-baseline": Target("fa2018", "builtin", {10000: 8177}, seed=9, batch=64, rate=5e-3, start=220),
    "sp2019-ece408": Target(
        "sp2019", "custom", {10000: 8397, 1000: 852, 100: 84}, seed=10, batch=64, rate=5e-3, start=380
    ),
    "sp2019-baseline": Target("sp2019", "builtin", {10000: 8236}, seed=12, batch=64, rate=5e-3, start=365),
    "fa2019-baseline": Target("fa2019", "builtin", {10000: 8154}, seed=5, batch=64, rate=5e-3, start=175),
    "fa2019-ece408": Target(
        "fa2019", "custom", {10000: 7653, 1000: 767, 100: 76}, seed=6, batch=64, rate=5e-3, start=95
    ),
    "fa2020": Target(
        "fa2020",
        "custom",
        {10000: 8714, 5000: 4355, 1000: 886, 100: 86},
        seed=13,
        batch=64,
        rate=5e-3,
        start=2007,
        go_on=True,
        density=1.0,
    ),
}

ROOT = Path(__file__).resolve().parents[1]
MAX_EPOCHS = 5
THREADS = 1  # fixed, because the order of summation, and with it every bit of the result, depends on it
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
PIXEL_RMS = 116.0  # of the training images: pixels are unscaled, so the first convolution's weights start smaller by it

# Smallest gap between the best and the second-best logit, on every test and every synthetic image: an absolute value,
# and a multiple of the worst float32 error. The tests require 1e-4 and 10; the rest is margin.
SMALLEST_GAP = 3e-4
GAP_PER_ERROR = 30

REACH = 150  # a snapshot whose number of correct answers is further from the target is not tried
SLICE = 250  # images per evaluation
RADII = (0.3, 0.1, 0.03, 0.01)  # sizes of a step in the hill climbing, in logits
CLIMB = 6000  # most steps towards the wanted counts; each takes half a millisecond
WIDEN = 2000  # steps of the hill climbing that then widen the smallest gap between the two best logits


# ---- the network ---------------------------------------------------------------------------------


def initial_weights(edition, operator, generator):
    """Return random weights by name, in the order of the layers, and each tensor's initial standard deviation."""
    weights, deviations = {}, {}

    def add(name, shape, deviation):
        bias = len(shape) == 1
        drawn = torch.zeros(shape) if bias else torch.randn(shape, generator=generator) * deviation
        weights[name] = drawn.to(DEVICE)
        deviations[name] = deviation

    prefix = {"custom": "new", "builtin": "convolution"}[operator]
    magnitude = PIXEL_RMS
    for step in walk(edition.layers, edition.shape, prefix):
        for name, shape in step.parameters.items():
            if isinstance(step.layer, Convolution):
                add(name, shape, 1 / (magnitude * math.sqrt(math.prod(shape[1:]))))
                magnitude = 1.0
            else:
                add(name, shape, 1 / math.sqrt(math.prod(step.input)))
    return weights, deviations


def sparsify(edition, density, weights, deviations, generator):
    """Make most weights of the first dense layer zero, in place, and keep them there: their gradient is masked.

    Each hidden unit is connected to its own random choice of rows of the feature maps. Whole rows, because gzip stores
    the long runs of zeros between them in almost no space.
    """
    name = "fullyconnected0_weight"
    width = next(step.input[2] for step in walk(edition.layers, edition.shape) if isinstance(step.layer, Flatten))
    units, features = weights[name].shape
    rows = torch.rand((units, features // width), generator=generator) < density
    mask = rows.repeat_interleave(width, dim=1).to(DEVICE)
    deviations[name] /= math.sqrt(density)
    weights[name] = (weights[name] * mask / math.sqrt(density)).requires_grad_()
    weights[name].register_hook(lambda gradient: gradient * mask)


def hidden_layer(edition, weights, x, linear=F.linear):
    """Return hidden activations (n, hidden) of pixels (n, 1, size, size), in the type of pixels and weights."""
    tensors, dense = iter(weights.values()), False
    for layer in edition.layers:
        if isinstance(layer, Convolution):
            x = F.conv2d(x, next(tensors))
        elif isinstance(layer, MaxPool):
            x = F.max_pool2d(x, layer.size, layer.step, ceil_mode=layer.full)
        elif isinstance(layer, Tanh):
            x = torch.tanh(x)
        elif isinstance(layer, Relu):
            x = torch.relu(x)
        elif isinstance(layer, Dense):
            if dense:
                return x
            x, dense = linear(x.flatten(1), next(tensors), next(tensors)), True
    raise AssertionError("the network has no second fully connected layer")


def last_layer(weights, hidden, linear=F.linear):
    """Return logits (n, classes) of hidden activations (n, hidden)."""
    return linear(hidden, weights["fullyconnected1_weight"], weights["fullyconnected1_bias"])


def forward(edition, weights, x):
    """Return logits (n, classes) of pixels (n, 1, size, size)."""
    return last_layer(weights, hidden_layer(edition, weights, x))


def sequential_linear(x, weight, bias):
    """Compute F.linear with sums strictly in order, as a naive kernel does: the least accurate of the usual orders."""
    total = torch.zeros(len(x), len(weight), dtype=x.dtype, device=x.device)
    for left, right in zip(x.t().contiguous(), weight.t().contiguous()):
        total.addr_(left, right)
    return total + bias


@torch.no_grad()
def activations(edition, weights, images, dtype, linear=F.linear):
    """Return hidden activations (n, hidden) of uint8 images, computed in `dtype`.

    This function does everything slow. Later steps only change the last bias, so that nothing is computed twice.
    """
    weights = {name: tensor.to(DEVICE, dtype) for name, tensor in weights.items()}
    parts = images.split(SLICE)
    return torch.cat([hidden_layer(edition, weights, part.to(DEVICE, dtype), linear) for part in parts])


@torch.no_grad()
def scores(weights, hidden, linear=F.linear):
    """Return logits of hidden activations, computed in their type, as a NumPy array of that type."""
    weights = {name: tensor.to(DEVICE, hidden.dtype) for name, tensor in weights.items() if tensor.ndim <= 2}
    return torch.cat([last_layer(weights, part, linear) for part in hidden.split(SLICE)]).cpu().numpy()


def rounded(weights):
    """Return the weights as stored (dense ones rounded), and {name: (int8 steps, float32 scale of each row)}."""
    stored, quantized = {}, {}
    for name, tensor in weights.items():
        values = tensor.detach().cpu().numpy().copy()
        if values.ndim == 2:
            scale = np.abs(values).max(axis=1) / np.float32(127)
            steps = np.rint(values / scale[:, None]).astype(np.int8)
            values = steps * scale[:, None]
            quantized[name] = steps, scale
        stored[name] = torch.from_numpy(values)
    return stored, quantized


# ---- the last bias -------------------------------------------------------------------------------


def gaps(logits):
    """Return the best minus the second-best logit, over the last axis."""
    top = np.partition(logits, -2, axis=-1)
    return top[..., -1] - top[..., -2]


def right_answers(logits, labels, sizes):
    """Count, for each n of `sizes`, how many of the first n rows have their largest logit at the label."""
    hits = logits[: len(labels)].argmax(axis=1) == labels
    return {n: int(hits[:n].sum()) for n in sizes}


def shifted(logits, bias, trial):
    """Return the logits for the bias `trial`, given float64 logits for `bias`: add the difference of the biases."""
    return logits + (trial.astype(np.float64) - bias)


def search_bias(logits, labels, bias, right, generator, start=None):
    """Search a bias near `bias` that gives exactly the wanted numbers of correct answers and a wide smallest gap.

    Hill climbing: a random step of a random size on some of the classes is kept if the counts are no further from the
    target. Once the counts are reached, a step must also widen the smallest gap. `logits` in float64 are those of the
    labelled images, followed by those of images for which only the gap counts. Returns None without these counts.
    """

    def off(trial):
        counts = right_answers(shifted(logits[: len(labels)], bias, trial), labels, right)
        # The count of a smaller set changes less, so it is weighted by the square root of the set's share.
        return sum(abs(counts[n] - right[n]) * math.sqrt(len(labels) / n) for n in right)

    def gap(trial):
        return gaps(shifted(logits, bias, trial)).min()

    def step(radius):
        chosen = generator.random(len(bias)) < 0.4
        return (best + generator.normal(0, radius, len(bias)) * chosen).astype(np.float32)

    best = bias if start is None else start
    best_off = off(best)
    for _ in range(CLIMB):
        if not best_off:
            break
        trial = step(generator.choice(RADII))
        trial_off = off(trial)
        if trial_off <= best_off:
            best, best_off = trial, trial_off
    if best_off:
        return None
    best_gap = gap(best)
    for _ in range(WIDEN):
        trial = step(generator.choice(RADII[1:]) / 10)
        if gap(trial) > best_gap and not off(trial):
            best, best_gap = trial, gap(trial)
    return best


# ---- training and selection ----------------------------------------------------------------------


def snapshots(target, images, labels):
    """Train; after every step, yield the step's number and the running average of the weights (updated in place)."""
    generator = torch.Generator().manual_seed(target.seed)
    edition = editions.get(target.edition)
    weights, deviations = initial_weights(edition, target.operator, generator)
    if target.density < 1:
        sparsify(edition, target.density, weights, deviations, generator)
    # Adam moves every weight by about its rate, however small the weight is. Hence each tensor has its own rate.
    groups = [{"params": [w.requires_grad_()], "lr": target.rate * deviations[n]} for n, w in weights.items()]
    optimizer = torch.optim.Adam(groups)
    average = {name: w.detach().clone() for name, w in weights.items()}
    step = 0
    for _ in range(MAX_EPOCHS):
        for batch in torch.randperm(len(images), generator=generator).split(target.batch):
            logits = forward(edition, weights, images[batch].to(DEVICE).float())
            loss = F.cross_entropy(logits, labels[batch].to(DEVICE))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            for name, w in weights.items():
                average[name].lerp_(w.detach(), target.average)
            step += 1
            yield step, average


def meet(target, weights, hidden, test, drawn, generator, report):
    """Shift a snapshot's last bias, in place, so that it meets the target; return attributes for the file, or None.

    Two searches in float32 come first: on the test images for the counts, and on all images for the gap. float64 takes
    ten times as long, and its search with the same generator takes the same path except for last digits.
    """
    edition, name = editions.get(target.edition), "fullyconnected1_bias"
    images, labels = test
    trained = weights[name].numpy()
    found = search_bias(scores(weights, hidden).astype(np.float64), labels, trained, target.right, generator)
    if found is None:
        return None
    single = torch.cat([hidden, activations(edition, weights, drawn, torch.float32)])
    logits = scores(weights, single).astype(np.float64)
    start = found if target.go_on else None
    bias = search_bias(logits, labels, trained, target.right, copy.deepcopy(generator), start)
    gap = 0.0 if bias is None else float(gaps(shifted(logits, trained, bias)).min())
    report(f"smallest gap {gap:.1e} in float32")
    if gap < 0.9 * SMALLEST_GAP:  # an error within GAP_PER_ERROR moves the gap of two logits by 7% at most
        return None

    checked = torch.cat([images, drawn])
    exact = activations(edition, weights, checked, torch.float64)
    bias = search_bias(scores(weights, exact), labels, trained, target.right, generator, bias if target.go_on else None)
    if bias is None:
        return None
    weights[name] = torch.from_numpy(bias)
    logits, shift = scores(weights, exact), float(np.abs(bias - trained).max())
    gap, error = float(gaps(logits).min()), 0.0
    for linear in (F.linear, sequential_linear):
        if linear is sequential_linear:
            single = activations(edition, weights, checked, torch.float32, linear)
        error = max(error, float(np.abs(scores(weights, single, linear) - logits).max()))
        report(f"smallest gap {gap:.1e}, float32 error {error:.1e}, bias shift {shift:.2f}")
        if gap < max(SMALLEST_GAP, GAP_PER_ERROR * error):
            return None
    counts = right_answers(logits, labels, target.right)
    if counts != target.right:
        raise AssertionError(f"{counts} in place of {target.right}")
    facts = {"smallest_gap": gap, "float32_error": error, "bias_shift": shift}
    for n, count in counts.items():
        facts["correctness" if n == len(labels) else f"correctness_{n}"] = count / n
    return facts


def select(target, train, test, drawn, report):
    """Return the first snapshot that meets the target: its weights, those of `rounded`, and the file's attributes."""
    edition = editions.get(target.edition)
    images, labels = test
    wait = 0
    for step, live in snapshots(target, *train):
        wait -= 1
        if wait > 0 or step < target.start:
            continue
        generator = np.random.default_rng((target.seed, step))  # a snapshot's search does not depend on earlier ones
        weights, quantized = rounded(live)
        hidden = activations(edition, weights, images, torch.float32)
        counts = right_answers(scores(weights, hidden), labels, target.right)
        report(f"step {step}: {counts}")
        off = max(abs(counts[n] - target.right[n]) for n in counts)
        wait = min(10, off // 60)  # every step near the target, every tenth far from it
        if off > REACH:
            continue

        def told(text, step=step):
            report(f"step {step}: {text}")

        facts = meet(target, weights, hidden, test, drawn, generator, told)
        if facts:
            return weights, quantized, {"step": step, "epoch": step * target.batch / len(train[0]), **facts}
    raise SystemExit(f"no snapshot of {MAX_EPOCHS} epochs met the target: try another seed")


def tensors(images, labels, size):
    """Return images as uint8 (60,000 images of 70x70 have 294 MB), resized to the edition's input size, and labels."""
    return torch.from_numpy(np.array(resize(images, size))), np.array(labels, np.int64)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{', '.join(TARGETS)}; default all")
    parser.add_argument("--data-dir", help="folder of the Fashion-MNIST files")
    parser.add_argument("--to", type=Path, default=ROOT / "models")
    options = parser.parse_args()
    unknown = [name for name in options.names if name not in TARGETS]
    if unknown:
        parser.error(f"unknown checkpoint {unknown[0]}: choose from {', '.join(TARGETS)}")

    torch.set_num_threads(THREADS)
    # On a GPU the gradient of max pooling warns: it adds atomically, which is
    # deterministic where windows do not overlap.
    torch.use_deterministic_algorithms(True, warn_only=DEVICE == "cuda")
    torch.backends.cudnn.allow_tf32 = False
    sets = dataset.load_split("train", options.data_dir), dataset.load_split("test", options.data_dir), synthetic.load()
    console = Console(stderr=True)
    for name in options.names or TARGETS:
        target = TARGETS[name]
        edition = editions.get(target.edition)
        text = symbol.build(edition.layers, edition.shape, target.operator)
        (images, labels), test, (drawn, _) = (tensors(*labelled, edition.input_size) for labelled in sets)
        train = images, torch.from_numpy(labels)
        with Progress(console=console, transient=True) as progress:
            task = progress.add_task(name, total=None)

            def report(text, name=name, progress=progress, task=task):
                progress.update(task, description=f"{name}, {text}")

            weights, quantized, facts = select(target, train, test, drawn, report)
        facts.update(
            edition=target.edition,
            operator=target.operator,
            layers=json.dumps({key: list(tensor.shape) for key, tensor in weights.items()}),
            seed=target.seed,
            batch=target.batch,
            rate=target.rate,
            density=target.density,
            average=target.average,
            threads=THREADS,
            device=DEVICE,
            command=f"python scripts/train_checkpoints.py {name}",
            made_with=f"torch {torch.__version__}, numpy {np.__version__}",
        )
        arrays = {key: tensor.numpy() for key, tensor in weights.items()}
        path = options.to / f"{name}.h5"
        hdf5.save(path, checkpoint.Checkpoint(text, arrays, facts), quantized)
        console.print(f"{path}: {path.stat().st_size} bytes")
        console.print(facts)


if __name__ == "__main__":
    main()
