"""Machine learning on Dask: dask-ml, lightgbm.dask, xgboost.dask and joblib with scikit-learn, with small data."""

import numpy as np
import pytest


@pytest.fixture
def blobs():
    import dask.array as da

    rng = np.random.RandomState(0)
    x = np.concatenate([rng.normal(size=(200, 4)), rng.normal(loc=6, size=(200, 4))]).astype("float32")
    y = np.repeat([0, 1], 200)
    order = rng.permutation(400)
    return da.from_array(x[order], chunks=(100, 4)), da.from_array(y[order], chunks=100)


def accuracy(got, want):
    return float((np.asarray(got) == np.asarray(want)).mean())


def test_dask_ml_kmeans(client, blobs):
    from dask_ml.cluster import KMeans

    x, y = blobs
    labels = KMeans(n_clusters=2, random_state=0).fit(x).labels_.compute()
    assert max(accuracy(labels, y), accuracy(1 - labels, y)) > 0.95


def test_dask_ml_logistic(client, blobs):
    from dask_ml.linear_model import LogisticRegression

    x, y = blobs
    model = LogisticRegression(solver="lbfgs").fit(x, y)
    assert accuracy(model.predict(x).compute(), y) > 0.95


def test_dask_ml_pca(client, blobs):
    from dask_ml.decomposition import PCA

    x, _ = blobs
    assert PCA(n_components=2, random_state=0).fit_transform(x).compute().shape == (400, 2)


def test_dask_ml_grid_search(client, blobs):
    from dask_ml.model_selection import GridSearchCV
    from sklearn.linear_model import LogisticRegression

    x, y = (v.compute() for v in blobs)
    search = GridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, cv=2).fit(x, y)
    assert search.best_score_ > 0.95


def test_dask_ml_incremental(client, blobs):
    from dask_ml.wrappers import Incremental
    from sklearn.linear_model import SGDClassifier

    x, y = blobs
    model = Incremental(SGDClassifier(random_state=0)).fit(x, y, classes=[0, 1])
    assert accuracy(model.predict(x).compute(), y) > 0.9


def test_dask_ml_scaler(client, blobs):
    from dask_ml.preprocessing import StandardScaler

    x, _ = blobs
    assert abs(float(StandardScaler().fit_transform(x).mean().compute())) < 1e-4


def test_joblib_random_forest(client, blobs):
    import joblib
    from sklearn.ensemble import RandomForestClassifier

    x, y = (v.compute() for v in blobs)
    with joblib.parallel_config("dask"):
        model = RandomForestClassifier(20, random_state=0).fit(x, y)
    assert accuracy(model.predict(x), y) > 0.95


@pytest.mark.parametrize("kind", ["DaskLGBMClassifier", "DaskLGBMRegressor"])
def test_lightgbm(client, blobs, kind):
    import lightgbm

    x, y = blobs
    model = getattr(lightgbm, kind)(client=client, n_estimators=5, verbose=-1, num_threads=1).fit(x, y)
    assert accuracy(np.asarray(model.predict(x).compute()) > 0.5, y) > 0.95


def test_lightgbm_ranker(client, blobs):
    import dask.array as da
    import lightgbm

    x, y = blobs
    group = da.from_array(np.full(40, 10), chunks=10)
    model = lightgbm.DaskLGBMRanker(client=client, n_estimators=5, verbose=-1, num_threads=1).fit(x, y, group=group)
    assert model.predict(x).compute().shape == (400,)


def test_xgboost_train(client, blobs):
    from xgboost import dask as dxgb

    x, y = blobs
    data = dxgb.DaskDMatrix(client, x, y)
    out = dxgb.train(client, {"objective": "binary:logistic", "tree_method": "hist", "nthread": 1}, data, num_boost_round=5)
    assert accuracy(dxgb.predict(client, out, x).compute() > 0.5, y) > 0.95


@pytest.mark.parametrize("kind", ["DaskXGBClassifier", "DaskXGBRegressor"])
def test_xgboost_models(client, blobs, kind):
    from xgboost import dask as dxgb

    x, y = blobs
    model = getattr(dxgb, kind)(n_estimators=5, tree_method="hist", n_jobs=1)
    model.client = client
    model.fit(x, y)
    assert accuracy(np.asarray(model.predict(x).compute()) > 0.5, y) > 0.95
