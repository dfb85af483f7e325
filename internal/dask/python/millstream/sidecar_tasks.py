"""Runs tasks for the Go worker, each in a thread of the worker's executors or on its event loop."""

import asyncio
import concurrent.futures
import contextlib
import contextvars
import threading
import time

import dask
from dask.utils import typename
from distributed import Reschedule
from distributed.actor import Actor
from distributed.core import error_message
from distributed.diagnostics.plugin import WorkerPlugin
from distributed.protocol import pickle
from distributed.worker import _worker_cvar, thread_state

from millstream import _imports
from millstream import sidecar_values as values_
from millstream._child import Reply

# Values of these types are sent to Go, which can forward them without a call to this process.
PLAIN = frozenset((type(None), bool, int, float, str))
PLAIN_TEXT = 1 << 10
IMPORTS = _imports.install.__code__.co_filename


class OneShotFuture(concurrent.futures.Future):
    """Future with one waiter that is set once: sufficient for a reply, and ten times cheaper."""

    def __init__(self):
        self.callback = self.value = None
        self.done_ = False
        self.once = [None]

    def add_done_callback(self, fn):
        self.callback = fn
        if self.done_:
            self.fire()

    def set_result(self, value):
        self.value = value
        self.done_ = True
        if self.callback is not None:
            self.fire()

    def fire(self):
        """Call the callback. Two threads may get here at once; pop lets one of them pass."""
        try:
            self.once.pop()
        except IndexError:
            return
        self.callback(self)

    def cancelled(self):
        return False

    def exception(self, timeout=None):
        return None

    def result(self, timeout=None):
        return self.value


class Run:
    """One run of a task. The reader creates it; then the thread that runs it owns it."""

    __slots__ = ("tasks", "number", "key", "spec", "buffers", "deps", "annotations", "actor", "future", "start")

    def run(self):
        """Entry point for the threads of executors."""
        self.tasks.execute(self)


class Tasks:
    def __init__(self, peer, values):
        self.peer, self.values = peer, values
        self.worker = None  # set once, before the first run
        self.types = {}  # type -> (name, pickle)

    def start(self, body, frames):
        """Handle "run" in the reader thread: body is (number, key, frames of the spec, deps, annotations, actor)."""
        r = Run()
        r.tasks = self
        r.number, r.key, n, deps, r.annotations, r.actor = body
        r.spec, r.buffers = frames[0], frames[1:n]
        r.deps = []
        for key, handle, value, count in deps:
            if count:  # it is part of this message
                self.values.put(handle, values_.Entry(key, None, frames[n], frames[n + 1 : n + count]))
                n += count
            r.deps.append((key, handle, value))
        r.future = OneShotFuture()
        executor = self.worker.executors["default"]
        name = r.annotations.get("executor", "default") if r.annotations else "default"
        if name != "default":
            executor = self.worker.executors.get(name)
        if executor is None:
            e = ValueError(f"Invalid executor {name!r}; expected one of: {sorted(self.worker.executors)}")
            self.erred(r, e, time.time())
        elif "ThreadPoolExecutor" in type(executor).__name__:
            executor.submit(r.run)
        else:
            self.worker.loop.add_callback(self.in_executor, r, executor)
        return r.future

    def prepare(self, r):
        """Return the task and its data. Unpickling either may run user code."""
        with values_.unpickling:
            task = pickle.loads(r.spec, buffers=r.buffers)
        data = {}
        for key, handle, value in r.deps:
            if handle is None:
                data[key] = value
                continue
            entry = self.values.get(handle)
            data[key] = self.proxy(entry) if entry.actor else entry.open()
        r.spec = r.buffers = r.deps = None
        return task, data

    def proxy(self, entry):
        """Return the proxy of an actor, created in an empty context: in that of a task it would start a client."""
        return contextvars.Context().run(Actor, type(entry.value), self.worker.address, entry.key, self.worker)

    def execute(self, r):
        worker, ident, key = self.worker, threading.get_ident(), r.key
        token = _worker_cvar.set(worker)
        worker._by_key[key] = r.number
        worker.state.refresh()
        with worker.active_threads_lock:
            worker.active_threads[ident] = key
        start = r.start = time.time()
        old = dict(thread_state.__dict__)
        thread_state.start_time, thread_state.execution_state, thread_state.key = start, worker.execution_state, key
        try:
            self.transition(key, "ready", "executing")
            task, data = self.prepare(r)
            if task.is_coro:
                worker.loop.add_callback(self.on_loop, r, task, data)
                return
            with self.span(r):
                start = r.start = time.time()
                value = task(data)
            stop = time.time()
            del task, data
        except BaseException as e:
            self.erred(r, e, start)
        else:
            self.finished(r, value, start, stop)
        finally:
            for name in ("start_time", "execution_state", "key"):
                if name in old:
                    setattr(thread_state, name, old[name])
                else:
                    thread_state.__dict__.pop(name, None)
            with worker.active_threads_lock:
                worker.active_threads.pop(ident, None)
            _worker_cvar.reset(token)

    def span(self, r):
        if r.annotations and "span" in r.annotations:
            return dask.annotate(span=r.annotations["span"])
        return contextlib.nullcontext()

    async def on_loop(self, r, task, data):
        """Run a task that is a coroutine function."""
        token = _worker_cvar.set(self.worker)
        start = time.time()
        try:
            with self.span(r):
                value = await task(data)
        except BaseException as e:
            self.erred(r, e, start)
        else:
            self.finished(r, value, start, time.time())
        finally:
            _worker_cvar.reset(token)

    async def in_executor(self, r, executor):
        """Run a task in an executor without threads, such as a process pool."""
        start = time.time()
        try:
            task, data = self.prepare(r)
            value = await asyncio.get_running_loop().run_in_executor(executor, task, data)
        except BaseException as e:
            self.erred(r, e, start)
        else:
            self.finished(r, value, start, time.time())

    # -- results

    def finished(self, r, value, start, stop):
        kind = type(value)
        try:
            known = self.types.get(kind)
            if known is None:
                known = self.describe(kind)
            nbytes = values_.size_of(value)
            plain = kind in PLAIN and not r.actor and is_small(value)
            if r.actor:
                self.worker.state.actors[r.key] = value
            if not plain:
                self.values.add(r.number, values_.Entry(r.key, value, actor=r.actor))
            self.transition(r.key, "executing", "memory")
            self.worker._by_key.pop(r.key, None)
            body = (0, start, stop, threading.get_ident(), nbytes, known[0], known[1], plain, value if plain else None)
        except BaseException as e:
            self.erred(r, e, start)
            return
        r.future.set_result(body)

    def describe(self, kind):
        try:
            pickled = pickle.dumps(kind)
        except Exception:
            pickled = pickle.dumps(typename(kind))
        known = typename(kind), pickled
        if len(self.types) < 10_000:
            self.types[kind] = known
        return known

    def erred(self, r, e, start):
        stop = time.time()
        self.worker._by_key.pop(r.key, None)
        if isinstance(e, Reschedule):
            r.future.set_result((2, start, stop, threading.get_ident()))
            return
        if isinstance(e, values_.FATAL):
            values_.exit_process(f"task {r.key!r}", e)
        try:
            self.transition(r.key, "executing", "error")
            reply = failure(e, start, stop)
        except values_.FATAL as fatal:  # raised by methods of the exception
            values_.exit_process(f"task {r.key!r}", fatal)
        except BaseException as why:  # without a reply the task would never end
            reply = failure(RuntimeError(f"{typename(type(e))}: the exception cannot be sent: {typename(type(why))}"), start, stop)
        r.future.set_result(reply)

    def transition(self, key, start, finish):
        """Notify the plugins that have a transition method."""
        for plugin in list(self.worker.plugins.values()):
            if getattr(type(plugin), "transition", WorkerPlugin.transition) is not WorkerPlugin.transition:
                try:
                    plugin.transition(key, start, finish)
                except Exception:
                    values_.logger.info("Plugin '%s' failed with exception", plugin, exc_info=True)


def failure(e, start, stop):
    """Return the reply for a task that raised e: (kind, start, stop, thread, texts, frames of exception and traceback)."""
    try:
        raise e  # error_message uses the traceback of the exception that is being handled
    except BaseException:
        e.__traceback__ = strip_frames(e.__traceback__)
        msg = error_message(e)
    frames, lengths = [], []
    for name in ("exception", "traceback"):
        if msg[name] is None:
            lengths.append(0)
            continue
        header, more = values_.serialize_marked(msg[name])
        lengths.append(1 + len(more))
        frames += [header, *more]
    body = (1, start, stop, threading.get_ident(), text(msg["exception_text"]), text(msg["traceback_text"]), *lengths)
    return Reply(body, frames)


def strip_frames(trace):
    """Return a traceback that starts at the user's code, without frames of our import functions."""
    while trace is not None and trace.tb_next is not None and "millstream" in trace.tb_frame.f_code.co_filename:
        trace = trace.tb_next
    at = trace
    while at is not None:
        while at.tb_next is not None and at.tb_next.tb_frame.f_code.co_filename == IMPORTS:
            at.tb_next = at.tb_next.tb_next
        at = at.tb_next
    return trace


def is_small(value):
    kind = type(value)
    if kind is int:
        return -(1 << 63) <= value < 1 << 63
    if kind is str:
        return len(value) <= PLAIN_TEXT and is_text(value)
    return True


def is_text(value):
    """Report whether a str can be encoded as UTF-8: half of a surrogate pair cannot."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def text(value):
    """Return a str that can be encoded."""
    return value.encode("utf-8", "replace").decode()
