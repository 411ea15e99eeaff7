"""Imports between modules, read from the source: layers, cycles, and which modules may import third-party packages."""

import ast
import re
import sys
from collections import defaultdict
from pathlib import Path

import fashion_infer

PACKAGE = Path(fashion_infer.__file__).parent
ARCHITECTURE = Path(__file__).parents[2] / "docs" / "architecture.md"
# Packages outside the pipeline: the command line starts them, and nothing else imports them.
BESIDE = ("grading", "board", "scale")


def module_of(path):
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


SOURCES = {module_of(path): path for path in PACKAGE.rglob("*.py")}
TREES = {module: ast.parse(path.read_text(encoding="utf-8")) for module, path in SOURCES.items()}


def imports(module):
    """Return the modules that a module imports, also within functions.

    The result is (our modules, without the package's name; other packages).
    """
    parts = module.split(".") if module else []
    package = parts if SOURCES[module].name == "__init__.py" else parts[:-1]
    ours, others = set(), set()
    for node in ast.walk(TREES[module]):
        if isinstance(node, ast.Import):
            others |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            others.add(node.module.split(".")[0])
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] + (node.module.split(".") if node.module else [])
            for alias in node.names:
                name = ".".join([*base, alias.name])
                ours.add(name if name in SOURCES else ".".join(base))
    return ours - {""}, others  # the package itself has only the version


OURS = {module: imports(module)[0] for module in SOURCES if module}
OTHERS = {module: imports(module)[1] for module in SOURCES}


def layers():
    """Return the layer of each top-level module or package, from the table in docs/architecture.md."""
    rows = re.findall(r"^\| (\d+) \| (.+?) \|", ARCHITECTURE.read_text(encoding="utf-8"), re.MULTILINE)
    return {room: int(number) for number, rooms in rows for room in re.findall(r"`(\w+)`", rooms)}


LAYERS = layers()


def room(module):
    return module.split(".")[0]


def circle(graph):
    """Return the nodes of a cycle in a graph {node: successors}; [] when there is none."""
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
    return {module for module in SOURCES if package in OTHERS[module]}


def test_every_room_has_one_of_at_most_ten_layers():
    assert {room(module) for module in OURS} == set(LAYERS)
    assert set(LAYERS.values()) == set(range(1, max(LAYERS.values()) + 1)) and max(LAYERS.values()) <= 10


def test_imports_go_down():
    arrows = {(module, other) for module, others in OURS.items() for other in others}
    upward = {(module, other) for module, other in arrows if LAYERS[room(other)] > LAYERS[room(module)]}
    sideward = {(m, other) for m, other in arrows if room(other) in BESIDE and room(m) not in ("cli", room(other))}
    assert upward | sideward == set()


def test_neither_modules_nor_rooms_import_in_a_circle():
    rooms = defaultdict(set)
    for module, others in OURS.items():
        rooms[room(module)] |= {room(other) for other in others} - {room(module)}
    assert circle(OURS) == [] and circle(rooms) == []
    assert circle({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c"]


def test_a_class_name_occurs_once():
    defined = defaultdict(list)
    for module, tree in TREES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                defined[node.name].append(module)
    repeated = {name: modules for name, modules in defined.items() if len(modules) > 1}
    assert not repeated, repeated


def test_third_party_packages_stay_in_their_rooms():
    """Third-party packages are imported only in their own modules.

    MXNet takes half a second to import, Ray and PyArrow are optional, and one file calls our library by ctypes.
    """
    assert {room(module) for module in importers("mxnet")} <= {"_mxnet"}
    named = [module for module, path in SOURCES.items() if 'import_module("mxnet")' in path.read_text(encoding="utf-8")]
    assert named == ["_mxnet.loading"]  # the import of MXNet itself is by name, because it is deferred
    assert importers("ray") == {"board.queue.ray_graders", "scale.cluster", "scale.nodes"}
    assert {room(module) for module in importers("pyarrow")} == {"scale"}
    assert {module for module in importers("ctypes") if room(module) == "library"} == {"library.bindings"}


def test_the_parent_of_a_command_with_a_kernel_file_imports_little():
    """A command with a kernel file starts a second Python, and does not import everything in both processes."""
    assert OURS["cli.isolated_run"] == {"system.isolation", "kernel_files.paths"}
    assert OURS["system.isolation"] == {"errors"} and not OURS["kernel_files.paths"] and not OURS["kernel_files"]
    heavy = {"numpy", "mxnet", "click", "rich", "h5py", "pooch", "matplotlib"}
    assert not heavy & (OTHERS["system.isolation"] | OTHERS["kernel_files.paths"] | OTHERS["errors"])


def test_what_runs_in_the_sandbox_needs_the_standard_library_alone():
    """Code that runs in the sandbox imports only the standard library, and PyTorch for submissions.

    A bare Python runs that code, and sees only this folder of the package.
    """
    allowed = {*getattr(sys, "stdlib_module_names", ()), "torch"}
    for module in SOURCES:
        if module.startswith("grading.inside"):
            assert all(name.startswith("grading.inside") for name in OURS[module]), module
            assert OTHERS[module] <= allowed or len(allowed) == 1, module
