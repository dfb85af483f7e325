// Painting of the task stream.

import type { App } from "../app.ts";
import type { Row, Span } from "../api.ts";
import { ERROR, isWaiting } from "../color.ts";
import { css } from "../dom.ts";
import { clock, duration, timeTicks } from "../format.ts";
import type { TileKey } from "../source.ts";
import { BUCKETS, MAX_LEVEL } from "../tile.ts";
import type { Layout } from "./layout.ts";
import type { Model } from "./model.ts";
import { tileTime, type Tiles } from "./tiles.ts";

export const AXIS = 26;

/** Inks are the colors of the theme. */
export interface Inks {
  back: string;
  band: string;
  line: string;
  strong: string;
  text: string;
  muted: string;
  accent: string;
}

export function inks(): Inks {
  return {
    back: css("--surface"), band: css("--band"), line: css("--line"), strong: css("--line-strong"),
    text: css("--text"), muted: css("--muted"), accent: css("--accent"),
  };
}

export interface Selection {
  t0: number;
  t1: number;
  from: number; // display positions, half open
  to: number;
}

export interface Scene {
  app: App;
  model: Model;
  layout: Layout;
  tiles: Tiles;
  inks: Inks;
  gutter: number;
  dpr: number;
  spans: Span[] | null; // all spans of the window, if they are few
  hover: Span | null;
  pointer: { x: number; y: number } | null;
  selection: Selection | null;
  marks: { rows: Set<number>; t0: number; t1: number } | null; // of a finding
}

/** level returns the level whose buckets are one to two device pixels wide. */
export function levelFor(perPixel: number, dpr: number): number {
  return Math.max(0, Math.min(MAX_LEVEL, Math.ceil(Math.log2(perPixel / dpr))));
}

/** visible returns the tiles of the window, the middle first. */
export function visible(s: Scene, level: number, margin = 0): TileKey[] {
  const { model: m, layout } = s;
  if (layout.count === 0) return [];
  const group = layout.group(m.rowHeight, 2);
  const block = layout.blockRows(group);
  const time = tileTime(level);
  const first = Math.max(0, Math.floor(Math.max(m.first, m.t0 - margin * time) / time));
  const last = Math.floor(Math.min(m.last, s.app.last(), m.t1 + margin * time) / time);
  const b0 = layout.order ? 0 : Math.floor(m.top / block);
  const b1 = layout.order ? 0 : Math.floor(Math.min(layout.count - 1, m.position(m.height)) / block);
  const keys: TileKey[] = [];
  for (let b = b0; b <= b1; b++) {
    for (let i = first; i <= last && keys.length < 200; i++) {
      keys.push({ level, index: i, from: b * block, to: (b + 1) * block, group });
    }
  }
  const mid = (m.t0 + m.t1) / 2 / time - 0.5;
  return keys.sort((a, b) => Math.abs(a.index - mid) - Math.abs(b.index - mid));
}

/** overview returns the tiles of the whole history. Large histories have about 64 lines. */
export function overview(s: Scene): TileKey[] {
  const { model: m, layout } = s;
  if (layout.count === 0) return [];
  let group = 0;
  let to = layout.blockRows(0);
  if (!layout.order) {
    while (layout.count > 64 << group) group++;
    to = 64 << group;
  }
  const level = levelFor((m.last - m.first) / 600, 1);
  const time = tileTime(level);
  const keys: TileKey[] = [];
  for (let i = Math.max(0, Math.floor(m.first / time)); i <= Math.floor(m.last / time) && keys.length < 16; i++) {
    keys.push({ level, index: i, from: 0, to, group });
  }
  return keys;
}

// drawOverview paints the window from the tiles of the whole history: better than nothing after a change of the rows. It
// reports whether they were there.
function drawOverview(g: CanvasRenderingContext2D, s: Scene): boolean {
  const { model: m } = s;
  let whole = true;
  for (const k of overview(s)) {
    const time = tileTime(k.level);
    const from = Math.max(m.t0, k.index * time);
    const to = Math.min(m.t1, (k.index + 1) * time);
    if (to <= from) continue;
    const picture = s.tiles.get(k);
    if (!picture) {
      whole = false;
      continue;
    }
    const bucket = time / BUCKETS;
    g.drawImage(picture, (from - k.index * time) / bucket, 0, (to - from) / bucket, picture.height,
      s.gutter + m.x(from), AXIS + m.y(0), m.x(to) - m.x(from), picture.height * m.rowHeight * 2 ** k.group);
  }
  return whole;
}

/** Painted is what a window was painted from: all tiles, other levels where tiles are missing, or not everywhere. */
export type Painted = "ready" | "coarse" | "loading";

/** drawTiles paints the window from tiles. */
export function drawTiles(g: CanvasRenderingContext2D, s: Scene, keys: TileKey[]): Painted {
  const { model: m, tiles, dpr } = s;
  g.imageSmoothingEnabled = false;
  let painted: Painted = "ready";
  const missing = (k: TileKey): boolean => !tiles.get(k) && !tiles.ancestor(k);
  if (keys.some(missing) && !drawOverview(g, s)) painted = "loading";
  const gap = m.rowHeight >= 8 ? 1 : 0;
  const snap = (v: number): number => Math.round(v * dpr) / dpr;
  for (const k of keys) {
    const time = tileTime(k.level);
    const x0 = snap(s.gutter + m.x(k.index * time));
    const x1 = snap(s.gutter + m.x((k.index + 1) * time));
    const place = (picture: OffscreenCanvas, sx: number, sw: number, left: number, right: number): void => {
      const lineRows = 2 ** k.group;
      const y0 = AXIS + m.y(k.from);
      const high = m.rowHeight * lineRows;
      g.drawImage(picture, sx, 0, sw, picture.height, left, y0, right - left, picture.height * high);
    };
    const picture = tiles.get(k);
    if (picture) {
      place(picture, 0, BUCKETS, x0, x1);
      continue;
    }
    const up = tiles.ancestor(k);
    if (up) {
      place(up.picture, up.x, up.width, x0, x1);
      if (painted === "ready") painted = "coarse";
      continue;
    }
    const parts = tiles.children(k);
    if (painted === "ready") painted = "coarse";
    for (const c of parts) {
      const w = (x1 - x0) / c.parts;
      place(c.picture, 0, BUCKETS, x0 + c.part * w, x0 + (c.part + 1) * w);
    }
  }
  // Rows are divided by lines of background instead of by gaps in the pictures.
  if (gap > 0) {
    g.fillStyle = s.inks.back;
    const p0 = Math.floor(m.top);
    const p1 = Math.min(s.layout.count, Math.ceil(m.position(m.height)));
    for (let p = p0; p <= p1; p++) g.fillRect(s.gutter, Math.round(AXIS + m.y(p)) - 1, m.width, 2);
  }
  return painted;
}

const hatches = new Map<string, CanvasPattern>();

function hatching(g: CanvasRenderingContext2D, color: string): CanvasPattern | string {
  const known = hatches.get(color);
  if (known) return known;
  const c = new OffscreenCanvas(6, 6);
  const p = c.getContext("2d")!;
  p.strokeStyle = color;
  p.lineWidth = 1.4;
  p.beginPath();
  for (const d of [-6, 0, 6]) {
    p.moveTo(d, 6);
    p.lineTo(d + 6, 0);
  }
  p.stroke();
  const pattern = g.createPattern(c, "repeat");
  if (!pattern) return color;
  hatches.set(color, pattern);
  return pattern;
}

/** spanBox returns the place of a span in the canvas. */
export function spanBox(s: Scene, sp: Span): { x: number; y: number; w: number; h: number } {
  const { model: m, layout } = s;
  const gap = m.rowHeight >= 8 ? 1 : 0;
  const y0 = Math.round(AXIS + m.y(layout.position(sp.row))) + gap;
  const y1 = Math.round(AXIS + m.y(layout.position(sp.row) + 1)) - gap;
  const x = s.gutter + m.x(sp.start);
  return { x, y: y0, w: Math.max(1, m.x(sp.stop) - m.x(sp.start)), h: Math.max(1, y1 - y0) };
}

/** drawSpans paints single spans, with their keys where there is room. */
export function drawSpans(g: CanvasRenderingContext2D, s: Scene, spans: Span[]): void {
  const { app, model: m } = s;
  g.font = "11px " + FONT;
  g.textBaseline = "middle";
  for (const sp of spans) {
    const b = spanBox(s, sp);
    if (b.y + b.h < AXIS || b.y > AXIS + m.height) continue;
    const left = Math.max(s.gutter - 2, b.x);
    const right = Math.min(s.gutter + m.width + 2, b.x + b.w);
    if (right <= left) continue;
    const w = right - left;
    g.fillStyle = isWaiting(sp.cat) ? hatching(g, app.palette.css(sp.cat)) : app.palette.css(sp.cat);
    g.fillRect(left, b.y, w > 3 ? w - 0.5 : w, b.h);
    if (sp.status === "error" || sp.status === "erred" || sp.cat === ERROR) {
      g.fillStyle = app.palette.css(1);
      g.fillRect(left, b.y + b.h - 3, w, 3);
    }
    if (w > 44 && b.h >= 13 && !isWaiting(sp.cat)) {
      const label = sp.key || app.palette.name(sp.cat);
      g.save();
      g.beginPath();
      g.rect(left + 3, b.y, w - 6, b.h);
      g.clip();
      g.fillStyle = "#fff";
      g.fillText(label.slice(0, Math.ceil(w / 5)), left + 5, b.y + b.h / 2 + 0.5);
      g.restore();
    }
  }
}

export const FONT = 'system-ui, -apple-system, "Segoe UI", "Liberation Sans", sans-serif';

/** drawFrame paints the axis, the names of rows and what the pointer is at. */
export function drawFrame(g: CanvasRenderingContext2D, s: Scene, width: number): void {
  const { model: m, inks: ink, app } = s;
  drawAxis(g, s, width);
  drawLabels(g, s);
  if (s.marks) {
    const x0 = Math.max(0, m.x(s.marks.t0));
    const x1 = Math.min(m.width, m.x(s.marks.t1));
    g.strokeStyle = ink.accent;
    g.lineWidth = 2;
    for (const id of s.marks.rows.size > 0 ? s.marks.rows : []) {
      const y = AXIS + m.y(s.layout.position(id));
      g.strokeRect(s.gutter + x0, y, Math.max(2, x1 - x0), m.rowHeight);
    }
    if (s.marks.rows.size === 0 && x1 > x0 && x1 - x0 < m.width) g.strokeRect(s.gutter + x0, AXIS + 1, x1 - x0, m.height - 2);
    g.lineWidth = 1;
  }
  if (s.selection) {
    const x0 = s.gutter + m.x(s.selection.t0);
    const x1 = s.gutter + m.x(s.selection.t1);
    const y0 = AXIS + m.y(s.selection.from);
    const y1 = AXIS + m.y(s.selection.to);
    g.save();
    g.beginPath();
    g.rect(s.gutter, AXIS, m.width, m.height);
    g.clip();
    g.fillStyle = ink.accent;
    g.globalAlpha = 0.14;
    g.fillRect(x0, y0, x1 - x0, y1 - y0);
    g.globalAlpha = 1;
    g.strokeStyle = ink.accent;
    g.strokeRect(x0 + 0.5, y0 + 0.5, x1 - x0 - 1, y1 - y0 - 1);
    g.restore();
  }
  if (s.hover) {
    const b = spanBox(s, s.hover);
    const left = Math.max(s.gutter, b.x);
    const right = Math.min(s.gutter + m.width, b.x + b.w);
    g.strokeStyle = ink.text;
    g.lineWidth = 1.5;
    if (right > left) g.strokeRect(left - 0.5, b.y - 0.5, right - left + 1, b.h + 1);
    g.lineWidth = 1;
  }
  const now = app.tick ? m.x(app.now()) : -1;
  if (now >= 0 && now <= m.width && !app.source.report) {
    g.fillStyle = ink.accent;
    g.fillRect(s.gutter + now, AXIS - 6, 1, m.height + 6);
  }
}

/** drawGrid paints the background and a line for each tick of the axis. */
export function drawGrid(g: CanvasRenderingContext2D, s: Scene): void {
  const { model: m, app } = s;
  g.fillStyle = s.inks.back;
  g.fillRect(0, AXIS, s.gutter + m.width, m.height);
  g.fillStyle = s.inks.line;
  const origin = app.unix(0);
  for (const unix of timeTicks(origin + m.t0, origin + m.t1, m.width / 110).values) {
    g.fillRect(Math.round(s.gutter + m.x(unix - origin)), AXIS, 1, m.height);
  }
}

function drawAxis(g: CanvasRenderingContext2D, s: Scene, width: number): void {
  const { model: m, inks: ink, app } = s;
  g.fillStyle = ink.back;
  g.fillRect(0, 0, width, AXIS);
  g.font = "11px " + FONT;
  g.textBaseline = "middle";
  g.textAlign = "center";
  const origin = app.unix(0);
  const { step, values } = timeTicks(origin + m.t0, origin + m.t1, m.width / 110);
  const digits = step >= 1e6 ? 0 : Math.min(6, Math.ceil(6 - Math.log10(step)));
  for (const unix of values) {
    const t = unix - origin;
    const x = Math.round(s.gutter + m.x(t));
    if (x < s.gutter) continue;
    g.fillStyle = ink.strong;
    g.fillRect(x, AXIS - 5, 1, 5);
    const label = step >= 1e6 ? clock(app.unix(t)) : clock(app.unix(t), digits).slice(3);
    if (x > s.gutter + 24 && x < width - 24) {
      g.fillStyle = ink.muted;
      g.fillText(label, x, AXIS / 2 - 1);
    }
  }
  g.textAlign = "left";
  g.fillStyle = ink.back;
  g.fillRect(0, 0, s.gutter, AXIS);
  g.fillStyle = ink.muted;
  g.fillText(duration(m.t1 - m.t0), 8, AXIS / 2 - 1);
  g.fillStyle = ink.strong;
  g.fillRect(0, AXIS - 1, width, 1);
}

function cut(g: CanvasRenderingContext2D, label: string, width: number): string {
  if (g.measureText(label).width <= width) return label;
  let n = label.length;
  while (n > 1 && g.measureText(label.slice(0, n) + "…").width > width) n--;
  return label.slice(0, n) + "…";
}

const shortKinds = { thread: "t", transfer: "net", disk: "d" };

/** rowLabel names a row of a worker. The second row of disks is that of pauses. */
export function rowLabel(r: Row, wide: boolean): string {
  if (r.kind === "disk" && r.slot === 1) return wide ? "paused" : "p";
  return wide ? `${r.kind} ${r.slot}` : `${shortKinds[r.kind]}${r.slot}`;
}

function drawLabels(g: CanvasRenderingContext2D, s: Scene): void {
  const { model: m, inks: ink, layout, app } = s;
  g.save();
  g.beginPath();
  g.rect(0, AXIS, s.gutter + m.width, m.height);
  g.clip();
  g.fillStyle = ink.back;
  g.fillRect(0, AXIS, s.gutter, m.height);
  g.textBaseline = "middle";
  g.font = "11px " + FONT;
  const p1 = Math.min(layout.count, Math.ceil(m.position(m.height)));
  const wide = s.gutter > 100;
  const workerName = (r: Row): string => app.workerName(r.worker);
  let free = -1e9; // lowest y that is taken by a name
  const step = Math.max(1, Math.floor(2 / m.rowHeight));
  for (let p = Math.max(0, Math.floor(m.top)); p < p1; p += step) {
    const r = layout.at(p);
    if (!r) continue;
    const y = AXIS + m.y(p);
    const starts = layout.order ? layout.startsWorker(p) : true;
    if (starts && layout.order && p > 0 && m.rowHeight * 2 > 3) {
      g.fillStyle = ink.strong;
      g.fillRect(0, Math.round(y), s.gutter + m.width, 1);
    }
    const mid = y + m.rowHeight / 2;
    const at = Math.max(mid, AXIS + 8);
    if ((starts || p === Math.floor(m.top)) && at - free >= 13) {
      const kind = wide && m.rowHeight >= 11 && layout.order !== null;
      g.fillStyle = ink.text;
      g.fillText(cut(g, workerName(r), s.gutter - (kind ? 74 : 14)), 8, at);
      free = at;
    }
    if (m.rowHeight >= 11) {
      g.fillStyle = ink.muted;
      g.textAlign = "right";
      g.fillText(rowLabel(r, wide), s.gutter - 8, mid);
      g.textAlign = "left";
    }
  }
  g.fillStyle = ink.strong;
  g.fillRect(s.gutter - 1, AXIS, 1, m.height);
  g.restore();
}
