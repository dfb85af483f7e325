// The pages of failures and of the story of a key.

import type { Failure, Story } from "../api.ts";
import type { App, Page, View } from "../app.ts";
import { stateColor } from "../color.ts";
import { h, replace, text } from "../dom.ts";
import { clock, duration } from "../format.ts";
import { DataTable } from "../table.ts";

/** search returns the form that opens the story of a key. */
function search(key: string): HTMLElement {
  const input = h("input", { id: "key", name: "key", value: key, placeholder: "Key of a task", autocomplete: "off", spellcheck: "false", "aria-label": "Key of a task" });
  return h("form", {
    cls: "search", role: "search",
    onsubmit: (e) => {
      e.preventDefault();
      if (input.value.trim() !== "") location.hash = "#/story?key=" + encodeURIComponent(input.value.trim());
    },
  }, input, h("button", { type: "submit" }, "Story"));
}

const storyLink = (td: HTMLElement, key: string): void => {
  if (td.textContent === key) return;
  replace(td, key ? h("a", { href: "#/story?key=" + encodeURIComponent(key) }, key) : "");
};

class Failures implements View {
  private readonly table: DataTable<Failure & { i: number }>;

  constructor(private readonly app: App, root: HTMLElement) {
    this.table = new DataTable<Failure & { i: number }>({
      caption: "Failures",
      key: (f) => `${f.time} ${f.i}`,
      sort: 0,
      descending: true,
      limit: 500,
      empty: "Nothing has failed.",
      columns: [
        { title: "Time", value: (f) => f.time, cell: (td, f) => text(td, clock(app.unix(f.time), 3)), cls: "mono" },
        { title: "Kind", value: (f) => f.kind },
        { title: "Worker", value: (f) => f.worker, cell: (td, f) => text(td, f.worker ? app.workerName(f.worker) : "") },
        { title: "Key", value: (f) => f.key, cell: (td, f) => storyLink(td, f.key ?? ""), cls: "wrap" },
        { title: "Cause", value: (f) => f.cause, cls: "wrap" },
        { title: "Text", value: (f) => f.text, cls: "wrap lines" },
      ],
    });
    root.append(h("h1", {}, "Failures"), search(""), this.table.el);
  }

  async refresh(): Promise<void> {
    const list = (await this.app.source.json<{ failures: Failure[] | null }>("failures.json")).failures ?? [];
    this.table.update(list.map((f, i) => ({ ...f, i })));
  }

  reset(): void {
    this.table.update([]);
  }
}

type Step = Story["events"][number] & { i: number; after: number };

class StoryView implements View {
  private readonly table: DataTable<Step>;
  private readonly note = h("p", { cls: "muted", role: "status" });

  constructor(private readonly app: App, root: HTMLElement, private readonly key: string) {
    const state = (td: HTMLElement, s: string): void => {
      if (td.textContent === s) return;
      const dot = h("i", { cls: "dot", "aria-hidden": "true" });
      dot.style.background = stateColor(s, app.dark);
      replace(td, dot, s);
    };
    this.table = new DataTable<Step>({
      caption: "Transitions",
      key: (e) => `${e.i} ${e.time}`,
      empty: key === "" ? "Enter a key." : "No transitions of this key are known.",
      columns: [
        { title: "Time", value: (e) => e.time, cell: (td, e) => text(td, clock(app.unix(e.time), 6)), cls: "mono" },
        { title: "After", value: (e) => e.after, cell: (td, e) => text(td, e.i === 0 ? "" : "+" + duration(e.after)), number: true },
        { title: "From", value: (e) => e.from, cell: (td, e) => state(td, e.from) },
        { title: "To", value: (e) => e.to, cell: (td, e) => state(td, e.to) },
        { title: "Worker", value: (e) => e.worker, cell: (td, e) => text(td, e.worker ? app.workerName(e.worker) : "") },
        { title: "Stimulus", value: (e) => e.stimulus, cls: "wrap" },
      ],
    });
    root.append(h("h1", {}, key === "" ? "Story of a key" : `Story of ${key}`), search(key), this.note, this.table.el);
  }

  async refresh(): Promise<void> {
    if (this.key === "") return;
    try {
      const s = await this.app.source.json<Story>("story.json", { key: this.key });
      const events = s.key === undefined || s.key === this.key ? (s.events ?? []) : [];
      this.table.update(events.map((e, i) => ({ ...e, i, after: i > 0 ? e.time - events[i - 1]!.time : 0 })));
      text(this.note, "");
    } catch (err) {
      text(this.note, err instanceof Error ? err.message : String(err));
    }
  }
}

export const failuresPage: Page = { id: "failures", title: "Failures", open: (root, app) => new Failures(app, root) };
export const storyPage: Page = { id: "story", title: "", open: (root, app, params) => new StoryView(app, root, params.get("key") ?? "") };
