"""Evaluates the cases on standard input with dask.config and PyYAML.

Input is one JSON list of cases, output one JSON list of results, in the same order.
Values are written with their type, so that 1, 1.0 and True differ.
"""

import datetime
import json
import math
import os
import struct
import sys
import warnings

import dask.config
import distributed.config  # noqa: F401  adds its renames to Dask's
import yaml
from dask.utils import parse_bytes, parse_timedelta


def bits(x):
    if math.isnan(x):
        return "nan"
    return struct.pack(">d", x).hex()


def encode(v):
    if v is None or isinstance(v, (bool, str)):
        return v
    if isinstance(v, int):
        return {"i": str(v)}
    if isinstance(v, float):
        return {"f": bits(v)}
    if isinstance(v, complex):
        return {"c": [bits(v.real), bits(v.imag)]}
    if isinstance(v, bytes):
        return {"b": v.hex()}
    if isinstance(v, list):
        return [encode(x) for x in v]
    if isinstance(v, tuple):
        return {"t": [encode(x) for x in v]}
    if isinstance(v, (set, frozenset)):
        return {"set": sorted((encode(x) for x in v), key=json.dumps)}
    if isinstance(v, dict):
        return {"m": [[encode(k), encode(x)] for k, x in v.items()]}
    if isinstance(v, datetime.datetime):
        return {"time": v.strftime("%Y-%m-%dT%H:%M:%S.%f"), "naive": v.tzinfo is None,
                "offset": 0 if v.tzinfo is None else int(v.utcoffset().total_seconds())}
    if isinstance(v, datetime.date):
        return {"date": v.strftime("%Y-%m-%d") if v.year >= 1000 else v.isoformat()}
    raise TypeError(type(v))


def collect(case):
    config = {}
    env = dict(case["env"] or [])
    defaults = [yaml.safe_load(d) for d in case["defaults"] or []]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        dask.config.refresh(config=config, defaults=defaults, paths=case["paths"] or [], env=env)
    return {"config": encode(config), "warnings": sorted({str(w.message) for w in caught})}


def scopes(case):
    """Run sets and restores, and read all keys after each."""
    config = yaml.safe_load(case["text"]) or {}
    open_, states = [], []
    for step in case["steps"]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if step["restore"] >= 0:
                open_[step["restore"]].__exit__(None, None, None)
            else:
                open_.append(dask.config.set({step["key"]: yaml.safe_load(step["value"])}, config=config))
        states.append(encode(config))
    return states


def layered(case):
    """Add several sets of defaults to a configuration."""
    config = yaml.safe_load(case["text"])
    known = []
    for text in case["defaults"]:
        dask.config.update_defaults(yaml.safe_load(text), config=config, defaults=known)
    return encode(config)


def answer(case):
    op = case["op"]
    if op == "yaml":
        return encode(yaml.safe_load(case["text"]))
    if op == "interpret":
        return encode(dask.config.interpret_value(case["text"]))
    if op == "bytes":
        return encode(parse_bytes(case["text"]))
    if op == "time":
        return encode(float(parse_timedelta(case["text"])))
    if op == "collect":
        return collect(case)
    if op == "scopes":
        return scopes(case)
    if op == "layered":
        return layered(case)
    if op == "get":
        return encode(dask.config.get(case["key"], "absent", config=yaml.safe_load(case["text"])))
    if op == "paths":
        os.environ.clear()
        os.environ.update(dict(case["env"]))
        sys.prefix = case["key"]
        import site

        site.PREFIXES = [sys.prefix, sys.prefix]
        return dask.config._get_paths()
    if op == "serialize":
        return dask.config.serialize(yaml.safe_load(case["text"]))
    if op == "renames":
        return [[k, v] for k, v in dask.config.deprecations.items()]
    if op == "defaults":
        from importlib.resources import files

        return encode(yaml.safe_load((files(case["text"]) / case["key"]).read_text()))
    raise ValueError(op)


def main():
    answers = []
    for case in json.load(sys.stdin):
        try:
            answers.append({"value": answer(case), "error": ""})
        except Exception as e:
            answers.append({"value": None, "error": f"{type(e).__name__}: {e}"})
    json.dump(answers, sys.stdout)


if __name__ == "__main__":
    main()
