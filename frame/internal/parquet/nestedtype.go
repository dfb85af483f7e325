package parquet

import (
	"errors"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
)

// shape is how the slots of a node of the schema become an array.
type shape int

const (
	shapeLeaf shape = iota
	shapeStruct
	shapeList
	shapeMap
)

// nest is a node of a nested column: the form of Arrow of one or more nodes of the schema.
type nest struct {
	shape shape
	field arrow.Field
	// valid is the least definition level of a slot that is not null.
	valid uint8
	// def and rep are the levels of the elements of a list or map: an entry with at least this definition level and at
	// most this repetition level begins an element.
	def, rep uint8
	children []*nest // fields of a struct, or the elements of a list or map
	leaf     *node
}

// nestOf returns the form of a node.
func nestOf(n *node) (*nest, error) {
	if n.element.repetition == repeated { // a list without a node of its own
		e, err := elementOf(n)
		if err != nil {
			return nil, err
		}
		return listOf(n.element.name, false, n.parent.maxDef, n, e), nil
	}
	return n.form()
}

// form returns the form of a node without regard to its repetition.
func (n *node) form() (*nest, error) {
	nullable := n.element.repetition == optional
	if n.leaf >= 0 {
		dt, err := n.element.arrowType()
		if err != nil {
			return nil, fmt.Errorf("column %q: %w", n.path(), err)
		}
		return &nest{field: arrow.Field{Name: n.element.name, Type: dt, Nullable: nullable}, valid: n.maxDef,
			leaf: n}, nil
	}
	if len(n.children) == 0 {
		return nil, fmt.Errorf("column %q: group without columns", n.path())
	}
	kind := n.element.logicalType().kind
	if one := n.children[0]; len(n.children) == 1 && one.element.repetition == repeated {
		switch kind {
		case logicalList:
			e, err := n.listElement(one)
			if err != nil {
				return nil, err
			}
			return listOf(n.element.name, nullable, n.maxDef, one, e), nil
		case logicalMap:
			return n.mapNest(one, nullable)
		}
	}
	x := &nest{shape: shapeStruct, valid: n.maxDef}
	var fields []arrow.Field
	for _, c := range n.children {
		k, err := nestOf(c)
		if err != nil {
			return nil, err
		}
		x.children = append(x.children, k)
		fields = append(fields, k.field)
	}
	x.field = arrow.Field{Name: n.element.name, Type: arrow.StructOf(fields...), Nullable: nullable}
	return x, nil
}

// elementOf returns the form of an element that is a repeated node itself.
func elementOf(n *node) (*nest, error) {
	e, err := n.form()
	if err == nil {
		e.field.Nullable = false
	}
	return e, err
}

// listElement returns the form of the elements of a list by the rules of the format: the repeated node is a level of
// its own if it has one child, unless older writers gave it a name that says otherwise.
func (n *node) listElement(one *node) (*nest, error) {
	if one.leaf >= 0 || len(one.children) != 1 || one.element.name == "array" ||
		one.element.name == n.element.name+"_tuple" || one.children[0].element.repetition == repeated {
		return elementOf(one)
	}
	return nestOf(one.children[0])
}

func listOf(name string, nullable bool, valid uint8, repeats *node, e *nest) *nest {
	return &nest{shape: shapeList, valid: valid, def: repeats.maxDef, rep: repeats.maxRep, children: []*nest{e},
		field: arrow.Field{Name: name, Type: arrow.ListOfField(e.field), Nullable: nullable}}
}

// mapNest returns a map, or a list of structs if the keys may be null.
func (n *node) mapNest(entries *node, nullable bool) (*nest, error) {
	e, err := elementOf(entries)
	if err != nil {
		return nil, err
	}
	x := listOf(n.element.name, nullable, n.maxDef, entries, e)
	if e.shape == shapeStruct && len(e.children) == 2 && !e.children[0].field.Nullable {
		x.shape = shapeMap
		x.field.Type = arrow.MapOfFields(e.children[0].field, e.children[1].field)
	}
	return x, nil
}

// leaves returns the leaves below a nest, in order.
func (x *nest) leaves() []*nest {
	if x.shape == shapeLeaf {
		return []*nest{x}
	}
	var out []*nest
	for _, c := range x.children {
		out = append(out, c.leaves()...)
	}
	return out
}

// errLevels is returned for levels that contradict each other or the schema.
var errLevels = errors.New("levels of nested values contradict each other")
