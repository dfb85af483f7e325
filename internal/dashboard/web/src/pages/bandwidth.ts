// The page of bandwidth: a matrix of workers, colored by transport, brighter where it is faster.

import type { Bandwidth, Pair } from "../api.ts";
import type { App, Page, View } from "../app.ts";
import { hueOf } from "../color.ts";
import { css, facts, fit, h, text, Tip } from "../dom.ts";
import { bytes, num, rate, seconds } from "../format.ts";
import { FONT } from "../stream/draw.ts";
import { card, DataTable, legend } from "../table.ts";

const rgb = ([r, g, b]: readonly [number, number, number], alpha: number): string => `rgba(${r},${g},${b},${alpha})`;

/** cellsOf returns the pairs of each cell, by row and column. Those of clients and of workers that have left have none. */
export function cellsOf(workers: string[], pairs: Pair[]): Map<string, Pair[]> {
  const index = new Map(workers.map((w, i) => [w, i]));
  const cells = new Map<string, Pair[]>();
  for (const p of pairs) {
    const from = index.get(p.from);
    const to = index.get(p.to);
    if (from === undefined || to === undefined) continue;
    const list = cells.get(`${from} ${to}`);
    if (list) list.push(p);
    else cells.set(`${from} ${to}`, [p]);
  }
  return cells;
}

/** matrixShape returns the size of the cells of n workers, with names where these have room. */
export function matrixShape(n: number, width: number): { names: boolean; left: number; top: number; cell: number } {
  const cellFor = (left: number): number => Math.max(2, Math.min(28, Math.floor((Math.min(width, 1100) - left - 4) / Math.max(1, n))));
  const names = width > 500 && cellFor(150) >= 12;
  const left = names ? 150 : 4;
  return { names, left, top: names ? 20 : 4, cell: cellFor(left) };
}

class BandwidthView implements View {
  private readonly canvas = h("canvas", { role: "img", "aria-label": "Bandwidth from each worker to each other; the table below has the same numbers" });
  private readonly box = h("div", { cls: "matrix" }, this.canvas);
  private readonly tip = new Tip(this.box);
  private readonly legend = h("div");
  private readonly none = h("p", { cls: "muted" }, "No transfers between workers yet.");
  private readonly table: DataTable<Pair>;
  private readonly sizes = new ResizeObserver(() => this.draw());
  private data: Bandwidth = { workers: [], pairs: [], transports: {} };
  private cells = new Map<string, Pair[]>();
  private shape = { left: 0, top: 0, cell: 1 };

  constructor(private readonly app: App, root: HTMLElement) {
    this.table = new DataTable<Pair>({
      caption: "Pairs of workers",
      key: (p) => [p.from, p.to, p.transport].join(" "),
      sort: 3,
      descending: true,
      limit: 200,
      empty: "No transfers yet.",
      columns: [
        { title: "From", value: (p) => app.workerName(p.from) },
        { title: "To", value: (p) => app.workerName(p.to) },
        { title: "Transport", value: (p) => p.transport },
        { title: "Bytes", value: (p) => p.bytes, cell: (td, p) => text(td, bytes(p.bytes)), number: true },
        { title: "Transfers", value: (p) => p.count, cell: (td, p) => text(td, num(p.count)), number: true },
        { title: "Time", value: (p) => p.seconds, cell: (td, p) => text(td, seconds(p.seconds)), number: true },
        { title: "Rate", value: (p) => p.rate, cell: (td, p) => text(td, rate(p.rate)), number: true },
        { title: "Why not faster", value: (p) => p.reason, cls: "wrap" },
      ],
    });
    root.append(h("h1", {}, "Bandwidth"), card("Worker to worker", this.legend, this.none, this.box), this.table.el);
    this.sizes.observe(this.box);
    this.canvas.addEventListener("pointermove", (e) => this.hover(e.offsetX, e.offsetY));
    this.canvas.addEventListener("pointerleave", () => this.tip.hide());
  }

  private hover(x: number, y: number): void {
    const { left, top, cell } = this.shape;
    const i = Math.floor((y - top) / cell);
    const j = Math.floor((x - left) / cell);
    const pairs = this.cells.get(`${i} ${j}`);
    if (!pairs) return this.tip.hide();
    const p = pairs[0]!;
    this.tip.show(x, y, h("strong", {}, `${this.app.workerName(p.from)} → ${this.app.workerName(p.to)}`),
      ...pairs.flatMap((q) => [facts([["transport", q.transport], ["rate", rate(q.rate)], ["bytes", bytes(q.bytes)], ["transfers", num(q.count)]]),
        q.reason ? h("p", { cls: "muted" }, q.reason) : null]));
  }

  private draw(): void {
    const empty = this.cells.size === 0;
    this.none.hidden = !empty;
    this.box.hidden = empty;
    if (empty) return;
    const n = this.data.workers.length;
    const width = this.box.clientWidth;
    const { names, left, top, cell } = matrixShape(n, width);
    this.shape = { left, top, cell };
    this.box.style.height = `${top + n * cell + 6}px`;
    const { g } = fit(this.canvas);
    g.clearRect(0, 0, this.canvas.clientWidth, this.canvas.clientHeight);
    const gap = cell >= 6 ? 1 : 0;
    let most = 1;
    for (const p of this.data.pairs) most = Math.max(most, p.rate);
    g.fillStyle = css("--track");
    for (let i = 0; i < n; i++) g.fillRect(left, top + i * cell, n * cell - gap, cell - gap);
    for (const [at, pairs] of this.cells) {
      const [i, j] = at.split(" ").map(Number) as [number, number];
      const p = pairs.reduce((a, b) => (b.bytes > a.bytes ? b : a));
      // Transports differ by factors of a hundred: brightness is the logarithm.
      const bright = Math.max(0, 1 - Math.log10(most / Math.max(1, p.rate)) / 3);
      g.fillStyle = rgb(hueOf(p.transport), 0.25 + 0.75 * bright);
      g.fillRect(left + j * cell, top + i * cell, cell - gap, cell - gap);
      if (p.reason && cell >= 10) {
        g.fillStyle = css("--surface");
        g.beginPath();
        g.arc(left + j * cell + cell - 5, top + i * cell + 4.5, 2, 0, 7);
        g.fill();
      }
    }
    if (!names) return;
    g.font = "11px " + FONT;
    g.fillStyle = css("--muted");
    g.textBaseline = "middle";
    this.data.workers.forEach((w, i) => {
      g.textAlign = "right";
      g.fillText(this.app.workerName(w).slice(0, 24), left - 8, top + i * cell + cell / 2);
      g.textAlign = "center";
      if (cell >= 18) g.fillText(String(i), left + i * cell + cell / 2, top / 2);
    });
    g.textAlign = "left";
  }

  async refresh(): Promise<void> {
    const d = await this.app.source.json<Bandwidth>("bandwidth.json");
    this.data = { workers: d.workers ?? [], pairs: d.pairs ?? [], transports: d.transports ?? {} };
    this.cells = cellsOf(this.data.workers, this.data.pairs);
    const names = new Set(this.data.pairs.map((p) => p.transport));
    this.legend.replaceChildren(legend([...names].sort().slice(0, 20).map((t) => [t || "unknown", rgb(hueOf(t), 1)])));
    this.table.update(this.data.pairs);
    this.draw();
  }

  theme(): void {
    this.draw();
  }

  reset(): void {
    this.cells.clear();
    this.data = { workers: [], pairs: [], transports: {} };
    this.table.update([]);
  }

  close(): void {
    this.sizes.disconnect();
  }
}

export const bandwidthPage: Page = { id: "bandwidth", title: "Bandwidth", open: (root, app) => new BandwidthView(app, root) };
