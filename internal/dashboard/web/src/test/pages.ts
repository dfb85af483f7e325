import type { Call, Pair, Row, Worker } from "../api.ts";
import { nearest } from "../chart.ts";
import { stateColor } from "../color.ts";
import { byteSteps } from "../format.ts";
import { layered } from "../layers.ts";
import { cellsOf, matrixShape } from "../pages/bandwidth.ts";
import { family } from "../pages/memory.ts";
import { boxes, functions } from "../pages/profile.ts";
import { place } from "../pages/why.ts";
import { workerFacts } from "../pages/workers.ts";
import { rowLabel } from "../stream/draw.ts";
import { equal, test } from "./harness.ts";

test("layers: dependencies come first", () => {
  const p = layered(6, [[0, 2], [1, 2], [2, 3], [0, 3], [4, 3]]);
  equal(p.layer, [0, 0, 1, 2, 0, 0]);
  equal(p.layers.map((l) => l.length), [4, 1, 1]);
  equal(p.order[3], 0, "a single node is in the middle");
});

test("layers: crossings are removed", () => {
  // 0 and 1 depend crosswise on 2 and 3.
  const p = layered(4, [[0, 3], [1, 2]]);
  equal(Math.sign(p.order[0]! - p.order[1]!), Math.sign(p.order[3]! - p.order[2]!));
});

test("layers: cycles and wrong edges", () => {
  equal(layered(3, [[0, 1], [1, 0], [2, 2], [7, 1], [0, -1]]).layer.length, 3);
  equal(layered(0, []).layers, []);
});

test("chart: nearest point", () => {
  const points: [number, number][] = [[0, 1], [10, 2], [20, 3]];
  equal([-5, 0, 4, 6, 19, 99].map((t) => nearest(points, t)), [0, 0, 0, 1, 2, 2]);
  equal(nearest([], 3), -1);
});

test("chart: sizes are round in binary units", () => {
  equal(byteSteps(3 * 2 ** 30, 3).values.map((v) => v / 2 ** 30), [0, 1, 2, 3]);
  equal(byteSteps(100, 2).values, [0, 50, 100]);
});

test("memory: charts", () => {
  equal(["memory", "managed", "spilled", "cpu", "tasks/s", "bytes/s", "device.used"].map(family),
    ["memory", "memory", "memory", "cpu", "tasks/s", "bytes/s", "device"]);
});

const tree: Call = {
  name: "all", count: 100, children: [
    { name: "f", count: 60, children: [{ name: "g", count: 40, children: [{ name: "f", count: 30 }] }] },
    { name: "g", count: 30, children: null },
  ],
};

test("profile: functions", () => {
  const got = functions(tree).map((f) => [f.name, f.self, f.total]);
  equal(got, [["all", 10, 100], ["f", 50, 60], ["g", 40, 70]]);
});

test("profile: boxes", () => {
  const got = boxes(tree, 0.35).map((b) => [b.call.name, b.depth, b.from, b.to]);
  equal(got, [["all", 0, 0, 1], ["f", 1, 0, 0.6], ["g", 2, 0, 0.4]]);
});

test("why: links", () => {
  equal(place({ kind: "k", title: "t", text: "", start: 5, stop: 9, rows: [1, 2] }), "#/stream?start=5&stop=9&rows=1%2C2");
  equal(place({ kind: "k", title: "t", text: "" }), "");
  equal(place({ kind: "k", title: "t", text: "", start: 9, stop: 9 }), "");
});

test("states", () => equal(stateColor("no-worker", true), stateColor("no_worker", true)));

test("bandwidth: clients and workers that have left have no cell", () => {
  const pair = (from: string, to: string): Pair => ({ from, to, transport: "tcp", bytes: 1, seconds: 1, rate: 1, count: 1, reason: "" });
  const cells = cellsOf(["a", "b"], [pair("a", "b"), pair("a", "client"), pair("gone", "b"), pair("a", "b")]);
  equal([...cells].map(([at, list]) => [at, list.length]), [["0 1", 2]]);
});

test("bandwidth: names where they have room", () => {
  equal(matrixShape(3, 1200), { names: true, left: 150, top: 20, cell: 28 });
  equal(matrixShape(50, 1200), { names: true, left: 150, top: 20, cell: 18 });
  equal(matrixShape(50, 400), { names: false, left: 4, top: 4, cell: 7 });
  equal(matrixShape(1000, 1200), { names: false, left: 4, top: 4, cell: 2 });
});

test("workers: facts", () => {
  const w: Worker = {
    address: "tcp://a:1", name: "a", host: "h", status: "running", threads: 1, cpu: 0, processing: 0, ready: 0, executing: 0, held: 0,
    memory: { managed: 1024, unmanaged: 2048, spilled: 0, limit: 0, rss: 3072 }, device: null, last_seen: 0, transports: null,
    version: "1", dashboard: "javascript:alert(1)",
  };
  const names = (v: Worker): string[] => workerFacts(v).map(([k]) => k);
  equal(names(w), ["address", "host", "version", "managed", "unmanaged", "spilled", "memory limit"]);
  const gpu = { ...w, device: { used: 1 << 30, limit: 0, pinned: 1 << 20, utilization: 40, total: 0 } };
  equal(workerFacts(gpu).slice(7), [["GPU memory", "1 GiB"], ["GPU memory limit", ""], ["GPU use", "40 %"], ["pinned", "1 MiB"]]);
});

test("stream: labels of rows", () => {
  const rows: Row[] = [["thread", 0], ["transfer", 1], ["disk", 0], ["disk", 1]].map(([kind, slot], id) =>
    ({ id, worker: "w", name: "w", kind: kind as Row["kind"], slot: slot as number }));
  equal(rows.map((r) => rowLabel(r, true)), ["thread 0", "transfer 1", "disk 0", "paused"]);
  equal(new Set(rows.map((r) => rowLabel(r, false))).size, 4, "short labels differ");
});
