import { address, bytes, clock, duration, num, rate, short, steps, timeTicks } from "../format.ts";
import { equal, test } from "./harness.ts";

test("numbers", () => {
  equal([0, 999, 1234567].map(num), ["0", "999", "1,234,567"]);
  equal([0, 12.345, 999, 1000, 1234, 5.6e6, 7e13].map(short), ["0", "12.3", "999", "1 k", "1.23 k", "5.6 M", "70 T"]);
  equal([0, 1023, 1024, 1536, 5e9, 1e18].map(bytes), ["0 B", "1023 B", "1 KiB", "1.5 KiB", "4.66 GiB", "888 PiB"]);
  equal([0, 999, 12.5e9].map(rate), ["0 B/s", "999 B/s", "12.5 GB/s"]);
  equal([num(NaN), short(NaN), bytes(NaN), rate(Infinity), duration(NaN)], ["–", "–", "–", "–", "–"]);
});

test("durations", () => {
  equal([0, 0.5, 12, 1500, 2.5e6, 61e6, 3661e6, 90000e6].map(duration),
    ["0 s", "500 ns", "12 µs", "1.5 ms", "2.5 s", "1 min 1 s", "1 h 1 min", "1 d 1 h"]);
});

test("clock", () => {
  const unix = new Date(2026, 0, 2, 3, 4, 5).getTime() * 1000 + 123456;
  equal([clock(unix), clock(unix, 3), clock(unix, 6)], ["03:04:05", "03:04:05.123", "03:04:05.123456"]);
});

test("ticks", () => {
  equal(steps(0, 10, 5).values, [0, 2, 4, 6, 8, 10]);
  equal(steps(3, 3, 5).values, []);
  equal(timeTicks(0, 60e6, 6).values, [0, 10e6, 20e6, 30e6, 40e6, 50e6, 60e6]);
  for (const span of [1, 100, 1e5, 1e9, 1e13]) {
    const n = timeTicks(7, 7 + span, 8).values.length;
    if (n > 9) throw new Error(`${span}: ${n} ticks, want at most 9`);
  }
});

test("address", () => equal([address("tcp://a:1"), address("ucxx://b:2"), address("c")], ["a:1", "b:2", "c"]));
