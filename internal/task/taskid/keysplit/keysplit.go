// Package keysplit finds the names of groups and functions in the keys of tasks, as Dask does.
package keysplit

import (
	"strings"

	"go.millstream.dev/internal/task/taskid"
)

// Group returns the name of a key's group, like Dask's key_split_group: the first part of a tuple, and the prefix of a
// string. It borrows from the key.
func Group(k taskid.Key) string {
	text, tuple := keyText(string(k))
	switch {
	case text == "":
		return "Other"
	case tuple:
		return text
	case text[0] == '(':
		head, _, _ := strings.Cut(text, ",")
		return strings.Trim(head, `()"'`)
	}
	return Prefix(text)
}

// keyText returns the text of a key, or that of the first part of a tuple, from its msgpack.
func keyText(k string) (text string, tuple bool) {
	if k != "" && k[0] >= 0x91 && k[0] <= 0x9f {
		k, tuple = k[1:], true
	}
	n, head := 0, 0
	switch {
	case k == "":
		return "", tuple
	case k[0] >= 0xa0 && k[0] <= 0xbf:
		n, head = int(k[0]&0x1f), 1
	case (k[0] == 0xd9 || k[0] == 0xc4) && len(k) > 1:
		n, head = int(k[1]), 2
	case k[0] == 0xda && len(k) > 2:
		n, head = int(k[1])<<8|int(k[2]), 3
	default: // numbers, and strings longer than 64 KiB
		return "", tuple
	}
	return k[head:min(head+n, len(k))], tuple
}

// Prefix returns the function's name within a key, like Dask's key_split: the words before the first that is a number
// or a hash.
func Prefix(text string) string {
	if text == "" {
		return "Other"
	}
	end := strings.IndexByte(text, '-')
	if end < 0 {
		end = len(text)
	}
	first := text[:end]
	if c := text[0] | 0x20; (c < 'a' || c > 'z') && c < 0x80 {
		first, _, _ = strings.Cut(first, ",")
		first = strings.Trim(first, `_'()"`)
	}
	start := end
	for end < len(text) {
		word := text[end+1:]
		if i := strings.IndexByte(word, '-'); i >= 0 {
			word = word[:i]
		}
		if !isAlpha(word) || len(word) == 8 && isHex(word) {
			break
		}
		end += 1 + len(word)
	}
	name := text[:end]
	if len(first) != start { // trimmed
		name = first + text[start:end]
	}
	switch {
	case len(name) == 32 && isHex(name):
		return "data"
	case name == "":
		return "Other"
	case name[0] == '<':
		name = strings.Trim(name, "<>")
		if i := strings.IndexByte(name, ' '); i >= 0 {
			name = name[:i]
		}
		return name[strings.LastIndexByte(name, '.')+1:]
	}
	return name
}

func isAlpha(w string) bool {
	for i := range len(w) {
		if c := w[i] | 0x20; (c < 'a' || c > 'z') && w[i] < 0x80 {
			return false
		}
	}
	return w != ""
}

func isHex(w string) bool {
	for i := range len(w) {
		if c := w[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return w != ""
}
