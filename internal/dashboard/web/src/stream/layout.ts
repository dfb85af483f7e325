// The order of rows on the screen, and how many rows share a line.

import type { Row } from "../api.ts";

/** Up to so many rows each row has a line of its own, and the rows of a worker are next to each other. */
export const SMALL = 1024;

const kinds = { thread: 0, transfer: 1, disk: 2 };

/** Layout maps rows to lines. */
export class Layout {
  readonly count: number;
  /** order has the row id of each display position; null: the order of ids. */
  readonly order: Int32Array | null;
  /** place has the display position of each row id; null: the order of ids. */
  readonly place: Int32Array | null;

  constructor(readonly rows: Row[]) {
    this.count = rows.length;
    if (this.count > SMALL) {
      this.order = this.place = null;
      return;
    }
    const names = new Intl.Collator("en", { numeric: true });
    const sorted = rows.slice().sort((a, b) =>
      names.compare(a.name, b.name) || names.compare(a.worker, b.worker) || kinds[a.kind] - kinds[b.kind] || a.slot - b.slot || a.id - b.id);
    this.order = Int32Array.from(sorted, (r) => r.id);
    this.place = new Int32Array(this.count);
    this.order.forEach((id, i) => {
      if (id < this.count) this.place![id] = i;
    });
  }

  /** at returns the row at a display position. */
  at(pos: number): Row | undefined {
    return this.rows[this.order ? (this.order[pos] ?? -1) : pos];
  }

  position(id: number): number {
    return this.place ? (this.place[id] ?? 0) : id;
  }

  /** group returns g such that lines of 2^g rows are at least `least` pixels high. */
  group(rowHeight: number, least: number): number {
    if (this.order) return 0;
    let g = 0;
    while (g < 20 && rowHeight * 2 ** g < least) g++;
    return g;
  }

  /** span returns how many row ids a request for a block of lines covers. */
  blockRows(group: number): number {
    if (!this.order) return 256 << group;
    let n = 64;
    while (n < this.count) n *= 2;
    return n;
  }

  /** startsWorker reports whether the row at a display position is the first of its worker. */
  startsWorker(pos: number): boolean {
    return pos === 0 || this.at(pos)?.worker !== this.at(pos - 1)?.worker;
  }
}
