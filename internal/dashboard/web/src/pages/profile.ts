// The page of the profile: a flame graph of call stacks, and the functions with most samples.

import type { Call, Worker } from "../api.ts";
import type { App, Page, View } from "../app.ts";
import { fit, css, h, replace, text, Tip } from "../dom.ts";
import { num } from "../format.ts";
import { FONT } from "../stream/draw.ts";
import { card, DataTable } from "../table.ts";

const HIGH = 19;

interface Box {
  call: Call;
  depth: number;
  from: number; // share of the root
  to: number;
}

interface Func {
  name: string;
  self: number;
  total: number;
}

/** boxes returns the rectangles of a flame graph, those that are wider than `least` of the whole. */
export function boxes(root: Call, least: number): Box[] {
  const out: Box[] = [];
  const walk = (c: Call, depth: number, from: number): void => {
    const to = from + c.count / Math.max(1, root.count);
    if (to - from < least || depth > 200) return;
    out.push({ call: c, depth, from, to });
    let at = from;
    for (const k of (c.children ?? []).slice().sort((a, b) => b.count - a.count)) {
      walk(k, depth + 1, at);
      at += k.count / Math.max(1, root.count);
    }
  };
  walk(root, 0, 0);
  return out;
}

/** functions returns the samples of each function, itself and with what it calls. */
export function functions(root: Call): Func[] {
  const all = new Map<string, Func>();
  const walk = (c: Call, above: Set<string>): void => {
    let f = all.get(c.name);
    if (!f) all.set(c.name, (f = { name: c.name, self: 0, total: 0 }));
    const kids = c.children ?? [];
    f.self += Math.max(0, c.count - kids.reduce((a, k) => a + k.count, 0));
    const first = !above.has(c.name);
    if (first) {
      f.total += c.count;
      above.add(c.name);
    }
    if (above.size < 400) for (const k of kids) walk(k, above);
    if (first) above.delete(c.name);
  };
  walk(root, new Set());
  return [...all.values()];
}

class Profile implements View {
  private readonly canvas = h("canvas", { role: "img", "aria-label": "Flame graph; the table below has the same functions" });
  private readonly box = h("div", { cls: "flame" }, this.canvas);
  private readonly tip = new Tip(this.box);
  private readonly note = h("p", { cls: "muted", role: "status" });
  private readonly whole = h("button", { type: "button", hidden: true, onclick: () => this.zoom(null) }, "Whole profile");
  private readonly select = h("select", { id: "worker", onchange: () => this.choose() });
  private readonly table: DataTable<Func>;
  private readonly sizes = new ResizeObserver(() => this.draw());
  private root: Call = { name: "", count: 0 };
  private top: Call | null = null;
  private shown: Box[] = [];
  private worker = ""; // kind or worker, and its value
  private asked = -1e9;

  constructor(private readonly app: App, root: HTMLElement) {
    const share = (v: number): string => `${num(v)} · ${((v / Math.max(1, this.root.count)) * 100).toFixed(1)} %`;
    this.table = new DataTable<Func>({
      caption: "Functions",
      key: (f) => f.name,
      sort: 1,
      descending: true,
      limit: 100,
      empty: "No samples yet.",
      columns: [
        { title: "Function", value: (f) => f.name, cls: "wrap" },
        { title: "Self", value: (f) => f.self, cell: (td, f) => text(td, share(f.self)), number: true },
        { title: "Total", value: (f) => f.total, cell: (td, f) => text(td, share(f.total)), number: true },
      ],
    });
    root.append(h("div", { cls: "bar-tools" }, h("h1", {}, "Profile"),
      h("div", { cls: "tools" }, h("label", { for: "worker" }, "Samples of"), this.select, this.whole)),
      this.note, card("Flame graph", this.box), this.table.el);
    replace(this.select, h("option", { value: "" }, "Tasks of all workers"), h("option", { value: "kind server" }, "Servers of all workers"),
      h("option", { value: "kind scheduler" }, "Scheduler"));
    this.sizes.observe(this.box);
    this.canvas.addEventListener("pointermove", (e) => this.hover(e.offsetX, e.offsetY));
    this.canvas.addEventListener("pointerleave", () => this.tip.hide());
    this.canvas.addEventListener("click", (e) => this.zoom(this.hit(e.offsetX, e.offsetY)?.call ?? null));
    if (!app.source.report) void this.loadWorkers();
  }

  private async loadWorkers(): Promise<void> {
    try {
      const got = await this.app.source.json<{ workers: Worker[] | null }>("workers.json");
      this.select.append(...(got.workers ?? []).slice(0, 2000).map((w) => h("option", { value: "worker " + w.address }, "Tasks of " + this.app.workerName(w.address))));
    } catch {
      // all workers remain
    }
  }

  private choose(): void {
    this.worker = this.select.value;
    this.asked = -1e9;
    void this.refresh();
  }

  private zoom(c: Call | null): void {
    this.top = c === this.root ? null : c;
    this.whole.hidden = this.top === null;
    this.tip.hide();
    this.draw();
  }

  private hit(x: number, y: number): Box | undefined {
    const at = x / Math.max(1, this.canvas.clientWidth);
    const depth = Math.floor(y / HIGH);
    return this.shown.find((b) => b.depth === depth && at >= b.from && at < b.to);
  }

  private hover(x: number, y: number): void {
    const b = this.hit(x, y);
    if (!b) return this.tip.hide();
    const c = b.call;
    this.tip.show(x, y, h("strong", {}, c.name), h("p", { cls: "muted" },
      `${num(c.count)} samples, ${((c.count / Math.max(1, this.root.count)) * 100).toFixed(1)} %${c.file ? ` · ${c.file}${c.line ? ":" + c.line : ""}` : ""}`));
  }

  private draw(): void {
    const width = Math.max(1, this.box.clientWidth);
    this.shown = this.root.count > 0 ? boxes(this.top ?? this.root, 0.5 / width) : [];
    const depth = this.shown.reduce((a, b) => Math.max(a, b.depth + 1), 1);
    this.box.style.height = `${depth * HIGH}px`;
    const { g, w, h: height } = fit(this.canvas);
    g.clearRect(0, 0, w, height);
    g.font = "11px " + FONT;
    g.textBaseline = "middle";
    const back = css("--surface");
    for (const b of this.shown) {
      const x = b.from * w;
      const bw = b.to * w - x;
      let v = 0;
      for (let i = 0; i < b.call.name.length; i++) v = (v * 31 + b.call.name.charCodeAt(i)) >>> 0;
      g.fillStyle = `hsl(${200 + (v % 60)} 46% ${this.app.dark ? 38 + (v % 7) : 72 + (v % 9)}%)`;
      g.fillRect(x, b.depth * HIGH, bw, HIGH - 1);
      g.fillStyle = back;
      g.fillRect(x + bw - 1, b.depth * HIGH, 1, HIGH);
      const chars = Math.floor((bw - 8) / 6);
      if (chars < 3) continue;
      g.fillStyle = this.app.dark ? "#fff" : "#10202f";
      g.fillText(b.call.name.length > chars ? b.call.name.slice(0, chars - 1) + "…" : b.call.name, x + 4, b.depth * HIGH + HIGH / 2);
    }
  }

  async refresh(): Promise<void> {
    // A profile is large and changes slowly.
    if (performance.now() - this.asked < 5000) return;
    this.asked = performance.now();
    const [name = "", value = ""] = this.worker.split(" ");
    const params: Record<string, string> = name === "" ? {} : { [name]: value };
    try {
      const got = await this.app.source.json<Call>("profile.json", params);
      this.root = { ...got, name: got.name || "all samples", count: got.count ?? 0 };
      text(this.note, this.root.count > 0 ? `${num(this.root.count)} samples` : "No samples yet.");
      this.table.update(this.root.count > 0 ? functions(this.root).filter((f) => f.name !== this.root.name) : []);
      this.zoom(null);
    } catch (err) {
      text(this.note, err instanceof Error ? err.message : String(err));
    }
  }

  theme(): void {
    this.draw();
  }

  close(): void {
    this.sizes.disconnect();
  }
}

export const profilePage: Page = { id: "profile", title: "Profile", open: (root, app) => new Profile(app, root) };
