package collective

import "slices"

// What each rank does of a collective on device memory that all ranks reach: copies, and reductions of a stretch of all
// ranks' buffers. It is made so that the ranks need not wait for each other between the beginning, when everybody's
// buffers are ready, and the end, when everybody is through: no rank writes what another one reads or writes.
//
// Ranks that share a GPU share its memory's speed as well, and the GPU takes a hundred microseconds and more to go from
// one process to the other. So the lowest of them does the parts of all.

// place is a stretch of a rank's buffer, in bytes.
type place struct {
	rank  int
	recv  bool // of its recv, else of its send
	at, n int
}

// copyStep copies between two places of equal length.
type copyStep struct{ dst, src place }

// foldStep puts places together, in their order, into all targets. All have one length.
type foldStep struct{ dsts, srcs []place }

type plan struct {
	copies []copyStep
	folds  []foldStep
}

// alignedPart is what the parts of a reduction are a multiple of, in elements: so they lie alike for wide loads.
const alignedPart = 64

// calls is what the ranks have called, as far as plans need it.
type calls []part

// remember copies it out of a group's parts, which its next exchange overwrites.
func remember(parts []part) calls {
	list := slices.Clone(parts)
	for r := range list {
		list[r].counts, list[r].inline = slices.Clone(list[r].counts), nil
	}
	return list
}

// planOf says what rank does of a call. acts has for each rank who acts for it; who acts for another acts for itself.
func planOf(c *Call, words calls, rank int, acts []int) plan {
	var p plan
	actors := 0 // and how many of them come before rank
	place := 0
	for r, a := range acts {
		if a == r {
			if r < rank {
				place++
			}
			actors++
		}
		if a == rank {
			p.forRank(c, words, r)
		}
	}
	if acts[rank] == rank {
		p.share(c, words, place, actors)
	}
	return p
}

// share is the part of a reduction that is nobody's own: number i of n.
func (p *plan) share(c *Call, words calls, i, n int) {
	if c.Code != AllReduce && c.Code != Reduce {
		return
	}
	es := c.Kind.Size()
	elems := int(words[0].count) / es
	each := ((elems+n-1)/n + alignedPart - 1) / alignedPart * alignedPart
	lo, hi := min(i*each, elems)*es, min((i+1)*each, elems)*es
	if lo == hi {
		return
	}
	var f foldStep
	for r := range words {
		f.srcs = append(f.srcs, place{r, false, lo, hi - lo})
		if c.Code == AllReduce || r == c.Root {
			f.dsts = append(f.dsts, place{r, true, lo, hi - lo})
		}
	}
	p.folds = append(p.folds, f)
}

// forRank adds what makes a rank's own result.
func (p *plan) forRank(c *Call, words calls, rank int) {
	size, es := len(words), c.Kind.Size()
	pull := func(dstAt, from int, srcAt, n int) {
		if n > 0 {
			p.copies = append(p.copies, copyStep{place{rank, true, dstAt, n}, place{from, false, srcAt, n}})
		}
	}
	switch c.Code {
	case ReduceScatter:
		n := int(words[0].count)
		if n == 0 {
			break
		}
		f := foldStep{dsts: []place{{rank, true, 0, n}}}
		for r := range size {
			f.srcs = append(f.srcs, place{r, false, rank * n, n})
		}
		p.folds = append(p.folds, f)
	case Broadcast:
		if rank != c.Root {
			pull(0, c.Root, 0, int(words[0].count))
		}
	case AllGather, AllGatherV, Gather, GatherV:
		if (c.Code == Gather || c.Code == GatherV) && rank != c.Root {
			break
		}
		at := 0
		for r := range size {
			n := int(words[r].count)
			pull(at, r, 0, n)
			at += n
		}
	case Scatter:
		n := int(words[0].count)
		pull(0, c.Root, rank*n, n)
	case ScatterV:
		w, at := &words[c.Root], 0
		for r := range rank {
			at += w.at(r) * es
		}
		pull(0, c.Root, at, w.at(rank)*es)
	case AllToAll:
		n := int(words[0].count)
		for r := range size {
			pull(r*n, r, rank*n, n)
		}
	case AllToAllV:
		to := 0
		for r := range size {
			w, at := &words[r], 0
			for q := range rank {
				at += w.at(q) * es
			}
			n := w.at(rank) * es
			pull(to, r, at, n)
			to += n
		}
	}
}

// shows reports whether other ranks reach a rank's send and recv in a call.
func shows(c *Call, rank int) (send, recv bool) {
	root := rank == c.Root
	switch c.Code {
	case Reduce, Gather, GatherV:
		return true, root
	case Broadcast: // one buffer
		return root, !root
	case Scatter, ScatterV:
		return root, true
	}
	return true, true
}

// actors says for each rank who acts for it: the lowest rank on its GPU.
func actors(words []word) []int {
	acts := make([]int, len(words))
	first := map[[16]byte]int{}
	for r := range words {
		if _, ok := first[words[r].gpu]; !ok {
			first[words[r].gpu] = r
		}
		acts[r] = first[words[r].gpu]
	}
	return acts
}
