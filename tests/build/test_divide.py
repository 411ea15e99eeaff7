"""The divisions of gpu/divide.cuh, compiled as plain C++, give the same quotients as C++'s operator."""

import random
import shutil
import subprocess
from pathlib import Path

ROOM = Path(__file__).resolve().parents[2] / "custom_ops"
PROGRAM = r"""
#include "gpu/divide.cuh"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <random>

int main(int, char** arguments) {
  std::mt19937 random(std::atoi(arguments[1]));
  const auto wrong = [](const char* what, uint32_t n, uint32_t d) {
    std::printf("%s: %u / %u\n", what, n, d);
    std::exit(1);
  };
  for (int i = 0; i < 3000000; ++i) {
    // Divisors of all sizes. The numbers are random, or near multiples of the divisor, where the quotient changes.
    const uint32_t d = std::max<uint32_t>(1, (random() >> 1) >> random() % 31);
    const fops::Divisor by(d);
    const uint32_t any = random() >> 1, multiple = any / d * d;
    for (uint32_t n : {any, multiple, multiple ? multiple - 1 : 0, 0x7fffffffu, d, d - 1})
      if (by.divide(n) != n / d) wrong("Divisor", n, d);
    const uint32_t small = 2 + random() % 65534, m = random() % 65536, around = m / small * small;
    for (uint32_t n : {m, around, around ? around - 1 : 0, 65535u})
      if (fops::divide(n, fops::inverse_of(small)) != int(n / small)) wrong("divide", n, small);
  }
}
"""


def test_quotients(tmp_path):
    (tmp_path / "divide.cpp").write_text(PROGRAM)
    program, seed = tmp_path / "divide", random.randrange(2**31)
    flags = ["-std=c++17", "-O2", f"-I{ROOM}"]
    compiler = shutil.which("c++") or "g++"
    subprocess.run([compiler, *flags, str(tmp_path / "divide.cpp"), "-o", str(program)], check=True)
    ran = subprocess.run([str(program), str(seed)], capture_output=True, text=True)
    assert ran.returncode == 0, f"seed {seed}: {ran.stdout}"
