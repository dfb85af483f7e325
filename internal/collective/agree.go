package collective

import "fmt"

// agree compares what the ranks have called, in the same way on every rank, and returns the first thing that is wrong.
func agree(parts []part) error {
	for r := range parts {
		if p := &parts[r]; p.flags&flagBad != 0 {
			return &MismatchError{Rank: r, Reason: fmt.Sprintf("rank %d calls %v wrongly: %s", r, p.code, p.inline)}
		}
	}
	first := &parts[0]
	for r := 1; r < len(parts); r++ {
		if reason := differ(first, &parts[r], r); reason != "" {
			return &MismatchError{Rank: r, Reason: reason}
		}
	}
	switch first.code {
	case callAllGatherV:
		for r := range parts {
			if reason := differentCounts(first, &parts[r], r); reason != "" {
				return &MismatchError{Rank: r, Reason: reason}
			}
		}
	case callGatherV, callScatterV:
		return agreeRooted(parts)
	case callAllToAllV:
		return agreeMatrix(parts)
	}
	return nil
}

func differ(a, b *part, r int) string {
	text := func(what string, x, y any) string {
		return fmt.Sprintf("%v: rank 0 has %s %v, rank %d has %v: all ranks must give the same", a.code, what, x, r, y)
	}
	switch {
	case a.code != b.code || a.seq != b.seq:
		return fmt.Sprintf("rank 0 calls %v (its %dth collective), rank %d calls %v (its %dth): all ranks must call the same collectives in the same order",
			a.code, a.seq+1, r, b.code, b.seq+1)
	case a.flags&flagDevice != b.flags&flagDevice:
		where := func(p *part) string {
			if p.flags&flagDevice != 0 {
				return "device memory"
			}
			return "host memory"
		}
		return text("buffers in", where(a), where(b))
	case a.kind != b.kind:
		return text("elements of", a.kind, b.kind)
	case a.op != b.op:
		return text("operation", a.op, b.op)
	case a.root != b.root:
		return text("root", a.root, b.root)
	}
	switch a.code {
	case callGatherV, callScatterV, callAllGatherV, callSetup: // these have a count of their own for each rank
		return ""
	}
	if es := uint64(a.kind.Size()); a.count != b.count {
		return fmt.Sprintf("%v: rank 0 has %d elements, rank %d has %d: all ranks must give the same number", a.code, a.count/es, r, b.count/es)
	}
	return ""
}

func differentCounts(a, b *part, r int) string {
	for i := range min(a.numbers(), b.numbers()) {
		if x, y := a.at(i), b.at(i); x != y {
			return fmt.Sprintf("%v: rank 0 has counts[%d] = %d, rank %d has %d: all ranks must give the same", a.code, i, x, r, y)
		}
	}
	return ""
}

func agreeRooted(parts []part) error {
	root := int(parts[0].root)
	es := uint64(parts[0].kind.Size())
	for r := range parts {
		if x, y := uint64(parts[root].at(r)), parts[r].count/es; x != y {
			return &MismatchError{Rank: r, Reason: fmt.Sprintf("%v: rank %d, the root, has counts[%d] = %d, rank %d has a buffer of %d elements",
				parts[0].code, root, r, x, r, y)}
		}
	}
	return nil
}

func agreeMatrix(parts []part) error {
	n := len(parts)
	for r := range parts {
		for to := range parts {
			if x, y := parts[r].at(to), parts[to].at(n+r); x != y {
				return &MismatchError{Rank: r, Reason: fmt.Sprintf("AllToAllV: rank %d sends %d elements to rank %d, which expects %d", r, x, to, y)}
			}
		}
	}
	return nil
}

// allInline reports whether every rank's data has come along with its header.
func allInline(parts []part) bool {
	for r := range parts {
		if parts[r].flags&flagInline == 0 {
			return false
		}
	}
	return true
}

// sound checks what a peer's header promises of its inline data and counts, before anybody relies on it.
func sound(parts []part) error {
	size := len(parts)
	for r := range parts {
		p := &parts[r]
		if p.flags&flagBad != 0 {
			continue
		}
		want := 0
		switch {
		case p.code == callAllGatherV, (p.code == callGatherV || p.code == callScatterV) && int(p.root) == r:
			want = size
		case p.code == callAllToAllV:
			want = 2 * size
		}
		if p.numbers() != want || !p.kind.Valid() || p.count > maxCount || p.root < 0 || int(p.root) >= size {
			return fmt.Errorf("rank %d sent a header that makes no sense", r)
		}
		if p.flags&flagInline != 0 && uint64(len(p.inline)) != p.contribution(r, size) {
			return fmt.Errorf("rank %d sent %d bytes with %v, not what its header says", r, len(p.inline), p.code)
		}
	}
	return nil
}
