package collective

// What each rank does of a collective on device memory that all ranks reach: copies into its own buffer, and one
// reduction of a stretch of all ranks' buffers. It is made so that the ranks need not wait for each other between the
// beginning, when everybody's buffers are ready, and the end, when everybody is through: no rank writes what another
// one reads or writes.

// place is a stretch of a rank's buffer, in bytes.
type place struct {
	rank  int
	recv  bool // of its recv, else of its send
	at, n int
}

// copyStep copies between two places of equal length; the target is this rank's.
type copyStep struct{ dst, src place }

// foldStep puts places together, in their order, into all targets. All have one length.
type foldStep struct{ dsts, srcs []place }

type plan struct {
	copies []copyStep
	fold   foldStep // without sources: none
}

// alignedPart is what the parts of a reduction are a multiple of, in elements: so they lie alike for wide loads.
const alignedPart = 64

// planOf says what rank does of a call. words are what the ranks have called, of which the counts are read.
func planOf(c *DeviceCall, words []part, rank int) plan {
	size, es := len(words), c.Kind.Size()
	var p plan
	pull := func(dstAt, from int, recv bool, srcAt, n int) {
		if n > 0 {
			p.copies = append(p.copies, copyStep{place{rank, true, dstAt, n}, place{from, recv, srcAt, n}})
		}
	}
	switch c.Code {
	case callAllReduce, callReduce:
		elems := int(words[0].count) / es
		each := ((elems+size-1)/size + alignedPart - 1) / alignedPart * alignedPart
		lo, hi := min(rank*each, elems)*es, min((rank+1)*each, elems)*es
		if lo == hi {
			break
		}
		for r := range size {
			p.fold.srcs = append(p.fold.srcs, place{r, false, lo, hi - lo})
			if c.Code == callAllReduce || r == c.Root {
				p.fold.dsts = append(p.fold.dsts, place{r, true, lo, hi - lo})
			}
		}
	case callReduceScatter:
		n := int(words[0].count)
		if n == 0 {
			break
		}
		for r := range size {
			p.fold.srcs = append(p.fold.srcs, place{r, false, rank * n, n})
		}
		p.fold.dsts = []place{{rank, true, 0, n}}
	case callBroadcast:
		if rank != c.Root {
			pull(0, c.Root, false, 0, int(words[0].count))
		}
	case callAllGather, callAllGatherV, callGather, callGatherV:
		if (c.Code == callGather || c.Code == callGatherV) && rank != c.Root {
			break
		}
		at := 0
		for r := range size {
			n := int(words[r].count)
			pull(at, r, false, 0, n)
			at += n
		}
	case callScatter:
		n := int(words[0].count)
		pull(0, c.Root, false, rank*n, n)
	case callScatterV:
		w, at := &words[c.Root], 0
		for r := range rank {
			at += w.at(r) * es
		}
		pull(0, c.Root, false, at, w.at(rank)*es)
	case callAllToAll:
		n := int(words[0].count)
		for r := range size {
			pull(r*n, r, false, rank*n, n)
		}
	case callAllToAllV:
		to := 0
		for r := range size {
			w, at := &words[r], 0
			for q := range rank {
				at += w.at(q) * es
			}
			n := w.at(rank) * es
			pull(to, r, false, at, n)
			to += n
		}
	}
	return p
}

// shows reports whether other ranks reach a rank's send and recv in a call.
func shows(c *DeviceCall, rank int) (send, recv bool) {
	switch c.Code {
	case callAllReduce:
		return true, true
	case callReduce:
		return true, rank == c.Root
	case callBroadcast, callScatter, callScatterV:
		return rank == c.Root, false
	}
	return true, false
}
