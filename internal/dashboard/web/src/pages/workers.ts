// The page of workers: a table with bars, and logs and call stacks of one of them.

import type { Worker } from "../api.ts";
import type { App, Page, View } from "../app.ts";
import { facts, h, replace, text, type Child } from "../dom.ts";
import { address, bytes, num, seconds } from "../format.ts";
import { bar, DataTable, legend } from "../table.ts";
import { stackLines, logLines } from "./logs.ts";

const managed = "var(--c-memory)";
const unmanaged = "var(--c-unmanaged)";
const cpu = "var(--c-cpu)";
const device = "var(--c-device)";

function cpuCell(td: HTMLElement, w: Worker): void {
  bar(td, `${Math.round(w.cpu)} %`, [{ color: cpu, share: w.cpu / 100 / Math.max(1, w.threads), title: `${Math.round(w.cpu)} % of a core` }]);
}

function memoryCell(td: HTMLElement, w: Worker): void {
  const m = w.memory;
  const whole = m.limit || Math.max(m.rss, m.managed + m.unmanaged, 1);
  bar(td, m.limit ? `${bytes(m.rss)} of ${bytes(m.limit)}` : bytes(m.rss), [
    { color: managed, share: m.managed / whole, title: "managed " + bytes(m.managed) },
    { color: unmanaged, share: m.unmanaged / whole, title: "unmanaged " + bytes(m.unmanaged) },
  ]);
}

function deviceCell(td: HTMLElement, w: Worker): void {
  const d = w.device;
  if (!d) return text(td, "–");
  const whole = d.total || d.limit || Math.max(d.used, 1);
  bar(td, `${bytes(d.used)} · ${Math.round(d.utilization)} %`, [{ color: device, share: d.used / whole, title: `used ${bytes(d.used)}, pinned ${bytes(d.pinned)}` }]);
}

/** workerFacts describes a worker: what the table has no room for, and what it shows by the length of bars. */
export function workerFacts(w: Worker): [string, Child][] {
  const { memory: m, device: d } = w;
  const out: [string, Child][] = [["address", w.address], ["host", w.host], ["version", w.version],
    ["managed", bytes(m.managed)], ["unmanaged", bytes(m.unmanaged)], ["spilled", bytes(m.spilled)],
    ["memory limit", m.limit ? bytes(m.limit) : "none"]];
  if (d) {
    out.push(["GPU memory", `${bytes(d.used)}${d.total ? " of " + bytes(d.total) : ""}`],
      ["GPU memory limit", d.limit ? bytes(d.limit) : ""], ["GPU use", `${Math.round(d.utilization)} %`], ["pinned", bytes(d.pinned)]);
  }
  if (/^https?:\/\//.test(w.dashboard)) out.push(["pages", h("a", { href: w.dashboard, rel: "noreferrer" }, "HTTP server of the worker")]);
  return out;
}

class Workers implements View {
  private readonly table: DataTable<Worker>;
  private readonly detail = h("section", { cls: "card detail", hidden: true, "aria-label": "Worker" });
  private shown = "";
  private tab: "logs" | "stacks" = "logs";
  private list: Worker[] = [];
  private readonly facts = h("div");

  constructor(private readonly app: App, root: HTMLElement) {
    this.table = new DataTable<Worker>({
      caption: "Workers",
      key: (w) => w.address,
      sort: 0,
      empty: "No workers have joined.",
      columns: [
        { title: "Name", value: (w) => w.name || w.address, cell: (td, w) => this.nameCell(td, w) },
        { title: "Address", value: (w) => w.address, cell: (td, w) => text(td, address(w.address)), cls: "mono" },
        { title: "State", value: (w) => w.status, cell: (td, w) => {
          td.dataset["status"] = w.status;
          text(td, w.status);
        } },
        { title: "Threads", value: (w) => w.threads, number: true },
        { title: "CPU", value: (w) => w.cpu, cell: cpuCell, number: true, cls: "bars", hint: "percent of one core" },
        { title: "Memory", value: (w) => w.memory.rss, cell: memoryCell, number: true, cls: "bars" },
        { title: "Spilled", value: (w) => w.memory.spilled, cell: (td, w) => text(td, bytes(w.memory.spilled)), number: true },
        { title: "GPU", value: (w) => w.device?.used ?? -1, cell: deviceCell, number: true, cls: "bars" },
        { title: "Processing", value: (w) => w.processing, cell: (td, w) => text(td, num(w.processing)), number: true },
        { title: "Executing", value: (w) => w.executing, number: true },
        { title: "Ready", value: (w) => w.ready, number: true },
        { title: "Held", value: (w) => w.held, cell: (td, w) => text(td, num(w.held)), number: true, hint: "results in memory" },
        { title: "Transports", value: (w) => (w.transports ?? []).join(" "), cell: (td, w) => text(td, (w.transports ?? []).join(", ") || "–") },
        { title: "Last seen", value: (w) => w.last_seen, cell: (td, w) => text(td, w.last_seen < 1 ? "now" : seconds(Math.round(w.last_seen)) + " ago"), number: true },
      ],
    });
    root.append(h("h1", {}, "Workers"),
      legend([["CPU", cpu], ["managed memory", managed], ["unmanaged memory", unmanaged], ["GPU memory", device]]),
      this.table.el, this.detail);
  }

  private nameCell(td: HTMLElement, w: Worker): void {
    let b = td.querySelector("button");
    if (!b) td.append((b = h("button", { type: "button", cls: "link", onclick: () => this.open(w.address) })));
    text(b, w.name || address(w.address));
    b.setAttribute("aria-expanded", String(this.shown === w.address));
  }

  private open(worker: string): void {
    this.shown = this.shown === worker ? "" : worker;
    this.detail.hidden = this.shown === "";
    if (this.shown !== "") {
      void this.loadDetail();
      this.detail.scrollIntoView({ block: "nearest" });
    }
  }

  private async loadDetail(): Promise<void> {
    const worker = this.shown;
    const tab = this.tab;
    const choose = (t: "logs" | "stacks", label: string): HTMLElement => h("button", {
      type: "button", "aria-pressed": String(tab === t),
      onclick: () => {
        this.tab = t;
        void this.loadDetail();
      },
    }, label);
    const body = h("div", { cls: "lines", tabindex: 0, role: "region", "aria-label": tab === "logs" ? "Log" : "Call stacks" }, "Loading");
    replace(this.detail,
      h("div", { cls: "bar-tools" }, h("h2", {}, this.app.workerName(worker)),
        h("div", { cls: "tools" }, choose("logs", "Logs"), choose("stacks", "Call stacks"),
          h("button", { type: "button", "aria-label": "Close", onclick: () => this.open(worker) }, "×"))),
      this.facts, body);
    this.describe();
    try {
      const got = await this.app.source.json<unknown>(tab === "logs" ? "logs.json" : "stacks.json", { worker });
      if (this.shown !== worker || this.tab !== tab) return;
      replace(body, ...(tab === "logs" ? logLines(this.app, got) : stackLines(got)));
    } catch (err) {
      replace(body, h("p", {}, err instanceof Error ? err.message : String(err)));
    }
  }

  async refresh(): Promise<void> {
    const got = await this.app.source.json<{ workers: Worker[] | null }>("workers.json");
    this.list = got.workers ?? [];
    this.table.show("GPU", this.list.some((w) => w.device));
    this.table.update(this.list);
    this.describe();
  }

  private describe(): void {
    const w = this.list.find((v) => v.address === this.shown);
    if (w) replace(this.facts, facts(workerFacts(w)));
    else if (this.shown !== "") replace(this.facts, h("p", { cls: "muted" }, "This worker has left."));
  }

  reset(): void {
    this.shown = "";
    this.detail.hidden = true;
    this.table.update([]);
  }
}

export const workersPage: Page = { id: "workers", title: "Workers", open: (root, app) => new Workers(app, root) };
