import { FIRST_PREFIX, Palette } from "../color.ts";
import type { Source, TileKey } from "../source.ts";
import { Layout } from "../stream/layout.ts";
import { Tiles } from "../stream/tiles.ts";
import { BUCKETS, encodeLine } from "../tile.ts";
import { equal, test } from "./harness.ts";

// Node.js has no canvas. This one keeps the first pixel of the last picture.
const pixels = new WeakMap<object, number>();
let painted = 0;

class FakeImage {
  readonly data: Uint8ClampedArray;
  constructor(readonly width: number, readonly height: number) {
    this.data = new Uint8ClampedArray(width * height * 4);
  }
}

class FakeCanvas {
  constructor(readonly width: number, readonly height: number) {}
  getContext(): object {
    return {
      putImageData: (image: FakeImage) => {
        painted++;
        pixels.set(this, new Uint32Array(image.data.buffer)[0]!);
      },
    };
  }
}

Object.assign(globalThis, { OffscreenCanvas: FakeCanvas, ImageData: FakeImage });

const key = (index: number): TileKey => ({ level: 10, index, from: 0, to: 256, group: 0 });

const picture = (): Uint8Array => {
  const out: number[] = [];
  encodeLine(out, 0, new Uint8Array(BUCKETS).fill(FIRST_PREFIX), new Uint8Array(BUCKETS).fill(255));
  return Uint8Array.from(out);
};

interface Asked {
  index: number;
  signal: AbortSignal | undefined;
  answer(): void;
}

interface Setup {
  tiles: Tiles;
  asked: Asked[];
  palette: Palette;
}

const setup = (): Setup => {
  const asked: Asked[] = [];
  const source = {
    tile: (k: TileKey, signal?: AbortSignal) =>
      new Promise<Uint8Array>((resolve) => asked.push({ index: k.index, signal, answer: () => resolve(picture()) })),
  } as unknown as Source;
  const palette = new Palette();
  palette.set([...new Array<string>(FIRST_PREFIX).fill(""), "inc"], false);
  painted = 0;
  return { tiles: new Tiles(source, palette, new Layout([{ id: 0, worker: "w", name: "w", kind: "thread", slot: 0 }]), () => 0, () => undefined), asked, palette };
};

// testTiles runs a test and closes its tiles, whose channel keeps Node.js running.
const testTiles = (name: string, f: (s: Setup) => Promise<void>): void =>
  test(name, async () => {
    const s = setup();
    try {
      await f(s);
    } finally {
      s.tiles.close();
    }
  });

// rest waits until all tasks that were posted before have run.
const rest = async (): Promise<void> => {
  for (let i = 0; i < 20; i++) await new Promise((resolve) => setTimeout(resolve, 0));
};

testTiles("cache: tiles are requested after the frame and painted before the next", async ({ tiles, asked }) => {
  tiles.want([key(9)], []);
  tiles.want([key(1), key(2)], [key(3), key(4), key(5), key(1)]);
  equal(asked.length, 0, "requests within the frame");
  await rest();
  equal(asked.map((a) => a.index), [1, 2, 3, 4], "requests of the last frame, four at a time");
  asked[0]!.answer();
  asked[1]!.answer();
  await rest();
  equal([painted, asked.map((a) => a.index)], [2, [1, 2, 3, 4, 5]], "painted on arrival");
  tiles.begin();
  equal([tiles.get(key(1)) !== null, tiles.get(key(3)), painted], [true, null, 2], "a frame paints no tile again");
});

testTiles("cache: requests that are no longer wanted", async ({ tiles, asked }) => {
  tiles.want([key(1), key(2)], []);
  await rest();
  asked[0]!.answer(); // and given up before its turn
  tiles.want([key(2)], []);
  await rest();
  equal(asked.map((a) => a.signal?.aborted), [true, false]);
  asked[1]!.answer();
  await rest();
  equal([tiles.get(key(2)) !== null, tiles.size.pending], [true, 0]);
  tiles.want([key(3)], []);
  tiles.clear();
  await rest();
  equal([asked.length, tiles.size], [2, { tiles: 0, pixels: 0, pending: 0 }], "after clear");
});

testTiles("cache: other colors are painted in slices", async ({ tiles, asked, palette }) => {
  tiles.want(Array.from({ length: 40 }, (_, i) => key(i)), []);
  for (let i = 0; i < 40; i++) {
    while (asked.length <= i) await rest();
    asked[i]!.answer();
  }
  await rest();
  const before = pixels.get(tiles.get(key(0))!);
  if (!before) throw new Error("a tile without a color");
  palette.set([...new Array<string>(FIRST_PREFIX).fill(""), "sum"], true);
  const clock = performance.now;
  let now = clock.call(performance);
  performance.now = () => (now += 1); // each look at the clock takes a millisecond
  try {
    let frames = 0;
    do {
      const start = painted;
      tiles.begin();
      for (let i = 0; i < 40; i++) if (!tiles.get(key(i))) throw new Error(`tile ${i} has no picture, want the old one`);
      if (painted - start > 4) throw new Error(`${painted - start} tiles painted in a frame, want at most 4`);
      frames++;
    } while (tiles.behind);
    equal([frames, painted], [10, 80]);
  } finally {
    performance.now = clock;
  }
  if (pixels.get(tiles.get(key(0))!) === before) throw new Error("a tile has its old colors");
});
