import { Index } from "../lod.ts";
import { BUCKETS, encodeLine } from "../tile.ts";
import { decode, equal, test } from "./harness.ts";

const line = (delta: number, fill: (i: number) => [number, number]): number[] => {
  const cats = new Uint8Array(BUCKETS);
  const cover = new Uint8Array(BUCKETS);
  for (let i = 0; i < BUCKETS; i++) [cats[i], cover[i]] = fill(i);
  const out: number[] = [];
  encodeLine(out, delta, cats, cover);
  return out;
};

test("tile: encode and decode", () => {
  const data = Uint8Array.from([...line(0, () => [8, 255]), ...line(300, (i) => (i < 10 ? [0, 0] : [1, i]))]);
  const lines = decode(data);
  equal(lines.map((l) => l.line), [0, 300]);
  equal([...lines[0]!.ends, ...lines[0]!.cats, ...lines[0]!.cover], [256, 8, 255]);
  equal([lines[1]!.ends[0], lines[1]!.cats[0], lines[1]!.ends.length], [10, 0, 247]);
});

test("tile: damaged bytes", () => {
  const good = line(0, (i) => [8, i]);
  equal(decode(new Uint8Array()), []);
  for (let n = 1; n < good.length; n += 7) equal(decode(Uint8Array.from(good.slice(0, n))), [], `first ${n} bytes`);
  equal(decode(Uint8Array.from([0, 1, 5, 8, 255])), [], "runs that do not fill the line");
  equal(decode(Uint8Array.from([0, 0])), [], "no runs");
  equal(decode(new Uint8Array(20).fill(255)), [], "endless varint");
});

const index = new Index({
  row: Uint32Array.from([0, 0, 0, 1, 3]),
  start: Float64Array.from([0, 100, 150, 0, 250]),
  stop: Float64Array.from([100, 400, 160, 256, 260]),
  cat: Uint8Array.from([8, 9, 1, 10, 11]),
}, 4);

test("lod: spans of a row", () => {
  const found = (row: number, a: number, b: number): number[] => {
    const out: number[] = [];
    index.each(row, a, b, (i) => void out.push(i));
    return out;
  };
  equal(found(0, 0, 1000), [0, 1, 2]);
  equal(found(0, 200, 300), [1], "a long span that began before a short one");
  equal(found(0, 100, 150), [1]);
  equal(found(2, 0, 1000), []);
  equal(found(9, 0, 1000), []);
});

test("lod: tiles", () => {
  const at = (l: { ends: Uint16Array; cats: Uint8Array; cover: Uint8Array }, bucket: number): number[] => {
    const i = l.ends.findIndex((e) => e > bucket);
    return [l.cats[i]!, l.cover[i]!];
  };
  const t0 = decode(index.tile({ level: 0, index: 0, from: 0, to: 64, group: 0 }));
  equal(t0.map((l) => l.line), [0, 1, 3]);
  equal([at(t0[0]!, 0), at(t0[0]!, 99), at(t0[0]!, 100), at(t0[2]!, 249), at(t0[2]!, 250)], [[8, 255], [8, 255], [9, 255], [0, 0], [11, 255]]);
  const t1 = decode(index.tile({ level: 8, index: 0, from: 0, to: 4, group: 0 }));
  equal(at(t1[0]!, 0), [9, 255]);
  equal(at(t1[2]!, 1), [11, 4]);
  const grouped = decode(index.tile({ level: 8, index: 0, from: 0, to: 4, group: 2 }));
  equal(grouped.length, 1);
  equal(at(grouped[0]!, 0), [10, Math.round(((256 + 10 + 256 + 6) / 1024) * 255)]);
  equal(decode(index.tile({ level: 0, index: 5, from: 0, to: 4, group: 0 })), []);
});
