"""A faster `import mxnet`: the Python function of an operator is created when it is first called.

MXNet compiles some 3,000 functions at import, and half of them again whenever an operator library is loaded. Modules
that inference never uses are deferred too. scikit-learn, which imports pandas, is hidden: MXNet needs it only for
mx.model.FeedForward, and works without it.
"""

import contextlib
import functools
import importlib.machinery
import importlib.util
import sys
import threading
import types
import warnings

_LAZY_MODULES = ("mxnet.test_utils", "mxnet.contrib.quantization", "requests")
_HIDDEN_MODULES = ("sklearn",)


@contextlib.contextmanager
def fast_mxnet_import():
    """Return a context in which `import mxnet` is fast. All deferred functions and modules stay available."""
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
    """Finds modules in their usual places, but changes how this thread loads the few modules named here."""

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
    """Loads mxnet.base, then wraps its two functions that create all operators' functions."""

    def __init__(self, loader):
        self._loader = loader

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module):
        self._loader.exec_module(module)
        module._init_op_module = _with_lazy_operators(module._init_op_module)
        module._init_np_op_module = _with_lazy_operators(module._init_np_op_module)


def _with_lazy_operators(init):
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
    """Create a replacement for distutils.version, which MXNet needs and Python 3.12 no longer has."""
    version = types.ModuleType("distutils.version")
    version.StrictVersion = version.LooseVersion = _version
    package = types.ModuleType("distutils")
    package.version = version
    return {"distutils": package, "distutils.version": version}


def _version(text):
    from packaging.version import Version

    return Version(text)


def restore_numpy_names(np):
    """Restore names that NumPy removed and MXNet needs; return those names. Present names are not replaced."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # NumPy 1.24 to 1.26 warn on every access to np.bool
        missing = [name for name in _REMOVED if not hasattr(np, name)]
    for name in missing:
        setattr(np, name, _REMOVED[name](np))
    return missing


def _financial(name):
    def moved(*_args, **_kwargs):
        raise NotImplementedError(f"NumPy has no {name} any more: use numpy_financial.{name}")

    return lambda np: moved


# Key: a name; value: a function that returns the name's value for the installed NumPy.
_REMOVED = {
    "Inf": lambda np: np.inf,
    "NAN": lambda np: np.nan,
    "NINF": lambda np: -np.inf,
    "NZERO": lambda np: -0.0,
    "NaN": lambda np: np.nan,
    "PINF": lambda np: np.inf,
    "PZERO": lambda np: 0.0,
    "alltrue": lambda np: np.all,
    "bool": lambda np: bool,
    "in1d": lambda np: lambda ar1, ar2, *args, **kwargs: np.isin(np.ravel(ar1), ar2, *args, **kwargs),
    "msort": lambda np: lambda a: np.sort(a, axis=0),
    "product": lambda np: np.prod,
    "round_": lambda np: np.round,
    "sometrue": lambda np: np.any,
    "trapz": lambda np: np.trapezoid,
}
_REMOVED.update({name: _financial(name) for name in ("mirr", "npv", "pmt", "ppmt", "pv", "rate")})
