// The page of time series: memory, CPU, tasks per second.

import type { Series } from "../api.ts";
import type { App, Page, View } from "../app.ts";
import { Chart, type Curve } from "../chart.ts";
import { hueOf } from "../color.ts";
import { h, replace } from "../dom.ts";
import { bytes, rate, short } from "../format.ts";
import { card, legend } from "../table.ts";

const colors = ["#4c9f6a", "#3f83c8", "#d08a2c", "#8e72c4", "#2b9ea6", "#c0629f", "#8a9a3c", "#7f8fa6"];

/** family returns the chart that a series belongs to: "memory" for "memory.managed". */
export function family(name: string): string {
  if (/^(memory|managed|unmanaged|spilled)$/.test(name)) return "memory";
  return /^[^./: ]+(?=[.: ])/.exec(name)?.[0] ?? name;
}

function unit(name: string): (v: number) => string {
  if (/bytes.*(rate|\/s)|bandwidth|transfer/i.test(name)) return rate;
  if (/memory|bytes|spill|device|gpu_mem|rss|pinned/i.test(name)) return bytes;
  if (/cpu|gpu|utilization/i.test(name)) return (v) => short(v) + " %";
  return short;
}

const label = (f: string, name: string): string => {
  if (name === "memory") return "processes";
  return name.startsWith(f) && name.length > f.length ? name.slice(f.length).replace(/^[.: ]/, "") : name;
};

const titles: Record<string, string> = { "bytes/s": "Transfers", "tasks/s": "Tasks per second", device: "GPU memory", gpu: "GPU use", cpu: "CPU" };

const title = (f: string): string => (titles[f]) ?? (/^(cpu|gpu|rss)$/.test(f) ? f.toUpperCase() : f[0]!.toUpperCase() + f.slice(1)).replace(/_/g, " ");

class Memory implements View {
  private readonly box = h("div", { cls: "cards" });
  private readonly charts = new Map<string, { chart: Chart; legend: HTMLElement; el: HTMLElement }>();

  constructor(private readonly app: App, root: HTMLElement) {
    root.append(h("h1", {}, "Memory and load over time"), this.box);
  }

  async refresh(): Promise<void> {
    const { app } = this;
    const start = app.meta?.first ?? 0;
    const stop = Math.ceil(Math.max(app.now(), app.last()));
    const { series } = await app.source.json<{ series: Series | null }>("series.json", { start: Math.floor(start), stop, points: 400 });
    const groups = new Map<string, Curve[]>();
    for (const name of Object.keys(series ?? {}).sort()) {
      const f = family(name);
      const list = groups.get(f) ?? [];
      const [r, g, b] = hueOf(name);
      list.push({ name, color: colors[list.length] ?? `rgb(${r},${g},${b})`, points: series![name] ?? [] });
      groups.set(f, list);
    }
    const order = [...groups.keys()].sort((a, b) => Number(b === "memory") - Number(a === "memory") || a.localeCompare(b));
    for (const [f, c] of this.charts) {
      if (!groups.has(f)) {
        c.chart.close();
        this.charts.delete(f);
      }
    }
    let fresh = false;
    for (const f of order) {
      if (this.charts.has(f)) continue;
      const chart = new Chart(app, f, unit(f));
      const names = h("div");
      this.charts.set(f, { chart, legend: names, el: card(title(f), names, chart.el) });
      fresh = true;
    }
    if (fresh || order.length === 0) {
      replace(this.box, ...(order.length === 0 ? [h("p", { cls: "muted" }, "No samples yet.")] : order.map((f) => this.charts.get(f)!.el)));
    }
    for (const f of order) {
      const c = this.charts.get(f)!;
      const curves = groups.get(f)!;
      c.legend.replaceChildren(legend(curves.slice(0, 16).map((v) => [label(f, v.name), v.color])));
      c.chart.update(curves);
    }
  }

  theme(): void {
    for (const c of this.charts.values()) c.chart.draw();
  }

  close(): void {
    for (const c of this.charts.values()) c.chart.close();
  }
}

export const memoryPage: Page = { id: "memory", title: "Memory", open: (root, app) => new Memory(app, root) };
