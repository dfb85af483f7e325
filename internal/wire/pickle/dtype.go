package pickle

import (
	"fmt"
	"strconv"
	"strings"
)

// DType is numpy's dtype.
type DType struct {
	// Kind is numpy's letter: b (bool), i, u, f, c, m (timedelta64), M (datetime64), S
	// (bytes), U (str), V (void, and records), O (objects).
	Kind byte
	// Order is '<', '>' or, if there is none, '|'.
	Order byte
	// ItemSize is the size of an item in bytes.
	ItemSize int
	// Unit is the unit of m and M: "ns", "25s"; "" for the generic one.
	Unit string
	// Fields are the fields of a record, in order.
	Fields []Field
	// Aligned reports whether the record has C's layout.
	Aligned bool
	// Base and SubShape are set for a field that is itself an array.
	Base     *DType
	SubShape []int
}

// Field is one field of a record.
type Field struct {
	Name   string
	DType  *DType
	Offset int
}

// String returns the dtype in the form of numpy's dtype.str: "<f8", "|S5", "<M8[ns]". A record is "|V12", without its
// fields.
func (d *DType) String() string {
	n := d.ItemSize
	if d.Kind == 'U' {
		n /= 4
	}
	s := string(rune(d.Order)) + string(rune(d.Kind)) + strconv.Itoa(n)
	if d.Kind == 'O' {
		s = "|O"
	}
	if d.Unit != "" {
		s += "[" + d.Unit + "]"
	}
	return s
}

// ParseDType parses the output of String, except for records.
func ParseDType(s string) (*DType, error) {
	bad := fmt.Errorf("pickle: %.40q is no dtype like \"<f8\"", s)
	if len(s) < 2 || len(s) > 64 {
		return nil, bad
	}
	d := &DType{Order: s[0], Kind: s[1]}
	switch {
	case d.Order == '=':
		d.Order = '<'
	case d.Order != '<' && d.Order != '>' && d.Order != '|':
		return nil, bad
	}
	rest, unit, found := strings.Cut(s[2:], "[")
	if found {
		if d.Unit, found = strings.CutSuffix(unit, "]"); !found || d.Kind != 'm' && d.Kind != 'M' {
			return nil, bad
		}
	}
	if d.Kind == 'O' {
		d.ItemSize = 8
		if rest != "" && rest != "8" {
			return nil, bad
		}
		return d, nil
	}
	n, err := strconv.ParseUint(rest, 10, 31)
	if err != nil || !d.setSize(int(n)) {
		return nil, bad
	}
	return d, nil
}

// setSize sets the size after the letter and checks that the type exists.
func (d *DType) setSize(n int) bool {
	d.ItemSize = n
	sizes := ""
	switch d.Kind {
	case 'b':
		sizes = "1"
	case 'i', 'u':
		sizes = "1 2 4 8"
	case 'f':
		sizes = "2 4 8 12 16"
	case 'c':
		sizes = "8 16 24 32"
	case 'm', 'M', 'O':
		sizes = "8"
	case 'S', 'V':
		return n >= 0
	case 'U':
		d.ItemSize = 4 * n
		return n >= 0 && n < 1<<28
	default:
		return false
	}
	for size := range strings.SplitSeq(sizes, " ") {
		if size == strconv.Itoa(n) {
			return true
		}
	}
	return false
}

// maxRecord bounds nested records; those of numpy have a few levels.
const maxRecord = 32

// dtype decodes numpy.dtype(text, align, copy) and its state (version, order, subdtype, names, fields, itemsize,
// alignment, flags[, metadata]).
func dtype(v Value, depth int) (*DType, bool) {
	o, ok := v.(*Object)
	if !ok || o.Kind != Reduce || len(o.Args) < 1 || len(o.Args) > 3 || depth > maxRecord || !o.onlySteps(Build) ||
		len(o.Steps) > 1 {
		return nil, false
	}
	if g, _ := o.Class(); !g.Is("numpy", "dtype") {
		return nil, false
	}
	if len(o.Steps) == 0 {
		switch spec := o.Args[0].(type) {
		case Tuple:
			d := new(DType)
			return d, d.setSub(spec, depth)
		case *Dict:
			return record(o, spec, depth)
		}
	}
	text, ok := o.Args[0].(string)
	if !ok || len(text) < 2 || len(text) > 20 {
		return nil, false
	}
	if len(o.Steps) == 0 {
		d, err := ParseDType(text)
		return d, err == nil
	}
	n, err := strconv.ParseUint(text[1:], 10, 31)
	d := &DType{Kind: text[0]}
	if err != nil || !d.setSize(int(n)) {
		return nil, false
	}
	state, ok := o.Steps[0].Value.(Tuple)
	if !ok || len(state) < 8 || len(state) > 9 {
		return nil, false
	}
	order, ok := state[1].(string)
	if !ok || order != "<" && order != ">" && order != "|" {
		return nil, false
	}
	d.Order = order[0]
	if size, ok := state[5].(int64); ok && size >= 0 && d.Kind != 'U' && d.Kind != 'O' {
		if size > 1<<31-1 {
			return nil, false
		}
		d.ItemSize = int(size)
	}
	if len(state) == 9 && (d.Kind == 'm' || d.Kind == 'M') {
		if d.Unit, ok = unit(state[8]); !ok {
			return nil, false
		}
	}
	if state[2] != nil && !d.setSub(state[2], depth) {
		return nil, false
	}
	if state[3] != nil && !d.setFields(state[3], state[4], depth) {
		return nil, false
	}
	if flags, ok := state[7].(int64); ok {
		d.Aligned = d.Fields != nil && flags&0x80 != 0
	}
	return d, true
}

// unit decodes (metadata, (b"ns", count, 1, 1)).
func unit(v Value) (string, bool) {
	meta, ok := v.(Tuple)
	if !ok || len(meta) != 2 {
		return "", false
	}
	t, ok := meta[1].(Tuple)
	if !ok || len(t) < 2 {
		return "", false
	}
	name, ok := AsBytes(t[0])
	count, okn := t[1].(int64)
	if !ok || !okn || len(name) > 8 || count < 1 || count > 1<<31 {
		return "", false
	}
	switch {
	case string(name) == "generic":
		return "", true
	case count == 1:
		return string(name), true
	}
	return strconv.FormatInt(count, 10) + string(name), true
}

// setSub decodes (dtype, shape) of a field that is an array.
func (d *DType) setSub(v Value, depth int) bool {
	t, ok := v.(Tuple)
	if !ok || len(t) != 2 {
		return false
	}
	base, ok := dtype(t[0], depth+1)
	if !ok {
		return false
	}
	shape, ok := shapeOf(t[1])
	d.Base, d.SubShape = base, shape
	if d.Kind == 0 { // not said elsewhere
		d.Kind, d.Order = 'V', '|'
		n, fits := elements(append([]int{base.ItemSize}, shape...))
		d.ItemSize, ok = n, ok && fits
	}
	return ok
}

// record decodes dtype({"names": …, "formats": …, "offsets": …, "itemsize": …}, align), the form of Append for records.
func record(o *Object, spec *Dict, depth int) (*DType, bool) {
	list := func(name string) []Value {
		v, _ := spec.Get(name)
		l, ok := v.(*List)
		if !ok {
			return nil
		}
		return l.Items
	}
	names, formats, offsets := list("names"), list("formats"), list("offsets")
	v, _ := spec.Get("itemsize")
	size, ok := v.(int64)
	if !ok || size < 0 || size > 1<<31-1 || len(names) != len(formats) || len(names) != len(offsets) ||
		len(names) > maxFields {
		return nil, false
	}
	d := &DType{Kind: 'V', Order: '|', ItemSize: int(size)}
	if len(o.Args) > 1 {
		d.Aligned, _ = o.Args[1].(bool)
	}
	fields := new(Dict)
	for i, n := range names {
		fields.Set(n, Tuple{formats[i], offsets[i]})
	}
	return d, d.setFields(Tuple(names), fields, depth)
}

// maxFields bounds the fields of one record.
const maxFields = 1 << 14

// setFields decodes names and {name: (dtype, offset[, title])}.
func (d *DType) setFields(names, fields Value, depth int) bool {
	list, ok1 := names.(Tuple)
	dict, ok2 := fields.(*Dict)
	if !ok1 || !ok2 || len(list) > maxFields {
		return false
	}
	d.Fields = make([]Field, 0, len(list))
	for _, n := range list {
		name, ok := n.(string)
		if !ok {
			return false
		}
		v, _ := dict.Get(name)
		t, ok := v.(Tuple)
		if !ok || len(t) < 2 {
			return false
		}
		sub, ok := dtype(t[0], depth+1)
		offset, oko := t[1].(int64)
		if !ok || !oko || offset < 0 || offset+int64(sub.ItemSize) > int64(d.ItemSize) {
			return false
		}
		d.Fields = append(d.Fields, Field{name, sub, int(offset)})
	}
	return true
}

func buildDType(_ *decoder, o *Object) (any, bool, error) {
	d, ok := dtype(o, 0)
	return d, ok, nil
}

// pickleTree returns numpy.dtype("<f8"), or for a record the dict form of numpy.dtype.
func (d *DType) pickleTree(int) (Value, error) {
	if d.Base != nil {
		base, err := d.Base.pickleTree(0)
		if err != nil {
			return nil, err
		}
		return Call(Global{"numpy", "dtype"}, Tuple{base, intTuple(d.SubShape)}), nil
	}
	if d.Fields == nil {
		return Call(Global{"numpy", "dtype"}, d.String()), nil
	}
	var names, formats, offsets []Value
	for _, f := range d.Fields {
		format, err := f.DType.pickleTree(0)
		if err != nil {
			return nil, err
		}
		names, formats, offsets = append(names, f.Name), append(formats, format), append(offsets, int64(f.Offset))
	}
	spec := NewDict("names", &List{names}, "formats", &List{formats}, "offsets", &List{offsets}, "itemsize",
		int64(d.ItemSize))
	return Call(Global{"numpy", "dtype"}, spec, d.Aligned), nil
}

func intTuple(n []int) Tuple {
	t := make(Tuple, len(n))
	for i, x := range n {
		t[i] = int64(x)
	}
	return t
}
