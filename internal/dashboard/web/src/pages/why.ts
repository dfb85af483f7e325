// The page "why is it slow": findings, each with a link to its place in the task stream.

import type { Finding } from "../api.ts";
import type { App, Page, View } from "../app.ts";
import { h, replace } from "../dom.ts";
import { duration } from "../format.ts";

/** place returns the link to the place of a finding in the task stream, "" if it has none. */
export function place(f: Finding): string {
  if (f.start === undefined || f.stop === undefined || !(f.stop > f.start)) return "";
  const p = new URLSearchParams({ start: String(f.start), stop: String(f.stop) });
  if (f.rows && f.rows.length > 0) p.set("rows", f.rows.slice(0, 200).join(","));
  return "#/stream?" + p.toString();
}

class Why implements View {
  private readonly box = h("div", { cls: "cards" });
  private shown = "";

  constructor(private readonly app: App, root: HTMLElement) {
    root.append(h("h1", {}, "Why is it slow"), this.box);
  }

  async refresh(): Promise<void> {
    const list = (await this.app.source.json<{ findings: Finding[] | null }>("why.json")).findings ?? [];
    const now = JSON.stringify(list);
    if (now === this.shown) return; // keeps the focus
    this.shown = now;
    if (list.length === 0) return replace(this.box, h("p", { cls: "muted" }, "Nothing to report: too little has run."));
    replace(this.box, ...list.map((f) => {
      const link = place(f);
      return h("section", { cls: "card" }, h("span", { cls: "kind" }, f.kind.replace(/-/g, " ")), h("h2", {}, f.title), h("p", {}, f.text),
        link ? h("a", { href: link, "aria-label": `Show in the stream: ${f.title}` }, `Show ${duration(f.stop! - f.start!)} in the stream`) : null);
    }));
  }

  reset(): void {
    this.shown = "";
  }
}

export const whyPage: Page = { id: "why", title: "Why slow", open: (root, app) => new Why(app, root) };
