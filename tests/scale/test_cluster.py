"""A cluster of two nodes, emulated on this machine, gives the results of one process.

It does so even if a worker and a node die.
"""

import dataclasses
import importlib.util
import os
import signal
import sys
import time

import numpy as np
import profiles
import pytest
import results

from fashion_infer.errors import DataError, DeviceError
from fashion_infer.scale import cluster, nodes, sources
from fashion_infer.scale.classify import classify
from fashion_infer.scale.folder import ResultFolder

no_ray = pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="Ray needs Python 3.10 or newer")
pytestmark = [no_ray, pytest.mark.slow]


@pytest.fixture(scope="module")
def two_nodes(ray_head):
    for _ in range(2):
        ray_head.add_node(num_cpus=1, object_store_memory=100 << 20)
    return ray_head


def another_node(made):
    """Return a node to which this process is not attached. If its own node were killed, the process would end too."""
    import ray

    here = ray.get_runtime_context().get_node_id()
    return next(node for node in made.worker_nodes if node.node_id != here)


def claim(planned):
    """Do what `classify` does before it distributes blocks: claim the folder of results."""
    ResultFolder(planned.spec.out, planned.spec.identity).claim(planned.facts)


def check(folder, count, one_process=None):
    """Check that the results have every image once, in order, and are those of `one_process` if it is given."""
    found = results.table(folder)
    assert np.array_equal(results.column(found, "index"), np.arange(count))
    if one_process is not None:
        assert np.array_equal(results.column(found, "class"), one_process.predictions)
        assert np.array_equal(results.column(found, "scores"), one_process.scores)


@pytest.mark.parametrize("apart", profiles.drawn([False, True], 1))
def test_two_nodes_give_the_results_of_one_process(two_nodes, one_process, images, tmp_path, apart):
    """With `apart`, separate tasks read the images for the workers, as on GPUs."""
    np.save(tmp_path / "a.npy", images[0][:400])
    of = [*sources.of([str(tmp_path / "a.npy")]), sources.held(images[0][400:])]
    held = (images[0][400:], images[1][400:])
    planned = results.planned(of, tmp_path / "out", block_size=45, scores=True, held=held)
    claim(planned)
    done = list(cluster.execute(planned, range(len(planned.blocks)), two_nodes.address, separate_readers=apart))
    assert sorted(one.block for one in done) == list(range(len(planned.blocks)))
    check(tmp_path / "out", 700, one_process)


def test_an_error_on_a_node_is_raised_here(two_nodes, images, tmp_path):
    np.save(tmp_path / "a.npy", images[0])
    planned = results.planned(sources.of([str(tmp_path / "a.npy")]), tmp_path / "out", block_size=100)
    (tmp_path / "a.npy").unlink()
    with pytest.raises(DataError) as error:
        classify(planned, two_nodes.address)
    assert "\n" not in str(error.value)


def test_a_cluster_without_a_gpu_or_enough_cpus(two_nodes):
    planned = results.drawn(10)
    with pytest.raises(DeviceError):
        classify(planned._replace(spec=planned.spec._replace(backend="gpu")), two_nodes.address)
    with pytest.raises(DeviceError):
        classify(planned._replace(spec=planned.spec._replace(threads=2)), two_nodes.address)


def test_no_cluster_at_the_address():
    with pytest.raises(DeviceError), nodes.connected("127.0.0.1:1"):
        pass


def test_ctrl_c_keeps_finished_blocks(two_nodes, tmp_path, interruptible):
    words = ["run", "--n", "1000000", "--data", "synthetic", "--block-size", "500", "--backend", "cpu"]
    command = [sys.executable, "-m", "fashion_infer", *words, "--ray", two_nodes.address, "--out", str(tmp_path)]
    running = interruptible(command)
    deadline = time.monotonic() + 300
    while not list(tmp_path.glob("part-*")) and time.monotonic() < deadline and running.poll() is None:
        time.sleep(0.1)
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=60)
    assert running.returncode == 130 and err == "fashion-infer: interrupted\n", err
    assert out == "Loading model... done\n"
    kept = sorted(path.name for path in tmp_path.iterdir() if path.name[0] == "p")
    assert kept and all(results.parquet.read_metadata(tmp_path / name).num_rows == 500 for name in kept)


class _Deadly:
    def __reduce__(self):
        return os._exit, (1,)


def test_a_block_that_kills_its_workers_ends_the_job(two_nodes, tmp_path):
    planned, tries = results.drawn(300, tmp_path, block_size=50), profiles.pick(1, 3)
    make = planned.blocks.block
    planned.blocks.block = lambda index: (
        dataclasses.replace(make(index), parts=(_Deadly(),)) if index == 3 else make(index)
    )
    claim(planned)
    with pytest.raises(DeviceError):
        list(cluster.execute(planned, range(6), two_nodes.address, tries=tries))


def test_results_are_complete_after_a_worker_and_a_node_die(two_nodes, one_process, tmp_path):
    """This must be the last test of the file, because one of the two nodes is gone afterwards."""
    count, size = profiles.pick(24_000, 400_000), 1000
    planned, done = results.drawn(count, tmp_path, block_size=size, scores=True), []
    claim(planned)
    for one in cluster.execute(planned, range(len(planned.blocks)), two_nodes.address):
        done.append(one)
        if len(done) == 8:
            os.kill(one.process, signal.SIGKILL)
        if len(done) == 16:
            two_nodes.remove_node(another_node(two_nodes), allow_graceful=False)
    assert sorted(one.block for one in done) == list(range(count // size))
    check(tmp_path, count)
    found = results.table(tmp_path)
    assert np.array_equal(results.column(found, "scores")[:700], one_process.scores)
    again = results.planned(planned.blocks.sources, tmp_path, block_size=size, scores=True)
    assert sum(one.correct for one in done) == classify(again).correct
