"""The import of MXNet: NumPy's removed names, deferred imports, threads, log lines, and messages if it fails."""

import ctypes
import math
import os
import re
import subprocess
import sys
import types
import warnings
from pathlib import Path

import numpy as np
import pytest

import fashion_infer
from fashion_infer import _mxnet
from fashion_infer._mxnet import lazy_import, wheel

PACKAGE = Path(fashion_infer.__file__).parent


def fresh(code, *path, **environment):
    """Run Python code in a new process, which searches the folders `path` for modules first; return its output."""
    search = os.pathsep.join(map(str, (*path, PACKAGE.parent)))
    command = [sys.executable, "-c", code]
    return subprocess.run(
        command, env={**os.environ, "PYTHONPATH": search, **environment}, check=True, stdout=subprocess.PIPE, text=True
    ).stdout.strip()


class TestNumpyNames:
    def test_restored_names_have_their_old_meaning(self):
        kept = ("all", "any", "inf", "isin", "nan", "prod", "ravel", "round", "sort")
        old = types.SimpleNamespace(trapezoid="trapezoid", **{name: getattr(np, name) for name in kept})
        lazy_import.restore_numpy_names(old)
        a = np.array([[3.26, 1.0], [2.0, 0.0]])
        assert (old.PINF, old.NINF, old.Inf) == (np.inf, -np.inf, np.inf)
        assert math.isnan(old.NaN)
        assert math.isnan(old.NAN)
        assert math.copysign(1, old.NZERO) == -1
        assert math.copysign(1, old.PZERO) == 1
        assert old.bool is bool
        assert not old.alltrue(a)
        assert old.sometrue(a)
        assert old.product(a[0]) == 3.26
        assert old.round_(a, 1)[0, 0] == 3.3
        assert old.msort(a).tolist() == [[2.0, 0.0], [3.26, 1.0]]
        assert old.in1d(a, [1, 2]).tolist() == [False, True, True, False]
        assert old.in1d(a, [1, 2], invert=True).tolist() == [True, False, False, True]
        for name in ("mirr", "npv", "pmt", "ppmt", "pv", "rate"):
            with pytest.raises(NotImplementedError, match="numpy_financial." + name):
                getattr(old, name)(0.1, 2)

    def test_checking_for_names_does_not_warn(self):
        class Numpy(types.SimpleNamespace):
            def __getattr__(self, name):  # warns and raises, as NumPy 1.24 to 1.26 do for np.bool
                warnings.warn(f"np.{name} is going", FutureWarning, stacklevel=2)
                raise AttributeError(name)

        namespace = Numpy(**{name: "kept" for name in lazy_import._REMOVED if name != "bool"})
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert lazy_import.restore_numpy_names(namespace) == ["bool"]


class TestLoad:
    def test_deferred_imports(self, tmp_path):
        (tmp_path / "sklearn").mkdir()
        (tmp_path / "sklearn" / "__init__.py").write_text("")
        (tmp_path / "sklearn" / "base.py").write_text("class BaseEstimator:\n    pass\n")
        code = (
            "import sys; from fashion_infer import _mxnet; mx = _mxnet.load()\n"
            "print([name for name in ('distutils', 'sklearn', 'scipy.stats') if name in sys.modules])\n"
            "print(mx.sym.Convolution.__name__, mx.nd.ones((2, 3)).sum().asscalar(), mx.np.ones(2).sum())\n"
            "import requests, sklearn.base; print(callable(requests.get), sklearn.base.BaseEstimator.__name__)\n"
            "print(callable(mx.contrib.quantization.quantize_model), callable(mx.onnx.export_model))"
        )
        said = fresh(code, tmp_path).splitlines()
        assert said == ["[]", "Convolution 6.0 2.0", "True BaseEstimator", "True True"]


class TestThreads:
    CODE = (
        "import os, ctypes; from fashion_infer import _mxnet; SET; _mxnet.load()\n"
        "print(ctypes.CDLL('libgomp.so.1').omp_get_max_threads(), os.environ.get('OMP_NUM_THREADS'), "
        "os.environ.get('OMP_WAIT_POLICY'))"
    )

    @pytest.mark.parametrize(
        "given, call, threads, spins",
        [
            ({}, "0", len(os.sched_getaffinity(0)), "0"),
            ({"OMP_NUM_THREADS": "3", "OMP_WAIT_POLICY": "active"}, "0", 3, "30000000000"),
            ({"OMP_NUM_THREADS": "3"}, "_mxnet.set_threads(5)", 5, "0"),
        ],
    )
    def test_threads_and_their_waiting(self, given, call, threads, spins):
        """libgomp prints its settings when it is loaded. The environment stays as it was."""
        names = ("OMP_NUM_THREADS", "OMP_WAIT_POLICY")
        environment = {name: value for name, value in os.environ.items() if name not in names}
        environment.update(given, OMP_DISPLAY_ENV="verbose")
        command = [sys.executable, "-c", self.CODE.replace("SET", call)]
        done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
        found, *kept = done.stdout.split()
        assert int(found) == threads and f"GOMP_SPINCOUNT = '{spins}'" in done.stderr
        assert "set_threads" in call or kept == [str(given.get(name)) for name in names]

    def test_threads_set_after_loading_are_ignored(self):
        """With more threads than oneDNN had prepared a layer for, results were wrong."""
        _mxnet.load()
        openmp = ctypes.CDLL("libgomp.so.1")
        before = openmp.omp_get_max_threads()
        _mxnet.set_threads(before + 3)
        assert openmp.omp_get_max_threads() == before


class TestQuiet:
    def test_only_log_lines_are_dropped(self, capfd):
        with _mxnet.quiet():
            os.write(2, b"[18:59:59] ../src/nnvm/legacy_json_util.cc:208: Loading symbol saved by v0.11.0\n")
            os.write(2, b"a message that matters\n")
        os.write(2, b"[18:59:59] ../src/x.cc:1: after\n")
        assert capfd.readouterr().err == "a message that matters\n[18:59:59] ../src/x.cc:1: after\n"

    def test_without_stderr(self):
        code = "import os; os.close(2)\nfrom fashion_infer import _mxnet\nwith _mxnet.quiet(): print('ran')"
        assert fresh(code) == "ran"


def install_fake(folder, library=b"", **distributions):
    """Create a package mxnet of one module and one library, which these distributions list with these sizes."""
    (folder / "mxnet").mkdir()
    (folder / "mxnet" / "__init__.py").write_text("")
    (folder / "mxnet" / "libmxnet.so").write_bytes(library)
    for name, size in distributions.items():
        info = folder / f"{name}-1.9.1.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name.replace('_', '-')}\nVersion: 1.9.1\n")
        (info / "RECORD").write_text(f"mxnet/__init__.py,,0\nmxnet/libmxnet.so,sha256=0,{size}\n")


class TestBuild:
    CODE = "from fashion_infer import _mxnet; print(_mxnet.build())"

    @pytest.mark.parametrize(
        ("distributions", "build"),
        [
            ({}, "cpu"),  # no distribution lists its files
            ({"mxnet": 5}, "cpu"),
            ({"mxnet_cu112": 5}, "cu112"),
            ({"mxnet": 5, "mxnet_cu112": 9}, "cpu"),  # both are installed; the CPU library has the listed size
            ({"mxnet": 9, "mxnet_cu112": 5}, "cu112"),
        ],
    )
    def test_the_installed_wheel_is_recognised(self, tmp_path, distributions, build):
        install_fake(tmp_path, b"01234", **distributions)
        assert fresh(self.CODE, tmp_path) == build


class TestFailedImport:
    @pytest.mark.parametrize(
        ("library", "says"),
        [
            ("libcuda.so.1", "needs an NVIDIA driver, and libcuda.so.1 was not found"),
            ("libcudnn.so.8", r"libcudnn.so.8 was not found: .*cu112"),
            ("libgomp.so.1", "MXNet needs libgomp.so.1, .*Debian's package libgomp1"),
            ("libother.so", "MXNet cannot be imported .*libother.so"),
        ],
    )
    def test_a_missing_library(self, tmp_path, library, says):
        install_fake(tmp_path)
        message = f"{library}: cannot open shared object file: No such file or directory"
        (tmp_path / "mxnet" / "__init__.py").write_text(f"raise OSError({message!r})")
        code = (
            "from fashion_infer import _mxnet, errors\n"
            "try: _mxnet.load()\n"
            "except errors.DeviceError as error: print(error)"
        )
        text = fresh(code, tmp_path)
        assert len(text.splitlines()) == 1
        assert re.search(says, text)

    def test_cuda_11_is_loaded_from_its_wheels(self, tmp_path, monkeypatch):
        for package, names in {
            "cublas": ("libcublas.so.11", "libcublasLt.so.11"),
            "cuda_runtime": ("libcudart.so.11.0", "libcudart.so.12"),
        }.items():
            (tmp_path / "nvidia" / package / "lib").mkdir(parents=True)
            for name in names:
                (tmp_path / "nvidia" / package / "lib" / name).write_text("")
        monkeypatch.syspath_prepend(str(tmp_path))
        monkeypatch.delitem(sys.modules, "nvidia", raising=False)
        loaded = []

        def load(path, mode):
            assert mode == ctypes.RTLD_GLOBAL
            if tmp_path in Path(path).parents:  # not those of other wheels on this machine
                loaded.append(Path(path).name)
            raise OSError("damaged")  # ignored: MXNet's import will report the error

        monkeypatch.setattr(wheel.ctypes, "CDLL", load)
        wheel.preload_cuda_11()
        assert loaded == ["libcudart.so.11.0", "libcublasLt.so.11", "libcublas.so.11"]
