// A line chart on a canvas.

import type { App } from "./app.ts";
import { css, fit, h, Tip } from "./dom.ts";
import { bytes, byteSteps, clock, steps, timeTicks } from "./format.ts";
import { FONT } from "./stream/draw.ts";

export interface Curve {
  name: string;
  color: string;
  points: [number, number][]; // time in µs, value
}

/** nearest returns the index of the point whose time is nearest to t, -1 if there is none. */
export function nearest(points: [number, number][], t: number): number {
  let lo = 0;
  let hi = points.length;
  while (lo < hi) {
    const mid = (lo + hi) >>> 1;
    if (points[mid]![0] < t) lo = mid + 1;
    else hi = mid;
  }
  if (lo === points.length || (lo > 0 && t - points[lo - 1]![0] < points[lo]![0] - t)) lo--;
  return lo;
}

export class Chart {
  readonly el: HTMLElement;
  private readonly canvas: HTMLCanvasElement;
  private readonly tip: Tip;
  private readonly sizes: ResizeObserver;
  private curves: Curve[] = [];
  private at: number | null = null; // time under the pointer
  private box = { left: 0, width: 1, t0: 0, t1: 1 };

  constructor(private readonly app: App, private readonly label: string, private readonly format: (v: number) => string) {
    this.canvas = h("canvas", { role: "img" });
    this.el = h("div", { cls: "chart" }, this.canvas);
    this.tip = new Tip(this.el);
    this.sizes = new ResizeObserver(() => this.draw());
    this.sizes.observe(this.canvas);
    this.canvas.addEventListener("pointermove", (e) => this.point(e.offsetX, e.offsetY));
    this.canvas.addEventListener("pointerleave", () => {
      this.at = null;
      this.tip.hide();
      this.draw();
    });
  }

  close(): void {
    this.sizes.disconnect();
  }

  update(curves: Curve[]): void {
    this.curves = curves;
    const last = curves.map((c) => `${c.name} ${this.format(c.points[c.points.length - 1]?.[1] ?? 0)}`).join(", ");
    this.canvas.setAttribute("aria-label", `${this.label} over time. Now: ${last || "no data"}`);
    this.draw();
  }

  private point(x: number, y: number): void {
    const { left, width, t0, t1 } = this.box;
    this.at = t0 + ((x - left) / width) * (t1 - t0);
    const items: [string, string, string][] = [];
    let t = this.at;
    for (const c of this.curves) {
      const p = c.points[nearest(c.points, this.at)];
      if (!p) continue;
      t = p[0];
      items.push([c.name, this.format(p[1]), c.color]);
    }
    this.draw();
    if (items.length === 0) return;
    this.tip.show(x, y, h("strong", {}, clock(this.app.unix(t), 1)), h("dl", { cls: "facts" }, ...items.map(([k, v, color]) => {
      const dot = h("i", { cls: "dot" });
      dot.style.background = color;
      return h("div", {}, h("dt", {}, dot, k), h("dd", {}, v));
    })));
  }

  draw(): void {
    if (!this.canvas.isConnected) return;
    const { g, w, h: height } = fit(this.canvas);
    g.clearRect(0, 0, w, height);
    let t0 = Infinity;
    let t1 = -Infinity;
    let most = 0;
    for (const c of this.curves) {
      for (const [t, v] of c.points) {
        t0 = Math.min(t0, t);
        t1 = Math.max(t1, t);
        most = Math.max(most, v);
      }
    }
    const muted = css("--muted");
    g.font = "11px " + FONT;
    if (!(t1 > t0)) {
      g.fillStyle = muted;
      g.fillText("No samples yet.", 8, height / 2);
      return;
    }
    const top = 8;
    const bottom = height - 22;
    const { values, step } = (this.format === bytes ? byteSteps(Math.max(1, most * 1.05), 4) : steps(0, most > 0 ? most * 1.05 : 1, 4));
    const high = Math.max(most * 1.05, step, 1e-9);
    const left = 10 + Math.max(...values.map((v) => g.measureText(this.format(v)).width));
    const width = w - left - 12;
    this.box = { left, width, t0, t1 };
    const x = (t: number): number => left + ((t - t0) / (t1 - t0)) * width;
    const y = (v: number): number => bottom - (v / high) * (bottom - top);
    g.textBaseline = "middle";
    for (const v of values) {
      g.fillStyle = css("--line");
      g.fillRect(left, Math.round(y(v)), width, 1);
      g.fillStyle = muted;
      g.textAlign = "right";
      g.fillText(this.format(v), left - 6, y(v));
    }
    g.textAlign = "center";
    const origin = this.app.unix(0);
    for (const u of timeTicks(origin + t0, origin + t1, width / 100).values) {
      const at = x(u - origin);
      if (at > left + 24 && at < w - 30) g.fillText(clock(u), at, height - 9);
    }
    g.textAlign = "left";
    g.lineWidth = 1.6;
    g.lineJoin = "round";
    for (const c of this.curves) {
      g.strokeStyle = c.color;
      g.beginPath();
      c.points.forEach(([t, v], i) => (i === 0 ? g.moveTo(x(t), y(v)) : g.lineTo(x(t), y(v))));
      g.stroke();
    }
    if (this.at !== null) {
      g.fillStyle = muted;
      g.fillRect(Math.max(left, Math.min(left + width, x(this.at))), top, 1, bottom - top);
    }
    g.lineWidth = 1;
  }
}
