// What part of the history is on the screen.

/** Model is the window of the task stream. Times are in µs, rows in display positions, sizes in CSS pixels. */
export class Model {
  t0 = 0;
  t1 = 1e6;
  top = 0; // display position at the upper edge
  rowHeight = 18;
  width = 1; // of the plot
  height = 1;
  first = 0; // bounds of the history
  last = 1e6; // the present, if the window follows it
  end = 1e6; // of the last span
  rows = 0;
  follow = false;
  fitRows = true; // the height of rows follows the height of the window

  get perPixel(): number {
    return (this.t1 - this.t0) / this.width;
  }

  x(t: number): number {
    return (t - this.t0) / this.perPixel;
  }

  time(x: number): number {
    return this.t0 + x * this.perPixel;
  }

  y(pos: number): number {
    return (pos - this.top) * this.rowHeight;
  }

  position(y: number): number {
    return this.top + y / this.rowHeight;
  }

  /** setWindow shows a range of time, at least 10 µs and at most ten times the history. */
  setWindow(t0: number, t1: number): void {
    const whole = Math.max(1e3, this.last - this.first);
    const least = 10;
    let span = Math.min(Math.max(t1 - t0, least), whole * 4);
    if (!Number.isFinite(span)) span = whole;
    let mid = (t0 + t1) / 2;
    // At least a tenth of the window shows the history.
    mid = Math.min(Math.max(mid, this.first - span * 0.4), this.last + span * 0.4);
    this.t0 = mid - span / 2;
    this.t1 = mid + span / 2;
  }

  /** all shows the whole history. */
  all(): void {
    this.last = Math.max(this.end, this.first + 1e3);
    const span = this.last - this.first;
    this.setWindow(this.first - span * 0.01, this.last + span * 0.02);
  }

  /** zoom changes the scale around a point of the plot. */
  zoom(factor: number, x: number): void {
    const t = this.time(x);
    const span = this.t1 - this.t0;
    const whole = Math.max(1e3, this.last - this.first);
    const f = Math.min(Math.max(factor, 10 / span), (whole * 4) / span);
    this.setWindow(t - (t - this.t0) * f, t + (this.t1 - t) * f);
  }

  pan(dx: number, dy: number): void {
    const dt = dx * this.perPixel;
    this.setWindow(this.t0 + dt, this.t1 + dt);
    this.scroll(dy);
  }

  scroll(dy: number): void {
    this.top = this.clampTop(this.top + dy / this.rowHeight);
  }

  private clampTop(top: number): number {
    return Math.max(0, Math.min(top, this.rows - this.height / this.rowHeight));
  }

  /** zoomRows changes the height of rows around a point of the plot. */
  zoomRows(factor: number, y: number): void {
    const pos = this.position(y);
    const least = Math.min(18, this.height / Math.max(1, this.rows));
    this.rowHeight = Math.min(48, Math.max(least, this.rowHeight * factor));
    this.fitRows = this.rowHeight <= least * 1.001;
    this.top = this.clampTop(pos - y / this.rowHeight);
  }

  /** layout is called after a change of the size of the plot or of the number of rows. */
  resize(width: number, height: number, rows: number): void {
    this.width = Math.max(1, width);
    this.height = Math.max(1, height);
    this.rows = rows;
    if (this.fitRows) this.rowHeight = Math.min(26, this.height / Math.max(1, rows));
    this.top = this.clampTop(this.top);
  }

  /** scrollTo makes some rows visible. */
  scrollTo(from: number, to: number): void {
    const visible = this.height / this.rowHeight;
    if (from >= this.top && to <= this.top + visible) return;
    this.top = this.clampTop((from + to) / 2 - visible / 2);
  }
}
