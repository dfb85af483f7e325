// A layered layout of a graph: edges go from left to right, and few of them cross.

export interface Placed {
  layer: number[]; // of each node
  order: number[]; // place of each node in its layer
  layers: number[][]; // nodes of each layer in order
}

/** layered returns the places of n nodes. Edges that close a cycle or name no node are ignored. */
export function layered(n: number, edges: [number, number, ...unknown[]][]): Placed {
  const next: number[][] = Array.from({ length: n }, () => []);
  const before: number[][] = Array.from({ length: n }, () => []);
  const missing = new Array<number>(n).fill(0);
  for (const [a, b] of edges) {
    if (a === b || !(a >= 0 && a < n && b >= 0 && b < n)) continue;
    next[a]!.push(b);
    before[b]!.push(a);
    missing[b]!++;
  }
  const layer = new Array<number>(n).fill(0);
  const queue: number[] = [];
  for (let i = 0; i < n; i++) if (missing[i] === 0) queue.push(i);
  for (let q = 0; q < queue.length; q++) {
    const a = queue[q]!;
    for (const b of next[a]!) {
      layer[b] = Math.max(layer[b]!, layer[a]! + 1);
      if (--missing[b]! === 0) queue.push(b);
    }
  }
  const layers: number[][] = [];
  for (let i = 0; i < n; i++) (layers[layer[i]!] ??= []).push(i);
  for (let l = 0; l < layers.length; l++) layers[l] ??= [];
  const order = new Array<number>(n).fill(0);
  const place = (): void => layers.forEach((nodes) => nodes.forEach((v, i) => (order[v] = i - (nodes.length - 1) / 2)));
  place();
  const mean = (list: number[], own: number): number => (list.length === 0 ? own : list.reduce((a, v) => a + order[v]!, 0) / list.length);
  for (let sweep = 0; sweep < 6; sweep++) {
    const down = sweep % 2 === 0;
    const by = down ? before : next;
    const turn = down ? layers : layers.slice().reverse();
    for (const nodes of turn) {
      const weight = new Map(nodes.map((v) => [v, mean(by[v]!, order[v]!)]));
      nodes.sort((a, b) => weight.get(a)! - weight.get(b)! || order[a]! - order[b]!);
      nodes.forEach((v, i) => (order[v] = i - (nodes.length - 1) / 2));
    }
  }
  return { layer, order, layers };
}
