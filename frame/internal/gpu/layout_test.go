package gpu

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"

	"go.millstream.dev/frame/internal/group"
	"go.millstream.dev/internal/device/kernels"
	"go.millstream.dev/mem"
)

// The structures have the sizes of the parameters of the kernels, and every kernel that is launched exists with as many
// parameters.
func TestKernels(t *testing.T) {
	column, keys := int(unsafe.Sizeof(columnArg{})), int(unsafe.Sizeof(keysArg{}))
	groups, joins := int(unsafe.Sizeof(groupArg{})), int(unsafe.Sizeof(joinArg{}))
	for image, list := range map[string]map[string][]int{
		"table_rows": {
			"rows_gather_1": {8, 8, 8, 8, 8, 8}, "rows_gather_2": {8, 8, 8, 8, 8, 8},
			"rows_gather_4": {8, 8, 8, 8, 8, 8}, "rows_gather_8": {8, 8, 8, 8, 8, 8},
			"rows_unpack": {8, 8, 8}, "rows_pack": {8, 8, 8}, "rows_compare": {column, 8, 4, 8, 4, 8},
			"rows_count": {8, 8, 8}, "rows_scan": {8, 8}, "rows_select": {8, 8, 8, 8},
			"rows_part_count":   {keys, 8, 4, 8},
			"rows_part_scatter": {keys, 8, 4, 8, int(unsafe.Sizeof(movesArg{}))},
			"rows_random":       {8, 4, 4, 4, 8, 8, 8, 8, 8}, "rows_sum": {keys, 8, 8},
		},
		"table_group": {"group_clear": {groups}, "group_add": {groups}, "group_add_rows": {groups},
			"group_add_few": {groups}, "group_store": {int(unsafe.Sizeof(groupResultArg{}))}},
		"table_join": {"join_clear": {joins}, "join_insert": {joins}, "join_ranges": {joins}, "join_fill": {joins},
			"join_probe": {joins, 8, 8, 4, 8, 8, 8, 8}, "join_rest": {joins, 8}},
		"table_sort": {"sort_words": {column, 8, 8, 4, 8}, "sort_nulls": {column, 8, 8, 4, 8}, "sort_number": {8, 8},
			"sort_count": {8, 8, 8}, "sort_pass": {8, 8, 8, 4, 8, 8, 8, 8, 8}},
	} {
		ptx, err := kernels.PTX(image)
		if err != nil {
			t.Fatal(err)
		}
		for name, want := range list {
			if got := parameters(string(ptx), name); fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%s has parameters of %v bytes, launched with %v", name, got, want)
			}
		}
	}
}

var parameter = regexp.MustCompile(`\.param (?:\.align \d+ )?\.([a-z])(\d+) \w+(?:\[(\d+)\])?`)

// parameters returns the sizes of the parameters of a kernel.
func parameters(ptx, name string) []int {
	_, rest, _ := strings.Cut(ptx, ".entry "+name+"(")
	head, _, _ := strings.Cut(rest, ")")
	var sizes []int
	for _, m := range parameter.FindAllStringSubmatch(head, -1) {
		bits, _ := strconv.Atoi(m[2])
		n := bits / 8
		if m[3] != "" {
			n, _ = strconv.Atoi(m[3])
		}
		sizes = append(sizes, n)
	}
	return sizes
}

func TestSupported(t *testing.T) {
	for _, typ := range types {
		s := arrow.NewSchema([]arrow.Field{{Name: "x", Type: typ}}, nil)
		if err := Supported(s); err != nil {
			t.Errorf("%v: %v", typ, err)
		}
	}
	s := arrow.NewSchema([]arrow.Field{{Name: "n", Type: arrow.PrimitiveTypes.Int64}, {Name: "text",
		Type: arrow.BinaryTypes.String}}, nil)
	if err := Supported(s); err == nil || !strings.Contains(err.Error(), `"text"`) {
		t.Errorf("text: %v, want an error that names the column", err)
	}
	n := []group.Spec{{Func: group.Sum, Column: 0, Name: "s"}, {Func: group.CountAll, Name: "n"}}
	for _, c := range []struct {
		keys []int
		aggs []group.Spec
		ok   bool
	}{{[]int{0}, n, true}, {[]int{1}, n, false}, {nil, []group.Spec{{Func: group.Max, Column: 1}}, false},
		{nil, []group.Spec{{Func: group.Median, Column: 0}}, false}} {
		if err := GroupSupported(s, c.keys, c.aggs); (err == nil) != c.ok {
			t.Errorf("keys %v, aggregates %v: %v", c.keys, c.aggs, err)
		}
	}
}

// Keys are packed into a word as long as they and the bits of their nulls fit.
func TestKeyColumns(t *testing.T) {
	table := &Table{}
	for _, typ := range []arrow.DataType{arrow.PrimitiveTypes.Int32, arrow.PrimitiveTypes.Int64,
		arrow.FixedWidthTypes.Boolean} {
		table.Columns = append(table.Columns, Column{Type: typ, Data: mem.FromBytes(nil)})
	}
	for _, c := range []struct {
		keys   []int
		nulls  bool
		packed uint32
	}{{nil, true, 1}, {[]int{0}, true, 1}, {[]int{0, 0}, false, 1}, {[]int{0, 0}, true, 0}, {[]int{1}, false, 1},
		{[]int{1}, true, 0}, {[]int{1, 2}, false, 0}, {[]int{2, 0, 2}, true, 1}} {
		k, err := keyColumns("test", table, c.keys, func(int) bool { return c.nulls })
		if err != nil || k.packed != c.packed || int(k.count) != len(c.keys) {
			t.Errorf("keys %v: packed %d of %d, %v; want %d", c.keys, k.packed, k.count, err, c.packed)
		}
	}
	k, _ := keyColumns("test", table, []int{2, 0}, func(int) bool { return true })
	if k.shift != [8]uint8{0, 9} || k.width != [8]uint8{8, 32} || k.nullBit != [8]uint8{8, 41} {
		t.Errorf("bits %v of %v, nulls %v", k.shift, k.width, k.nullBit)
	}
	if _, err := keyColumns("test", table, make([]int, 9), func(int) bool { return false }); err == nil {
		t.Error("nine keys: want an error")
	}
	if _, err := New(Config{}); err == nil {
		t.Error("no memory: want an error")
	}
}
