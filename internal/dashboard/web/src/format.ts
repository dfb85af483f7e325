// Numbers, durations and sizes as text.

const trim = (v: number): string => {
  const a = Math.abs(v);
  const s = a >= 100 ? v.toFixed(0) : a >= 10 ? v.toFixed(1) : v.toFixed(2);
  return s.includes(".") ? s.replace(/\.?0+$/, "") : s;
};

/** num returns a count with thousands separators. */
export function num(v: number): string {
  return Number.isFinite(v) ? Math.round(v).toLocaleString("en-US") : "–";
}

/** short returns a count with at most three digits and a suffix. */
export function short(v: number): string {
  if (!Number.isFinite(v)) return "–";
  const a = Math.abs(v);
  if (a < 1000) return trim(v);
  const units = ["k", "M", "G", "T"];
  let i = -1;
  while (Math.abs(v) >= 999.5 && i < units.length - 1) {
    v /= 1000;
    i++;
  }
  return trim(v) + " " + units[i];
}

/** bytes returns a size in binary units. */
export function bytes(v: number): string {
  if (!Number.isFinite(v)) return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let i = 0;
  while (Math.abs(v) >= 1023.5 && i < units.length - 1) {
    v /= 1024;
    i++;
  }
  return (i === 0 ? String(Math.round(v)) : trim(v)) + " " + units[i];
}

/** rate returns a bandwidth in decimal units, from bytes per second. */
export function rate(v: number): string {
  if (!Number.isFinite(v)) return "–";
  const units = ["B/s", "kB/s", "MB/s", "GB/s", "TB/s"];
  let i = 0;
  while (Math.abs(v) >= 999.5 && i < units.length - 1) {
    v /= 1000;
    i++;
  }
  return trim(v) + " " + units[i];
}

/** duration returns a time of so many microseconds. */
export function duration(us: number): string {
  if (!Number.isFinite(us)) return "–";
  const a = Math.abs(us);
  if (a < 1) return a === 0 ? "0 s" : trim(us * 1000) + " ns";
  if (a < 999.5) return trim(us) + " µs";
  if (a < 999.5e3) return trim(us / 1e3) + " ms";
  if (a < 60e6) return trim(us / 1e6) + " s";
  const s = Math.round(a / 1e6);
  const sign = us < 0 ? "-" : "";
  if (s < 3600) return `${sign}${Math.floor(s / 60)} min ${s % 60} s`;
  if (s < 86400) return `${sign}${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
  return `${sign}${Math.floor(s / 86400)} d ${Math.floor((s % 86400) / 3600)} h`;
}

/** seconds returns a time of so many seconds. */
export function seconds(s: number): string {
  return duration(s * 1e6);
}

const two = (v: number): string => String(v).padStart(2, "0");

/** clock returns the local time of day of a Unix time in microseconds, with `digits` decimals of a second. */
export function clock(unix: number, digits = 0): string {
  const whole = Math.floor(unix / 1e6);
  const d = new Date(whole * 1000);
  let s = `${two(d.getHours())}:${two(d.getMinutes())}:${two(d.getSeconds())}`;
  if (digits > 0) s += "." + String(Math.floor(unix - whole * 1e6)).padStart(6, "0").slice(0, digits);
  return s;
}

/** steps returns round values in [from, to], at most `count` of them, and their distance. */
export function steps(from: number, to: number, count: number): { step: number; values: number[] } {
  const raw = (to - from) / Math.max(1, count);
  if (!(raw > 0) || !Number.isFinite(raw)) return { step: 1, values: [] };
  const base = Math.pow(10, Math.floor(Math.log10(raw)));
  const step = base * ([1, 2, 5, 10].find((m) => m * base >= raw * 0.999) ?? 10);
  return { step, values: multiples(from, to, step) };
}

/** byteSteps returns round sizes up to a size, in binary units. */
export function byteSteps(to: number, count: number): { step: number; values: number[] } {
  const unit = 1024 ** Math.max(0, Math.floor(Math.log2(Math.max(1, to)) / 10));
  const { step, values } = steps(0, to / unit, count);
  return { step: step * unit, values: values.map((v) => v * unit) };
}

const timeSteps = [1, 2, 5, 10, 20, 50, 100, 200, 500].concat(
  [1, 2, 5, 10, 20, 50, 100, 200, 500].map((v) => v * 1e3),
  [1, 2, 5, 10, 15, 30].map((v) => v * 1e6),
  [1, 2, 5, 10, 15, 30].map((v) => v * 60e6),
  [1, 2, 3, 6, 12, 24, 48, 168].map((v) => v * 3600e6),
);

/** timeTicks returns round times in [from, to], at most `count` of them, and their distance. */
export function timeTicks(from: number, to: number, count: number): { step: number; values: number[] } {
  const raw = (to - from) / Math.max(1, count);
  const step = timeSteps.find((s) => s >= raw) ?? Math.ceil(raw / 604800e6) * 604800e6;
  return { step, values: multiples(from, to, step) };
}

function multiples(from: number, to: number, step: number): number[] {
  const values: number[] = [];
  const first = Math.ceil(from / step - 1e-9);
  for (let i = first; i * step <= to * (1 + 1e-12) && values.length < 1000; i++) values.push(i * step);
  return values;
}

/** address returns an address without its protocol. */
export function address(a: string): string {
  return a.replace(/^[a-z+]+:\/\//, "");
}
