"""Creates a folder with stubs of an old glibc to link against: pass `-L FOLDER` before the system's libraries.

A library needs a glibc as new as the newest symbol that it was linked with: when it is linked on Debian 12, that is
2.34. The system's compiler is used, and only the names and versions in libc.so differ. PyPI's `ziglang` has these names
for every glibc since 2.17. auditwheel checks the result (scripts/make_wheel.py).
"""

import os
import subprocess
import sys
from pathlib import Path

# Names that a libstdc++ takes from a newer glibc. __libc_single_threaded (2.32) is a flag that spares atomic operations
# while a process has one thread; the value 0 is always safe. arc4random (2.36) returns random bits for
# std::random_device.
NEWER = """
#include <sys/random.h>
__attribute__((visibility("hidden"))) char __libc_single_threaded = 0;
__attribute__((visibility("hidden"))) unsigned arc4random(void) {
  unsigned bits = 0;
  while (getrandom(&bits, sizeof bits, 0) != sizeof bits) {}
  return bits;
}
"""
LOADERS = {"x86_64": "ld-linux-x86-64.so.2", "aarch64": "ld-linux-aarch64.so.1"}


def make(folder: Path, machine: str, glibc: str, compiler: str):
    """Write stubs of version `glibc` for `machine`-linux-gnu into `folder`; `compiler` is the C++ linker driver."""
    folder.mkdir(parents=True, exist_ok=True)
    source = folder / "empty.c"
    source.write_text("")
    cache = folder / "zig"
    environment = {**os.environ, "ZIG_GLOBAL_CACHE_DIR": str(cache), "ZIG_LOCAL_CACHE_DIR": str(cache)}
    target = f"{machine}-linux-gnu.{glibc}"
    command = [sys.executable, "-m", "ziglang", "cc", "-target", target, "-shared", str(source)]
    subprocess.run([*command, "-o", str(folder / "empty.so")], check=True, env=environment)
    stubs = next(cache.glob("o/*/libc.so.6")).parent

    (folder / "newer.c").write_text(NEWER)
    compile_c = [compiler, "-x", "c", "-c", "-fPIC", str(folder / "newer.c"), "-o", str(folder / "newer.o")]
    subprocess.run(compile_c, check=True)
    # Before 2.34, threads and dlopen were in separate libraries.
    parts = [stubs / part for part in ("libc.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1")]
    for part in ("libc_nonshared.a", LOADERS[machine]):
        found = subprocess.run([compiler, f"-print-file-name={part}"], check=True, stdout=subprocess.PIPE, text=True)
        parts.append(Path(found.stdout.strip()))
    group = " ".join(map(str, [*parts, folder / "newer.o"]))
    (folder / "libc.so").write_text(f"GROUP ( AS_NEEDED ( {group} ) )\n")
    (folder / "libm.so").write_text(f"GROUP ( AS_NEEDED ( {stubs / 'libm.so.6'} ) )\n")


if __name__ == "__main__":
    make(Path(sys.argv[1]).resolve(), *sys.argv[2:])
