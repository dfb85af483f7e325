// Colors of categories. A prefix has the same color in every run unless another prefix took it first.

export const NONE = 0;
export const TRANSFER = 1;
export const DISK_READ = 2;
export const DISK_WRITE = 3;
export const DESERIALIZE = 4;
export const WAITING = 5;
export const ERROR = 6;
export const PAUSED = 7;
export const WAITING_SLOT = 8;
export const FIRST_PREFIX = 9;
export const OTHERS = 255;

export type RGB = readonly [number, number, number];

// Hues of tasks keep away from the red of transfers and the orange of disks, and are readable on white and on black. The
// first ones differ most; the others are used when those are taken.
const DISTINCT = 10;
const tasks: RGB[] = [
  [66, 133, 200], [77, 160, 96], [142, 100, 196], [32, 158, 166], [172, 150, 44], [196, 98, 168],
  [94, 100, 216], [134, 172, 60], [112, 132, 152], [150, 124, 84],
  [58, 116, 158], [110, 180, 150], [170, 134, 206], [52, 124, 92], [126, 128, 44], [150, 88, 134],
  [128, 146, 224], [92, 140, 56], [78, 160, 214], [178, 158, 116], [96, 84, 160], [82, 152, 152],
  [206, 140, 190], [118, 118, 110],
];

const fixed: RGB[] = [
  [0, 0, 0], // none
  [221, 60, 60], // transfer
  [224, 142, 52], // disk read
  [196, 112, 36], // disk write
  [214, 176, 78], // deserialize
  [140, 146, 156], // waiting for data
  [30, 30, 34], // error
  [176, 96, 128], // waiting for memory
  [108, 128, 168], // waiting for a slot
];

const fixedNames = ["idle", "transfer", "disk read", "disk write", "deserialize", "waiting for data", "error",
  "waiting for memory", "waiting for a slot"];

/** isWaiting reports whether a category is time in which nothing was done. */
export const isWaiting = (cat: number): boolean => cat === WAITING || cat === PAUSED || cat === WAITING_SLOT;

function hash(s: string): number {
  let v = 2166136261;
  for (let i = 0; i < s.length; i++) v = Math.imul(v ^ s.charCodeAt(i), 16777619);
  return v >>> 0;
}

/** Palette has the color of each category. */
export class Palette {
  private colors: RGB[] = [];
  private names: string[] = [];
  version = 0;
  dark = false;

  /** set takes the names of categories, in order. */
  set(names: string[], dark: boolean): void {
    this.names = names;
    this.dark = dark;
    this.colors = fixed.slice();
    if (dark) this.colors[ERROR] = [240, 240, 245];
    const used = new Array<number>(tasks.length).fill(0);
    for (let c = FIRST_PREFIX; c < Math.min(names.length, OTHERS); c++) {
      const first = used.indexOf(0) >= 0 && used.indexOf(0) < DISTINCT;
      const choices = first ? DISTINCT : tasks.length;
      const least = Math.min(...used.slice(0, choices));
      let at = hash(names[c] ?? "") % choices;
      while (used[at]! > least) at = (at + 1) % choices;
      used[at]!++;
      this.colors[c] = tasks[at]!;
    }
    this.version++;
  }

  rgb(cat: number): RGB {
    return this.colors[cat] ?? (cat === OTHERS ? [128, 134, 144] : [120, 126, 140]);
  }

  css(cat: number, alpha = 1): string {
    const [r, g, b] = this.rgb(cat);
    return alpha === 1 ? `rgb(${r},${g},${b})` : `rgba(${r},${g},${b},${alpha})`;
  }

  name(cat: number): string {
    if (cat < FIRST_PREFIX) return fixedNames[cat] ?? "";
    if (cat === OTHERS) return this.names[cat] || "(others)";
    return this.names[cat] || `prefix ${cat}`;
  }
}

const states: Record<string, [string, string]> = {
  // [light, dark]
  waiting: ["#a3acb8", "#6b7480"],
  queued: ["#d0b25a", "#b9993f"],
  no_worker: ["#c9748f", "#b8607d"],
  processing: ["#3f83c8", "#4a90d9"],
  memory: ["#4c9f6a", "#4fae72"],
  erred: ["#c63d3d", "#e05a5a"],
  released: ["#7f8fa6", "#55606f"],
  forgotten: ["#ccd2da", "#3c444f"],
};

/** stateColor returns the color of a task state. */
export function stateColor(state: string, dark: boolean): string {
  return states[state.replace("-", "_")]?.[dark ? 1 : 0] ?? "#8a94a3";
}

/** hueOf returns a stable color for a name, such as a transport or a series. */
export function hueOf(name: string): RGB {
  if (/tcp|tls|sockets/.test(name)) return [214, 126, 44];
  if (/cuda|ipc|nvlink/.test(name)) return [98, 158, 60];
  if (/rc|ud|dc|ib|mlx|rdma/.test(name)) return [132, 96, 202];
  if (/sysv|posix|shm|cma|xpmem|self|inproc/.test(name)) return [54, 128, 200];
  return tasks[hash(name) % tasks.length]!;
}
