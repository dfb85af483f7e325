// Pointer, wheel and keyboard of the task stream.

import { AXIS } from "./draw.ts";
import type { Model } from "./model.ts";

export interface Handlers {
  changed(): void; // the window moved
  hover(x: number, y: number): void;
  leave(): void;
  select(x0: number, y0: number, x1: number, y1: number, done: boolean): void;
  click(x: number, y: number): void;
  clear(): void;
  help(): void;
  follow(): void;
}

/** listen connects a canvas with a model. */
export function listen(canvas: HTMLCanvasElement, m: Model, gutter: () => number, on: Handlers): void {
  const pointers = new Map<number, { x: number; y: number }>();
  let selecting: { x: number; y: number } | null = null;
  let moved = 0;
  const plot = (e: MouseEvent): { x: number; y: number } => ({ x: e.offsetX - gutter(), y: e.offsetY - AXIS });

  canvas.addEventListener("wheel", (e) => {
    e.preventDefault();
    const { x, y } = plot(e);
    const scale = e.deltaMode === 1 ? 16 : e.deltaMode === 2 ? 200 : 1;
    if (e.altKey) m.zoomRows(Math.exp(-e.deltaY * scale * 0.002), y);
    else if (e.shiftKey || (Math.abs(e.deltaX) > Math.abs(e.deltaY) && !e.ctrlKey)) {
      m.follow = false;
      m.pan((e.deltaX || e.deltaY) * scale, 0);
    } else if (x < 0) m.scroll(e.deltaY * scale);
    else {
      m.zoom(Math.exp(e.deltaY * scale * (e.ctrlKey ? 0.01 : 0.002)), x);
      if (m.t1 < m.last) m.follow = false;
    }
    on.changed();
  }, { passive: false });

  canvas.addEventListener("pointerdown", (e) => {
    if (e.button !== 0) return;
    canvas.focus({ preventScroll: true });
    canvas.setPointerCapture(e.pointerId);
    pointers.set(e.pointerId, { x: e.offsetX, y: e.offsetY });
    moved = 0;
    if (e.shiftKey) on.leave();
    selecting = e.shiftKey && pointers.size === 1 ? plot(e) : null;
  });

  canvas.addEventListener("pointermove", (e) => {
    const from = pointers.get(e.pointerId);
    if (!from) {
      const p = plot(e);
      if (p.x >= 0 && p.y >= 0) on.hover(p.x, p.y);
      else on.leave();
      return;
    }
    const to = { x: e.offsetX, y: e.offsetY };
    moved += Math.abs(to.x - from.x) + Math.abs(to.y - from.y);
    if (selecting) {
      const p = plot(e);
      on.select(selecting.x, selecting.y, p.x, p.y, false);
    } else if (pointers.size === 2) {
      const other = [...pointers.entries()].find(([id]) => id !== e.pointerId)![1];
      const before = Math.max(20, Math.abs(from.x - other.x));
      const after = Math.max(20, Math.abs(to.x - other.x));
      m.follow = false;
      m.zoom(before / after, (to.x + other.x) / 2 - gutter());
      m.pan(-(to.x - from.x) / 2, -(to.y - from.y) / 2);
      on.changed();
    } else if (moved > 3) {
      m.follow = false;
      m.pan(from.x - to.x, from.y - to.y);
      on.leave();
      on.changed();
    }
    pointers.set(e.pointerId, to);
  });

  const end = (e: PointerEvent): void => {
    if (!pointers.delete(e.pointerId)) return;
    const p = plot(e);
    if (selecting && moved > 3) on.select(selecting.x, selecting.y, p.x, p.y, true);
    else if (moved <= 3 && e.type === "pointerup") on.click(p.x, p.y);
    selecting = null;
  };
  canvas.addEventListener("pointerup", end);
  canvas.addEventListener("pointercancel", end);
  canvas.addEventListener("pointerleave", () => on.leave());

  canvas.addEventListener("keydown", (e) => {
    if (e.ctrlKey || e.metaKey || e.altKey) return;
    const step = e.shiftKey ? 0.5 : 0.1;
    switch (e.key) {
      case "ArrowLeft":
        m.follow = false;
        m.pan(-m.width * step, 0);
        break;
      case "ArrowRight":
        m.follow = false;
        m.pan(m.width * step, 0);
        break;
      case "ArrowUp":
        m.scroll(-m.height * step);
        break;
      case "ArrowDown":
        m.scroll(m.height * step);
        break;
      case "+":
      case "=":
        m.zoom(0.7, m.width / 2);
        break;
      case "-":
      case "_":
        m.zoom(1 / 0.7, m.width / 2);
        break;
      case "0":
        m.follow = false;
        m.all();
        break;
      case "[":
        m.zoomRows(1 / 1.3, m.height / 2);
        break;
      case "]":
        m.zoomRows(1.3, m.height / 2);
        break;
      case "f":
        on.follow();
        break;
      case "?":
        on.help();
        break;
      case "Escape":
        on.clear();
        break;
      default:
        return;
    }
    e.preventDefault();
    on.changed();
  });
}
