package main

// kind specifies how fields of a type are read and written. $ stands for the field.
type kind struct {
	options []string
	// read is a statement that reads from r and sets err. The other forms are for required fields, and for fields that
	// accept any value.
	read, readRequired, readLenient string
	// empty is true for a zero value, present for any other; "" if the field cannot be omitted.
	empty, present string
	// append is a statement that appends to body, appendNil that for a field with the option nil. frames is set if it
	// appends to the buffer b instead.
	append, appendNil string
	frames            bool
	// reset is the value of the field before a message is read, "" for the zero value.
	reset string
}

// kinds are the types of fields.
var kinds = map[string]kind{
	"Key": {
		options: []string{"required", "omitempty", "nil"}, empty: `$ == ""`, present: `$ != ""`,
		read: "if !r.TryNil() {\n$, err = readKey(&r)\n}", readRequired: "$, err = readKey(&r)",
		append: "body = append(body, $...)", appendNil: "body = appendKey(body, $)",
	},
	"[]Key": {
		options: []string{"required", "omitempty"}, empty: "len($) == 0", present: "len($) > 0", reset: "$[:0]",
		read: "$, err = readKeys(&r, $)", append: "body = AppendKeys(body, $)",
	},
	"string": {
		options: []string{"required", "omitempty", "nil", "lenient"}, empty: `$ == ""`, present: `$ != ""`,
		read: "$, err = readText(&r)", readLenient: "$, err = readAnyText(&r)",
		append:    "body = msgpack.AppendString(body, $)",
		appendNil: "body = appendText(body, $)",
	},
	"[]byte": {
		options: []string{"required", "omitempty"}, empty: "$ == nil", present: "$ != nil",
		read: "$, err = readBytes(&r)", append: "body = appendBytes(body, $)",
	},
	"Raw": {
		options: []string{"required", "omitempty"}, empty: "$ == nil", present: "$ != nil",
		read: "$, err = readRaw(&r)", append: "body = appendRaw(body, $)",
	},
	"int64": {
		options: []string{"required", "omitempty", "none", "min"}, empty: "$ == 0", present: "$ != 0",
		read: "if !r.TryNil() {\n$, err = r.ReadInt()\n}", readRequired: "$, err = r.ReadInt()",
		append: "body = msgpack.AppendInt(body, $)",
	},
	"[]int64": {
		options: []string{"required", "omitempty"}, empty: "len($) == 0", present: "len($) > 0", reset: "$[:0]",
		read: "$, err = readSizes(&r, $)", append: "body = appendSizes(body, $)",
	},
	"bool": {
		options: []string{"required", "omitempty"}, empty: "!$", present: "$",
		read: "if !r.TryNil() {\n$, err = r.ReadBool()\n}", readRequired: "$, err = r.ReadBool()",
		append: "body = msgpack.AppendBool(body, $)",
	},
	"float64": {
		options: []string{"required", "omitempty", "none"}, empty: "$ == 0", present: "$ != 0",
		read: "if !r.TryNil() {\n$, err = r.ReadFloat()\n}", readRequired: "$, err = r.ReadFloat()",
		append: "body = msgpack.AppendFloat(body, $)",
	},
	"Object": {
		options: []string{"omitempty"}, present: "!$.empty()",
		read: "err = $.read(&r)", append: "$.append(b)", frames: true,
	},
	"[]string": {
		options: []string{"omitempty", "lenient"}, present: "$ != nil", reset: "$[:0]",
		read: "$, err = readTexts(&r, $)", readLenient: "$, err = readAnyTexts(&r, $)",
		append: "body = appendTexts(body, $)",
	},
	"KeyList":    {read: "err = $.read(&r)", append: "body = $.append(body)"},
	"StartStops": {read: "err = $.read(&r)", append: "body = $.append(body)"},
}

// partKind returns the kind of fields that are a part, whose type is comparable if the field has the option omitempty.
func partKind(name string) kind {
	return kind{
		options: []string{"omitempty"}, present: "$ != (" + name + "{})",
		read: "if !r.TryNil() {\nerr = $.read(&r)\n}", append: "body = $.append(body)",
	}
}

// partsKind returns the kind of fields that are lists of parts.
func partsKind(name string) kind {
	return kind{
		options: []string{"omitempty"}, present: "len($) > 0", reset: "$[:0]",
		read: "$, err = read" + name + "List(&r, $)", append: "body = append" + name + "List(body, $)",
	}
}
