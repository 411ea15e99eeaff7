"""What makes `import mxnet` fast: the Python function of an operator is made when it is first called.

MXNet writes and compiles the source of some 3,000 Python functions, one for each operator and namespace, when
it is imported, and half of them again whenever an operator library is loaded. Of 0.82 s for the import that took
0.5 s, and nearly all of 0.5 s for the load (Python 3.11, two Xeon cores). Put off, they leave 0.25 s and 0.02 s.

Also put off is what MXNet imports but that inference never calls: 0.1 s, and where SciPy is installed 0.5 s more for
`scipy.stats` alone. scikit-learn, with pandas behind it, is kept out of sight: MXNet takes a base class from it for
mx.model.FeedForward, and does without where there is none.
"""

import contextlib
import functools
import importlib.machinery
import importlib.util
import sys
import threading
import types

_LAZY_MODULES = ("mxnet.test_utils", "mxnet.contrib.quantization", "requests")
_HIDDEN_MODULES = ("sklearn",)


@contextlib.contextmanager
def fast_mxnet_import():
    """A context in which `import mxnet` takes the short way. Nothing that it puts off is lost."""
    stand_in = _distutils()
    absent = "distutils" not in sys.modules
    if absent:
        sys.modules.update(stand_in)
    finder = _Finder(threading.get_ident())
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        if absent:
            for name in stand_in:
                sys.modules.pop(name, None)


class _Finder:
    """Finds modules where they are always found, and changes how the few named here are loaded by this one thread."""

    def __init__(self, thread):
        self._thread = thread

    def find_spec(self, name, path=None, target=None):
        if threading.get_ident() != self._thread:
            return None
        if name in _HIDDEN_MODULES:
            raise ModuleNotFoundError(f"{name} is kept out of MXNet's import", name=name)
        if name != "mxnet.base" and name not in _LAZY_MODULES:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None:
            wrap = _BaseLoader if name == "mxnet.base" else importlib.util.LazyLoader
            spec.loader = wrap(spec.loader)
        return spec


class _BaseLoader:
    """Loads mxnet.base, then wraps its two functions that make every operator's function."""

    def __init__(self, loader):
        self._loader = loader

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module):
        self._loader.exec_module(module)
        module._init_op_module = _with_lazy_operators(module._init_op_module)
        module._init_np_op_module = _with_lazy_operators(module._init_np_op_module)


def _with_lazy_operators(init):
    """`init(..., make_op_func)` with a make_op_func whose functions make themselves when first called."""

    @functools.wraps(init)
    def wrapper(*args, make_op_func=None, **kwargs):
        if make_op_func is None:
            *args, make_op_func = args
        return init(*args, make_op_func=functools.partial(_lazy_operator, make_op_func), **kwargs)

    return wrapper


def _lazy_operator(make, handle, name, func_name):
    real = functools.lru_cache(maxsize=None)(functools.partial(make, handle, name, func_name))

    def operator(*args, **kwargs):
        return real()(*args, **kwargs)

    operator.__name__ = operator.__qualname__ = func_name
    operator.__doc__ = f"MXNet's operator {name}."
    return operator


def _distutils():
    """A stand-in for distutils.version, all that MXNet needs of a package that Python 3.12 no longer has.

    It serves older Pythons too: their own warns that it will go, and setuptools' takes 0.04 s to import.
    """
    version = types.ModuleType("distutils.version")
    version.StrictVersion = version.LooseVersion = _version
    package = types.ModuleType("distutils")
    package.version = version
    return {"distutils": package, "distutils.version": version}


def _version(text):
    from packaging.version import Version

    return Version(text)
