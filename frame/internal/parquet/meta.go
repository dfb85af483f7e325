package parquet

// Physical types.
const (
	typeBool = iota
	typeInt32
	typeInt64
	typeInt96
	typeFloat
	typeDouble
	typeBytes
	typeFixed
)

// Codecs.
const (
	codecNone   = 0
	codecSnappy = 1
	codecGzip   = 2
	codecLZO    = 3
	codecBrotli = 4
	codecLZ4    = 5
	codecZstd   = 6
	codecLZ4Raw = 7
)

// Encodings.
const (
	encPlain       = 0
	encPlainDict   = 2
	encRLE         = 3
	encBitPacked   = 4
	encDelta       = 5
	encDeltaLength = 6
	encDeltaBytes  = 7
	encRLEDict     = 8
	encByteSplit   = 9
)

// Repetitions of a field.
const (
	required = 0
	optional = 1
	repeated = 2
)

// Types of pages.
const (
	pageData   = 0
	pageIndex  = 1
	pageDict   = 2
	pageDataV2 = 3
)

// Logical types, the fields of the union LogicalType.
const (
	logicalNone      = 0
	logicalString    = 1
	logicalMap       = 2
	logicalList      = 3
	logicalEnum      = 4
	logicalDecimal   = 5
	logicalDate      = 6
	logicalTime      = 7
	logicalTimestamp = 8
	logicalInteger   = 10
	logicalUnknown   = 11
	logicalJSON      = 12
	logicalBSON      = 13
	logicalUUID      = 14
	logicalFloat16   = 15
)

// metadata is the footer of a file.
type metadata struct {
	schema    []element
	rows      int64
	groups    []rowGroup
	keyValues map[string]string
	createdBy string
	ordered   bool // minima and maxima have the order of their types
	encrypted bool
}

// element is a node of the schema, in depth-first order.
type element struct {
	physical   int32 // -1 for groups
	length     int32
	repetition int32
	name       string
	children   int32
	converted  int32 // -1 for none
	scale      int32
	precision  int32
	logical    logical
}

// logical is a logical type.
type logical struct {
	kind      int16
	utc       bool
	unit      int16 // 1 ms, 2 µs, 3 ns
	bits      int8
	signed    bool
	scale     int32
	precision int32
}

type rowGroup struct {
	columns []columnChunk
	bytes   int64
	rows    int64
}

type columnChunk struct {
	path         string // another file
	physical     int32
	codec        int32
	values       int64
	uncompressed int64
	compressed   int64
	dataOffset   int64
	dictOffset   int64 // 0 for none
	stats        statistics
}

// statistics has encoded minima and maxima, nil if they are missing.
type statistics struct {
	min, max       []byte
	oldMin, oldMax []byte // of early versions, which did not define the order
	nulls          int64  // -1 if it is missing
}

type pageHeader struct {
	kind         int32
	uncompressed int32
	compressed   int32
	crc          int32
	hasCRC       bool
	values       int32
	encoding     int32
	defEncoding  int32
	repEncoding  int32
	nulls, rows  int32 // of version 2
	defBytes     int32
	repBytes     int32
	uncoded      bool // of version 2: the values are not compressed
}

func readMetadata(b []byte) (*metadata, error) {
	r := &thriftReader{b: b}
	m := &metadata{keyValues: map[string]string{}}
	r.structure(func(id int16, kind byte) {
		switch {
		case id == 2 && kind == tList:
			r.list(tStruct, 4, func() { m.schema = append(m.schema, readElement(r)) })
		case id == 3 && kind == tI64:
			m.rows = r.int64()
		case id == 4 && kind == tList:
			r.list(tStruct, 6, func() { m.groups = append(m.groups, readRowGroup(r)) })
		case id == 5 && kind == tList:
			r.list(tStruct, 4, func() { readKeyValue(r, m.keyValues) })
		case id == 6 && kind == tBinary:
			m.createdBy = r.string()
		case id == 7 && kind == tList:
			m.ordered = true
		case id == 8:
			m.encrypted = true
		}
	})
	return m, r.err
}

func readKeyValue(r *thriftReader, to map[string]string) {
	var key, value string
	r.structure(func(id int16, kind byte) {
		switch {
		case id == 1 && kind == tBinary:
			key = r.string()
		case id == 2 && kind == tBinary:
			value = r.string()
		}
	})
	to[key] = value
}

func readElement(r *thriftReader) element {
	e := element{physical: -1, converted: -1}
	r.structure(func(id int16, kind byte) {
		switch {
		case id == 1 && kind == tI32:
			e.physical = r.int32()
		case id == 2 && kind == tI32:
			e.length = r.int32()
		case id == 3 && kind == tI32:
			e.repetition = r.int32()
		case id == 4 && kind == tBinary:
			e.name = r.string()
		case id == 5 && kind == tI32:
			e.children = r.int32()
		case id == 6 && kind == tI32:
			e.converted = r.int32()
		case id == 7 && kind == tI32:
			e.scale = r.int32()
		case id == 8 && kind == tI32:
			e.precision = r.int32()
		case id == 10 && kind == tStruct:
			e.logical = readLogical(r)
		}
	})
	return e
}

func readLogical(r *thriftReader) (l logical) {
	r.structure(func(id int16, kind byte) {
		if kind != tStruct {
			return
		}
		l.kind = id
		r.structure(func(field int16, kind byte) {
			switch {
			case id == logicalDecimal && field == 1 && kind == tI32:
				l.scale = r.int32()
			case id == logicalDecimal && field == 2 && kind == tI32:
				l.precision = r.int32()
			case (id == logicalTime || id == logicalTimestamp) && field == 1:
				l.utc = kind == tTrue
			case (id == logicalTime || id == logicalTimestamp) && field == 2 && kind == tStruct:
				r.structure(func(unit int16, _ byte) { l.unit = unit })
			case id == logicalInteger && field == 1 && kind == tByte:
				l.bits = int8(r.byte())
			case id == logicalInteger && field == 2:
				l.signed = kind == tTrue
			}
		})
	})
	return l
}

func readRowGroup(r *thriftReader) (g rowGroup) {
	r.structure(func(id int16, kind byte) {
		switch {
		case id == 1 && kind == tList:
			// The smallest chunk with metadata has more bytes: this bounds the memory for those of a hostile file.
			r.list(tStruct, 16, func() { g.columns = append(g.columns, readColumnChunk(r)) })
		case id == 2 && kind == tI64:
			g.bytes = r.int64()
		case id == 3 && kind == tI64:
			g.rows = r.int64()
		}
	})
	return g
}

func readColumnChunk(r *thriftReader) columnChunk {
	c := columnChunk{physical: -1, stats: statistics{nulls: -1}}
	r.structure(func(id int16, kind byte) {
		switch {
		case id == 1 && kind == tBinary:
			c.path = r.string()
		case id == 3 && kind == tStruct:
			r.structure(func(id int16, kind byte) { readChunkField(r, &c, id, kind) })
		}
	})
	return c
}

func readChunkField(r *thriftReader, c *columnChunk, id int16, kind byte) {
	switch {
	case id == 1 && kind == tI32:
		c.physical = r.int32()
	case id == 4 && kind == tI32:
		c.codec = r.int32()
	case id == 5 && kind == tI64:
		c.values = r.int64()
	case id == 6 && kind == tI64:
		c.uncompressed = r.int64()
	case id == 7 && kind == tI64:
		c.compressed = r.int64()
	case id == 9 && kind == tI64:
		c.dataOffset = r.int64()
	case id == 11 && kind == tI64:
		c.dictOffset = r.int64()
	case id == 12 && kind == tStruct:
		c.stats = readStatistics(r)
	}
}

func readStatistics(r *thriftReader) statistics {
	s := statistics{nulls: -1}
	r.structure(func(id int16, kind byte) {
		switch {
		case id == 1 && kind == tBinary:
			s.oldMax = r.bytes()
		case id == 2 && kind == tBinary:
			s.oldMin = r.bytes()
		case id == 3 && kind == tI64:
			s.nulls = r.int64()
		case id == 5 && kind == tBinary:
			s.max = r.bytes()
		case id == 6 && kind == tBinary:
			s.min = r.bytes()
		}
	})
	return s
}

// readPageHeader returns the header of a page and its length.
func readPageHeader(b []byte) (h pageHeader, n int, err error) {
	r := &thriftReader{b: b}
	h.kind = -1
	r.structure(func(id int16, kind byte) {
		switch {
		case id == 1 && kind == tI32:
			h.kind = r.int32()
		case id == 2 && kind == tI32:
			h.uncompressed = r.int32()
		case id == 3 && kind == tI32:
			h.compressed = r.int32()
		case id == 4 && kind == tI32:
			h.crc, h.hasCRC = r.int32(), true
		case id == 5 && kind == tStruct:
			r.structure(func(id int16, kind byte) { readDataField(r, &h, id, kind) })
		case id == 7 && kind == tStruct:
			r.structure(func(id int16, kind byte) {
				switch {
				case id == 1 && kind == tI32:
					h.values = r.int32()
				case id == 2 && kind == tI32:
					h.encoding = r.int32()
				}
			})
		case id == 8 && kind == tStruct:
			r.structure(func(id int16, kind byte) { readDataV2Field(r, &h, id, kind) })
		}
	})
	return h, r.at, r.err
}

func readDataField(r *thriftReader, h *pageHeader, id int16, kind byte) {
	if kind != tI32 {
		return
	}
	switch id {
	case 1:
		h.values = r.int32()
	case 2:
		h.encoding = r.int32()
	case 3:
		h.defEncoding = r.int32()
	case 4:
		h.repEncoding = r.int32()
	}
}

func readDataV2Field(r *thriftReader, h *pageHeader, id int16, kind byte) {
	if id == 7 {
		h.uncoded = kind == tFalse
	}
	if kind != tI32 {
		return
	}
	switch id {
	case 1:
		h.values = r.int32()
	case 2:
		h.nulls = r.int32()
	case 3:
		h.rows = r.int32()
	case 4:
		h.encoding = r.int32()
	case 5:
		h.defBytes = r.int32()
	case 6:
		h.repBytes = r.int32()
	}
}
