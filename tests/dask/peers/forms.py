"""Records the form of every message that a client and workers in this process receive from the scheduler.

A form is the structure and the types, not the values: {"types": [...], "fields": {name: form}, "items": form, "seen": n}.
Dictionaries whose keys are addresses or keys of tasks have "items", all others "fields". Messages of one op are merged.

    forms.py SCHEDULER    two Dask workers run in this process
"""

import asyncio
import contextlib
import json
import re
import sys
import urllib.request

import distributed
import distributed.client
import distributed.comm.tcp
import distributed.core
import distributed.worker
from checks import check, tell
from distributed.diagnostics.plugin import WorkerPlugin
from distributed.protocol.serialize import Serialize, Serialized

FORMS = {}
MAPPING = re.compile(r"://|\d|^all$|^scheduler$|^topic")


def merge(form, value, depth=0):
    form["seen"] = form.get("seen", 0) + 1
    if isinstance(value, (Serialize, Serialized)) or type(value).__module__ not in ("builtins", "collections"):
        kind = "object"
    elif isinstance(value, bool) or value is None:
        kind = type(value).__name__
    elif isinstance(value, (list, tuple)):
        kind = "list"
    elif isinstance(value, dict):
        kind = "dict"
    elif isinstance(value, (bytes, bytearray, memoryview)):
        kind = "bytes"
    else:
        kind = type(value).__name__
    if kind not in form.setdefault("types", []):
        form["types"].append(kind)
        form["types"].sort()
    if depth > 8:
        return form
    if kind == "list":
        for v in value:
            merge(form.setdefault("items", {}), v, depth + 1)
    elif kind == "dict":
        if any(not isinstance(k, str) or MAPPING.search(k) for k in value):
            for v in value.values():
                merge(form.setdefault("items", {}), v, depth + 1)
        else:
            form["dicts"] = form.get("dicts", 0) + 1
            for k, v in value.items():
                merge(form.setdefault("fields", {}).setdefault(k, {}), None if k == "metrics" else v, depth + 1)  # messages of workers
    return form


def record(name, value):
    merge(FORMS.setdefault(name, {}), value)


def watch_rpc():
    inner = distributed.core.send_recv

    async def send_recv(comm, *, reply=True, serializers=None, deserializers=None, **kwargs):
        op, scheduler = kwargs.get("op"), comm.peer_address == sys.argv[1]
        try:
            answer = await inner(comm, reply=reply, serializers=serializers, deserializers=deserializers, **kwargs)
        except (OSError, distributed.comm.CommClosedError, asyncio.CancelledError):
            raise
        except Exception as e:
            if scheduler:
                record(f"rpc {op} raises", {type(e).__name__: True})
            raise
        if scheduler and reply:
            record(f"rpc {op}", answer)
        return answer

    for module in (distributed.core, distributed.client, distributed.worker):
        if hasattr(module, "send_recv"):
            module.send_recv = send_recv


def watch_streams():
    inner = distributed.comm.tcp.TCP.read

    async def read(self, deserializers=None):
        message = await inner(self, deserializers)
        if self.peer_address == sys.argv[1] and isinstance(message, (list, tuple)):
            for m in message:
                if isinstance(m, dict) and isinstance(m.get("op"), str):
                    record(f"stream {m['op']}", m)
        return message

    distributed.comm.tcp.TCP.read = read


class Plugin(WorkerPlugin):
    name = "p"


async def attempt(awaitable):
    """Run a function and ignore its error; errors of the scheduler are recorded by watch_rpc."""
    try:
        return await asyncio.wait_for(awaitable, 30)
    except Exception as e:
        print(repr(e), file=sys.stderr)


async def came(name, again=None):
    """Wait for a message of a stream, and repeat the action that triggers it."""
    for _ in range(3000):
        if name in FORMS:
            break
        if again is not None:
            await again()
        await asyncio.sleep(0.01)
    check(f"{name} came", name in FORMS)


def inc(x):
    return x + 1


def fail(x):
    return 1 / x


async def verbs(c):
    s = c.scheduler
    one = c.submit(inc, 1, key="k-1")
    two = c.submit(inc, one, key="k-2")
    await two
    bad = c.submit(fail, 0, key="bad-1")
    worse = c.submit(inc, bad, key="worse-1")
    await attempt(worse.exception())
    three = (await c.scatter([b"x" * 1000]))[0]
    wide = c.map(inc, range(20), priority=1)
    await c.gather(wide)
    await c.gather([one, two])
    await attempt(c.retry([bad]))
    await attempt(s.gather(keys=["k-1"]))
    for op, args in [
        ("identity", {}), ("ncores", {}), ("ncores_running", {}), ("has_what", {}), ("who_has", {}), ("who_has", {"keys": ["k-1"]}),
        ("nbytes", {"keys": ["k-1"]}), ("nbytes", {"keys": None, "summary": True}), ("processing", {}), ("call_stack", {}),
        ("call_stack", {"keys": ["k-1"]}), ("get_task_status", {"keys": ["k-1", "no-9"]}), ("get_task_stream", {}),
        ("get_task_stream", {"start": 0, "stop": None}), ("get_task_prefix_states", {}), ("get_logs", {}), ("logs", {"n": 2}),
        ("worker_logs", {}), ("worker_logs", {"nanny": False, "n": 1}), ("log_event", {"topic": "topic-1", "msg": {"a": 1}}),
        ("events", {"topic": "topic-1"}), ("set_metadata", {"keys": ["a", "b"], "value": 1}),
        ("get_metadata", {"keys": ["a"]}), ("get_metadata", {"keys": ["zz"], "default": 3}), ("get_metadata", {"keys": ["zz"]}), ("adaptive_target", {}),
        ("workers_to_close", {"n": 1}), ("workers_to_close", {"n": 1, "attribute": "name"}), ("check_idle", {}), ("get_story", {"keys_or_stimuli": ["k-1"]}),
        ("start_task_metadata", {"name": "m-1"}), ("stop_task_metadata", {"name": "m-1"}), ("versions", {}), ("rebalance", {}),
        ("replicate", {"keys": ["k-1"], "n": 1}), ("set_restrictions", {"worker": {"k-1": []}}), ("publish_list", {}), ("nonsense", {}),
        ("get_metadata", {"nonsense": 1}), ("retry", {"keys": ["no-9"]}), ("queue_qsize", {"name": "none"}), ("broadcast", {"msg": {"op": "ping"}}),
        ("broadcast", {"msg": {"op": "nonsense"}}), ("proxy", {"worker": sorted(c.scheduler_info()["workers"])[0], "msg": {"op": "identity"}}),
    ]:
        await attempt(getattr(s, op)(**args))
    await attempt(c.publish_dataset(one, name="set-1"))
    await attempt(c.get_dataset("set-1"))
    await attempt(c.get_dataset("none"))
    await attempt(c.unpublish_dataset("set-1"))
    await attempt(c.run(inc, 1))
    await attempt(c.run(fail, 0, on_error="return"))
    await attempt(c.run(inc, 1, wait=False))
    await attempt(c.run_on_scheduler(inc, 1))
    await attempt(c.run_on_scheduler(fail, 0))
    await attempt(c.register_plugin(Plugin()))
    await attempt(c.register_plugin(Plugin()))
    await attempt(c.unregister_worker_plugin("p"))
    await attempt(c.unregister_worker_plugin("none"))
    await attempt(c.get_versions())
    await attempt(c.story("k-1"))
    c.subscribe_topic("topic-2", lambda e: None)
    await came("stream event", lambda: c.log_event("topic-2", {"n": 1}))
    c.unsubscribe_topic("topic-2")
    q, v = distributed.Queue("queue-1", client=c), distributed.Variable("variable-1", client=c)
    await attempt(q.put(1))
    await attempt(q.put(one))
    await attempt(q.get())
    await attempt(q.get(timeout=1))
    await attempt(q.get(timeout=0.1))
    await attempt(q.qsize())
    await attempt(v.set(two))
    await attempt(v.get())
    await attempt(v.set(5))
    await attempt(v.get())
    await attempt(distributed.Variable("variable-2", client=c).get(timeout=0.1))
    lock = distributed.Lock("lock-1")
    await attempt(lock.acquire())
    await attempt(distributed.Lock("lock-1").acquire(timeout=0.1))
    await attempt(lock.release())
    event = distributed.Event("event-1")
    await attempt(event.is_set())
    await attempt(event.wait(timeout=0.1))
    await attempt(event.set())
    await attempt(event.wait(timeout=1))
    await attempt(event.clear())
    many = distributed.MultiLock(["a-1", "b-1"])
    await attempt(many.acquire())
    await attempt(many.release())
    semaphore = await distributed.Semaphore(max_leases=1, name="semaphore-1")
    await attempt(semaphore.acquire())
    await attempt(semaphore.get_value())
    await attempt(semaphore.release())
    await attempt(semaphore.close())
    await attempt(c.cancel([three]))
    actor = await attempt(c.submit(list, actor=True, key="actor-1"))
    del actor


async def watch(address):
    """Record the stream of subscribe_worker_status while a worker joins and leaves."""
    comm = await distributed.core.connect(address)
    await comm.write({"op": "subscribe_worker_status"})
    record("subscribe_worker_status", await comm.read())
    async with distributed.Worker(address, nthreads=1):
        for message in await comm.read():
            record(f"worker status {message[0] if isinstance(message, (list, tuple)) else message.get('op')}", message)
    for message in await comm.read():
        record(f"worker status {message[0] if isinstance(message, (list, tuple)) else message.get('op')}", message)
    comm.abort()


def http(port):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/json/counts.json") as f:
        record("http json/counts.json", json.load(f))


async def main(address):
    watch_rpc()
    watch_streams()
    async with contextlib.AsyncExitStack() as stack:
        for n in range(2):
            await stack.enter_async_context(distributed.Worker(address, nthreads=1, name=f"w{n}", heartbeat_interval="100ms"))
        c = await stack.enter_async_context(distributed.Client(address, asynchronous=True, timeout="60s"))
        await c.wait_for_workers(2)
        await verbs(c)
        await asyncio.to_thread(http, c.scheduler_info()["services"]["dashboard"])
        await attempt(watch(address))
        await attempt(c.scheduler.retire_workers(names=["w1"]))
        await came("stream worker-status-change")
    tell("forms", FORMS)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
