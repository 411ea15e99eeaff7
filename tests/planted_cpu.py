# ruff: noqa: E501
"""Kernels for the CPU with one fault each, wrong or slow. Lines that hold the fault end with `// HERE`."""

_HEAD = '#include <cstddef>\n#include <cstdlib>\n{before}extern "C" void conv_forward(const float* x, const float* k, float* y, int B, int M, int C, int H, int W, int K) {{\n  const int Ho = H - K + 1, Wo = W - K + 1;\n'  # fmt: skip
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
_STORE = "y[((b * M + m) * (size_t)Ho + h) * Wo + w] = sum"


def naive(before="", rows="Ho", term=_TERM, store=_STORE, read="", write=""):
    """The seven loops, with a part replaced."""
    return _HEAD.format(before=before) + _LOOPS.format(rows=rows, term=term, store=store, read=read, write=write)


def shifted(
    before="", first="", inner="row[w] += weight * from[w];", mark="", restrict="__restrict__ ", outer="", clear=""
):
    """The same sum with the columns innermost, which vectors can do: correct, and fast enough but for its fault."""
    return _HEAD.format(before=before) + f"""\
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
"""  # fmt: skip


_OMP = "#pragma omp parallel for\n"
SLOW = {
    "strided_inner_loop": _HEAD.format(before="") + f"""\
{_OMP}  for (int b = 0; b < B; ++b)
    for (int m = 0; m < M; ++m)
      for (int h = 0; h < Ho; ++h)
        for (int w = 0; w < Wo; ++w) {{
          float sum = 0;
          for (int p = 0; p < K; ++p)
            for (int q = 0; q < K; ++q)
              for (int c = 0; c < C; ++c)
                sum += {_TERM};  // HERE
          {_STORE};
        }}
}}
""",
    "alias": shifted(restrict="", outer=_OMP, mark="  // HERE"),
    "int_to_float": shifted(before="int table[64];\n", outer=_OMP, inner="row[w] += weight * from[w] + table[w % 64];  // HERE"),
    "false_sharing": _HEAD.format(before="#include <omp.h>\n") + f"""\
  static float sums[256];
#pragma omp parallel for
  for (int b = 0; b < B; ++b)
    for (int m = 0; m < M; ++m)
      for (int h = 0; h < Ho; ++h)
        for (int w = 0; w < Wo; ++w) {{
          const int t = omp_get_thread_num();
          sums[t] = 0;
          for (int c = 0; c < C; ++c)
            for (int p = 0; p < K; ++p)
              for (int q = 0; q < K; ++q)
                sums[t] += {_TERM};  // HERE
          y[((b * M + m) * (size_t)Ho + h) * Wo + w] = sums[t];
        }}
}}
""",
    "one_thread": shifted(),
    "call_in_loop": shifted(before='__attribute__((noinline)) static float product(float a, float b) { asm(""); return a * b; }\n', outer=_OMP, inner="row[w] += product(weight, from[w]);  // HERE"),
    "double": shifted(outer=_OMP, inner="row[w] = row[w] + 1.0 * weight * from[w];  // HERE"),
}  # fmt: skip
SLOW["no_restrict"] = SLOW["alias"]
SAME = {"no_restrict": "alias"}
WRONG = {
    "out_of_bounds_write": naive(store="y[((b * M + m) * (size_t)Ho + h) * Wo + w + Wo] = sum", write="  // HERE"),
    "out_of_bounds_read": naive(term="x[((b * C + c) * (size_t)H + h + p) * W + w + q + H * W] * k[((m * C + c) * K + p) * K + q]", read="  // HERE"),
    "write_before": naive(store=_STORE + "; y[-1] = 1", write="  // HERE"),
    "null_pointer": naive(store="*(float*)(size_t)(8 * K) = sum", write="  // HERE"),
    "use_after_free": naive(before="static float* copy(const float* k, int n) { float* c = (float*)malloc(n * 4); for (int i = 0; i < n; ++i) c[i] = k[i]; free(c); return c; }\n", term="copy(k, K * K)[q] * x[w]", read="  // HERE"),
    "stale_output": naive(store="y[((b * M + m) * (size_t)Ho + h) * Wo + w] += sum", write="  // HERE"),
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
}  # fmt: skip


def marked(text):
    """Lines that hold the fault."""
    return [number for number, line in enumerate(text.splitlines(), 1) if "// HERE" in line]
