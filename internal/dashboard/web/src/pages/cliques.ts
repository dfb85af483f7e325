// The page of cliques: communicators of workers, their collectives and the slowest rank.

import type { Clique, Collective } from "../api.ts";
import type { App, Page, View } from "../app.ts";
import { h, replace, text } from "../dom.ts";
import { bytes, num, rate, seconds } from "../format.ts";
import { card, DataTable } from "../table.ts";

class CliqueCard {
  readonly el: HTMLElement;
  private readonly state = h("p", { cls: "muted" });
  private readonly ops: DataTable<Collective>;
  private readonly ranks: DataTable<Clique["ranks"][number]>;
  private clique: Clique;

  constructor(app: App, c: Clique) {
    this.clique = c;
    const slowest = (o: Collective): string => {
      const s = o.slowest;
      if (!s) return "";
      const r = this.clique.ranks.find((v) => v.rank === s.rank);
      return `rank ${s.rank}${r ? ", " + app.workerName(r.worker) : ""}: ${seconds(s.seconds)}`;
    };
    this.ops = new DataTable<Collective>({
      caption: "Collectives",
      key: (o) => o.op,
      empty: "No collectives yet.",
      columns: [
        { title: "Operation", value: (o) => o.op },
        { title: "Count", value: (o) => o.count, cell: (td, o) => text(td, num(o.count)), number: true },
        { title: "Bytes", value: (o) => o.bytes, cell: (td, o) => text(td, bytes(o.bytes)), number: true },
        { title: "Time", value: (o) => o.seconds, cell: (td, o) => text(td, seconds(o.seconds)), number: true },
        { title: "Rate", value: (o) => o.bytes / o.seconds, cell: (td, o) => text(td, o.seconds > 0 ? rate(o.bytes / o.seconds) : ""), number: true },
        { title: "Slowest rank", value: (o) => o.slowest?.seconds ?? 0, cell: (td, o) => text(td, slowest(o)) },
      ],
    });
    this.ranks = new DataTable<Clique["ranks"][number]>({
      caption: "Ranks",
      key: (r) => String(r.rank),
      columns: [
        { title: "Rank", value: (r) => r.rank, number: true },
        { title: "Worker", value: (r) => app.workerName(r.worker) },
        { title: "Host", value: (r) => r.host },
        { title: "Slowest in", value: (r) => this.slowIn(r.rank), cell: (td, r) => {
          text(td, this.slowIn(r.rank));
          td.classList.toggle("slow", this.slowIn(r.rank) !== "");
        } },
      ],
    });
    this.el = card(c.name || c.id, this.state, this.ops.el, this.ranks.el);
    this.update(c);
  }

  private slowIn(rank: number): string {
    return (this.clique.collectives ?? []).filter((o) => o.slowest?.rank === rank && this.clique.ranks.length > 1).map((o) => o.op).join(", ");
  }

  update(c: Clique): void {
    this.clique = { ...c, ranks: c.ranks ?? [] };
    const end = c.end ? ` at ${new Date(c.end * 1000).toLocaleTimeString()}` : "";
    text(this.state, `${num(this.clique.ranks.length)} ranks, ${c.state || "open"}${end}`);
    this.ops.update(c.collectives ?? []);
    this.ranks.update(this.clique.ranks);
  }
}

class Cliques implements View {
  private readonly box = h("div", { cls: "cards" });
  private cards = new Map<string, CliqueCard>();

  constructor(private readonly app: App, root: HTMLElement) {
    root.append(h("h1", {}, "Cliques"), this.box);
  }

  async refresh(): Promise<void> {
    const list = (await this.app.source.json<{ cliques: Clique[] | null }>("cliques.json")).cliques ?? [];
    const ids = new Set(list.map((c) => c.id));
    for (const id of this.cards.keys()) if (!ids.has(id)) this.cards.delete(id);
    let fresh = this.cards.size !== this.box.querySelectorAll(".card").length || list.length === 0;
    for (const c of list.slice(0, 100)) {
      const known = this.cards.get(c.id);
      if (known) known.update(c);
      else {
        this.cards.set(c.id, new CliqueCard(this.app, c));
        fresh = true;
      }
    }
    const order = list.flatMap((c) => this.cards.get(c.id)?.el ?? []);
    if (!fresh && order.every((el, i) => this.box.children[i] === el)) return;
    if (list.length === 0) replace(this.box, h("p", { cls: "muted" }, "No cliques have reported."));
    else replace(this.box, ...order);
  }

  reset(): void {
    this.cards.clear();
    this.box.replaceChildren();
  }
}

export const cliquesPage: Page = { id: "cliques", title: "Cliques", open: (root, app) => new Cliques(app, root) };
