// Package spans keeps the history of a cluster, stretches of time in which a thread of a worker executed a task, or
// a worker moved data, and paints pictures of it: the store behind the task stream of the dashboard.
//
// # Ingest
//
// The scheduler fills a Batch without locks and hands it over with Store.Put. A goroutine of the Store gives each
// span a row, drops what no worker with a tolerable clock can have reported, and appends the span to open columns.
// Times are microseconds since the origin of the history. Everything that workers choose is bounded: workers, rows,
// prefixes, transports, texts, keys, times. What exceeds a bound is counted as dropped.
//
// # Blocks
//
// Spans are in classes by length, in steps of a factor of four, so that the time that a block covers is not much
// longer than its spans are: few blocks overlap a moment. Columns with 16,384 spans are sorted by row and become a
// block: a header, totals by category and transport, the outline (rows, starts, lengths, categories) and the other
// columns. A column is stored as planes of bytes, each with entropy coding, keys as a dictionary of what precedes a
// hash, the hash, and what follows. All parts have a checksum. An outline is read without the rest, and those read
// last stay in memory.
//
// # Pyramid
//
// The pyramid has the time of each row by bucket and category at the levels 14, 16, 18, … (buckets of 2^14 µs = 16
// ms, 65 ms, …). When a block is sealed, its spans are painted at the level of their class, at which a span covers
// about two buckets, and the sums at the levels above it. Lines list only buckets that are not empty, in chunks of
// 256 buckets, so that idle time costs nothing. Lines are compacted when their time is over: shares of 1/65535 of a
// bucket, four categories and the rest. Levels are added while the highest has more than two chunks. Beyond the
// limit of memory the oldest chunks of the finest level are evicted.
//
// # Tiles
//
// A tile of level 14 and above sums up the chunks of the next lower level of the pyramid, the outlines of blocks of
// longer spans, of which a tile has at most some hundred per row, and the open columns. A tile of a finer level is
// painted from outlines alone. Compared with a rasterization of all spans, the coverage of a bucket differs by at
// most 2 of 255. The category has at most 1/1000 of the covered time and 1/8000 of the bucket less than that with
// the most time; if a bucket has more than four categories, or a line more than one row, at most a fifth of the
// covered time less. Tiles are cached until a span overlaps them.
//
// # Disk
//
// The folder of a history has segments, to which blocks are appended; the oldest segment is removed when the folder
// is full, and what ended before the end of its spans is no longer shown. Names are appended to a file of their own
// before the blocks that refer to them. Open columns, series and events are in a file that is replaced every ten
// seconds and on Close. When a history is opened, a torn block at the end is cut. The pyramid is painted from the
// outlines in the background; until it is there, tiles are painted from outlines if those are few, and wait if not. A
// lock keeps a second process out.
package spans
