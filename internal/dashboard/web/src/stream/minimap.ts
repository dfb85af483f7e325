// The whole history below the task stream, with the window as a brush.

import { fit, OPAQUE } from "../dom.ts";
import { BUCKETS } from "../tile.ts";
import { overview, type Scene } from "./draw.ts";
import { tileTime } from "./tiles.ts";

export class Minimap {
  private dragging: number | null = null;

  constructor(private readonly canvas: HTMLCanvasElement, private readonly scene: () => Scene,
    private readonly moved: () => void) {
    canvas.addEventListener("pointerdown", (e) => {
      canvas.setPointerCapture(e.pointerId);
      this.dragging = e.pointerId;
      this.center(e);
    });
    canvas.addEventListener("pointermove", (e) => {
      if (this.dragging === e.pointerId) this.center(e);
    });
    for (const end of ["pointerup", "pointercancel"] as const) canvas.addEventListener(end, () => (this.dragging = null));
  }

  private center(e: PointerEvent): void {
    const { model: m } = this.scene();
    const t = m.first + (e.offsetX / this.canvas.clientWidth) * (m.last - m.first);
    const span = m.t1 - m.t0;
    m.follow = false;
    m.setWindow(t - span / 2, t + span / 2);
    this.moved();
  }

  /** draw reports whether all tiles were there. */
  draw(): boolean {
    const s = this.scene();
    const { model: m, tiles, inks } = s;
    const { g, w, h } = fit(this.canvas, OPAQUE);
    g.fillStyle = inks.back;
    g.fillRect(0, 0, w, h);
    const span = Math.max(1, m.last - m.first);
    const x = (t: number): number => ((t - m.first) / span) * w;
    g.imageSmoothingEnabled = true;
    let whole = true;
    for (const k of overview(s)) {
      const p = tiles.get(k);
      if (!p) {
        whole = false;
        continue;
      }
      const lines = s.layout.order ? s.layout.count : Math.ceil(s.layout.count / 2 ** k.group);
      const time = tileTime(k.level);
      g.drawImage(p, 0, 0, BUCKETS, Math.min(lines, p.height), x(k.index * time), 3, x((k.index + 1) * time) - x(k.index * time), h - 6);
    }
    const x0 = Math.max(0, Math.min(w - 4, x(m.t0)));
    const x1 = Math.min(w, Math.max(x0 + 4, x(m.t1)));
    g.fillStyle = inks.back;
    g.globalAlpha = 0.65;
    g.fillRect(0, 0, x0, h);
    g.fillRect(x1, 0, w - x1, h);
    g.globalAlpha = 1;
    g.strokeStyle = inks.accent;
    g.lineWidth = 2;
    g.strokeRect(x0 + 1, 1, x1 - x0 - 2, h - 2);
    g.lineWidth = 1;
    return whole;
  }
}
