"""Writes golden.json: results of PCA, TruncatedSVD, LinearRegression and Ridge of scikit-learn (`scripts/setup sklearn`):
.local/sklearn/env/bin/python frame/internal/tall/testdata/make_golden.py

Without scikit-learn the same formulas are computed by LAPACK through numpy; "by" in the file names the source. With a number
as argument it generates other data from this seed, and prints the results; scikit-learn is required then."""

import json
import pathlib
import sys

import numpy

try:
    import sklearn
    from sklearn.decomposition import PCA, TruncatedSVD
    from sklearn.linear_model import LinearRegression, Ridge
except ImportError:
    if len(sys.argv) > 1:
        raise
    sklearn = None


def flip(v):
    signs = numpy.sign(v[numpy.arange(len(v)), numpy.abs(v).argmax(axis=1)])
    return v * signs[:, None]


def pca(x, k):
    if sklearn:
        m = PCA(k, svd_solver="full").fit(x)
        return (m.mean_, m.components_, m.singular_values_, m.explained_variance_, m.explained_variance_ratio_,
                m.noise_variance_, m.transform(x))
    mean = x.mean(axis=0)
    _, s, v = numpy.linalg.svd(x - mean, full_matrices=False)
    v, var = flip(v), s**2 / (len(x) - 1)
    noise = var[k:].mean() if k < len(var) else 0.0
    return mean, v[:k], s[:k], var[:k], var[:k] / var.sum(), noise, (x - mean) @ v[:k].T


def svd(x, k):
    if sklearn:
        if k < min(x.shape):  # ARPACK computes fewer
            m = TruncatedSVD(k, algorithm="arpack", random_state=0).fit(x)
            return m.components_, m.singular_values_, m.explained_variance_, m.explained_variance_ratio_, m.transform(x)
    _, s, v = numpy.linalg.svd(x, full_matrices=False)
    t = x @ flip(v)[:k].T
    var = t.var(axis=0)
    return flip(v)[:k], s[:k], var, var / x.var(axis=0).sum(), t


def least_squares(x, y, intercept):
    if sklearn:
        m = LinearRegression(fit_intercept=intercept).fit(x, y)
        return m.coef_, m.intercept_, m.rank_, m.singular_, m.predict(x), m.score(x, y)
    mx, my = (x.mean(axis=0), y.mean()) if intercept else (0 * x[0], 0 * y[0])
    c, _, rank, s = numpy.linalg.lstsq(x - mx, y - my, rcond=1e-6)
    b = my - mx @ c
    return c, b, rank, s, x @ c + b, score(y, x @ c + b)


def ridge(x, y, alpha):
    if sklearn:
        m = Ridge(alpha=alpha, solver="svd").fit(x, y)
        return m.coef_, m.intercept_, m.score(x, y)
    mx, my = x.mean(axis=0), y.mean()
    u, s, v = numpy.linalg.svd(x - mx, full_matrices=False)
    c = v.T @ (s / (s**2 + alpha) * (u.T @ (y - my)))
    b = my - mx @ c
    return c, b, score(y, x @ c + b)


def score(y, p):
    total = ((y - y.mean()) ** 2).sum()
    rest = ((y - p) ** 2).sum()
    return 1 - rest / total if total else float(rest == 0)


def plain(v):
    return numpy.asarray(v, dtype="float64").tolist()


def case(name, x, y, dtype="float64", k=None):
    raw = x.astype(dtype)
    y = y.astype(dtype)
    if dtype not in ("float32", "float64"):  # scikit-learn converts integers
        x, y = raw.astype("float64"), y.astype("float64")
    else:
        x = raw
    k = k or min(x.shape)
    out = {"name": name, "dtype": dtype, "k": k, "x": plain(x.T), "y": plain(y)}
    names = "mean components values variance ratio noise transformed".split()
    out["pca"] = {n: plain(v) for n, v in zip(names, pca(x, k))}
    out["svd"] = {n: plain(v) for n, v in zip(["components", "values", "variance", "ratio", "transformed"], svd(x, k))}
    names = "coef intercept rank values predicted score".split()
    out["ols"] = {n: plain(v) for n, v in zip(names, least_squares(x, y, True))}
    out["origin"] = {n: plain(v) for n, v in zip(names, least_squares(x, y, False))}
    out["ridge"] = {n: plain(v) for n, v in zip(["coef", "intercept", "score"], ridge(x, y, 2.5))}
    return out


rng = numpy.random.default_rng(int(sys.argv[1]) if len(sys.argv) > 1 else 7)


def table(n, d, middle=0.0, spread=None):
    """Columns with spreads that are well apart, so that components are in a certain order."""
    spread = 3.0 ** numpy.arange(d) if spread is None else spread
    mix = numpy.linalg.qr(rng.normal(size=(d, d)))[0]
    x = middle + (rng.normal(size=(n, d)) * spread) @ mix
    return x, x @ rng.normal(size=d) + 5 + 0.1 * rng.normal(size=n)


x2 = table(60, 3)
dependent = numpy.column_stack([x2[0], x2[0][:, 0] + x2[0][:, 1]])
cases = [
    case("one column", *table(9, 1)),
    case("two columns", *table(30, 2)),
    case("five columns", *table(48, 5)),
    case("five columns, two components", *table(48, 5), k=2),
    case("float32", *table(40, 3), dtype="float32"),
    case("far from zero", *table(50, 3, middle=1e6)),
    case("badly scaled", *table(50, 4, spread=numpy.array([1, 1e2, 1e3, 1e5]))),
    case("as many rows as columns", *table(4, 4), k=2),
    case("fewer rows than columns", *table(3, 5), k=2),
    case("dependent columns", dependent, x2[1], k=3),
    case("two rows", *table(2, 3), k=1),
]
for dtype, by in [("int8", 1.5), ("uint8", 1), ("int16", 10), ("uint16", 10), ("int32", 100), ("uint32", 100), ("int64", 1000), ("uint64", 1000)]:
    x, y = table(20, 3)
    shift = 0 if dtype.startswith("int") else 100
    cases.append(case(dtype, numpy.clip((x * by + shift).round(), -120 if shift == 0 else 0, 120 if by < 2 else 1e9),
                      numpy.clip((y * by / 3 + shift).round(), -120 if shift == 0 else 0, 120 if by < 2 else 1e9), dtype=dtype))
by = f"scikit-learn {sklearn.__version__}" if sklearn else f"numpy {numpy.__version__}"
out = {"by": by, "cases": cases}
text = json.dumps(out, separators=(",", ":")).replace('{"name"', '\n{"name"') + "\n"
if len(sys.argv) > 1:
    print(text)
else:
    pathlib.Path(__file__).with_name("golden.json").write_text(text)
