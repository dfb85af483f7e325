// The page of progress: the states of the tasks of each prefix.

import type { Prefix } from "../api.ts";
import type { App, Page, View } from "../app.ts";
import { stateColor } from "../color.ts";
import { h, text } from "../dom.ts";
import { bytes, num, seconds } from "../format.ts";
import { bar, DataTable, legend } from "../table.ts";

const states = ["memory", "released", "forgotten", "erred", "processing", "queued", "no_worker", "waiting"] as const;

const total = (p: Prefix): number => states.reduce((a, s) => a + (p[s] ?? 0), 0);

class Progress implements View {
  private readonly table: DataTable<Prefix>;
  private readonly legend = h("div");

  constructor(private readonly app: App, root: HTMLElement) {
    const count = (title: string, value: (p: Prefix) => number): { title: string; value(p: Prefix): number; cell(td: HTMLElement, p: Prefix): void; number: true } =>
      ({ title, value, cell: (td, p) => text(td, num(value(p))), number: true });
    this.table = new DataTable<Prefix>({
      caption: "Tasks by prefix",
      key: (p) => p.name,
      empty: "No tasks yet.",
      columns: [
        { title: "Prefix", value: (p) => p.name },
        { title: "States", value: (p) => (total(p) > 0 ? (p.memory + p.released + p.forgotten) / total(p) : 0), cell: (td, p) => this.bar(td, p), cls: "progress" },
        count("Done", (p) => p.memory + p.released + p.forgotten),
        count("Processing", (p) => p.processing),
        count("Waiting", (p) => p.waiting + p.queued + (p.no_worker ?? 0)),
        count("Erred", (p) => p.erred),
        { title: "Time", value: (p) => p.seconds, cell: (td, p) => text(td, seconds(p.seconds)), number: true },
        { title: "In memory", value: (p) => p.bytes, cell: (td, p) => text(td, bytes(p.bytes)), number: true },
      ],
    });
    root.append(h("h1", {}, "Progress"), this.legend, this.table.el);
    this.theme();
  }

  private bar(td: HTMLElement, p: Prefix): void {
    const all = Math.max(1, total(p));
    bar(td, "", states.map((s) => ({ color: stateColor(s, this.app.dark), share: (p[s] ?? 0) / all, title: `${s} ${num(p[s] ?? 0)}` })));
  }

  async refresh(): Promise<void> {
    this.table.update((await this.app.source.json<{ prefixes: Prefix[] | null }>("progress.json")).prefixes ?? []);
  }

  theme(): void {
    this.legend.replaceChildren(legend(states.map((s) => [s, stateColor(s, this.app.dark)])));
    this.table.again();
  }

  reset(): void {
    this.table.update([]);
  }
}

export const progressPage: Page = { id: "progress", title: "Progress", open: (root, app) => new Progress(app, root) };
