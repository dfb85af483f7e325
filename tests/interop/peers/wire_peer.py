"""Peer of the tests of package wire: the real msgpack and distributed.protocol.

Requests and replies are messages as sent over tcp://: a length, the prelude and
frames. Frame 0 of a request names the operation; frame 0 of a reply is a JSON object,
followed by frames for some operations. The peer ends when its input is closed.
"""

from __future__ import annotations

import json
import logging
import os
import random
import struct
import sys
import warnings

import msgpack
import numpy as np

import wire_golden
from distributed.protocol import Serialize, ToPickle, dumps, loads
from distributed.protocol.utils import pack_frames, unpack_frames
from wire_golden import describe, same

OPTS = {"use_list": False, "raw": False, "strict_map_key": False}


def random_key(r, depth=2):
    k = r.randrange(6 if depth else 5)
    if k == 0:
        return r.getrandbits(r.randrange(1, 65)) - (1 << 63 if r.random() < 0.2 else 0)
    if k == 1:
        return r.uniform(-1e6, 1e6)
    if k == 2:
        return r.randbytes(r.randrange(5))
    if k <= 4:
        return "".join(r.choices("abcäß0-", k=r.randrange(40)))
    return tuple(random_key(r, depth - 1) for _ in range(r.randrange(4)))


def random_tree(r, depth):
    """Return a random value of the msgpack types."""
    k = r.randrange(9 if depth else 7)
    if k == 0:
        return r.choice([None, True, False])
    if k <= 2:
        return random_key(r, 0)
    if k == 3:
        return r.choice([2**63, 2**64 - 1, -(2**63), -1, 0, 127, 128, 255, 256, 65535, 65536, 2**31, 2**32 - 1, 2**32, -32, -33, -128, -129, -32768, -32769])
    if k == 4:
        return r.choice([0.0, -0.0, float("inf"), float("nan"), 1e-320, r.random()])
    if k == 5:
        return "x" * r.choice([0, 31, 32, 255, 256, 300])
    if k == 6:
        return bytes(r.choice([0, 1, 255, 256, 300]))
    if k == 7:
        return [random_tree(r, depth - 1) for _ in range(r.choice([0, 1, 3, 15, 16, 17]))]
    return {random_key(r): random_tree(r, depth - 1) for _ in range(r.choice([0, 1, 3, 15, 16, 17]))}


def random_array(r):
    # Not big-endian: numpy swaps some of them when it reads a pickle.
    dt = r.choice(["?", "i1", "<i2", "<i4", "<i8", "u1", "<f4", "<f8", "<c8", "S3", "<U4", "M8[us]"])
    shape = [r.randrange(5) for _ in range(r.randrange(4))]
    n = int(np.prod(shape, dtype=int))
    x = np.frombuffer(r.randbytes(n * np.dtype(dt).itemsize), dtype="u1")
    if dt == "?":
        x = x & 1
    if dt == "<U4":
        x = np.array([r.choice(["", "ab", "grün"]) for _ in range(n)], dtype="<U4").view("u1") if n else x
    x = x.view(dt).reshape(shape).copy()
    how = r.randrange(6)
    if how == 0:
        x = np.asfortranarray(x)
    elif how == 1:
        x = x.T
    elif how == 2 and x.ndim:
        x = x[:: r.choice([-1, 2, -2])]
    elif how == 3 and x.ndim:
        x = x[..., 1:]
    elif how == 4:
        x = np.broadcast_to(x, (2, *x.shape))
    if r.random() < 0.2:
        x.flags.writeable = False
    return x


def random_value(r, depth):
    """Return a random value of pickles and families."""
    k = r.randrange(12 if depth else 7)
    if k <= 2:
        return random_tree(r, 0)
    if k == 3:
        return r.choice([1, -1]) * r.getrandbits(r.randrange(1, 500))
    if k == 4:
        return random_array(r)
    if k == 5:
        return r.choice(list(dict(wire_golden.times()).values()))
    if k == 6:
        return r.choice([b"", bytearray(b"xy"), complex(1, -2), "grüße", frozenset({1}), r.randbytes(r.randrange(200))])
    if k == 7:
        return {random_key(r) for _ in range(r.randrange(5))}
    n = r.randrange(5)
    if k <= 9:
        return [random_value(r, depth - 1) for _ in range(n)]
    if k == 10:
        return tuple(random_value(r, depth - 1) for _ in range(n))
    return {random_key(r): random_value(r, depth - 1) for _ in range(n)}


def random_message(r):
    """Return a message with values in it, and the arguments of dumps."""

    def node(depth):
        k = r.randrange(8 if depth else 5)
        if k <= 1:
            return random_tree(r, 1)
        if k == 2:
            return Serialize(random_value(r, 3))
        if k == 3:
            return ToPickle(random_value(r, 2))
        if k == 4:
            return {random_key(r, 0) for _ in range(r.randrange(4))}
        if k <= 6:
            return {random_key(r): node(depth - 1) for _ in range(r.randrange(6))}
        return [node(depth - 1) for _ in range(r.randrange(6))]

    kw = {"context": {"compression": r.choice([None, None, "lz4", "zstd", "snappy", "zlib"])}}
    if r.random() < 0.5:
        kw["frame_split_size"] = r.choice([16, 64, 1000])
    return {"op": "x", "data": node(3), "big": Serialize(r.choice([b"ab" * 20000, np.zeros(3000), None]))}, kw


class Peer:
    def __init__(self):
        self.cases = {}

    def golden(self, _):
        """Return all golden cases: JSON has the names, kinds, texts and numbers of frames."""
        out, frames = [], []
        for name, kind, value, fs, text in wire_golden.cases():
            self.cases[name] = kind, value
            out.append({"name": name, "kind": kind, "text": text, "n": len(fs)})
            frames += fs
        return {"cases": out}, frames

    def check(self, frames):
        """Report whether a message that Go encoded equals a golden case."""
        name = bytes(frames[0]).decode()
        kind, value = self.cases[name]
        back = loads([bytearray(f) for f in frames[1:]])
        if kind == "message":
            return {"same": describe(value, loose=True) == describe(back, loose=True), "text": describe(back, loose=True)}, []
        return {"same": bool(same(value, back)), "text": describe(back)}, []

    def describe(self, frames):
        """Return the text of a decoded message."""
        back = loads([bytearray(f) for f in frames[1:]])
        return {"text": describe(back, loose=bytes(frames[0]) == b"loose")}, []

    def msgpack(self, frames):
        """Return for each frame the text of its decoded value, or its error; and the frame again."""
        out, again = [], []
        for f in frames:
            try:
                v = msgpack.loads(f, **OPTS)
                out.append({"text": describe(v, loose=True)})
                again.append(msgpack.dumps(v, use_bin_type=True))
            except Exception as e:
                out.append({"error": repr(e)})
                again.append(b"")
        return {"out": out}, again

    def random_msgpack(self, frames):
        seed, n = struct.unpack("<QQ", frames[0])
        r = random.Random(seed)
        trees = [random_tree(r, 3) for _ in range(n)]
        return {"texts": [describe(t, loose=True) for t in trees]}, [msgpack.dumps(t, use_bin_type=True) for t in trees]

    def random_messages(self, frames):
        """Return random messages: JSON has for each the text and the number of frames."""
        seed, n = struct.unpack("<QQ", frames[0])
        r = random.Random(seed)
        out, all_frames = [], []
        for _ in range(n):
            msg, kw = random_message(r)
            fs = dumps(msg, **kw)
            out.append({"text": describe(loads([bytearray(f) for f in fs]), loose=True), "n": len(fs)})
            all_frames += fs
        return {"cases": out}, all_frames

    def loads(self, frames):
        """Return the text of a decoded message, or its error: for damaged ones."""
        try:
            v = loads([bytearray(f) for f in frames])
            return {"text": describe(v, loose=True)}, []
        except Exception as e:
            return {"error": repr(e)}, []

    def unpack(self, frames):
        """Return Dask's own split of what follows the first length."""
        try:
            got, missing = unpack_frames(bytes(frames[0]), partial=True)
            return {"lengths": [len(g) for g in got], "missing": missing}, []
        except Exception as e:
            return {"error": repr(e)}, []

    def sampled(self, frames):
        """Return what Dask does with a payload, many times: samples are random."""
        from distributed.protocol.compression import maybe_compress

        name = bytes(frames[0]).decode()
        hits = sum(maybe_compress(frames[1], compression=name)[0] is not None for _ in range(20))
        return {"hits": hits}, []


def main():
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    peer = Peer()
    stdin = sys.stdin.buffer
    while head := stdin.read(8):
        (n,) = struct.unpack("<Q", head)
        frames = unpack_frames(stdin.read(n))
        try:
            answer, fs = getattr(peer, bytes(frames[0]).decode())(frames[1:])
        except Exception as e:
            import traceback

            answer, fs = {"failed": traceback.format_exc() or repr(e)}, []
        data = pack_frames([json.dumps(answer).encode(), *[memoryview(f).cast("B") if memoryview(f).nbytes else b"" for f in fs]])
        out.write(struct.pack("<Q", len(data)) + data)
        out.flush()


if __name__ == "__main__":
    main()
