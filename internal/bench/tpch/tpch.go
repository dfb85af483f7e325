// Package tpch makes tables like those of the TPC-H benchmark, and has its queries. Rows depend only on their keys and
// the scale factor, so that any part of a table can be made on its own. The values are not those of the benchmark's own
// generator: domains and correlations are such that every query returns rows at small scale factors, too.
package tpch

import (
	"fmt"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// Names are the names of the tables.
var Names = []string{"region", "nation", "supplier", "part", "partsupp", "customer", "orders", "lineitem"}

var (
	money = &arrow.Decimal128Type{Precision: 15, Scale: 2}
	key   = arrow.PrimitiveTypes.Int64
	text  = arrow.BinaryTypes.String
	day   = arrow.FixedWidthTypes.Date32
)

// columns are names and types of the columns of the tables.
var columns = map[string][]arrow.Field{
	"region": {{Name: "r_regionkey", Type: key}, {Name: "r_name", Type: text}, {Name: "r_comment", Type: text}},
	"nation": {{Name: "n_nationkey", Type: key}, {Name: "n_name", Type: text}, {Name: "n_regionkey", Type: key},
		{Name: "n_comment", Type: text}},
	"supplier": {{Name: "s_suppkey", Type: key}, {Name: "s_name", Type: text}, {Name: "s_address", Type: text},
		{Name: "s_nationkey", Type: key}, {Name: "s_phone", Type: text}, {Name: "s_acctbal", Type: money},
		{Name: "s_comment", Type: text}},
	"part": {{Name: "p_partkey", Type: key}, {Name: "p_name", Type: text}, {Name: "p_mfgr", Type: text},
		{Name: "p_brand", Type: text}, {Name: "p_type", Type: text}, {Name: "p_size", Type: key},
		{Name: "p_container", Type: text}, {Name: "p_retailprice", Type: money}, {Name: "p_comment", Type: text}},
	"partsupp": {{Name: "ps_partkey", Type: key}, {Name: "ps_suppkey", Type: key}, {Name: "ps_availqty", Type: key},
		{Name: "ps_supplycost", Type: money}, {Name: "ps_comment", Type: text}},
	"customer": {{Name: "c_custkey", Type: key}, {Name: "c_name", Type: text}, {Name: "c_address", Type: text},
		{Name: "c_nationkey", Type: key}, {Name: "c_phone", Type: text}, {Name: "c_acctbal", Type: money},
		{Name: "c_mktsegment", Type: text}, {Name: "c_comment", Type: text}},
	"orders": {{Name: "o_orderkey", Type: key}, {Name: "o_custkey", Type: key}, {Name: "o_orderstatus", Type: text},
		{Name: "o_totalprice", Type: money}, {Name: "o_orderdate", Type: day}, {Name: "o_orderpriority", Type: text},
		{Name: "o_clerk", Type: text}, {Name: "o_shippriority", Type: key}, {Name: "o_comment", Type: text}},
	"lineitem": {{Name: "l_orderkey", Type: key}, {Name: "l_partkey", Type: key}, {Name: "l_suppkey", Type: key},
		{Name: "l_linenumber", Type: key}, {Name: "l_quantity", Type: money}, {Name: "l_extendedprice", Type: money},
		{Name: "l_discount", Type: money}, {Name: "l_tax", Type: money}, {Name: "l_returnflag", Type: text},
		{Name: "l_linestatus", Type: text}, {Name: "l_shipdate", Type: day}, {Name: "l_commitdate", Type: day},
		{Name: "l_receiptdate", Type: day}, {Name: "l_shipinstruct", Type: text}, {Name: "l_shipmode", Type: text},
		{Name: "l_comment", Type: text}},
}

// Schema returns the columns of a table.
func Schema(table string) *arrow.Schema { return arrow.NewSchema(columns[table], nil) }

// Scale has the sizes of the tables for a scale factor. 1 is about 1 GB.
type Scale struct{ suppliers, parts, customers, orders int64 }

// NewScale returns the sizes for a scale factor, which is at least 0.001.
func NewScale(factor float64) Scale {
	n := func(one float64) int64 { return max(10, int64(one*factor)) }
	return Scale{suppliers: n(10_000), parts: n(200_000), customers: n(150_000), orders: n(1_500_000)}
}

// Units returns the number of units of a table, of which Batch makes some. Units are rows, except those of partsupp,
// which are parts, and those of lineitem, which are orders.
func (s Scale) Units(table string) int64 {
	switch table {
	case "region":
		return int64(len(regions))
	case "nation":
		return int64(len(nations))
	case "supplier":
		return s.suppliers
	case "part", "partsupp":
		return s.parts
	case "customer":
		return s.customers
	}
	return s.orders
}

// Batch returns the rows of units from one to before another. The caller releases it.
func (s Scale) Batch(table string, from, to int64) arrow.RecordBatch {
	b := &rows{RecordBuilder: array.NewRecordBuilder(memory.DefaultAllocator, Schema(table))}
	defer b.Release()
	add := map[string]func(*rows, int64){"region": addRegion, "nation": addNation, "supplier": s.addSupplier,
		"part": s.addPart, "partsupp": s.addPartSupp, "customer": s.addCustomer, "orders": s.addOrder,
		"lineitem": s.addLines}[table]
	if add == nil {
		panic(fmt.Sprintf("tpch: no table %q", table))
	}
	for i := from; i < min(to, s.Units(table)); i++ {
		add(b, i)
	}
	return b.NewRecordBatch()
}

// rows appends rows to a batch.
type rows struct {
	*array.RecordBuilder
}

// put appends a row: int64, string, cents as money and time.Time as day.
func (b *rows) put(values ...any) {
	for i, v := range values {
		switch f := b.Field(i).(type) {
		case *array.Int64Builder:
			f.Append(v.(int64))
		case *array.StringBuilder:
			f.Append(v.(string))
		case *array.Decimal128Builder:
			f.Append(decimal128.FromI64(v.(int64)))
		case *array.Date32Builder:
			f.Append(arrow.Date32(v.(int64)))
		}
	}
}

// date returns the days from 1970 to a date.
func date(year int, month time.Month, day int) int64 {
	return time.Date(year, month, day, 0, 0, 0, 0, time.UTC).Unix() / 86400
}
