"""Functions shared by the Python programs of the benchmarks and the peers of the interop tests."""

import os

import numpy as np


def take_stdout():
    """Return a private stream to the parent and send everything else to stderr.

    UCX logs to standard output, which would be mixed with the replies. Call it
    before ucxx is imported.
    """
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    return out


def pattern(size, seed):
    """Return the test data of a seed: byte i is (seed + 7*i + (i >> 8)) mod 256."""
    i = np.arange(size, dtype=np.uint64)
    return ((seed + 7 * i + (i >> np.uint64(8))) & np.uint64(0xFF)).astype(np.uint8)
