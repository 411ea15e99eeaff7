"""Names that MXNet 1.9.1 uses and later NumPy releases removed."""

import warnings


def restore(np):
    """Restore names that NumPy removed and MXNet needs; return those names.

    Names that NumPy still has are not replaced: `numpy.ma` relies on `numpy.bool`, a scalar type again since 2.0.
    """
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


def _in1d(np):
    return lambda ar1, ar2, *args, **kwargs: np.isin(np.ravel(ar1), ar2, *args, **kwargs)


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
    "in1d": _in1d,
    "msort": lambda np: lambda a: np.sort(a, axis=0),
    "product": lambda np: np.prod,
    "round_": lambda np: np.round,
    "sometrue": lambda np: np.any,
    "trapz": lambda np: np.trapezoid,
}
_REMOVED.update({name: _financial(name) for name in ("mirr", "npv", "pmt", "ppmt", "pv", "rate")})
