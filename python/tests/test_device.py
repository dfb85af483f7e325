"""Layout of device frames. Arrays of numpy replace those of CuPy, which have the same functions."""

import unittest

import numpy
import pyarrow
from distributed import Client, LocalCluster
from millstream import device


class Layout(unittest.TestCase):
    columns = {
        "id": numpy.arange(11),
        "x": numpy.linspace(0, 1, 11, dtype="f4"),
        "y": (numpy.arange(11.0), numpy.arange(11) % 3 != 1),
        "even": numpy.arange(11) % 2 == 0,
        "sure": (numpy.arange(11) > 4, numpy.arange(11) % 4 != 0),
        "name": {"offsets": numpy.arange(0, 24, 2, dtype="i8"), "bytes": numpy.frombuffer(b"ab" * 11, "u1")},
        "note": {
            "offsets": numpy.arange(12, dtype="i4"),
            "bytes": numpy.frombuffer(b"x" * 11, "u1"),
            "valid": numpy.arange(11) < 5,
        },
    }

    def same(self, a, b):
        if isinstance(a, dict):
            self.assertEqual(list(a), list(b))
            for k in a:
                self.same(a[k], b[k])
        elif isinstance(a, tuple):
            self.same(a[0], b[0])
            self.same(a[1], b[1])
        else:
            self.assertEqual(a.tolist(), b.tolist())

    def test_round(self):
        part = device.to_device(self.columns)
        self.assertEqual((part["millstream.frame"], part["rows"]), (1, 11))
        self.assertIs(device.to_device(part), part)
        self.same(self.columns, device.from_device(part))

    def test_arrow(self):
        """pyarrow reads the buffers, which have the Arrow layout."""
        part = device.to_device(self.columns)
        schema = pyarrow.ipc.open_stream(part["schema"]).schema
        got = {}
        for i, field in enumerate(schema):
            buffers = [part.get(f"{k}.{i}") for k in ("validity", "offsets", "values")]
            if buffers[1] is None:
                del buffers[1]
            buffers = [None if b is None else pyarrow.py_buffer(b) for b in buffers]
            got[field.name] = pyarrow.Array.from_buffers(field.type, part["rows"], buffers).to_pylist()
        self.assertEqual(got["id"], list(range(11)))
        self.assertEqual(got["y"], [None if n % 3 == 1 else float(n) for n in range(11)])
        self.assertEqual(got["even"], [n % 2 == 0 for n in range(11)])
        self.assertEqual(got["sure"], [None if n % 4 == 0 else n > 4 for n in range(11)])
        self.assertEqual(got["name"], ["ab"] * 11)
        self.assertEqual(got["note"], ["x"] * 5 + [None] * 6)

    def test_types(self):
        part = device.to_device({"at": numpy.arange(3)}, types={"at": pyarrow.timestamp("ms")})
        self.assertEqual(pyarrow.ipc.open_stream(part["schema"]).schema.field(0).type, pyarrow.timestamp("ms"))
        self.assertEqual(device.from_device(device.to_device({"a": numpy.zeros(0)}))["a"].tolist(), [])

    def test_errors(self):
        for bad, kind, text in [
            ({"a": numpy.zeros((2, 2))}, TypeError, "'a' has 2 dimensions"),
            ({"a": numpy.zeros(2), "b": numpy.zeros(3)}, ValueError, "'b' has 3 rows, the first column has 2"),
            ({"a": numpy.array(["x"])}, TypeError, "'a' has type <U1"),
            ([1], TypeError, "a partition is a list"),
        ]:
            with self.assertRaisesRegex(kind, text):
                device.to_device(bad)
        with self.assertRaisesRegex(ValueError, "version 2"):
            device.from_device({"millstream.frame": 2})
        with self.assertRaisesRegex(ValueError, "'tables'"):
            device.from_device(device.to_device({"a": numpy.zeros(1)}), kind="tables")


class Cluster(unittest.TestCase):
    def test_published(self):
        with (
            LocalCluster(n_workers=1, threads_per_worker=1, processes=False, protocol="tcp", host="127.0.0.1", dashboard_address=None) as cluster,
            Client(cluster) as client,
        ):
            parts = client.scatter([{"a": numpy.arange(n)} for n in (3, 5)])
            device.from_dask(client, parts, name="points")
            back = client.gather(device.to_dask(client, "points"))
            self.assertEqual([p["a"].tolist() for p in back], [list(range(3)), list(range(5))])
            with self.assertRaisesRegex(ValueError, "not a frame"):
                device.to_dask(client, [])


if __name__ == "__main__":
    unittest.main()
