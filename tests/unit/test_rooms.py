"""Imports between modules, read from the source: layers, cycles, and the modules that import some packages."""

import ast
import functools
import re
import sys
from collections import defaultdict
from pathlib import Path

import fashion_infer

PACKAGE = Path(fashion_infer.__file__).parent
ARCHITECTURE = Path(__file__).parents[2] / "docs" / "architecture.md"
# Packages that only the command line and their own modules import.
BESIDE = ("grading", "board", "scale")


def module_of(path):
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


SOURCES = {module_of(path): path for path in PACKAGE.rglob("*.py")}


@functools.lru_cache(maxsize=None)
def trees():
    return {module: ast.parse(path.read_text(encoding="utf-8")) for module, path in SOURCES.items()}


def imports(module):
    """Return the modules that a module imports, also within functions and for type checks.

    The result is (our modules, without the package's name; names of other packages).
    """
    parts = module.split(".") if module else []
    package = parts if SOURCES[module].name == "__init__.py" else parts[:-1]
    ours, others = set(), set()
    for node in ast.walk(trees()[module]):
        if isinstance(node, ast.Import):
            others |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            others.add(node.module.split(".")[0])
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] + (node.module.split(".") if node.module else [])
            for alias in node.names:
                name = ".".join([*base, alias.name])
                ours.add(name if name in SOURCES else ".".join(base))
    return ours, others


@functools.lru_cache(maxsize=None)
def imported():
    """Return the results of `imports` for all modules: {module: our modules}, {module: other packages}."""
    found = {module: imports(module) for module in SOURCES}
    return {module: ours for module, (ours, _) in found.items()}, {
        module: others for module, (_, others) in found.items()
    }


def ours():
    return imported()[0]


def others():
    return imported()[1]


def layers():
    """Return the layer of each top-level module and package (room), from the table in docs/architecture.md."""
    rows = re.findall(r"^\| (\d+) \| (.+?) \|", ARCHITECTURE.read_text(encoding="utf-8"), re.MULTILINE)
    return {room: int(number) for number, rooms in rows for room in re.findall(r"`(\w+)`", rooms)}


LAYERS = layers()


def room(module):
    return module.split(".")[0] or "__init__"


@functools.lru_cache(maxsize=None)
def rooms():
    """Return the rooms that each room imports."""
    found = defaultdict(set)
    for module, targets in ours().items():
        found[room(module)] |= {room(target) for target in targets} - {room(module)}
    return found


@functools.lru_cache(maxsize=None)
def floor(name):
    return 1 + max(map(floor, rooms()[name]), default=0)


def circle(graph):
    """Return the nodes of a cycle in a graph {node: successors}; [] if there is none."""
    done = set()

    def visit(node, path):
        if node in path:
            return path[path.index(node) :]
        if node in done:
            return []
        done.add(node)
        return next(filter(None, (visit(other, [*path, node]) for other in sorted(graph.get(node, ())))), [])

    return next(filter(None, (visit(node, []) for node in sorted(graph))), [])


def importers(package):
    return {module for module in SOURCES if package in others()[module]}


def test_rooms_have_one_of_at_most_eight_layers():
    assert {room(module) for module in ours()} == set(LAYERS)
    assert set(LAYERS.values()) == set(range(1, max(LAYERS.values()) + 1)) and max(LAYERS.values()) <= 8


def test_imports_go_down():
    arrows = {(module, other) for module, targets in ours().items() for other in targets}
    upward = {(module, other) for module, other in arrows if LAYERS[room(other)] > LAYERS[room(module)]}
    sideward = {(m, other) for m, other in arrows if room(other) in BESIDE and room(m) not in ("cli", room(other))}
    assert upward | sideward == set()


def test_modules_and_rooms_have_no_import_cycles():
    assert circle(ours()) == [] and circle(rooms()) == []


def test_rooms_have_at_most_13_floors():
    """Every import statement counts, also within a function or for type checks."""
    assert max(map(floor, LAYERS)) <= 13


def is_array_error(node):
    """Whether a node compares arrays within a tolerance, or takes the magnitude of a difference of arrays."""
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
        return False
    if node.func.attr in ("allclose", "isclose", "assert_allclose"):
        return getattr(node.func.value, "id", "") != "math"
    inside = (part.op for part in ast.walk(node) if isinstance(part, ast.BinOp))
    return node.func.attr in ("abs", "absolute") and any(isinstance(each, ast.Sub) for each in inside)


def test_the_judge_alone_compares_outputs():
    """Outside of `judging`, nothing computes an exact output, compares with a bound, or says where an output is wrong.

    All verdicts on outputs therefore have one tolerance, one meaning of float32, and one set of reasons.
    """
    tools = {f"judging.{name}" for name in ("reference", "bound", "probes", "diagnosis")}
    assert tools <= set(SOURCES)
    outside = [module for module in SOURCES if room(module) != "judging"]
    assert {module: ours()[module] & tools for module in outside if ours()[module] & tools} == {}
    assert [module for module in outside if any(map(is_array_error, ast.walk(trees()[module])))] == []
    assert any(map(is_array_error, ast.walk(trees()["judging.bound"])))


def test_class_names_are_unique():
    defined = defaultdict(list)
    for module, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                defined[node.name].append(module)
    repeated = {name: modules for name, modules in defined.items() if len(modules) > 1}
    assert not repeated, repeated


def test_third_party_packages_stay_in_their_rooms():
    """MXNet is slow to import; Ray and PyArrow are optional; in `library`, one module calls our library by ctypes, and
    one has the structures that the sandbox needs, too."""
    assert {room(module) for module in importers("mxnet")} <= {"_mxnet"}
    named = [module for module, path in SOURCES.items() if 'import_module("mxnet")' in path.read_text(encoding="utf-8")]
    assert named == ["_mxnet.loading"]  # MXNet is imported by name, because its import is deferred
    assert importers("ray") == {"board.queue.ray_graders", "scale.cluster", "scale.nodes"}
    assert {room(module) for module in importers("pyarrow")} == {"scale"}
    assert {module for module in importers("ctypes") if room(module) == "library"} == {
        "library.bindings",
        "library.plugin_abi",
    }


def test_the_parent_of_a_command_with_a_kernel_file_imports_little():
    """Otherwise packages would be imported in both processes."""
    assert ours()["cli.isolated_run"] == {"system.isolation", "kernel_files.paths"}
    assert ours()["system.isolation"] == {"errors"} and not ours()["kernel_files.paths"] and not ours()["kernel_files"]
    heavy = {"numpy", "mxnet", "click", "rich", "h5py", "pooch", "matplotlib"}
    assert not heavy & (others()["system.isolation"] | others()["kernel_files.paths"] | others()["errors"])


def test_the_code_in_the_sandbox_imports_only_the_standard_library():
    """A Python without the environment's packages runs this code, and sees only these files of the package."""
    allowed = {*getattr(sys, "stdlib_module_names", ()), "torch", "plugin_abi"}
    for module in SOURCES:
        if module.startswith(("grading.inside", "kernel_files.functions", "library.plugin_abi")):
            assert all(name.startswith(("grading.inside", "library.plugin_abi")) for name in ours()[module]), module
            assert others()[module] <= allowed or len(allowed) == 2, module
