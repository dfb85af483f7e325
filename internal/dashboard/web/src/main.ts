// The entry: header, navigation, theme, and the connection to the data.

import { App, type Page, type View } from "./app.ts";
import { h, replace, text } from "./dom.ts";
import { bytes, num, rate, short } from "./format.ts";
import { pages } from "./pages.ts";
import { embedded, ReportSource } from "./report.ts";
import { Denied, LiveSource, type ConnectionState, type Source } from "./source.ts";

const stateTexts: Record<ConnectionState, string> = {
  connecting: "connecting",
  live: "live",
  disconnected: "disconnected, retrying",
  denied: "not authorized",
  report: "report",
};

/** Shell is the frame around the pages. */
class Shell {
  private view: View | null = null;
  private page: Page | null = null;
  private readonly main = h("main", { id: "main", tabindex: 0 });
  private readonly status = h("span", { cls: "state", role: "status" }, h("i", { "aria-hidden": "true" }), h("span"));
  private readonly counts = h("dl", { cls: "counts", tabindex: 0, "aria-label": "Counts" });
  private readonly nav = h("nav", { "aria-label": "Pages" });
  private readonly where = h("span", { cls: "where" });
  private readonly themeButton = h("button", { type: "button", cls: "theme", onclick: () => this.switchTheme() });
  private busy = false;
  private again = false;
  private lastRefresh = -1e9;
  private loaded = false;
  private loading = false;

  constructor(private readonly app: App) {
    for (const p of pages) {
      if (p.title !== "") this.nav.append(h("a", { href: "#/" + p.id }, p.title));
    }
    document.body.append(
      h("a", { cls: "skip", href: "#main", onclick: (e) => this.skip(e) }, "Skip to content"),
      h("header", {},
        h("div", { cls: "top" },
          h("span", { cls: "brand" }, "Millstream"), this.where, this.status, this.counts),
        h("div", { cls: "tabs" }, this.nav, this.themeButton)),
      this.main);
    const dark = matchMedia("(prefers-color-scheme: dark)");
    this.applyTheme(this.stored() ?? dark.matches);
    dark.addEventListener("change", () => this.applyTheme(this.stored() ?? dark.matches));
    addEventListener("hashchange", () => this.route());
  }

  private skip(e: Event): void {
    e.preventDefault();
    this.main.focus();
  }

  private stored(): boolean | null {
    try {
      const t = localStorage.getItem("millstream-theme");
      return t === null ? null : t === "dark";
    } catch {
      return null; // not allowed for files
    }
  }

  private switchTheme(): void {
    this.applyTheme(!this.app.dark);
    try {
      localStorage.setItem("millstream-theme", this.app.dark ? "dark" : "light");
    } catch {
      // the choice lasts as long as the page
    }
  }

  private applyTheme(dark: boolean): void {
    document.documentElement.dataset["theme"] = dark ? "dark" : "light";
    text(this.themeButton, dark ? "Light" : "Dark");
    this.themeButton.setAttribute("aria-label", dark ? "Use light colors" : "Use dark colors");
    this.app.setDark(dark);
    this.view?.theme?.();
  }

  /** start loads the history, then follows it. */
  start(): void {
    void this.load();
    this.app.source.follow({
      state: (s) => this.setState(s),
      tick: (t) => {
        const { app } = this;
        const other = app.tick !== null && app.tick.id !== t.id || app.meta !== null && app.meta.id !== t.id;
        app.tick = t;
        app.tickAt = performance.now();
        this.showCounts();
        if (!this.loaded) void this.load(); // it was refused or not there at first
        else if (other) void this.restart();
        else if (t.rows !== app.rows.length || t.names !== app.names.length) void this.reloadRows();
        void this.refresh();
      },
    });
  }

  private async load(): Promise<void> {
    if (this.loading) return;
    this.loading = true;
    try {
      await this.app.load();
      this.loaded = true;
      this.showCounts();
      this.route();
    } catch (err) {
      if (err instanceof Denied) this.setState("denied");
      else {
        this.setState("disconnected");
        setTimeout(() => void this.load(), 1000);
      }
    } finally {
      this.loading = false;
    }
  }

  // The scheduler was restarted: rows, names and tiles are those of another history.
  private async restart(): Promise<void> {
    if (this.loading) return;
    this.loading = true;
    try {
      await this.app.load();
      this.view?.reset?.();
      this.lastRefresh = -1e9;
      await this.refresh();
    } catch {
      this.loaded = false; // the next tick loads everything
    } finally {
      this.loading = false;
    }
  }

  private rowsBusy = false;
  private async reloadRows(): Promise<void> {
    if (this.rowsBusy) return;
    this.rowsBusy = true;
    try {
      await this.app.load();
    } catch {
      // the next tick tries again
    }
    this.rowsBusy = false;
  }

  private async refresh(): Promise<void> {
    if (!this.loaded || document.hidden || !this.view?.refresh) return;
    if (this.busy) {
      this.again = true;
      return;
    }
    const wait = this.lastRefresh + 950 - performance.now();
    if (wait > 0) return;
    this.busy = true;
    this.lastRefresh = performance.now();
    try {
      await this.view.refresh();
    } catch (err) {
      if (err instanceof Denied) this.setState("denied");
    }
    this.busy = false;
    if (this.again) {
      this.again = false;
      void this.refresh();
    }
  }

  private setState(s: ConnectionState): void {
    this.status.dataset["state"] = s;
    text(this.status.lastElementChild!, stateTexts[s]);
    if (s === "denied" && !this.loaded) {
      replace(this.main, h("div", { cls: "page" }, h("h1", {}, "Not authorized"),
        h("p", {}, "Open the link that the scheduler printed when it started: it contains the token of this dashboard.")));
    }
  }

  private showCounts(): void {
    const { tick: t, meta } = this.app;
    text(this.where, meta?.scheduler ?? "");
    const items: [string, string, string][] = [];
    if (t) {
      const n = (s: string): number => t.tasks?.[s] ?? 0;
      const done = n("memory") + n("released") + n("forgotten");
      items.push(["workers", num(t.workers), ""]);
      items.push(["processing", num(n("processing")), ""], ["waiting", num(n("waiting") + n("queued")), ""]);
      if (done > 0) items.push(["in memory", num(n("memory")), ""]);
      if (n("erred") > 0) items.push(["erred", num(n("erred")), "bad"]);
      items.push(["tasks/s", short(t.rate), ""], ["memory", bytes(t.memory), ""]);
      const moved = Object.values(t.bytes_rate ?? {}).reduce((a, b) => a + b, 0);
      if (moved > 0) items.push(["transfers", rate(moved), ""]);
      if (t.failures > 0) items.push(["failures", num(t.failures), "bad"]);
    } else if (meta) {
      items.push(["spans", num(meta.spans), ""]);
    }
    while (this.counts.children.length > items.length) this.counts.lastElementChild!.remove();
    while (this.counts.children.length < items.length) this.counts.append(h("div", {}, h("dt"), h("dd")));
    items.forEach(([k, v, cls], i) => {
      const div = this.counts.children[i]!;
      div.className = cls;
      text(div.firstElementChild!, k);
      text(div.lastElementChild!, v);
    });
  }

  private route(): void {
    if (!this.loaded) return;
    const [path = "", query = ""] = location.hash.replace(/^#\/?/, "").split("?", 2);
    const page = pages.find((p) => p.id === path) ?? pages[0]!;
    this.view?.close?.();
    this.page = page;
    for (const a of this.nav.querySelectorAll("a")) {
      if (a.getAttribute("href") === "#/" + page.id) {
        a.setAttribute("aria-current", "page");
        a.scrollIntoView({ block: "nearest", inline: "nearest" });
      } else a.removeAttribute("aria-current");
    }
    document.title = `${page.title || "Story"} · Millstream`;
    const root = h("div", { cls: page.wide ? "page wide" : "page" });
    replace(this.main, root);
    document.body.dataset["page"] = this.page.id;
    this.view = page.open(root, this.app, new URLSearchParams(query));
    this.lastRefresh = -1e9;
    void this.refresh();
  }
}

async function boot(): Promise<void> {
  let source: Source;
  const data = document.getElementById("data");
  if (data) source = new ReportSource(await embedded(data.textContent ?? ""));
  else source = new LiveSource();
  new Shell(new App(source)).start();
}

void boot();
