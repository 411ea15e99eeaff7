"""Draws layers with many channels, whose shifted copies `direct` processes in several chunks of channels."""

from hypothesis import strategies as st

_CACHE = 512 << 10  # bytes; equals kCopiesBytes of conv/cpu/direct_cut.h


@st.composite
def shapes(draw):
    """Draw (C, H, W, M, K) of a layer with two to five chunks of channels, and enough filters for `direct` to copy."""
    k = draw(st.integers(3, 9))
    h, w = (k + draw(st.integers(4, 20)) for _ in range(2))
    rows, width = h - k + 1, w - k + 1
    channel = 4 * k * width * (min(rows, max(16, 4 * (k - 1))) + k - 1)
    c = _CACHE // channel + draw(st.integers(1, 3 * _CACHE // channel))
    return c, h, w, 25 * width // (k * (k - 1)) + draw(st.integers(1, 9)), k
