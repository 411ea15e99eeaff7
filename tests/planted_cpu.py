# ruff: noqa: E501
"""CPU kernels, each with one fault that makes it incorrect or slow. The faulty line ends with `// HERE`."""

import re
from pathlib import Path

_HEAD = '#include <cstddef>\n#include <cstdlib>\n{before}extern "C" void conv_forward(const float* x, const float* k, float* y, int B, int M, int C, int H, int W, int K) {{\n  const int Ho = H - K + 1, Wo = W - K + 1;\n'
_LOOPS = """\
  for (int b = 0; b < B; ++b)
    for (int m = 0; m < M; ++m)
      for (int h = 0; h < {rows}; ++h)
        for (int w = 0; w < Wo; ++w) {{
          float sum = 0;
          for (int c = 0; c < C; ++c)
            for (int p = 0; p < K; ++p)
              for (int q = 0; q < K; ++q)
                sum += {term};{read}
          {store};{write}
        }}
}}
"""
_TERM = "x[((b * C + c) * (size_t)H + h + p) * W + w + q] * k[((m * C + c) * K + p) * K + q]"
_PLACE = "y[((b * M + m) * (size_t)Ho + h) * Wo + w]"
_STORE = f"{_PLACE} = sum"
_CHANNELS = "          for (int c = 0; c < C; ++c)\n"


def naive(before="", rows="Ho", term=_TERM, store=_STORE, read="", write="", outer=""):
    """Return a kernel with the seven loops of the definition, in which the arguments replace some parts."""
    head = _HEAD.format(before=before) + outer
    return head + _LOOPS.format(rows=rows, term=term, store=store, read=read, write=write)


def shifted(
    before="", first="", inner="row[w] += weight * from[w];", mark="", restrict="__restrict__ ", outer="", clear=""
):
    """Return a kernel whose inner loop runs over columns, so that it can be vectorised. The arguments add a fault."""
    return (
        _HEAD.format(before=before)
        + f"""\
{outer}  for (int bm = 0; bm < B * M; ++bm) {{
    const int b = bm / M, m = bm % M;
    for (int h = 0; h < Ho; ++h) {{
      float* {restrict}row = y + ((size_t)bm * Ho + h) * Wo;
      for (int w = 0; w < Wo; ++w) row[w] = 0;
      for (int c = 0; c < C; ++c)
        for (int p = 0; p < K; ++p)
          for (int q = 0; q < K; ++q) {{
            const float* {restrict}from = x + ((size_t)(b * C + c) * H + h + p) * W + q;
            const float weight = k[((m * C + c) * K + p) * K + q];
{first}            for (int w = 0; w < Wo; ++w){mark}
              {inner}
          }}
    }}
  }}
}}
"""
    )


_OMP = "#pragma omp parallel for\n"
SLOW = {
    "strided_inner_loop": naive(outer=_OMP, read="  // HERE")
    .replace(_CHANNELS, "")
    .replace("q < K; ++q)\n", f"q < K; ++q)\n{_CHANNELS}"),
    "alias": naive(outer=_OMP, store="", read="  // HERE")
    .replace("sum +=", "*out +=")
    .replace("float sum = 0;", f"float* out = &{_PLACE};\n          *out = 0;"),
    "no_restrict": _HEAD.format(before="") + f"""\
{_OMP}  for (int b = 0; b < B; ++b)
    for (int m = 0; m + 6 <= M || m < M; m += 6)
      for (int h = 0; h < Ho; ++h) {{
        float* row[6];
        for (int i = 0; i < 6; ++i) row[i] = y + ((b * (size_t)M + (m + i < M ? m + i : m)) * Ho + h) * Wo;
        for (int i = 0; i < 6; ++i)
          for (int w = 0; w < Wo; ++w) row[i][w] = 0;
        for (int c = 0; c < C; ++c)
          for (int p = 0; p < K; ++p)
            for (int q = 0; q < K; ++q) {{
              const float* from = x + ((size_t)(b * C + c) * H + h + p) * W + q;
              float weight[6];
              for (int i = 0; i < 6; ++i) weight[i] = m + i < M ? k[(((m + i) * C + c) * K + p) * K + q] : 0;
              for (int w = 0; w < Wo; ++w) {{
                row[0][w] += weight[0] * from[w];  // HERE
                row[1][w] += weight[1] * from[w];
                row[2][w] += weight[2] * from[w];
                row[3][w] += weight[3] * from[w];
                row[4][w] += weight[4] * from[w];
                row[5][w] += weight[5] * from[w];
              }}
            }}
      }}
}}
""",
    "int_to_float": shifted(before="int table[64];\n", outer=_OMP, inner="row[w] += weight * from[w] + table[w % 64];  // HERE"),
    "false_sharing": naive(
        "#include <omp.h>\nstatic float sums[256];\n", store=f"{_PLACE} = sums[t]", read="  // HERE", outer=_OMP
    )
    .replace("sum +=", "sums[t] +=")
    .replace("float sum = 0;", "const int t = omp_get_thread_num();\n          sums[t] = 0;"),
    "one_thread": shifted(),
    "call_in_loop": shifted(before='__attribute__((noinline)) static float product(float a, float b) { asm(""); return a * b; }\n', outer=_OMP, inner="row[w] += product(weight, from[w]);  // HERE"),
    "double": shifted(outer=_OMP, inner="row[w] = row[w] + 1.0 * weight * from[w];  // HERE"),
    "library_in_loop": _HEAD.format(before="") + f"""\
{_OMP}  for (int b = 0; b < B; ++b)
    for (int m = 0; m < M; ++m)
      for (int h = 0; h < Ho; ++h) {{
        float* row = (float*)calloc(1 << 18, 4);  // HERE
        for (int c = 0; c < C; ++c)
          for (int p = 0; p < K; ++p)
            for (int q = 0; q < K; ++q)
              for (int w = 0; w < Wo; ++w) row[w] += {_TERM};  // HERE
        for (int w = 0; w < Wo; ++w) y[((b * M + m) * (size_t)Ho + h) * Wo + w] = row[w];
        free(row);
      }}
}}
""",
    "branch_in_loop": _HEAD.format(before="") + f"""\
{_OMP}  for (int b = 0; b < B; ++b)
    for (int m = 0; m < M; ++m) {{
      float* __restrict__ out = y + (size_t)(b * M + m) * Ho * Wo;
      for (int i = 0; i < Ho * Wo; ++i) out[i] = 0;
      for (int c = 0; c < C; ++c)
        for (int p = 0; p < K; ++p)
          for (int q = 0; q < K; ++q)
            for (int i = 0; i < H; ++i)
              for (int j = 0; j < W; ++j) {{
                const int h = i - p, w = j - q;
                if (h < 0 || h >= Ho || w < 0 || w >= Wo) continue;  // HERE
                out[h * Wo + w] += x[((b * C + c) * (size_t)H + i) * W + j] * k[((m * C + c) * K + p) * K + q];
              }}
    }}
}}
""",
}  # fmt: skip
SLOW["volatile"] = SLOW["alias"].replace("float* out", "volatile float* out")
# A kernel whose assembly has some ten megabytes: a comment, repeated by macros.
LARGE = SLOW["alias"] + '#define A "{}"\n#define B {}\n__asm__({});\n'.format("#" * 4000, "A " * 50, "B " * 50)
SAME = {"no_restrict": "alias"}
# The last kernel of the tutorial: a tile of filters and columns in registers, on all cores.
_PAGE = Path(__file__).resolve().parents[1] / "docs" / "tutorial.md"
FAST = re.findall(r'^```cpp title="[^"]+"\n(.*?)^```$', _PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)[-1]
WRONG = {
    "out_of_bounds_write": naive(store="y[((b * M + m) * (size_t)Ho + h) * Wo + w + Wo] = sum", write="  // HERE"),
    "input_of_another_image": naive(term=_TERM.replace("x[", "x[(b > 1 ? 1 << 20 : 0) + ", 1), read="  // HERE"),
    "stale_output": naive(before="#define Y(b, m, h, w) y[((b * M + m) * (size_t)Ho + h) * Wo + w]\n", store="float seen[1] = {0}; seen[0] += 1;\n          Y(b, m, h, w) += sum", write="  // HERE"),
    "stale_output_plain": naive(store="y[((b * M + m) * (size_t)Ho + h) * Wo + w] += sum", write="  // HERE"),
    "race_on_output": _HEAD.format(before="") + """\
  for (size_t i = 0; i < (size_t)B * M * Ho * Wo; ++i) y[i] = 0;
#pragma omp parallel for
  for (int t = 0; t < C * K * K; ++t)
    for (int b = 0; b < B; ++b)
      for (int m = 0; m < M; ++m)
        for (int h = 0; h < Ho; ++h)
          for (int w = 0; w < Wo; ++w)
            y[((b * M + m) * (size_t)Ho + h) * Wo + w] += x[((b * C + t / (K * K)) * (size_t)H + h + t / K % K) * W + w + t % K] * k[m * C * K * K + t];  // HERE
}
""",
    "a sum that threads share": naive(outer=f"  float sum;\n{_OMP}", read="  // HERE").replace("float sum = 0;", "sum = 0;  // HERE"),
    "a row that threads share": _HEAD.format(before="") + f"""\
  static float sums[512];
{_OMP}  for (int b = 0; b < B; ++b)
    for (int m = 0; m < M; ++m)
      for (int h = 0; h < Ho; ++h) {{
        float own[512];
        for (int w = 0; w < Wo; ++w) own[w] = 0, sums[w] = 0;  // HERE
        for (int c = 0; c < C; ++c)
          for (int p = 0; p < K; ++p)
            for (int q = 0; q < K; ++q)
              for (int w = 0; w < Wo; ++w) own[w] += {_TERM};
        for (int w = 0; w < Wo; ++w) y[((b * M + m) * (size_t)Ho + h) * Wo + w] = sums[w] = sums[w] + own[w];  // HERE
      }}
}}
""",
}  # fmt: skip
# Incorrect kernels in which no sanitizer finds an error: (code of the verdict, code of the finding, text).
BY_VERDICT = {
    "a sum for all outputs": ("sum_not_reset", "stale_output", naive(store=_STORE, read="  // HERE").replace("  for (int b", "  float sum = 0;\n  for (int b", 1).replace("          float sum = 0;\n", "")),
    "a static sum": ("carries_over", "stale_output", naive(before="#include <vector>\n", store="static std::vector<float> old; old.resize(64); old[0] += sum; " + _STORE, write="  // HERE")),
    "memory without zeros": ("unstable", "uninitialised_read", naive(store="float* one = (float*)malloc(4);\n          *one += sum; " + _STORE.replace("sum", "*one"), write="  // HERE")),
    "a thread that is left": ("returns_early", "returns_early", naive(store=_STORE + "; std::thread([] {}).detach()", write="  // HERE")),
    "outputs without a value": ("not_all_written", None, naive(store="float all[4] = {0}; all[0] += sum; if (w) " + _STORE)),
}  # fmt: skip


def marked(text):
    """Return the line numbers of the lines that end with `// HERE`."""
    return [number for number, line in enumerate(text.splitlines(), 1) if "// HERE" in line]


_SUM = naive(outer=_OMP)
_FLAT = """\
      for (int h = 0; h < Ho; ++h)
        for (int w = 0; w < Wo; ++w) {{
          float sum = 0;
          for (int t = 0; t < C * K * K; ++t)
            sum += x[((b * C + t / (K * K)) * (size_t)H + h + t / K % K) * W + w + t % K] * k[m * C * K * K + t];
          y[((b * M + m) * (size_t)Ho + h) * Wo + w] = sum;
        }}
}}
"""
_CLIPPED = """\
          for (int q = 0; q < K; ++q)
            for (int h = 0; h < Ho; ++h)
              for (int w = 0; w < Wo; ++w)
                out[h * Wo + w] += x[((b * C + c) * (size_t)H + h + p) * W + w + q] * k[((m * C + c) * K + p) * K + q];
    }
}
"""
_ROWS = """\
      for (int w = 0; w < Wo; ++w)
        for (int h = 0; h < Ho; ++h) y[((size_t)(b * M + m) * Ho + h) * Wo + w] = 0;
      for (int c = 0; c < C; ++c)
        for (int p = 0; p < K; ++p)
          for (int q = 0; q < K; ++q)
            for (int w = 0; w < Wo; ++w)
              for (int h = 0; h < Ho; ++h)
                y[((size_t)(b * M + m) * Ho + h) * Wo + w] +=
                    x[((size_t)(b * C + c) * H + h + p) * W + w + q] * k[((m * C + c) * K + p) * K + q];
    }
}
"""
_IMAGES = _HEAD.format(before="") + _OMP + "  for (int b = 0; b < B; ++b)\n    for (int m = 0; m < M; ++m)"
# Slow kernels beside the same with one remedy applied: (code of the finding, slow, after the remedy).
PAIRS = {
    "threads": ("one_thread", shifted(), shifted(outer=_OMP)),
    "loops turned around": ("serial_sum", _SUM, shifted(outer=_OMP)),
    "channels not innermost": ("strided_inner_loop", SLOW["strided_inner_loop"], shifted(outer=_OMP)),
    "a local sum": ("alias", SLOW["alias"], _SUM),
    "a sum for each thread": ("false_sharing", SLOW["false_sharing"], _SUM),
    "float for double": ("double", SLOW["double"], shifted(outer=_OMP)),
    "rows not innermost": ("strided_inner_loop", _IMAGES + " {\n" + _ROWS, shifted(outer=_OMP)),
    "rows that do not overlap": (
        "alias",
        SLOW["no_restrict"],
        SLOW["no_restrict"]
        .replace("float* row[6];", "float row[6][256];")
        .replace("        for (int i = 0; i < 6; ++i) row[i] = y +", "        float* out[6];\n        for (int i = 0; i < 6; ++i) out[i] = y +")
        .replace("      }\n}\n", "        for (int i = 0; i < 6 && m + i < M; ++i)\n          for (int w = 0; w < Wo; ++w) out[i][w] = row[i][w];\n      }\n}\n"),
    ),
    "an inlined function": ("call_in_loop", SLOW["call_in_loop"], shifted(outer=_OMP)),
    "loops that end at the border": (
        "branch_in_loop",
        SLOW["branch_in_loop"],
        SLOW["branch_in_loop"][: SLOW["branch_in_loop"].index("          for (int q")] + _CLIPPED,
    ),
    "one row for all": (
        "library_in_loop",
        SLOW["library_in_loop"],
        SLOW["library_in_loop"]
        .replace("float* row = (float*)calloc(1 << 18, 4);  // HERE", "float row[1024] = {0};")
        .replace("        free(row);\n", ""),
    ),
    "registers": ("sum_in_memory", shifted(outer=_OMP), FAST),
    "nested loops": (
        "integer_division",
        _IMAGES + "\n" + _FLAT.replace("{{", "{").replace("}}", "}"),
        _SUM,
    ),
}  # fmt: skip
