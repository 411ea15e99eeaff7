"""Measures many images on one GPU and on all GPUs. scripts/scale_gpu runs this.

There is one process per GPU, with the same fused network as a worker of `run --ray`. All processes start a turn
together. Neither MXNet nor Ray is needed; if Ray is installed, `fashion-infer run --ray auto` is measured as well. The
result of each turn is printed when it ends. Each row of the table has a time limit. What was not measured by then is
reported as missing, and the exit code is 1.
"""

import argparse
import contextlib
import importlib.util
import json
import multiprocessing
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

from fashion_infer.data import synthetic
from fashion_infer.data.resize import resize
from fashion_infer.inference import model as models
from fashion_infer.library import thread_pool
from fashion_infer.library.fused import FusedNetwork
from fashion_infer.request import Request
from fashion_infer.system.sharing import share

_START = 25.0  # time limit in seconds to start a process and prepare a kind
LANES, SLICE, CHECKED = 3, 25_000, 2_000  # as in a worker (fashion_infer/scale/worker.py); CHECKED images are compared


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="ece408-high")
    parser.add_argument(
        "--seconds", type=float, default=15.0, help="approximate time per row; Ray's row takes three times this"
    )
    parser.add_argument("--repeat", type=int, default=3, help="turns per row, if its seconds suffice")
    parser.add_argument("--slice", type=int, default=100_000, help="images on a device and in a host buffer")
    parser.add_argument("--images", type=int, default=2_000_000, help="images of the command on Ray")
    parser.add_argument("--rows", default="device,pinned,pageable,reading,ray", help="rows to measure, in this order")
    parser.add_argument("--backend", choices=["gpu", "cpu"], default="gpu", help="cpu only tests the script")
    asked = parser.parse_args()
    begin, rows, wrong = time.monotonic(), asked.rows.split(","), []
    count = gpus() if asked.backend == "gpu" else 2
    sets = [(0,)] if count < 2 else [(0,), tuple(range(count))]
    kinds = [kind for kind in rows if kind in ("device", "pinned", "pageable")]
    kinds = kinds if asked.backend == "gpu" else [kind for kind in kinds if kind == "pageable"]
    print(f"{asked.model}, slices of {asked.slice:,} images, {len(os.sched_getaffinity(0))} cores, {count} GPU(s)")
    print(f"{'from':<34} {'GPUs':>4} {'images/s':>14} {'x one':>6}  turns", flush=True)
    if kinds:
        with Workers(asked, count) as workers:
            for kind in kinds:
                name = "the devices' own memory" if kind == "device" else f"{kind} memory of the host"
                wrong += row(name, sets, workers, kind, asked)
    if "reading" in rows:
        reading(asked)
    if "ray" in rows and importlib.util.find_spec("ray") and importlib.util.find_spec("pyarrow"):
        wrong += on_ray(sets, asked)
    elif "ray" in rows:
        print("fashion-infer run --ray auto: Ray or PyArrow is not installed here, so it was not measured")
    print(f"{time.monotonic() - begin:.0f} s in all; {len(wrong)} rows are incomplete", flush=True)
    return 1 if wrong else 0


def gpus():
    from fashion_infer.library import devices

    return len(devices.cuda_devices())


def row(name, sets, workers, kind, asked):
    """Measure one GPU and all GPUs in turns, for the given seconds per row; return a list of errors."""
    try:
        workers.ask(range(workers.count), ("prepare", kind), _START)
        end, turns = time.monotonic() + asked.seconds, [[] for _ in sets]
        each = asked.seconds / (asked.repeat * len(sets)) * 0.8  # the remaining time is for overhead between turns
        for _ in range(asked.repeat):
            for place, some in enumerate(sets):
                if all(turns) and time.monotonic() + each > end:
                    break
                found = workers.ask(some, ("turn", each), each + 10)
                images, seconds = sum(f[0] for f in found), max(f[2] for f in found) - min(f[1] for f in found)
                turns[place].append(images / seconds)
                print(f"    {name}, {len(some)}: {turns[place][-1]:,.0f} images/s", flush=True)
    except Failed as error:
        print(f"{name:<34} {error}", flush=True)
        return [name]
    summary(name, sets, turns)
    return []


def summary(name, sets, turns):
    """Print a row with the medians of the turns."""
    rates = [statistics.median(each) for each in turns]
    for some, rate, each in zip(sets, rates, turns):
        every = " ".join(f"{one:,.0f}" for one in each)
        print(f"{name:<34} {len(some):>4} {rate:>14,.0f} {rate / rates[0]:>6.2f}  {every}", flush=True)


class Failed(Exception):
    """Raised when a row cannot be measured; its text is the reason."""


class Workers:
    """One process per GPU, started once, because starting a process and its device takes seconds."""

    def __init__(self, asked, count):
        context = multiprocessing.get_context("spawn")
        self.count, self._pipes, self._processes = count, [], []
        for gpu in range(count):
            ours, theirs = context.Pipe()
            process = context.Process(target=one_gpu, args=(asked, gpu, theirs), daemon=True)
            process.start()
            theirs.close()
            self._pipes.append(ours)
            self._processes.append(process)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        for pipe, process in zip(self._pipes, self._processes):
            with contextlib.suppress(OSError):
                pipe.send(None)
            process.join(5)
            process.kill()

    def ask(self, some, what, seconds):
        """Send a request to some processes concurrently and return their answers; raise Failed on an error or delay."""
        end = time.monotonic() + seconds
        for gpu in some:
            with contextlib.suppress(OSError):
                self._pipes[gpu].send(what)
        found = []
        for gpu in some:
            try:
                if not self._pipes[gpu].poll(max(0.0, end - time.monotonic())):
                    self._processes[gpu].kill()  # a late answer would be mistaken for the answer to the next request
                    raise Failed(f"GPU {gpu} did not answer within {seconds:g} s")
                found.append(self._pipes[gpu].recv())
            except (EOFError, OSError):
                raise Failed(f"GPU {gpu}: its process ended") from None
        for one in found:
            if isinstance(one, str):
                raise Failed(one)
        return found


def one_gpu(asked, gpu, pipe):
    """Prepare a kind and run its turns; this is the main function of a GPU's process.

    Processes start a turn on request, all within milliseconds, and report the start time.
    """
    model = models.load(Request(asked.model))
    run = None
    for what, given in iter(pipe.recv, None):
        try:
            if what == "prepare":
                run = None  # free the previous kind's memory first
                run = prepared(asked, given, gpu, model)
                pipe.send((0, 0.0, 0.0))
                continue
            begin, turns = time.time(), 0
            while time.time() < begin + given or not turns:
                run()
                turns += 1
            pipe.send((turns * asked.slice, begin, time.time()))
        except BaseException as error:
            pipe.send(f"GPU {gpu}: {type(error).__name__}: {error}")


def prepared(asked, kind, gpu, model):
    """Return a function that computes a slice's scores; raise if they differ from those of the CPU."""
    shape, checkpoint = (1, model.input_size, model.input_size), model.checkpoint
    few, _ = synthetic.draw(0, CHECKED)
    images = np.resize(resize(few, model.input_size), (asked.slice, *shape))

    def network(backend):
        return FusedNetwork(checkpoint.symbol, checkpoint.weights, shape, backend, gpu if backend == "gpu" else 0)

    thread_pool.resize(1 if asked.backend == "cpu" else None)
    want = network("cpu").forward(images[:CHECKED])
    run, scores = (resident if kind == "device" else hosted)(asked, kind, gpu, images, network)
    run()  # the first launch of a kernel also loads it
    off = float(np.abs(scores()[:CHECKED] - want).max())
    if off > 1e-4:
        raise AssertionError(f"scores differ from the CPU's by {off}")
    return run


def resident(asked, kind, gpu, images, network):
    """Return two functions: one computes a slice's scores on the device and waits, one returns them.

    Images and scores stay on the device.
    """
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
    """Return two functions: one computes a slice's scores in as many lanes as a worker, one returns them.

    Images and scores are in host memory. Copies to and from the device are part of the computation.
    """
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
    """Measure and print how many images per second one core draws, and reads from an array in the file cache."""
    size = models.load(Request(asked.model)).input_size
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "images.npy")
        np.save(path, synthetic.draw(0, 20_000)[0])
        for name, read in (
            ("drawn (--data synthetic)", lambda: synthetic.draw(0, 20_000)[0]),
            ("read from a .npy", lambda: np.load(path)),
        ):
            times, end = [], time.monotonic() + asked.seconds / 2
            while len(times) < asked.repeat and (not times or time.monotonic() + times[-1] < end):
                begin = time.perf_counter()
                resize(read(), size)
                times.append(time.perf_counter() - begin)
            print(f"{name + ', one core':<34} {'':>4} {20_000 / statistics.median(times):>14,.0f}", flush=True)


def on_ray(sets, asked):
    """Measure `run --ray auto` with one GPU and with all, as often as time allows; return a list of errors."""
    name, end, turns = "fashion-infer run --ray auto", time.monotonic() + 3 * asked.seconds, [[] for _ in sets]
    longest = 0.0
    for _ in range(asked.repeat):
        for place, some in enumerate(sets):
            if all(turns) and time.monotonic() + longest > end:
                break
            begin = time.monotonic()
            left = (end - begin) / (1 if any(turns) else len(sets))  # leave time for the other sets after the first run
            try:
                turns[place].append(command(asked, some, max(5.0, left)))
            except Failed as error:
                print(f"{name:<34} {len(some):>4} {error}", flush=True)
                return [name]
            longest = max(longest, time.monotonic() - begin)
            print(
                f"    {name}, {len(some)}: {turns[place][-1]:,.0f} images/s, {time.monotonic() - begin:.1f} s in all",
                flush=True,
            )
    summary(name, sets, turns)
    return []


def command(asked, some, seconds):
    """Return the images per second that `run --ray auto` reports with only these GPUs; raise Failed after `seconds`."""
    words = ["run", "--model", asked.model, "--n", str(asked.images), "--data", "synthetic", "--ray", "auto", "--json"]
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ",".join(map(str, some))}
    line = [sys.executable, "-m", "fashion_infer", *words, "--backend", asked.backend]
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "start_new_session": True}
    with subprocess.Popen(line, env=environment, **options) as running:
        try:
            out, err = running.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            running.send_signal(signal.SIGINT)  # SIGINT lets the command stop its Ray
            with contextlib.suppress(subprocess.TimeoutExpired):
                running.communicate(timeout=5)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(running.pid, signal.SIGKILL)
            raise Failed(f"did not end within {seconds:.0f} s: fewer --images, or more --seconds") from None
    if running.returncode:
        raise Failed(f"ended with {running.returncode}: {(err.strip().splitlines() or ['?'])[-1][:200]}")
    return sum(node["images_per_second"] for node in json.loads(out)["nodes"])


if __name__ == "__main__":
    sys.exit(main())
