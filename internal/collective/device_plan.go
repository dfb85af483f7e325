package collective

import "slices"

// A plan lists what each rank does in a collective on device memory that all ranks can access: copies, and reductions
// of a range of the buffers of all ranks. Ranks need not wait for each other between the start, when all buffers are
// ready, and the end, when all ranks are done: no rank writes memory that another one reads or writes.
//
// Ranks that share a GPU share its memory bandwidth, and the GPU takes a hundred microseconds or more to switch between
// processes. So the lowest of these ranks does the work of all.

// place is a range of the buffer of a rank, in bytes.
type place struct {
	rank  int
	recv  bool // in its recv buffer, else in its send buffer
	at, n int
}

// copyStep copies between two places of equal length.
type copyStep struct{ dst, src place }

// foldStep reduces places in order and stores the result in all targets. All have the same length.
type foldStep struct{ dsts, srcs []place }

type plan struct {
	copies []copyStep
	folds  []foldStep
}

// alignedPart is the alignment of the parts of a reduction, in elements, for wide loads.
const alignedPart = 64

// calls are the calls of the ranks, as far as plans need them.
type calls []part

// cloneParts copies the parts of a group, which its next exchange overwrites.
func cloneParts(parts []part) calls {
	list := slices.Clone(parts)
	for r := range list {
		list[r].counts, list[r].inline = slices.Clone(list[r].counts), nil
	}
	return list
}

// planOf returns the plan of a rank for a call. acts has the rank that acts for each rank; a rank that acts for another
// acts for itself.
func planOf(c *Call, words calls, rank int, acts []int) plan {
	var p plan
	actors := 0 // place is the number of actors before rank
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

// share adds part i of n of a reduction whose result is not divided among ranks.
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

// forRank adds the work for the result of one rank.
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

// exposes reports whether other ranks access the send and recv buffers of a rank in a call.
func exposes(c *Call, rank int) (send, recv bool) {
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

// actors returns for each rank the rank that acts for it: the lowest rank on its GPU.
func actors(infos []deviceInfo) []int {
	acts := make([]int, len(infos))
	first := map[[16]byte]int{}
	for r := range infos {
		if _, ok := first[infos[r].gpu]; !ok {
			first[infos[r].gpu] = r
		}
		acts[r] = first[infos[r].gpu]
	}
	return acts
}
