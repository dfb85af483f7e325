"""KMeans, PCA and LinearRegression of the Python package on dask arrays of Python workers. The first argument is the scheduler,
the second the golden file of frame/kmeans, with results of scikit-learn."""

import json
import sys

import dask.array as da
import millstream
import numpy as np
from checks import check, raises, run


def blocks(x, *rows):
    """Return a dask array with blocks of some numbers of rows, and one of the rest."""
    rows = [*rows, len(x) - sum(rows)]
    return da.from_array(x, chunks=(tuple(rows), *((n,) for n in x.shape[1:])))


def near(what, got, want, tolerance=1e-9):
    got, want = np.asarray(got, "float64"), np.asarray(want, "float64")
    scale = max(1, np.abs(want).max()) if want.size else 1
    check(what, got.shape == want.shape and bool(np.all(np.abs(got - want) <= tolerance * scale)), True)


def kmeans(client, comms, cases):
    for c in cases:
        x = np.array(c["x"], c["dtype"]).T
        init = "k-means++" if c["init"] is None else c["init"]
        m = millstream.KMeans(c["k"], init=init, max_iter=c["max_iter"], tol=c["tol"], random_state=c["seed"], comms=comms)
        m.fit(blocks(x, 7, 0, 30))
        check(f"{c['name']}: labels", m.labels_.compute().tolist(), c["labels"])
        if c["tol"] > 0 or c["max_iter"] < 300:  # without a tolerance the last iterations depend on the order of sums
            check(f"{c['name']}: iterations", m.n_iter_, c["iterations"])
        near(f"{c['name']}: centers", m.cluster_centers_, c["centers"], 1e-5 if c["dtype"] == "float32" else 1e-9)
        near(f"{c['name']}: inertia", m.inertia_, c["inertia"], 1e-6)


def other_inputs(client, cases):
    x = np.array(cases[0]["x"]).T
    m = millstream.KMeans(cases[0]["k"], init=cases[0]["init"]).fit(blocks(x, 100, 100))  # forms its own communicator
    check("labels without a given communicator", m.labels_.compute().tolist(), cases[0]["labels"])
    check("chunks of labels", m.labels_.chunks, ((100, 100, 40),))
    p = m.predict(blocks(x, 1, 0, 50))
    check("predicted labels", (p.compute().tolist(), p.dtype), (cases[0]["labels"], np.dtype("int32")))
    again = m.fit_predict(da.from_array(x, chunks=(50, 2)))  # columns in several blocks
    check("fit_predict", again.compute().tolist(), cases[0]["labels"])
    whole = (x * 1000).round()
    for dtype in ["int16", "int64", "uint8"]:
        y = np.clip(whole, 0, 255).astype(dtype) if dtype == "uint8" else whole.astype(dtype)
        a = millstream.KMeans(3, init=y[:3]).fit(blocks(y, 20))
        b = millstream.KMeans(3, init=y[:3]).fit(blocks(y.astype("float64"), 77))
        check(f"{dtype}: labels", a.labels_.compute().tolist(), b.labels_.compute().tolist())
    check("type of the centers", a.cluster_centers_.dtype, np.dtype("float64"))


def tall(client, comms):
    rng = np.random.default_rng(5)
    for n, d, rows in [(200, 4, (3, 0, 100)), (5, 3, (1, 1)), (3, 5, (1,))]:
        for dtype in ["float64", "float32", "int32"]:
            tolerance = 2e-4 if dtype == "float32" else 1e-9
            x = (50 + rng.normal(size=(n, d)) * 3.0 ** np.arange(d) * 10).astype(dtype)
            wide = x.astype("float64")
            k = min(n - 1, d)
            m = millstream.PCA(k, comms=comms).fit(blocks(x, *rows))
            _, s, v = np.linalg.svd(wide - wide.mean(axis=0), full_matrices=False)
            v = v * np.sign(v[np.arange(len(v)), np.abs(v).argmax(axis=1)])[:, None]
            what = f"PCA of {n} rows, {d} columns, {dtype}"
            near(f"{what}: singular values", m.singular_values_, s[:k], tolerance)
            near(f"{what}: components", m.components_, v[:k], tolerance)
            near(f"{what}: ratio", m.explained_variance_ratio_, s[:k] ** 2 / (s**2).sum(), tolerance)
            near(f"{what}: transformed", m.transform(blocks(x, 2)).compute(), (wide - wide.mean(axis=0)) @ v[:k].T, tolerance)
            y = (wide @ np.arange(1, d + 1) + rng.normal(size=n)).astype(dtype)
            for intercept in [True, False]:
                m = millstream.LinearRegression(fit_intercept=intercept, comms=comms).fit(blocks(x, *rows), blocks(y, *rows))
                mx, my = (wide.mean(axis=0), y.astype("float64").mean()) if intercept else (np.zeros(d), 0.0)
                want, _, rank, s = np.linalg.lstsq(wide - mx, y - my, rcond=1e-6)
                what = f"least squares of {n} rows, {d} columns, {dtype}, intercept {intercept}"
                near(f"{what}: coefficients", m.coef_, want, tolerance * 10)
                near(f"{what}: intercept", m.intercept_, my - mx @ want, tolerance * 100)
                check(f"{what}: rank", m.rank_, rank)
                near(f"{what}: predictions", m.predict(blocks(x, 1)).compute(), wide @ want + my - mx @ want, tolerance * 10)


def invalid(client, comms):
    x = blocks(np.array([[1.0, 2], [3, 4], [5, 7]]), 2)
    K = millstream.KMeans
    raises("a list", TypeError, lambda: K().fit([[1, 2]]), "want a dask array")
    raises("one dimension", ValueError, lambda: K().fit(blocks(np.arange(3.0), 1)), "1 dimensions")
    raises("text", TypeError, lambda: K().fit(blocks(np.array([["a"], ["b"]]), 1)), "want numbers")
    raises("init", ValueError, lambda: K(2, init=[[1], [2]]).fit(x), "init has shape (2, 1)")
    raises("another init", ValueError, lambda: K(2, init="random").fit(x), "random")
    raises("n_clusters", ValueError, lambda: K(0).fit(x), "n_clusters 0")
    raises("random_state", ValueError, lambda: K(2, random_state=-1).fit(x), "random_state -1")
    raises("few rows", ValueError, lambda: K(4, comms=comms).fit(x), "cannot divide 3 rows into 4 groups")
    bad = blocks(np.array([[1.0, 2], [3, 4], [5, np.nan]]), 2)
    raises("NaN", ValueError, lambda: K(2, comms=comms).fit(bad), "not finite")
    raises("NaN in PCA", ValueError, lambda: millstream.PCA(comms=comms).fit(bad), "not finite")
    raises("not fitted", ValueError, lambda: K().predict(x), "call fit first")
    m = K(2, random_state=1, comms=comms).fit(x)
    raises("other columns", ValueError, lambda: m.predict(blocks(np.ones((2, 3)), 1)), "3 columns")
    raises("n_components", ValueError, lambda: millstream.PCA(3, comms=comms).fit(x), "n_components 3")
    raises("blocks of y", ValueError, lambda: millstream.LinearRegression(comms=comms).fit(x, blocks(np.ones(3))), "2 blocks, y has 1")
    # A block that is not what its array promises is an error of all ranks, and the communicator can go on.
    wrong = x.map_blocks(lambda b: b[:, 0] if len(b) == 1 else b, dtype="float64", meta=np.empty((0, 0)))
    raises("a block of another shape", ValueError, lambda: K(2, comms=comms).fit(wrong), "has shape (1,)")
    check("a fit after errors", K(2, random_state=1, comms=comms).fit(x).n_iter_ > 0, True)


def main(client):
    with open(sys.argv[2]) as f:
        cases = json.load(f)["cases"]
    client.wait_for_workers(3)
    with millstream.Comms(client, timeout=300) as comms:
        kmeans(client, comms, cases)
        tall(client, comms)
        invalid(client, comms)
    other_inputs(client, cases)


if __name__ == "__main__":
    run(main)
