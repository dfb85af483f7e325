"""Writes golden.json: results of scikit-learn's KMeans. Run it with a Python that has scikit-learn
(`scripts/setup sklearn`): .local/sklearn/env/bin/python frame/kmeans/testdata/make_golden.py

With a number as argument it generates other data from this seed, and prints the results."""

import json
import pathlib
import sys

import numpy
import sklearn
from sklearn.cluster import KMeans, kmeans_plusplus


def blobs(rng, n, d, k, spread, middle=0.0):
    centers = middle + rng.normal(size=(k, d)) * 4
    return (centers[rng.integers(k, size=n)] + rng.normal(size=(n, d)) * spread).round(4)


def case(name, x, k, dtype="float64", init=None, seed=None, **options):
    data = x.astype(dtype)
    if init is None:
        centers = "k-means++"
    else:
        centers = init.astype(dtype)
    m = KMeans(k, init=centers, n_init=1, random_state=seed, algorithm="lloyd", **options).fit(data)
    wide = data.astype("float64")
    inertia = float(((wide - m.cluster_centers_.astype("float64")[m.labels_]) ** 2).sum())
    return {
        "name": name, "dtype": dtype, "k": k, "seed": seed or 0,
        "max_iter": options.get("max_iter", 300), "tol": options.get("tol", 1e-4),
        "x": data.T.tolist(), "init": None if init is None else centers.tolist(),
        "centers": m.cluster_centers_.tolist(), "labels": m.labels_.tolist(),
        "inertia": inertia, "iterations": m.n_iter_,
        "plusplus": None if init is not None else kmeans_plusplus(data, k, random_state=seed)[0].tolist(),
    }


rng = numpy.random.default_rng(int(sys.argv[1]) if len(sys.argv) > 1 else 7)
a = blobs(rng, 240, 4, 5, 0.7)
b = blobs(rng, 200, 3, 4, 3.0)
far = blobs(rng, 150, 2, 3, 0.5, middle=5000.0)
# A center that moves to another row leaves a rounding error, so that without a tolerance the number of iterations is
# random.
least = 1e-9 if len(sys.argv) > 1 else 0
lonely = numpy.concatenate([a[:60], [[90, 90, 90, 90]]])
cases = [
    case("given centers", a, 5, init=a[:5]),
    case("given centers, float32", a, 5, dtype="float32", init=a[:5]),
    case("ten iterations without tolerance", b, 8, init=b[:8], max_iter=10, tol=0),
    case("until nothing changes", b, 3, init=b[5:8], tol=0),
    case("one iteration", b, 4, init=b[:4], max_iter=1, tol=0),
    case("one group", b, 1, init=b[:1]),
    case("far from the origin", far, 3, init=far[:3], tol=0),
    case("a center without rows", lonely, 3, init=numpy.array([a[0], a[1], [-500.0] * 4]), tol=least),
    case("k-means++, seed 0", a, 5, seed=0),
    case("k-means++, seed 42", b, 7, seed=42),
    case("k-means++, seed 123456, float32", a, 6, dtype="float32", seed=123456),
]
out = {"sklearn": sklearn.__version__, "cases": cases}
text = json.dumps(out, separators=(",", ":")).replace('{"name"', '\n{"name"') + "\n"
if len(sys.argv) > 1:
    print(text)
else:
    pathlib.Path(__file__).with_name("golden.json").write_text(text)
