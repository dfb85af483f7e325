package topology

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
)

// maxCPUs bounds processor numbers: the limit of Linux.
const maxCPUs = 8192

// CPUSet is an immutable set of processors. The zero value is empty.
type CPUSet struct{ words []uint64 }

// CPUs returns a set of the given processors.
func CPUs(cpus ...int) CPUSet {
	var s CPUSet
	for _, c := range cpus {
		s.add(c)
	}
	return s
}

// ParseCPUList parses Linux's form of a set, such as "0-3,8,10-11".
func ParseCPUList(text string) (CPUSet, error) {
	var s CPUSet
	text = strings.TrimSpace(text)
	if text == "" {
		return s, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		first, last, isRange := strings.Cut(strings.TrimSpace(part), "-")
		a, err := strconv.Atoi(first)
		b := a
		if err == nil && isRange {
			b, err = strconv.Atoi(last)
		}
		if err != nil || a < 0 || b < a || b >= maxCPUs {
			return CPUSet{}, fmt.Errorf("%q is not a list of processors such as 0-3,8", text)
		}
		for c := a; c <= b; c++ {
			s.add(c)
		}
	}
	return s, nil
}

func (s *CPUSet) add(c int) {
	if c < 0 || c >= maxCPUs {
		return
	}
	for len(s.words) <= c/64 {
		s.words = append(s.words, 0)
	}
	s.words[c/64] |= 1 << (c % 64)
}

// Has reports whether processor c is in the set.
func (s CPUSet) Has(c int) bool {
	return c >= 0 && c/64 < len(s.words) && s.words[c/64]>>(c%64)&1 == 1
}

// Len returns the number of processors.
func (s CPUSet) Len() int {
	n := 0
	for _, w := range s.words {
		n += bits.OnesCount64(w)
	}
	return n
}

// List returns the processors in order.
func (s CPUSet) List() []int {
	list := make([]int, 0, s.Len())
	for i, w := range s.words {
		for ; w != 0; w &= w - 1 {
			list = append(list, 64*i+bits.TrailingZeros64(w))
		}
	}
	return list
}

// And returns the intersection of both sets.
func (s CPUSet) And(o CPUSet) CPUSet {
	var both CPUSet
	for _, c := range s.List() {
		if o.Has(c) {
			both.add(c)
		}
	}
	return both
}

// Equal reports whether both have the same processors.
func (s CPUSet) Equal(o CPUSet) bool { return s.String() == o.String() }

// String returns Linux's form, such as "0-3,8"; empty for the empty set.
func (s CPUSet) String() string {
	var text strings.Builder
	list := s.List()
	for i := 0; i < len(list); {
		j := i
		for j+1 < len(list) && list[j+1] == list[j]+1 {
			j++
		}
		if text.Len() > 0 {
			text.WriteByte(',')
		}
		text.WriteString(strconv.Itoa(list[i]))
		if j > i {
			text.WriteByte('-')
			text.WriteString(strconv.Itoa(list[j]))
		}
		i = j + 1
	}
	return text.String()
}
