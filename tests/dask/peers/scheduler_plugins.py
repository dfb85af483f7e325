"""Scheduler plugins of a Dask client: hooks, handlers and failures, with two Dask workers of one thread."""

import os
import sys
import time

from checks import check, connect, raises, run, until

import cloudpickle
from distributed.diagnostics.plugin import SchedulerPlugin

# Modules of the tests are not on the path of workers and helpers.
cloudpickle.register_pickle_by_value(sys.modules[__name__])


class Recorder(SchedulerPlugin):
    """Records all hooks."""

    name = "recorder"

    async def start(self, scheduler):
        self.scheduler, self.rows, self.states = scheduler, [], {}
        self.workers_at_start = len(scheduler.workers)

    def transition(self, key, start, finish, *args, stimulus_id, **kwargs):
        self.rows.append(("transition", key, start, finish, kwargs))
        task = self.scheduler.tasks.get(key)
        self.states[key, finish] = task.state if task is not None else None

    def update_graph(self, scheduler, *, client, keys, tasks, annotations, priority, stimulus_id, **kwargs):
        self.rows.append(("update_graph", client, keys, tasks, annotations, priority))

    async def add_worker(self, scheduler, worker):
        self.rows.append(("add_worker", worker, worker in scheduler.workers))

    def remove_worker(self, scheduler, worker, *, stimulus_id, **kwargs):
        self.rows.append(("remove_worker", worker, worker in scheduler.workers))

    def add_client(self, scheduler, client):
        self.rows.append(("add_client", client))

    def remove_client(self, scheduler, client):
        self.rows.append(("remove_client", client))

    def restart(self, scheduler):
        self.rows.append(("restart", len(scheduler.tasks)))

    def log_event(self, topic, msg):
        self.rows.append(("log_event", topic, msg))


def rows(client, kind, name="recorder"):
    return client.run_on_scheduler(lambda dask_scheduler: [r for r in dask_scheduler.plugins[name].rows if r[0] == kind])


def main(client):
    client.wait_for_workers(2)
    client.register_plugin(Recorder())
    check("plugins", client.run_on_scheduler(lambda dask_scheduler: list(dask_scheduler.plugins)), ["recorder"])
    check("workers at start", client.run_on_scheduler(lambda dask_scheduler: dask_scheduler.plugins["recorder"].workers_at_start), 2)
    tasks(client)
    clients(client)
    names(client)
    handlers(client)
    failures(client)
    downscale(client)
    workers(client)
    crash(client)


def tasks(client):
    import dask

    with dask.annotate(note="mine"):
        d = dask.delayed(lambda x: x + 1)(1, dask_key_name=("inc", 0))
    future = client.compute(d, optimize_graph=False)
    check("result", future.result(60), 2)
    until("delivered", lambda: [r for r in rows(client, "transition") if r[3] == "memory"])
    moves = [r for r in rows(client, "transition") if r[1] == ("inc", 0)]
    check("transitions", [r[2:4] for r in moves], [("released", "waiting"), ("waiting", "processing"), ("processing", "memory")])
    done = moves[-1][4]
    check("worker of a transition", done["worker"] in client.nthreads())
    actions = [s["action"] for s in done["startstops"]]
    check("arguments of a transition", (done["nbytes"] > 0, done["typename"], "compute" in actions), (True, "int", True))
    check("task in a hook", client.run_on_scheduler(lambda dask_scheduler: dask_scheduler.plugins["recorder"].states[("inc", 0), "memory"]), "memory")
    (graph,) = rows(client, "update_graph")
    check("update_graph", (graph[1], graph[2], graph[3], graph[4]["note"]), (client.id, {("inc", 0)}, [("inc", 0)], {("inc", 0): "mine"}))
    check("priority", len(graph[5][("inc", 0)]), 3)
    order = client.run_on_scheduler(lambda dask_scheduler: [r[0] for r in dask_scheduler.plugins["recorder"].rows if r[0] != "log_event"][:2])
    check("the graph first", order, ["update_graph", "transition"])
    bad = client.submit(lambda: 1 / 0, key="bad")
    until("error", lambda: bad.status == "error")
    until("error delivered", lambda: [r for r in rows(client, "transition") if r[3] == "erred"])
    (erred,) = [r for r in rows(client, "transition") if r[1] == "bad" and r[3] == "erred"]
    check("arguments of an error", "division" in erred[4]["exception_text"])
    del future, bad
    until("forgotten", lambda: [r for r in rows(client, "transition") if r[1] == ("inc", 0) and r[3] == "forgotten"])
    check("forgotten task", client.run_on_scheduler(lambda dask_scheduler: dask_scheduler.plugins["recorder"].states[("inc", 0), "forgotten"]), "forgotten")
    client.log_event("mine", {"a": [1]})
    until("log_event", lambda: [r for r in rows(client, "log_event") if r[1] == "mine"] == [("log_event", "mine", {"a": (1,)})])


def clients(client):
    with connect(set_as_default=False) as other:
        name = other.id
        until("add_client", lambda: ("add_client", name) in rows(client, "add_client"))
    until("remove_client", lambda: ("remove_client", name) in rows(client, "remove_client"))


class Named(SchedulerPlugin):
    def __init__(self, value, idempotent=False):
        self.value, self.idempotent = value, idempotent

    async def start(self, scheduler):
        if self.value is None:
            raise ValueError("no value")


def names(client):
    value = lambda: client.run_on_scheduler(lambda dask_scheduler: dask_scheduler.plugins["n"].value)  # noqa: E731
    client.register_plugin(Named(1), name="n")
    client.register_plugin(Named(2), name="n")
    check("replaced", value(), 2)
    client.register_plugin(Named(3, idempotent=True), name="n")
    check("idempotent", value(), 2)
    client.unregister_scheduler_plugin("n")
    raises("unregistered", KeyError, value)
    raises("unregistered twice", ValueError, lambda: client.unregister_scheduler_plugin("n"), "Could not find plugin 'n'")
    raises("failed start", ValueError, lambda: client.register_plugin(Named(None), name="none"), "no value")
    check("not added", "none" not in client.run_on_scheduler(lambda dask_scheduler: list(dask_scheduler.plugins)))

    def add(dask_scheduler):
        class Local(SchedulerPlugin):
            name = "local"
            count = 0

            def transition(self, key, start, finish, **kwargs):
                self.count += (key, finish) == ("counted", "memory")

        dask_scheduler.add_plugin(Local())

    client.run_on_scheduler(add)
    client.submit(lambda: 1, key="counted").result(60)
    until("add_plugin", lambda: client.run_on_scheduler(lambda dask_scheduler: dask_scheduler.plugins["local"].count) == 1)
    client.run_on_scheduler(lambda dask_scheduler: dask_scheduler.remove_plugin("local"))


class Handlers(SchedulerPlugin):
    name = "handlers"

    async def start(self, scheduler):
        self.messages = []
        scheduler.handlers["add_two"] = self.add_two
        scheduler.handlers["fail"] = self.fail
        scheduler.stream_handlers["note"] = self.note
        scheduler.extensions["mine"] = self

    async def add_two(self, a, b):
        return {"sum": a + b, "messages": self.messages}

    def fail(self):
        raise ZeroDivisionError("on purpose")

    def note(self, client=None, worker=None, text=None):
        self.messages.append((client, worker, text))


def handlers(client):
    client.register_plugin(Handlers())
    client.scheduler_comm.send({"op": "note", "text": "hello"})

    def noted():
        return client.sync(client.scheduler.add_two, a=1, b=2) == {"sum": 3, "messages": ((client.id, None, "hello"),)}

    until("handlers", noted)
    raises("failed handler", ZeroDivisionError, lambda: client.sync(client.scheduler.fail), "on purpose")
    check("extension", client.run_on_scheduler(lambda dask_scheduler: dask_scheduler.extensions["mine"] is dask_scheduler.plugins["handlers"]))

    def replace(dask_scheduler):
        dask_scheduler.handlers["identity"] = print

    raises("built-in handler", ValueError, lambda: client.run_on_scheduler(replace), "built in")
    check("handlers kept", client.run_on_scheduler(lambda dask_scheduler: sorted(dask_scheduler.handlers)), ["add_two", "fail"])
    client.run_on_scheduler(lambda dask_scheduler: dask_scheduler.handlers.pop("fail"))
    check("removed handler", client.sync(client.scheduler.fail), None)


class Failing(SchedulerPlugin):
    name = "failing"

    def transition(self, key, start, finish, **kwargs):
        if str(key).startswith("exit"):
            raise SystemExit(3)
        raise ValueError("failing plugin")


class Blocking(SchedulerPlugin):
    name = "blocking"

    def transition(self, key, start, finish, **kwargs):
        if key == "block" and finish == "memory":
            import os

            while not os.path.exists("/tmp/go-on"):  # in the private folder of the helper
                time.sleep(0.01)


def failures(client):
    client.register_plugin(Failing())
    check("a failing plugin", client.submit(lambda: 1, key="exit").result(60), 1)
    check("another one", client.submit(lambda: 2, key="fine").result(60), 2)
    until("others get events", lambda: [r for r in rows(client, "transition") if r[1] == "fine" and r[3] == "memory"])
    client.unregister_scheduler_plugin("failing")
    client.register_plugin(Blocking())
    check("before the blocked plugin", client.submit(lambda: 1, key="block").result(60), 1)
    check("while a plugin blocks", client.gather(client.map(lambda x: x + 1, range(500))), list(range(1, 501)))
    client.run_on_scheduler(lambda: open("/tmp/go-on", "w").close())
    until("all delivered", lambda: len({r[1] for r in rows(client, "transition") if str(r[1]).startswith("lambda") and r[3] == "memory"}) >= 500)
    client.unregister_scheduler_plugin("blocking")


class Keep(SchedulerPlugin):
    name = "keep"

    def __init__(self, address):
        self.address = address

    def valid_workers_downscaling(self, scheduler, workers):
        return [w for w in workers if w.address != self.address]


def downscale(client):
    first, second = sorted(client.nthreads())
    for keep, close in ((first, second), (second, first)):
        client.register_plugin(Keep(keep))
        got = client.sync(client.scheduler.workers_to_close, n=2)
        check("valid_workers_downscaling", list(got), [close])
    client.unregister_scheduler_plugin("keep")
    check("all may be closed", len(client.sync(client.scheduler.workers_to_close, n=2)), 2)


def workers(client):
    gone = sorted(client.nthreads())[0]
    client.retire_workers([gone])
    until("remove_worker", lambda: rows(client, "remove_worker") == [("remove_worker", gone, False)])
    client.restart(wait_for_workers=False)
    until("restart", lambda: len(rows(client, "restart")) == 1)


def crash(client):
    client.run_on_scheduler(lambda dask_scheduler: setattr(dask_scheduler, "marker", 1))
    raises("crash", Exception, lambda: client.run_on_scheduler(os._exit, 7))

    def again():
        try:
            return client.run_on_scheduler(
                lambda dask_scheduler: (hasattr(dask_scheduler, "marker"), sorted(dask_scheduler.plugins), sorted(dask_scheduler.handlers))
            )
        except Exception:  # the process has not ended yet
            return None

    until("registered again", lambda: again() == (False, ["handlers", "recorder"], ["add_two", "fail"]))
    client.log_event("again", 1)
    until("events again", lambda: ("log_event", "again", 1) in rows(client, "log_event"))


run(main)
