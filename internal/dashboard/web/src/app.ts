// State that all pages share, and what a page is.

import type { Meta, Row, Tick } from "./api.ts";
import { Palette } from "./color.ts";
import type { Source } from "./source.ts";

/** View is a page that is shown. */
export interface View {
  /** refresh fetches again what the page shows; it is called at most once a second. */
  refresh?(): Promise<void> | void;
  /** reset is called when another scheduler answers: all that was fetched is void. */
  reset?(): void;
  /** theme is called after a change between dark and light. */
  theme?(): void;
  close?(): void;
}

/** Page makes views. */
export interface Page {
  readonly id: string;
  readonly title: string;
  readonly wide?: boolean; // fills the window
  open(root: HTMLElement, app: App, params: URLSearchParams): View;
}

/** App has what the pages share. */
export class App {
  meta: Meta | null = null;
  tick: Tick | null = null;
  tickAt = 0; // performance.now() of the last tick
  rows: Row[] = [];
  names: string[] = [];
  workerNames = new Map<string, string>();
  readonly palette = new Palette();
  dark = false;

  constructor(readonly source: Source) {}

  /** load fetches the description of the history and its rows. */
  async load(): Promise<void> {
    const [meta, rows] = await Promise.all([this.source.meta(), this.source.rows()]);
    this.meta = meta;
    this.setRows(rows.rows ?? [], rows.names ?? []);
  }

  private setRows(rows: Row[], names: string[]): void {
    this.rows = rows;
    this.names = names;
    this.workerNames = new Map(rows.map((r) => [r.worker, r.name]));
    this.palette.set(names, this.dark);
  }

  setDark(dark: boolean): void {
    this.dark = dark;
    this.palette.set(this.names, dark);
  }

  /** unix returns the Unix time in microseconds of a time of the history. */
  unix(t: number): number {
    return (this.meta?.origin ?? 0) + t;
  }

  /** now returns the current time of the history: that of the last tick and what has passed since. */
  now(): number {
    if (!this.tick) return this.meta?.last ?? 0;
    return this.tick.now + Math.min(5e6, (performance.now() - this.tickAt) * 1000);
  }

  /** last returns the time of the last span. */
  last(): number {
    return Math.max(this.meta?.last ?? 0, this.tick?.last ?? 0);
  }

  /** workerName returns the name of a worker, or its address without protocol. */
  workerName(address: string): string {
    const name = this.workerNames.get(address);
    return name && name !== address ? name : address.replace(/^[a-z+]+:\/\//, "");
  }
}
