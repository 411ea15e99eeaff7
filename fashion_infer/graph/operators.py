"""The operators that a network from outside may have, with their attributes and the values that these may take.

MXNet 1.9.1 has 1,171 operators. Some of them call through a pointer that they take from an attribute (`_Native`), many
crash the process when they are given what a program would never give them, and some take memory without bound. A
network that classifies images needs those of this table. All else is refused before MXNet sees it, unless the user
trusts the file.
"""

import re
from typing import Callable, Dict, List, Mapping, NamedTuple, Tuple

from ..errors import CheckpointError
from ..system.text import excerpt
from .structure import Graph, Node

TRUST = "--trust-symbol"
_LARGEST_WINDOW = 4096  # pixels, the largest image
_MOST_UNITS = 1 << 24  # filters of a convolution, units of a layer
_TRUE, _FALSE = ("True", "true", "1"), ("False", "false", "0")
# What MXNet reads of a node without telling its operator: attributes of training, and of how variables are made.
_HIDDEN = re.compile(r"__.*__|(.*_)?(ctx_group|lr_mult|wd_mult|force_mirroring|mirror_stage)", re.DOTALL)


class Values(NamedTuple):
    """What an attribute may be."""

    words: str  # for messages
    fits: Callable[[str], bool]
    example: str


def _numbers(text: str) -> List[int]:
    """The numbers of a size as MXNet and Python 2 spelt them: "(2, 2)", "[2,2]", "2", "(2L, 2L)"; none for others."""
    if not re.fullmatch(r"(?:\d{1,9}L?|[(\[] ?\d{1,9}L?(?:, ?\d{1,9}L?)*,?[)\]])", text, re.ASCII):
        return []
    return [int(number) for number in re.findall(r"\d+", text, re.ASCII)]


def _whole(low: int, high: int) -> Values:
    def fits(text: str) -> bool:
        return re.fullmatch(r"\d{1,9}", text, re.ASCII) is not None and low <= int(text) <= high

    return Values(f"a whole number from {low} to {high}", fits, str(max(low, 1)))


def _size(low: int, counts: Tuple[int, ...] = (2,), optional: bool = True) -> Values:
    """A size in pixels of two dimensions; an optional one may be left to MXNet."""

    def fits(text: str) -> bool:
        if optional and text in ("()", "[]", "None"):
            return True
        numbers = _numbers(text)
        return len(numbers) in counts and all(low <= number <= _LARGEST_WINDOW for number in numbers)

    return Values(
        f"a size such as (2, 2), of numbers from {low} to {_LARGEST_WINDOW}", fits, "(2, 2)" if low else "(1, 1)"
    )


def _word(*known: str) -> Values:
    return Values(f"one of {', '.join(known)}", lambda text: text in known, known[0])


def _real(text: str) -> bool:
    return re.fullmatch(r"[-+]?(\d{1,20}(\.\d{0,20})?|\.\d{1,20})([eE][-+]?\d{1,2})?", text, re.ASCII) is not None


_WINDOW, _STEP, _BORDER = _size(1, optional=False), _size(1), _size(0)
_FLAG, _NUMBER = _word(*_TRUE, *_FALSE), Values("a number", _real, "0.5")
_OPTIONAL = Values("a number or None", lambda text: text == "None" or _real(text), "0.5")
_UNITS, _AXIS, _LAYOUT = _whole(1, _MOST_UNITS), _word("-1", "1"), _word("None", "NCHW", "NHWC")
_SPEED = {  # of cuDNN and of memory: they change no result
    "workspace": _whole(0, 1 << 16),
    "cudnn_tune": _word("None", "off", "limited_workspace", "fastest"),
    "cudnn_off": _FLAG,
}


class Operator(NamedTuple):
    """What a node of an operator may be."""

    inputs: Callable[[Mapping[str, str]], int]  # how many it has, by its attributes
    attributes: Mapping[str, Values] = {}
    required: Tuple[str, ...] = ()


def _takes(count: int) -> Callable[[Mapping[str, str]], int]:
    return lambda attributes: count


def _with_bias(attributes: Mapping[str, str]) -> int:
    return 2 if attributes.get("no_bias", "False") in _TRUE else 3


_ELEMENTWISE, _PAIR = Operator(_takes(1)), Operator(_takes(2))
_SCALAR = Operator(_takes(1), {"scalar": _NUMBER, "is_int": _FLAG}, ("scalar",))
_FLATTEN = Operator(_takes(1))
_SOFTMAX = Operator(
    _takes(1),
    {"axis": _AXIS, "temperature": _OPTIONAL, "dtype": _word("None", "float32"),
     "use_length": _word(*_FALSE)},
)  # fmt: skip
_OUTPUT = Operator(
    _takes(2),
    {
        "grad_scale": _NUMBER,
        "ignore_label": _NUMBER,
        "multi_output": _FLAG,
        "use_ignore": _FLAG,
        "preserve_shape": _FLAG,
        "normalization": _word("null", "batch", "valid"),
        "out_grad": _FLAG,
        "smooth_alpha": _NUMBER,
    },
)
_CONCAT = Operator(
    lambda attributes: int(attributes["num_args"]),
    {"num_args": _whole(1, 64), "dim": _word("1")},
    ("num_args",),
)

TABLE: Dict[str, Operator] = {
    # What a convolution of MXNet's would heed and `New` does not may only say what `New` does anyway.
    "New": Operator(
        _takes(2),
        {
            "kernel": _size(1, (1, 2), optional=False),
            "num_filter": _UNITS,
            "stride": _word("()", "[]", "None", "(1, 1)", "(1,1)", "[1, 1]", "(1L, 1L)"),
            "dilate": _word("()", "[]", "None", "(1, 1)", "(1,1)", "[1, 1]", "(1L, 1L)"),
            "pad": _word("()", "[]", "None", "(0, 0)", "(0,0)", "[0, 0]", "(0L, 0L)"),
            "num_group": _word("1"),
            "no_bias": _word(*_TRUE),
            "layout": _word("None", "NCHW"),
            **_SPEED,
        },
        ("kernel", "num_filter"),
    ),
    "Convolution": Operator(
        _with_bias,
        {
            "kernel": _WINDOW,
            "num_filter": _UNITS,
            "stride": _STEP,
            "dilate": _STEP,
            "pad": _BORDER,
            "num_group": _UNITS,
            "no_bias": _FLAG,
            "layout": _LAYOUT,
            **_SPEED,
        },
        ("kernel", "num_filter"),
    ),
    "FullyConnected": Operator(_with_bias, {"num_hidden": _UNITS, "no_bias": _FLAG, "flatten": _FLAG}, ("num_hidden",)),
    "Activation": Operator(
        _takes(1), {"act_type": _word("relu", "sigmoid", "tanh", "softrelu", "softsign")}, ("act_type",)
    ),
    "LeakyReLU": Operator(_takes(1), {"act_type": _word("leaky", "elu", "selu", "gelu"), "slope": _NUMBER}),
    "Pooling": Operator(
        _takes(1),
        {
            "kernel": _WINDOW,
            "pool_type": _word("max", "avg", "sum"),
            "global_pool": _FLAG,
            "pooling_convention": _word("valid", "full"),
            "stride": _STEP,
            "pad": _BORDER,
            "count_include_pad": _word("None", *_TRUE, *_FALSE),
            "layout": _LAYOUT,
            "cudnn_off": _FLAG,
        },
    ),
    "Dropout": Operator(_takes(1), {"p": _NUMBER, "mode": _word("training"), "axes": _word("()"), "cudnn_off": _FLAG}),
    "Flatten": _FLATTEN,
    "flatten": _FLATTEN,
    "SoftmaxOutput": _OUTPUT,
    "Softmax": _OUTPUT,
    "softmax": _SOFTMAX,
    "log_softmax": _SOFTMAX,
    "Concat": _CONCAT,
    "concat": _CONCAT,
    **dict.fromkeys(("tanh", "relu", "sigmoid", "identity", "_copy"), _ELEMENTWISE),
    **dict.fromkeys(("elemwise_add", "_plus", "_Plus", "broadcast_add"), _PAIR),
    **dict.fromkeys(("_plus_scalar", "_minus_scalar", "_mul_scalar", "_div_scalar"), _SCALAR),
}


def check(graph: Graph, source: str) -> None:
    """Check a graph from `structure.read` against the table, and drop attributes that do not concern inference.

    Parameters
    ----------
    graph
        Its nodes lose the attributes that MXNet keeps for training, its variables all attributes.
    source
        Where it came from, for messages.

    Raises
    ------
    CheckpointError
        For the first node that is not what the table says, with the reason.
    """
    for node in graph["nodes"]:
        why = _refusal(node)
        if why:
            raise CheckpointError(f"{source}: node '{excerpt(node['name'])}' {why}")
    if any(head[1:] != [0, 0] for head in graph["heads"]):
        raise CheckpointError(f"{source}: its output is not the first one of a node")


def _refusal(node: Node) -> str:
    """The reason why a node may not be; "" when it may."""
    name = node["op"]
    attributes = node["attrs"] = {k: v for k, v in node["attrs"].items() if not _HIDDEN.fullmatch(k)}
    if name == "null":
        attributes.clear()
        return ""
    if name not in TABLE:
        return (
            f"has the operator {excerpt(name)}, which is none of those that networks of this kind use; if you trust "
            f"the file as you trust a program: {TRUST}"
        )
    operator = TABLE[name]
    for key, value in attributes.items():
        if key not in operator.attributes:
            return f"has the attribute {excerpt(key)}, which is none of {name}'s here ({TRUST} leaves it to MXNet)"
        if not operator.attributes[key].fits(value):
            return f"has {key}={excerpt(value)}, which is not {operator.attributes[key].words}"
    for key in operator.required:
        if key not in attributes:
            return f"lacks its {key}"
    if name == "Pooling" and attributes.get("global_pool") not in _TRUE:
        if "kernel" not in attributes:
            return "lacks its kernel"
        pad = _numbers(attributes.get("pad", "()"))
        if any(border >= window for border, window in zip(pad, _numbers(attributes["kernel"]))):
            return f"has pad={attributes['pad']}, which is as large as its kernel"
    wanted = operator.inputs(attributes)
    if len(node["inputs"]) != wanted:
        return f"has {len(node['inputs'])} inputs, and a {name} like it takes {wanted}"
    if any(entry[1:] != [0, 0] for entry in node["inputs"]):
        return "takes another output of a node than its first"
    return ""
