"""Measures Python's UCXX, as a peer of `millstream bench ucx`.

    python bench_ucxx.py --api async --case tag-lat --size 8
    python bench_ucxx.py --api async --case tag-lat --size 8 --progress-mode all
    python bench_ucxx.py --api core --case tag-bw --size 8388608 --window 16

Two processes on this host are connected through a listener on the loopback interface. The program starts the server and
is the client; --role server and --role client with --port run one side only, and both sides must then have the same
arguments. The last line on standard output is a JSON object {"value": v, "unit": u, ...} or {"error": text}.

Cases:
    tag-lat   half the median round trip of a ping-pong, in us, as
              ucxx.benchmarks.send_recv reports it (whose core variant posts both
              directions at once; this one waits for the ping before the pong)
    tag-bw    one direction, --window messages in flight, in GB/s (1e9 bytes)
    idle-cpu  CPU time of a process that waits in one receive for --seconds, in
              percent of a core

--progress-mode is one of UCXX's, with "+future" for completion by Python futures (threaded modes only); "all" measures
each in turn and reports the best; "best" is the fastest of them for the API, as measured with UCXX 0.52.
"""

import argparse
import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import benchlib

OUT = benchlib.take_stdout()

UNITS = {"tag-lat": "us", "tag-bw": "GB/s", "idle-cpu": "%"}
MODES = {
    "async": [
        "polling",
        "blocking",
        "thread",
        "thread+future",
        "thread-polling",
        "thread-polling+future",
    ],
    "core": ["polling", "blocking", "thread", "thread-polling"],
}
BEST = {"async": "polling", "core": "polling"}
SEED = 77  # size of the message that is verified before the timed part


def parse_args():
    p = argparse.ArgumentParser()
    p.add_argument("--api", "--mode", choices=list(MODES), default="async")
    p.add_argument("--role", choices=["both", "server", "client"], default="both")
    p.add_argument("--case", choices=list(UNITS), default="tag-lat")
    p.add_argument("--progress-mode", default="best")
    p.add_argument("--size", type=int, default=8)
    p.add_argument("--iterations", type=int, default=10_000)
    p.add_argument("--warmup", type=int, default=100)
    p.add_argument("--window", type=int, default=16)
    p.add_argument("--seconds", type=float, default=5.0)
    p.add_argument("--mem", choices=["host", "cuda"], default="host")
    p.add_argument("--host", default="127.0.0.1")
    p.add_argument("--port", type=int, default=0)
    p.add_argument("--no-error-handling", dest="errors", action="store_false")
    p.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    args = p.parse_args()
    if args.progress_mode == "best":
        args.progress_mode = BEST[args.api]
        if args.case == "idle-cpu":
            args.progress_mode = "thread"  # default of UCXX
    if args.progress_mode not in MODES[args.api] + ["all"]:
        p.error(f"--progress-mode {args.progress_mode}: want one of {MODES[args.api]}")
    return args


class Memory:
    """Buffers in host or GPU memory."""

    def __init__(self, args):
        self.cuda = args.mem == "cuda"
        if self.cuda:
            from rmm import DeviceBuffer

            self.device_buffer = DeviceBuffer
        # Created after UCXX is imported, which sets the environment of UCX.
        from ucxx._lib.arr import Array

        self.array = Array

    def make(self, data):
        if not self.cuda:
            return self.array(np.array(data))
        return self.array(self.device_buffer.to_device(data.tobytes()))

    def check(self, buffer, want):
        raw = buffer.obj.copy_to_host() if self.cuda else buffer.obj
        if not np.array_equal(np.asarray(raw, dtype=np.uint8), want):
            raise RuntimeError("received bytes differ from those sent")


def latency(times):
    times = np.sort(np.array(times)) / 2 * 1e6
    return {
        "value": float(np.median(times)),
        "average": float(times.mean()),
        "p99": float(times[int(len(times) * 0.99)]),
        "min": float(times[0]),
    }


def bandwidth(args, seconds):
    return {"value": args.iterations * args.size / seconds / 1e9}


class AsyncSide:
    """Server and client with the asyncio API."""

    def __init__(self, args):
        import ucxx

        self.args, self.ucxx = args, ucxx
        mode, _, future = args.progress_mode.partition("+")
        self.init = {"progress_mode": mode, "enable_python_future": bool(future)}

    def run(self, role, report):
        return asyncio.run(getattr(self, role)(report))

    async def server(self, report):
        self.ucxx.init(**self.init)
        served = asyncio.Event()

        async def serve(ep):
            try:
                await self.serve(ep)
            finally:
                served.set()

        listener = self.ucxx.create_listener(
            serve, port=self.args.port, endpoint_error_handling=self.args.errors
        )
        report({"port": listener.port})
        await served.wait()
        await asyncio.sleep(0.2)  # the last message must be sent before the process ends

    async def serve(self, ep):
        args, memory = self.args, Memory(self.args)
        room = memory.make(np.zeros(args.size, dtype=np.uint8))
        await ep.recv(room)
        await ep.send(room)
        if args.case == "idle-cpu":
            used = time.process_time()
            await ep.recv(room)
            percent = (time.process_time() - used) / args.seconds * 100
            await ep.send(memory.array(np.array([percent])))
        elif args.case == "tag-lat":
            for _ in range(args.warmup + args.iterations):
                await ep.recv(room)
                await ep.send(room)
        else:
            for count in (args.warmup, args.iterations):
                await self.many(lambda: ep.recv(room), count)
                await ep.send(memory.array(np.zeros(1, dtype=np.uint8)))

    async def many(self, start, count):
        """Run count operations, window of them at a time."""
        left = count

        async def worker():
            nonlocal left
            while left > 0:
                left -= 1
                await start()

        await asyncio.gather(*(worker() for _ in range(min(self.args.window, count))))

    async def client(self, report):
        args = self.args
        self.ucxx.init(**self.init)
        memory = Memory(args)
        ep = await self.ucxx.create_endpoint(
            args.host, args.port, endpoint_error_handling=args.errors
        )
        want = benchlib.pattern(args.size, SEED)
        data = memory.make(want)
        room = memory.make(np.zeros(args.size, dtype=np.uint8))
        await ep.send(data)
        await ep.recv(room)
        memory.check(room, want)
        if args.case == "idle-cpu":
            await asyncio.sleep(args.seconds)
            percent = np.zeros(1)
            await ep.send(data)
            await ep.recv(memory.array(percent))
            return report({"value": float(percent[0])})
        if args.case == "tag-lat":
            times = []
            for _ in range(args.warmup + args.iterations):
                start = time.perf_counter()
                await ep.send(data)
                await ep.recv(room)
                times.append(time.perf_counter() - start)
            return report(latency(times[args.warmup :]))
        ack = memory.array(np.zeros(1, dtype=np.uint8))
        for count in (args.warmup, args.iterations):
            start = time.perf_counter()
            await self.many(lambda: ep.send(data), count)
            await ep.recv(ack)
            seconds = time.perf_counter() - start
        return report(bandwidth(args, seconds))


class CoreSide:
    """Server and client with the core API: no event loop, requests are polled."""

    PING, PONG = 1, 2  # tags to the server and to the client

    def __init__(self, args):
        import ucxx  # noqa: F401  (sets the environment of UCX as for every user)
        from ucxx._lib import libucxx as core

        self.args, self.core = args, core
        if args.case == "idle-cpu":
            raise RuntimeError("the core API has no event loop that could be idle")
        features = (core.Feature.TAG, core.Feature.WAKEUP)
        self.context = core.UCXContext(feature_flags=features)
        self.worker = core.UCXWorker(self.context)
        self.ep = None
        mode = args.progress_mode
        if mode.startswith("thread"):
            self.worker.start_progress_thread(polling_mode=mode == "thread-polling")
            self.progress = lambda: None
        else:
            self.worker.init_blocking_progress_mode()
            blocking = mode == "blocking"
            self.progress = (
                self.worker.progress_worker_event if blocking else self.worker.progress
            )
        self.ping, self.pong = core.UCXXTag(self.PING), core.UCXXTag(self.PONG)

    def wait(self, request):
        while not request.completed:
            self.progress()
        request.check_error()

    def run(self, role, report):
        return getattr(self, role)(report)

    def server(self, report):
        def accept(request):
            self.ep = listener.create_endpoint_from_conn_request(
                request, endpoint_error_handling=self.args.errors
            )

        listener = self.core.UCXListener.create(
            worker=self.worker, port=self.args.port, cb_func=accept
        )
        report({"port": listener.port})
        while self.ep is None:
            self.progress()
        args, memory, ep = self.args, Memory(self.args), self.ep
        room = memory.make(np.zeros(args.size, dtype=np.uint8))
        self.wait(ep.tag_recv(room, self.ping))
        self.wait(ep.tag_send(room, self.pong))
        if args.case == "tag-lat":
            for _ in range(args.warmup + args.iterations):
                self.wait(ep.tag_recv(room, self.ping))
                self.wait(ep.tag_send(room, self.pong))
        else:
            for count in (args.warmup, args.iterations):
                self.many(lambda: ep.tag_recv(room, self.ping), count)
                ack = memory.array(np.zeros(1, dtype=np.uint8))
                self.wait(ep.tag_send(ack, self.pong))
        end = time.monotonic() + 0.2  # the last message must be sent before the process ends
        while time.monotonic() < end:
            if not self.args.progress_mode == "blocking":
                self.progress()

    def many(self, start, count):
        """Run count operations, window of them at a time."""
        under_way = [start() for _ in range(min(self.args.window, count))]
        started = len(under_way)
        while under_way:
            self.wait(under_way.pop(0))
            if started < count:
                under_way.append(start())
                started += 1

    def client(self, report):
        args, memory = self.args, Memory(self.args)
        ep = self.core.UCXEndpoint.create(
            self.worker, args.host, args.port, endpoint_error_handling=args.errors
        )
        want = benchlib.pattern(args.size, SEED)
        data = memory.make(want)
        room = memory.make(np.zeros(args.size, dtype=np.uint8))
        self.wait(ep.tag_send(data, self.ping))
        self.wait(ep.tag_recv(room, self.pong))
        memory.check(room, want)
        if args.case == "tag-lat":
            times = []
            for _ in range(args.warmup + args.iterations):
                start = time.perf_counter()
                self.wait(ep.tag_send(data, self.ping))
                self.wait(ep.tag_recv(room, self.pong))
                times.append(time.perf_counter() - start)
            return report(latency(times[args.warmup :]))
        ack = memory.array(np.zeros(1, dtype=np.uint8))
        for count in (args.warmup, args.iterations):
            start = time.perf_counter()
            self.many(lambda: ep.tag_send(data, self.ping), count)
            self.wait(ep.tag_recv(ack, self.pong))
            seconds = time.perf_counter() - start
        return report(bandwidth(args, seconds))


def print_line(fields):
    OUT.write(json.dumps(fields) + "\n")
    OUT.flush()


def die_with_parent():
    """End the process when standard input is closed: the parent holds the other end."""

    def watch():
        while os.read(0, 4096):
            pass
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def one_side(args):
    """Run the server or the client, and exit without UCXX's destructors."""
    try:
        if args.child:
            die_with_parent()
        side = AsyncSide(args) if args.api == "async" else CoreSide(args)
        labels = {} if args.role == "server" else result_labels(args)
        side.run(args.role, lambda fields: print_line(fields | labels))
    except Exception as e:
        print_line({"error": f"{type(e).__name__}: {e}"})
        os._exit(1)
    os._exit(0)


def result_labels(args):
    return {
        "unit": UNITS[args.case],
        "case": args.case,
        "api": args.api,
        "progress_mode": args.progress_mode,
        "size": args.size,
        "iterations": args.iterations,
        "window": args.window if args.case == "tag-bw" else 1,
        "mem": args.mem,
    }


def start_side(args, role, mode, port):
    command = [sys.executable, os.path.abspath(__file__), "--role", role, "--child"]
    for name in ("api", "case", "size", "iterations", "warmup", "window", "seconds"):
        command += ["--" + name, str(getattr(args, name))]
    command += ["--mem", args.mem, "--host", args.host, "--progress-mode", mode]
    command += ["--port", str(port)] + ([] if args.errors else ["--no-error-handling"])
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def read_line(process, seconds, what):
    """Read a JSON line from a side, or kill it after a timeout."""
    timer = threading.Timer(seconds, process.kill)
    timer.start()
    try:
        line = process.stdout.readline()
    finally:
        timer.cancel()
    if not line:
        raise RuntimeError(f"{what} ended without a result")
    fields = json.loads(line)
    if "error" in fields:
        raise RuntimeError(f"the {what}: {fields['error']}")
    return fields


def both_sides(args, mode):
    sides = []
    try:
        sides.append(start_side(args, "server", mode, 0))
        port = read_line(sides[0], 60, "server")["port"]
        sides.append(start_side(args, "client", mode, port))
        return read_line(sides[1], 240 + args.seconds, "client")
    finally:
        for process in sides:
            process.kill()
            process.wait()


def main():
    args = parse_args()
    if args.role != "both":
        one_side(args)
    # Ctrl-C is sent to the whole group; the sides must not outlive this process.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    modes = MODES[args.api] if args.progress_mode == "all" else [args.progress_mode]
    results = []
    for mode in modes:
        try:
            results.append(both_sides(args, mode))
        except RuntimeError as e:
            print_line({"error": str(e), "progress_mode": mode})
            if args.progress_mode != "all":
                sys.exit(1)
            continue
        print_line(results[-1])
    if not results:
        print_line({"error": "no progress mode worked"})
        sys.exit(1)
    if len(modes) > 1:
        pick = max if args.case == "tag-bw" else min
        print_line(pick(results, key=lambda r: r["value"]) | {"best": True})


if __name__ == "__main__":
    main()
