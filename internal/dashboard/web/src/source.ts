// Where the pages have their data from: the server, or the data of a report.

import type { Meta, Rows, Spans, Summary, Tick } from "./api.ts";

/** Range of time in microseconds and of row ids, both half open. */
export interface Window {
  start: number;
  stop: number;
  from: number;
  to: number;
}

/** TileKey names a tile: each 2^group rows of [from, to) are one line. */
export interface TileKey {
  level: number;
  index: number;
  from: number;
  to: number;
  group: number;
}

export interface Source {
  readonly report: boolean;
  meta(): Promise<Meta>;
  rows(): Promise<Rows>;
  tile(key: TileKey, signal?: AbortSignal): Promise<Uint8Array>;
  spans(w: Window, limit: number, signal?: AbortSignal): Promise<Spans>;
  summary(w: Window): Promise<Summary>;
  /** json returns the data of a page, such as "workers.json". */
  json<T>(name: string, params?: Record<string, string | number>): Promise<T>;
  /** follow calls back for every tick and change of the connection, for as long as the page is open. */
  follow(on: { tick(t: Tick): void; state(s: ConnectionState): void }): void;
}

export type ConnectionState = "connecting" | "live" | "disconnected" | "denied" | "report";

/** Denied is the error of a request without a valid token. */
export class Denied extends Error {}

const query = (params: Record<string, string | number>): string => {
  const p = new URLSearchParams();
  for (const [k, v] of Object.entries(params)) p.set(k, String(v));
  const s = p.toString();
  return s === "" ? "" : "?" + s;
};

/** fixWindow returns the parameters of a window; the server takes integers. */
export const windowParams = (w: Window): Record<string, number> => ({
  start: Math.floor(w.start),
  stop: Math.ceil(w.stop),
  from: w.from,
  to: w.to,
});

/** LiveSource asks the server that the page came from. */
export class LiveSource implements Source {
  readonly report = false;

  private async get(path: string, signal?: AbortSignal): Promise<Response> {
    const r = await fetch("millstream/" + path, { credentials: "same-origin", ...(signal ? { signal } : {}) });
    if (r.status === 401 || r.status === 403) throw new Denied(await r.text());
    if (!r.ok) throw new Error((await r.text()).trim().slice(0, 300) || `status ${r.status}`);
    return r;
  }

  async json<T>(name: string, params: Record<string, string | number> = {}): Promise<T> {
    return (await (await this.get(name + query(params))).json()) as T;
  }

  meta(): Promise<Meta> {
    return this.json("meta.json");
  }

  rows(): Promise<Rows> {
    return this.json("rows.json");
  }

  async tile(k: TileKey, signal?: AbortSignal): Promise<Uint8Array> {
    const r = await this.get("tile" + query({ ...k }), signal);
    return new Uint8Array(await r.arrayBuffer());
  }

  async spans(w: Window, limit: number, signal?: AbortSignal): Promise<Spans> {
    return (await (await this.get("spans.json" + query({ ...windowParams(w), limit }), signal)).json()) as Spans;
  }

  summary(w: Window): Promise<Summary> {
    return this.json("summary.json", windowParams(w));
  }

  follow(on: { tick(t: Tick): void; state(s: ConnectionState): void }): void {
    let wait = 500;
    const open = (): void => {
      const es = new EventSource("millstream/live");
      let last = performance.now();
      const retry = (): void => {
        clearInterval(watch);
        es.close();
        on.state("disconnected");
        setTimeout(probe, wait);
        wait = Math.min(wait * 1.5, 5000);
      };
      // A connection that died without a word, such as that of a laptop that slept, is opened again.
      const watch = setInterval(() => {
        if (performance.now() - last > 15000) retry();
      }, 5000);
      es.addEventListener("tick", (e) => {
        last = performance.now();
        wait = 500;
        on.state("live");
        on.tick(JSON.parse((e as MessageEvent<string>).data) as Tick);
      });
      es.onerror = retry;
    };
    // EventSource does not report the status, so that a refused token looks like a dead server.
    const probe = (): void => {
      this.meta().then(open, (err) => {
        if (err instanceof Denied) {
          on.state("denied");
          setTimeout(probe, 5000);
          return;
        }
        on.state("disconnected");
        setTimeout(probe, wait);
        wait = Math.min(wait * 1.5, 5000);
      });
    };
    on.state("connecting");
    open();
  }
}
