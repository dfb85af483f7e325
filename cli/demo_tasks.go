package cli

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strconv"

	"go.millstream.dev/client"
)

// The data set of the demo is the log of a web server: lines of text that are generated, parsed, shuffled by host and
// summed up, all on the workers. Columns are slices of numbers, which are sent as they are in memory.
var (
	demoGenerate  = client.Func2("millstream.demo.generate", generateLog)
	demoParse     = client.Func("millstream.demo.parse", parseLog)
	demoBucket    = client.Func3("millstream.demo.bucket", bucketRows)
	demoAggregate = client.Func("millstream.demo.aggregate", aggregateRows)
	demoCombine   = client.Func("millstream.demo.combine", combineTotals)
)

const demoHosts = 5000

// demoRow returns row i of part seed: a host and a number of bytes. Few hosts have most of the requests, as in real
// logs.
func demoRow(seed, i int) (host, size int32) {
	x := uint64(seed)<<32 + uint64(i) + 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	x ^= x >> 31
	u := x % demoHosts
	return int32(u * (x >> 32 % demoHosts) % demoHosts), int32(200 + x>>40%100_000)
}

// generateLog generates the text of one part.
func generateLog(ctx context.Context, seed, rows int) ([]byte, error) {
	text := make([]byte, 0, rows*56)
	for i := range rows {
		host, size := demoRow(seed, i)
		text = append(text, demoTime...)
		text = strconv.AppendInt(text, int64(host), 10)
		text = append(text, demoPath...)
		text = strconv.AppendInt(text, int64(i%977), 10)
		text = append(text, demoStatus...)
		text = strconv.AppendInt(text, int64(size), 10)
		text = append(text, '\n')
	}
	return text, ctx.Err()
}

// parseLog returns host and size of each line, alternating.
func parseLog(_ context.Context, text []byte) ([]int32, error) {
	rows := make([]int32, 0, bytes.Count(text, []byte("\n"))*2)
	for n := 1; len(text) > 0; n++ {
		end := bytes.IndexByte(text, '\n')
		if end < 0 {
			return nil, fmt.Errorf("line %d is not terminated", n)
		}
		line := text[:end]
		text = text[end+1:]
		at := bytes.Index(line, []byte(" host-"))
		if at < 0 {
			return nil, fmt.Errorf("line %d has no host: %q", n, line)
		}
		host, _ := number(line[at+len(" host-"):])
		size, ok := number(line[bytes.LastIndexByte(line, ' ')+1:])
		if !ok {
			return nil, fmt.Errorf("line %d has no size: %q", n, line)
		}
		rows = append(rows, host, size)
	}
	return rows, nil
}

// number parses the digits at the start of a text.
func number(text []byte) (n int32, ok bool) {
	for _, c := range text {
		if c < '0' || c > '9' {
			break
		}
		n, ok = n*10+int32(c-'0'), true
	}
	return n, ok
}

// bucketRows returns the rows of a part whose host belongs to bucket j of n.
func bucketRows(_ context.Context, rows []int32, j, n int) ([]int32, error) {
	out := make([]int32, 0, len(rows)/n+len(rows)/8)
	for i := 0; i+1 < len(rows); i += 2 {
		if int(rows[i])%n == j {
			out = append(out, rows[i], rows[i+1])
		}
	}
	return out, nil
}

// aggregateRows sums up one bucket of all parts: host, requests and bytes, alternating, by host.
func aggregateRows(_ context.Context, parts [][]int32) ([]int64, error) {
	var requests, sizes [demoHosts]int64
	for _, rows := range parts {
		for i := 0; i+1 < len(rows); i += 2 {
			h := rows[i]
			if h < 0 || h >= demoHosts {
				return nil, fmt.Errorf("invalid host %d", h)
			}
			requests[h]++
			sizes[h] += int64(rows[i+1])
		}
	}
	var out []int64
	for h, n := range requests {
		if n > 0 {
			out = append(out, int64(h), n, sizes[h])
		}
	}
	return out, nil
}

// combineTotals merges the totals of all buckets, by host.
func combineTotals(_ context.Context, buckets [][]int64) ([]int64, error) {
	all := slices.Concat(buckets...)
	type total [3]int64
	totals := make([]total, 0, len(all)/3)
	for i := 0; i+2 < len(all); i += 3 {
		totals = append(totals, total(all[i:i+3]))
	}
	slices.SortFunc(totals, func(a, b total) int { return int(a[0] - b[0]) })
	out := all[:0]
	for _, t := range totals {
		out = append(out, t[:]...)
	}
	return out, nil
}

// demoExpected computes the expected totals from the rows, and the length of all texts.
func demoExpected(parts, rows int) (totals []int64, text int64) {
	var requests, sizes [demoHosts]int64
	for p := range parts {
		for i := range rows {
			host, size := demoRow(p, i)
			text += int64(len(demoLine) + digits(int(host)) + digits(i%977) + digits(int(size)))
			requests[host]++
			sizes[host] += int64(size)
		}
	}
	for h, n := range requests {
		if n > 0 {
			totals = append(totals, int64(h), n, sizes[h])
		}
	}
	return totals, text
}

// demoLine has the constant parts of a line.
const demoLine = demoTime + demoPath + demoStatus + "\n"

const (
	demoTime   = "2026-03-01T12:00:00Z host-"
	demoPath   = " GET /item/"
	demoStatus = " 200 "
)

// digits returns the number of digits of a number that is not negative.
func digits(n int) int {
	d := 1
	for ; n > 9; n /= 10 {
		d++
	}
	return d
}
