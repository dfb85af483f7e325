// Logs and call stacks of a worker.

import type { App } from "../app.ts";
import { h, type Child } from "../dom.ts";
import { clock } from "../format.ts";

interface LogLine {
  time?: number;
  level?: string;
  text?: string;
  message?: string;
}

/** logLines returns elements for the lines of a log, latest last. */
export function logLines(app: App, data: unknown): Child[] {
  const lines = (Array.isArray(data) ? data : (data as { lines?: unknown[] } | null)?.lines ?? []) as (string | LogLine)[];
  if (lines.length === 0) return [h("p", { cls: "muted" }, "No lines.")];
  return [h("ol", { cls: "log" }, ...lines.map((l) => {
    if (typeof l === "string") return h("li", {}, l);
    return h("li", { cls: "level-" + (l.level ?? "info").toLowerCase() },
      l.time !== undefined ? h("time", {}, clock(app.unix(l.time), 3)) : null,
      l.level ? h("b", {}, l.level) : null, h("span", {}, l.text ?? l.message ?? ""));
  }))];
}

interface Stack {
  key: string;
  frames: string[];
}

/** stackLines returns elements for call stacks by key. */
export function stackLines(data: unknown): Child[] {
  const d = (data ?? {}) as { stacks?: Stack[] | Record<string, string[]> };
  const list = Array.isArray(d.stacks) ? d.stacks
    : Object.entries((d.stacks ?? d) as Record<string, string[]>).map(([key, frames]) => ({ key, frames }));
  if (list.length === 0) return [h("p", { cls: "muted" }, "No task is running.")];
  return list.flatMap((s) => [h("h3", {}, s.key), h("pre", {}, (Array.isArray(s.frames) ? s.frames : [String(s.frames)]).join("\n"))]);
}
