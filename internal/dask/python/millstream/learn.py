"""Algorithms on dask arrays whose blocks are on Python workers, with the kernels of Millstream.

::

    from millstream import KMeans

    m = KMeans(n_clusters=8, random_state=0).fit(x)     # a dask array of numpy or CuPy blocks
    m.cluster_centers_, m.labels_, m.inertia_           # labels_ is a dask array

Classes have the form and the results of those of scikit-learn. The workers need this package and libmillstream.so. Blocks stay
where they are; CuPy blocks are computed on their GPU.
"""

from __future__ import annotations

import random
from typing import Any

from . import _ranks
from .comms import Comms


class _Estimator:
    def __init__(self, client: Any, comms: Comms | None) -> None:
        self._client, self._comms = client, comms

    def _run(self, *args: Any, **options: Any) -> tuple[dict, Any]:
        return _ranks.Run(self._client, self._comms)(*args, **options)

    def _fitted(self, name: str) -> Any:
        if not hasattr(self, name):
            raise ValueError(f"this {type(self).__name__} is not fitted: call fit first")
        return getattr(self, name)

    def _input(self, x: Any) -> Any:
        x = _ranks.checked(x)
        if x.shape[1] != self.n_features_in_:
            raise ValueError(f"X has {x.shape[1]} columns, but {type(self).__name__} was fitted with {self.n_features_in_}")
        return x


class KMeans(_Estimator):
    """k-means as sklearn.cluster.KMeans(algorithm="lloyd", n_init=1).

    `init` is "k-means++" or the initial centers, `random_state` a number for k-means++ (default: another one for each fit).
    `client` is a `distributed.Client` (default: the current one). `comms` is a :class:`Comms` whose workers take part (default:
    one that is formed for the fit, of the workers that have blocks).

    After `fit`: `cluster_centers_` (numpy), `labels_` (a dask array), `inertia_`, `n_iter_`, `n_features_in_`.
    """

    def __init__(self, n_clusters: int = 8, *, init: Any = "k-means++", max_iter: int = 300, tol: float = 1e-4,
                 random_state: int | None = None, client: Any = None, comms: Comms | None = None) -> None:
        super().__init__(client, comms)
        self.n_clusters, self.init, self.max_iter, self.tol, self.random_state = n_clusters, init, max_iter, tol, random_state

    def fit(self, X: Any, y: Any = None) -> KMeans:  # noqa: N803 - the name in scikit-learn
        """Divide the rows of a dask array into groups."""
        import numpy as np

        x = _ranks.checked(X)
        columns, init = x.shape[1], None
        if not isinstance(self.init, str):
            init = np.asarray(self.init, dtype="float64")
            if init.shape != (self.n_clusters, columns):
                raise ValueError(f"init has shape {init.shape}, want ({self.n_clusters}, {columns})")
        elif self.init != "k-means++":
            raise ValueError(f"init {self.init!r}: want 'k-means++' or an array of centers")
        seed = random.getrandbits(32) if self.random_state is None else self.random_state
        if not 0 <= seed < 1 << 32:
            raise ValueError(f"random_state {seed}: want 0 to 2**32-1")
        if not 1 <= self.n_clusters <= 1 << 20 or not 1 <= self.max_iter < 1 << 31:
            raise ValueError(f"n_clusters {self.n_clusters} and max_iter {self.max_iter}: want at least 1")
        dtype = _ranks.float_type(x)
        if init is not None:
            init = init.astype(dtype)
        options = {"columns": columns, "clusters": self.n_clusters, "max_iter": self.max_iter, "tol": float(self.tol), "seed": seed,
                   "init": init, "dtype": dtype}
        got, self.labels_ = self._run(_ranks.kmeans_rank, [x], options, labels=True)
        self.cluster_centers_ = got["centers"].astype(dtype)
        self.inertia_, self.n_iter_, self.n_features_in_ = got["inertia"], got["iterations"], columns
        return self

    def fit_predict(self, X: Any, y: Any = None) -> Any:  # noqa: N803
        """Return `labels_` after fit."""
        return self.fit(X).labels_

    def predict(self, X: Any) -> Any:  # noqa: N803
        """Return the number of the nearest center of each row, as a dask array."""
        centers = self._fitted("cluster_centers_")
        return self._input(X).map_blocks(_ranks.kmeans_block, centers=centers, dtype="int32", drop_axis=1,
                                         type_=str(centers.dtype), meta=_labels_meta(X))


def _labels_meta(x: Any) -> Any:
    import numpy as np

    return getattr(x, "_meta", np.empty((0, 0))).reshape(-1)[:0].astype("int32")


class PCA(_Estimator):
    """Principal components as sklearn.decomposition.PCA(svd_solver="full").

    After `fit`: `components_`, `singular_values_`, `explained_variance_`, `explained_variance_ratio_`, `noise_variance_`, `mean_`,
    `n_components_`, `n_samples_`, `n_features_in_`. The other arguments are those of :class:`KMeans`.
    """

    def __init__(self, n_components: int | None = None, *, client: Any = None, comms: Comms | None = None) -> None:
        super().__init__(client, comms)
        self.n_components = n_components

    def fit(self, X: Any, y: Any = None) -> PCA:  # noqa: N803
        """Find the components of the rows of a dask array."""
        import numpy as np

        x = _ranks.checked(X)
        d, dtype = x.shape[1], _ranks.float_type(x)
        got, _ = self._run(_ranks.tall_rank, [x], {"columns": d, "dtype": dtype, "targets": False})
        n = got["rows"]
        most = min(n, d)
        k = most if self.n_components is None else self.n_components
        if not 1 <= k <= most or n < 2:
            raise ValueError(f"n_components {k} of {n} rows and {d} columns: want 1 to {most}, and at least two rows")
        _, s, v = np.linalg.svd(got["triangle"])
        v = v * np.sign(v[np.arange(d), np.abs(v).argmax(axis=1)])[:, None]
        variance = s[:most] ** 2 / (n - 1)
        self.mean_, self.components_ = got["mean"].astype(dtype), v[:k].astype(dtype)
        self.singular_values_, self.explained_variance_ = s[:k], variance[:k]
        self.explained_variance_ratio_ = variance[:k] / variance.sum()
        self.noise_variance_ = float(variance[k:].mean()) if k < most else 0.0
        self.n_components_, self.n_samples_, self.n_features_in_ = k, n, d
        return self

    def transform(self, X: Any) -> Any:  # noqa: N803
        """Return the coordinates of the rows along the components, as a dask array."""
        v = self._fitted("components_")
        return self._input(X).map_blocks(_product, mean=self.mean_, weights=v.T, add=0.0, dtype=v.dtype,
                                         chunks=(X.chunks[0], (len(v),)) if hasattr(X, "chunks") else None)

    def fit_transform(self, X: Any, y: Any = None) -> Any:  # noqa: N803
        """Return `transform` after fit."""
        return self.fit(X).transform(X)


class LinearRegression(_Estimator):
    """Ordinary least squares as sklearn.linear_model.LinearRegression.

    `tol` is the ratio to the largest singular value up to which others count as zero.

    After `fit`: `coef_`, `intercept_`, `rank_`, `singular_`, `n_features_in_`. The other arguments are those of :class:`KMeans`.
    """

    def __init__(self, *, fit_intercept: bool = True, tol: float = 1e-6, client: Any = None, comms: Comms | None = None) -> None:
        super().__init__(client, comms)
        self.fit_intercept, self.tol = fit_intercept, tol

    def fit(self, X: Any, y: Any) -> LinearRegression:  # noqa: N803
        """Fit the model to y, a dask array of one dimension with the same blocks of rows as X."""
        import numpy as np

        x, y = _ranks.checked(X), _ranks.checked(y, "y", 1)
        if x.numblocks[0] != y.numblocks[0]:
            raise ValueError(f"X has {x.numblocks[0]} blocks, y has {y.numblocks[0]}; rechunk one of them")
        d, dtype = x.shape[1], _ranks.float_type(x)
        got, _ = self._run(_ranks.tall_rank, [x, y], {"columns": d + 1, "dtype": dtype, "targets": True})
        n, mean, r = got["rows"], got["mean"], got["triangle"]
        if not self.fit_intercept:  # one more row: the constant is orthogonal to the rows minus the means
            r = np.vstack([r, mean * np.sqrt(n)])
        u, s, v = np.linalg.svd(r[:, :d], full_matrices=False)
        keep = s > s[0] * self.tol if s[0] > 0 else np.zeros(d, bool)
        coef = v[keep].T @ (u[:, keep].T @ r[:, d] / s[keep])
        self.rank_, self.singular_, self.n_features_in_ = int(keep.sum()), s[: min(n, d)], d
        self.intercept_ = float(mean[d] - mean[:d] @ coef) if self.fit_intercept else 0.0
        self.coef_ = coef.astype(dtype)
        return self

    def predict(self, X: Any) -> Any:  # noqa: N803
        """Return the prediction for each row, as a dask array."""
        coef = self._fitted("coef_")
        return self._input(X).map_blocks(_product, mean=None, weights=coef, add=self.intercept_, dtype=coef.dtype, drop_axis=1)


def _product(block: Any, mean: Any, weights: Any, add: float) -> Any:
    xp = _ranks._module(block)
    x = xp.asarray(block, dtype=weights.dtype)
    if mean is not None:
        x = x - xp.asarray(mean)
    return x @ xp.asarray(weights) + weights.dtype.type(add)
