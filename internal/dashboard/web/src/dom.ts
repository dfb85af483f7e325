// Small helpers to build elements.

export type Child = Node | string | number | null | undefined | false;
type Props = Record<string, string | number | boolean | EventListener | null | undefined>;

function fill(el: Element, props: Props, kids: Child[]): void {
  for (const [name, v] of Object.entries(props)) {
    if (v === null || v === undefined || v === false) continue;
    if (typeof v === "function") el.addEventListener(name.slice(2), v);
    else el.setAttribute(name === "cls" ? "class" : name, v === true ? "" : String(v));
  }
  for (const k of kids) {
    if (k !== null && k !== undefined && k !== false) el.append(k instanceof Node ? k : String(k));
  }
}

/** h returns a new element: `on…` properties are listeners, `cls` is the class. */
export function h<K extends keyof HTMLElementTagNameMap>(tag: K, props: Props = {}, ...kids: Child[]): HTMLElementTagNameMap[K] {
  const el = document.createElement(tag);
  fill(el, props, kids);
  return el;
}

/** svg returns a new element of SVG. */
export function svg<K extends keyof SVGElementTagNameMap>(tag: K, props: Props = {}, ...kids: Child[]): SVGElementTagNameMap[K] {
  const el = document.createElementNS("http://www.w3.org/2000/svg", tag);
  fill(el, props, kids);
  return el;
}

/** text sets the text of an element if it differs. */
export function text(el: Element, s: string): void {
  if (el.textContent !== s) el.textContent = s;
}

/** replace sets the children of an element. */
export function replace(el: Element, ...kids: Child[]): void {
  el.replaceChildren();
  fill(el, {}, kids);
}

/** css returns a custom property of the page. */
export function css(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/** OPAQUE are the settings of a canvas that is painted as a whole. Without desynchronized, a frame of chromium now and then waits for two more. */
export const OPAQUE: CanvasRenderingContext2DSettings = { alpha: false, desynchronized: true };

/** fit sets the size of a canvas to that of its box in device pixels and returns its context, scaled to CSS pixels. */
export function fit(canvas: HTMLCanvasElement, settings?: CanvasRenderingContext2DSettings): { g: CanvasRenderingContext2D; w: number; h: number; dpr: number } {
  const dpr = window.devicePixelRatio || 1;
  const w = Math.max(1, canvas.clientWidth);
  const hgt = Math.max(1, canvas.clientHeight);
  const pw = Math.round(w * dpr);
  const ph = Math.round(hgt * dpr);
  if (canvas.width !== pw) canvas.width = pw;
  if (canvas.height !== ph) canvas.height = ph;
  const g = canvas.getContext("2d", settings)!;
  g.setTransform(dpr, 0, 0, dpr, 0, 0);
  return { g, w, h: hgt, dpr };
}

/** Tip is the tooltip of a canvas. It is hidden from assistive technology, which has the tables. */
export class Tip {
  readonly el = h("div", { cls: "tip", "aria-hidden": "true", hidden: true });
  constructor(private readonly box: HTMLElement) {
    box.append(this.el);
  }
  show(x: number, y: number, ...kids: Child[]): void {
    replace(this.el, ...kids);
    this.el.hidden = false;
    const w = this.el.offsetWidth;
    const hgt = this.el.offsetHeight;
    const left = x + 14 + w > this.box.clientWidth ? Math.max(4, x - w - 14) : x + 14;
    const top = y + 14 + hgt > this.box.clientHeight ? Math.max(4, y - hgt - 10) : y + 14;
    this.el.style.transform = `translate(${Math.round(left)}px, ${Math.round(top)}px)`;
  }
  hide(): void {
    this.el.hidden = true;
  }
}

/** facts returns a list of names and values. */
export function facts(pairs: [string, Child][]): HTMLElement {
  const dl = h("dl", { cls: "facts" });
  for (const [k, v] of pairs) {
    if (v !== null && v !== undefined && v !== false && v !== "") dl.append(h("div", {}, h("dt", {}, k), h("dd", {}, v)));
  }
  return dl;
}
