package order

import (
	"math/bits"
	"slices"
)

// item is a row with the word that it is sorted by.
type item struct {
	word uint64
	row  int32
}

const (
	smallSort  = 24   // items sorted by insertion
	mediumSort = 4096 // items divided by 8 bits at a time, more by 11
)

// sortItems sorts items by their words, stably. It uses tmp, which is as long.
func sortItems(items, tmp []item) { radixSort(items, tmp[:len(items)], false) }

// radixSort sorts the items in a, from their highest bit that differs. They end in b if toB, in a otherwise.
func radixSort(a, b []item, toB bool) {
	if len(a) <= smallSort {
		insertionSort(a)
		if toB {
			copy(b, a)
		}
		return
	}
	var differ uint64
	for _, x := range a {
		differ |= x.word ^ a[0].word
	}
	if differ == 0 {
		if toB {
			copy(b, a)
		}
		return
	}
	if len(a) <= mediumSort {
		var ends [1 << 8]int32
		divide(a, b, toB, bits.Len64(differ), 8, ends[:])
		return
	}
	var ends [1 << 11]int32
	divide(a, b, toB, bits.Len64(differ), 11, ends[:])
}

// divide moves the items of a to b by digit bits below the bit top, and sorts each part.
func divide(a, b []item, toB bool, top, digit int, ends []int32) {
	shift := max(top-digit, 0)
	mask := uint64(len(ends) - 1)
	for _, x := range a {
		ends[x.word>>shift&mask]++
	}
	sum := int32(0)
	for i, n := range ends {
		ends[i] = sum
		sum += n
	}
	for _, x := range a {
		d := x.word >> shift & mask
		b[ends[d]] = x
		ends[d]++
	}
	if shift == 0 {
		if !toB {
			copy(a, b)
		}
		return
	}
	from := int32(0)
	for _, to := range ends {
		if to > from {
			radixSort(b[from:to], a[from:to], !toB)
		}
		from = to
	}
}

func insertionSort(a []item) {
	for i := 1; i < len(a); i++ {
		x := a[i]
		j := i
		for ; j > 0 && a[j-1].word > x.word; j-- {
			a[j] = a[j-1]
		}
		a[j] = x
	}
}

// sortPacked sorts words that have a key above the lowest low bits and the number of a row, from 0 in order, in these.
// It returns the slice with the result, which is one of both.
func sortPacked(words, tmp []uint64, low, keyBits int) []uint64 {
	if keyBits == 0 {
		return words
	}
	if len(words) < 256 {
		slices.Sort(words)
		return words
	}
	passes := (keyBits + 10) / 11
	digit := (keyBits + passes - 1) / passes
	mask := uint64(1)<<digit - 1
	counts := make([]int32, passes<<digit)
	for _, w := range words {
		w >>= low
		for p := range passes {
			counts[uint64(p)<<digit|w&mask]++
			w >>= digit
		}
	}
	for p := range passes {
		ends := counts[p<<digit : (p+1)<<digit]
		sum, used := int32(0), 0
		for i, n := range ends {
			if n > 0 {
				used++
			}
			ends[i] = sum
			sum += n
		}
		if used == 1 {
			continue
		}
		shift := low + p*digit
		for _, w := range words {
			d := w >> shift & mask
			tmp[ends[d]] = w
			ends[d]++
		}
		words, tmp = tmp, words
	}
	return words
}
