// The page of the task stream.

import type { Span, Summary, Total } from "../api.ts";
import type { App, Page, View } from "../app.ts";
import { FIRST_PREFIX, isWaiting, PAUSED, TRANSFER, WAITING, WAITING_SLOT } from "../color.ts";
import { facts, fit, h, OPAQUE, replace, text, Tip, type Child } from "../dom.ts";
import { bytes, clock, duration, num, rate, seconds } from "../format.ts";
import { legend } from "../table.ts";
import { AXIS, drawFrame, drawGrid, drawSpans, drawTiles, inks, levelFor, overview, rowLabel, visible, type Painted, type Scene, type Selection } from "./draw.ts";
import { listen } from "./input.ts";
import { Layout } from "./layout.ts";
import { Minimap } from "./minimap.ts";
import { Model } from "./model.ts";
import { Tiles } from "./tiles.ts";

const SPAN_LIMIT = 1500;

const help: [string, string][] = [
  ["wheel", "zoom at the pointer"], ["drag", "move"], ["shift + drag", "select and summarize"],
  ["alt + wheel", "height of rows"], ["click", "details of a task or transfer"],
  ["← →", "move in time; with shift by half a window"], ["↑ ↓", "move in rows"], ["+ −", "zoom"],
  ["[ ]", "height of rows"], ["0", "whole history"], ["f", "follow live"], ["Esc", "clear the selection"], ["?", "this help"],
];

/** spanFacts describes a span. */
export function spanFacts(app: App, sp: Span): [string, Child][] {
  const us = sp.stop - sp.start;
  const row = app.rows[sp.row];
  const out: [string, Child][] = [["duration", duration(us)]];
  if (sp.cat >= FIRST_PREFIX) out.push(["prefix", app.palette.name(sp.cat)]);
  if (isWaiting(sp.cat) || (sp.cat < FIRST_PREFIX && sp.key)) out.push(["what", app.palette.name(sp.cat)]);
  if (sp.bytes) out.push(["bytes", bytes(sp.bytes)]);
  if (sp.bytes && sp.cat < FIRST_PREFIX && us > 0) out.push(["rate", rate(sp.bytes / (us / 1e6))]);
  if (sp.peer) out.push([sp.incoming ? "from" : "to", app.workerName(sp.peer)]);
  out.push(["transport", sp.transport ?? ""], ["status", sp.status ?? ""]);
  if (row) out.push(["worker", `${app.workerName(row.worker)}, ${rowLabel(row, true)}`]);
  out.push(["start", clock(app.unix(sp.start), 6)]);
  return out;
}

class Stream implements View {
  private readonly canvas = h("canvas", {
    tabindex: 0, role: "application", "aria-roledescription": "task stream",
    "aria-label": "Task stream. Arrow keys move, plus and minus zoom, 0 shows all, f follows, question mark shows help.",
  });
  private readonly small = h("canvas", { role: "img", "aria-label": "Overview of the whole history" });
  private readonly panel = h("aside", { cls: "panel", "aria-label": "Details", hidden: true });
  private readonly legend = h("div", { cls: "streamlegend", tabindex: 0, role: "region", "aria-label": "Colors" });
  private readonly followButton = h("button", { type: "button", "aria-pressed": "false", onclick: () => this.toggleFollow() }, "Follow");
  private readonly info = h("span", { cls: "muted", "aria-live": "polite" });
  private readonly dialog = h("dialog", { "aria-labelledby": "helptitle" });
  private readonly tip: Tip;
  private readonly scene: Scene;
  private readonly minimap: Minimap;
  private readonly sizes: ResizeObserver;
  private frame = 0;
  private fetched: { t0: number; t1: number; from: number; to: number; spans: Span[]; truncated: boolean } | null = null;
  private spanTimer = 0;
  private hoverTimer = 0;
  private abort: AbortController | null = null;
  private names = -1;

  constructor(private readonly app: App, root: HTMLElement, params: URLSearchParams) {
    const model = new Model();
    const layout = new Layout(app.rows);
    this.scene = {
      app, model, layout, inks: inks(), gutter: 150, dpr: 1, spans: null, hover: null, pointer: null, selection: null, marks: null,
      tiles: new Tiles(app.source, app.palette, layout, () => app.last(), () => this.redraw()),
    };
    const button = (label: string, name: string, click: () => void): HTMLElement =>
      h("button", { type: "button", "aria-label": name, title: name, onclick: click }, label);
    const act = (f: () => void) => (): void => {
      f();
      this.changed();
    };
    const box = h("div", { cls: "plot" }, this.canvas);
    root.append(
      h("div", { cls: "bar-tools" }, h("h1", {}, "Task stream"), this.info,
        h("div", { cls: "tools", role: "group", "aria-label": "View" },
          button("−", "Zoom out", act(() => model.zoom(1.6, model.width / 2))),
          button("+", "Zoom in", act(() => model.zoom(1 / 1.6, model.width / 2))),
          button("All", "Show the whole history", act(() => { model.follow = false; model.all(); })),
          app.source.report ? null : this.followButton,
          button("?", "Help", () => this.showHelp()))),
      h("div", { cls: "streambody" }, box, this.panel),
      h("div", { cls: "mini" }, this.small),
      this.legend, this.dialog);
    this.tip = new Tip(box);
    this.minimap = new Minimap(this.small, () => this.scene, () => this.changed());
    listen(this.canvas, model, () => this.scene.gutter, {
      changed: () => this.changed(),
      hover: (x, y) => this.hover(x, y),
      leave: () => this.leave(),
      select: (x0, y0, x1, y1, done) => this.select(x0, y0, x1, y1, done),
      click: (x, y) => this.click(x, y),
      clear: () => this.clearSelection(),
      help: () => this.showHelp(),
      follow: () => this.toggleFollow(),
    });
    this.bounds();
    this.goTo(params);
    this.sizes = new ResizeObserver(() => this.redraw());
    this.sizes.observe(this.canvas);
    this.redraw();
  }

  // goTo shows the place that a link names, or the end of a live history.
  private goTo(params: URLSearchParams): void {
    const { model: m } = this.scene;
    const t0 = Number(params.get("start") ?? NaN);
    const t1 = Number(params.get("stop") ?? NaN);
    if (t1 >= t0) {
      const pad = Math.max((t1 - t0) * 0.15, 20);
      m.setWindow(t0 - pad, t1 + pad);
      const rows = (params.get("rows") ?? "").split(",").filter((s) => s !== "").map(Number).filter((v) => v >= 0);
      this.scene.marks = { rows: new Set(rows), t0, t1 };
      return;
    }
    m.all();
    if (!this.app.source.report && this.app.now() - m.last < 10e6) this.startFollow();
  }

  private bounds(): void {
    const { model: m } = this.scene;
    m.first = this.app.meta?.first ?? 0;
    m.end = this.app.last();
    m.last = Math.max(m.first + 1e3, m.end);
  }

  private toggleFollow(): void {
    const { model: m } = this.scene;
    if (m.follow) m.follow = false;
    else this.startFollow();
    this.changed();
  }

  // startFollow shows the last ten seconds to five minutes, as they come.
  private startFollow(): void {
    const { model: m } = this.scene;
    m.last = Math.max(m.last, this.app.now());
    const span = Math.min(Math.max(m.t1 - m.t0, 10e6), 300e6);
    m.follow = true;
    m.t1 = m.last;
    m.t0 = m.t1 - span;
  }

  private changed(): void {
    this.leave();
    this.scene.spans = null;
    this.redraw();
  }

  private redraw(): void {
    if (this.frame === 0) this.frame = requestAnimationFrame(() => this.draw());
  }

  private draw(): void {
    this.frame = 0;
    const s = this.scene;
    const { model: m } = s;
    if (s.layout.rows !== this.app.rows) {
      s.layout = new Layout(this.app.rows);
      s.tiles.layout = s.layout;
    }
    const { g, w, h: height, dpr } = fit(this.canvas, OPAQUE);
    s.dpr = dpr;
    s.gutter = w < 600 ? 76 : 168;
    m.resize(w - s.gutter, height - AXIS, s.layout.count);
    if (s.marks && s.marks.rows.size > 0 && s.pointer === null) {
      const at = [...s.marks.rows].map((r) => s.layout.position(r));
      m.scrollTo(Math.min(...at), Math.max(...at) + 1);
    }
    if (m.follow) {
      const span = m.t1 - m.t0;
      const now = Math.max(this.app.now(), m.last);
      m.last = now;
      m.t1 = now + span * 0.02;
      m.t0 = m.t1 - span;
    }
    drawGrid(g, s);
    s.tiles.begin();
    const level = levelFor(m.perPixel, dpr);
    const keys = visible(s, level);
    const exact = this.exact();
    let painted: Painted = "ready";
    if (exact) drawSpans(g, s, exact);
    else painted = drawTiles(g, s, keys);
    drawFrame(g, s, w);
    if (!this.minimap.draw() && painted === "ready") painted = "coarse";
    if (this.names !== this.app.palette.version) this.drawLegend();
    // Neighbors and the next coarser levels come last: with them, moving and zooming out paint at once.
    const more = level < 38 ? visible(s, level + 2) : [];
    s.tiles.want([...keys, ...overview(s)], [...more, ...visible(s, level, 1)]);
    if (!exact) this.scheduleSpans();
    // What a test or a tool that takes pictures waits for.
    const { dataset } = this.canvas;
    dataset["tiles"] = painted;
    dataset["exact"] = String(exact !== null);
    dataset["window"] = `${Math.round(m.t0)}-${Math.round(m.t1)}`;
    this.followButton.setAttribute("aria-pressed", String(m.follow));
    if (s.tiles.behind || (m.follow && !document.hidden)) this.redraw();
  }

  private drawLegend(): void {
    this.names = this.app.palette.version;
    const { palette, names } = this.app;
    const items: [string, string][] = [];
    for (let c = FIRST_PREFIX; c < Math.min(names.length, FIRST_PREFIX + 40); c++) if (names[c]) items.push([palette.name(c), palette.css(c)]);
    for (const c of [TRANSFER, 2, 3, 4, WAITING, PAUSED, WAITING_SLOT]) items.push([palette.name(c), palette.css(c)]);
    if (this.app.rows.length === 0) replace(this.legend, h("p", { cls: "empty" }, "No tasks have run yet."));
    else replace(this.legend, legend(items));
  }

  private rowWindow(): { from: number; to: number } {
    const { layout, model: m } = this.scene;
    if (layout.order) return { from: 0, to: layout.count };
    return { from: Math.max(0, Math.floor(m.top)), to: Math.min(layout.count, Math.ceil(m.position(m.height)) + 1) };
  }

  // exact returns the spans of the window if all of them were fetched.
  private exact(): Span[] | null {
    const { model: m } = this.scene;
    const f = this.fetched;
    if (!f || f.truncated || m.follow || m.rowHeight < 4) return null;
    const rows = this.rowWindow();
    if (f.t0 > m.t0 || f.t1 < m.t1 || f.from > rows.from || f.to < rows.to) return null;
    return f.spans;
  }

  private scheduleSpans(): void {
    const { model: m } = this.scene;
    clearTimeout(this.spanTimer);
    if (m.follow || m.rowHeight < 4 || this.app.rows.length === 0) return;
    const f = this.fetched;
    // A part of a window with few spans has few spans; one that holds a window with many has many.
    if (f?.truncated && f.t0 >= m.t0 && f.t1 <= m.t1) return;
    this.spanTimer = setTimeout(() => void this.fetchSpans(), 120);
  }

  private async fetchSpans(): Promise<void> {
    const { model: m } = this.scene;
    this.abort?.abort();
    const abort = (this.abort = new AbortController());
    const pad = (m.t1 - m.t0) * 0.25;
    const rows = this.rowWindow();
    const w = { start: Math.max(0, m.t0 - pad), stop: Math.max(1, m.t1 + pad), ...rows };
    try {
      const got = await this.app.source.spans(w, SPAN_LIMIT, abort.signal);
      if (abort.signal.aborted) return;
      this.fetched = { t0: got.truncated ? m.t0 : m.t0 - pad, t1: got.truncated ? m.t1 : m.t1 + pad, ...rows, spans: got.spans ?? [], truncated: got.truncated };
      this.redraw();
    } catch {
      // tiles remain
    }
  }

  private hit(spans: Span[], t: number, row: number, slack: number): Span | null {
    let best: Span | null = null;
    for (const sp of spans) {
      if (sp.row !== row || sp.start > t + slack || sp.stop < t - slack) continue;
      if (!best || sp.stop - sp.start < best.stop - best.start) best = sp;
    }
    return best;
  }

  private hover(x: number, y: number): void {
    const { model: m, layout } = this.scene;
    this.scene.pointer = { x, y };
    clearTimeout(this.hoverTimer);
    const row = layout.at(Math.floor(m.position(y)));
    if (!row || y > m.height) return this.leave();
    const t = m.time(x);
    const slack = m.perPixel * 2;
    const exact = this.exact();
    if (exact) return this.showTip(this.hit(exact, t, row.id, slack), x, y);
    this.hoverTimer = setTimeout(() => {
      const w = { start: Math.max(0, t - slack), stop: t + slack + 1, from: row.id, to: row.id + 1 };
      this.app.source.spans(w, 50).then((got) => {
        const p = this.scene.pointer;
        if (p && p.x === x && p.y === y) this.showTip(this.hit(got.spans ?? [], t, row.id, slack), x, y);
      }, () => undefined);
    }, 60);
    if (this.scene.hover) this.showTip(null, x, y);
  }

  private showTip(sp: Span | null, x: number, y: number): void {
    const s = this.scene;
    if (s.hover !== sp) {
      s.hover = sp;
      this.redraw();
    }
    if (!sp) return this.tip.hide();
    this.tip.show(x + s.gutter, y + AXIS, h("strong", {}, sp.key || this.app.palette.name(sp.cat)), facts(spanFacts(this.app, sp)));
  }

  private leave(): void {
    clearTimeout(this.hoverTimer);
    this.scene.pointer = null;
    this.tip.hide();
    if (this.scene.hover) {
      this.scene.hover = null;
      this.redraw();
    }
  }

  private click(x: number, y: number): void {
    if (this.scene.hover) return this.showSpan(this.scene.hover);
    if (x >= 0 && y >= 0 && this.scene.selection) this.clearSelection();
  }

  private showSpan(sp: Span): void {
    const task = sp.key; // also of what was done for a task, and of waiting for it
    this.openPanel(sp.key || this.app.palette.name(sp.cat), facts(spanFacts(this.app, sp)),
      task ? h("p", {}, h("a", { href: "#/story?key=" + encodeURIComponent(sp.key!) }, "Story of this key")) : null);
  }

  private openPanel(title: string, ...kids: Child[]): void {
    replace(this.panel, h("button", { type: "button", cls: "close", "aria-label": "Close details", onclick: () => this.clearSelection() }, "×"),
      h("h2", {}, title), ...kids);
    this.panel.hidden = false;
    this.redraw();
  }

  private clearSelection(): void {
    this.scene.selection = null;
    this.scene.marks = null;
    this.panel.hidden = true;
    this.redraw();
  }

  private select(x0: number, y0: number, x1: number, y1: number, done: boolean): void {
    const { model: m, layout } = this.scene;
    const rowAt = (y: number): number => Math.max(0, Math.min(layout.count - 1, Math.floor(m.position(Math.max(0, Math.min(m.height, y))))));
    const a = rowAt(Math.min(y0, y1));
    const b = rowAt(Math.max(y0, y1));
    const sel: Selection = { t0: m.time(Math.min(x0, x1)), t1: m.time(Math.max(x0, x1)), from: a, to: b + 1 };
    this.scene.selection = sel;
    this.redraw();
    if (done) void this.summarize(sel);
  }

  private async summarize(sel: Selection): Promise<void> {
    const { layout } = this.scene;
    // Rows that are next to each other on the screen may have ids that are not: one request for each range of ids.
    const ids: number[] = [];
    for (let p = sel.from; p < sel.to; p++) ids.push(layout.at(p)?.id ?? -1);
    ids.sort((a, b) => a - b);
    const ranges: { from: number; to: number }[] = [];
    for (const id of ids) {
      const r = ranges[ranges.length - 1];
      if (r && r.to === id) r.to++;
      else ranges.push({ from: id, to: id + 1 });
    }
    const title = `${duration(sel.t1 - sel.t0)} × ${num(sel.to - sel.from)} rows`;
    this.openPanel(title, h("p", { cls: "muted" }, "Loading"));
    try {
      const parts = await Promise.all(ranges.slice(0, 64).map((r) =>
        this.app.source.summary({ start: Math.max(0, sel.t0), stop: Math.max(1, sel.t1), ...r })));
      if (this.scene.selection === sel) this.openPanel(title, ...this.summaryTables(sel, parts));
    } catch (err) {
      this.openPanel(title, h("p", {}, String(err)));
    }
  }

  private summaryTables(sel: Selection, parts: Summary[]): Child[] {
    const add = (into: Map<string, Total>, key: string, t: Total): void => {
      const o = into.get(key);
      if (o) {
        o.count += t.count;
        o.seconds += t.seconds;
        o.bytes += t.bytes;
      } else into.set(key, { ...t });
    };
    const cats = new Map<string, Total>();
    const transports = new Map<string, Total>();
    for (const p of parts) {
      for (const t of p.categories ?? []) add(cats, String(t.cat ?? 0), t);
      for (const t of p.transports ?? []) add(transports, t.transport ?? t.name ?? "", t);
    }
    const whole = ((sel.t1 - sel.t0) / 1e6) * (sel.to - sel.from);
    const row = (name: string, color: string | null, t: Total): HTMLElement => {
      const dot = h("i", { cls: "dot", "aria-hidden": "true" });
      if (color) dot.style.background = color;
      return h("tr", {}, h("th", { scope: "row" }, color ? dot : null, name), h("td", { cls: "num" }, num(t.count)),
        h("td", { cls: "num" }, seconds(t.seconds)), h("td", { cls: "num" }, t.bytes ? bytes(t.bytes) : ""));
    };
    const table = (caption: string, first: string, rows: HTMLElement[]): HTMLElement => h("table", {}, h("caption", {}, caption),
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, first), ...["count", "time", "bytes"].map((t) => h("th", { scope: "col", cls: "num" }, t)))),
      h("tbody", {}, ...rows));
    const byTime = (m: Map<string, Total>): [string, Total][] => [...m].sort((a, b) => b[1].seconds - a[1].seconds).slice(0, 30);
    const busy = [...cats.values()].reduce((a, t) => a + t.seconds, 0);
    return [
      facts([["from", clock(this.app.unix(sel.t0), 3)], ["to", clock(this.app.unix(sel.t1), 3)],
        ["busy", whole > 0 ? ((busy / whole) * 100).toFixed(1) + " %" : ""]]),
      table("Time by kind", "kind", byTime(cats).map(([c, t]) => row(this.app.palette.name(Number(c)), this.app.palette.css(Number(c)), t))),
      transports.size > 0 ? table("Transfers by transport", "transport", byTime(transports).map(([n, t]) => row(n || "–", null, t))) : null,
    ];
  }

  private showHelp(): void {
    replace(this.dialog, h("h2", { id: "helptitle" }, "Keys of the task stream"), facts(help),
      h("form", { method: "dialog" }, h("button", { type: "submit" }, "Close")));
    this.dialog.showModal();
  }

  refresh(): void {
    const { model: m } = this.scene;
    const grew = this.app.last() > m.last;
    this.bounds();
    text(this.info, `${num(this.app.rows.length)} rows, ${duration(m.last - m.first)}`);
    if (grew && this.fetched && !this.fetched.truncated && this.fetched.t1 > m.last - 5e6) this.fetched = null;
    this.redraw();
  }

  reset(): void {
    this.scene.tiles.clear();
    this.fetched = null;
    this.names = -1;
    this.clearSelection();
    this.bounds();
    this.scene.model.all();
    this.startFollow();
    this.redraw();
  }

  theme(): void {
    this.scene.inks = inks();
    this.names = -1;
    this.redraw();
  }

  close(): void {
    cancelAnimationFrame(this.frame);
    this.frame = -1;
    clearTimeout(this.spanTimer);
    clearTimeout(this.hoverTimer);
    this.abort?.abort();
    this.sizes.disconnect();
    this.scene.tiles.close();
  }
}

export const streamPage: Page = {
  id: "stream",
  title: "Stream",
  wide: true,
  open: (root, app, params) => new Stream(app, root, params),
};
