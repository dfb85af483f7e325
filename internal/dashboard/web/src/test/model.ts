import type { Row } from "../api.ts";
import { FIRST_PREFIX, Palette } from "../color.ts";
import { levelFor } from "../stream/draw.ts";
import { Layout, SMALL } from "../stream/layout.ts";
import { Model } from "../stream/model.ts";
import { equal, test } from "./harness.ts";

const model = (): Model => {
  const m = new Model();
  m.first = 0;
  m.last = m.end = 1e6;
  m.resize(1000, 400, 10);
  m.all();
  return m;
};

test("model: zoom keeps the time at the pointer", () => {
  const m = model();
  const before = m.time(250);
  m.zoom(0.5, 250);
  equal(Math.round(m.time(250)), Math.round(before));
  equal(Math.round(m.t1 - m.t0), 515000);
});

test("model: bounds", () => {
  const m = model();
  for (let i = 0; i < 100; i++) m.zoom(0.5, 10);
  if (m.t1 - m.t0 < 9.9) throw new Error(`window of ${m.t1 - m.t0} µs, want at least 10`);
  for (let i = 0; i < 100; i++) m.zoom(3, 10);
  if (m.t1 - m.t0 > 4e6 * 1.001) throw new Error(`window of ${m.t1 - m.t0} µs, want at most 4 s`);
  m.all();
  m.pan(1e9, 1e9);
  if (m.t0 >= m.last) throw new Error("the history is out of sight");
  equal(m.top, 0, "all rows fit");
});

test("model: rows", () => {
  const m = model();
  equal(m.rowHeight, 26);
  m.resize(1000, 400, 4000);
  equal(m.rowHeight, 0.1);
  m.zoomRows(100, 200);
  equal(Math.round(m.rowHeight * 100) / 100, 10);
  m.scrollTo(3990, 4000);
  if (m.position(m.height) < 3999.99) throw new Error("the last row is out of sight");
});

test("level: buckets of one to two pixels", () => {
  for (const per of [0.01, 1, 1.5, 1000, 1e9]) {
    const bucket = 2 ** levelFor(per, 1);
    if (per > 1 && (bucket < per || bucket > 2 * per)) throw new Error(`${per} µs a pixel: bucket of ${bucket}`);
  }
  equal(levelFor(0.001, 2), 0);
});

test("layout: rows of a worker are next to each other", () => {
  const row = (id: number, worker: string, kind: Row["kind"], slot: number): Row => ({ id, worker, name: worker, kind, slot });
  const l = new Layout([row(0, "a", "thread", 0), row(1, "b", "thread", 0), row(2, "a", "transfer", 0), row(3, "a", "thread", 1)]);
  equal([...l.order!], [0, 3, 2, 1]);
  equal([...new Layout([row(0, "10", "thread", 0), row(1, "9", "thread", 0)]).order!], [1, 0], "by name");
  equal([0, 1, 2, 3].map((i) => l.position(i)), [0, 3, 2, 1]);
  equal([0, 1, 2, 3].map((i) => l.startsWorker(i)), [true, false, false, true]);
  equal(l.group(0.001, 2), 0);
  equal(l.blockRows(0), 64);
  const many = new Layout(Array.from({ length: SMALL + 1 }, (_, i) => row(i, "w" + i, "thread", 0)));
  equal([many.order, many.position(7), many.group(0.5, 2), many.blockRows(2)], [null, 7, 2, 1024]);
});

test("palette: stable and distinct", () => {
  const fixed = new Array<string>(FIRST_PREFIX).fill("");
  const a = new Palette();
  a.set([...fixed, "inc", "sum", "load"], false);
  const b = new Palette();
  b.set([...fixed, "sum"], true);
  equal(a.css(FIRST_PREFIX + 1), b.css(FIRST_PREFIX), "color of sum");
  const many = new Palette();
  many.set([...fixed, ...Array.from({ length: 24 }, (_, i) => "p" + i)], false);
  equal(new Set(Array.from({ length: 24 }, (_, i) => many.css(FIRST_PREFIX + i))).size, 24);
  equal([many.name(1), many.name(FIRST_PREFIX), many.name(255)], ["transfer", "p0", "(others)"]);
});
