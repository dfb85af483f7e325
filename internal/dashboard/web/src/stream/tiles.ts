// Tiles as pictures, in a cache of bounded size. A tile that is not there yet is painted from coarser or finer ones.

import { isWaiting, type Palette } from "../color.ts";
import type { Source, TileKey } from "../source.ts";
import { BUCKETS, eachLine, MAX_LEVEL } from "../tile.ts";
import type { Layout } from "./layout.ts";

const CACHE_PIXELS = 8 << 20; // 32 MB of pictures, some hundred tiles
const PARALLEL = 4;
const FRAME_TIME = 4; // ms of a frame in which tiles are painted with other colors or in another order

interface Entry {
  key: TileKey;
  data: Uint8Array;
  height: number; // lines of the picture
  picture: OffscreenCanvas | null;
  painted: string; // what the colors and the order depended on
  complete: number; // time up to which the tile is known
  stop: number;
  used: number;
  fetched: number; // performance.now()
}

const name = (k: TileKey): string => `${k.group}/${k.from}-${k.to}/${k.level}/${k.index}`;

/** length returns the microseconds of a tile. */
export const tileTime = (level: number): number => BUCKETS * 2 ** level;

export class Tiles {
  private readonly cache = new Map<string, Entry>();
  private readonly pending = new Map<string, AbortController>();
  private wanted: TileKey[] = [];
  private pixels = 0;
  private clock = 0;
  private generation = 0;
  private retryAt = 0;
  private image = new ImageData(BUCKETS, 1); // scratch
  private spent = 0; // ms of the frame
  private request: (() => void) | null = null; // of the last frame
  private readonly turns: (() => void)[] = [];
  private readonly channel = new MessageChannel();
  /** behind is set if a frame had no time to paint all tiles that it needs. */
  behind = false;
  layout: Layout;

  constructor(private readonly source: Source, private readonly palette: Palette, layout: Layout,
    private readonly last: () => number, private readonly changed: () => void) {
    this.layout = layout;
    this.channel.port1.onmessage = () => {
      this.turns.shift()?.();
      if (this.turns.length > 0) this.channel.port2.postMessage(0);
    };
  }

  /** turn resolves in a task of its own, so that the page handles input and paints frames between two tiles. */
  private turn(): Promise<void> {
    return new Promise((resolve) => {
      this.turns.push(resolve);
      if (this.turns.length === 1) this.channel.port2.postMessage(0);
    });
  }

  /** close forgets all tiles. No further ones are shown. */
  close(): void {
    this.clear();
    this.channel.port1.close();
  }

  /** begin begins a frame. */
  begin(): void {
    this.spent = 0;
    this.behind = false;
  }

  /** clear forgets all tiles. */
  clear(): void {
    this.generation++;
    this.cache.clear();
    for (const c of this.pending.values()) c.abort();
    this.pending.clear();
    this.pixels = 0;
    this.wanted = [];
    if (this.request) this.request = () => undefined;
  }

  get size(): { tiles: number; pixels: number; pending: number } {
    return { tiles: this.cache.size, pixels: this.pixels, pending: this.pending.size };
  }

  /** get returns the picture of a tile, or null. */
  get(k: TileKey): OffscreenCanvas | null {
    const e = this.cache.get(name(k));
    if (!e) return null;
    e.used = ++this.clock;
    if (e.painted !== this.version) {
      if (this.spent >= FRAME_TIME) this.behind = true;
      else {
        const start = performance.now();
        this.paint(e);
        this.spent += performance.now() - start;
      }
    }
    return e.picture;
  }

  // version is what the colors and the order of tiles depend on.
  private get version(): string {
    return `${this.palette.version}/${this.layout.place ? this.layout.count : ""}`;
  }

  private paint(e: Entry): void {
    const { place, count } = this.layout;
    const height = place ? Math.max(1, count) : e.height;
    if (!e.picture || e.picture.height !== height) {
      if (e.picture) this.pixels -= e.picture.width * e.picture.height;
      e.picture = new OffscreenCanvas(BUCKETS, height);
      this.pixels += BUCKETS * height;
    }
    const g = e.picture.getContext("2d")!;
    if (this.image.height !== height) this.image = new ImageData(BUCKETS, height);
    const out = new Uint32Array(this.image.data.buffer);
    out.fill(0);
    const colors = new Uint32Array(256);
    for (let c = 0; c < 256; c++) {
      const [r, gr, b] = this.palette.rgb(c);
      colors[c] = r | (gr << 8) | (b << 16);
    }
    eachLine(e.data, (l) => {
      const y = place ? (place[l.line] ?? -1) : l.line;
      if (y < 0 || y >= height) return;
      const x = y * BUCKETS;
      let from = 0;
      for (let i = 0; i < l.runs; i++) {
        const to = l.ends[i]!;
        const cat = l.cats[i]!;
        const cover = l.cover[i]!;
        if (cat !== 0 && cover > 0) {
          const rgb = colors[cat]!;
          // A bucket that is hardly covered must still be seen.
          const alpha = 72 + ((cover * 183) / 255) | 0;
          if (isWaiting(cat)) {
            for (let j = from; j < to; j++) out[x + j] = rgb | (((j >> 1) & 1 ? alpha >> 2 : alpha >> 1) << 24);
          } else out.fill(rgb | (alpha << 24), x + from, x + to);
        }
        from = to;
      }
    });
    g.putImageData(this.image, 0, 0);
    e.painted = this.version;
  }

  /** ancestor returns the nearest coarser tile that is there, and its part in buckets. */
  ancestor(k: TileKey): { picture: OffscreenCanvas; x: number; width: number } | null {
    for (let up = 1; k.level + up <= MAX_LEVEL && up <= 12; up++) {
      const scale = 2 ** up;
      const index = Math.floor(k.index / scale);
      const picture = this.get({ ...k, level: k.level + up, index });
      if (picture) return { picture, x: ((k.index - index * scale) * BUCKETS) / scale, width: BUCKETS / scale };
    }
    return null;
  }

  /** children returns the finer tiles of a tile that are there: after zooming out they fill the gap. */
  children(k: TileKey): { picture: OffscreenCanvas; part: number; parts: number }[] {
    const out: { picture: OffscreenCanvas; part: number; parts: number }[] = [];
    for (let down = 1; down <= 3 && k.level - down >= 0; down++) {
      const parts = 2 ** down;
      for (let part = 0; part < parts; part++) {
        const picture = this.get({ ...k, level: k.level - down, index: k.index * parts + part });
        if (picture) out.push({ picture, part, parts });
      }
    }
    return out;
  }

  /**
   * want sets the tiles to fetch, those to show first, then those that may be shown next. Requests start when the frame
   * is painted, and requests for other tiles are given up.
   */
  want(shown: TileKey[], next: TileKey[]): void {
    const waits = this.request !== null;
    this.request = () => this.fetchAll(shown, next);
    if (waits) return;
    void this.turn().then(() => {
      const f = this.request;
      this.request = null;
      f?.();
    });
  }

  private fetchAll(shown: TileKey[], next: TileKey[]): void {
    const keys = [...shown, ...next];
    const names = new Set(keys.map(name));
    for (const [n, c] of this.pending) {
      if (!names.has(n)) {
        c.abort();
        this.pending.delete(n);
      }
    }
    const last = this.last();
    const old = performance.now() - 950;
    const seen = new Set<string>();
    this.wanted = keys.filter((k, i) => {
      const n = name(k);
      if (seen.has(n)) return false;
      seen.add(n);
      const e = this.cache.get(n);
      if (e) e.used = ++this.clock;
      // A tile that was fetched before its time was over is fetched again when there is more.
      const grows = i < shown.length && e !== undefined && e.complete < e.stop && last > e.complete && e.fetched < old;
      return !this.pending.has(n) && (!e || grows);
    });
    this.pump();
  }

  private pump(): void {
    while (this.pending.size < PARALLEL && this.wanted.length > 0 && performance.now() >= this.retryAt) {
      void this.fetch(this.wanted.shift()!);
    }
  }

  private async fetch(k: TileKey): Promise<void> {
    const n = name(k);
    const abort = new AbortController();
    this.pending.set(n, abort);
    const generation = this.generation;
    const known = this.last();
    try {
      const data = await this.source.tile(k, abort.signal);
      await this.turn();
      if (generation !== this.generation) return;
      if (!abort.signal.aborted) this.put(k, data, known);
      this.changed();
    } catch {
      if (!abort.signal.aborted) this.retryAt = performance.now() + 1000;
    }
    if (this.pending.get(n) === abort) this.pending.delete(n);
    if (generation === this.generation) this.pump();
  }

  private put(k: TileKey, data: Uint8Array, known: number): void {
    const n = name(k);
    const old = this.cache.get(n);
    // What is reported late, such as transfers and long tasks, still changes a tile for a while.
    const stop = (k.index + 1) * tileTime(k.level) + 10e6;
    const height = Math.ceil((k.to - k.from) / 2 ** k.group);
    const e: Entry = { key: k, data, height, picture: old?.picture ?? null, painted: "", complete: known, stop, used: ++this.clock, fetched: performance.now() };
    this.cache.set(n, e);
    this.paint(e);
    if (this.pixels > CACHE_PIXELS || this.cache.size > 600) this.evict();
  }

  private evict(): void {
    const all = [...this.cache.entries()].sort((a, b) => a[1].used - b[1].used);
    for (const [n, e] of all) {
      if (this.pixels <= CACHE_PIXELS * 0.75 && this.cache.size <= 400) break;
      this.cache.delete(n);
      if (e.picture) this.pixels -= e.picture.width * e.picture.height;
    }
  }
}
