// A tile has 256 buckets of 2^level µs for some lines of the task stream. See docs of the server for its encoding.

export const BUCKETS = 256;
export const MAX_LEVEL = 40;

/** Line is one decoded line: category and coverage of each run, and where the run ends. */
export interface Line {
  line: number;
  runs: number;
  ends: Uint16Array;
  cats: Uint8Array;
  cover: Uint8Array;
}

/**
 * eachLine calls f for the lines of a tile, those before the first error if the bytes are damaged. The line is valid
 * until f returns: a tile has thousands of runs, which cost more as objects than as the bytes that they come from.
 */
export function eachLine(data: Uint8Array, f: (l: Line) => void): void {
  let at = 0;
  let ok = true;
  const uvarint = (): number => {
    let v = 0;
    let scale = 1;
    for (;;) {
      const b = data[at++];
      if (b === undefined || scale > 2 ** 49) {
        ok = false;
        return 0;
      }
      v += (b & 0x7f) * scale;
      if (b < 0x80) return v;
      scale *= 128;
    }
  };
  const l: Line = { line: 0, runs: 0, ends: new Uint16Array(BUCKETS), cats: new Uint8Array(BUCKETS), cover: new Uint8Array(BUCKETS) };
  while (at < data.length) {
    l.line += uvarint();
    l.runs = uvarint();
    if (!ok || l.runs < 1 || l.runs > BUCKETS || at + l.runs * 3 > data.length) break;
    let end = 0;
    for (let i = 0; i < l.runs; i++) {
      end += uvarint();
      l.ends[i] = Math.min(end, BUCKETS);
      l.cats[i] = data[at++] ?? 0;
      l.cover[i] = data[at++] ?? 0;
    }
    if (!ok || end !== BUCKETS) break;
    f(l);
  }
}

/** encode writes a line as a tile does; `previous` is the number of the line before, or the first of the range. */
export function encodeLine(out: number[], delta: number, cats: Uint8Array, cover: Uint8Array): void {
  const uvarint = (v: number): void => {
    while (v >= 128) {
      out.push((v % 128) | 128);
      v = Math.floor(v / 128);
    }
    out.push(v);
  };
  let runs = 0;
  for (let i = 0; i < BUCKETS; i++) if (i === 0 || cats[i] !== cats[i - 1] || cover[i] !== cover[i - 1]) runs++;
  uvarint(delta);
  uvarint(runs);
  for (let i = 0; i < BUCKETS; ) {
    let j = i + 1;
    while (j < BUCKETS && cats[j] === cats[i] && cover[j] === cover[i]) j++;
    uvarint(j - i);
    out.push(cats[i]!, cover[i]!);
    i = j;
  }
}
