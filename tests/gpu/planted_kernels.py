# ruff: noqa: E501
"""Kernel files with one planted fault each, composed of a few parts: 12 slow kernels, 10 pairs of a slow kernel and its
remedied form, and 10 incorrect kernels.

In an incorrect kernel, the faulty line, or each of two such lines, ends in `// here`.
"""

from fashion_infer.graph.layers import ConvolutionShape
from fashion_infer.judging.calls import Cause
from fashion_infer.judging.verdict import ShapeVerdict, Verdict

PARAMETERS = "const float* x, const float* k, float* y, int B, int M, int C, int H, int W, int K"
NAMES = "x, k, y, B, M, C, H, W, K"

_FILE = """#include <cuda_runtime.h>

__global__ void {bounds}forward({parameters}) {{
  const int Ho = H - K + 1, Wo = W - K + 1;
{body}
}}

extern "C" void conv_forward({parameters}{more}) {{
  const int Ho = H - K + 1, Wo = W - K + 1;
  {call}
}}
"""

# Beginnings of kernels that compute indices: _PLANE b, m and i0, _TILE b, m, h and w of a thread's output.
_PLANE = "  const int b = blockIdx.y, m = blockIdx.x, i0 = threadIdx.x;\n"
_TILE = """  const int b = blockIdx.z / M, m = blockIdx.z % M;
  const int h = blockIdx.y * {side} + threadIdx.y, w = blockIdx.x * {side} + threadIdx.x;
"""
_SUM = """  for (int c = 0; c < C; ++c)
    for (int p = 0; p < K; ++p)
      for (int q = 0; q < K; ++q) sum += {x} * k[((m * C + c) * K + p) * K + q];
"""
_X = "x[((b * C + c) * H + h + p) * W + w + q]"
_Y = "y[((b * M + m) * Ho + h) * Wo + w]"
_TILES = (
    "forward<<<dim3((Wo + {side} - 1) / {side}, (Ho + {side} - 1) / {side}, B * M), dim3({side}, {side})>>>({names});"
)
_STAGE = """  extern __shared__ float image[];
  float* weights = image + C * H * W;
  for (int i = threadIdx.x; i < C * H * W; i += blockDim.x) image[i] = x[b * C * H * W + i];
  for (int i = threadIdx.x; i < M * C * K * K; i += blockDim.x) weights[i] = k[i];
  __syncthreads();
"""


def _file(body, call, bounds="", more="", before=""):
    text = _FILE.format(body=body.rstrip("\n"), call=call, bounds=bounds, parameters=PARAMETERS, more=more)
    return text.replace("\n__global__", f"\n{before}__global__", 1)


def _tiles(side, start="0", x=_X, y=_Y, store="=", guard=True):
    """Return the body of a kernel with one thread per output, whose blocks have `side` rows and columns of threads."""
    body = _TILE.format(side=side) + ("  if (h >= Ho || w >= Wo) return;\n" if guard else "")
    return body + f"  float sum = {start};\n" + _SUM.format(x=x) + f"  {y} {store} sum;"


def _each(count="(long long)B * M * Ho * Wo", x=_X, store=f"{_Y} = sum;"):
    """Return the body of a kernel whose threads loop over all outputs in steps of the grid's number of threads."""
    return f"""  const long long count = {count};
  for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < count; i += (long long)gridDim.x * blockDim.x) {{
    const int w = i % Wo, h = i / Wo % Ho, m = i / (Wo * Ho) % M, b = i / (Wo * Ho * M);
    float sum = 0;
{_SUM.format(x=x)}
    {store}
  }}"""


def _image(outputs, threads=256, stage=_STAGE, before=""):
    """Return the parts of a kernel with one block per image, which stages the image in shared memory: body, call,
    before.
    """
    body = "  const int b = blockIdx.x;\n" + stage + outputs
    shared = "sizeof(float) * (C * H * W + M * C * K * K)"
    call = f"""const int bytes = {shared};
  cudaFuncSetAttribute(forward, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  forward<<<B, {threads}, bytes>>>({NAMES});"""
    return body, call, before


def _register_tile(filters, pixels, bounds, threads):
    """Return a kernel file for 5x5 layers whose threads each compute `pixels` adjacent outputs of `filters` filters."""
    outputs = f"""  const int across = (Wo + {pixels} - 1) / {pixels}, groups = across * Ho, filter_groups = (M + {filters} - 1) / {filters};
  for (int task = threadIdx.x; task < groups * filter_groups; task += blockDim.x) {{
    const int h = task % groups / across, w = task % groups % across * {pixels}, m = task / groups * {filters};
    float sum[{filters}][{pixels}] = {{}};
    for (int c = 0; c < C; ++c)
#pragma unroll
      for (int p = 0; p < 5; ++p) {{
        float in[{pixels} + 4];
#pragma unroll
        for (int i = 0; i < {pixels} + 4; ++i) in[i] = image[(c * H + h + p) * W + min(w + i, W - 1)];
#pragma unroll
        for (int q = 0; q < 5; ++q)
#pragma unroll
          for (int j = 0; j < {filters}; ++j)
#pragma unroll
            for (int i = 0; i < {pixels}; ++i)
              sum[j][i] += in[q + i] * weights[((min(m + j, M - 1) * C + c) * 5 + p) * 5 + q];
      }}
#pragma unroll
    for (int j = 0; j < {filters}; ++j)
#pragma unroll
      for (int i = 0; i < {pixels}; ++i)
        if (m + j < M && w + i < Wo) y[((b * M + m + j) * Ho + h) * Wo + w + i] = sum[j][i];
  }}"""
    body, call, _ = _image(outputs, threads)
    return _file(body, call, bounds)


def _strided_reads():
    body = """  __shared__ float turned[32][33];
  const int b = blockIdx.z / M, m = blockIdx.z % M;
  int h = blockIdx.y * 32 + threadIdx.x, w = blockIdx.x * 32 + threadIdx.y;
  float sum = 0;
  if (h < Ho && w < Wo)
"""
    body += "  " + _SUM.format(x=_X).replace("\n", "\n  ").rstrip() + "\n"
    body += f"""  turned[threadIdx.x][threadIdx.y] = sum;
  __syncthreads();
  h = blockIdx.y * 32 + threadIdx.y, w = blockIdx.x * 32 + threadIdx.x;
  if (h < Ho && w < Wo) {_Y} = turned[threadIdx.y][threadIdx.x];"""
    return _file(body, _TILES.format(side=32, names=NAMES))


def _strided_writes():
    outputs = """  float* turned = weights + M * C * K * K;
  for (int m = 0; m < M; ++m) {
    for (int i = threadIdx.x; i < Ho * Wo; i += blockDim.x) {
      const int h = i / Wo, w = i % Wo;
      float sum = 0;
      for (int c = 0; c < C; ++c)
#pragma unroll
        for (int p = 0; p < 3; ++p)
#pragma unroll
          for (int q = 0; q < 3; ++q) sum += image[(c * H + h + p) * W + w + q] * weights[((m * C + c) * 3 + p) * 3 + q];
      turned[h * (Wo | 1) + w] = sum;
    }
    __syncthreads();
    for (int i = threadIdx.x; i < Ho * Wo; i += blockDim.x)
      y[((b * M + m) * Ho + i % Ho) * Wo + i / Ho] = turned[i % Ho * (Wo | 1) + i / Ho];
    __syncthreads();
  }"""
    body, call, _ = _image(outputs)
    return _file(body, call.replace("M * C * K * K)", "M * C * K * K + Ho * (Wo + 1))"))


def _conflicts():
    stage = _STAGE.replace(
        "image[i] = x[b * C * H * W + i];", "image[i / (H * W) * H * W + i % W * H + i / W % H] = x[b * C * H * W + i];"
    )
    outputs = """  for (int i = threadIdx.x; i < M * Ho * Wo; i += blockDim.x) {
    const int m = i / (Ho * Wo), h = i / Wo % Ho, w = i % Wo;
    float sum = 0;
    for (int c = 0; c < C; ++c)
#pragma unroll
      for (int p = 0; p < 5; ++p)
#pragma unroll
        for (int q = 0; q < 5; ++q) sum += image[(c * W + w + q) * H + h + p] * weights[((m * C + c) * 5 + p) * 5 + q];
    y[b * M * Ho * Wo + i] = sum;
  }"""
    body, call, _ = _image(outputs, 1024, stage)
    return _file(body, call)


def _divisions():
    body = (
        _TILE.format(side=16)
        + f"""  if (h >= Ho || w >= Wo) return;
  float sum = 0;
  for (int t = 0; t < C * K * K; ++t)
    sum += x[((b * C + t / (K * K)) * H + h + t / K % K) * W + w + t % K] * k[m * C * K * K + t];
  {_Y} = sum;"""
    )
    return _file(body, _TILES.format(side=16, names=NAMES))


def _atomics():
    body = """  const long long count = (long long)B * M * C * Ho * Wo;
  for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < count; i += (long long)gridDim.x * blockDim.x) {
    const int w = i % Wo, h = i / Wo % Ho, c = i / (Wo * Ho) % C, m = i / (Wo * Ho * C) % M, b = i / (Wo * Ho * C * M);
    for (int p = 0; p < K; ++p)
      for (int q = 0; q < K; ++q)
        atomicAdd(&y[((b * M + m) * Ho + h) * Wo + w],
                  x[((b * C + c) * H + h + p) * W + w + q] * k[((m * C + c) * K + p) * K + q]);
  }"""
    return _file(body, f"cudaMemset(y, 0, sizeof(float) * B * M * Ho * Wo);\n  forward<<<132 * 8, 256>>>({NAMES});")


def _allocates():
    call = """float* copy = nullptr;
  const size_t bytes = sizeof(float) * B * C * H * W;
  cudaMalloc(&copy, bytes);
  cudaMemcpy(copy, x, bytes, cudaMemcpyDeviceToDevice);
  float* scratch = nullptr;
  cudaMalloc(&scratch, size_t(1) << 30);
  forward<<<B, 256, sizeof(float) * (C * H * W + M * C * K * K)>>>(copy, k, y, B, M, C, H, W, K);
  cudaDeviceSynchronize();
  cudaFree(scratch);
  cudaFree(copy);"""
    body, _, _ = _image(_OUTPUTS)
    return _file(body, call)


_OUTPUTS = """  for (int i = threadIdx.x; i < M * Ho * Wo; i += blockDim.x) {
    const int m = i / (Ho * Wo), h = i / Wo % Ho, w = i % Wo;
    float sum = 0;
    for (int c = 0; c < C; ++c)
      for (int p = 0; p < K; ++p)
        for (int q = 0; q < K; ++q) sum += image[(c * H + h + p) * W + w + q] * weights[((m * C + c) * K + p) * K + q];
    y[b * M * Ho * Wo + i] = sum;
  }"""

# Code of the expected finding: ((images, channels, side, filters, taps) of the layer, text of the file).
SLOW = {
    "uncoalesced_reads": ((500, 4, 68, 8, 5), _strided_reads()),
    "uncoalesced_writes": ((1000, 1, 66, 16, 3), _strided_writes()),
    "no_reuse": ((500, 4, 68, 8, 5), _file(_tiles(16), _TILES.format(side=16, names=NAMES))),
    "bank_conflicts": ((1000, 4, 32, 16, 5), _conflicts()),
    "too_many_registers": ((1000, 4, 36, 16, 5), _register_tile(16, 8, "__launch_bounds__(64) ", 64)),
    "spills": ((1000, 4, 36, 16, 5), _register_tile(16, 4, "__launch_bounds__(1024, 2) ", 256)),
    "idle_threads": ((1000, 1, 20, 16, 5), _file(_tiles(32), _TILES.format(side=32, names=NAMES))),
    "small_grid": ((200, 4, 36, 8, 5), _file(_each(), f"forward<<<16, 256>>>({NAMES});")),
    "tail": ((290, 4, 68, 8, 5), _register_tile(4, 4, "__launch_bounds__(512, 2) ", 512)),
    "atomics": ((500, 4, 36, 8, 5), _atomics()),
    "allocation_in_call": ((200, 4, 36, 8, 5), _allocates()),
    "integer_division": ((500, 4, 68, 8, 5), _divisions()),
}
SAME = {  # other codes that also name the fault
    "allocation_in_call": {"allocation_in_call", "copies_in_call"},
    "no_reuse": {"no_reuse", "reads_per_product"},
}

# ---- Pairs of a slow kernel, and the same kernel after one remedy, for scripts/explain_pairs.py.

_LINE = (
    _PLANE
    + f"""  for (int i = i0; i < Ho * Wo; i += blockDim.x) {{
    const int h = i / Wo, w = i % Wo;
    float sum = 0;
{_SUM.format(x=_X)}    {_Y} = sum;
  }}"""
)
_NAIVE = _file(_tiles(16), _TILES.format(side=16, names=NAMES))


def _all_filters(loop):
    """Return a kernel file whose threads each keep the sums of up to 64 filters in an array; `loop` goes over them."""
    body = (
        _TILE.format(side=16).replace(" / M, m = blockIdx.z % M", "")
        + f"""  if (h >= Ho || w >= Wo) return;
  float sum[64] = {{}};
  for (int c = 0; c < C; ++c)
    for (int p = 0; p < K; ++p)
      for (int q = 0; q < K; ++q) {{
        const float in = {_X};
        {loop} sum[m] += in * k[((m * C + c) * K + p) * K + q];
      }}
  {loop} {_Y} = sum[m];"""
    )
    return _file(body, _TILES.format(side=16, names=NAMES).replace("B * M", "B"))


def _padded(text):
    """Return the text of `_conflicts` with rows that are one float longer in shared memory."""
    text = text.replace(
        "i / (H * W) * H * W + i % W * H + i / W % H]", "(i / (H * W) * W + i % W) * (H + 1) + i / W % H]"
    )
    text = text.replace("(c * W + w + q) * H + h + p", "(c * W + w + q) * (H + 1) + h + p")
    return text.replace("image + C * H * W", "image + C * W * (H + 1)").replace("(C * H * W +", "(C * W * (H + 1) +")


def _one_by_one(inside, after):
    call = f"""for (int b = 0; b < B; ++b) {{
    forward<<<dim3(M, 1), 256>>>(x + b * C * H * W, k, y + b * M * Ho * Wo, 1, M, C, H, W, K);{inside}
  }}{after}"""
    return _file(_LINE, call)


def _scratch(allocate, free):
    body, call, _ = _image(_OUTPUTS)
    return _file(body, f"{allocate}\n  {call}{free}")


_ADDED = f"{_Y} = 0;\n" + _SUM.format(x=_X).replace("sum +=", f"{_Y} +=")
_SYNCHRONISE = "\n    cudaDeviceSynchronize();"
# Remedy: (code of the finding, slow kernel, remedied kernel, layer).
PAIRS = {
    "neighbours in a row": ("uncoalesced_reads", _NAIVE.replace("threadIdx.y", "t").replace("threadIdx.x", "threadIdx.y").replace("16 + t,", "16 + threadIdx.x,"), _NAIVE, (500, 4, 68, 8, 5)),
    "a tile in registers": ("reads_per_product", _NAIVE, SLOW["tail"][1], (500, 4, 68, 8, 5)),
    "a line of threads": ("idle_threads", SLOW["idle_threads"][1], _file(_LINE, f"forward<<<dim3(M, B), 256>>>({NAMES});"), (2000, 1, 20, 16, 5)),
    "a padded row": ("bank_conflicts", _conflicts(), _padded(_conflicts()), (1000, 4, 32, 16, 5)),
    "constant indices": ("spills", _all_filters("for (int m = 0; m < M; ++m)"), _all_filters("_Pragma(\"unroll\") for (int m = 0; m < 16; ++m)"), (500, 4, 68, 16, 5)),
    "a sum in a register": ("sum_in_global_memory", _file(_tiles(16)[: _tiles(16).index("  float sum")] + "  " + _ADDED, _TILES.format(side=16, names=NAMES)), _NAIVE, (500, 4, 36, 8, 5)),
    "more blocks": ("small_grid", SLOW["small_grid"][1], SLOW["small_grid"][1].replace("<<<16,", "<<<132 * 8,"), (200, 4, 36, 8, 5)),
    "one thread per sum": ("atomics", SLOW["atomics"][1], _file(_each(), f"forward<<<132 * 8, 256>>>({NAMES});"), (500, 4, 36, 8, 5)),
    "allocated once": ("allocation_in_call", _scratch("float* scratch = nullptr;\n  cudaMalloc(&scratch, size_t(1) << 30);", "\n  cudaFree(scratch);"), _scratch("static float* scratch = nullptr;\n  if (!scratch) cudaMalloc(&scratch, size_t(1) << 30);", ""), (200, 4, 36, 8, 5)),
    "one synchronisation": ("synchronisation_in_call", _one_by_one(_SYNCHRONISE, ""), _one_by_one("", _SYNCHRONISE), (200, 4, 36, 8, 5)),
}  # fmt: skip

# ---- Incorrect kernels.

_CHANNELS = """  __shared__ float tile[20 * 20];
  const int b = blockIdx.x / M, m = blockIdx.x % M, h = threadIdx.x / 16, w = threadIdx.x % 16;
  const int row = 16 + K - 1;
  float sum = 0;
  for (int c = 0; c < C; ++c) {{
    for (int i = threadIdx.x; i < row * row; i += blockDim.x) {{
      const int r = i / row, s = i % row;
      {store}
    }}
    {after}
    for (int p = 0; p < K; ++p)
      for (int q = 0; q < K; ++q) sum += tile[(h + p) * row + w + q] * k[((m * C + c) * K + p) * K + q];{used}
    {end}
  }}
  if (h < Ho && w < Wo) {y} = sum;"""
_STORED = "tile[i] = r < H && s < W ? x[((b * C + c) * H + r) * W + s] : 0;"
_BARRIER = "__syncthreads();"


def _channels(store=_STORED, after=_BARRIER, end=_BARRIER, used="", threads=256):
    """Return a kernel file with one block per image and filter, for up to 16x16 outputs. It stages one channel at a
    time.
    """
    body = _CHANNELS.format(store=store, after=after, end=end, used=used, y=_Y)
    return _file(body, f"forward<<<B * M, {threads}>>>({NAMES});")


_SMALL = (4, 3, 18, 4, 5)  # 14 x 14 outputs
# Code: (layer, text of the file). The finding must name a line that ends in `// here`.
WRONG = {
    "missing_barrier": (_SMALL, _channels(_STORED + "  // here", "")),
    "missing_barrier_at_the_end": (_SMALL, _channels(_STORED + "  // here", end="", used="  // here")),
    "race_on_output": (_SMALL, _file(
        """  const long long count = (long long)B * M * C * Ho * Wo;
  for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < count; i += (long long)gridDim.x * blockDim.x) {
    const int c = i % C, w = i / C % Wo, h = i / C / Wo % Ho, m = i / C / Wo / Ho % M, b = i / C / Wo / Ho / M;
    float sum = 0;
    for (int p = 0; p < K; ++p)
      for (int q = 0; q < K; ++q) sum += x[((b * C + c) * H + h + p) * W + w + q] * k[((m * C + c) * K + p) * K + q];
    y[((b * M + m) * Ho + h) * Wo + w] += sum;  // here
  }""",
        f"cudaMemset(y, 0, sizeof(float) * B * M * Ho * Wo);\n  forward<<<256, 256>>>({NAMES});",
    )),
    "out_of_bounds_read": (_SMALL, _channels("tile[i] = x[((b * C + c) * H + r + 3) * W + s];  // here")),
    "out_of_bounds_write": (_SMALL, _file(
        _tiles(16, guard=False).replace("sum += x", "sum += h + p >= H || w + q >= W ? 0 : x").replace(
            f"{_Y} = sum;", f"{_Y} = sum;  // here"),
        _TILES.format(side=16, names=NAMES),
    )),
    "uninitialised_shared": (_SMALL, _channels(f"if (r < H - 1 && s < W) {_STORED}", used="  // here")),
    "divergent_barrier": (_SMALL, _channels(after="if (w < Wo) __syncthreads();  // here")),
    "misaligned_access": (_SMALL, _file(
        _tiles(16).replace("      for (int q = 0; q < K; ++q) sum", "      for (int q = 0; q < K; q += 4) {\n"
                           "        const float4 in = *reinterpret_cast<const float4*>(&" + _X + ");  // here\n"
                           "        sum").replace(f"sum += {_X} *", "sum += (in.x + in.y + in.z + in.w) *").replace(
                               "* K + q];\n", "* K + q];\n      }\n"),
        _TILES.format(side=16, names=NAMES),
    )),
    "wrong_launch": (_SMALL, _file(_tiles(64), _TILES.format(side=64, names=NAMES) + "  // here")),
    "stale_output": (_SMALL, _file(_tiles(16, store="+=").replace("+= sum;", "+= sum;  // here"),
                                   _TILES.format(side=16, names=NAMES))),
}  # fmt: skip
_VERDICTS = {"race_on_output": "race", "stale_output": "accumulates"}  # verdicts of the judge other than "incorrect"


def verdict(file, name):
    """Return a verdict on a planted kernel, as the judge's."""
    images, channels, side, filters, taps = WRONG[name][0]
    cause = Cause(_VERDICTS.get(name, "incorrect"))
    shape = ConvolutionShape(images, channels, side, side, filters, taps)
    return Verdict(file, (ShapeVerdict("the given sizes", shape, cause, "incorrect"),))


def marked(text):
    """Return the numbers of the lines that end in `// here`."""
    return {number for number, line in enumerate(text.splitlines(), 1) if line.rstrip().endswith("// here")}
