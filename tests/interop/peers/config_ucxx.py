"""Evaluates configurations with distributed-ucxx.

Input is one JSON list of cases {"env": {...}, "yaml": text}, output one list of results: the
UCX options it would set, the pool size and the error, if any. Every case starts with a clean state, in
the order of a new process: Dask reads files and environment, then distributed adds its renames.
"""

import json
import logging
import os
import sys
import tempfile
import warnings
from unittest.mock import patch

import dask.config

dask_renames = dict(dask.config.deprecations)

import distributed.config  # noqa: E402,F401
import distributed_ucxx.config  # noqa: E402
import distributed_ucxx.ucxx  # noqa: E402
from dask.utils import parse_bytes  # noqa: E402

distributed_renames = sys.modules["distributed.config"].deprecations
logging.disable(logging.CRITICAL)


def answer(case):
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as f:
        f.write(case["yaml"])
        f.flush()
        dask.config.deprecations.clear()
        dask.config.deprecations.update(dask_renames)
        dask.config.refresh(paths=[f.name], env=case["env"])
        dask.config.rename(distributed_renames)
    distributed_ucxx.config.setup_config()
    outside = {k: v for k, v in case["env"].items() if k.startswith("UCX_")}
    with patch.dict(os.environ, outside):
        options, environment = distributed_ucxx.ucxx._prepare_ucx_config()
        with patch.dict(os.environ, environment):  # as its init_once does
            pass
    effective = {k.removeprefix("UCX_"): v for k, v in environment.items()}
    effective.update(options)
    effective.update({k.removeprefix("UCX_"): v for k, v in outside.items()})
    pool = distributed_ucxx.config.get_rmm_config("pool-size")
    return {
        "options": effective,
        "pool": 0 if pool is None else parse_bytes(pool),
        "multi_buffer": bool(distributed_ucxx.config.get_ucx_config("multi-buffer")),
        "context": distributed_ucxx.config.get_ucx_config("create-cuda-context") is True
        or ("cuda" in effective.get("TLS", "") and "^cuda" not in effective.get("TLS", "")),
    }


def main():
    answers = []
    warnings.simplefilter("ignore")
    for case in json.load(sys.stdin):
        try:
            answers.append({"value": answer(case), "error": ""})
        except Exception as e:
            answers.append({"value": {"options": {}}, "error": f"{type(e).__name__}: {e}"})
    json.dump(answers, sys.stdout)


if __name__ == "__main__":
    main()
