// The page of the graph: tasks, or groups of them, and what depends on what.

import type { Graph, GraphNode } from "../api.ts";
import type { App, Page, View } from "../app.ts";
import { stateColor } from "../color.ts";
import { h, replace, svg, text } from "../dom.ts";
import { num } from "../format.ts";
import { layered } from "../layers.ts";
import { DataTable, legend } from "../table.ts";

const states = ["waiting", "queued", "processing", "memory", "erred", "released"];

const tasks = (n: GraphNode): number => n.tasks ?? 1;
const counts = (n: GraphNode): Record<string, number> => n.counts ?? { [n.state ?? "waiting"]: tasks(n) };
const describe = (n: GraphNode): string => states.filter((s) => counts(n)[s]).map((s) => `${s} ${num(counts(n)[s]!)}`).join(", ") || (n.state ?? "");

class GraphView implements View {
  private readonly info = h("span", { cls: "muted", "aria-live": "polite" });
  private readonly legend = h("div");
  private readonly box = h("div", { cls: "graph", tabindex: 0, role: "region", "aria-label": "Graph" });
  private readonly table: DataTable<GraphNode & { i: number }>;
  private shown = "";
  private data: Graph = { grouped: false, nodes: [], edges: [] };

  constructor(private readonly app: App, root: HTMLElement) {
    this.table = new DataTable<GraphNode & { i: number }>({
      caption: "Nodes of the graph",
      key: (n) => String(n.i),
      limit: 500,
      empty: "The scheduler has no tasks.",
      columns: [
        { title: "Name", value: (n) => n.label || n.id, cls: "wrap" },
        { title: "Tasks", value: tasks, cell: (td, n) => text(td, num(tasks(n))), number: true },
        { title: "States", value: describe },
        { title: "Depends on", value: (n) => this.data.edges.filter((e) => e[1] === n.i).length, number: true },
        { title: "Needed by", value: (n) => this.data.edges.filter((e) => e[0] === n.i).length, number: true },
      ],
    });
    root.append(h("div", { cls: "bar-tools" }, h("h1", {}, "Graph"), this.info), this.legend, h("section", { cls: "card" }, this.box), this.table.el);
    this.theme();
  }

  private draw(): void {
    const { nodes, edges } = this.data;
    if (nodes.length === 0) return replace(this.box, h("p", { cls: "muted" }, "The scheduler has no tasks."));
    const p = layered(nodes.length, edges);
    const large = Math.max(...p.layers.map((l) => l.length));
    const few = nodes.length <= 80;
    const w = few ? 150 : 96;
    const high = few ? 34 : 20;
    const dx = w + (few ? 60 : 40);
    const dy = high + (few ? 12 : 6);
    const x = (i: number): number => p.layer[i]! * dx + 8;
    const y = (i: number): number => (p.order[i]! + (large - 1) / 2) * dy + 8;
    const width = p.layers.length * dx - (dx - w) + 16;
    const height = large * dy + 10;
    const root = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${nodes.length} nodes and ${edges.length} edges in ${p.layers.length} layers; the table below lists them` });
    for (const [a, b, n] of edges) {
      if (!nodes[a] || !nodes[b]) continue;
      const x0 = x(a) + w;
      const y0 = y(a) + high / 2;
      const x1 = x(b);
      const y1 = y(b) + high / 2;
      const mid = Math.max(20, (x1 - x0) / 2);
      root.append(svg("path", { d: `M${x0} ${y0}C${x0 + mid} ${y0} ${x1 - mid} ${y1} ${x1} ${y1}`, "stroke-width": Math.min(4, 1 + Math.log10(Math.max(1, n ?? 1))).toFixed(1) }));
    }
    nodes.forEach((node, i) => root.append(this.node(node, x(i), y(i), w, high)));
    replace(this.box, root);
  }

  private node(n: GraphNode, x: number, y: number, w: number, high: number): SVGElement {
    const label = n.label || n.id;
    const g = svg("g", { transform: `translate(${x},${y.toFixed(1)})` }, svg("title", {}, `${label}: ${describe(n)}`),
      svg("rect", { cls: "box", width: w, height: high, rx: 5 }));
    const all = Math.max(1, Object.values(counts(n)).reduce((a, v) => a + v, 0));
    let at = 0;
    for (const s of Object.keys(counts(n))) {
      const share = (counts(n)[s]! / all) * w;
      g.append(svg("rect", { x: at, y: high - 5, width: Math.max(0, share), height: 5, fill: stateColor(s, this.app.dark) }));
      at += share;
    }
    const chars = Math.floor((w - 12) / 6);
    g.append(svg("text", { x: 7, y: high > 24 ? 14 : 12 }, label.length > chars ? label.slice(0, chars - 1) + "…" : label));
    if (high > 24) g.append(svg("text", { x: 7, y: 26, cls: "count" }, this.data.grouped ? `${num(tasks(n))} tasks` : (n.state ?? "")));
    return g;
  }

  async refresh(): Promise<void> {
    const d = await this.app.source.json<Graph>("graph.json");
    this.data = { grouped: d.grouped, nodes: d.nodes ?? [], edges: d.edges ?? [] };
    const now = JSON.stringify(this.data);
    if (now === this.shown) return;
    this.shown = now;
    text(this.info, `${num(this.data.nodes.length)} ${this.data.grouped ? "groups" : "tasks"}, ${num(this.data.edges.length)} edges`);
    this.table.update(this.data.nodes.map((n, i) => ({ ...n, i })));
    this.draw();
  }

  theme(): void {
    this.legend.replaceChildren(legend(states.map((s) => [s, stateColor(s, this.app.dark)])));
    if (this.shown !== "") this.draw();
  }

  reset(): void {
    this.shown = "";
  }
}

export const graphPage: Page = { id: "graph", title: "Graph", open: (root, app) => new GraphView(app, root) };
