"""Many images at once on one GPU and on all: what scripts/scale_gpu runs.

A process a GPU, each with the fused network that a worker of `run --ray` holds, begin together. Neither MXNet nor Ray
is needed; where Ray is installed, `fashion-infer run --ray auto` itself is measured as well.
"""

import argparse
import functools
import importlib.util
import json
import multiprocessing
import os
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

from fashion_infer.data import synthetic
from fashion_infer.data.resize import resize
from fashion_infer.inference import model as models
from fashion_infer.inference.sharing import share
from fashion_infer.library import thread_pool
from fashion_infer.library.fused import FusedNetwork
from fashion_infer.request import Request

LANES, SLICE, CHECKED = 3, 25_000, 2_000  # as a worker has them (fashion_infer/scale/worker.py); images compared


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="ece408-high")
    parser.add_argument("--seconds", type=float, default=3.0, help="of a turn, about")
    parser.add_argument("--repeat", type=int, default=3, help="turns of each")
    parser.add_argument("--slice", type=int, default=100_000, help="images on a device, and of a buffer of the host")
    parser.add_argument("--images", type=int, default=4_000_000, help="of the command on Ray")
    parser.add_argument("--backend", choices=["gpu", "cpu"], default="gpu", help="cpu tries the script out")
    asked = parser.parse_args()
    count = gpus() if asked.backend == "gpu" else 2
    sets = [(0,)] if count < 2 else [(0,), tuple(range(count))]
    kinds = ["pageable"] if asked.backend == "cpu" else ["device", "pinned", "pageable"]
    print(f"{asked.model}, slices of {asked.slice:,} images, {len(os.sched_getaffinity(0))} cores, {count} GPU(s)")
    print(f"{'from':<34} {'GPUs':>4} {'images/s':>14} {'x one':>6}  turns")
    for kind in kinds:
        name = "the devices' own memory" if kind == "device" else f"{kind} memory of the host"
        row(name, sets, functools.partial(turn, asked, kind), asked)
    reading(asked)
    if importlib.util.find_spec("ray") and importlib.util.find_spec("pyarrow"):
        row("fashion-infer run --ray auto", sets, functools.partial(command, asked), asked)
    else:
        print("fashion-infer run --ray auto: Ray or PyArrow is not installed here, so it was not measured")


def gpus():
    from fashion_infer.library import devices

    return len(devices.cuda_devices())


def row(name, sets, measure, asked):
    """Turns of one GPU and of all, one after the other; their medians."""
    turns = [[] for _ in sets]
    for _ in range(asked.repeat):
        for place, some in enumerate(sets):
            turns[place].append(measure(some))
    rates = [statistics.median(each) for each in turns]
    for some, rate, each in zip(sets, rates, turns):
        every = " ".join(f"{one:,.0f}" for one in each)
        print(f"{name:<34} {len(some):>4} {rate:>14,.0f} {rate / rates[0]:>6.2f}  {every}", flush=True)


def turn(asked, kind, some):
    """Images a second of these GPUs together, from the first beginning to the last end."""
    context = multiprocessing.get_context("spawn")
    barrier, queue = context.Barrier(len(some)), context.Queue()
    processes = [context.Process(target=one_gpu, args=(asked, kind, gpu, barrier, queue)) for gpu in some]
    for process in processes:
        process.start()
    found = [queue.get(timeout=300) for _ in some]
    for process in processes:
        process.join()
    wrong = [said for said in found if isinstance(said, str)]
    if wrong:
        sys.exit(f"wrong: {wrong[0]}")
    return sum(images for images, _, _ in found) / (max(f[2] for f in found) - min(f[1] for f in found))


def one_gpu(asked, kind, gpu, barrier, queue):
    """In a process of its own: (images, beginning, end) into the queue, or what is wrong."""
    try:
        queue.put(measured(asked, kind, gpu, barrier))
    except BaseException as error:
        barrier.abort()
        queue.put(f"GPU {gpu}: {type(error).__name__}: {error}")


def measured(asked, kind, gpu, barrier):
    model = models.load(Request(asked.model))
    shape, checkpoint = (1, model.input_size, model.input_size), model.checkpoint
    few, _ = synthetic.draw(0, CHECKED)
    images = np.resize(resize(few, model.input_size), (asked.slice, *shape))

    def network(backend):
        return FusedNetwork(checkpoint.symbol, checkpoint.weights, shape, backend, gpu if backend == "gpu" else 0)

    thread_pool.resize(1 if asked.backend == "cpu" else None)
    want = network("cpu").forward(images[:CHECKED])
    run, scores = (resident if kind == "device" else hosted)(asked, kind, gpu, images, network)
    run()  # the first launch of a kernel loads it
    off = float(np.abs(scores()[:CHECKED] - want).max())
    if off > 1e-4:
        raise AssertionError(f"scores differ from the CPU's by {off}")
    begin = time.perf_counter()
    run()
    turns = max(1, round(asked.seconds / (time.perf_counter() - begin)))
    barrier.wait(120)
    begin = time.time()
    for _ in range(turns):
        run()
    return turns * asked.slice, begin, time.time()


def resident(asked, kind, gpu, images, network):
    """Images and scores stay on the device; the host waits for each slice, as it would for scores that it wants."""
    import torch

    torch.cuda.set_device(gpu)
    fused = network("gpu")
    data = torch.from_numpy(images).cuda()
    out = torch.empty((len(images), int(np.prod(fused.stages[-1].output))), device="cuda")
    stream = torch.cuda.Stream()

    def run():
        fused.launch(len(images), data.data_ptr(), np.uint8, out.data_ptr(), stream.cuda_stream)
        stream.synchronize()

    return run, lambda: out.cpu().numpy()


def hosted(asked, kind, gpu, images, network):
    """Images in the host's memory go to the device and their scores come back, in as many lanes as a worker has."""
    lanes = [network(asked.backend) for _ in range(LANES if asked.backend == "gpu" else 1)]
    scores = np.empty((len(images), int(np.prod(lanes[0].stages[-1].output))), np.float32)
    if kind == "pinned":
        import torch

        images = torch.from_numpy(images).pin_memory().numpy()
        scores = torch.from_numpy(scores).pin_memory().numpy()

    def work(lane, start):
        part = slice(start, start + SLICE)
        lane.forward(images[part], out=scores[part])
        scores[part].argmax(axis=1)

    return lambda: share(lanes, range(0, len(images), SLICE), work), lambda: scores


def reading(asked):
    """What one core makes ready in a second: drawn, and read from an array that lies in the file system's cache."""
    size = models.load(Request(asked.model)).input_size
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "images.npy")
        np.save(path, synthetic.draw(0, 20_000)[0])
        for name, read in (
            ("drawn (--data synthetic)", lambda: synthetic.draw(0, 20_000)[0]),
            ("read from a .npy", lambda: np.load(path)),
        ):
            times = []
            for _ in range(asked.repeat):
                begin = time.perf_counter()
                resize(read(), size)
                times.append(time.perf_counter() - begin)
            print(f"{name + ', one core':<34} {'':>4} {20_000 / statistics.median(times):>14,.0f}", flush=True)


def command(asked, some):
    """Images a second that `run --ray auto` says of its node, with these GPUs alone."""
    words = ["run", "--model", asked.model, "--n", str(asked.images), "--data", "synthetic", "--ray", "auto", "--json"]
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ",".join(map(str, some))}
    line = [sys.executable, "-m", "fashion_infer", *words, "--backend", asked.backend]
    done = subprocess.run(line, env=environment, stdout=subprocess.PIPE, check=True)
    return sum(node["images_per_second"] for node in json.loads(done.stdout)["nodes"])


if __name__ == "__main__":
    main()
