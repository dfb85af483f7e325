package sqltext

import (
	"fmt"
	"strconv"
)

// Type is the type of a cast.
type Type struct {
	// Name is one of the names of this package: BOOLEAN, BIGINT, VARCHAR, …
	Name string
	// Precision and Scale are those of a DECIMAL.
	Precision, Scale int
}

// String returns the type as text.
func (t Type) String() string {
	if t.Name == "DECIMAL" {
		return fmt.Sprintf("DECIMAL(%d, %d)", t.Precision, t.Scale)
	}
	return t.Name
}

// typeNames maps the names of types to those that Type.Name has.
var typeNames = map[string]string{
	"bool": "BOOLEAN", "boolean": "BOOLEAN", "logical": "BOOLEAN",
	"tinyint": "TINYINT", "int1": "TINYINT",
	"smallint": "SMALLINT", "int2": "SMALLINT", "short": "SMALLINT", "int16": "SMALLINT",
	"int": "INTEGER", "integer": "INTEGER", "int4": "INTEGER", "signed": "INTEGER", "int32": "INTEGER",
	"bigint": "BIGINT", "int8": "BIGINT", "long": "BIGINT", "int64": "BIGINT",
	"utinyint": "UTINYINT", "usmallint": "USMALLINT", "uinteger": "UINTEGER", "ubigint": "UBIGINT",
	"uint8": "UTINYINT", "uint16": "USMALLINT", "uint32": "UINTEGER", "uint64": "UBIGINT",
	"real": "FLOAT", "float4": "FLOAT", "float": "FLOAT",
	"double": "DOUBLE", "float8": "DOUBLE",
	"decimal": "DECIMAL", "numeric": "DECIMAL", "dec": "DECIMAL",
	"varchar": "VARCHAR", "text": "VARCHAR", "string": "VARCHAR", "char": "VARCHAR", "bpchar": "VARCHAR",
	"character": "VARCHAR",
	"blob":      "BLOB", "bytea": "BLOB", "binary": "BLOB", "varbinary": "BLOB",
	"date":      "DATE",
	"timestamp": "TIMESTAMP", "datetime": "TIMESTAMP", "timestamptz": "TIMESTAMPTZ",
}

// typeName parses the name of a type.
func (p *parser) typeName() (Type, error) {
	t := p.peek()
	name, ok := typeNames[t.key]
	if t.kind != wordToken || !ok {
		if t.kind == wordToken && !reserved[t.key] {
			return Type{}, Unsupported(t.pos, "the type "+t.text)
		}
		return Type{}, p.expected("the name of a type")
	}
	p.at++
	out := Type{Name: name}
	switch t.key {
	case "double":
		p.accept("precision")
	case "character":
		p.accept("varying")
	}
	args, err := p.typeArguments()
	if err != nil {
		return Type{}, err
	}
	if name == "TIMESTAMP" {
		switch {
		case p.accept("with", "time", "zone"):
			out.Name = "TIMESTAMPTZ"
		case p.accept("without", "time", "zone"):
		}
	}
	if p.on("[") {
		return Type{}, Unsupported(p.peek().pos, "a list type")
	}
	switch {
	case name == "DECIMAL":
		return decimalType(t.pos, args)
	case len(args) > 0 && name != "VARCHAR" && name != "TIMESTAMP" && name != "FLOAT":
		return Type{}, Errorf(t.pos, "the type %s has no parameters", t.text)
	case len(args) > 1:
		return Type{}, Errorf(t.pos, "the type %s has one parameter, not %d", t.text, len(args))
	}
	return out, nil
}

func decimalType(pos Pos, args []int) (Type, error) {
	out := Type{Name: "DECIMAL", Precision: 18, Scale: 3} // as in DuckDB
	switch len(args) {
	case 0:
	case 1:
		out.Precision, out.Scale = args[0], 0
	case 2:
		out.Precision, out.Scale = args[0], args[1]
	default:
		return out, Errorf(pos, "DECIMAL has a precision and a scale, not %d parameters", len(args))
	}
	if out.Precision < 1 || out.Precision > 38 || out.Scale > out.Precision {
		return out, Errorf(pos, "%s is no type: the precision is 1 to 38, the scale at most the precision", out)
	}
	return out, nil
}

// typeArguments parses the optional numbers in parentheses after the name of a type.
func (p *parser) typeArguments() ([]int, error) {
	if !p.accept("(") {
		return nil, nil
	}
	var out []int
	for {
		t := p.peek()
		n, err := strconv.Atoi(t.text)
		if t.kind != integerToken || err != nil {
			return nil, p.expected("a number as the parameter of a type")
		}
		p.at++
		out = append(out, n)
		if !p.accept(",") {
			return out, p.expect(")", "after the parameters of a type")
		}
	}
}
