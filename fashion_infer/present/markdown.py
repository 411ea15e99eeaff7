"""Parts of the pages that the benchmarks write."""

from typing import Any, Dict, Iterable, Optional


def command(words: str, name: str, plot: Optional[str], as_json: Optional[str]) -> str:
    """The command that writes a page called `name`, its chart and its JSON, in the folder that it is run in."""
    files = [f"--{option} {file}" for option, file in (("json", as_json), ("plot", plot)) if file]
    return " ".join([words, *files, f"--markdown {name}"])


def device(known: Dict[str, Any]) -> str:
    """The machine in words: a GPU, or a CPU with its instruction set and the threads in use."""
    if "capability" in known:
        capability = ".".join(map(str, known["capability"]))
        return (
            f"{known['name']} (compute capability {capability}, {known['multiprocessors']} multiprocessors, "
            f"{known['memory_total'] / 2**30:.0f} GiB), driver for CUDA {known['driver_version']}, "
            f"library built with CUDA {known['runtime_version']}"
        )
    return f"{known['name']}, {known['instructions']}, {known['threads']} threads"


def versions(known: Dict[str, str]) -> str:
    """Names and versions in one line."""
    return "; ".join(f"{name}: {version}" for name, version in known.items())


def line(cells: Iterable) -> str:
    """A line of a table."""
    return "| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |"
