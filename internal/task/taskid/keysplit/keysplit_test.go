package keysplit

import (
	"strings"
	"testing"

	"go.millstream.dev/internal/task/taskid"
)

// The results of key_split and key_split_group in Dask.
func TestKeySplit(t *testing.T) {
	for _, c := range []struct {
		key           any
		group, prefix string
	}{
		{"x", "x", "x"},
		{"x-1", "x", "x"},
		{"x-1-2-3", "x", "x"},
		{"x-abcdefab", "x", "x"},
		{"hello-world-1", "hello-world", "hello-world"},
		{"inc-0b3b4b2f8d4e4f5f8d4e4f5f8d4e4f5f", "inc", "inc"},
		{"ae05086432ca935f6eba409a8ecd4896", "data", "data"},
		{"<module.submodule.myclass object at 0xdaf372>", "myclass", "myclass"},
		{"_(x)", "x", "x"},
		{"_x_-foo-1", "x-foo", "x-foo"},
		{"('x-2', 1)", "x-2", "x"},
		{[]any{"x-2", 1}, "x-2", "x"},
		{[]any{"read-parquet-0c6b3b", 1, 2}, "read-parquet-0c6b3b", "read-parquet"},
		{[]byte("b-1"), "b", "b"},
		{int64(5), "Other", "Other"},
		{"", "Other", "Other"},
		{strings.Repeat("long", 20) + "-1", strings.Repeat("long", 20), strings.Repeat("long", 20)},
		{strings.Repeat("l", 300), strings.Repeat("l", 300), strings.Repeat("l", 300)},
		{"__", "Other", "Other"},
		{"-1", "Other", "Other"},
	} {
		k, err := taskid.KeyOf(c.key)
		if err != nil {
			t.Fatal(err)
		}
		group := Group(k)
		if group == "" {
			group = "Other"
		}
		if prefix := Prefix(group); group != c.group || prefix != c.prefix {
			t.Errorf("%v: got group %q, prefix %q, want %q, %q", c.key, group, prefix, c.group, c.prefix)
		}
	}
}

// Keys come from peers: any bytes must give a group.
func FuzzKeySplit(f *testing.F) {
	for _, s := range []string{"\xa3x-1", "\x92\xa1x\x01", "\xd9", "\xda\xff", "\xd9\xffab", "\x91", "", "\xa5<",
		"\xa3<.>", "\xa1(", "\xa2()"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		g := Group(taskid.Key(s))
		if len(g) > len(s)+5 {
			t.Errorf("group %q of %q: longer than the key", g, s)
		}
		Prefix(g)
	})
}
