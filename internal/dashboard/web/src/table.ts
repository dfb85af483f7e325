// A table that can be sorted and updated in place, so that focus and selection survive.

import { h, replace, text, type Child } from "./dom.ts";

export interface Column<T> {
  title: string;
  /** value is what rows are sorted by. */
  value(row: T): number | string;
  /** cell fills the cell; without it the value is shown. */
  cell?(td: HTMLElement, row: T): void;
  number?: boolean;
  hint?: string;
  cls?: string;
}

export interface Options<T> {
  caption: string;
  key(row: T): string;
  columns: Column<T>[];
  sort?: number; // index of a column
  descending?: boolean;
  empty?: string;
  limit?: number;
}

export class DataTable<T> {
  readonly el: HTMLElement;
  private readonly body = h("tbody");
  private readonly note = h("p", { cls: "note" });
  private readonly heads: HTMLElement[] = [];
  private readonly trs = new Map<string, HTMLTableRowElement>();
  private readonly hidden = new Set<number>(); // indexes of columns
  private rows: T[] = [];
  private sort: number;
  private desc: boolean;

  constructor(private readonly o: Options<T>) {
    this.sort = o.sort ?? -1;
    this.desc = o.descending ?? false;
    const head = h("tr");
    o.columns.forEach((c, i) => {
      const b = h("button", { type: "button", cls: "sort", title: c.hint, onclick: () => this.order(i) }, c.title);
      const th = h("th", { scope: "col", cls: [c.number ? "num" : "", c.cls ?? ""].join(" ").trim() || null }, b);
      this.heads.push(th);
      head.append(th);
    });
    const table = h("table", {}, h("caption", {}, o.caption), h("thead", {}, head), this.body);
    this.el = h("div", { cls: "table" },
      h("div", { cls: "scroll", tabindex: 0, role: "region", "aria-label": o.caption }, table), this.note);
    this.mark();
    this.update([]);
  }

  private order(i: number): void {
    if (this.sort === i) this.desc = !this.desc;
    else {
      this.sort = i;
      this.desc = this.o.columns[i]!.number ?? false;
    }
    this.mark();
    this.update(this.rows);
  }

  private mark(): void {
    this.heads.forEach((th, i) => {
      if (i === this.sort) th.setAttribute("aria-sort", this.desc ? "descending" : "ascending");
      else th.removeAttribute("aria-sort");
    });
  }

  /** show shows or hides a column, from the next update on. */
  show(title: string, visible: boolean): void {
    const i = this.o.columns.findIndex((c) => c.title === title);
    if (visible) this.hidden.delete(i);
    else this.hidden.add(i);
    this.heads[i]!.hidden = !visible;
  }

  /** again fills the cells again, after a change of colors. */
  again(): void {
    this.update(this.rows);
  }

  update(rows: T[]): void {
    this.rows = rows;
    const c = this.o.columns[this.sort];
    let shown = rows;
    if (c) {
      const sign = this.desc ? -1 : 1;
      shown = rows.slice().sort((a, b) => {
        const x = c.value(a);
        const y = c.value(b);
        const d = typeof x === "number" && typeof y === "number" ? x - y
          : String(x).localeCompare(String(y), "en", { numeric: true });
        return sign * d || this.o.key(a).localeCompare(this.o.key(b), "en", { numeric: true });
      });
    }
    const limit = this.o.limit ?? 1000;
    text(this.note, shown.length > limit ? `${limit} of ${shown.length} rows` : "");
    shown = shown.slice(0, limit);
    const seen = new Set<string>();
    let at: Element | null = this.body.firstElementChild;
    for (const row of shown) {
      const key = this.o.key(row);
      if (seen.has(key)) continue;
      seen.add(key);
      let tr = this.trs.get(key);
      if (!tr) {
        tr = h("tr");
        for (const col of this.o.columns) tr.append(h("td", { cls: [col.number ? "num" : "", col.cls ?? ""].join(" ").trim() || null }));
        this.trs.set(key, tr);
      }
      this.o.columns.forEach((col, i) => {
        const td = tr.children[i] as HTMLElement;
        td.hidden = this.hidden.has(i);
        if (col.cell) col.cell(td, row);
        else text(td, String(col.value(row)));
      });
      if (tr === at) at = at.nextElementSibling;
      else this.body.insertBefore(tr, at);
    }
    for (const [key, tr] of this.trs) {
      if (!seen.has(key)) {
        tr.remove();
        this.trs.delete(key);
      }
    }
    const none = this.body.querySelector("tr.empty");
    if (shown.length > 0) none?.remove();
    else if (!none) {
      this.body.append(h("tr", { cls: "empty" }, h("td", { colspan: this.o.columns.length }, this.o.empty ?? "Nothing yet.")));
    }
  }
}

/** Part is a colored part of a bar. */
export interface Part {
  color: string;
  share: number; // 0…1
  title: string;
}

/** bar shows parts of a whole in an element, with a text next to it. */
export function bar(td: HTMLElement, label: string, parts: Part[]): void {
  let box = td.querySelector<HTMLElement>(".bar");
  if (!box) {
    replace(td, h("span", { cls: "barlabel" }), h("span", { cls: "bar", "aria-hidden": "true" }));
    box = td.querySelector<HTMLElement>(".bar")!;
  }
  text(td.querySelector(".barlabel")!, label);
  while (box.children.length > parts.length) box.lastElementChild!.remove();
  while (box.children.length < parts.length) box.append(h("i"));
  parts.forEach((p, i) => {
    const el = box.children[i] as HTMLElement;
    const share = Number.isFinite(p.share) ? Math.max(0, Math.min(1, p.share)) : 0;
    el.style.width = (share * 100).toFixed(2) + "%";
    el.style.background = p.color;
    el.title = p.title;
  });
}

/** legend returns the meaning of colors. */
export function legend(items: [string, string][]): HTMLElement {
  return h("ul", { cls: "legend" }, ...items.map(([name, color]) => {
    const dot = h("i", { "aria-hidden": "true" });
    dot.style.background = color;
    return h("li", {}, dot, name);
  }));
}

/** card returns a section with a heading. */
export function card(title: string, ...kids: Child[]): HTMLElement {
  return h("section", { cls: "card" }, h("h2", {}, title), ...kids);
}
