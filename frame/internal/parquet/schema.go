package parquet

import (
	"encoding/base64"
	"errors"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"

	"go.millstream.dev/internal/wire/arrowipc"
)

const (
	// maxColumns bounds the nodes of a schema, maxNesting their depth.
	maxColumns = 1 << 17
	maxNesting = 32
	// arrowKey is the key of the Arrow schema that Arrow libraries write: an IPC message in base64.
	arrowKey = "ARROW:schema"
)

// node is a node of the schema of a file.
type node struct {
	element  *element
	parent   *node
	children []*node
	leaf     int // number of the leaf column, -1 for groups
	// maxDef and maxRep are the levels of a value that is present.
	maxDef, maxRep uint8
	field          arrow.Field
	nest           *nest // of a nested column, nil for others
}

// path returns the names of the node and its parents.
func (n *node) path() string {
	if n.parent == nil || n.parent.parent == nil {
		return n.element.name
	}
	return n.parent.path() + "." + n.element.name
}

// leafRange returns the numbers of the leaf columns of a node.
func (n *node) leafRange() []int {
	if n.leaf >= 0 {
		return []int{n.leaf}
	}
	var out []int
	for _, c := range n.children {
		out = append(out, c.leafRange()...)
	}
	return out
}

// buildSchema makes the tree of the schema and the equivalent Arrow schema.
func (f *File) buildSchema() error {
	if len(f.meta.schema) == 0 || len(f.meta.schema) > maxColumns {
		return fmt.Errorf("schema of %d elements", len(f.meta.schema))
	}
	at := 0
	root, err := f.buildNode(nil, &at, 0)
	if err != nil {
		return err
	}
	if at != len(f.meta.schema) {
		return errors.New("schema has elements after its root")
	}
	f.fields = root.children
	hints := f.arrowHints()
	fields := make([]arrow.Field, len(root.children))
	for i, n := range root.children {
		if fields[i], err = n.arrowField(); err != nil {
			return err
		}
		if h, ok := hints[n.element.name]; ok {
			fields[i].Type = refine(fields[i].Type, h)
		}
		n.field = fields[i]
	}
	f.schema = arrow.NewSchema(fields, nil)
	return nil
}

func (f *File) buildNode(parent *node, at *int, depth int) (*node, error) {
	if *at >= len(f.meta.schema) {
		return nil, errors.New("schema ends within a group")
	}
	if depth > maxNesting {
		return nil, errors.New("schema is nested too deeply")
	}
	e := &f.meta.schema[*at]
	*at++
	n := &node{element: e, parent: parent, leaf: -1}
	if parent != nil {
		n.maxDef, n.maxRep = parent.maxDef, parent.maxRep
		switch e.repetition {
		case required:
		case optional:
			n.maxDef++
		case repeated:
			n.maxDef++
			n.maxRep++
		default:
			return nil, fmt.Errorf("column %q: repetition %d", e.name, e.repetition)
		}
	}
	if e.physical >= 0 && parent != nil {
		if e.physical > typeFixed {
			return nil, fmt.Errorf("column %q: physical type %d", e.name, e.physical)
		}
		if e.physical == typeFixed && (e.length <= 0 || e.length > 1<<20) {
			return nil, fmt.Errorf("column %q: values of %d bytes", e.name, e.length)
		}
		n.leaf = len(f.leaves)
		f.leaves = append(f.leaves, n)
		return n, nil
	}
	if e.children < 0 || int(e.children) > len(f.meta.schema) {
		return nil, fmt.Errorf("column %q: %d children", e.name, e.children)
	}
	for range e.children {
		c, err := f.buildNode(n, at, depth+1)
		if err != nil {
			return nil, err
		}
		n.children = append(n.children, c)
	}
	return n, nil
}

// arrowField returns the field of Arrow for a node.
func (n *node) arrowField() (arrow.Field, error) {
	field := arrow.Field{Name: n.element.name, Nullable: n.element.repetition == optional}
	var err error
	if n.leaf < 0 || n.element.repetition == repeated {
		if n.nest, err = nestOf(n); err != nil {
			return field, err
		}
		return n.nest.field, nil
	}
	field.Type, err = n.element.arrowType()
	if err != nil {
		err = fmt.Errorf("column %q: %w", n.path(), err)
	}
	return field, err
}

// arrowHints returns the fields of the Arrow schema that the writer had, by name, if the file has it. It adds what the
// types of Parquet do not have: time zones and durations.
func (f *File) arrowHints() map[string]arrow.Field {
	text := f.meta.keyValues[arrowKey]
	if text == "" {
		return nil
	}
	b, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil
	}
	s, batches, err := arrowipc.Read(b)
	for _, r := range batches {
		r.Release()
	}
	if err != nil {
		return nil
	}
	out := make(map[string]arrow.Field, s.NumFields())
	for _, field := range s.Fields() {
		out[field.Name] = field
	}
	return out
}

// refine returns a type with what the hint adds to it.
func refine(t arrow.DataType, hint arrow.Field) arrow.DataType {
	switch h := hint.Type.(type) {
	case *arrow.TimestampType:
		if t, ok := t.(*arrow.TimestampType); ok && t.TimeZone != "" && h.TimeZone != "" && t.Unit == h.Unit {
			return h
		}
	case *arrow.DurationType:
		if t.ID() == arrow.INT64 {
			return h
		}
	}
	return t
}

// arrowType returns the type of Arrow for a leaf.
func (e *element) arrowType() (arrow.DataType, error) {
	l := e.logicalType()
	switch e.physical {
	case typeBool:
		return arrow.FixedWidthTypes.Boolean, nil
	case typeInt32:
		return e.int32Type(l)
	case typeInt64:
		return e.int64Type(l)
	case typeInt96:
		return &arrow.TimestampType{Unit: arrow.Nanosecond}, nil
	case typeFloat:
		return arrow.PrimitiveTypes.Float32, nil
	case typeDouble:
		return arrow.PrimitiveTypes.Float64, nil
	}
	switch l.kind {
	case logicalDecimal:
		return decimalType(l)
	case logicalString, logicalEnum, logicalJSON:
		if e.physical == typeBytes {
			return arrow.BinaryTypes.String, nil
		}
	case logicalFloat16:
		if e.physical == typeFixed && e.length == 2 {
			return arrow.FixedWidthTypes.Float16, nil
		}
	}
	if e.physical == typeFixed {
		return &arrow.FixedSizeBinaryType{ByteWidth: int(e.length)}, nil
	}
	return arrow.BinaryTypes.Binary, nil
}

func (e *element) int32Type(l logical) (arrow.DataType, error) {
	switch l.kind {
	case logicalInteger:
		switch {
		case l.bits == 8 && l.signed:
			return arrow.PrimitiveTypes.Int8, nil
		case l.bits == 8:
			return arrow.PrimitiveTypes.Uint8, nil
		case l.bits == 16 && l.signed:
			return arrow.PrimitiveTypes.Int16, nil
		case l.bits == 16:
			return arrow.PrimitiveTypes.Uint16, nil
		case l.bits == 32 && !l.signed:
			return arrow.PrimitiveTypes.Uint32, nil
		}
	case logicalDate:
		return arrow.FixedWidthTypes.Date32, nil
	case logicalTime:
		return arrow.FixedWidthTypes.Time32ms, nil
	case logicalDecimal:
		return decimalType(l)
	}
	return arrow.PrimitiveTypes.Int32, nil
}

func (e *element) int64Type(l logical) (arrow.DataType, error) {
	switch l.kind {
	case logicalInteger:
		if l.bits == 64 && !l.signed {
			return arrow.PrimitiveTypes.Uint64, nil
		}
	case logicalTime:
		if l.unit == 3 {
			return arrow.FixedWidthTypes.Time64ns, nil
		}
		return arrow.FixedWidthTypes.Time64us, nil
	case logicalTimestamp:
		t := &arrow.TimestampType{Unit: arrow.Microsecond}
		switch l.unit {
		case 1:
			t.Unit = arrow.Millisecond
		case 3:
			t.Unit = arrow.Nanosecond
		}
		if l.utc {
			t.TimeZone = "UTC"
		}
		return t, nil
	case logicalDecimal:
		return decimalType(l)
	}
	return arrow.PrimitiveTypes.Int64, nil
}

func decimalType(l logical) (arrow.DataType, error) {
	if l.precision < 1 || l.precision > 76 || l.scale < 0 || l.scale > l.precision {
		return nil, fmt.Errorf("decimal of precision %d and scale %d", l.precision, l.scale)
	}
	if l.precision > 38 {
		return &arrow.Decimal256Type{Precision: l.precision, Scale: l.scale}, nil
	}
	return &arrow.Decimal128Type{Precision: l.precision, Scale: l.scale}, nil
}

// logicalType returns the logical type, of either form.
func (e *element) logicalType() logical {
	if e.logical.kind != logicalNone {
		return e.logical
	}
	switch e.converted {
	case 0:
		return logical{kind: logicalString}
	case 1, 2:
		return logical{kind: logicalMap}
	case 3:
		return logical{kind: logicalList}
	case 4:
		return logical{kind: logicalEnum}
	case 5:
		return logical{kind: logicalDecimal, scale: e.scale, precision: e.precision}
	case 6:
		return logical{kind: logicalDate}
	case 7, 8:
		return logical{kind: logicalTime, unit: int16(e.converted - 6), utc: true}
	case 9, 10:
		return logical{kind: logicalTimestamp, unit: int16(e.converted - 8), utc: true}
	case 11, 12, 13, 14:
		return logical{kind: logicalInteger, bits: int8(8 << (e.converted - 11))}
	case 15, 16, 17, 18:
		return logical{kind: logicalInteger, bits: int8(8 << (e.converted - 15)), signed: true}
	case 19:
		return logical{kind: logicalJSON}
	case 20:
		return logical{kind: logicalBSON}
	}
	return logical{}
}
