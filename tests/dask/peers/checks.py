"""Shared by the Python programs of the tests: a client of a scheduler, and checks that print JSON lines.

    from checks import check, raises, run

    def main(client):
        check("submit", client.submit(lambda x: x + 1, 1).result(), 2)

    run(main)
"""

import json
import sys
import time
import traceback


def _equal(got, want):
    same = got == want
    if hasattr(same, "all"):  # arrays and frames
        same = same.all()
        if hasattr(same, "all"):
            same = same.all()
    return bool(same)


def check(name, got, want=True):
    """Check that got equals want, or that want(got) is true if want is a function."""
    try:
        ok = bool(want(got)) if callable(want) and not isinstance(want, type) else _equal(got, want)
    except Exception as e:  # noqa: BLE001
        ok, got = False, f"{got!r}: {e!r}"
    print(json.dumps({"check": name, "ok": ok, "got": repr(got)[:2000]}), flush=True)
    return ok


def raises(name, error, function, text=""):
    """Check that a function raises an error with a text in it."""
    try:
        got = function()
    except BaseException as e:  # noqa: BLE001
        ok = isinstance(e, error) and text in str(e)
        print(json.dumps({"check": name, "ok": ok, "got": repr(e)[:2000]}), flush=True)
        return e
    print(json.dumps({"check": name, "ok": False, "got": "no error but " + repr(got)[:2000]}), flush=True)
    return None


def tell(name, value):
    """Send a value to the test."""
    print(json.dumps({"tell": name, "value": value}), flush=True)


def until(name, function, timeout=60):
    """Wait until a function returns a true value."""
    limit = time.monotonic() + timeout
    while True:
        got = function()
        if got or time.monotonic() > limit:
            return check(name, bool(got))
        time.sleep(0.02)


def attempt(name, function, want=None):
    """Check the result of a function, so that its exception is one failed check and does not end the program."""
    try:
        got = function()
    except Exception as e:  # noqa: BLE001
        traceback.print_exc()
        print(json.dumps({"check": name, "ok": False, "got": repr(e)[:2000]}), flush=True)
        return None
    if want is None:
        want = lambda _: True  # noqa: E731
    check(name, got, want)
    return got


def connect(address=None, **kwargs):
    from distributed import Client

    return Client(address or sys.argv[1], timeout="60s", **kwargs)


def run(main):
    with connect() as client:
        main(client)
