"""A kernel of our library that is known to be correct. It can be built as a submission, or called in this process."""

import subprocess
from pathlib import Path
from typing import Optional

from ...errors import DeviceError
from ...graph.layers import ConvolutionShape
from ...library import bindings, kernels
from ...system import compilers, installation
from ..intake.building import BuiltSubmission

KERNEL = "register-tile"
_SOURCE = """
#include "fashion_ops_plugin.h"
static int run(fops_plugin_call* call) {
  call->op_seconds = -1;
  %s
  return fops_conv_forward_gpu("%s", &call->conv, call->x, call->k, call->y, call->stream);
}
static const fops_kernel_plugin plugin = {FOPS_PLUGIN_ABI, FOPS_GPU, 0, 0, 1, "%s", "", "", 0, run};
const fops_kernel_plugin* fops_kernel_plugin_main(void) { return &plugin; }
"""


def built(folder: Path, kernel: str = KERNEL, before: str = "") -> Optional[BuiltSubmission]:
    """Build a plug-in whose calls run a kernel of our library in a folder; return None if there is no compiler. Each
    call first runs the C code `before`, in which `call` is a pointer to the fops_plugin_call."""
    compiler = compilers.find_cxx()
    if compiler is None:
        return None
    library = bindings.library_path()
    source, target = folder / f"{kernel}.c", folder / f"{kernel}.so"
    source.write_text(_SOURCE % (before, kernel, kernel))
    words = [compiler, "-x", "c", "-shared", "-fPIC", f"-I{installation.resource_dir('include')}", str(source),
             "-x", "none", str(library), f"-Wl,-rpath,{library.parent}", "-ldl", "-o", str(target)]  # fmt: skip
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        raise DeviceError(f"a kernel of ours does not compile: {' '.join(done.stderr.split())[:300]}")
    return BuiltSubmission("plugin", target, 0.0, False, read=(str(library),))


def queue(shape: ConvolutionShape, x: int, k: int, y: int) -> None:
    conv = kernels.describe(shape.data, shape.weights)
    kernels.launch(KERNEL, conv, x, k, y, 0)
