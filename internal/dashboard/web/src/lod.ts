// Tiles computed in the page, for reports. The server computes the same ones.

import type { TileKey } from "./source.ts";
import { BUCKETS, encodeLine } from "./tile.ts";

/** Columns are spans sorted by row, then by start. */
export interface Columns {
  row: Uint32Array;
  start: Float64Array;
  stop: Float64Array;
  cat: Uint8Array;
}

/** Index finds the spans of a row in a range of time. */
export class Index {
  private readonly first: Uint32Array; // of each row
  private readonly reach: Float64Array; // latest stop of this and all earlier spans of the row

  constructor(readonly columns: Columns, readonly rows: number) {
    const { row, stop } = columns;
    const n = row.length;
    this.first = new Uint32Array(rows + 1);
    this.reach = new Float64Array(n);
    for (let i = 0; i < n; i++) if (row[i]! < rows) this.first[row[i]! + 1]!++;
    for (let r = 0; r < rows; r++) this.first[r + 1]! += this.first[r]!;
    for (let i = 0; i < n; i++) {
      const before = i > 0 && row[i - 1] === row[i] ? this.reach[i - 1]! : -Infinity;
      this.reach[i] = Math.max(before, stop[i]!);
    }
  }

  /** each calls f for the spans of a row that overlap [start, stop), until it returns false. */
  each(row: number, start: number, stop: number, f: (i: number) => boolean | void): void {
    if (row < 0 || row >= this.rows) return;
    const end = this.first[row + 1]!;
    let lo = this.first[row]!;
    let hi = end;
    while (lo < hi) {
      const mid = (lo + hi) >>> 1;
      if (this.reach[mid]! <= start) lo = mid + 1;
      else hi = mid;
    }
    const { start: s, stop: e } = this.columns;
    for (let i = lo; i < end && s[i]! < stop; i++) {
      if (e[i]! > start && f(i) === false) return;
    }
  }

  /** tile returns an encoded tile. */
  tile(k: TileKey): Uint8Array {
    const size = 2 ** k.level;
    const begin = k.index * BUCKETS * size;
    const end = begin + BUCKETS * size;
    const out: number[] = [];
    const cats = new Uint8Array(BUCKETS);
    const cover = new Uint8Array(BUCKETS);
    const per = 2 ** k.group;
    const lines = Math.ceil((Math.min(k.to, this.rows) - k.from) / per);
    let previous = 0;
    for (let line = 0; line < lines; line++) {
      const sums = new Map<number, Float32Array>();
      const from = k.from + line * per;
      const to = Math.min(from + per, k.to, this.rows);
      for (let r = from; r < to; r++) this.each(r, begin, end, (i) => this.add(sums, i, begin, size));
      if (sums.size === 0) continue;
      dominant(sums, size * (to - from), cats, cover);
      encodeLine(out, line - previous, cats, cover);
      previous = line;
    }
    return Uint8Array.from(out);
  }

  private add(sums: Map<number, Float32Array>, i: number, begin: number, size: number): void {
    const { start, stop, cat } = this.columns;
    const a = Math.max(0, (start[i]! - begin) / size);
    const b = Math.min(BUCKETS, (stop[i]! - begin) / size);
    const first = Math.floor(a);
    const last = Math.min(BUCKETS - 1, Math.floor(b));
    if (first >= BUCKETS || b <= a) return;
    let sum = sums.get(cat[i]!);
    if (!sum) sums.set(cat[i]!, (sum = new Float32Array(BUCKETS)));
    if (first === last) sum[first]! += (b - a) * size;
    else {
      sum[first]! += (first + 1 - a) * size;
      for (let j = first + 1; j < last; j++) sum[j]! += size;
      sum[last]! += (b - last) * size;
    }
  }
}

// dominant finds the category with most time of each bucket, and the share of the bucket that is covered.
function dominant(sums: Map<number, Float32Array>, whole: number, cats: Uint8Array, cover: Uint8Array): void {
  const order = [...sums.keys()].sort((a, b) => a - b);
  for (let j = 0; j < BUCKETS; j++) {
    let best = 0;
    let most = 0;
    let total = 0;
    for (const c of order) {
      const v = sums.get(c)![j]!;
      total += v;
      if (v > most) {
        most = v;
        best = c;
      }
    }
    cats[j] = best;
    cover[j] = total > 0 ? Math.max(1, Math.min(255, Math.round((total / whole) * 255))) : 0;
  }
}
