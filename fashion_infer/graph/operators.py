"""Operators allowed in an untrusted network, with their attributes and allowed values.

Of MXNet's 1,171 operators, some call a function whose address is in an attribute (`_Native`), many crash the process on
unusual input, and some use unbounded memory. MXNet sees only those of this table, unless the user trusts the file.
"""

import re
from typing import Callable, Dict, List, Mapping, NamedTuple, Tuple

from ..errors import CheckpointError
from ..system.text import excerpt
from .structure import Graph, Node
from .symbol import BATCH_NORM, FIRST_MOVING, auxiliary

TRUST = "--trust-symbol"
_LARGEST_WINDOW = 4096  # pixels, the largest image
_MOST_UNITS = 1 << 24  # largest number of filters of a convolution, and of units of a fully connected layer
_TRUE, _FALSE = ("True", "true", "1"), ("False", "false", "0")
# Attributes that belong to no operator. MXNet reads them when it trains a network or creates variables.
_HIDDEN = re.compile(r"__.*__|(.*_)?(ctx_group|lr_mult|wd_mult|force_mirroring|mirror_stage)", re.DOTALL)


class Values(NamedTuple):
    words: str  # a description for messages
    fits: Callable[[str], bool]  # returns whether a value is allowed
    example: str  # an allowed value


def _numbers(text: str) -> List[int]:
    """Parse a size as MXNet and Python 2 wrote it: "(2, 2)", "[2,2]", "2", "(2L, 2L)"; empty for other text."""
    if not re.fullmatch(r"(?:\d{1,9}L?|[(\[] ?\d{1,9}L?(?:, ?\d{1,9}L?)*,?[)\]])", text, re.ASCII):
        return []
    return [int(number) for number in re.findall(r"\d+", text, re.ASCII)]


def _whole(low: int, high: int) -> Values:
    def fits(text: str) -> bool:
        return re.fullmatch(r"\d{1,9}", text, re.ASCII) is not None and low <= int(text) <= high

    return Values(f"a whole number from {low} to {high}", fits, str(max(low, 1)))


def _size(low: int, counts: Tuple[int, ...] = (2,), optional: bool = True) -> Values:
    """Return the allowed values of a two-dimensional size in pixels. An optional size may be omitted."""

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


_BORDERS = "(0, 0, 0, 0, 1, 1, 1, 1)"


def _borders(text: str) -> bool:
    """Return whether a text is a `pad_width` of four dimensions that pads only the last two, the pixels."""
    numbers = _numbers(text)
    return len(numbers) == 8 and not any(numbers[:4]) and all(number <= _LARGEST_WINDOW for number in numbers)


_WINDOW, _STEP, _BORDER = _size(1, optional=False), _size(1), _size(0)
_FLAG, _NUMBER = _word(*_TRUE, *_FALSE), Values("a number", _real, "0.5")
_OPTIONAL = Values("a number or None", lambda text: text == "None" or _real(text), "0.5")
_UNITS, _AXIS, _LAYOUT = _whole(1, _MOST_UNITS), _word("-1", "1"), _word("None", "NCHW", "NHWC")
_CHANNELS = _word("1")
_SPEED = {  # settings of cuDNN and of memory; they do not change results
    "workspace": _whole(0, 1 << 16),
    "cudnn_tune": _word("None", "off", "limited_workspace", "fastest"),
    "cudnn_off": _FLAG,
}


class Operator(NamedTuple):
    inputs: Callable[[Mapping[str, str]], int]  # returns the number of inputs for given attributes
    attributes: Mapping[str, Values] = {}  # allowed attributes
    required: Tuple[str, ...] = ()  # names of attributes that must be there


def _takes(count: int) -> Callable[[Mapping[str, str]], int]:
    return lambda attributes: count


def _with_bias(attributes: Mapping[str, str]) -> int:
    return 2 if attributes.get("no_bias", "False") in _TRUE else 3


_ELEMENTWISE, _PAIR = Operator(_takes(1)), Operator(_takes(2))
_SCALAR = Operator(_takes(1), {"scalar": _NUMBER, "is_int": _FLAG}, ("scalar",))
# Reductions over the pixels of an image; keepdims True gives (n, C, 1, 1).
_OVER_PIXELS = Operator(
    _takes(1), {"axis": _word("(2, 3)", "(2,3)", "[2, 3]"), "keepdims": _FLAG, "exclude": _word(*_FALSE)}, ("axis",)
)
_SUM = Operator(lambda attributes: int(attributes["num_args"]), {"num_args": _whole(1, 64)}, ("num_args",))
_PAD = Operator(
    _takes(1),
    {
        "mode": _word("constant", "edge", "reflect"),
        "pad_width": Values("eight numbers, four of them 0, such as (0, 0, 0, 0, 1, 1, 1, 1)", _borders, _BORDERS),
        "constant_value": _NUMBER,
    },
    ("mode", "pad_width"),
)
_FLATTEN = Operator(_takes(1))
_SOFTMAX = Operator(
    _takes(1),
    {"axis": _AXIS, "temperature": _OPTIONAL, "dtype": _word("None", "float32"), "use_length": _word(*_FALSE)},
)
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
    lambda attributes: int(attributes["num_args"]), {"num_args": _whole(1, 64), "dim": _CHANNELS}, ("num_args",)
)

# A Reshape may only keep the batch and flatten the other dimensions.
_RESHAPE = Operator(
    _takes(1), {"shape": _word("(0, -1)", "(0,-1)", "[0, -1]", "(0L, -1L)"), "reverse": _word(*_FALSE)}, ("shape",)
)
_UNARY = (
    *("tanh", "relu", "sigmoid", "softsign", "identity", "_copy", "BlockGrad"),
    *("abs", "negative", "square", "sqrt", "exp", "log", "erf"),
)
_BINARY = (
    *("elemwise_add", "_plus", "_Plus", "elemwise_sub", "_minus", "_Minus", "elemwise_mul", "_mul", "_Mul"),
    *("elemwise_div", "_div", "_Div", "_maximum", "_Maximum", "_minimum", "_Minimum"),
    *(f"broadcast_{what}" for what in ("add", "plus", "sub", "minus", "mul", "div", "maximum", "minimum")),
)
_WITH_SCALAR = (
    *("_plus_scalar", "_PlusScalar", "_minus_scalar", "_MinusScalar", "_mul_scalar", "_MulScalar"),
    *("_div_scalar", "_DivScalar", "_rminus_scalar", "_RMinusScalar", "_rdiv_scalar", "_RDivScalar"),
    *("_power_scalar", "_PowerScalar", "_maximum_scalar", "_MaximumScalar", "_minimum_scalar", "_MinimumScalar"),
)

TABLE: Dict[str, Operator] = {
    # Attributes that MXNet's convolution uses and `New` ignores must have the values that `New` implements.
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
    # For `rrelu`, the slope at inference is the mean of `lower_bound` and `upper_bound`.
    "LeakyReLU": Operator(
        lambda attributes: 2 if attributes.get("act_type") == "prelu" else 1,
        {
            "act_type": _word("leaky", "elu", "selu", "gelu", "prelu", "rrelu"),
            "slope": _NUMBER,
            "lower_bound": _NUMBER,
            "upper_bound": _NUMBER,
        },
    ),
    "Pooling": Operator(
        _takes(1),
        {
            "kernel": _WINDOW,
            "pool_type": _word("max", "avg", "sum", "lp"),
            "p_value": _word("1", "2", "3", "None"),
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
    "BatchNorm": Operator(
        _takes(5),
        {
            "eps": _NUMBER,
            "momentum": _NUMBER,
            "fix_gamma": _FLAG,
            "use_global_stats": _FLAG,
            "output_mean_var": _word(*_FALSE),
            "axis": _CHANNELS,
            "cudnn_off": _FLAG,
            "min_calib_range": _word("None"),
            "max_calib_range": _word("None"),
        },
    ),
    "LRN": Operator(
        _takes(1), {"nsize": _whole(1, 255), "alpha": _NUMBER, "beta": _NUMBER, "knorm": _NUMBER}, ("nsize",)
    ),
    "InstanceNorm": Operator(_takes(3), {"eps": _NUMBER}),
    "LayerNorm": Operator(_takes(3), {"axis": _word("-1"), "eps": _NUMBER, "output_mean_var": _word(*_FALSE)}),
    "GroupNorm": Operator(
        _takes(3), {"num_groups": _UNITS, "eps": _NUMBER, "output_mean_var": _word(*_FALSE)}, ("num_groups",)
    ),
    "L2Normalization": Operator(_takes(1), {"eps": _NUMBER, "mode": _word("instance", "channel", "spatial")}),
    "clip": Operator(_takes(1), {"a_min": _NUMBER, "a_max": _NUMBER}, ("a_min", "a_max")),
    "hard_sigmoid": Operator(_takes(1), {"alpha": _NUMBER, "beta": _NUMBER}),
    "SoftmaxActivation": Operator(_takes(1), {"mode": _word("instance", "channel")}),
    "Reshape": _RESHAPE,
    "reshape": _RESHAPE,
    "Pad": _PAD,
    "pad": _PAD,
    **dict.fromkeys(("mean", "max", "sum"), _OVER_PIXELS),
    **dict.fromkeys(("add_n", "ElementWiseSum"), _SUM),
    **dict.fromkeys(_UNARY, _ELEMENTWISE),
    **dict.fromkeys(_BINARY, _PAIR),
    **dict.fromkeys(_WITH_SCALAR, _SCALAR),
}


_PARAMETRIC = (BATCH_NORM, "InstanceNorm", "LayerNorm", "GroupNorm", "LeakyReLU")  # inputs after the data are weights


def check(graph: Graph, source: str) -> None:
    """Check a graph against the table, and remove attributes for training; CheckpointError if it is not allowed."""
    for node in graph["nodes"]:
        why = _refusal(node)
        if why:
            raise CheckpointError(f"{source}: node '{excerpt(node['name'])}' {why}")
    _check_weights(graph, source)
    if any(head[1:] != [0, 0] for head in graph["heads"]):
        raise CheckpointError(f"{source}: the network's output must be output 0 of its node")


def _check_weights(graph: Graph, source: str) -> None:
    """Check that inputs that must be weights are weights. A computed gamma of a BatchNorm, for one, crashes MXNet."""
    nodes, moving = graph["nodes"], set(auxiliary(graph))
    for node in nodes:
        for place, (number, *_) in enumerate(node["inputs"]):
            given = nodes[number]
            if place and node["op"] in _PARAMETRIC and (given["op"] != "null" or given["name"] == "data"):
                raise CheckpointError(
                    f"{source}: node '{excerpt(node['name'])}' reads {excerpt(given['name'])}, which is not a weight"
                )
            if number in moving and not (node["op"] == BATCH_NORM and place >= FIRST_MOVING):
                raise CheckpointError(
                    f"{source}: node '{excerpt(node['name'])}' reads {excerpt(given['name'])}, which is the mean or "
                    "variance of a batch normalisation"
                )


def _refusal(node: Node) -> str:
    """Return the reason why a node is not allowed; "" if it is allowed."""
    name = node["op"]
    attributes = node["attrs"] = {k: v for k, v in node["attrs"].items() if not _HIDDEN.fullmatch(k)}
    if name == "null":
        attributes.clear()
        return ""
    if name not in TABLE:
        return (
            f"has the operator {excerpt(name)}, which is not allowed in an untrusted file; if you trust "
            f"the file as you trust a program, use {TRUST}"
        )
    operator = TABLE[name]
    for key, value in attributes.items():
        if key not in operator.attributes:
            return f"has the attribute {excerpt(key)}, which is not allowed for {name} without {TRUST}"
        if not operator.attributes[key].fits(value):
            return f"has {key}={excerpt(value)}, which is not {operator.attributes[key].words}"
    for key in operator.required:
        if key not in attributes:
            return f"lacks its {key}"
    if attributes.get("pool_type") == "lp" and attributes.get("p_value", "None") == "None":
        return "lacks its p_value"
    if name == "Pooling" and attributes.get("global_pool") not in _TRUE:
        if "kernel" not in attributes:
            return "lacks its kernel"
        pad = _numbers(attributes.get("pad", "()"))
        if any(border >= window for border, window in zip(pad, _numbers(attributes["kernel"]))):
            return f"has pad={attributes['pad']}, which is as large as its kernel"
    wanted = operator.inputs(attributes)
    if len(node["inputs"]) != wanted:
        return f"has {len(node['inputs'])} inputs, and a {name} with its attributes takes {wanted}"
    moving = FIRST_MOVING if name == BATCH_NORM else wanted
    if any(entry[1:] != [0, 0] for entry in node["inputs"][:moving]) or any(
        entry[1:] not in ([0, 0], [0, 1])
        for entry in node["inputs"][moving:]  # the entry's version is 1 if training has changed a moving average
    ):
        return "has an input that is not the first output of a node"
    return ""
