// A tile has 256 buckets of 2^level µs for some lines of the task stream. See docs of the server for its encoding.

export const BUCKETS = 256;
export const MAX_LEVEL = 40;

/** Line is one decoded line: category and coverage of each run, and where the run ends. */
export interface Line {
  line: number;
  ends: Uint16Array;
  cats: Uint8Array;
  cover: Uint8Array;
}

/** decode reads a tile. It returns the lines before the first error if the bytes are damaged. */
export function decode(data: Uint8Array): Line[] {
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
  const lines: Line[] = [];
  let line = 0;
  while (at < data.length) {
    line += uvarint();
    const runs = uvarint();
    if (!ok || runs < 1 || runs > BUCKETS || at + runs * 3 > data.length) break;
    const l: Line = { line, ends: new Uint16Array(runs), cats: new Uint8Array(runs), cover: new Uint8Array(runs) };
    let end = 0;
    for (let i = 0; i < runs; i++) {
      end += uvarint();
      l.ends[i] = Math.min(end, BUCKETS);
      l.cats[i] = data[at++] ?? 0;
      l.cover[i] = data[at++] ?? 0;
    }
    if (!ok || end !== BUCKETS) break;
    lines.push(l);
  }
  return lines;
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
