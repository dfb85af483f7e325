// The data of a report, which is part of the file.

import type { Meta, Rows, Span, Spans, Summary, Total } from "./api.ts";
import { Index } from "./lod.ts";
import type { ConnectionState, Source, TileKey, Window } from "./source.ts";

interface Column {
  name: string;
  type: string;
  offset: number;
  length: number;
}

/** Head is the JSON at the begin of the data. */
interface Head {
  files: Record<string, unknown>;
  columns: Column[];
  peers?: string[];
  transports?: string[];
  tiles?: (TileKey & { offset: number; length: number })[];
}

/** Data is the decoded data of a report. */
export interface Data {
  head: Head;
  body: Uint8Array;
}

/** embedded decodes the data: base64 of gzip of the length of the JSON, the JSON, and columns. */
export async function embedded(base64: string): Promise<Data> {
  const text = atob(base64.trim());
  const zipped = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) zipped[i] = text.charCodeAt(i);
  const stream = new Blob([zipped]).stream().pipeThrough(new DecompressionStream("gzip"));
  return parse(new Uint8Array(await new Response(stream).arrayBuffer()));
}

/** parse splits decoded data into JSON and columns. */
export function parse(raw: Uint8Array): Data {
  const n = new DataView(raw.buffer, raw.byteOffset, 4).getUint32(0, true);
  const head = JSON.parse(new TextDecoder().decode(raw.subarray(4, 4 + n))) as Head;
  return { head, body: raw.subarray(4 + n) };
}

const NO_KEY = 0xffffffff;
const INCOMING = 1;
const FAILED = 2;

export class ReportSource implements Source {
  readonly report = true;
  private readonly head: Head;
  private readonly index: Index;
  private readonly key: Uint32Array;
  private readonly size: Float64Array;
  private readonly peer: Uint32Array;
  private readonly transport: Uint32Array;
  private readonly flags: Uint8Array;
  private readonly keys: Uint8Array;
  private readonly keyOffsets: Uint32Array;
  private readonly text = new TextDecoder();
  private readonly tiles = new Map<string, Uint8Array>();

  constructor(data: Data) {
    this.head = data.head;
    const raw = (name: string): ArrayBuffer => {
      const c = this.head.columns.find((v) => v.name === name);
      if (!c) return new ArrayBuffer(0);
      return data.body.slice(c.offset, c.offset + c.length).buffer as ArrayBuffer;
    };
    const row = new Uint32Array(raw("row"));
    const start = new Float64Array(raw("start"));
    const length = new Float64Array(raw("duration"));
    const cat = new Uint8Array(raw("category"));
    const key = new Uint32Array(raw("key"));
    const size = new Float64Array(raw("bytes"));
    const peer = new Uint32Array(raw("peer"));
    const transport = new Uint32Array(raw("transport"));
    const flags = new Uint8Array(raw("flags"));
    const n = row.length;
    const order = Uint32Array.from({ length: n }, (_, i) => i);
    let sorted = true;
    for (let i = 1; i < n && sorted; i++) sorted = row[i - 1]! < row[i]! || (row[i - 1] === row[i] && start[i - 1]! <= start[i]!);
    if (!sorted) order.sort((a, b) => row[a]! - row[b]! || start[a]! - start[b]!);
    const pick = <T extends Uint8Array | Uint32Array | Float64Array>(v: T): T => {
      if (sorted) return v;
      const out = v.slice() as T;
      for (let i = 0; i < n; i++) out[i] = v[order[i]!] ?? 0;
      return out;
    };
    const s = pick(start);
    const d = pick(length);
    const stop = new Float64Array(n);
    for (let i = 0; i < n; i++) stop[i] = s[i]! + d[i]!;
    const rows = this.file<Rows>("rows.json").rows.length;
    this.index = new Index({ row: pick(row), start: s, stop, cat: pick(cat) }, rows);
    this.key = pick(key);
    this.size = pick(size);
    this.peer = pick(peer);
    this.transport = pick(transport);
    this.flags = pick(flags);
    this.keys = new Uint8Array(raw("keys"));
    this.keyOffsets = new Uint32Array(raw("key-offsets"));
    for (const t of this.head.tiles ?? []) {
      this.tiles.set([t.level, t.index, t.from, t.to, t.group].join(), data.body.subarray(t.offset, t.offset + t.length));
    }
  }

  private file<T>(name: string): T {
    const v = this.head.files["/millstream/" + name];
    if (v === undefined) throw new Error("This is not part of the report.");
    return v as T;
  }

  async json<T>(name: string, params: Record<string, string | number> = {}): Promise<T> {
    const q = new URLSearchParams(Object.entries(params).map(([k, v]) => [k, String(v)])).toString();
    const whole = this.head.files[`/millstream/${name}?${q}`];
    return whole !== undefined ? (whole as T) : this.file<T>(name);
  }

  async meta(): Promise<Meta> {
    return this.file("meta.json");
  }

  async rows(): Promise<Rows> {
    return this.file("rows.json");
  }

  async tile(k: TileKey): Promise<Uint8Array> {
    return this.tiles.get([k.level, k.index, k.from, k.to, k.group].join()) ?? this.index.tile(k);
  }

  private span(i: number): Span {
    const { row, start, stop, cat } = this.index.columns;
    const k = this.key[i] ?? NO_KEY;
    const out: Span = { row: row[i]!, start: start[i]!, stop: stop[i]!, cat: cat[i]!, bytes: this.size[i] ?? 0 };
    if (k !== NO_KEY) out.key = this.text.decode(this.keys.subarray(this.keyOffsets[k] ?? 0, this.keyOffsets[k + 1] ?? 0));
    const peer = this.head.peers?.[(this.peer[i] ?? 0) - 1];
    const transport = this.head.transports?.[(this.transport[i] ?? 0) - 1];
    if (peer) out.peer = peer;
    if (transport) out.transport = transport;
    const flags = this.flags[i] ?? 0;
    if (flags & INCOMING) out.incoming = true;
    if (flags & FAILED) out.status = "error";
    return out;
  }

  async spans(w: Window, limit: number): Promise<Spans> {
    const spans: Span[] = [];
    let truncated = false;
    for (let r = w.from; r < Math.min(w.to, this.index.rows) && !truncated; r++) {
      this.index.each(r, w.start, w.stop, (i) => {
        if (spans.length >= limit) {
          truncated = true;
          return false;
        }
        spans.push(this.span(i));
        return true;
      });
    }
    return { spans, truncated };
  }

  async summary(w: Window): Promise<Summary> {
    const cats = new Map<number, Total>();
    const transports = new Map<number, Total>();
    const { start, stop, cat } = this.index.columns;
    const add = <K>(m: Map<K, Total>, k: K, seconds: number, bytes: number): void => {
      const t = m.get(k) ?? { count: 0, seconds: 0, bytes: 0 };
      t.count++;
      t.seconds += seconds;
      t.bytes += bytes;
      m.set(k, t);
    };
    for (let r = w.from; r < Math.min(w.to, this.index.rows); r++) {
      this.index.each(r, w.start, w.stop, (i) => {
        const s = (Math.min(stop[i]!, w.stop) - Math.max(start[i]!, w.start)) / 1e6;
        add(cats, cat[i]!, s, this.size[i] ?? 0);
        const t = this.transport[i] ?? 0;
        if (t > 0) add(transports, t, s, this.size[i] ?? 0);
      });
    }
    return {
      categories: [...cats].map(([c, t]) => ({ ...t, cat: c })),
      transports: [...transports].map(([n, t]) => ({ ...t, transport: this.head.transports?.[n - 1] ?? "" })),
    };
  }

  follow(on: { state(s: ConnectionState): void }): void {
    on.state("report");
  }
}
