"""Which module may import which: read from the source, imports within functions included."""

import ast
import sys
from pathlib import Path

import pytest

import fashion_infer

PACKAGE = Path(fashion_infer.__file__).parent
# Who loads a library through ctypes, and why it is not in library/bindings.py: none of these is our own library.
CTYPES = {
    "library.bindings": "the operator library",
    "_mxnet.cuda_11": "dlopen of the CUDA libraries that MXNet links, with their symbols for all",
    "kernel_files.plugin": "kernels of users, which are libraries of their own",
    "profiling.demangle": "the C++ runtime's own demangler",
    "system.compilers": "whether there is a CUDA driver",
    "bench.machines.cpu": "memset and memmove, which are timed, and glibc's mallopt",
    "board.queue.lifeline": "the C library's prctl: a grader dies with its worker",
    "grading.inside.abi": "kernels of users, in a process that has neither NumPy nor this package",
    "grading.inside.kernels": "the same",
    "grading.inside.worker": "the same",
    "grading.inside.confine": "the C library's prctl and capset",
    "grading.inside.landlock": "the C library's syscall",
    "grading.inside.seccomp": "the C library's prctl",
    "grading.inside.driver": "the CUDA driver, for memory that two processes share",
    "grading.device.gpu": "the same",
    "grading.device.tensors": "the same",
}


def module_of(path):
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


SOURCES = {module_of(path): path for path in PACKAGE.rglob("*.py")}


def imports(module):
    """The modules that a module imports, our own without the package's name; a package stands for its __init__."""
    path = SOURCES[module]
    parts = module.split(".") if module else []
    package = parts if path.name == "__init__.py" else parts[:-1]
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {("other", alias.name.split(".")[0]) for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            found.add(("other", node.module.split(".")[0]))
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] + (node.module.split(".") if node.module else [])
            for alias in node.names:
                name = ".".join([*base, alias.name])
                found.add(("own", name if name in SOURCES else ".".join(base)))
    return found


OWN = {module: {name for kind, name in imports(module) if kind == "own"} for module in SOURCES}
OTHER = {module: {name for kind, name in imports(module) if kind == "other"} for module in SOURCES}


def reachable(module):
    """Every module of ours that a module imports, directly or not.

    The package itself is left out: it has the version, and imports the pipeline when `infer` is first asked for.
    """
    found, waiting = set(), [module]
    while waiting:
        for name in OWN[waiting.pop()] - found - {""}:
            found.add(name)
            waiting.append(name)
    return found


def test_the_whole_package_is_read():
    assert {"", "cli.main", "library.bindings", "_mxnet.loading", "pipeline"} <= set(SOURCES)
    assert "graph.layers" in OWN["checkpoints.editions"] and "numpy" in OTHER["data.resize"]


@pytest.mark.parametrize("module", sorted(SOURCES))
def test_no_module_imports_itself_in_a_circle(module):
    assert module not in reachable(module)


def test_mxnet_is_imported_in_one_room():
    inside = [module for module in SOURCES if "mxnet" in OTHER[module]]
    assert all(module.startswith("_mxnet") for module in inside), inside
    # The import itself is by name, for it must be put off: no other file may do the same.
    named = [m for m, path in SOURCES.items() if 'import_module("mxnet")' in path.read_text(encoding="utf-8")]
    assert named == ["_mxnet.loading"]


def test_ctypes_of_our_library_is_in_one_file():
    assert {module for module in SOURCES if "ctypes" in OTHER[module]} == set(CTYPES)


def test_the_library_knows_neither_mxnet_nor_the_command_line():
    """Of symbols it reads what a network's nodes are (`graph.symbol`), and nothing of how MXNet is told about them."""
    for module in SOURCES:
        if module.startswith("library."):
            assert OTHER[module] <= {"ctypes", "functools", "os", "pathlib", "typing", "numpy"}, module
            own = {name for name in reachable(module) if name and not name.startswith("library")}
            assert own <= {
                "errors",
                "system.resources",
                "graph",
                "graph.symbol",
                "graph.structure",
                "system",
                "system.text",
                "graph.layers",
            }, module
    assert {name for name in reachable("library.bindings") if name} <= {"errors", "system.resources"}


@pytest.mark.parametrize("module", sorted(SOURCES))
def test_only_the_entry_knows_the_command_line(module):
    if module.split(".")[0] in ("cli", "__main__"):
        return
    assert not [name for name in reachable(module) if name.startswith("cli")]


def test_who_waits_for_a_kernel_file_imports_little():
    """The parent of a command with a kernel file starts Python twice: it must not import all twice."""
    assert OWN["system.isolation"] == {"errors"} and not OWN["kernel_files.paths"]
    heavy = {"numpy", "mxnet", "click", "rich", "h5py", "pooch", "matplotlib"}
    assert not heavy & (OTHER["system.isolation"] | OTHER["kernel_files.paths"] | OTHER["errors"])
    assert OWN["cli.isolated_run"] == {"system.isolation", "kernel_files.paths"}


def test_what_runs_in_the_sandbox_needs_nothing_that_it_does_not_show():
    """A bare Python runs it: the standard library and the folder itself. PyTorch is a submission's own."""
    for module in SOURCES:
        if module.startswith("grading.inside"):
            assert all(name.startswith("grading.inside") for name in OWN[module]), module
            assert OTHER[module] <= {*sys.stdlib_module_names, "torch"} if hasattr(sys, "stdlib_module_names") else True


def test_ray_is_imported_in_three_modules_and_only_when_asked_for():
    """Without it the rest of `scale` works; and nothing below the command line needs PyArrow but that room."""
    assert {module for module in SOURCES if "ray" in OTHER[module]} == {
        "board.queue.on_ray",
        "scale.cluster",
        "scale.nodes",
    }
    assert all(module.startswith("scale.") for module in SOURCES if "pyarrow" in OTHER[module])
    above = [m for m in SOURCES if not m.startswith(("scale", "cli")) and any("scale" in n for n in OWN[m])]
    assert above == []


def test_the_layers_of_the_house():
    """What is below does not know what is above it."""
    for low, high in (
        ("data", ("checkpoints", "graph", "library", "_mxnet", "pipeline")),
        ("graph", ("checkpoints", "data", "library", "_mxnet", "pipeline")),
        ("checkpoints", ("library.kernels", "library.fused", "inference", "pipeline")),
        ("_mxnet", ("checkpoints", "data", "inference", "pipeline")),
    ):
        for module in SOURCES:
            if module.split(".")[0] == low:
                above = [name for name in OWN[module] if name.startswith(tuple(high))]
                assert not above, (module, above)


def test_the_package_and_the_command_line_stay_tidy():
    """A room is looked over at a glance: a command has its place in one of the command line's rooms."""
    for room in (PACKAGE, PACKAGE / "inference", *sorted({path.parent for path in (PACKAGE / "cli").rglob("*.py")})):
        assert len(list(room.glob("*.py"))) <= 14, room
